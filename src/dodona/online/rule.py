"""The rule of renting or buying: a single answer, until singles have cost what a bundle costs; then the bundle.

Every choice hangs on public facts: what was asked, how accurately, and what was bought before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import assert_never

from dodona.accounting.event import Event
from dodona.answer.law import half_width
from dodona.belief.facet import Facet, ways
from dodona.domain.domain import Domain
from dodona.domain.unit import Unit
from dodona.mechanisms.gaussian import Gaussian
from dodona.mechanisms.laplace import Laplace
from dodona.mechanisms.measurement import Measurement
from dodona.mechanisms.pattern import Part
from dodona.mechanisms.residual import Residuals, event_of
from dodona.online.bundle import MOST_CASES, MOST_TARGETS, Targets, bell_variance, cases, lattice, small, table
from dodona.online.cover import covered
from dodona.online.knowledge import Found, Knowledge
from dodona.online.purchase import Asked, Level, Rent, Side, as_hard, sides_of
from dodona.query.query import Block
from dodona.query.residual import Classes

Price = Callable[[Event], float]
"""In one account of the budget; infinite where it cannot be paid there."""
_WORTH = 0.97  # of the price of a table: less is worth the time to draw noise of a scale for each of its rows
_NEAR = 0.99  # of a tolerance: singles that were asked for as accurately count, up to the rounding of scales


@dataclass(frozen=True, slots=True)
class Wanted:
    """A count that does not follow from what is known, and how accurate it is to be."""

    block: Block
    facet: Facet
    room: float
    """In steps."""
    failing: float

    @property
    def kind(self) -> Hashable:
        """What decides how accurate it is: of a product, how many classes of each column are counted, not which."""
        sets = self.facet.sets
        counted = self.block if sets is None else tuple([own.bit_count() for own in sets])
        return self.facet.classes, counted, self.room, self.failing

    def met(self, found: Found) -> bool:
        """Return whether what is known is accurate enough."""
        return found.within(self.failing) <= self.room


def distinct(wanted: Iterable[Wanted]) -> list[Wanted]:
    """Return one count of each kind: whatever answers it answers all of its kind."""
    return [*{own.kind: own for own in wanted}.values()]


@dataclass(frozen=True, slots=True)
class Bundle:
    """Something that may be bought instead of a single answer."""

    level: Level
    plan: Measurement | tuple[Part, ...]
    """A table; or residuals, whose noise is only made when they are bought."""
    event: Event
    price: float

    def measurement(self, domain: Domain) -> Measurement | Residuals:
        """Return what is to be measured."""
        return self.plan if isinstance(self.plan, Measurement) else Residuals(domain, self.plan, self.level.name)


_Known = tuple[Targets, object, Bundle | None]
"""The targets of the last lattice of a level, what else it hangs on, and the lattice."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Renting or buying, for one dataset."""

    domain: Domain
    unit: Unit
    knowledge: Knowledge
    _known: dict[Level, _Known] = field(default_factory=dict, repr=False)

    def choose(self, wanted: Wanted, single: float, price: Price, left: float) -> Bundle | None:
        """Return the bundle that is bought now, the widest first; None where a single answer is.

        One that costs more than what is left of the budget is not, nor is one that does not answer the question.

        Theorem: rent-or-buy
        """
        for bundle in self.bundles(wanted, price, lambda level: self._paid(level, wanted, price) + single):
            most = min(left, self._paid(bundle.level, wanted, price) + single)
            if self._is_the_table(bundle, wanted) and bundle.price > _WORTH * single:
                return None
            if bundle.price <= most:
                found = self._widened(self._shared(bundle, wanted, price, most), wanted, price, left)
                if self.answers(found, (wanted,)):
                    return found
        return None

    def _is_the_table(self, bundle: Bundle, wanted: Wanted) -> bool:
        """Return whether a bundle is just the table that is asked for, as residuals with noise of many scales."""
        alone = set(self.knowledge.asked.seen(wanted.facet).finest) == set(wanted.facet.names)
        return wanted.facet.grouped and alone and bundle.level is Level.LATTICE

    def answers(self, bundle: Bundle, wanted: Iterable[Wanted]) -> bool:
        """Return whether all of some counts follow from a bundle, each as accurately as it is asked for.

        How accurate they are is decided by the noise, so it is known before anything is charged.

        Theorem: rent-or-buy
        """
        known = self.knowledge.expecting(bundle.plan, fixed=self.unit.fixed)
        kinds = distinct(wanted)
        return None not in known.tell_all(kinds, [own.facet for own in kinds])

    def whole(self, wanted: Sequence[Wanted], prices: Sequence[Price]) -> Iterator[Bundle]:
        """Yield bundles that answer all of some counts, each as accurately as the most accurate one is asked for."""
        room, failing = min(own.room for own in wanted), min(own.failing for own in wanted)
        tightest = replace(wanted[0], room=room, failing=failing)
        asked = Asked()
        for own in wanted:
            asked.see(own.facet)
        sides = [sides_of(own.facet) for own in wanted]
        products = [own for own in sides if own is not None]
        scopes = {tuple(own for own, _ in product) for product in products}
        if len(products) == len(sides) and any(products) and cases(scopes) <= MOST_CASES and small(scopes):
            targets, missed = covered(products, self.unit)
            variance = bell_variance(room, failing) / missed
            found = lattice(self.unit, targets, variance, self.knowledge.lattice)
            if found is not None:
                event = event_of(found, self.unit)
                for price in prices:
                    yield Bundle(Level.LATTICE, found, event, price(event))
        for price in prices:
            yield from self._table(Level.TABLE, tuple(asked.finest.values()), tightest, price)

    def reference(self, wanted: Wanted, single: float, price: Price) -> float:
        """Return what the widest bundle costs, or the answer alone where there is none: accounts are compared by it."""
        widest = (own.price for own in self.bundles(wanted, price) if own.level in {Level.LATTICE, Level.TABLE})
        return min(filter(math.isfinite, widest), default=single)

    def bundles(
        self, wanted: Wanted, price: Price, most: Callable[[Level], float] = lambda _: math.inf
    ) -> Iterator[Bundle]:
        """Yield what could be bought, the widest first; what is seen at once to cost more than the most is left out."""
        sides = sides_of(wanted.facet)
        asked = self.knowledge.asked.seen(wanted.facet)
        if sides is not None:
            yield from self._lattice(Level.LATTICE, _closure(asked, sides), wanted, price, most)
        yield from self._table(Level.TABLE, tuple(asked.finest.values()), wanted, price)
        if sides is not None:
            yield from self._lattice(Level.SCOPE_LATTICE, frozenset((_alike(sides),)), wanted, price, most)
        if len(asked.finest) > len(wanted.facet.classes):
            yield from self._table(Level.SCOPE_TABLE, wanted.facet.classes, wanted, price)

    def _lattice(
        self,
        level: Level,
        targets: Targets,
        wanted: Wanted,
        price: Price,
        most: Callable[[Level], float],
    ) -> Iterator[Bundle]:
        variance = bell_variance(wanted.room, wanted.failing)
        known, known_as = self._known.get(level), (variance, self.knowledge.lattice.version)
        if known is None or known[:2] != (targets, known_as):
            fewer = known is not None and known[0] <= targets and known[1] == known_as
            if fewer and known is not None and known[2] is not None and price(known[2].event) > most(level):
                return  # fewer targets cost more than that already
            found = lattice(self.unit, targets, variance, self.knowledge.lattice)
            bundle = None if found is None else Bundle(level, found, event_of(found, self.unit), math.inf)
            known = self._known[level] = (targets, known_as, bundle)
        if known[2] is not None:
            yield replace(known[2], price=price(known[2].event))

    def _table(self, level: Level, classes: tuple[Classes, ...], wanted: Wanted, price: Price) -> Iterator[Bundle]:
        best: Bundle | None = None
        for law in (Laplace, Gaussian):
            found = table(self.domain, self.unit, classes, law, room=wanted.room, failing=wanted.failing)
            if found is not None:
                event = found.event(self.unit)
                cost = price(event)
                best = Bundle(level, found, event, cost) if best is None or cost < best.price else best
        if best is not None:
            yield best

    def _shared(self, bundle: Bundle, wanted: Wanted, price: Price, most: float) -> Bundle:
        """Return a narrow lattice at the variances that the wide one needs, where it has paid for that; else as it is.

        So what is bought now is not bought again with the wide one.
        """
        sides = sides_of(wanted.facet)
        if bundle.level is not Level.SCOPE_LATTICE or sides is None:
            return bundle
        closure = _closure(self.knowledge.asked.seen(wanted.facet), sides)
        variance, known = bell_variance(wanted.room, wanted.failing), self.knowledge.lattice
        found = lattice(self.unit, frozenset((_alike(sides),)), variance, known, within=closure)
        if found is None:
            return bundle
        event = event_of(found, self.unit)
        return Bundle(bundle.level, found, event, price(event)) if price(event) <= most else bundle

    def _widened(self, bundle: Bundle, wanted: Wanted, price: Price, left: float) -> Bundle:
        """Return a table with further columns, as long as it costs at most twice as much; other bundles as they are.

        Those that were asked about come first, then the smallest: so fewer tables have to be bought after it.
        """
        if bundle.level not in {Level.SCOPE_TABLE, Level.TABLE}:
            return bundle
        most, asked = min(2 * bundle.price, left), self.knowledge.asked.seen(wanted.facet).finest
        classes = {own.attribute: own for own in wanted.facet.classes} if bundle.level is Level.SCOPE_TABLE else asked
        further = {own.name: ways(own)[0] for own in self.domain.attributes if ways(own)} | asked
        others = [own for name, own in further.items() if name not in classes]
        wider = dict(classes)
        for own in sorted(others, key=lambda one: (one.attribute not in asked, one.number, one.attribute)):
            wider[own.attribute] = own
            found = next(self._table(bundle.level, tuple(wider.values()), wanted, price), None)
            if found is None or found.price > most:
                break
            bundle = found
        return bundle

    def _paid(self, level: Level, wanted: Wanted, price: Price) -> float:
        """Return the rent that was paid for what the bundle would have answered."""
        return sum(
            rent.times * price(rent.event) / rent.blocks
            for rent in self.knowledge.asked.rents
            if level not in rent.used and _counts(level, rent, wanted)
        )


