"""Measurements: queries with the noise each block gets, and residuals with theirs.

A measurement states its own price. Residuals are priced together, by the worst way in which two neighbouring tables
can differ, and are measured with integer Gaussian noise on Helmert rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import groupby, product
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dodona.errors import InvalidArgument
from dodona.privacy.additive_noise import Gaussian, Laplace
from dodona.privacy.events import ComposedEvent, Event, UnevenGaussianEvent
from dodona.query.canonical import RecentCache, query_digest
from dodona.query.query import Query
from dodona.query.residual import Classes, Residual, block_of_residual, residual_of_block
from dodona.query.sensitivity import unit_sensitivity
from dodona.schema.schema import Domain, Neighbours, Unit

if TYPE_CHECKING:
    from numpy.typing import NDArray


# --- A measurement: a query, and the noise that each of its blocks gets. It says itself what it costs. ---


Noise = Laplace | Gaussian
_LAWS: dict[str, type[Laplace | Gaussian]] = {"laplace": Laplace, "gaussian": Gaussian}
_CACHE = RecentCache[tuple[Query, ...]]()


@dataclass(frozen=True, slots=True)
class Measurement:
    """Independent integer noise on every answer, of one law and scale a block, in the block's own steps."""

    query: Query
    noises: tuple[Noise, ...]

    def __post_init__(self) -> None:
        """Refuse blocks without noise."""
        if len(self.noises) != len(self.query.blocks):
            raise InvalidArgument("noises", len(self.noises), f"write one for each of {len(self.query.blocks)} blocks")

    @property
    def purpose(self) -> str:
        """What a receipt for it says."""
        return query_digest(self.query)

    @property
    def mechanism(self) -> str:
        """The noises as a text that `noises_from_text` reads."""
        return noises_to_text(self.noises)

    def event(self, unit: Unit) -> Event:
        """Return what it costs: blocks with the same noise together, as one vector.

        Theorem: sensitivity, people
        """
        if len(self.noises) == 1:
            return self.noises[0].event(unit_sensitivity(self.query, unit))
        parts: dict[Noise, list[int]] = {}
        same: dict[int, list[int]] = {}  # blocks mostly share one object, which is found faster than one that is equal
        for number, noise in enumerate(self.noises):
            numbers = same.get(id(noise))
            if numbers is None:
                numbers = same[id(noise)] = parts.setdefault(noise, [])
            numbers.append(number)
        queries = _split_blocks(self.query, tuple(map(tuple, parts.values())))
        events = [noise.event(unit_sensitivity(query, unit)) for noise, query in zip(parts, queries, strict=True)]
        return events[0] if len(events) == 1 else ComposedEvent(tuple((event, 1) for event in events))


def _split_blocks(query: Query, parts: tuple[tuple[int, ...], ...]) -> tuple[Query, ...]:
    """Return a query for each part of the blocks."""
    if len(parts) == 1:
        return (query,)
    return _CACHE.of(
        query, parts, lambda: tuple(Query(query.domain, tuple(query.blocks[n] for n in part)) for part in parts)
    )


def noises_to_text(noises: tuple[Noise, ...]) -> str:
    """Return the noises as a text that `noises_from_text` reads.

    >>> noises_to_text((Laplace(scale=2), Laplace(scale=2), Gaussian(scale="7/2")))
    'laplace 2 x 2, gaussian 7/2 x 1'
    """
    runs = ((noise, sum(1 for _ in run)) for noise, run in groupby(noises))
    return ", ".join(f"{type(noise).__name__.lower()} {noise.scale} x {times}" for noise, times in runs)


def noises_from_text(text: str) -> tuple[Noise, ...]:
    """Return the noises that a text means.

    >>> noises_from_text("gaussian 7/2 x 2")[1].scale
    Fraction(7, 2)
    """
    found: list[Noise] = []
    for run in text.split(", "):
        try:
            law, scale, _, times = run.split(" ")
            found += [_LAWS[law](scale=scale)] * int(times)
        except (KeyError, ValueError) as fault:
            raise InvalidArgument("mechanism", text, "write runs such as 'laplace 2 x 3'") from fault
    return tuple(found)


# --- The pattern price: what residuals cost together, when a row is added or removed, or becomes another one. ---


MOST_PATTERNS = 1 << 20
"""Up to so many patterns are walked through; of more, each residual is priced by its own worst one."""
_AT_ONCE = 1 << 22
_NEAR = 1e-9  # doubles choose the patterns whose sums are then taken exactly; they are off by far less

ResidualVariance = tuple[Residual, Fraction]
"""A residual, and its variance σ²: a row of squared length N gets noise of variance σ²·N."""


def worst_ratio(parts: Sequence[ResidualVariance], unit: Unit, *, limit: int = MOST_PATTERNS) -> Fraction:
    """Return the largest Σ change²/variance over all neighbours: twice the zCDP price. Exact within the limit.

    Of a person all rows may move it the same way; one who is replaced may have had none in the place of some.

    Theorem: residual-measurement, pattern-price, people
    """
    found = Fraction(0)
    if not unit.fixed:
        found = sum((squared_move_added(residual) / variance for residual, variance in parts), Fraction(0))
    if unit.neighbours is Neighbours.REPLACE:
        found = max(found, _worst(parts, limit))
    return unit.rows**2 * found


