"""Knowledge: everything released so far, indexed for lookup. It is free and touches no data.

Residuals and tables answer all counts over their classes; a limited number of single answers is combined by exact
linear algebra. Purchases are tracked too, for the rent-or-buy rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import combinations
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dodona.answer.laws import NoiseSum
from dodona.knowledge.derive import Derivation
from dodona.knowledge.measurements import BlockMeasurement, KnownValues, noise_variance
from dodona.knowledge.patterns import CountPattern, find_pattern, refine_pattern
from dodona.knowledge.residuals import ResidualStore
from dodona.knowledge.tables import CountTable, RowCount
from dodona.ledger.entries import Receipt
from dodona.privacy.events import Event
from dodona.privacy.measurement import Measurement, Noise, ResidualMeasurement, ResidualVariance
from dodona.query.predicate import EVERYTHING, NOTHING, And
from dodona.query.query import ONE, Block, ConstantWeight, weight_range
from dodona.query.residual import Classes
from dodona.schema.partition import Partition
from dodona.schema.schema import Domain

# --- Learned releases, in order: the input of the prediction model. ---


@dataclass(frozen=True, slots=True)
class LearnedBlock:
    """The noisy counts of one block of a release."""

    receipt: str
    event: Event
    """What was charged for all blocks of the release."""
    blocks: int
    """How many these are."""
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


# --- Purchases so far, as the rent-or-buy rule sees them. ---


ClassSet = tuple[Classes, int]
"""The classes of an attribute, and which of them a product counts."""


class BundleLevel(Enum):
    """The kind of a bundle: residuals or a table of counts, for one set of attributes or for all asked about so far."""

    SCOPE_LATTICE = "the residuals of its columns"
    LATTICE = "the residuals of all columns that were asked about"
    SCOPE_TABLE = "all counts of its columns"
    TABLE = "all counts of all columns that were asked about"


_NARROW = {BundleLevel.LATTICE: BundleLevel.SCOPE_LATTICE, BundleLevel.TABLE: BundleLevel.SCOPE_TABLE}


@dataclass(slots=True)
class Rent:
    """Rent: single answers bought one by one, over the same classes and with the same noise."""

    pattern: CountPattern
    """Of the first of them."""
    noise: Noise | None
    """None for a bundle of one set of columns, which is rent beside a bundle of all of them."""
    event: Event
    blocks: int
    """How many blocks the event was shared by."""
    times: int = 1
    used: set[BundleLevel] = field(default_factory=set)
    """The levels at which it has helped to buy a bundle."""


@dataclass(slots=True)
class SingleAnswers:
    """What single answers have covered so far: the facts from which bundles are designed."""

    rents: list[Rent] = field(default_factory=list)
    finest: dict[str, Classes] = field(default_factory=dict)
    """The finest way in which each column was asked about."""
    worst: dict[str, int] = field(default_factory=dict)
    """Of products, the set of its classes that is nearest to half of them."""
    sizes: set[int] = field(default_factory=set)
    """Of products, the numbers of columns."""
    _open: dict[tuple[object, ...], Rent] = field(default_factory=dict)

    def pay(self, pattern: CountPattern, noise: Noise, event: Event, blocks: int) -> None:
        """Record a single answer."""
        key = (pattern.classes, pattern.sets is None, noise, event, blocks)
        known = self._open.get(key)
        if known is not None:
            known.times += 1
        else:
            self._open[key] = Rent(pattern, noise, event, blocks)
            self.rents.append(self._open[key])
        self.see(pattern)

    def see(self, pattern: CountPattern) -> None:
        """Record the columns and classes that were asked about."""
        sides = class_sets(pattern)
        for own in pattern.classes:
            before = self.finest.get(own.attribute)
            if before is None or own.number > before.number:
                self.finest[own.attribute] = own
                self.worst.pop(own.attribute, None)
        if sides:
            self.sizes.add(len(sides))
            for own, members in sides:
                before_members = self.worst.get(own.attribute)
                finest = own == self.finest[own.attribute]
                if finest and (before_members is None or _hardness(own, members) > _hardness(own, before_members)):
                    self.worst[own.attribute] = members

    def seen(self, pattern: CountPattern) -> SingleAnswers:
        """Return the record after one more question, without the rents."""
        found = SingleAnswers(finest=dict(self.finest), worst=dict(self.worst), sizes=set(self.sizes))
        found.see(pattern)
        return found

    def bought(self, level: BundleLevel, names: frozenset[str], pattern: CountPattern, event: Event) -> None:
        """Mark the rent for what now follows as used; a narrow bundle itself counts as rent for a wide one."""
        for rent in self.rents:
            if _follows(rent, level, names):
                rent.used |= {level, _NARROW.get(level, level)}  # a wide bundle also answers what a narrow one would
        self._open = {key: rent for key, rent in self._open.items() if level not in rent.used}
        if level not in _NARROW:
            self.rents.append(Rent(pattern, None, event, 1, used={level}))
            self.see(pattern)


def _follows(rent: Rent, level: BundleLevel, names: frozenset[str]) -> bool:
    """Return whether rented answers would have followed from a bundle; for a wide lattice, with prior knowledge."""
    product = class_sets(rent.pattern) is not None or level in {BundleLevel.SCOPE_TABLE, BundleLevel.TABLE}
    return product and (level is BundleLevel.LATTICE or set(rent.pattern.names) <= names)


def class_sets(pattern: CountPattern) -> tuple[ClassSet, ...] | None:
    """Return a product, or one cell of a marginal, by attribute; None for any other pattern."""
    if pattern.grouped:
        return tuple((own, 1) for own in pattern.classes)
    return None if pattern.sets is None else tuple(zip(pattern.classes, pattern.sets, strict=True))


def at_least_as_hard(classes: Classes, members: int, other: int) -> bool:
    """Return whether a set of classes is at least as hard to estimate as another: as near to half, and as large.

    Both increase the variance of a product, for any noise.
    """
    mine, theirs = _hardness(classes, members), _hardness(classes, other)
    return mine[0] >= theirs[0] and mine[1] >= theirs[1]


def _hardness(classes: Classes, members: int) -> tuple[int, int]:
    """Return how near a set is to half of the classes, and how large it is."""
    number = members.bit_count()
    return number * (classes.number - number), number


# --- Knowledge: the single store of everything released. ---


_MOST_SINGLE = 256  # released blocks that are combined exactly; further ones are only replayed
_MOST_VALUES = 256  # values per block


class BlockDemand(Protocol):
    """A block and its accuracy requirement."""

    @property
    def block(self) -> Block:
        """The block."""
        ...

    def met(self, found: KnownValues) -> bool:
        """Return whether the known values are accurate enough."""
        ...


@dataclass(slots=True)
class Knowledge:
    """Everything that follows from all releases of one version of a dataset."""

    domain: Domain
    rows: RowCount | None = None
    """The number of rows, where it is public or was released."""
    residuals: ResidualStore = field(init=False)
    tables: list[CountTable] = field(default_factory=list)
    asked: SingleAnswers = field(default_factory=SingleAnswers)
    learned: list[LearnedBlock | LearnedMarginal] = field(default_factory=list)
    """All counts that were released, in their order."""
    _derivation: Derivation = field(init=False)
    _combined: int = 0

    def __post_init__(self) -> None:
        """Start with no releases."""
        self.begin(None)

    def begin(self, total: int | None) -> None:
        """Set the number of rows if it is public, before the first release."""
        self.rows = None if total is None else RowCount(float(total))
        self.residuals = ResidualStore(total=total)
        self._derivation = Derivation(self.domain, total=total)

    def learn(self, receipt: Receipt, measured: Measurement, values: Sequence[int]) -> None:
        """Add a release."""
        start = 0
        for block, noise in zip(measured.query.blocks, measured.noises, strict=True):
            self._learn_block(receipt, measured, block, noise, values[start : start + block.values])
            start += block.values

    def learn_residuals(self, receipt: Receipt, measured: ResidualMeasurement, values: Sequence[int]) -> None:
        """Add a release of residuals."""
        start = 0
        for residual, variance in measured.parts:
            self.residuals.add(residual, values[start : start + residual.number], float(variance))
            start += residual.number
        self.learned.extend(map(LearnedMarginal, _maximal_sets([residual.classes for residual, _ in measured.parts])))
        widest = max((residual.classes for residual, _ in measured.parts), key=len)
        names = frozenset(name for residual, _ in measured.parts for name in residual.attributes)
        wide = receipt.purpose.endswith(f" {BundleLevel.LATTICE.name}")
        level = BundleLevel.LATTICE if wide else BundleLevel.SCOPE_LATTICE
        self.asked.bought(level, names, CountPattern(widest, tuple(1 for _ in widest)), receipt.event)

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
        self, wanted: Sequence[BlockDemand], patterns: Sequence[CountPattern | None]
    ) -> list[KnownValues | None]:
        """Return the result of `lookup` for each block; residuals are looked up for all products together."""
        found: list[KnownValues | None] = [None] * len(wanted)
        some = len(self.residuals) > 1  # more than just the number of rows
        products = {place: pattern for place, pattern in enumerate(patterns) if pattern is not None and pattern.sets}
        estimates = self.residuals.lookup_all([*products.values()]) if some else [None] * len(products)
        known = dict(zip(products, estimates, strict=True))
        for place, (own, pattern) in enumerate(zip(wanted, patterns, strict=True)):
            one = known.get(place)
            if one is not None and own.met(one):
                found[place] = one
            else:
                found[place] = self.lookup(own.block, pattern, own.met, beside_residuals=one is not None)
        return found

    def lookup(
        self,
        block: Block,
        pattern: CountPattern | None,
        enough: Callable[[KnownValues], bool],
        *,
        beside_residuals: bool = False,
    ) -> KnownValues | None:
        """Return a block's values as they follow from released tables and residuals, if accurate enough.

        With `beside_residuals`, residuals are skipped because they were already looked up.
        """
        if block.about_people:  # numbers of people do not add up over cells
            return None
        ways = [self._exactly, self._from_residuals, self._from_tables, self._as_released]
        if beside_residuals:
            ways.remove(self._from_residuals)
        return next((found for way in ways for found in way(block, pattern) if enough(found)), None)

    def combine(self, block: Block, enough: Callable[[KnownValues], bool]) -> KnownValues | None:
        """Return a block's values as a combination of single answers, if accurate enough.

        This is the slow path, and the only one that may run while another thread adds releases.
        """
        if block.about_people or not self.combines or block.values > _MOST_VALUES:
            return None
        derived = self._derivation.derive_blocks((block,))
        if derived is None:
            return None
        terms = ([(float(one.coefficient), one.noise) for one in own.terms] for own in derived)
        found = KnownValues([float(own.value) for own in derived], tuple(map(NoiseSum.combination, terms)))
        return found if enough(found) else None

    def expecting(self, measured: Measurement | Sequence[ResidualVariance], *, fixed: bool) -> Knowledge:
        """Return the knowledge after a table or residuals whose values are unknown: error laws do not depend on them.

        If the number of rows is public (`fixed`), it counts as known even before it is read.
        """
        found = Knowledge(self.domain)
        found.rows = RowCount(0.0) if self.rows is None and fixed else self.rows
        found.residuals = self.residuals.expecting(() if isinstance(measured, Measurement) else measured, fixed=fixed)
        if isinstance(measured, Measurement):
            for block, noise in zip(measured.query.blocks, measured.noises, strict=True):
                pattern = self.pattern(block)
                if pattern is not None and pattern.grouped:
                    classes = _classes_in_key_order(block, pattern)
                    found.tables.append(CountTable(classes, np.zeros(block.values), noise, ""))
                elif _counts_all(block):
                    found._count_rows(0, noise)
        return found

    def of_bundle(self, receipt: str, *, residuals: bool) -> Knowledge | None:
        """Return what the bundle of a receipt answers from: residuals, or its table; None if it bought no table.

        As `expecting` does before the purchase, this leaves out single answers.
        """
        found = Knowledge(self.domain)
        found.rows = self.rows
        if residuals:
            found.residuals = self.residuals
            return found
        found.tables += [table for table in self.tables if table.receipt == receipt]
        return found if found.tables else None

    @property
    def public_rows(self) -> int | None:
        """The number of rows, where it is public."""
        return None if self.rows is None or self.rows.noise is not None else int(self.rows.value)

    def exact(self, block: Block) -> KnownValues | None:
        """Return the values of a block that no row can change: it selects no rows, or counts all of a public number.

        Theorem: public-rows
        """
        weight = block.weight
        if _adds_nothing(block):
            return KnownValues([0.0] * block.values, (NoiseSum(()),))
        if not has_constant_weight(block) or not isinstance(weight, ConstantWeight):
            return None
        if self.rows is None or self.rows.noise is not None:
            return None
        return KnownValues((self.rows.value * weight.number,), (NoiseSum(()),))

    def _exactly(self, block: Block, _facet: CountPattern | None) -> Iterator[KnownValues]:
        found = self.exact(block)
        if found is not None:
            yield found

    def _from_residuals(self, block: Block, pattern: CountPattern | None) -> Iterator[KnownValues]:
        if pattern is None or (pattern.classes and len(self.residuals) < 2):  # noqa: PLR2004  the number of rows alone
            return
        if pattern.grouped:
            cells = self.residuals.cells(pattern)
            if cells is not None:
                yield KnownValues(_cells_in_key_order(np.asarray(cells.values), block, pattern), cells.laws)
            return
        known = self.residuals.lookup(pattern)
        if known is None:
            finer = refine_pattern(pattern, self.domain)
            known = None if finer is None else self.residuals.lookup(finer)
        if known is not None:
            yield known

    def _from_tables(self, block: Block, pattern: CountPattern | None) -> Iterator[KnownValues]:
        """Yield the estimate from each table, least variance first; a later one may have a lighter tail."""
        known = []
        for table in self.tables:
            product = None if pattern is None else table.product(pattern, self.rows)
            known.append(table.lookup(block, self.rows) if product is None else product)
        yield from sorted((one for one in known if one is not None), key=_largest_variance)

    def _as_released(self, block: Block, pattern: CountPattern | None) -> Iterator[KnownValues]:
        """Yield a released table with its columns reordered, or number of rows: its error law is that of one draw."""
        if _counts_all(block) and self.rows is not None and self.rows.noise is not None:
            yield KnownValues((self.rows.value,), (self.rows.noise,))
        if pattern is None or not pattern.grouped:
            return
        alike = [own for own in self.tables if set(own.classes) == set(pattern.classes)]
        if alike:
            best = min(alike, key=lambda own: noise_variance(own.noise))
            places = [best.classes.index(own) for own in _classes_in_key_order(block, pattern)]
            yield KnownValues(best.values.transpose(places).reshape(-1), (best.noise,))

    def _learn_block(
        self, receipt: Receipt, measured: Measurement, block: Block, noise: Noise, values: Sequence[int]
    ) -> None:
        if block.about_people:
            return
        pattern = self.pattern(block)
        if block.weight == ONE:
            classes = _classes_in_key_order(block, pattern) if pattern is not None and pattern.grouped else None
            number = len(measured.query.blocks)
            self.learned.append(LearnedBlock(receipt.id, receipt.event, number, block, tuple(values), noise, classes))
        if pattern is not None and pattern.grouped:
            table = np.asarray(values, dtype=np.float64)
            self.tables.append(CountTable(_classes_in_key_order(block, pattern), table, noise, receipt.id))
            wide = set(self.asked.finest) <= set(pattern.names)  # all columns that were asked about
            level = BundleLevel.TABLE if wide else BundleLevel.SCOPE_TABLE
            self.asked.bought(level, frozenset(pattern.names), pattern, receipt.event)
        elif pattern is not None and pattern.classes:
            self.asked.pay(pattern, noise, receipt.event, len(measured.query.blocks))
        elif _counts_all(block):
            self._count_rows(values[0], noise)
        if self._combined < _MOST_SINGLE and block.values <= _MOST_VALUES:
            self._combined += 1
            self._derivation.add(BlockMeasurement(block, tuple(int(value) for value in values), noise, receipt.id))

    def _count_rows(self, value: int, noise: Noise) -> None:
        if self.rows is None or (self.rows.noise is not None and noise_variance(noise) < self.rows.variance):
            self.rows = RowCount(float(value), noise)


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
    held = {part for own in sets if own for part in combinations(own, len(own) - 1)}
    return [own for own in sets if own not in held]


def _largest_variance(found: KnownValues) -> float:
    return max(law.variance for law in found.laws if isinstance(law, NoiseSum))


def _classes_in_key_order(block: Block, pattern: CountPattern) -> tuple[Classes, ...]:
    """Return the classes of a marginal in the order of its keys."""
    return tuple(pattern.classes[place] for place in _places(block, pattern))


def _cells_in_key_order(values: NDArray[np.float64], block: Block, pattern: CountPattern) -> NDArray[np.float64]:
    """Return the cells of a marginal in the order of its keys."""
    table = values.reshape([own.number for own in pattern.classes])
    return table.transpose(_places(block, pattern)).reshape(-1)


def _places(block: Block, pattern: CountPattern) -> list[int]:
    names = [key.attribute for key in block.keys if isinstance(key, Partition)]
    return [pattern.names.index(name) for name in names]
