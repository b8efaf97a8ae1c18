"""Measurements: queries with the noise of each block, and residuals with theirs.

A measurement states its price. Residuals are priced together, by the worst way in which two neighbouring tables can
differ, and are measured with integer normal noise on the rows of their bases.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from itertools import groupby, product
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dodona.errors import InvalidArgument
from dodona.numbers import Doubles, Integers
from dodona.privacy.additive_noise import Gaussian, Laplace, Noise, NormalNoise, RoundedGaussian
from dodona.privacy.events import ComposedEvent, Event, RoundedGaussianEvent, UnevenGaussianEvent
from dodona.query.bases import Base, base_squares, largest_weight, least_overlap
from dodona.query.canonical import RecentCache, query_digest
from dodona.query.query import Query
from dodona.query.question import Question
from dodona.query.residual import BasedNumber, Classes, Residual, blocks_of_residual, residual_of_blocks
from dodona.query.sensitivity import Sensitivity, unit_sensitivity
from dodona.schema.schema import Domain, Neighbours, Unit

# --- A measurement: a query, the noise of each of its blocks, and its price. ---


_LAWS: dict[str, type[Noise]] = {"laplace": Laplace, "gaussian": Gaussian, "rounded-gaussian": RoundedGaussian}
_WORDS = {law: word for word, law in _LAWS.items()}
_CACHE = RecentCache[tuple[Query, ...]]()


@dataclass(frozen=True, slots=True)
class DrawCounts:
    """A number of released values, by noise law."""

    laplace: int = 0
    gaussian: int = 0

    def __bool__(self) -> bool:
        return self.laplace + self.gaussian > 0

    @classmethod
    def of(cls, noise: Noise, values: int) -> DrawCounts:
        """Return the number of values of one law.

        >>> DrawCounts.of(Laplace(scale=2), 3)
        DrawCounts(laplace=3, gaussian=0)
        """
        return cls(values, 0) if isinstance(noise, Laplace) else cls(0, values)

    def plus(self, other: DrawCounts) -> DrawCounts:
        """Return the number of both together."""
        return DrawCounts(self.laplace + other.laplace, self.gaussian + other.gaussian)


@dataclass(frozen=True, slots=True)
class Measurement:
    """Independent integer noise on every answer, with one law and scale per block, in units of the block's step."""

    query: Query
    noises: tuple[Noise, ...]
    label: str = field(default="", compare=False)
    """Of a bundle, its kind: what is bought as a bundle is not the answer to the question that is the same table."""

    def __post_init__(self) -> None:
        """Validate that every block has noise."""
        if len(self.noises) != len(self.query.blocks):
            raise InvalidArgument("noises", len(self.noises), f"write one for each of {len(self.query.blocks)} blocks")

    @property
    def purpose(self) -> str:
        """The purpose that is recorded in its receipt: the digest of the query, and the label if there is one."""
        return " ".join(filter(None, (query_digest(self.query), self.label)))

    @property
    def mechanism(self) -> str:
        """The noises as text that `noises_from_text` parses."""
        return noises_to_text(self.noises)

    @property
    def draws(self) -> DrawCounts:
        """How many values it releases."""
        paired = zip(self.noises, self.query.blocks, strict=True)
        laplace = sum([block.values for noise, block in paired if isinstance(noise, Laplace)])
        return DrawCounts(laplace, self.query.values - laplace)

    def event(self, unit: Unit, moved: Sensitivity | None = None) -> Event:
        """Return the event: blocks with the same noise are priced together, as one vector.

        `moved` is the sensitivity of a query of one block, where it is already known.

        Theorem: sensitivity, people
        """
        if len(self.noises) == 1:
            return self.noises[0].event(unit_sensitivity(self.query, unit) if moved is None else moved)
        parts: dict[Noise, list[int]] = {}
        same: dict[int, list[int]] = {}  # by identity: blocks mostly share one object, and comparing objects is slower
        for number, noise in enumerate(self.noises):
            numbers = same.get(id(noise))
            if numbers is None:
                numbers = same[id(noise)] = parts.setdefault(noise, [])
            numbers.append(number)
        queries = _split_blocks(self.query, tuple(map(tuple, parts.values())))
        events = [noise.event(unit_sensitivity(query, unit)) for noise, query in zip(parts, queries, strict=True)]
        return events[0] if len(events) == 1 else ComposedEvent(tuple((event, 1) for event in events))


