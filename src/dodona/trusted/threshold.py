"""The open threshold: which questions are above, until the last positive. Its noise is drawn here and never shown."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from dodona.errors import Halted, InvalidArgument
from dodona.mechanisms.sparse_vector import SparseVector

Noise = Callable[[Fraction], int]
"""Draws one discrete Laplace value of a scale."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is told of one question."""

    above: bool
    gap: int | None = None
    """How far the noisy value passed the noisy threshold; only for positives, at no further cost."""
    answer: int | None = None
    """The value with fresh noise, where the mechanism answers."""


class Watch:
    """A sparse vector in use. It was charged in full when it was opened; questions cost nothing more.

    Theorem: sparse-vector-privacy
    """

    def __init__(self, mechanism: SparseVector, noise: Noise) -> None:
        """Draw the threshold's noise."""
        self._mechanism = mechanism
        self._noise = noise
        self._lock = threading.Lock()
        self._left, self._owner = mechanism.positives, os.getpid()
        self._shift = noise(mechanism.threshold_scale)

    @property
    def positives_left(self) -> int:
        """How many positives it may still tell before it halts; none in a process that was forked from its own."""
        return self._left if self._owner == os.getpid() else 0

    def ask(self, value: int, threshold: int) -> Verdict:
        """Return whether the value, with noise, is at or above the threshold, with noise."""
        for name, number in (("value", value), ("threshold", threshold)):
            if type(number) is not int:  # a fraction would shine through the gap; the value itself is not shown
                raise InvalidArgument(name, type(number), "write an integer")
        with self._lock:
            if self.positives_left == 0:
                raise Halted(self._mechanism.positives)
            gap = value + self._noise(self._mechanism.question_scale) - threshold - self._shift
            if gap < 0:
                return Verdict(above=False)
            left, self._left = self._left - 1, 0  # should chance fail now, the old noise must not serve again
            if self._mechanism.restarts:
                self._shift = self._noise(self._mechanism.threshold_scale)
            self._left = left
            scale = self._mechanism.answer_scale
            return Verdict(above=True, gap=gap, answer=None if scale is None else value + self._noise(scale))
