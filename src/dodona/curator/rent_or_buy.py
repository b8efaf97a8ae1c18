"""Choose between a single answer and a bundle: rent until the rent has cost as much as the bundle.

All decisions depend on public facts and earlier releases alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from typing import assert_never

from dodona.curator.bundles import (
    MOST_CASES_TOGETHER,
    MOST_ROWS_TOGETHER,
    Looser,
    Targets,
    count_cases,
    design_count_table,
    design_residuals,
    find_cover,
    gaussian_variance_within,
    is_small_enough,
    lattice_targets,
    scope_targets,
)
from dodona.curator.demands import CountDemand
from dodona.knowledge.asked import (
    BundleLevel,
    LeastPrices,
    Rent,
    SingleAnswers,
    class_sets,
    possible_levels,
)
from dodona.knowledge.knowledge import BlockDemand, Knowledge
from dodona.knowledge.patterns import list_classings
from dodona.knowledge.releases import ReleasedBlocks
from dodona.knowledge.sides import ClassSet, Members
from dodona.knowledge.summed import Pattern, SumPattern
from dodona.privacy.accountants import PriceFunction
from dodona.privacy.additive_noise import Gaussian, Laplace, NoiseType, NormalNoise, noise_width
from dodona.privacy.events import Event
from dodona.privacy.measurement import Measurement, ResidualMeasurement, ResidualVariance, residual_event
from dodona.query.bases import Base
from dodona.query.residual import Classes
from dodona.schema.schema import Domain, Unit

_WORTH = 0.97  # of the price of a table: only a lower price justifies drawing noise of a separate scale for each row
_NEARLY = 0.999  # of the room of a sum: quantiles of two noises together are nearly those of one
_TIGHTER, _BETTER = 0.9, 1.1  # a tolerance is only narrowed if that is worth more than planning twice
_HALF = 0.5  # of the variance of a sum: more of it is for its steps than if they were bought with the rows
_TOLERANCE_SLACK = 0.99  # of a tolerance: single answers of equal accuracy count, up to the rounding of scales


@dataclass(frozen=True, slots=True)
class Bundle:
    """A measurement that may be bought instead of a single answer."""

    level: BundleLevel
    plan: Measurement | tuple[ResidualVariance, ...]
    """A table; or residuals, whose noise is only made when they are bought."""
    event: Event
    price: float
    scopes: Scopes | None = None
    """The columns of each product that a wide lattice answers; None where the question's own columns decide."""

    def measurement(self, domain: Domain, law: type[NormalNoise]) -> Measurement | ResidualMeasurement:
        """Return the measurement to make; residuals get noise of this law."""
        if isinstance(self.plan, Measurement):
            return replace(self.plan, label=self.level.name)
        return ResidualMeasurement(domain, self.plan, self.level.name, law)


_CREDIT = {BundleLevel.LATTICE: 2.5}
"""How much rent counts for. The widest residuals are bought once two fifths of their price are paid: streams go on."""
_MOST_TABLES = 256
Scopes = frozenset[tuple[str, ...]]
"""The columns of each of some products."""
_CachedBundle = tuple[Targets, object, Bundle | None]
"""The targets of the last design of a level, what else it depends on, and the design."""


