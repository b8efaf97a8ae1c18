"""How far the noise of an estimate checker can lead it astray."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from dodona.mechanisms.sparse_vector import SparseVector

_REACH = 60.0  # scales of the threshold's noise that are looked at; beyond, all is taken to fail
_PARTS = 3000
_GRID = np.linspace(0, _REACH, _PARTS + 1)


def astray(test: SparseVector, off: int, *, questions: int) -> float:
    """Return a bound on P(some verdict is off by more than `off`), for questions chosen with knowledge of the verdicts.

    With τ* the largest noise of all thresholds in size, it is E[min(1, k·P(ν > off - τ*))], summed upwards over parts.
    A verdict can be wrong on one side only, as the distance is fixed before its noise is drawn.

    Theorem: weights-accuracy
    """
    begun = min(test.positives, questions)
    threshold, question = float(test.threshold_scale), float(test.question_scale)
    ends = np.floor(_GRID * threshold)
    # P(|τ| ≤ t) = 1 - 2r^{t+1}/(1+r), r = e^{-1/b}; of the largest of independent ones, its power.
    outside = 2 * np.exp(-(ends + 1) / threshold) / (1 + math.exp(-1 / threshold))
    inside = np.exp(begun * np.log1p(-np.minimum(outside, 1 - 1e-16)))
    mass = np.diff(inside, prepend=0.0)
    room = np.maximum(off - ends, -1)
    wrong = np.minimum(1, questions * np.exp(-(room + 1) / question) / (1 + math.exp(-1 / question)))
    return float(mass @ wrong) + float(-math.expm1(begun * math.log1p(-min(outside[-1], 0.5))))


def farthest(test: SparseVector, *, questions: int, failing: float) -> int:
    """Return the least whole number that no verdict is off by more than, but with probability `failing`.

    Theorem: weights-accuracy
    """
    low, high = -1, 1
    while astray(test, high, questions=questions) > failing:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if astray(test, middle, questions=questions) <= failing else (middle, high)
    return high


def laplace_bound(scale: Fraction, *, answers: int, failing: float) -> int:
    """Return the least m with answers·P(|x| > m) ≤ failing: P(|x| > m) = 2q^{m+1}/(1+q), q = e^{-1/b}.

    Theorem: laplace-accuracy
    """
    if answers == 0:
        return 0
    width = float(scale)
    ratio = math.exp(-1 / width)
    return max(0, math.ceil(width * math.log(2 * answers / (failing * (1 + ratio)))) - 1)
