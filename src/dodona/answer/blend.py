"""Laws of what follows from many numbers that were told: sums of independent draws, each times a factor."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from dodona.accuracy import Accuracy, failure, number_of
from dodona.answer.claim import Checked, Guessed
from dodona.answer.law import upper_quantile
from dodona.answer.measured import Noise
from dodona.answer.smoothing import bell_quantile
from dodona.answer.term import WIDE, Term
from dodona.errors import InvalidArgument
from dodona.mechanisms.gaussian import Gaussian
from dodona.mechanisms.laplace import Laplace

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ROOM = 1 - 1e-9  # a variance that was summed in doubles may be a rounding below the least


@dataclass(frozen=True, slots=True)
class Blend:
    """A sum of independent draws of discrete Laplace and Gaussian noise, each times a factor; alike ones are grouped.

    >>> Blend((Term(2.0, "Laplace", 5.0), Term(1.0, "Laplace", 5.0), Term(2.0, "Laplace", 5.0))).terms
    (Term(factor=1.0, law='Laplace', scale=5.0, times=1), Term(factor=2.0, law='Laplace', scale=5.0, times=2))
    """

    terms: tuple[Term, ...]

    def __post_init__(self) -> None:
        """Group and sort the terms; those without a factor or a draw are left out."""
        found: dict[tuple[float, str, float], int] = {}
        for term in self.terms:
            if not (0 <= term.factor < math.inf and term.times >= 0):
                raise InvalidArgument("terms", term, "write factors from 0 up and whole numbers of draws")
            if term.factor > 0 and term.times > 0:
                alike = term.factor, term.law, term.scale
                found[alike] = found.get(alike, 0) + term.times
        object.__setattr__(self, "terms", tuple(Term(*alike, times) for alike, times in sorted(found.items())))

    @classmethod
    def of(cls, factors: Iterable[float] | NDArray[np.float64], noise: Noise) -> Self:
        """Return the law of a sum of draws of one noise, each times its factor; signs do not matter.

        >>> Blend.of([1, -1, 0.5], Laplace(scale=3)).terms
        (Term(factor=0.5, law='Laplace', scale=3.0, times=1), Term(factor=1.0, law='Laplace', scale=3.0, times=2))
        """
        found, times = np.unique(np.abs(np.asarray(factors, dtype=np.float64)), return_counts=True)
        pairs = zip(found.tolist(), times.tolist(), strict=True)
        return cls(tuple(Term.of(factor, noise, number) for factor, number in pairs))

    @property
    def variance(self) -> float:
        """The variance of the sum."""
        return sum(term.variance for term in self.terms)

    @property
    def draws(self) -> int:
        """How many independent draws are in it."""
        return sum(term.times for term in self.terms)

    def quantile(self, failing: float) -> float:
        """Return a number that the sum is farther from 0 than with probability at most `failing`.

        Theorem: sum-of-noises, smoothed-sum
        """
        return upper_quantile(self.terms, failing / 2)

    def accuracy(self, confidence: float = 0.95, *, answers: int = 1) -> Accuracy:
        """Return how far from 0 the sum may be; of several answers, that need not be independent, all of them.

        Theorem: sum-of-noises, smoothed-sum
        """
        within = self.quantile(failure(confidence) / number_of(answers, argument="answers"))
        return Accuracy(within=within, confidence=confidence, expected=math.sqrt(self.variance))


@dataclass(frozen=True, slots=True)
class Bell:
    """A sum of independent discrete Gaussians of scale 4 and up, each times a factor; of these only a bound is kept.

    >>> round(Bell(2.0e6, 1.0).accuracy(0.95).within)
    2774
    """

    variance: float
    """Σ factor² · scale²."""
    reach: float
    """What no factor is above, its sign aside."""

    def __post_init__(self) -> None:
        """Refuse what is no sum of draws of scale 4 or more."""
        if not 0 < self.reach < math.inf:
            raise InvalidArgument("reach", self.reach, "write the largest factor, its sign aside")
        if not WIDE**2 * self.reach**2 * _ROOM <= self.variance < math.inf:
            accepted = "draws of scale 4 and up have at least 16·reach²; write a Blend of other ones"
            raise InvalidArgument("variance", self.variance, accepted)

    @classmethod
    def of(cls, factors: NDArray[np.float64], scales: NDArray[np.float64] | float) -> Self:
        """Return the law of a sum of draws, each with its factor and scale."""
        numbers, widths = np.asarray(factors, dtype=np.float64), np.asarray(scales, dtype=np.float64)
        if not np.all(widths >= WIDE):
            raise InvalidArgument("scales", float(np.min(widths)), "write scales from 4 up, or a Blend of the draws")
        return cls(float(np.sum((numbers * widths) ** 2)), float(np.max(np.abs(numbers))))

    def quantile(self, failing: float) -> float:
        """Return a number that the sum is farther from 0 than with probability at most `failing`.

        Theorem: smoothed-sum
        """
        return bell_quantile(self.variance, self.reach, failing / 2)

    def accuracy(self, confidence: float = 0.95, *, answers: int = 1) -> Accuracy:
        """Return how far from 0 the sum may be; of several answers, that need not be independent, all of them.

        Theorem: smoothed-sum
        """
        within = self.quantile(failure(confidence) / number_of(answers, argument="answers"))
        return Accuracy(within=within, confidence=confidence, expected=math.sqrt(self.variance))


Law = Laplace | Gaussian | Blend | Bell | Checked | Guessed
"""How far off a number may be that was told, that follows from such numbers, or that a model claims."""
