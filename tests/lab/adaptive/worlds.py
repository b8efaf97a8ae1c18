"""Worlds small enough to be written out: every sample, every answer, every posterior."""

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np


@dataclass(frozen=True)
class World:
    """Rows are letters drawn independently with probabilities `letters`; answers[s, o] is P(answer o | sample s).

    Samples are numbered as `itertools.product` lists them.
    """

    letters: np.ndarray
    rows: int
    answers: np.ndarray

    @cached_property
    def samples(self) -> list[tuple[int, ...]]:
        return list(product(range(len(self.letters)), repeat=self.rows))

    @cached_property
    def told(self) -> np.ndarray:
        """P(answer)."""
        return self._weights @ self.answers

    @cached_property
    def gaps(self) -> np.ndarray:
        """The largest |q(Q) - q(P)| over all queries, for each answer: the total variation of the two laws."""
        joint = self._weights[:, None] * self.answers
        shares = np.array([np.bincount(s, minlength=len(self.letters)) / self.rows for s in self.samples])
        with np.errstate(invalid="ignore", divide="ignore"):
            posterior = (joint.T @ shares) / self.told[:, None]
        return np.where(self.told > 0, np.abs(posterior - self.letters).sum(axis=1) / 2, 0.0)

    @cached_property
    def neighbours(self) -> tuple[np.ndarray, np.ndarray]:
        """The laws of answers of all ordered pairs of samples that differ in one row."""
        pairs = [
            (i, j)
            for i, sample in enumerate(self.samples)
            for j, other in enumerate(self.samples)
            if sum(a != b for a, b in zip(sample, other, strict=True)) == 1
        ]
        first, second = zip(*pairs, strict=True)
        return self.answers[list(first)], self.answers[list(second)]

    def delta(self, epsilon: float) -> float:
        """The exact δ(ε)."""
        first, second = self.neighbours
        return float(np.maximum(first - np.exp(epsilon) * second, 0).sum(axis=1).max())

    @cached_property
    def loss(self) -> float:
        """The exact pure ε; infinite if there is none."""
        first, second = self.neighbours
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(first > 0, np.log(first) - np.log(second), -np.inf)
        return float(ratio.max())

    @cached_property
    def rho(self) -> float:
        """The exact supremum of D_α/α, over orders from 1.01 to 300."""
        first, second = self.neighbours
        if self.loss == math.inf:
            return math.inf
        worst = 0.0
        for order in np.exp(np.linspace(np.log(0.01), np.log(299), 120)) + 1:
            with np.errstate(divide="ignore", invalid="ignore"):
                powers = np.where(first > 0, order * np.log(first) + (1 - order) * np.log(second), -np.inf)
            top = powers.max(axis=1)
            renyi = (top + np.log(np.exp(powers - top[:, None]).sum(axis=1))) / (order - 1)
            worst = max(worst, float(renyi.max()) / order)
        return worst

    def tails(self) -> list[tuple[float, float]]:
        """The pairs (gap, P(a gap at least that large)), for answers that happen."""
        order = np.argsort(-self.gaps)
        reached = np.cumsum(self.told[order])
        return [
            (float(gap), float(chance))
            for gap, chance in zip(self.gaps[order], reached, strict=True)
            if 1e-9 < chance < 1 - 1e-9 and gap > 1e-12
        ]

    @cached_property
    def _weights(self) -> np.ndarray:
        return np.array([np.prod(self.letters[list(s)]) for s in self.samples])


def worlds(seed: int, count: int) -> list[World]:
    """Made-up worlds of five kinds in turn: random, rare, row by row, Gaussian, and adaptive in two steps."""
    chance = np.random.default_rng(seed)
    kinds = (_random, _rare, _row_by_row, _gaussian, _adaptive)
    worlds = []
    for number in range(count):
        rows, letters = int(chance.integers(1, 4)), int(chance.integers(2, 5 if number % 2 else 4))
        law = chance.dirichlet(np.full(letters, chance.choice([0.5, 2.0])))
        worlds.append(kinds[number % len(kinds)](chance, law, rows))
    return worlds


def _random(chance, law, rows) -> World:
    samples = len(law) ** rows
    return World(law, rows, chance.dirichlet(np.full(5, 3.0), size=samples))


def _rare(chance, law, rows) -> World:
    """Answers that seldom come, and tell much."""
    samples = len(law) ** rows
    telling = chance.random((samples, 4)) * 0.02 * (chance.random((samples, 4)) < 0.6)
    return World(law, rows, np.column_stack([telling, 1 - telling.sum(axis=1)]))


def _row_by_row(chance, law, rows) -> World:
    """Each row answers for itself, at random with some probability."""
    letters, loss = len(law), np.exp(chance.uniform(0.05, 2.0))
    kept = (np.eye(letters) * (loss - 1) + 1) / (loss - 1 + letters)
    channel = [
        [np.prod([kept[a, b] for a, b in zip(s, o, strict=True)]) for o in product(range(letters), repeat=rows)]
        for s in product(range(letters), repeat=rows)
    ]
    return World(law, rows, np.array(channel))


def _gaussian(chance, law, rows) -> World:
    """A sum of values of letters, with discrete Gaussian noise."""
    values, scale = chance.integers(0, 4, len(law)), chance.uniform(1.5, 6.0)
    places = np.arange(-30, 31 + 3 * rows)
    sums = np.array([sum(values[list(s)]) for s in product(range(len(law)), repeat=rows)])
    weight = np.exp(-((places[None, :] - sums[:, None]) ** 2) / (2 * scale**2))
    return World(law, rows, weight / weight.sum(axis=1, keepdims=True))


def _adaptive(chance, law, rows) -> World:
    """A noisy bit about one set of letters, and then one about a set that depends on the first answer."""
    sets = chance.random((3, len(law))) < 0.5
    loss = chance.uniform(0.1, 1.5)
    channel = []
    for sample in product(range(len(law)), repeat=rows):
        each = []
        for first, second in product((0, 1), repeat=2):
            probability = 1.0
            for bit, chosen in ((first, sets[0]), (second, sets[1 + first])):
                yes = 1 / (1 + np.exp(-loss * (2 * chosen[list(sample)].sum() - rows) / 2))
                probability *= yes if bit else 1 - yes
            each.append(probability)
        channel.append(each)
    return World(law, rows, np.array(channel))
