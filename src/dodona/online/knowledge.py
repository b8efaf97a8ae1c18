"""Knowledge: all that was released, put so that what follows from it is found at once. It is free, and touches no data.

What was bought by classes, as residuals or as whole tables of counts, answers every count over these classes. Single
answers are put together by exact linear algebra, as long as they are few and small.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations
from typing import TYPE_CHECKING, Protocol

import numpy as np

from dodona.answer.blend import Bell, Blend, Law
from dodona.answer.law import half_width
from dodona.answer.term import Term
from dodona.belief.counts import Counts, Rows
from dodona.belief.derive import Derivation
from dodona.belief.facet import Facet, facet_of, refined
from dodona.belief.lattice import Lattice, Told
from dodona.belief.measurements import Released, variance_of
from dodona.domain.partition import Partition
from dodona.ledger.receipt import Receipt
from dodona.mechanisms.measurement import Measurement, Noise
from dodona.mechanisms.pattern import Part
from dodona.mechanisms.residual import Residuals
from dodona.online.learned import Learned, Marginal
from dodona.online.purchase import Asked, Purchase
from dodona.query.predicate import EVERYTHING, NOTHING, And
from dodona.query.query import Block, Query
from dodona.query.residual import Classes
from dodona.query.weight import ONE, Constant, People, extremes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dodona.domain.domain import Domain

_MOST_SINGLE = 256  # released blocks that are combined exactly; all others are told again as they are
_MOST_VALUES = 256  # of one of them
_SLACK = 1 + 1e-9  # scales were rounded up, by less than this


@dataclass(frozen=True, slots=True)
class Found:
    """The values of one block, in steps, with a law for each."""

    values: Sequence[float] | NDArray[np.float64]
    laws: tuple[Law, ...]
    """One for each value, or one for all."""

    def within(self, failing: float) -> float:
        """Return how far off any one of them may be, each with this probability."""
        if len(self.laws) == 1:
            return half_width(self.laws[0], failing)
        return max(half_width(law, failing) for law in dict.fromkeys(self.laws))


class Wish(Protocol):
    """A block, and what is accurate enough for it."""

    @property
    def block(self) -> Block:
        """The block."""
        ...

    def met(self, found: Found) -> bool:
        """Return whether what is known is accurate enough."""
        ...


@dataclass(slots=True)
class Knowledge:
    """What the releases of one dataset and version tell together."""

    domain: Domain
    rows: Rows | None = None
    """The number of rows, where it is public or was released."""
    lattice: Lattice = field(init=False)
    tables: list[Counts] = field(default_factory=list)
    asked: Asked = field(default_factory=Asked)
    learned: list[Learned | Marginal] = field(default_factory=list)
    """All counts that were released, in their order."""
    _derivation: Derivation = field(init=False)
    _combined: int = 0

    def __post_init__(self) -> None:
        """Begin with nothing."""
        self.begin(None)

    def begin(self, total: int | None) -> None:
        """Take the number of rows where it is public, before the first release."""
        self.rows = None if total is None else Rows(float(total))
        self.lattice = Lattice(total=total)
        self._derivation = Derivation(self.domain, total=total)

    def learn(self, receipt: Receipt, measured: Measurement, values: Sequence[int]) -> None:
        """Take a release."""
        start = 0
        for block, noise in zip(measured.query.blocks, measured.noises, strict=True):
            self._learn_block(receipt, measured, block, noise, values[start : start + block.values])
            start += block.values

    def learn_residuals(self, receipt: Receipt, measured: Residuals, values: Sequence[int]) -> None:
        """Take a release of residuals."""
        start = 0
        for residual, variance in measured.parts:
            self.lattice.add(residual, values[start : start + residual.number], float(variance))
            start += residual.number
        self.learned.extend(map(Marginal, _outermost([residual.classes for residual, _ in measured.parts])))
        widest = max((residual.classes for residual, _ in measured.parts), key=len)
        purchase = Purchase.of_residuals(measured, receipt.purpose)
        self.asked.bought(purchase, Facet(widest, tuple(1 for _ in widest)), receipt.event)

    @property
    def combines(self) -> bool:
        """Whether there are single answers to be put together."""
        return self._combined > 0

    def facet(self, block: Block) -> Facet | None:
        """Return the classes that a block is a count over."""
        return facet_of(block, self.domain)

    def tell_all(self, wanted: Sequence[Wish], facets: Sequence[Facet | None]) -> list[Found | None]:
        """Return what `tell` returns of each block; all products are looked up in the lattice together."""
        found: list[Found | None] = [None] * len(wanted)
        some = len(self.lattice) > 1  # more than the number of rows
        if not some and not self.tables:
            for place, (own, facet) in enumerate(zip(wanted, facets, strict=True)):
                if facet is None or not facet.sets:
                    found[place] = self.tell(own.block, facet, own.met)
            return found
        products = {place: facet for place, facet in enumerate(facets) if facet is not None and facet.sets}
        told = self.lattice.tell_all([*products.values()]) if some else [None] * len(products)
        known = dict(zip(products, told, strict=True))
        for place, (own, facet) in enumerate(zip(wanted, facets, strict=True)):
            one = known.get(place)
            if one is not None:
                follows = _of_lattice(one)
                known_well = own.met(follows)
                found[place] = follows if known_well else self.tell(own.block, facet, own.met, beside_lattice=True)
            else:
                found[place] = self.tell(own.block, facet, own.met)
        return found

    def tell(
        self, block: Block, facet: Facet | None, enough: Callable[[Found], bool], *, beside_lattice: bool = False
    ) -> Found | None:
        """Return a block's values as they follow from what was released by classes, if that is accurate enough.

        With `beside_lattice` the lattice was looked at before.
        """
        if isinstance(block.weight, People):  # how many people a cell has does not add up over cells
            return None
        ways = [self._exactly, self._from_lattice, self._from_tables, self._as_released]
        if beside_lattice:
            ways.remove(self._from_lattice)
        return next((found for way in ways for found in way(block, facet) if enough(found)), None)

    def combine(self, block: Block, enough: Callable[[Found], bool]) -> Found | None:
        """Return a block's values as a combination of single answers, if that is accurate enough.

        It is the slow way, and the only one that may be gone while another thread adds to what is known.
        """
        if isinstance(block.weight, People) or not self.combines or block.values > _MOST_VALUES:
            return None
        derived = self._derivation.derive(Query(self.domain, (block,)))
        if derived is None:
            return None
        laws = tuple(Blend(tuple(Term.of(float(one.coefficient), one.noise) for one in own.terms)) for own in derived)
        found = Found([float(own.value) for own in derived], laws)
        return found if enough(found) else None

    def expecting(self, measured: Measurement | Sequence[Part], *, fixed: bool) -> Knowledge:
        """Return what would be known after a table or residuals, their numbers aside: laws of errors need none of them.

        Where the number of rows is public (`fixed`), it counts as known before it was read.
        """
        found = Knowledge(self.domain)
        found.rows = Rows(0.0) if self.rows is None and fixed else self.rows
        found.lattice = self.lattice.expecting(() if isinstance(measured, Measurement) else measured, fixed=fixed)
        if isinstance(measured, Measurement):
            for block, noise in zip(measured.query.blocks, measured.noises, strict=True):
                facet = self.facet(block)
                if facet is not None and facet.grouped:
                    found.tables.append(Counts(_as_asked(block, facet), np.zeros(block.values), noise, ""))
                elif _counts_all(block):
                    found._count_rows(0, noise)
        return found

    def exact(self, block: Block) -> Found | None:
        """Return a block that no row can change: one without rows, or one that every row of a public number counts in.

        Theorem: public-rows
        """
        weight = block.weight
        if _adds_nothing(block):
            return Found([0.0] * block.values, (Blend(()),))
        if not counts_alike(block) or not isinstance(weight, Constant):
            return None
        public = self.rows is not None and self.rows.noise is None
        return Found((self.rows.value * weight.number,), (Blend(()),)) if public and self.rows is not None else None

    def _exactly(self, block: Block, _facet: Facet | None) -> Iterator[Found]:
        found = self.exact(block)
        if found is not None:
            yield found

    def _from_lattice(self, block: Block, facet: Facet | None) -> Iterator[Found]:
        if facet is None or (facet.classes and len(self.lattice) < 2):  # noqa: PLR2004  the number of rows alone
            return
        if facet.grouped:
            cells = self.lattice.cells(facet)
            if cells is not None:
                values, variance, reach = cells
                yield Found(_in_order(values, block, facet), (Bell(variance * _SLACK, reach),))
            return
        told = self.lattice.tell(facet)
        if told is None:
            finer = refined(facet, self.domain)
            told = None if finer is None else self.lattice.tell(finer)
        if told is not None:
            yield _of_lattice(told)

    def _from_tables(self, block: Block, facet: Facet | None) -> Iterator[Found]:
        """Yield what each table says, the one with the least variance first: of two laws another may have less tail."""
        known = []
        for table in self.tables:
            found = None if facet is None else table.product(facet, self.rows)
            told = table.tell(block, self.rows) if found is None else [found]
            if told is not None:
                known.append(Found([value for value, _ in told], tuple(law for _, law in told)))
        yield from sorted(known, key=_variance)

    def _as_released(self, block: Block, facet: Facet | None) -> Iterator[Found]:
        """Yield a table that was released, its columns in another order: its law is that of one draw, exactly."""
        if facet is None or not facet.grouped:
            return
        alike = [own for own in self.tables if set(own.classes) == set(facet.classes)]
        if alike:
            best = min(alike, key=lambda own: variance_of(own.noise))
            places = [best.classes.index(own) for own in _as_asked(block, facet)]
            yield Found(best.values.transpose(places).reshape(-1), (best.noise,))

    def _learn_block(
        self, receipt: Receipt, measured: Measurement, block: Block, noise: Noise, values: Sequence[int]
    ) -> None:
        if isinstance(block.weight, People):
            return
        facet = self.facet(block)
        if block.weight == ONE:
            classes = _as_asked(block, facet) if facet is not None and facet.grouped else None
            number = len(measured.query.blocks)
            self.learned.append(Learned(receipt.id, receipt.event, number, block, tuple(values), noise, classes))
        if facet is not None and facet.grouped:
            table = np.asarray(values, dtype=np.float64)
            self.tables.append(Counts(_as_asked(block, facet), table, noise, receipt.id))
            self.asked.bought(Purchase.of_table(facet, frozenset(self.asked.finest)), facet, receipt.event)
        elif facet is not None and facet.classes:
            self.asked.pay(facet, noise, receipt.event, len(measured.query.blocks))
        elif _counts_all(block):
            self._count_rows(values[0], noise)
        if self._combined < _MOST_SINGLE and block.values <= _MOST_VALUES:
            self._combined += 1
            self._derivation.add(Released(block, tuple(int(value) for value in values), noise, receipt.id))

    def _count_rows(self, value: int, noise: Noise) -> None:
        if self.rows is None or (self.rows.noise is not None and variance_of(noise) < self.rows.variance):
            self.rows = Rows(float(value), noise)


def _of_lattice(told: Told) -> Found:
    return Found((told.value,), _laws_of(told.variance, told.reach))


@lru_cache(maxsize=1 << 12)
def _laws_of(variance: float, reach: float) -> tuple[Law]:
    """Return the law of what residuals tell: of many products there are few."""
    return (Blend(()) if variance == 0 else Bell(variance * _SLACK, reach),)


def counts_alike(block: Block) -> bool:
    """Return whether every row counts for the same in a block, whatever its cell is."""
    return block.where == EVERYTHING and isinstance(block.weight, Constant) and not block.keys


def may_be_exact(block: Block) -> bool:
    """Return whether no row can change a block where the number of rows is public."""
    where, weight = block.where, block.weight
    if type(where) is And and type(weight) is Constant and weight.number:  # nearly all, and seen at once
        return not where.parts and not block.keys
    return counts_alike(block) or _adds_nothing(block)


def _adds_nothing(block: Block) -> bool:
    return block.where == NOTHING or extremes(block.weight) == (0, 0)


def _counts_all(block: Block) -> bool:
    """Return whether a block is the number of rows."""
    return counts_alike(block) and block.weight == ONE


def _outermost(sets: Sequence[tuple[Classes, ...]]) -> list[tuple[Classes, ...]]:
    """Return the sets that no other one holds."""
    held = {part for own in sets if own for part in combinations(own, len(own) - 1)}
    return [own for own in sets if own not in held]


def _variance(found: Found) -> float:
    return max(law.variance for law in found.laws if isinstance(law, Blend))


def _as_asked(block: Block, facet: Facet) -> tuple[Classes, ...]:
    """Return the classes of a marginal in the order of its keys."""
    return tuple(facet.classes[place] for place in _places(block, facet))


def _in_order(values: NDArray[np.float64], block: Block, facet: Facet) -> NDArray[np.float64]:
    """Return the cells of a marginal in the order of its keys."""
    table = values.reshape([own.number for own in facet.classes])
    return table.transpose(_places(block, facet)).reshape(-1)


def _places(block: Block, facet: Facet) -> list[int]:
    names = [key.attribute for key in block.keys if isinstance(key, Partition)]
    return [facet.names.index(name) for name in names]
