"""What follows from releases: derived values, and the laws of their errors.

A law is a single noise, a sum of noises, a bound for a sum of Gaussians, or a model's guess. All but the last are
guarantees. Derived values are linear combinations of released values; they cost nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import Self, TypeAlias, overload

import numpy as np

from dodona.answer.sums import (
    WIDE_SCALE,
    NoiseTerm,
    chernoff_bound,
    convolution_quantile,
    gaussian_sum_quantile,
    series_quantile,
)
from dodona.errors import InvalidArgument, InvariantBroken
from dodona.numbers import Doubles
from dodona.privacy.accuracy import Accuracy, to_failure_probability, validate_count
from dodona.privacy.additive_noise import Gaussian, Laplace, Noise, NormalNoise, RoundedGaussian, noise_width
from dodona.privacy.measurement import DrawCounts, MeasuredValues
from dodona.query.question import Question

# --- Laws of sums of noises: the error of a sum, difference or multiple of noisy values. ---


__all__ = ["NoiseTerm", "chernoff_bound", "describe_noise", "describe_noises", "half_width", "upper_quantile"]

CombinedLaw: TypeAlias = "NoiseSum | GaussianSumBound | ModelLaw"
_RAREST = 1e-9  # below this failure probability the rounding error of transforms is not negligible
_CLOSE = 1500.0  # the bound by series is about 3 reaches too large
_FEW = 64  # sums of at most this many draws are always convolved
_MOST_TERMS = 16  # each distinct term is transformed separately, which takes time


@overload
def half_width(noise: Noise, failing: float, answers: int = 1) -> int: ...
@overload
def half_width(noise: CombinedLaw, failing: float, answers: int = 1) -> float: ...
@lru_cache(maxsize=65536)
def half_width(noise: Noise | CombinedLaw, failing: float, answers: int = 1) -> float:
    """Return an m with P(|noise| > m) at most the failure probability, for several answers simultaneously.

    For one noise it is the least such integer. For a sum of draws it need not be an integer.

    Theorem: laplace-accuracy, gaussian-accuracy, rounded-gaussian, smoothed-sum
    """
    if isinstance(noise, Noise):
        return noise_width(noise, failing, answers)
    return noise.quantile(failing / answers)


def upper_quantile(terms: tuple[NoiseTerm, ...], failing: float) -> float:
    """Return an upper quantile of the sum: it is exceeded with probability at most `failing`.

    Theorem: sum-of-noises, smoothed-sum
    """
    kept = tuple(sorted(term for term in terms if term.factor > 0 and term.times > 0))
    return _quantile(kept, failing) if kept else 0.0


@lru_cache(maxsize=16384)
def _quantile(terms: tuple[NoiseTerm, ...], failing: float) -> float:
    """Return the least of all valid bounds; if a fast one is known to be tight, the others are skipped."""
    reach = max([term.factor for term in terms])
    series = series_quantile(terms, failing)
    if _CLOSE * reach <= series < math.inf and sum([term.times for term in terms]) > _FEW:
        return series
    bounds = [series, chernoff_bound(terms, failing)]
    if all(term.law != "Laplace" and term.scale >= WIDE_SCALE for term in terms):
        bounds.append(gaussian_sum_quantile(sum(term.normal_variance for term in terms), reach, failing))
    if failing >= _RAREST and len(terms) <= _MOST_TERMS:
        bounds.append(convolution_quantile(terms, failing))
    return min(bounds)


def describe_noise(noise: Noise) -> str:
    """Return a noise in words.

    >>> describe_noise(Laplace(scale=20)), describe_noise(Gaussian(scale="41.5"))
    ('discrete Laplace noise of scale 20', 'discrete Gaussian noise of scale 41.5')
    """
    return describe_noises([(type(noise).__name__, float(noise.scale))])


def describe_noises(kinds: Iterable[tuple[str, float | None]]) -> str:
    """Return noises in words, given the names of their laws and their scales if known.

    >>> describe_noises([("Laplace", 20.0), ("Gaussian", 3.0), ("Gaussian", 7.5), ("Laplace", 20.0)])
    'discrete Laplace noise of scale 20 and discrete Gaussian noise of scales from 3 to 7.5'
    """
    scales_by_name: dict[str, set[float]] = {}
    for name, scale in kinds:
        scales_by_name.setdefault(name, set()).update([] if scale is None else [scale])
    return " and ".join(f"{_NOISE_WORDS[name]}{_describe_scales(scales)}" for name, scales in scales_by_name.items())


_NOISE_WORDS = {
    "Laplace": "discrete Laplace noise",
    "Gaussian": "discrete Gaussian noise",
    "RoundedGaussian": "rounded normal noise",
}


def describe_normal(law: type[NormalNoise]) -> str:
    """Return the name of a normal noise.

    >>> describe_normal(RoundedGaussian)
    'rounded normal noise'
    """
    return _NOISE_WORDS[law.__name__]


def _describe_scales(scales: set[float]) -> str:
    match len(scales):
        case 0:
            return ""
        case 1:
            return f" of scale {min(scales):.6g}"
        case _:
            return f" of scales from {min(scales):.6g} to {max(scales):.6g}"


def addable_width(law: ErrorLaw, failing: float) -> float:
    """Return a half-width of a value that adds up: of dependent values, Σ |a| · width bounds the error of Σ a · value.

    Each side of it fails with probability at most failing / 2, however the values depend on each other.

    Theorem: redraws
    """
    match law:
        case Laplace() | Gaussian() | RoundedGaussian():
            return chernoff_bound((NoiseTerm.of(1.0, law),), failing / 2)
        case NoiseSum(terms):
            return chernoff_bound(terms, failing / 2) if terms else 0.0
        case GaussianSumBound(variance, _):
            return math.sqrt(2 * variance * math.log(2 / failing))
        case ModelLaw():
            return math.inf


# --- The law of a model's guess, which has no guarantee. ---


@dataclass(frozen=True, slots=True)
class ModelLaw:
    """The error law of a model's guess: an estimate, or the range that earlier answers leave possible.

    The estimate is the model's past error on questions of its kind, and no bound. The possible range is a bound, at the
    stated failure probability. The narrower of both is used, if it is informative.
    """

    deviation: float
    """The root of the mean square, in steps; infinite where too little is known to say."""
    possible: float = math.inf
    """How far off it can be at most, in steps."""
    failing: float = 0.0
    """But with this probability."""
    widest: float = math.inf
    """What is as wide says nothing, and is not told."""

    def __post_init__(self) -> None:
        """Raise if the deviation is invalid."""
        if not self.deviation >= 0 or not self.possible >= 0:
            accepted = "write a number from 0, or infinity where it is not known"
            raise InvalidArgument("deviation", self.deviation, accepted)

    def bounded(self, failing: float) -> bool:
        """Return whether the half-width is the possible range, and not an estimate."""
        return self._possible(failing) < self._estimate(failing) and math.isfinite(self.quantile(failing))

    def quantile(self, failing: float) -> float:
        """Return the narrower half-width; infinity if it is too wide to be informative.

        Theorem: public-bounds
        """
        half_width = min(self._estimate(failing), self._possible(failing))
        return half_width if half_width < self.widest else math.inf

    def _estimate(self, failing: float) -> float:
        """Return the distance that a normal error of this deviation exceeds with probability `failing`."""
        return -self.deviation * NormalDist().inv_cdf(failing / 2)  # 1 less a tiny number is 1

    def _possible(self, failing: float) -> float:
        return self.possible if failing >= self.failing else math.inf

    def accuracy(self, confidence: float = 0.95, *, answers: int = 1) -> Accuracy:
        """Return the half-width, as if errors were normal or as a bound."""
        expected = self.deviation if math.isfinite(self.deviation) else None
        return _accuracy(self, confidence, answers, expected=expected)


# --- Laws of values derived from many releases: weighted sums of independent draws. ---


_ROUNDING_SLACK = 1 - 1e-9  # rounding may leave a variance summed in doubles slightly below its minimum


@dataclass(frozen=True, slots=True)
class NoiseSum:
    """A weighted sum of independent integer draws; equal terms are grouped.

    >>> draws = [NoiseTerm(factor, "Laplace", 5.0) for factor in (2.0, 1.0, 2.0)]
    >>> [(term.factor, term.times) for term in NoiseSum(tuple(draws)).terms]
    [(1.0, 1), (2.0, 2)]
    """

    terms: tuple[NoiseTerm, ...]

    def __post_init__(self) -> None:
        """Group and sort the terms; empty terms and zero factors are dropped."""
        counts: dict[tuple[float, str, float], int] = {}
        for term in self.terms:
            if not (0 <= term.factor < math.inf and term.times >= 0):
                raise InvalidArgument("terms", term, "write factors from 0 up and whole numbers of draws")
            if term.factor > 0 and term.times > 0:
                alike = term.factor, term.law, term.scale
                counts[alike] = counts.get(alike, 0) + term.times
        object.__setattr__(self, "terms", tuple(NoiseTerm(*alike, times) for alike, times in sorted(counts.items())))

    @classmethod
    def of(cls, factors: Iterable[float] | Doubles, noise: Noise) -> Self:
        """Return the law of a weighted sum of draws of one noise; signs do not matter.

        >>> [(term.factor, term.times) for term in NoiseSum.of([1, -1, 0.5], Laplace(scale=3)).terms]
        [(0.5, 1), (1.0, 2)]
        """
        magnitudes, times = np.unique(np.abs(np.asarray(factors, dtype=np.float64)), return_counts=True)
        pairs = zip(magnitudes.tolist(), times.tolist(), strict=True)
        return cls(tuple(NoiseTerm.of(factor, noise, number) for factor, number in pairs))

    @classmethod
    def combination(cls, draws: Iterable[tuple[float, Noise]]) -> Self:
        """Return the law of a sum of independent draws, given by their factors and noises; signs do not matter."""
        return cls(tuple([NoiseTerm.of(factor, noise) for factor, noise in draws]))

    @property
    def variance(self) -> float:
        """The variance of the sum."""
        return sum(term.variance for term in self.terms)

    @property
    def draws(self) -> int:
        """The number of independent draws."""
        return sum(term.times for term in self.terms)

    def quantile(self, failing: float) -> float:
        """Return a half-width: the absolute sum exceeds it with probability at most `failing`.

        Theorem: sum-of-noises, smoothed-sum
        """
        return upper_quantile(self.terms, failing / 2)

    def accuracy(self, confidence: float = 0.95, *, answers: int = 1) -> Accuracy:
        """Return the half-width of the sum; for several answers, which may be dependent, simultaneously.

        Theorem: sum-of-noises, smoothed-sum
        """
        return _accuracy(self, confidence, answers, expected=math.sqrt(self.variance))


@dataclass(frozen=True, slots=True)
class GaussianSumBound:
    """A weighted sum of independent normal draws on integers of scale 4 and up, of which only a bound is stored.

    >>> round(GaussianSumBound(2.0e6, 1.0).accuracy(0.95).within)
    2774
    """

    variance: float
    """Σ factor² · scale², and for rounded draws factor²/(2π) more of each."""
    reach: float
    """What no factor is above, its sign aside."""

    def __post_init__(self) -> None:
        """Raise if this cannot be a sum of draws of scale 4 or more."""
        if not 0 < self.reach < math.inf:
            raise InvalidArgument("reach", self.reach, "write the largest factor, its sign aside")
        if not WIDE_SCALE**2 * self.reach**2 * _ROUNDING_SLACK <= self.variance < math.inf:
            accepted = "draws of scale 4 and up have at least 16·reach²; write a Blend of other ones"
            raise InvalidArgument("variance", self.variance, accepted)

    @classmethod
    def of(cls, factors: Doubles, scales: Doubles | float) -> Self:
        """Return the law of a sum of draws, each with its factor and scale."""
        numbers, widths = np.asarray(factors, dtype=np.float64), np.asarray(scales, dtype=np.float64)
        if not np.all(widths >= WIDE_SCALE):
            raise InvalidArgument("scales", float(np.min(widths)), "write scales from 4 up, or a Blend of the draws")
        return cls(float(np.sum((numbers * widths) ** 2)), float(np.max(np.abs(numbers))))

    def quantile(self, failing: float) -> float:
        """Return a half-width: the absolute sum exceeds it with probability at most `failing`.

        Theorem: smoothed-sum
        """
        return gaussian_sum_quantile(self.variance, self.reach, failing / 2)

    def accuracy(self, confidence: float = 0.95, *, answers: int = 1) -> Accuracy:
        """Return the half-width of the sum; for several answers, which may be dependent, simultaneously.

        Theorem: smoothed-sum
        """
        return _accuracy(self, confidence, answers, expected=math.sqrt(self.variance))


def _accuracy(law: CombinedLaw, confidence: float, answers: int, expected: float | None = None) -> Accuracy:
    failing = to_failure_probability(confidence) / validate_count(answers, argument="answers")
    return Accuracy(within=law.quantile(failing), confidence=confidence, expected=expected)


ErrorLaw = Noise | NoiseSum | GaussianSumBound | ModelLaw
"""How far off a number may be that was told, that follows from such numbers, or that a model claims."""


# --- Derived values: combinations of released values, each with the law of its error. ---


_ONLY = "Only counts, sums, averages, spreads and arithmetic with them follow from earlier releases."


ReleasedNumbers = tuple[Sequence[int], Noise]
"""The numbers of a block as they were released, in steps, and their noise."""


@dataclass(frozen=True, slots=True, eq=False)
class SingleRelease:
    """The values of a block in steps as they follow from one release alone, and the laws of their errors."""

    place: int
    """The number of the release in the ledger, from 1."""
    values: Sequence[float] | Doubles
    laws: tuple[ErrorLaw, ...]
    """One for each value, or one for all."""


@dataclass(frozen=True, slots=True)
class Recalled:
    """What is known of a query beyond its derived values: for intervals that hold for any choice."""

    draws: DrawCounts
    """How many numbers were released so far."""
    direct: tuple[tuple[ReleasedNumbers, ...], ...]
    """For each block, the times that it was itself released."""
    alone: tuple[tuple[SingleRelease, ...], ...]
    """For each block, its values as they follow from single releases."""


@dataclass(frozen=True, slots=True, eq=False)
class JointLaw:
    """How the errors of blocks vary together, which are sums of the same normal draws."""

    covariances: Mapping[tuple[int, int], Doubles]
    """Of pairs of blocks, the smaller number first: in steps, by group."""
    share: float
    """What no factor of a draw is above in a combination of blocks, over its deviation: 1 over the least scale."""


@dataclass(frozen=True, slots=True, eq=False)
class DerivedValues:
    """The values of each block in steps, and the laws of their errors: one per value, or one for all.

    Values may share draws, so they are not assumed to be independent.
    """

    question: Question
    parts: tuple[Sequence[float] | Doubles, ...]
    laws: tuple[tuple[ErrorLaw, ...], ...]
    recalled: Recalled | None = None
    """Where intervals for any choice are wanted."""
    joint: JointLaw | None = None
    """Of blocks that follow from normal draws alone: those of averages, quotients, sums and differences."""

    def __post_init__(self) -> None:
        """Raise if the values do not match the question, or if it is not made of counts and sums."""
        question, groups = self.question, self.question.groups
        blocks = question.query.blocks
        if not len(blocks) == len(self.parts) == len(self.laws):
            raise InvalidArgument("values", len(self.parts), f"write values and laws of each of {len(blocks)} blocks")
        for block, part, laws in zip(blocks, self.parts, self.laws, strict=True):
            if block.values != groups:
                raise InvariantBroken(_ONLY)
            if len(part) != groups:
                raise InvalidArgument("values", len(part), f"each block of the question has {groups}")
            if len(laws) not in {1, groups}:
                raise InvalidArgument("laws", len(laws), f"write one for each of {groups} values, or one for all")
        if not question.derivable and (self.joint is None or not question.from_sums):
            raise InvariantBroken(_ONLY)

    @property
    def values(self) -> list[float]:
        """The values in steps, block by block."""
        return [float(value) for part in self.parts for value in part]

    @property
    def groups(self) -> int:
        """The number of groups of the question; every block has one value for each."""
        return self.question.groups

    def numbers(self, block: int) -> Doubles:
        """Return the values of a block in steps: one row per group of the question."""
        return np.asarray(self.parts[block], dtype=np.float64).reshape(-1, 1)

    def covariance(self, first: Mapping[int, float], second: Mapping[int, float]) -> Doubles:
        """Return the covariance of two combinations of blocks, given their factors: by group.

        Theorem: joint-law
        """
        covariance: Doubles = np.zeros(self.groups)
        for block, factor in first.items():
            for other, times in second.items():
                covariance = covariance + factor * times * self._covariance(min(block, other), max(block, other))
        return covariance

    def _covariance(self, first: int, second: int) -> float | Doubles:
        laws = self.laws[first]
        if first == second and all(isinstance(law, GaussianSumBound | NoiseSum) for law in laws):
            return np.array([law.variance for law in laws if isinstance(law, GaussianSumBound | NoiseSum)])
        if first == second or self.joint is None:
            raise InvariantBroken("These values have no joint law.")
        return self.joint.covariances[first, second]


Evidence = MeasuredValues | DerivedValues
"""What an answer is read from."""


def make_derived_values(
    question: Question,
    values: Sequence[Sequence[float] | Doubles],
    laws: Sequence[ErrorLaw | Sequence[ErrorLaw]],
) -> DerivedValues:
    """Return the derived values behind an answer; nothing is evaluated yet.

    For each block of the question: its values in steps, one per group, and the law of their errors, or a law for
    each of them.
    """
    return DerivedValues(question, tuple(values), tuple(_laws(law) for law in laws))


def _laws(laws: ErrorLaw | Sequence[ErrorLaw]) -> tuple[ErrorLaw, ...]:
    return (laws,) if isinstance(laws, ErrorLaw) else tuple(laws)


def half_widths(evidence: Evidence, block: int, failing: float) -> float | Doubles:
    """Return the half-width of a block's values in steps, each at failure probability `failing`: for all, or for each.

    Theorem: laplace-accuracy, gaussian-accuracy, smoothed-sum
    """
    if isinstance(evidence, MeasuredValues):
        return half_width(evidence.noises[block], failing)
    laws = evidence.laws[block]
    known = {law: half_width(law, failing) for law in dict.fromkeys(laws)}
    return known[laws[0]] if len(laws) == 1 else np.array([known[law] for law in laws], dtype=np.float64)


# --- Warnings for a model's guess: which of its intervals are bounds, and which are not. ---


_BOUNDED = "This is the model's guess; its interval is all that earlier answers leave possible."
_ESTIMATED = "This is the model's guess; its error is not bounded."
_UNTOLD = "It has no interval where none is honest that is narrower than the whole table."


def guess_warnings(evidence: Evidence, failing: float) -> tuple[str, ...]:
    """Return the warnings for guesses with intervals at this failure probability."""
    known = evidence.laws if isinstance(evidence, DerivedValues) else ()
    laws = [law for block_laws in known for law in block_laws if isinstance(law, ModelLaw)]
    warnings = [_BOUNDED if laws and all(law.bounded(failing) for law in laws) else _ESTIMATED]
    if any(math.isinf(law.quantile(failing)) for law in laws):
        warnings.append(_UNTOLD)
    return tuple(warnings)
