"""Divergences between two finite distributions, in every measure that privacy is stated in.

A distribution is a mapping from outcomes to probabilities, or a sequence of probabilities. Values are rounded to
nearest: they are for study and tests, never for charging.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from fractions import Fraction

import numpy as np

from dodona.errors import InvalidArgument
from dodona.lab.conversion import validate_delta, validate_epsilon
from dodona.lab.convolution import Array
from dodona.numbers import Exact, to_fraction
from dodona.privacy.events import validate_order

FiniteLaw = Mapping[Hashable, float] | Sequence[float] | Array

_ONE = Fraction(1)
_WHOLE = 1e-9  # how far from 1 the sum of a law's probabilities may be


def kullback_leibler(first: FiniteLaw, second: FiniteLaw) -> float:
    """Return Σ P ln(P/Q); infinity if Q lacks an outcome of P."""
    upper, lower = align_laws(first, second)
    held = upper > 0
    if np.any(lower[held] == 0):
        return math.inf
    return max(0.0, math.fsum((upper[held] * np.log(upper[held] / lower[held])).tolist()))


def maximum(first: FiniteLaw, second: FiniteLaw) -> float:
    """Return the max divergence ln max P/Q; infinity if Q lacks an outcome of P."""
    return approximate_maximum(first, second, delta=0)


def approximate_maximum(first: FiniteLaw, second: FiniteLaw, *, delta: Exact) -> float:
    """Return max over sets S with P(S) > δ of ln((P(S) - δ)/Q(S)): the least ε at this δ; minus infinity at δ ≥ 1.

    Theorem: hockey-stick
    """
    upper, lower = align_laws(first, second)
    slack = float(validate_delta(delta))
    with np.errstate(divide="ignore", invalid="ignore"):
        order = np.argsort(np.where(upper > 0, -upper / lower, np.inf), kind="stable")
        sets, covered = np.cumsum(upper[order]) - slack, np.cumsum(lower[order])
        needed = np.where(sets > 0, np.log(np.maximum(sets, 0.0)) - np.log(covered), -np.inf)
    return float(needed.max())


def hockey_stick(first: FiniteLaw, second: FiniteLaw, *, epsilon: Exact) -> float:
    """Return Σ (P - e^ε·Q)₊, the least δ at this ε.

    Theorem: hockey-stick
    """
    upper, lower = align_laws(first, second)
    level = float(to_fraction(epsilon, argument="epsilon", lower=-100 * _ONE, upper=100 * _ONE))
    return math.fsum(np.maximum(upper - math.exp(level) * lower, 0.0).tolist())


def total_variation(first: FiniteLaw, second: FiniteLaw) -> float:
    """Return half of Σ|P - Q|, the hockey stick at ε = 0."""
    upper, lower = align_laws(first, second)
    return math.fsum(np.abs(upper - lower).tolist()) / 2


def renyi(first: FiniteLaw, second: FiniteLaw, *, order: Exact) -> float:
    """Return ln(Σ P^α·Q^{1-α})/(α - 1) for an order α above 1."""
    upper, lower = align_laws(first, second)
    alpha = float(validate_order(to_fraction(order, argument="order", lower=_ONE, upper=10**6 * _ONE)))
    held = upper > 0
    if np.any(lower[held] == 0):
        return math.inf
    powers = alpha * np.log(upper[held]) + (1 - alpha) * np.log(lower[held])
    largest = float(powers.max())
    return max(0.0, (largest + math.log(math.fsum(np.exp(powers - largest).tolist()))) / (alpha - 1))


def post_process(law: FiniteLaw, channel: Sequence[Sequence[float]] | Array) -> Array:
    """Return the distribution after post-processing: outcome i becomes j with probability channel[i][j].

    Theorem: post-processing
    """
    start = _array(law)
    table = np.asarray(channel, dtype=np.float64)
    if table.ndim != 2 or len(table) != len(start):  # noqa: PLR2004  a table has rows and columns
        raise InvalidArgument("channel", table.shape, f"write {len(start)} rows, one for each outcome")
    for row in table:
        _array(row)
    return start @ table


def close_law(first: FiniteLaw, second: FiniteLaw, *, epsilon: Exact) -> Array:
    """Return Y' with P ≤ e^ε·Q for (Y', second), as close to `first` as possible: δ(ε) away (lemma 3.17, part 1).

    Theorem: close-laws
    """
    upper, lower = align_laws(first, second)
    ceiling = math.exp(validate_epsilon(epsilon)) * lower
    cut = np.minimum(upper, ceiling)
    return _share_out(cut, np.maximum(lower - cut, 0.0), 1 - cut.sum())


def close_pair(first: FiniteLaw, second: FiniteLaw, *, epsilon: Exact) -> tuple[Array, Array]:
    """Return Y' and Z' that are ε-indistinguishable in both directions, each close to its own (lemma 3.17, part 2).

    Each is at most max(δ(Y‖Z), δ(Z‖Y))/(e^ε + 1) away in total variation.

    Theorem: close-laws
    """
    upper, lower = align_laws(first, second)
    ratio = math.exp(validate_epsilon(epsilon))
    both = upper + lower
    low, high = both / (1 + ratio), both * ratio / (1 + ratio)
    new_upper, new_lower = np.clip(upper, low, high), np.clip(lower, low, high)
    # One distribution now has too much mass and the other too little, by the same amount: it moves where there is room.
    excess = new_upper.sum() - 1
    room = np.maximum(new_upper - new_lower if excess > 0 else new_lower - new_upper, 0.0)
    moved = _share_out(np.zeros_like(room), room, abs(excess)) * math.copysign(1.0, excess)
    return new_upper - moved, new_lower + moved


def align_laws(first: FiniteLaw, second: FiniteLaw) -> tuple[Array, Array]:
    """Return the probabilities of two distributions over the same outcomes, in the same order."""
    match first, second:
        case Mapping(), Mapping():
            outcomes = list(dict.fromkeys([*first, *second]))
            return _array([first.get(x, 0.0) for x in outcomes]), _array([second.get(x, 0.0) for x in outcomes])
        case _:
            left, right = _array(first), _array(second)
            if len(left) != len(right):
                raise InvalidArgument("second", len(right), f"write {len(left)} probabilities, as many as in the first")
            return left, right


def _array(law: FiniteLaw) -> Array:
    """Return probabilities that are nonnegative and sum to 1."""
    values = list(law.values()) if isinstance(law, Mapping) else law
    weights = np.asarray(values, dtype=np.float64)
    if weights.ndim != 1 or not np.all(weights >= 0) or not abs(float(weights.sum()) - 1) <= _WHOLE:
        raise InvalidArgument("law", law, "write probabilities from 0 up that sum to 1")
    return weights


def _share_out(start: Array, room: Array, amount: float) -> Array:
    """Return the weights with `amount` distributed in proportion to the available room."""
    available = float(room.sum())
    return start + room * (min(1.0, amount / available) if available > 0 and amount > 0 else 0.0)
