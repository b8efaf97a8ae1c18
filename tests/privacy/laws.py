"""Output laws of the mechanisms on given scores, by summing over all noise; and how two laws differ.

All sums have positive terms only, so that doubles keep a relative precision of about 10^-13. Noise further out than
`REACH` scales has a share below 10^-26 and is left out.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dodona.lab.mechanisms import SparseVector

REACH = 60
Law = dict[Any, float]
Floats = NDArray[np.float64]


def laplace(noise: Floats, scale: float) -> Floats:
    """P(x) = (1 - q)/(1 + q)·q^|x|."""
    ratio = math.exp(-1 / scale)
    return np.asarray((1 - ratio) / (1 + ratio) * np.exp(-np.abs(noise) / scale))


def laplace_below(noise: Floats, scale: float) -> Floats:
    """P(X ≤ x)."""
    ratio = math.exp(-1 / scale)
    low = np.exp(np.minimum(noise, 0) / scale) / (1 + ratio)
    return np.asarray(np.where(noise < 0, low, 1 - ratio * np.exp(-np.maximum(noise, 0) / scale) / (1 + ratio)))


def laplace_above(noise: Floats, scale: float) -> Floats:
    """P(X > x)."""
    return laplace_below(-noise - 1, scale)


def exponential_law(scores: Sequence[int], scale: float) -> Law:
    weights = [math.exp((score - max(scores)) / scale) for score in scores]
    return {index: weight / sum(weights) for index, weight in enumerate(weights)}


def permute_and_flip_law(scores: Sequence[int], scale: float) -> Law:
    """Goes through every order of the candidates."""
    keep = [math.exp((score - max(scores)) / scale) for score in scores]
    law: Law = dict.fromkeys(range(len(scores)), 0.0)
    orders = list(itertools.permutations(range(len(scores))))
    for order in orders:
        reached = 1 / len(orders)
        for index in order:
            law[index] += reached * keep[index]
            reached *= 1 - keep[index]
    return law


def noisy_max_law(scores: Sequence[int], scale: float, order: Sequence[int], *, gaps: int) -> Law:
    """The law of (index, gap), gaps from `gaps` on in one, where ties go to the first in this order.

    The gap is counted from the least noisy score with which the winner would have won.
    """
    reach = math.ceil(REACH * scale)
    grid = np.arange(min(scores) - reach, max(scores) + reach + 2, dtype=np.float64)
    law: Law = {}
    for place, winner in enumerate(order):
        # The law of the largest of the others' noisy scores, one more for those that come before.
        mass, below = np.zeros_like(grid), np.ones_like(grid)
        for other in order:
            if other == winner:
                continue
            shift = scores[other] + (1 if order.index(other) < place else 0)
            density, own_below = laplace(grid - shift, scale), laplace_below(grid - shift, scale)
            mass, below = mass * own_below + np.concatenate(([0.0], below[:-1])) * density, below * own_below
            # `below` of an empty product is one everywhere, so the first factor brings its whole law.
        for gap in range(gaps):
            law[winner, gap] = float(np.sum(mass * laplace(grid + gap - scores[winner], scale)))
        law[winner, gaps] = float(np.sum(mass * laplace_above(grid + gaps - 1 - scores[winner], scale)))
    return law


def mixed(parts: Sequence[Law]) -> Law:
    """The law of drawing one of the laws, each alike."""
    total: Law = {}
    for part in parts:
        for outcome, chance in part.items():
            total[outcome] = total.get(outcome, 0.0) + chance / len(parts)
    return total


def sparse_law(mechanism: SparseVector, values: Sequence[int], thresholds: Sequence[int], *, gaps: int) -> Law:
    """The law of all verdicts, without fresh answers: "below", or the gap, gaps from `gaps` on in one."""
    first, second = float(mechanism.threshold_scale), float(mechanism.question_scale)
    reach = math.ceil(REACH * first)
    noise = np.arange(-reach, reach + 1, dtype=np.float64)
    fresh = laplace(noise, first)

    def walk(asked: int, weight: Floats, left: int, told: tuple[object, ...]) -> Iterator[tuple[object, float]]:
        if asked == len(values) or left == 0:
            yield told, float(np.sum(weight))
            return
        need = thresholds[asked] + noise - values[asked]
        yield from walk(asked + 1, weight * laplace_below(need - 1, second), left, (*told, "below"))
        for gap in range(gaps + 1):
            crossed = laplace(need + gap, second) if gap < gaps else laplace_above(need + gaps - 1, second)
            after = weight * crossed
            if mechanism.restarts:
                after = float(np.sum(after)) * fresh
            yield from walk(asked + 1, after, left - 1, (*told, gap))

    return dict(walk(0, fresh, mechanism.positives, ()))


def largest_loss(first: Mapping[Any, float], second: Mapping[Any, float]) -> float:
    """The largest absolute log-ratio."""
    assert first.keys() == second.keys()
    return max(abs(math.log(first[outcome] / second[outcome])) for outcome in first)


def renyi(first: Mapping[Any, float], second: Mapping[Any, float], order: Fraction) -> float:
    """The Rényi divergence in the worse direction."""
    alpha = float(order)
    return max(
        math.log(math.fsum(p[outcome] ** alpha * q[outcome] ** (1 - alpha) for outcome in p)) / (alpha - 1)
        for p, q in ((first, second), (second, first))
    )


def kullback_leibler(first: Mapping[Any, float], second: Mapping[Any, float]) -> float:
    """The divergence of order 1 in the worse direction."""
    return max(
        math.fsum(p[outcome] * math.log(p[outcome] / q[outcome]) for outcome in p)
        for p, q in ((first, second), (second, first))
    )


def moves(length: int, *, monotone: bool) -> list[tuple[int, ...]]:
    """Every way in which one row can move scores by at most one step; monotone ones all go up."""
    return list(itertools.product((0, 1) if monotone else (-1, 0, 1), repeat=length))