def _split_blocks(query: Query, parts: tuple[tuple[int, ...], ...]) -> tuple[Query, ...]:
    """Return one query for each group of blocks."""
    if len(parts) == 1:
        return (query,)
    blocks, domain = query.blocks, query.domain
    return _CACHE.of(query, parts, lambda: tuple(Query(domain, tuple(blocks[n] for n in part)) for part in parts))


def noises_to_text(noises: tuple[Noise, ...]) -> str:
    """Return the noises as text that `noises_from_text` parses.

    >>> noises_to_text((Laplace(scale=2), Laplace(scale=2), Gaussian(scale="7/2")))
    'laplace 2 x 2, gaussian 7/2 x 1'
    """
    runs = ((noise, sum(1 for _ in run)) for noise, run in groupby(noises))
    return ", ".join(f"{_WORDS[type(noise)]} {noise.scale} x {times}" for noise, times in runs)


@lru_cache(maxsize=1 << 12)
def noises_from_text(text: str) -> tuple[Noise, ...]:
    """Parse the text of `noises_to_text`.

    >>> noises_from_text("gaussian 7/2 x 2")[1].scale
    Fraction(7, 2)
    """
    noises: list[Noise] = []
    for run in text.split(", "):
        try:
            law, scale, _, times = run.split(" ")
            noises += [_LAWS[law](scale=Fraction(scale))] * int(times)
        except (KeyError, ValueError, ZeroDivisionError) as fault:
            raise InvalidArgument("mechanism", text, "write runs such as 'laplace 2 x 3'") from fault
    return tuple(noises)


# --- What was measured: a question, the noisy integers of its blocks, and their noise. ---


@dataclass(frozen=True, slots=True)
class MeasuredValues:
    """Noisy integers, block by block, and one noise per block, both in the block's steps."""

    question: Question
    values: Sequence[int] | Integers
    noises: tuple[Noise, ...]

    def __post_init__(self) -> None:
        """Raise if values or noises do not match the question."""
        query = self.question.query
        if len(self.noises) != len(query.blocks):
            raise InvalidArgument("noises", len(self.noises), f"write one for each of {len(query.blocks)} blocks")
        if len(self.values) != query.values:
            raise InvalidArgument("values", len(self.values), f"the question has {query.values}")

    @property
    def groups(self) -> int:
        """The number of groups of the question."""
        return self.question.groups

    def steps(self, block: int) -> list[int]:
        """Return the noisy integers of a block, in steps."""
        return [int(value) for value in self._part(block)]

    def numbers(self, block: int) -> Doubles:
        """Return the noisy integers of a block as floats: one row per group of the question."""
        return np.asarray(self._part(block), dtype=np.float64).reshape(self.groups, -1)

    def _part(self, block: int) -> Sequence[int] | Integers:
        start = sum(other.values for other in self.question.query.blocks[:block])
        return self.values[start : start + self.question.query.blocks[block].values]


# --- The pattern price: the joint price of residuals when a row is added, removed or replaced. ---


MOST_PATTERNS = 1 << 20
"""Up to this many patterns are enumerated; beyond, each residual is priced by its own worst pattern."""
_AT_ONCE = 1 << 22
_NEAR = 1e-9  # doubles only preselect the patterns whose sums are then computed exactly; their error is far smaller

ResidualVariance = tuple[Residual, Fraction]
"""A residual and its variance σ²: a row of squared length N gets noise of variance σ²·N."""