@dataclass(frozen=True, slots=True)
class RentOrBuyRule:
    """The rent-or-buy rule for one dataset."""

    domain: Domain
    unit: Unit
    releases: ReleasedBlocks
    normal: type[NormalNoise] = Gaussian
    """The normal noise that the budget counts."""
    _known: dict[BundleLevel, _CachedBundle] = field(default_factory=dict, repr=False)
    _tables: dict[Hashable, tuple[Measurement, Event] | None] = field(default_factory=dict, repr=False)
    """The last designs of tables: they depend on nothing that was released, and many questions look at the same."""

    @property
    def knowledge(self) -> Knowledge:
        """What has been learned so far."""
        return self.releases.knowledge

    def choose(self, wanted: CountDemand, single: float, price: PriceFunction, left: float) -> Bundle | None:
        """Return the bundle to buy now, trying the widest first; None if a single answer is cheaper.

        A bundle that exceeds the remaining budget or does not answer the question is skipped.

        Theorem: rent-or-buy
        """
        if not wanted.tolerance or not wanted.rent:  # only exact values would do, which no bundle has
            return None
        tighter = self._tighter(wanted, price)
        bundle = None if tighter is None else self._choose(tighter, single, price, left)
        return self._choose(wanted, single, price, left) if bundle is None else bundle

    def _tighter(self, wanted: CountDemand, price: PriceFunction) -> CountDemand | None:
        """Return a demand for more accuracy, if a wide lattice would rather be paid for with it; else None.

        Prices grow with the square of the accuracy, and with it the rent that counts: that of single answers which
        were asked for as accurately.
        """
        designed = [pattern for pattern, _ in wanted.designed]
        known = [
            (noise_width(rent.noise, wanted.failing) / rent.size, rent.times * price(rent.event) / rent.blocks)
            for rent in self.knowledge.asked.unused(BundleLevel.LATTICE, designed)
            if rent.noise is not None
        ]
        paid, best, chosen = 0.0, 0.0, wanted.rent
        for width, cost in sorted(known, reverse=True):
            paid += cost
            if paid * min(width, wanted.rent) ** 2 > best * _BETTER:
                best, chosen = paid * min(width, wanted.rent) ** 2, min(width, wanted.rent)
        if chosen > wanted.rent * _TIGHTER:
            return None
        factor = chosen / wanted.rent
        return replace(wanted, tolerance=factor * wanted.tolerance, alone=factor * wanted.alone)

    def _choose(self, wanted: CountDemand, single: float, price: PriceFunction, left: float) -> Bundle | None:
        for bundle in self.bundles(wanted, price, single):
            paid = self._rent_paid(bundle.level, wanted, price, bundle.scopes) + single
            if self._is_the_table(bundle, wanted) and bundle.price > _WORTH * single:
                return None
            if bundle.price <= paid:
                # What is bought may cost less than what it was found by: its own price decides whether it fits, so that
                # the price of a quote is enough.
                adjusted = self._widen(self._narrow(bundle, wanted, price, min(left, paid)), wanted, price, left)
                if adjusted.price <= left and self.answers(adjusted, (wanted,)):
                    return adjusted
        return None

    def eased(self, wanted: CountDemand) -> CountDemand:
        """Return the steps of a sum alone, with the room that they have, if its rows are known as well as need be."""
        demand, pattern = wanted.sums[0] if len(wanted.sums) == 1 else (wanted, wanted.pattern)
        if not isinstance(pattern, SumPattern) or not pattern.factor or not pattern.constant:
            return wanted
        rows = self.knowledge.follow(demand.block, replace(pattern, factor=0))
        left = 0.0 if rows is None else 1 - (rows.known.within(wanted.failing) / (wanted.tolerance * pattern.size)) ** 2
        if left < _HALF:
            return wanted
        return replace(wanted, pattern=pattern.pattern(), left=_NEARLY * math.sqrt(left))

    def _is_the_table(self, bundle: Bundle, wanted: CountDemand) -> bool:
        """Return whether a bundle is just the requested table, as residuals with noise of many scales."""
        alone = set(self.knowledge.asked.seen(wanted.pattern).finest) == set(wanted.pattern.names)
        return wanted.pattern.grouped and alone and bundle.level is BundleLevel.LATTICE

    def answers(self, bundle: Bundle, wanted: Iterable[CountDemand]) -> bool:
        """Return whether these counts all follow from a bundle, each within its tolerance.

        Their accuracy depends only on the noise, so it is known before anything is charged.

        Theorem: rent-or-buy
        """
        known = self.knowledge.expecting(bundle.plan, fixed=self.unit.fixed)
        kinds = self.distinct(wanted)
        pairs: list[tuple[BlockDemand, Pattern]] = []
        for kind in kinds:
            if kind.combined is None:
                pairs += kind.sums or ((kind, kind.pattern),)
                continue
            followed = kind.combined.follow(known)
            if followed is None or not kind.combined.met(*followed):
                return False
        return None not in known.lookup_all([demand for demand, _ in pairs], [pattern for _, pattern in pairs])

    def distinct(self, wanted: Iterable[CountDemand | None]) -> list[CountDemand]:
        """Return the first count of each kind, as a bundle that answers it answers all of them; none if one is None."""
        asked, sides = self.knowledge.asked, dict[tuple[int, Members], Hashable]()
        kinds: dict[Hashable, CountDemand] = {}
        for demand in wanted:
            if demand is None:
                return []
            kinds.setdefault(demand.kind(asked, sides), demand)
        return [*kinds.values()]

    def whole(self, wanted: Sequence[CountDemand], prices: Sequence[PriceFunction]) -> Iterator[Bundle]:
        """Yield bundles that answer all of these, each within its tolerance; tables within the smallest one."""
        tolerance, failing = min(demand.tolerance for demand in wanted), min(demand.failing for demand in wanted)
        if not tolerance:
            return
        tightest = replace(wanted[0], tolerance=tolerance, failing=failing)
        asked = SingleAnswers(ordered=self.knowledge.asked.ordered)
        together = any(demand.combined is not None for demand in wanted)
        parts = [part for demand in wanted for part in demand.products]
        for pattern, _ in parts:
            asked.see(pattern)
        sides = [class_sets(pattern) for pattern, _ in parts]
        based = cache(lambda side: asked.based_product((side,))[0])  # few sides, in many products
        products = [
            tuple([based(side) for side in pattern_sides]) for pattern_sides in sides if pattern_sides is not None
        ]
        ratios = [_variance_ratio(room / tolerance) for _, room in parts]
        scopes = {tuple(classes for classes, _ in product) for product in products}
        if (
            len(products) == len(sides)
            and any(products)
            and count_cases(scopes) <= MOST_CASES_TOGETHER
            and is_small_enough(scopes, MOST_ROWS_TOGETHER)
        ):
            allowed: dict[tuple[ClassSet, ...], Fraction] = {}
            for product, ratio in zip(products, ratios, strict=True):
                allowed[product] = min(ratio, allowed.get(product, ratio))
            looser = frozenset(pair for pair in allowed.items() if pair[1] > 1)
            targets, missed = find_cover(products, self.unit, looser)
            variance = gaussian_variance_within(tolerance, failing) / missed
            design = design_residuals(
                self.unit, targets, variance, self.knowledge.residuals, most=MOST_ROWS_TOGETHER, looser=looser
            )
            if design is not None:
                event = residual_event(design, self.unit, self.normal)
                for price in prices:
                    yield Bundle(BundleLevel.LATTICE, design, event, price(event))
        if BundleLevel.TABLE not in possible_levels([pattern for pattern, _ in parts], together=together):
            return
        for price in prices:
            yield from self._table(BundleLevel.TABLE, tuple(asked.finest.values()), tightest, price)

    def reference(self, wanted: CountDemand, single: float, price: PriceFunction) -> float:
        """Return the price of the widest bundle, or of the single answer if there is none, to compare accounts by."""
        widest = (
            bundle.price
            for bundle in self.bundles(wanted, price)
            if bundle.level in {BundleLevel.LATTICE, BundleLevel.TABLE}
        )
        return min(filter(math.isfinite, widest), default=single)

    def bundles(self, wanted: CountDemand, price: PriceFunction, single: float = math.inf) -> Iterator[Bundle]:
        """Yield the possible bundles, the widest first, without those that clearly cost more than rent and single.

        None is designed before the rent has reached the least that it can cost.

        Theorem: rent-or-buy
        """
        public = LeastPrices(self.unit, self.normal, wanted.room, wanted.failing)
        patterns, together = [pattern for pattern, _ in wanted.products], wanted.combined is not None
        known = self.knowledge
        offered = possible_levels(patterns, together=together)
        least = dict.fromkeys(offered, 0.0)
        if math.isfinite(single):
            least = public.by_level(wanted.pattern, known.asked, known.residuals, price, single)

        def is_reached(level: BundleLevel, scopes: Scopes | None = None, cost: float | None = None) -> bool:
            """Return whether rent and single reach a price; what rent was paid for only matters where all would do."""
            cost = least[level] if cost is None else cost
            if cost <= single:
                return True
            unused = [rent for rent in known.asked.rents if level not in rent.used]
            most = _CREDIT.get(level, 1) * sum(rent.times * price(rent.event) / rent.blocks for rent in unused)
            return cost <= single + most and cost <= single + self._rent_paid(level, wanted, price, scopes)

        levels = [level for level in offered if is_reached(level)]
        if not levels:
            return
        sides = _all_sides(wanted)
        asked = known.asked.seen(*[pattern for pattern, _ in wanted.designed])
        for level in levels:
            if level in {BundleLevel.LATTICE, BundleLevel.SCOPE_LATTICE} and sides is not None:
                targets = (lattice_targets if level is BundleLevel.LATTICE else scope_targets)(asked, sides)
                yield from self._lattice(level, targets, wanted, price, is_reached)
            elif level is BundleLevel.TABLE:
                yield from self._table(level, tuple(asked.finest.values()), wanted, price)
            elif level is BundleLevel.SCOPE_TABLE and len(asked.finest) > len(wanted.pattern.classes):
                yield from self._table(level, wanted.pattern.classes, wanted, price)

    def _lattice(
        self,
        level: BundleLevel,
        targets: Targets,
        wanted: CountDemand,
        price: PriceFunction,
        is_reached: Callable[[BundleLevel, Scopes | None, float | None], bool],
    ) -> Iterator[Bundle]:
        scopes = _scopes(targets) if level is BundleLevel.LATTICE else None
        if not is_reached(level, scopes, None):
            return
        variance = gaussian_variance_within(wanted.room, wanted.failing)
        looser = _looser(targets, wanted)
        known, known_as = self._known.get(level), (variance, looser, self.knowledge.residuals.version)
        if known is None or known[:2] != (targets, known_as):
            fewer = known is not None and known[0] <= targets and known[1] == known_as
            before = known[2] if fewer and known is not None else None
            if before is not None and not is_reached(level, scopes, price(before.event)):
                return  # fewer targets already cost more than that
            design = design_residuals(self.unit, targets, variance, self.knowledge.residuals, looser=looser)
            bundle = (
                None
                if design is None
                else Bundle(level, design, residual_event(design, self.unit, self.normal), math.inf)
            )
            known = self._known[level] = (targets, known_as, bundle)
        if known[2] is not None:
            yield replace(known[2], price=price(known[2].event), scopes=scopes)

    def _table(
        self, level: BundleLevel, classes: tuple[Classes, ...], wanted: CountDemand, price: PriceFunction
    ) -> Iterator[Bundle]:
        best: Bundle | None = None
        for law in (Laplace, self.normal):
            design = self._design_table(classes, law, wanted.tolerance, wanted.failing)
            if design is not None:
                cost = price(design[1])
                best = Bundle(level, *design, cost) if best is None or cost < best.price else best
        if best is not None:
            yield best

    def _design_table(
        self, classes: tuple[Classes, ...], law: NoiseType, tolerance: float, failing: float
    ) -> tuple[Measurement, Event] | None:
        """Return a table that meets a tolerance, and what it costs."""
        key = (classes, law, tolerance, failing)
        try:
            return self._tables[key]
        except KeyError:
            measurement = design_count_table(self.domain, self.unit, classes, law, tolerance=tolerance, failing=failing)
            if len(self._tables) >= _MOST_TABLES:
                self._tables.clear()
            designed = self._tables[key] = None if measurement is None else (measurement, measurement.event(self.unit))
            return designed

    def _narrow(self, bundle: Bundle, wanted: CountDemand, price: PriceFunction, most: float) -> Bundle:
        """Return a narrow lattice at the variances of the wide one, if it has paid for that; else unchanged.

        What is bought now then need not be bought again with the wide one.
        """
        sides = _all_sides(wanted)
        if bundle.level is not BundleLevel.SCOPE_LATTICE or sides is None:
            return bundle
        asked = self.knowledge.asked.seen(*[pattern for pattern, _ in wanted.designed])
        variance, known = gaussian_variance_within(wanted.room, wanted.failing), self.knowledge.residuals
        targets, closure = scope_targets(asked, sides), lattice_targets(asked, sides)
        looser = _looser(targets | closure, wanted)
        design = design_residuals(self.unit, targets, variance, known, within=closure, looser=looser)
        if design is None:
            return bundle
        event = residual_event(design, self.unit, self.normal)
        return Bundle(bundle.level, design, event, price(event)) if price(event) <= most else bundle

    def _widen(self, bundle: Bundle, wanted: CountDemand, price: PriceFunction, left: float) -> Bundle:
        """Return a table with further columns, as long as it costs at most twice as much; other bundles are unchanged.

        Columns asked about come first, then the smallest, so that fewer tables have to be bought later.
        """
        if bundle.level not in {BundleLevel.SCOPE_TABLE, BundleLevel.TABLE}:
            return bundle
        most, asked = min(2 * bundle.price, left), self.knowledge.asked.seen(wanted.pattern).finest
        classes = (
            {column_classes.attribute: column_classes for column_classes in wanted.pattern.classes}
            if bundle.level is BundleLevel.SCOPE_TABLE
            else asked
        )
        further = {
            attribute.name: list_classings(attribute)[0]
            for attribute in self.domain.attributes
            if list_classings(attribute)
        } | asked
        others = [column_classes for name, column_classes in further.items() if name not in classes]
        wider = dict(classes)
        for column_classes in sorted(
            others, key=lambda classing: (classing.attribute not in asked, classing.number, classing.attribute)
        ):
            wider[column_classes.attribute] = column_classes
            candidate = next(self._table(bundle.level, tuple(wider.values()), wanted, price), None)
            if candidate is None or candidate.price > most:
                break
            bundle = candidate
        return bundle

    def _rent_paid(
        self, level: BundleLevel, wanted: CountDemand, price: PriceFunction, scopes: Scopes | None = None
    ) -> float:
        """Return the rent paid for answers that the bundle would have given, with the credit of its level."""
        return _CREDIT.get(level, 1) * sum(
            rent.times * price(rent.event) / rent.blocks
            for rent in self.knowledge.asked.rents
            if level not in rent.used
            and (scopes is None or rent.pattern.names in scopes)
            and _would_have_answered(level, rent, wanted)
        )


