"""Knowledge: everything released so far, indexed for lookup. It is free and touches no data.

Residuals and tables answer all counts over their classes; a limited number of single answers is combined by exact
linear algebra. Purchases are tracked too, for the rent-or-buy rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations, repeat
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dodona.answer.laws import ErrorLaw, GaussianSumBound, JointLaw, NoiseSum
from dodona.knowledge.asked import BundleLevel, SingleAnswers, ordered_columns
from dodona.knowledge.derive import BestCombination, Derivation
from dodona.knowledge.joint import joint_law
from dodona.knowledge.patterns import (
    BlockMeasurement,
    CountPattern,
    KnownValues,
    find_pattern,
    noise_variance,
    refine_pattern,
)
from dodona.knowledge.residuals import ResidualStore
from dodona.knowledge.summed import (
    MOST_GROUPS,
    FollowedValues,
    Pattern,
    SumPattern,
    find_patterns,
    follow,
    group_products,
    key_places,
)
from dodona.knowledge.tables import CountTable, RowCount
from dodona.ledger.entries import Receipt
from dodona.privacy.additive_noise import Gaussian, Noise, NormalNoise
from dodona.privacy.measurement import Measurement, ResidualMeasurement, ResidualVariance
from dodona.query.predicate import EVERYTHING, NOTHING, And
from dodona.query.query import ONE, Block, ConstantWeight, weight_range
from dodona.query.residual import Classes
from dodona.schema.schema import Domain

# --- Learned releases, in order: the input of the prediction model. ---


@dataclass(frozen=True, slots=True)
class LearnedBlock:
    """The noisy counts of one block of a release."""

    receipt: str
    block: Block
    values: tuple[int, ...]
    noise: Noise
    classes: tuple[Classes, ...] | None
    """Of a whole table of counts, in the order of its keys."""

    @property
    def single(self) -> bool:
        """Whether it is a single count."""
        return not self.block.keys


@dataclass(frozen=True, slots=True)
class LearnedMarginal:
    """Classes whose counts follow from residuals."""

    classes: tuple[Classes, ...]


# --- Knowledge: the single store of everything released. ---


_ALL_ROWS = CountPattern((), ())
_MOST_SINGLE = 1 << 12  # released blocks whose numbers are found again one by one, and the first ones combined
_MOST_VALUES = 256  # values per block


class BlockDemand(Protocol):
    """A block and its accuracy requirement."""

    @property
    def block(self) -> Block:
        """The block."""
        ...

    def met(self, known: KnownValues) -> bool:
        """Return whether the known values are accurate enough."""
        ...


@dataclass(slots=True)
class Knowledge:
    """Everything that follows from all releases of one version of a dataset."""

    domain: Domain
    rows: RowCount | None = None
    """The number of rows, where it is public or was released."""
    normal: type[NormalNoise] = Gaussian
    """The normal noise of residuals that are yet to be bought."""
    residuals: ResidualStore = field(init=False)
    tables: list[CountTable] = field(default_factory=list)
    asked: SingleAnswers = field(init=False)
    learned: list[LearnedBlock | LearnedMarginal] = field(default_factory=list)
    """All counts that were released, in their order."""
    _derivation: Derivation = field(init=False)
    _combined: int = 0

    def __post_init__(self) -> None:
        """Start with no releases."""
        self.asked = SingleAnswers(ordered=ordered_columns(self.domain))
        self.begin(None)

    def begin(self, total: int | None) -> None:
        """Set the number of rows if it is public, before the first release."""
        self.rows = None if total is None else RowCount(float(total))
        self.residuals = ResidualStore(total=total, law=self.normal)
        self._derivation = Derivation(self.domain, total=total)

    def add(self, receipt: Receipt, measured: Measurement | ResidualMeasurement, values: Sequence[int]) -> None:
        """Add a release of either kind."""
        if isinstance(measured, ResidualMeasurement):
            self.learn_residuals(receipt, measured, values)
        else:
            self.learn(receipt, measured, values)

    def learn(self, receipt: Receipt, measured: Measurement, values: Sequence[int]) -> None:
        """Add a release."""
        start, blocks = 0, measured.query.blocks
        counts = all(block.weight == ONE for block in blocks)
        sums: list[SumPattern | None] = [None] * len(blocks) if counts else find_patterns(blocks, self.domain)
        totals = {(block.where, block.keys): pattern for block, pattern in zip(blocks, sums, strict=True) if pattern}
        for block, noise, pattern in zip(blocks, measured.noises, sums, strict=True):
            total = totals.get((block.where, block.keys)) if pattern is None and totals else None
            self._learn_block(receipt, measured, block, noise, values[start : start + block.values], pattern, total)
            start += block.values

    def learn_residuals(self, receipt: Receipt, measured: ResidualMeasurement, values: Sequence[int]) -> None:
        """Add a release of residuals."""
        start = 0
        for residual, variance in measured.parts:
            self.residuals.add(residual, values[start : start + residual.number], variance, measured.law)
            start += residual.number
        sets = [tuple(classing.plain for classing in residual.classes) for residual, _ in measured.parts]
        counted = [
            classes for classes, (residual, _) in zip(sets, measured.parts, strict=True) if residual.summed is None
        ]
        self.learned.extend(map(LearnedMarginal, _maximal_sets(counted)))
        widest = max(sets, key=len)
        classes = [classing for residual, _ in measured.parts for classing in residual.classes]
        names = frozenset(classing.attribute for classing in classes if not classing.base.sums)
        wide = receipt.purpose.endswith(f" {BundleLevel.LATTICE.name}")
        level = BundleLevel.LATTICE if wide else BundleLevel.SCOPE_LATTICE
        summed = frozenset((classing.attribute, classing.base) for classing in classes if classing.base.sums)
        self.asked.bought(
            level,
            names,
            CountPattern(widest, tuple(1 for _ in widest)),
            receipt.event,
            variance_of=self._variance_of,
            summed=summed,
        )

    def _variance_of(self, pattern: CountPattern) -> float | None:
        """Return the variance of a product as it follows from residuals; None if it does not."""
        for candidate in (pattern, refine_pattern(pattern, self.domain)):
            known = None if candidate is None else self.residuals.lookup(candidate)
            if known is not None:
                return max(law.variance for law in known.laws if isinstance(law, GaussianSumBound | NoiseSum))
        return None

    @property
    def changes(self) -> tuple[object, ...]:
        """What a release changes that adds more to this than one more rent of a kind that was paid before."""
        return self.asked.changes, len(self.tables), self.residuals.version, self._combined, self.rows

    @property
    def combines(self) -> bool:
        """Whether there are single answers to combine."""
        return self._combined > 0

    @property
    def counts_classes(self) -> bool:
        """Whether tables or residuals were released, from which all counts over their classes follow."""
        return bool(self.tables) or self.residuals.version > 0

    def pattern(self, block: Block) -> CountPattern | None:
        """Return the count pattern of a block."""
        return find_pattern(block, self.domain)

    def lookup_all(
        self, wanted: Iterable[BlockDemand], patterns: Sequence[Pattern | None]
    ) -> Iterator[KnownValues | None]:
        """Yield the result of `lookup` for each block; residuals are looked up for all products together."""
        some = len(self.residuals) > 1  # more than just the number of rows
        products = {
            place: pattern
            for place, pattern in enumerate(patterns)
            if isinstance(pattern, CountPattern) and pattern.sets
        }
        estimates = self.residuals.lookup_all([*products.values()]) if some else repeat(None)
        for place, (demand, pattern) in enumerate(zip(wanted, patterns, strict=True)):
            estimate = next(estimates) if place in products else None
            if estimate is not None and demand.met(estimate):
                yield estimate
            else:
                yield self.lookup(demand.block, pattern, demand.met, beside_residuals=estimate is not None)

    def lookup(
        self,
        block: Block,
        pattern: Pattern | None,
        enough: Callable[[KnownValues], bool],
        *,
        beside_residuals: bool = False,
    ) -> KnownValues | None:
        """Return a block's values as they follow from released tables and residuals, if accurate enough.

        With `beside_residuals`, residuals are skipped because they were already looked up.
        """
        if block.about_people:  # numbers of people do not add up over cells
            return None
        if isinstance(pattern, SumPattern):
            summed = self.follow(block, pattern)
            if summed is not None and enough(summed.known):
                return summed.known
            pattern = None
        ways = [self._exactly, self._from_residuals, self._from_tables, self._as_released]
        if beside_residuals:
            ways.remove(self._from_residuals)
        return next((known for way in ways for known in way(block, pattern) if enough(known)), None)

    def follow(self, block: Block, pattern: Pattern) -> FollowedValues | None:
        """Return the counts or sums of a block as they follow from residuals alone."""
        if block.about_people or (len(self.residuals) < 2 and pattern != _ALL_ROWS):  # noqa: PLR2004  the number of rows alone
            return None
        return follow(self.residuals, block, pattern, self.domain)

    def joint_law(self, followed: Sequence[FollowedValues | None], pairs: Iterable[tuple[int, int]]) -> JointLaw:
        """Return how blocks that follow from residuals vary together, for the pairs that are named."""
        return joint_law(self.residuals, followed, pairs)

    def combine(self, block: Block, enough: Callable[[KnownValues], bool]) -> KnownValues | None:
        """Return a block's values as a combination of single answers, if accurate enough.

        This is the slow path, and the only one that may run while another thread adds releases.
        """
        if block.about_people or not self.combines or block.values > _MOST_VALUES:
            return None
        for way in (self._derivation.recall_blocks, self._derivation.derive_blocks):
            derived = way((block,))
            if derived is None:
                continue
            values = [
                int(combination.value) if combination.value.denominator == 1 else float(combination.value)
                for combination in derived
            ]
            known = KnownValues(values, tuple(map(_law_of, derived)))
            if enough(known):
                return known
        return None

    def expecting(self, measured: Measurement | Sequence[ResidualVariance], *, fixed: bool) -> Knowledge:
        """Return the knowledge after a table or residuals whose values are unknown: error laws do not depend on them.

        If the number of rows is public (`fixed`), it counts as known even before it is read.
        """
        knowledge = Knowledge(self.domain, normal=self.normal)
        knowledge.rows = RowCount(0.0) if self.rows is None and fixed else self.rows
        knowledge.residuals = self.residuals.expecting(
            () if isinstance(measured, Measurement) else measured, fixed=fixed
        )
        if isinstance(measured, Measurement):
            for block, noise in zip(measured.query.blocks, measured.noises, strict=True):
                pattern = self.pattern(block)
                if pattern is not None and pattern.grouped:
                    classes = _classes_in_key_order(block, pattern)
                    knowledge.tables.append(CountTable(classes, np.zeros(block.values), noise, ""))
                elif _counts_all(block):
                    knowledge._count_rows(0, noise)
        return knowledge

    def of_bundle(self, receipt: str, *, residuals: bool) -> Knowledge | None:
        """Return what the bundle of a receipt answers from: residuals, or its table; None if it bought no table.

        As `expecting` does before the purchase, this leaves out single answers.
        """
        knowledge = Knowledge(self.domain, normal=self.normal)
        knowledge.rows = self.rows
        if residuals:
            knowledge.residuals = self.residuals
            return knowledge
        knowledge.tables += [table for table in self.tables if table.receipt == receipt]
        return knowledge if knowledge.tables else None

    @property
    def public_rows(self) -> int | None:
        """The number of rows, where it is public."""
        return None if self.rows is None or self.rows.noise is not None else int(self.rows.value)

    def exact(self, block: Block) -> KnownValues | None:
        """Return the values of a block that no row can change: it selects no rows, or counts all of a public number.

        Theorem: public-rows
        """
        weight = block.weight
        if not may_be_exact(block):
            return None
        if _adds_nothing(block):
            return KnownValues([0.0] * block.values, (NoiseSum(()),))
        if not has_constant_weight(block) or not isinstance(weight, ConstantWeight):
            return None
        if self.rows is None or self.rows.noise is not None:
            return None
        return KnownValues((self.rows.value * weight.number,), (NoiseSum(()),))

    def _exactly(self, block: Block, _facet: CountPattern | None) -> Iterator[KnownValues]:
        known = self.exact(block)
        if known is not None:
            yield known

    def _from_residuals(self, block: Block, pattern: CountPattern | None) -> Iterator[KnownValues]:
        if pattern is None or (pattern.classes and len(self.residuals) < 2):  # noqa: PLR2004  the number of rows alone
            return
        if pattern.grouped:
            cells = self.residuals.cells(pattern)
            if cells is not None:
                yield KnownValues(_cells_in_key_order(np.asarray(cells.values), block, pattern), cells.laws)
            return
        if pattern.filters is not None:
            yield from self._each_group(block, pattern)
            return
        known = self.residuals.lookup(pattern)
        if known is None:
            finer = refine_pattern(pattern, self.domain)
            known = None if finer is None else self.residuals.lookup(finer)
        if known is not None:
            yield known

    def _each_group(self, block: Block, pattern: CountPattern) -> Iterator[KnownValues]:
        """Yield the groups of some rows, each a product, in the order of the keys: the last one varies fastest."""
        if block.values > MOST_GROUPS:
            return
        groups = group_products(block, pattern)
        known = [*self.residuals.lookup_all(groups)]
        if None in known:
            finer = [refine_pattern(group, self.domain) or group for group in groups]
            known = [*self.residuals.lookup_all(finer)]
        estimates = [estimate for estimate in known if estimate is not None]
        if len(estimates) == len(groups):
            laws = [estimate.laws[0] for estimate in estimates]
            alike = all(law == laws[0] for law in laws)
            yield KnownValues([estimate.values[0] for estimate in estimates], (laws[0],) if alike else tuple(laws))

    def _from_tables(self, block: Block, pattern: CountPattern | None) -> Iterator[KnownValues]:
        """Yield the estimate from each table, least variance first; a later one may have a lighter tail."""
        known = []
        for table in self.tables:
            product = None if pattern is None else table.product(pattern, self.rows)
            known.append(table.lookup(block, self.rows) if product is None else product)
        yield from sorted((estimate for estimate in known if estimate is not None), key=_largest_variance)

    def _as_released(self, block: Block, pattern: CountPattern | None) -> Iterator[KnownValues]:
        """Yield a released table with its columns reordered, or number of rows: its error law is that of one draw."""
        if _counts_all(block) and self.rows is not None and self.rows.noise is not None:
            yield KnownValues((self.rows.value,), (self.rows.noise,))
        if pattern is None or not pattern.grouped:
            return
        alike = [table for table in self.tables if set(table.classes) == set(pattern.classes)]
        if alike:
            best = min(alike, key=lambda table: noise_variance(table.noise))
            places = [best.classes.index(classing) for classing in _classes_in_key_order(block, pattern)]
            yield KnownValues(best.values.transpose(places).reshape(-1), (best.noise,))

    def _learn_block(  # noqa: PLR0913, PLR0917  all that a release says about it
        self,
        receipt: Receipt,
        measured: Measurement,
        block: Block,
        noise: Noise,
        values: Sequence[int],
        summed: SumPattern | None,
        total: SumPattern | None,
    ) -> None:
        if block.about_people:
            return
        pattern = self.pattern(block) if summed is None else None
        if block.weight == ONE:
            classes = _classes_in_key_order(block, pattern) if pattern is not None and pattern.grouped else None
            self.learned.append(LearnedBlock(receipt.id, block, tuple(values), noise, classes))
        if pattern is not None and pattern.grouped:
            table = CountTable(
                _classes_in_key_order(block, pattern), np.asarray(values, dtype=np.float64), noise, receipt.id
            )
            self.tables.append(table)
            wide = set(self.asked.finest) <= set(pattern.names)  # all columns that were asked about
            level = BundleLevel.TABLE if wide else BundleLevel.SCOPE_TABLE
            variance_of = partial(table.variance_of, rows=self.rows)
            self.asked.bought(level, frozenset(pattern.names), pattern, receipt.event, variance_of=variance_of)
        elif pattern is not None and pattern.classes:
            rented = (
                pattern if total is None else total.pattern(total.members)
            )  # rows of an average: no count was asked
            self.asked.pay(rented, noise, receipt.event, len(measured.query.blocks))
        elif summed is not None:
            self.asked.pay(
                summed.pattern(summed.members), noise, receipt.event, len(measured.query.blocks), summed.size
            )
        elif _counts_all(block):
            self._count_rows(values[0], noise)
        if self._combined < _MOST_SINGLE and block.values <= _MOST_VALUES:
            self._combined += 1
            self._derivation.add(BlockMeasurement(block, tuple(int(value) for value in values), noise, receipt.id))

    def _count_rows(self, value: int, noise: Noise) -> None:
        if self.rows is None or (self.rows.noise is not None and noise_variance(noise) < self.rows.variance):
            self.rows = RowCount(float(value), noise)


def _law_of(combined: BestCombination) -> ErrorLaw:
    """Return the error law of a combination; of one released value that of its noise, whose quantiles are exact."""
    terms = combined.terms
    if len(terms) == 1 and abs(terms[0].coefficient) == 1:
        return terms[0].noise
    return NoiseSum.combination([(float(term.coefficient), term.noise) for term in terms])


def has_constant_weight(block: Block) -> bool:
    """Return whether every row has the same weight in a block, whatever its cell."""
    whole = block.where == EVERYTHING and block.table is None
    return whole and isinstance(block.weight, ConstantWeight) and not block.keys


def may_be_exact(block: Block) -> bool:
    """Return whether no row can change a block, given a public number of rows."""
    where, weight = block.where, block.weight
    if type(where) is And and type(weight) is ConstantWeight and weight.number:  # fast path for nearly all blocks
        return not where.parts and not block.keys and block.table is None
    return has_constant_weight(block) or _adds_nothing(block)


def _adds_nothing(block: Block) -> bool:
    if block.where == NOTHING:
        return True
    weight = block.weight
    return weight.number == 0 if type(weight) is ConstantWeight else weight_range(weight) == (0, 0)


def _counts_all(block: Block) -> bool:
    """Return whether a block counts all rows."""
    return has_constant_weight(block) and block.weight == ONE


def _maximal_sets(sets: Sequence[tuple[Classes, ...]]) -> list[tuple[Classes, ...]]:
    """Return the sets that are not contained in another one."""
    held = {part for classes in sets if classes for part in combinations(classes, len(classes) - 1)}
    return [classes for classes in sets if classes not in held]


def _largest_variance(known: KnownValues) -> float:
    return max(law.variance for law in known.laws if isinstance(law, NoiseSum))


def _classes_in_key_order(block: Block, pattern: CountPattern) -> tuple[Classes, ...]:
    """Return the classes of a marginal in the order of its keys."""
    return tuple(pattern.classes[place] for place in key_places(block, pattern))


def _cells_in_key_order(values: NDArray[np.float64], block: Block, pattern: CountPattern) -> NDArray[np.float64]:
    """Return the cells of a marginal in the order of its keys."""
    table = values.reshape([classing.number for classing in pattern.classes])
    return table.transpose(key_places(block, pattern)).reshape(-1)