def worst_ratio(parts: Sequence[ResidualVariance], unit: Unit, *, limit: int = MOST_PATTERNS) -> Fraction:
    """Return the largest Σ change²/variance over all neighbours, twice the zCDP price. Exact within the limit.

    All rows of a person may move it in the same direction; the old and the new person may differ in number of rows.

    Theorem: residual-measurement, pattern-price, people
    """
    ratio = Fraction(0)
    if not unit.fixed:
        # Many residuals look alike, and adding fractions is slow: each kind is added once, times its number.
        alike = Counter((residual.sides, variance.numerator, variance.denominator) for residual, variance in parts)
        for (sides, above, below), times in alike.items():
            ratio += _largest_weights(sides) * Fraction(times * below, above)
    if unit.neighbours is Neighbours.REPLACE:
        ratio = max(ratio, _worst(parts, limit))
    return unit.rows**2 * ratio


def squared_move_added(residual: Residual) -> Fraction:
    """Return the largest squared length of a row in a residual: ∏(1 - 1/m) for points, and the same for any of them.

    Theorem: residual-measurement, column-base
    """
    return _largest_weights(residual.sides)


@lru_cache(maxsize=1 << 10)
def _largest_weights(sides: tuple[BasedNumber, ...]) -> Fraction:
    return math.prod((largest_weight(*side) for side in sides), start=Fraction(1))


def squared_move_replaced(residual: Residual, differs: Sequence[bool]) -> Fraction:
    """Return the squared change of a residual when one row changes its class in the marked attributes.

    Of waves it is a bound.

    Theorem: pattern-price, column-base
    """
    shared = Fraction(1)
    for side, other in zip(residual.sides, differs, strict=True):
        shared *= least_overlap(*side) if other else largest_weight(*side)
    return 2 * (squared_move_added(residual) - shared)


def largest_squared_move(residual: Residual) -> Fraction:
    """Return the largest squared change: the row differs in one attribute, of points that with the fewest classes.

    Theorem: pattern-price, column-base
    """
    if not residual.classes:
        return Fraction(0)
    least = min(least_overlap(*side) / largest_weight(*side) for side in residual.sides)
    return 2 * squared_move_added(residual) * (1 - least)


@dataclass(frozen=True, slots=True)
class DifferencePatterns:
    """All ways in which two rows can differ in their classes of some attributes."""

    axes: dict[Classes, int]
    """For each classification of an attribute, the axis of that attribute."""
    differs: dict[Classes, NDArray[np.bool_]]
    """For each classification of an attribute, whether two rows differ, for each case of the attribute."""
    shape: tuple[int, ...]
    """The number of cases of each attribute: two if it has only one classification."""

    @classmethod
    def of(cls, residuals: Iterable[Residual]) -> DifferencePatterns:
        """Return the patterns that affect the given residuals."""
        by_name: dict[str, dict[Classes, None]] = {}
        for residual in residuals:
            for classing in residual.classes:
                by_name.setdefault(classing.attribute, {})[classing] = None
        axes, differs, shape = {}, {}, []
        for place, name in enumerate(sorted(by_name)):
            ways = tuple(by_name[name])
            cases = _difference_cases(ways)
            shape.append(len(cases))
            for number, classing in enumerate(ways):
                axes[classing] = place
                differs[classing] = cases[:, number]
        return cls(axes, differs, tuple(shape))

    @property
    def size(self) -> int:
        """The number of patterns."""
        return math.prod(self.shape)

    def places(self, residual: Residual) -> NDArray[np.int64]:
        """Return the index of each pattern among the 2^|A| cases of a residual, broadcastable to all patterns."""
        indices = np.zeros([1] * len(self.shape), dtype=np.int64)
        for classing in residual.classes:
            shape = [-1 if place == self.axes[classing] else 1 for place in range(len(self.shape))]
            indices = 2 * indices + self.differs[classing].reshape(shape)
        return indices


def squared_moves(residual: Residual) -> list[Fraction]:
    """Return the squared change of a residual in each case, in the order of `DifferencePatterns.places`."""
    cases = product((False, True), repeat=len(residual.classes))
    return [squared_move_replaced(residual, differs) for differs in cases]


