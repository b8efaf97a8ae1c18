"""The discrete Laplace mechanism: integer noise with P(x) ∝ exp(-|x|/scale), on whole numbers or on a public grid."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self

from dodona.accounting.event import LaplaceEvent
from dodona.accuracy import Accuracy, Against, against_table, failure, number_of, sampling_error
from dodona.domain.neighbours import Neighbours
from dodona.exact import Exact, exact
from dodona.mechanisms.scale import BEYOND, epsilon_of, rounded_scale_down, scale_of
from dodona.query.sensitivity import Sensitivity

_FINE = 1024  # steps of a grid that nobody chose in what one row can move


@dataclass(frozen=True, slots=True, init=False)
class Laplace:
    """Independent discrete Laplace noise of an exact scale on each answer, in units of the answer.

    It is ε-differentially private with ε = l1 sensitivity / scale.

    Theorem: laplace-privacy
    """

    theorem: ClassVar[str] = "laplace-privacy"
    scale: Fraction

    def __init__(self, *, scale: Exact) -> None:
        """Take any exact number from 1/1000 to 10^12."""
        object.__setattr__(self, "scale", scale_of(scale))

    @classmethod
    def for_privacy(cls, epsilon: Exact, sensitivity: Sensitivity) -> Self:
        """Return the mechanism that costs exactly ε.

        >>> from dodona.domain.neighbours import Neighbours
        >>> Laplace.for_privacy("1/2", Sensitivity.histogram(Neighbours.REPLACE)).scale
        Fraction(4, 1)
        """
        return cls(scale=sensitivity.l1 / epsilon_of(epsilon))

    @classmethod
    def for_accuracy(cls, target: Accuracy, *, answers: int = 1) -> Self:
        """Return the mechanism with most noise (to seven digits) that meets the target for all answers at once.

        >>> mechanism = Laplace.for_accuracy(Accuracy(within=100, confidence=0.95))
        >>> mechanism.accuracy(0.95).within
        100.0
        """
        steps = math.floor(against_table(target).within) + 1
        tail = _per_answer(failure(target.confidence), number_of(answers, argument="answers"))
        low, high = 1e-4, 1e13
        while high / low > 1 + 1e-9:  # the tail beyond a fixed distance grows with the scale
            middle = math.sqrt(low * high)
            low, high = (middle, high) if _log_tail(steps, middle) <= math.log(tail) else (low, middle)
        return cls(scale=rounded_scale_down(low))

    def event(self, sensitivity: Sensitivity) -> LaplaceEvent:
        """Return what one release costs."""
        return LaplaceEvent(sensitivity.l1, self.scale, sensitivity.neighbours)

    def accuracy(self, confidence: float = 0.95, *, answers: int = 1, sample: int | None = None) -> Accuracy:
        """Return the exact quantile of the largest error of all answers, and the expected error of one.

        With `sample`, the answers are counts over so many independent rows and the comparison is with the population.

        Theorem: laplace-accuracy
        """
        failing = failure(confidence)
        sampled = 0.0
        if sample is not None:
            failing /= 2
            sampled = sampling_error(failing, answers=answers, sample=sample)
        tail = math.log(_per_answer(failing, number_of(answers, argument="answers")))
        scale = float(self.scale)
        steps = max(1, math.ceil(scale * (math.log(2 / (1 + math.exp(-1 / scale))) - tail)))
        while _log_tail(steps, scale) > tail:
            steps += 1
        while steps > 1 and _log_tail(steps - 1, scale) <= tail:
            steps -= 1
        expected = 1 / math.sinh(1 / scale) if scale > 1 / 700 else 0.0
        if sample is None:
            return Accuracy(within=float(steps - 1), confidence=confidence, expected=expected)
        return Accuracy(
            within=steps - 1 + sampled,
            confidence=confidence,
            expected=expected + math.sqrt(sample) / 2,
            against=Against.POPULATION,
        )

    def probability(self, noise: int) -> float:
        """Return the probability of this noise: tanh(1/(2·scale))·exp(-|noise|/scale).

        >>> Laplace(scale="1/2").probability(0)
        0.7615941559557649
        """
        scale = float(self.scale)
        return math.tanh(0.5 / scale) * math.exp(-min(abs(noise), BEYOND) / scale)


@dataclass(frozen=True, slots=True, init=False)
class GridLaplace:
    """Laplace noise on a real number: the number is rounded to a public grid, and the noise is drawn on that grid.

    Noise in floating-point numbers would betray the exact answer by its last bits (Mironov 2012). On a grid of step g
    the draw is a whole number of steps, so the stated law is the law that is drawn. A number that one row moves by at
    most Δ moves by at most ⌈Δ/g⌉ steps, so nothing is lost where Δ is a multiple of g.

    >>> share = GridLaplace.for_share(1, rows=1_000_000)
    >>> share.grid, share.scale
    (Fraction(1, 1000000), Fraction(1, 1000000))

    Theorem: laplace-on-a-grid
    """

    theorem: ClassVar[str] = "laplace-on-a-grid"
    scale: Fraction
    """In the unit of the answer."""
    grid: Fraction
    """The step, in the same unit: public, and chosen without looking at the data."""

    def __init__(self, *, scale: Exact, grid: Exact) -> None:
        """Take a scale from 1/1000 to 10^12 steps."""
        object.__setattr__(self, "grid", _real(grid, "grid"))
        object.__setattr__(self, "scale", _real(scale, "scale"))
        scale_of(self.scale / self.grid)

    @classmethod
    def for_privacy(cls, epsilon: Exact, *, sensitivity: Exact, grid: Exact | None = None) -> Self:
        """Return the mechanism that costs exactly ε for a number that one row moves by at most `sensitivity`.

        Without a grid it is a 1024th of the sensitivity. A grid that does not divide the sensitivity needs more noise.
        """
        moved = _real(sensitivity, "sensitivity")
        step = moved / _FINE if grid is None else _real(grid, "grid")
        return cls(scale=_steps_up(moved / step) * step / epsilon_of(epsilon), grid=step)

    @classmethod
    def for_share(cls, epsilon: Exact, *, rows: int) -> Self:
        """Return the mechanism for the share of a public number of rows: sensitivity and grid are 1/n, so it is exact.

        It is the count with noise of scale 1/ε, divided by the number of rows.
        """
        one = Fraction(1, number_of(rows, argument="rows"))
        return cls.for_privacy(epsilon, sensitivity=one, grid=one)

    @property
    def noise(self) -> Laplace:
        """The noise, in steps of the grid."""
        return Laplace(scale=self.scale / self.grid)

    def steps(self, value: Exact) -> int:
        """Return a number as steps of the grid, rounded to the nearest and half a step upwards, exactly."""
        bound = self.grid * (1 << 62)
        return math.floor(exact(value, argument="value", lower=-bound, upper=bound) / self.grid + Fraction(1, 2))

    def event(self, sensitivity: Exact, neighbours: Neighbours, *, answers: int = 1) -> LaplaceEvent:
        """Return what one release costs, for answers whose absolute changes sum to at most `sensitivity`.

        Each of them may be rounded over one step more than it moved; one answer moves by at most ⌈Δ/g⌉ steps.

        Theorem: laplace-on-a-grid
        """
        moved = _steps_up(_real(sensitivity, "sensitivity") / self.grid)
        distance = moved + number_of(answers, argument="answers") - 1
        return LaplaceEvent(distance, self.scale / self.grid, neighbours)

    def accuracy(self, confidence: float = 0.95, *, answers: int = 1) -> Accuracy:
        """Return how far all answers are at most from the real numbers, rounding included.

        Theorem: laplace-accuracy
        """
        drawn, step = self.noise.accuracy(confidence, answers=answers), float(self.grid)
        expected = None if drawn.expected is None else (drawn.expected + 0.5) * step
        return Accuracy(within=(drawn.within + 0.5) * step, confidence=confidence, expected=expected)


def _real(value: Exact, argument: str) -> Fraction:
    return exact(value, argument=argument, lower=Fraction(1, 10**30), upper=Fraction(10**30))


def _steps_up(steps: Fraction) -> int:
    """Return how many whole steps a rounded number can move at most, if the number itself moves by `steps`."""
    return math.ceil(steps)


def _log_tail(steps: int, scale: float) -> float:
    """Return ln P(|noise| ≥ steps) = ln 2 - steps/scale - ln(1 + e^(-1/scale)), for steps ≥ 1."""
    return math.log(2) - steps / scale - math.log1p(math.exp(-1 / scale))


def _per_answer(failing: float, answers: int) -> float:
    """Return how often one of independent answers may fail, so that all hold but with probability `failing`."""
    return -math.expm1(math.log1p(-failing) / answers)
