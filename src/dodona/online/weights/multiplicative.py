"""Multiplicative weights without privacy, as the lecture notes have them: algorithm 1, with its potential."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dodona.errors import InvalidArgument
from dodona.online.weights.distribution import Distribution, histogram, weights_of

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


@dataclass(frozen=True, slots=True)
class Round:
    """What one question did."""

    truth: float
    estimate: float
    """Before the update."""
    updated: bool
    potential: float
    """RE(D‖D_t) after the round."""
    drop: float
    """By how much the potential fell; 0 without an update."""

    @property
    def answer(self) -> float:
        """The estimate where it was near enough, else the truth."""
        return self.truth if self.updated else self.estimate


class MultiplicativeWeights:
    """Answers questions from a distribution that is moved towards the data whenever it is more than 2η off.

    >>> weights = MultiplicativeWeights([90, 10, 0, 0], step=0.2)
    >>> [weights.ask([1, 1, 0, 0]).updated for _ in range(4)]
    [True, True, True, False]

    Theorem: multiplicative-weights
    """

    def __init__(self, counts: ArrayLike, *, step: float) -> None:
        """Take a histogram and η, from 0 to 1."""
        if not 0 < step <= 1:
            raise InvalidArgument("step", step, "write a number above 0 and up to 1")
        self.step = step
        self.threshold = 2 * step
        self.data = Distribution.of(histogram(counts))
        self.hypothesis = Distribution.uniform(self.data.values.size)
        self.rounds: list[Round] = []
        self._potential = self.data.divergence(self.hypothesis)

    @property
    def updates(self) -> int:
        """How many rounds moved the distribution."""
        return sum(one.updated for one in self.rounds)

    def ask(self, query: ArrayLike) -> Round:
        """Return what the question did; the potential is computed anew after an update."""
        weights = weights_of(query, self.data.values.size)
        estimate, truth = self.hypothesis.expect(weights), self.data.expect(weights)
        before = self._potential
        updated = abs(estimate - truth) > self.threshold
        if updated:
            # Too low: raise the cells of the question. The notes print "< τ" for "< -τ" (errata, row 6).
            rate = self.step if estimate - truth < -self.threshold else -self.step
            self.hypothesis = self.hypothesis.tilted(weights, rate)
            self._potential = self.data.divergence(self.hypothesis)
        told = Round(truth, estimate, updated, self._potential, before - self._potential)
        self.rounds.append(told)
        return told


def least_drop(*, step: float, gap: float) -> float:
    """Return η·gap - η²: by how much an update lowers the potential at least (lemma 6 of the notes).

    Theorem: multiplicative-weights
    """
    return step * gap - step**2


def sharp_drop(*, step: float, gap: float) -> float:
    """Return η·gap - η²/8, by Hoeffding's lemma; with η = 4·gap it is 2·gap².

    Theorem: multiplicative-weights
    """
    return step * gap - step**2 / 8


def most_updates(*, universe: int, step: float) -> int:
    """Return ⌊ln|X|/η²⌋: how often algorithm 1 updates at most (corollary 7 of the notes).

    >>> most_updates(universe=1024, step=0.1)
    693

    Theorem: multiplicative-weights
    """
    return math.floor(math.log(universe) / step**2)


def sharp_updates(*, universe: int, gap: float) -> int:
    """Return ⌊ln|X|/(2γ²)⌋: how often there is an update at most, if each is at a gap of γ or more and η = 4γ.

    >>> sharp_updates(universe=1024, gap=0.1)
    346

    Theorem: multiplicative-weights
    """
    return math.floor(math.log(universe) / (2 * gap**2))