def _difference_cases(ways: tuple[Classes, ...]) -> NDArray[np.bool_]:
    """Return the combinations of classifications of one attribute in which two cells can differ.

    Theorem: pattern-price, column-base
    """
    if len(ways) == 1:
        return np.array([[False], [True]])
    labels = np.unique(np.stack([classing.labels() for classing in ways]), axis=1)
    first, second = np.triu_indices(labels.shape[1])
    pairs = np.unique((labels[:, first] != labels[:, second]).T, axis=0)
    for place, classing in enumerate(ways):
        if classing.base is not Base.POINTS:  # what two cells share in it is not decided by whether they differ
            both = [np.insert(np.delete(pairs, place, axis=1), place, case, axis=1) for case in (False, True)]
            pairs = np.unique(np.concatenate(both), axis=0)
    return pairs


def _worst(parts: Sequence[ResidualVariance], limit: int) -> Fraction:
    patterns = DifferencePatterns.of(residual for residual, _ in parts)
    if patterns.size > limit:
        return sum((largest_squared_move(residual) / variance for residual, variance in parts), Fraction(0))
    if not patterns.shape:
        return Fraction(0)  # all neighbours have the same number of rows
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
    seen: set[tuple[int, ...]] = set()  # multiplicities of each value in the sum: few patterns differ in them
    for start in range(0, len(near[0]), step):
        chosen = tuple(axis[start : start + step] for axis in near)
        times = np.zeros((len(chosen[0]), len(exact)), dtype=np.int64)
        for numbers, places in numbered:
            indices = np.broadcast_to(places, patterns.shape)[chosen]
            np.add.at(times, (np.arange(len(indices)), numbers[indices]), 1)
        seen.update(map(tuple, np.unique(times, axis=0).tolist()))
    pairs = (zip(exact, row, strict=True) for row in seen)
    return max(sum((count * value for value, count in row if count), Fraction(0)) for row in pairs)


# --- Measured residuals: integer normal noise on the rows of their bases, scaled by what each of them is worth.


_NAMES: dict[type[NormalNoise], tuple[str, str]] = {
    Gaussian: ("helmert", "based"),
    RoundedGaussian: ("rounded-helmert", "rounded-based"),
}
"""For each law the words of residuals in points, and in other bases."""
_DIGITS = 40
"""Bits of a scale: an irrational square root is rounded up by a relative error below 2^-39."""


@dataclass(frozen=True, slots=True)
class ResidualMeasurement:
    """Residuals with one variance each. The query asks for marginals; their noisy rows are recorded.

    Theorem: residual-measurement, column-base
    """

    theorem: ClassVar[str] = "residual-measurement"
    domain: Domain
    parts: tuple[ResidualVariance, ...]
    label: str = field(default="", compare=False)
    """A label for readers of the receipt."""
    law: type[NormalNoise] = Gaussian
    query: Query = field(init=False, repr=False, compare=False)
    """For each residual the counts or sums that its rows are computed from."""
    noises: tuple[NormalNoise, ...] = field(init=False, repr=False, compare=False)
    """One per row, in the order of the residuals; each scale is at least √(σ²·N)."""

    def __post_init__(self) -> None:
        """Validate a non-empty list of residuals and their variances."""
        parts = tuple((residual, _variance(variance)) for residual, variance in self.parts)
        object.__setattr__(self, "parts", parts)
        if not parts:
            raise InvalidArgument("parts", self.parts, "write at least one residual with its variance")
        known: dict[Fraction, NormalNoise] = {}
        noises: list[NormalNoise] = []
        for residual, variance in parts:
            lengths = residual.squares()
            by_length = {}
            for length in dict.fromkeys(lengths):
                square = variance * length
                if square not in known:
                    known[square] = self.law(scale=sqrt_above(square))
                by_length[length] = known[square]
            noises += [by_length[length] for length in lengths]
        blocks = (block for residual, _ in parts for block in blocks_of_residual(residual, self.domain))
        query = Query(self.domain, tuple(blocks))
        object.__setattr__(self, "query", query)
        object.__setattr__(self, "noises", tuple(noises))

    @property
    def purpose(self) -> str:
        """The purpose that is recorded in its receipt; it differs from that of the marginals themselves."""
        points = all(classing.base is Base.POINTS for residual, _ in self.parts for classing in residual.classes)
        name = _NAMES[self.law][0 if points else 1]
        return " ".join(filter(None, (name, query_digest(self.query), self.label)))

    @property
    def mechanism(self) -> str:
        """The variances and bases as text that `residuals_from_text` parses."""
        return ", ".join(_part_to_text(*part, self.law) for part in self.parts)

    @property
    def draws(self) -> DrawCounts:
        """How many values it releases."""
        return DrawCounts(gaussian=len(self.noises))

    def turned(self, counts: NDArray[np.int64] | Sequence[int]) -> NDArray[Any]:
        """Return the rows of the marginals as exact integers, in the order of the noises."""
        rows, start = [], 0
        for residual, _ in self.parts:
            rows.append(residual.turned(counts[start : start + residual.values]))
            start += residual.values
        return np.concatenate(rows)

    def event(self, unit: Unit) -> ResidualEvent:
        """Return the event of all residuals together.

        Theorem: residual-measurement, pattern-price, column-base, people
        """
        return residual_event(self.parts, unit, self.law)


