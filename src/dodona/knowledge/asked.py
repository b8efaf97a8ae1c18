"""What was asked about and bought so far, as the rent-or-buy rule sees it.

Single answers are rent. What they cover decides for which sets of classes a bundle is designed, and in which base each
column is measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from itertools import combinations, product
from statistics import NormalDist
from typing import TYPE_CHECKING

from dodona.knowledge.patterns import MOST_PATTERN_CELLS, CountPattern, noise_variance
from dodona.knowledge.sides import (
    SUM,
    ClassSet,
    ClassWeight,
    Members,
    SetShape,
    hardness,
    representative_set,
    set_mean,
    target_sets,
)
from dodona.privacy.additive_noise import Laplace, Noise, NormalNoise, RoundedGaussian
from dodona.privacy.events import Event, RoundedGaussianEvent, UnevenGaussianEvent
from dodona.query.bases import Base, largest_weight
from dodona.query.residual import Classes
from dodona.schema.attributes import Boolean, Category
from dodona.schema.schema import Domain, Unit

if TYPE_CHECKING:
    from dodona.knowledge.residuals import ResidualStore


class BundleLevel(Enum):
    """The kind of a bundle: residuals or a table of counts, for one set of attributes or for all asked about so far."""

    SCOPE_LATTICE = "the residuals of its columns"
    LATTICE = "the residuals of all columns that were asked about"
    SCOPE_TABLE = "all counts of its columns"
    TABLE = "all counts of all columns that were asked about"


_LATTICES = (BundleLevel.LATTICE, BundleLevel.SCOPE_LATTICE)
_LEVELS = (BundleLevel.LATTICE, BundleLevel.TABLE, BundleLevel.SCOPE_LATTICE, BundleLevel.SCOPE_TABLE)
"""The widest first."""


def possible_levels(patterns: Iterable[CountPattern], *, together: bool) -> tuple[BundleLevel, ...]:
    """Return the levels that may answer some products, the widest first.

    Tables tell neither sums nor how errors vary `together`, where that has to be known.
    """
    counts = not together and all(pattern.summed is None and not pattern.weighed for pattern in patterns)
    return _LEVELS if counts else _LATTICES


def is_bundle(purpose: str) -> bool:
    """Return whether a charge was for a bundle, by its purpose: others may ask for what follows from it."""
    return purpose.rpartition(" ")[2] in BundleLevel.__members__


_CLEARLY, _CLEARLY_LAPLACE = 2.25, 13.5
"""Times the variance: noise half as wide again as normal noise, or as Laplace noise down to failures of 10^-9."""
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
    size: float = 1.0
    """Of sums, how many times the tolerance of a count they may be off."""
    times: int = 1
    used: set[BundleLevel] = field(default_factory=set)
    """The levels at which it has helped to buy a bundle."""

    def variance(self, variance_of: Callable[[CountPattern], float | None]) -> float | None:
        """Return the variance with which its answers follow now; None where they do not."""
        sides = class_sets(self.pattern)
        if not sides:
            return None
        classes, members = zip(*sides, strict=True)
        return variance_of(CountPattern(classes, members))

    def is_tighter(self, variance: float | None) -> bool:
        """Return whether its answers had clearly less variance than this."""
        if self.noise is None or variance is None:
            return False
        clearly = _CLEARLY_LAPLACE if isinstance(self.noise, Laplace) else _CLEARLY
        return variance > clearly * noise_variance(self.noise) / self.size**2

    def is_answered_with(self, patterns: Sequence[CountPattern]) -> bool:
        """Return whether what answers some products may answer what was rented: lattices for counts answer no sums."""
        rented = self.pattern
        if rented.summed is not None and all(pattern.summed is None for pattern in patterns):
            return False
        return not rented.weighed or any(pattern.weighed for pattern in patterns)


@dataclass(slots=True)
class AskedScopes:
    """Which columns were asked about together: some in conditions, and others as keys of groups."""

    scopes: set[tuple[str, ...]] = field(default_factory=set)
    """Of each product, its columns."""
    keys: set[tuple[str, ...]] = field(default_factory=set)
    """Those of them that groups were made by."""
    filters: set[str] = field(default_factory=set)
    """All columns that conditions were about."""
    sizes: set[tuple[int, int]] = field(default_factory=set)
    """The numbers of keys and of columns in conditions."""

    def add(self, names: tuple[str, ...], keys: tuple[str, ...] | None) -> None:
        """Record the columns of a product, and which of them are keys.

        Of what was bought only its columns are known: its keys are taken to be the most that were asked with.
        """
        if keys is None:
            keys = max((candidate for candidate in sorted(self.keys) if {*candidate} <= {*names}), key=len, default=())
        self.scopes.add(names)
        self.keys.add(keys)
        self.filters.update({*names}.difference(keys))
        self.sizes.add((len(keys), len(names) - len(keys)))

    def copy(self) -> AskedScopes:
        """Return the same, to be added to."""
        return AskedScopes({*self.scopes}, {*self.keys}, {*self.filters}, {*self.sizes})

    @property
    def extent(self) -> int:
        """How much was seen."""
        return len(self.scopes) + len(self.keys) + len(self.filters) + len(self.sizes)

    def closure(self, others: Iterable[AskedScopes] = ()) -> Iterator[tuple[str, ...]]:
        """Yield the columns of all products with the keys of one that was asked, and as many conditions as one like it.

        So a chart is foreseen under all filters of a dashboard, but no chart by the keys of two of them. Conditions may
        be those of others as well.
        """
        filters = self.filters.union(*[asked.filters for asked in others])
        sizes = self.sizes.union(*[asked.sizes for asked in others])
        for keys, (several, size) in product(sorted(self.keys), sorted(sizes)):
            for chosen in combinations(sorted(filters - {*keys}), size) if several == len(keys) else ():
                yield tuple(sorted((*keys, *chosen)))


def _keys(pattern: CountPattern) -> tuple[str, ...]:
    if pattern.grouped:
        return pattern.names
    listed = zip(pattern.classes, pattern.filters or (), strict=False)
    return tuple([classing.attribute for classing, members in listed if members is None])


@dataclass(slots=True)
class SingleAnswers:
    """What single answers have covered so far: the facts from which bundles are designed."""

    rents: list[Rent] = field(default_factory=list)
    finest: dict[str, Classes] = field(default_factory=dict)
    """The finest way in which each column was asked about."""
    worst: dict[str, dict[tuple[Base, SetShape], Members]] = field(default_factory=dict)
    """Of products, the set of its classes that has the most variance, in each base that the column may have."""
    counted: AskedScopes = field(default_factory=AskedScopes)
    """The columns that were asked about together."""
    ordered: frozenset[str] = frozenset()
    """The columns whose values have an order: ranges may be asked of them."""
    summed: dict[tuple[str, Base], tuple[Classes, int]] = field(default_factory=dict)
    """The columns whose numbers or squares were added up, and the largest weight of the number of rows in that."""
    added: dict[str, AskedScopes] = field(default_factory=dict)
    """Of the sums of each column, the other columns."""
    changes: int = 0
    """How often any of this changed, apart from how often a rent was paid."""
    _open: dict[tuple[object, ...], Rent] = field(default_factory=dict)
    _compared: dict[str, set[Members]] = field(default_factory=dict)
    """The sets of each column's finest classes that were compared with the worst: the same few recur."""

    def pay(self, pattern: CountPattern, noise: Noise, event: Event, blocks: int, size: float = 1.0) -> None:
        """Record a single answer, with the size of a sum."""
        key = (pattern.classes, pattern.sets is None, noise, event, blocks, size)
        known = self._open.get(key)
        if known is not None:
            known.times += 1
        else:
            self._open[key] = Rent(pattern, noise, event, blocks, size)
            self.rents.append(self._open[key])
            self.changes += 1
        self.see(pattern)

    def see(self, pattern: CountPattern, *, bought: bool = False) -> None:
        """Record the columns and classes that were asked about, or that something was bought for."""
        keys = None if bought else _keys(pattern)
        sides, value = class_sets(pattern), pattern.summed
        known = self._extent
        if value is not None and sides is not None:
            place = value.attribute, value.base
            before = self.summed.get(place, (value, SUM - 1))[1]
            members = next(members for side, members in sides if side is value)
            if not isinstance(members, ClassWeight) and members > before:
                self.summed[place] = value, members
                self.changes += 1
            sides = tuple([side for side in sides if side[0] is not value])
            added = self.added.setdefault(value.attribute, AskedScopes())
            added.add(tuple([classes.attribute for classes, _ in sides]), keys)
        for classes in pattern.classes:
            if classes is value:
                continue
            finest = self.finest.get(classes.attribute)
            if finest is None or classes.number > finest.number:
                self.finest[classes.attribute] = classes
                self.worst.pop(classes.attribute, None)
                self._compared.pop(classes.attribute, None)
                self.changes += 1
        if sides:
            if value is None:
                self.counted.add(pattern.names, keys)
            for classes, members in sides:
                if classes == self.finest[classes.attribute]:
                    self._see_set(classes, members)
        self.changes += self._extent - known

    def unused(self, level: BundleLevel, patterns: Sequence[CountPattern]) -> list[Rent]:
        """Return the rent that helped to buy no bundle of a level, and that one for some products may have answered."""
        return [rent for rent in self.rents if level not in rent.used and rent.is_answered_with(patterns)]

    def alike(self, value: tuple[ClassSet, ...]) -> list[tuple[tuple[ClassSet, ...], AskedScopes]]:
        """Return all columns that were added up, each with its scopes; without a column that is, those of counts.

        They are for their steps alone if the one that is asked for is.
        """
        if not value:
            return [((), self.counted)]
        return [
            (((classes, SUM if value[0][1] == SUM else members),), self.added[classes.attribute])
            for classes, members in self.summed.values()
        ]

    @property
    def _extent(self) -> int:
        """How many sizes and scopes were seen."""
        return self.counted.extent + sum([scopes.extent for scopes in self.added.values()])

    def _see_set(self, classes: Classes, members: Members) -> None:
        compared = self._compared.setdefault(classes.attribute, set())
        if members in compared:
            return
        compared.add(members)
        worst = self.worst.setdefault(classes.attribute, {})
        for based in self.in_bases(classes):
            for shape, target in target_sets(based, members):
                before = worst.get((based.base, shape))
                if before is None or hardness(based, target) > hardness(based, before):
                    worst[based.base, shape] = target
                    self.changes += 1

    def in_bases(self, classes: Classes) -> tuple[Classes, ...]:
        """Return classes in each base they may have: ranges pay off from a few on, and their tables are dense."""
        several = classes.attribute in self.ordered and _SEVERAL <= classes.number <= _MOST_WAVES
        return _with_ranges(classes) if several else (classes,)

    def based(self, name: str) -> tuple[Classes, tuple[Members, ...]]:
        """Return a column's finest classes, in the base in which its worst sets cost least, and these sets."""
        finest, worst = self.finest[name], self.worst[name]
        cost: dict[Base, float] = {}
        for (base, _), members in worst.items():
            cost[base] = max(cost.get(base, 0.0), _set_cost(finest.based(base), members))
        best = min(cost, key=lambda base: cost[base])
        return finest.based(best), tuple([members for (base, _), members in worst.items() if base is best])

    def based_product(self, sides: tuple[ClassSet, ...]) -> tuple[ClassSet, ...]:
        """Return a product with a base for each column, and sets that stand for all with the same variance."""
        product = []
        for classes, members in sides:
            if classes.base.sums:
                product.append((classes, members))
                continue
            if classes == self.finest.get(classes.attribute):
                based = self.based(classes.attribute)[0]
            else:
                based = min(self.in_bases(classes), key=lambda candidate: _set_cost(candidate, members))
            product.append((based, representative_set(based, members)))
        return tuple(product)

    def least_cost(self, sides: tuple[ClassSet, ...], *, fixed: bool) -> float:
        """Return the least price times variance of a product by residuals, whatever bases its columns get.

        With shares v of the variance and prices p it is (Σ √(p·v))², and the sum is a product over the columns.

        Theorem: rent-or-buy
        """
        whole = rows = 1.0
        for classing, members in sides:
            mean = abs(set_mean(classing, members))
            whole *= mean + math.sqrt(
                _EVEN * min([_set_cost(candidate, members) for candidate in self.in_bases(classing)])
            )
            rows *= mean
        root = min(whole - rows if fixed else whole, _LARGEST_ROOT)
        return root * root

    def seen(self, *patterns: CountPattern) -> SingleAnswers:
        """Return the record after one more question, without the rents."""
        worst = {name: dict(sets) for name, sets in self.worst.items()}
        record = SingleAnswers([], dict(self.finest), worst, self.counted.copy(), self.ordered)
        record.summed = dict(self.summed)
        record.added = {name: scopes.copy() for name, scopes in self.added.items()}
        for pattern in patterns:
            record.see(pattern)
        return record

    def bought(  # noqa: PLR0913  all that a purchase says
        self,
        level: BundleLevel,
        names: frozenset[str],
        pattern: CountPattern,
        event: Event,
        *,
        variance_of: Callable[[CountPattern], float | None],
        summed: frozenset[tuple[str, Base]] = frozenset(),
    ) -> None:
        """Mark the rent for what now follows as accurately as used; a narrow bundle counts as rent for a wide one."""
        self.changes += 1
        for rent in self.rents:
            if level in rent.used or not _follows(rent, level, names, summed):
                continue
            variance = rent.variance(variance_of)
            if rent.is_tighter(variance) or (variance is None and level is BundleLevel.LATTICE):
                continue
            rent.used |= {level, _NARROW.get(level, level)}  # a wide bundle also answers what a narrow one would
        self._open = {key: rent for key, rent in self._open.items() if level not in rent.used}
        if level not in _NARROW:
            self.rents.append(Rent(pattern, None, event, 1, used={level}))
            self.see(pattern, bought=True)