def squared_move_added(residual: Residual) -> Fraction:
    """Return ∏(1 - 1/m): the squared length that a row has in a residual, whichever row it is.

    Theorem: residual-measurement
    """
    return math.prod((Fraction(own.number - 1, own.number) for own in residual.classes), start=Fraction(1))


def squared_move_replaced(residual: Residual, differs: Sequence[bool]) -> Fraction:
    """Return how far, squared, a row moves a residual that comes to differ in the classes of these attributes.

    Theorem: pattern-price
    """
    shared = Fraction(1)
    for own, other in zip(residual.classes, differs, strict=True):
        shared *= Fraction(-1 if other else own.number - 1, own.number)
    return 2 * (squared_move_added(residual) - shared)


def largest_squared_move(residual: Residual) -> Fraction:
    """Return the largest of these: where the row differs in the attribute of fewest classes alone.

    Theorem: pattern-price
    """
    if not residual.classes:
        return Fraction(0)
    least = min(own.number for own in residual.classes)
    return 2 * squared_move_added(residual) * Fraction(least, least - 1)


@dataclass(frozen=True, slots=True)
class DifferencePatterns:
    """All ways in which two rows can differ in the classes of some attributes."""

    axes: dict[Classes, int]
    """For each way to class an attribute, the place of the attribute."""
    differs: dict[Classes, NDArray[np.bool_]]
    """For each way to class an attribute, whether two rows differ, in each case of the attribute."""
    shape: tuple[int, ...]
    """How many cases each attribute has: two, where it is classed in one way."""

    @classmethod
    def of(cls, residuals: Iterable[Residual]) -> DifferencePatterns:
        """Return the patterns that some residuals can see."""
        by_name: dict[str, dict[Classes, None]] = {}
        for residual in residuals:
            for own in residual.classes:
                by_name.setdefault(own.attribute, {})[own] = None
        axes, differs, shape = {}, {}, []
        for place, name in enumerate(sorted(by_name)):
            ways = tuple(by_name[name])
            cases = _difference_cases(ways)
            shape.append(len(cases))
            for number, own in enumerate(ways):
                axes[own] = place
                differs[own] = cases[:, number]
        return cls(axes, differs, tuple(shape))

    @property
    def size(self) -> int:
        """How many patterns there are."""
        return math.prod(self.shape)

    def places(self, residual: Residual) -> NDArray[np.int64]:
        """Return for each pattern which of the 2^|A| cases of a residual it is, in a shape that broadcasts to all."""
        found = np.zeros([1] * len(self.shape), dtype=np.int64)
        for own in residual.classes:
            shape = [-1 if place == self.axes[own] else 1 for place in range(len(self.shape))]
            found = 2 * found + self.differs[own].reshape(shape)
        return found


def squared_moves(residual: Residual) -> list[Fraction]:
    """Return how far, squared, a residual moves in each case, in the order of `Patterns.places`."""
    return [
        squared_move_replaced(residual, differs) for differs in product((False, True), repeat=len(residual.classes))
    ]


def _difference_cases(ways: tuple[Classes, ...]) -> NDArray[np.bool_]:
    """Return which combinations of ways to class one attribute two cells can differ in."""
    if len(ways) == 1:
        return np.array([[False], [True]])
    labels = np.unique(np.stack([own.labels() for own in ways]), axis=1)
    first, second = np.triu_indices(labels.shape[1])
    pairs: NDArray[np.bool_] = np.unique((labels[:, first] != labels[:, second]).T, axis=0)
    return pairs