ResidualEvent = UnevenGaussianEvent | RoundedGaussianEvent


def residual_event(parts: Sequence[ResidualVariance], unit: Unit, law: type[NormalNoise] = Gaussian) -> ResidualEvent:
    """Return the joint event of residuals with these variances, without constructing their noise.

    Theorem: residual-measurement, pattern-price, people
    """
    ratio = worst_ratio(parts, unit)
    if ratio == 0:
        accepted = "the number of rows is public where rows are replaced; measure a residual of some attribute"
        raise InvalidArgument("parts", "the number of rows alone", accepted)
    event = RoundedGaussianEvent if law is RoundedGaussian else UnevenGaussianEvent
    return event(ratio, unit.neighbours)


_ROUNDING_VARIANCE = Fraction(10, 62)  # above 1/(2π)


def rounding_variance(residual: Residual, law: type[NormalNoise]) -> Fraction:
    """Return what rounding may add to a residual's variance: 1/(2π) on each row, over the least multiple of σ² in one.

    Theorem: smoothed-sum
    """
    if law is not RoundedGaussian:
        return Fraction(0)
    return _ROUNDING_VARIANCE / math.prod(min(base_squares(*side)) for side in residual.sides)


def residuals_from_text(mechanism: str, query: Query) -> ResidualMeasurement | None:
    """Return the residuals measured under a mechanism's text; None if the text is of another mechanism."""
    words = [run.split(" ") for run in mechanism.split(", ")]
    law = next((law for law, names in _NAMES.items() if all(tokens[0] in names for tokens in words)), None)
    if law is None:
        return None
    parts: list[tuple[Residual, Fraction]] = []
    left = [*query.blocks]
    for _, variance, *bases in words:
        given = [Base(base) for base in bases] if bases else None
        number = 2 if any(base.gaps for base in given or ()) else 1
        blocks, left = left[:number], left[number:]
        if not blocks:
            return None
        parts.append((residual_of_blocks(blocks, query.domain, given), Fraction(variance)))
    return None if left else ResidualMeasurement(query.domain, tuple(parts), law=law)


def _part_to_text(residual: Residual, variance: Fraction, law: type[NormalNoise]) -> str:
    """Return one residual's variance and, if one of its bases is not points, the bases in the order of its keys."""
    if all(classing.base is Base.POINTS for classing in residual.classes):
        return f"{_NAMES[law][0]} {variance}"
    return " ".join([_NAMES[law][1], str(variance), *[classing.base.value for classing in residual.classes]])


def sqrt_above(square: Fraction) -> Fraction:
    """Return the square root if it is rational, else an upper bound with 40 bits.

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