def _follows(rent: Rent, level: BundleLevel, names: frozenset[str], summed: frozenset[tuple[str, Base]]) -> bool:
    """Return whether rented answers would have followed from a bundle; for a wide lattice, with prior knowledge."""
    value, wide = rent.pattern.summed, level is BundleLevel.LATTICE
    if value is not None and not (summed if wide else (value.attribute, value.base) in summed):
        return False
    product = class_sets(rent.pattern) is not None or level in {BundleLevel.SCOPE_TABLE, BundleLevel.TABLE}
    counted = {classes.attribute for classes in rent.pattern.classes if not classes.base.sums}
    return product and (wide or counted <= names)


def class_sets(pattern: CountPattern) -> tuple[ClassSet, ...] | None:
    """Return a product, or one cell of a marginal, by attribute; None for any other pattern."""
    if pattern.grouped:
        return tuple((classes, 1) for classes in pattern.classes)
    if pattern.filters is not None:
        return tuple((classes, members or 1) for classes, members in zip(pattern.classes, pattern.filters, strict=True))
    return None if pattern.sets is None else tuple(zip(pattern.classes, pattern.sets, strict=True))


@lru_cache(maxsize=1 << 10)
def _with_ranges(classes: Classes) -> tuple[Classes, ...]:
    return classes, classes.based(Base.RANGES)