def _scopes(targets: Targets) -> Scopes:
    """Return the columns of all products, and of the rows that are counted with a sum."""
    sides = [[side for side, _ in target] for target in targets]
    several = sides + [[side for side in target if not side.base.sums] for target in sides]
    return frozenset([tuple([side.attribute for side in target]) for target in several])


def _all_sides(wanted: CountDemand) -> list[tuple[ClassSet, ...]] | None:
    """Return the sides of all products of a demand; None if one of its parts is none."""
    per_pattern = [class_sets(pattern) for pattern, _ in wanted.designed]
    sides = [pattern_sides for pattern_sides in per_pattern if pattern_sides is not None]
    return sides if len(sides) == len(per_pattern) else None


def _looser(targets: Targets, wanted: CountDemand) -> Looser:
    """Return how many times the variance of others the targets of a kind may have: counts, sums, or sums of squares."""
    if not wanted.tolerance:
        return frozenset()
    rooms: dict[Base | None, float] = {}
    for pattern, room in wanted.designed:
        base = None if pattern.summed is None else pattern.summed.base
        rooms[base] = min(room, rooms.get(base, math.inf))
    ratios = {base: _variance_ratio(room / wanted.tolerance) for base, room in rooms.items()}
    if all(ratio <= 1 for ratio in ratios.values()):
        return frozenset()
    bases = ((target, next((side.base for side, _ in target if side.base.sums), None)) for target in targets)
    return frozenset((target, ratios[base]) for target, base in bases if ratios.get(base, 1) > 1)


def _variance_ratio(ratio: float) -> Fraction:
    """Return the square of a ratio of tolerances, rounded down to few bits."""
    return Fraction(math.floor(min(ratio**2, 1e9) * 64), 64)


def _would_have_answered(level: BundleLevel, rent: Rent, wanted: CountDemand) -> bool:
    """Return whether a bundle of this level would have answered the rented questions with the same accuracy."""
    if rent.noise is not None:
        width = noise_width(rent.noise, wanted.failing) / rent.size
        if width < _TOLERANCE_SLACK * wanted.rent - 1 / rent.size:
            return False
    if not rent.is_answered_with([pattern for pattern, _ in wanted.designed]):
        return False
    match level:
        case BundleLevel.LATTICE:
            return class_sets(rent.pattern) is not None
        case BundleLevel.SCOPE_LATTICE:
            alike = any(rent.pattern.classes == pattern.classes for pattern, _ in wanted.designed)
            return alike and rent.noise is not None and class_sets(rent.pattern) is not None
        case BundleLevel.TABLE:
            return True
        case BundleLevel.SCOPE_TABLE:
            return rent.noise is not None and set(rent.pattern.names) <= set(wanted.pattern.names)
        case _:
            assert_never(level)