def _alike(sides: tuple[Side, ...]) -> tuple[Side, ...]:
    """Return a product that stands for all with sets of the same sizes: their variance is the same."""
    return tuple((own, (1 << members.bit_count()) - 1) for own, members in sides)


def _closure(asked: Asked, sides: tuple[Side, ...]) -> Targets:
    """Return products of all columns that were asked about, in the sizes that were, each with the worst set.

    The one that is asked now is among them, unless another is as hard in every column.
    """
    ordered = [(asked.finest[name], members) for name, members in sorted(asked.worst.items())]
    if sum(math.comb(len(ordered), size) for size in asked.sizes) > MOST_TARGETS:
        return frozenset((_alike(sides),))
    found = frozenset(_alike(chosen) for size in asked.sizes for chosen in combinations(ordered, size))
    worst = dict(ordered)
    harder = all(own in worst and as_hard(own, worst[own], members) for own, members in sides)
    return found if sides and harder else found | {_alike(sides)}  # no product is as hard as the number of rows


def _counts(level: Level, rent: Rent, wanted: Wanted) -> bool:
    """Return whether a bundle of this level would have answered what was rented, as accurately as it was."""
    if rent.noise is not None and half_width(rent.noise, wanted.failing) < _NEAR * wanted.room - 1:
        return False
    match level:
        case Level.LATTICE:
            return sides_of(rent.facet) is not None
        case Level.SCOPE_LATTICE:
            alike = rent.facet.classes == wanted.facet.classes
            return alike and rent.noise is not None and sides_of(rent.facet) is not None
        case Level.TABLE:
            return True
        case Level.SCOPE_TABLE:
            return rent.noise is not None and set(rent.facet.names) <= set(wanted.facet.names)
        case _:
            assert_never(level)