def _set_cost(classes: Classes, members: Members) -> float:
    return float(largest_weight(*classes.side)) * hardness(classes, members)[0]


_SEVERAL = 8  # classes: fewer are asked about one by one as often as in ranges, and gain little
_MOST_WAVES = 640  # a dense table of as many rows and columns: with 1,000 a plain count would hold 60 MB more
_EVEN = 0.98  # of the largest weight of a class: the mean weight of the classes is above it, in every base
_LARGEST_ROOT = 1e100  # of price times variance: a bound from below, which is never reached


def ordered_columns(domain: Domain) -> frozenset[str]:
    """Return the columns whose values have an order."""
    return frozenset(attribute.name for attribute in domain.attributes if not isinstance(attribute, Category | Boolean))


# --- What a bundle costs at least, before it is designed. ---


_LIGHT = 0.08  # up to this failure probability a sum of Laplace noises is not within less than a normal one


@dataclass(frozen=True, slots=True)
class LeastPrices:
    """The least that bundles cost that answer a count as accurately as it is asked, by public facts alone.

    Theorem: rent-or-buy
    """

    unit: Unit
    law: type[NormalNoise]
    tolerance: float
    failing: float

    def by_level(
        self,
        pattern: CountPattern,
        asked: SingleAnswers,
        residuals: ResidualStore,
        price: Callable[[Event], float],
        single: float,
    ) -> dict[BundleLevel, float]:
        """Return the least price of a bundle of each level; Laplace noise on the count itself costs `single` at least.

        Normal noise is priced in proportion to 1/variance, so that one price tells all.
        """
        variance = ((self.tolerance + 1) / self._quantile) ** 2  # a step more, as sums are whole numbers
        fixed = self.unit.fixed
        event = normal_event(self.unit.rows**2 * (2 if fixed else 1) / variance, self.unit, self.law)
        rate, lattice = price(event), math.inf
        sides = class_sets(pattern)
        if sides is not None and math.isfinite(rate):
            bought = residuals.information(pattern.classes, fixed=fixed) if residuals.version else 0.0
            lattice = rate * (asked.least_cost(sides, fixed=fixed) - variance * bought)
        narrow = {classes.attribute: classes.number for classes in pattern.classes}
        wide = narrow | {name: max(classes.number, narrow.get(name, 0)) for name, classes in asked.finest.items()}
        return {
            BundleLevel.LATTICE: lattice,
            BundleLevel.TABLE: self._table(math.prod(wide.values()), rate, single),
            BundleLevel.SCOPE_LATTICE: lattice,
            BundleLevel.SCOPE_TABLE: self._table(math.prod(narrow.values()), rate, single),
        }

    @property
    def _quantile(self) -> float:
        return -NormalDist().inv_cdf(self.failing / 2)  # 1 less a tiny number is 1

    def _table(self, size: int, rate: float, single: float) -> float:
        """Return the least price of a table: half of its N counts have a sum of variance N·v/4, if each has v."""
        if size > MOST_PATTERN_CELLS:
            return math.inf  # there is none
        if self.failing > _LIGHT or size < 2:  # noqa: PLR2004  a table has two counts or more
            return 0.0
        half = (size // 2) * (size - size // 2) / size
        laplace = math.sqrt(2 * half) * self._quantile / -math.log(self.failing)
        return min(rate * half, single * laplace * self.tolerance / (self.tolerance + 1))


def normal_event(ratio: float, unit: Unit, law: type[NormalNoise]) -> Event:
    """Return the event of normal noise whose squared changes over variances sum to a ratio."""
    event = RoundedGaussianEvent if law is RoundedGaussian else UnevenGaussianEvent
    return event(Fraction(min(max(ratio, _LEAST_RATIO), _MOST_RATIO)), unit.neighbours)


_LEAST_RATIO, _MOST_RATIO = 1e-14, 1e30  # as events are priced
