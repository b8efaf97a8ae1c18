"""Claims of a model about an answer: one that a noisy comparison has confirmed, and one that nothing holds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

from dodona.accuracy import Accuracy, failure, number_of
from dodona.answer.law import upper_quantile
from dodona.answer.term import Term
from dodona.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class Checked:
    """How far off a prediction may be that was found to be nearer than a threshold, both with Laplace noise.

    >>> round(Checked(100, 5.0, 7.0).accuracy(0.95).within)
    119
    """

    threshold: int
    """In steps: the distance that the noisy one was below, with noise of its own."""
    threshold_scale: float
    question_scale: float

    @property
    def noise(self) -> tuple[Term, Term]:
        """The two draws that stand between what was told and the distance."""
        return Term(1.0, "Laplace", self.threshold_scale), Term(1.0, "Laplace", self.question_scale)

    def quantile(self, failing: float) -> float:
        """Return a distance that a prediction is beyond, and is confirmed, with probability at most `failing`.

        Theorem: confirmed-answer
        """
        return max(0.0, self.threshold - 1 + upper_quantile(self.noise, failing))

    def accuracy(self, confidence: float = 0.95, *, answers: int = 1) -> Accuracy:
        """Return how far off it may be; of several answers, all of them."""
        failing = failure(confidence) / number_of(answers, argument="answers")
        return Accuracy(within=self.quantile(failing), confidence=confidence)


@dataclass(frozen=True, slots=True)
class Guessed:
    """How far off a model's guess may be: by an estimate, or by what earlier answers leave possible.

    The estimate is how far off the model has been with questions of its kind, and bounds nothing. What is possible
    does bound it, but with the stated probability. The narrower of both is told, if it says anything.
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
        """Refuse what is no deviation."""
        if not self.deviation >= 0 or not self.possible >= 0:
            raise InvalidArgument(
                "deviation", self.deviation, "write a number from 0, or infinity where it is not known"
            )

    def bounded(self, failing: float) -> bool:
        """Return whether what is told is what earlier answers leave possible, and no estimate."""
        return self._possible(failing) < self._estimate(failing) and math.isfinite(self.quantile(failing))

    def quantile(self, failing: float) -> float:
        """Return the narrower of both; infinity where that is too wide.

        Theorem: public-bounds
        """
        found = min(self._estimate(failing), self._possible(failing))
        return found if found < self.widest else math.inf

    def _estimate(self, failing: float) -> float:
        """Return what a normal error of this deviation would be beyond with probability `failing`."""
        return self.deviation * NormalDist().inv_cdf(1 - failing / 2)

    def _possible(self, failing: float) -> float:
        return self.possible if failing >= self.failing else math.inf

    def accuracy(self, confidence: float = 0.95, *, answers: int = 1) -> Accuracy:
        """Return how far off it would be, were its errors normal, or can be."""
        failing = failure(confidence) / number_of(answers, argument="answers")
        return Accuracy(
            within=self.quantile(failing),
            confidence=confidence,
            expected=self.deviation if math.isfinite(self.deviation) else None,
        )
