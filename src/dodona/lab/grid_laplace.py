"""Laplace noise on real numbers, by way of a public grid."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self

from dodona.numbers import Exact, to_fraction
from dodona.privacy.accuracy import Accuracy, validate_count
from dodona.privacy.additive_noise import Laplace, validate_noise_epsilon, validate_scale
from dodona.privacy.events import LaplaceEvent
from dodona.schema.schema import Neighbours

_FINE = 1024  # default number of grid steps in the sensitivity


@dataclass(frozen=True, slots=True, init=False)
class GridLaplace:
    """Laplace noise on a real number: the number is rounded to a public grid, and the noise is drawn on that grid.

    Floating-point noise would reveal the exact answer through its last bits (Mironov 2012). On a grid of step g the
    noise is an integer number of steps, so the sampled law is exactly the stated one. A number that one row changes by
    at most Δ changes by at most ⌈Δ/g⌉ steps, so nothing is lost if Δ is a multiple of g.

    >>> share = GridLaplace.for_share(1, rows=1_000_000)
    >>> share.grid, share.scale
    (Fraction(1, 1000000), Fraction(1, 1000000))

    Theorem: laplace-on-a-grid
    """

    theorem: ClassVar[str] = "laplace-on-a-grid"
    scale: Fraction
    """The scale, in units of the answer."""
    grid: Fraction
    """The grid step, in the same unit: public, and chosen independently of the data."""

    def __init__(self, *, scale: Exact, grid: Exact) -> None:
        """Validate the scale, which must be from 1/1000 to 10^12 grid steps."""
        object.__setattr__(self, "grid", _real(grid, "grid"))
        object.__setattr__(self, "scale", _real(scale, "scale"))
        validate_scale(self.scale / self.grid)

    @classmethod
    def for_privacy(cls, epsilon: Exact, *, sensitivity: Exact, grid: Exact | None = None) -> Self:
        """Return the mechanism that costs exactly ε for a number of the given sensitivity.

        The default grid is 1/1024 of the sensitivity. A grid that does not divide the sensitivity needs more noise.
        """
        moved = _real(sensitivity, "sensitivity")
        step = moved / _FINE if grid is None else _real(grid, "grid")
        return cls(scale=_steps_up(moved / step) * step / validate_noise_epsilon(epsilon), grid=step)

    @classmethod
    def for_share(cls, epsilon: Exact, *, rows: int) -> Self:
        """Return the mechanism for a share of a public number of rows n: sensitivity and grid are 1/n, so it is exact.

        It equals the count with noise of scale 1/ε, divided by the number of rows.
        """
        row_share = Fraction(1, validate_count(rows, argument="rows"))
        return cls.for_privacy(epsilon, sensitivity=row_share, grid=row_share)

    @property
    def noise(self) -> Laplace:
        """The noise mechanism, in grid steps."""
        return Laplace(scale=self.scale / self.grid)

    def steps(self, value: Exact) -> int:
        """Return a number in grid steps, rounded exactly to the nearest step, with halves rounded up."""
        bound = self.grid * (1 << 62)
        return math.floor(to_fraction(value, argument="value", lower=-bound, upper=bound) / self.grid + Fraction(1, 2))

    def event(self, sensitivity: Exact, neighbours: Neighbours, *, answers: int = 1) -> LaplaceEvent:
        """Return the event of one release, for answers whose absolute changes sum to at most `sensitivity`.

        Rounding may move each answer by up to one extra step; a single answer moves by at most ⌈Δ/g⌉ steps.

        Theorem: laplace-on-a-grid
        """
        moved = _steps_up(_real(sensitivity, "sensitivity") / self.grid)
        distance = moved + validate_count(answers, argument="answers") - 1
        return LaplaceEvent(distance, self.scale / self.grid, neighbours)

    def accuracy(self, confidence: float = 0.95, *, answers: int = 1) -> Accuracy:
        """Return the largest error of all answers against the real numbers, including rounding.

        Theorem: laplace-accuracy
        """
        drawn, step = self.noise.accuracy(confidence, answers=answers), float(self.grid)
        expected = None if drawn.expected is None else (drawn.expected + 0.5) * step
        return Accuracy(within=(drawn.within + 0.5) * step, confidence=confidence, expected=expected)


def _real(value: Exact, argument: str) -> Fraction:
    return to_fraction(value, argument=argument, lower=Fraction(1, 10**30), upper=Fraction(10**30))


def _steps_up(steps: Fraction) -> int:
    """Return how many integer steps a rounded number can move if the number itself moves by `steps`."""
    return math.ceil(steps)