def _worst(parts: Sequence[ResidualVariance], limit: int) -> Fraction:
    patterns = DifferencePatterns.of(residual for residual, _ in parts)
    if patterns.size > limit:
        return sum((largest_squared_move(residual) / variance for residual, variance in parts), Fraction(0))
    if not patterns.shape:
        return Fraction(0)  # the number of rows is the same
    values: dict[Fraction, int] = {}
    numbered, about = [], np.zeros(patterns.shape)
    for residual, variance in parts:
        cases = [case / variance for case in squared_moves(residual)]
        numbers = np.array([values.setdefault(case, len(values)) for case in cases], dtype=np.int64)
        places = patterns.places(residual)
        numbered.append((numbers, places))
        about += np.array([float(case) for case in cases])[places]
    near = np.nonzero(about >= about.max() * (1 - _NEAR))
    exact, step = tuple(values), max(1, _AT_ONCE // len(values))
    seen: set[tuple[int, ...]] = set()  # how often each value is in the sum: few patterns differ in that
    for start in range(0, len(near[0]), step):
        chosen = tuple(axis[start : start + step] for axis in near)
        times = np.zeros((len(chosen[0]), len(exact)), dtype=np.int64)
        for numbers, places in numbered:
            own = np.broadcast_to(places, patterns.shape)[chosen]
            np.add.at(times, (np.arange(len(own)), numbers[own]), 1)
        seen.update(map(tuple, np.unique(times, axis=0).tolist()))
    return max(
        sum((count * value for value, count in zip(exact, row, strict=True) if count), Fraction(0)) for row in seen
    )


# --- Residuals, measured: integer Gaussian noise on Helmert rows, as much on each as makes all of them equally sharp.


_NAME = "helmert"
_DIGITS = 40
"""Bits of a scale: a square root that is no fraction is rounded up by less than 2^-39 of itself."""


@dataclass(frozen=True, slots=True)
class ResidualMeasurement:
    """Residuals with a variance each. Their marginals are asked for; Helmert rows of these get noise and are recorded.

    Theorem: residual-measurement
    """

    theorem: ClassVar[str] = "residual-measurement"
    domain: Domain
    parts: tuple[ResidualVariance, ...]
    label: str = field(default="", compare=False)
    """A word that the receipt carries, for whoever reads it again."""
    query: Query = field(init=False, repr=False, compare=False)
    """One block a residual: the counts of all combinations of its classes."""
    noises: tuple[Gaussian, ...] = field(init=False, repr=False, compare=False)
    """One for each Helmert row, those of the first residual first, of a scale that is never below √(σ²·N)."""

    def __post_init__(self) -> None:
        """Refuse an empty list and variances that are none."""
        parts = tuple((residual, _variance(variance)) for residual, variance in self.parts)
        object.__setattr__(self, "parts", parts)
        if not parts:
            raise InvalidArgument("parts", self.parts, "write at least one residual with its variance")
        known: dict[Fraction, Gaussian] = {}
        noises: list[Gaussian] = []
        for residual, variance in parts:
            lengths = [row.square for row in residual.rows()]
            own = {}
            for length in dict.fromkeys(lengths):
                square = variance * length
                if square not in known:
                    known[square] = Gaussian(scale=sqrt_above(square))
                own[length] = known[square]
            noises += [own[length] for length in lengths]
        query = Query(self.domain, tuple(block_of_residual(residual, self.domain) for residual, _ in parts))
        object.__setattr__(self, "query", query)
        object.__setattr__(self, "noises", tuple(noises))

    @property
    def purpose(self) -> str:
        """What a receipt for it says: another than for the marginals themselves."""
        return " ".join(filter(None, (_NAME, query_digest(self.query), self.label)))

    @property
    def mechanism(self) -> str:
        """The variances as a text that `residuals_from_text` reads."""
        return ", ".join(f"{_NAME} {variance}" for _, variance in self.parts)

    def turned(self, counts: NDArray[np.int64] | Sequence[int]) -> NDArray[Any]:
        """Return the Helmert rows of the marginals, in the order of the noises: whole numbers, exactly."""
        found, start = [], 0
        for residual, _ in self.parts:
            size = math.prod(own.number for own in residual.classes)
            found.append(residual.turned(counts[start : start + size]))
            start += size
        return np.concatenate(found)

    def event(self, unit: Unit) -> UnevenGaussianEvent:
        """Return what all of them cost together.

        Theorem: residual-measurement, pattern-price, people
        """
        return residual_event(self.parts, unit)


def residual_event(parts: Sequence[ResidualVariance], unit: Unit) -> UnevenGaussianEvent:
    """Return what residuals with these variances cost together, before their noise is made.

    Theorem: residual-measurement, pattern-price, people
    """
    ratio = worst_ratio(parts, unit)
    if ratio == 0:
        accepted = "the number of rows is public where rows are replaced; measure a residual of some attribute"
        raise InvalidArgument("parts", "the number of rows alone", accepted)
    return UnevenGaussianEvent(ratio, unit.neighbours)


def residuals_from_text(mechanism: str, query: Query) -> ResidualMeasurement | None:
    """Return the residuals that were measured under a mechanism's text; None where it is another mechanism's."""
    words = [run.split(" ") for run in mechanism.split(", ")]
    if any(len(own) != 2 or own[0] != _NAME for own in words) or len(words) != len(query.blocks):  # noqa: PLR2004
        return None
    parts: list[tuple[Residual, Fraction]] = []
    for (_, variance), block in zip(words, query.blocks, strict=True):
        parts.append((residual_of_block(block, query.domain), Fraction(variance)))
    return ResidualMeasurement(query.domain, tuple(parts))


def sqrt_above(square: Fraction) -> Fraction:
    """Return the square root where it is a fraction, else the next above it with 40 bits.

    >>> sqrt_above(Fraction(9, 4))
    Fraction(3, 2)
    """
    top, bottom = math.isqrt(square.numerator), math.isqrt(square.denominator)
    if top * top == square.numerator and bottom * bottom == square.denominator:
        return Fraction(top, bottom)
    magnitude = (square.numerator.bit_length() - square.denominator.bit_length()) // 2
    unit = Fraction(2) ** (magnitude - _DIGITS)
    return (math.isqrt(int(square / unit**2)) + 1) * unit


def _variance(value: object) -> Fraction:
    if not isinstance(value, Fraction | int) or isinstance(value, bool) or value <= 0:
        raise InvalidArgument("variance", value, "write a fraction above 0")
    return Fraction(value)
