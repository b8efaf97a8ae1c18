"""A lower bound on the privacy loss that two samples prove, wrong at most once in a million audits.

The event is chosen on the first half of the samples and tested on the second, so that searching for the best event does
not count as evidence.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from dodona.errors import InvalidArgument

Numbers = NDArray[np.float64]
Codes = NDArray[np.int64]
Measure = Callable[[Numbers, Numbers], Numbers]
"""The loss proved by an event with at least the first probability on one table, at most the second on the other."""

ERROR = 1e-6
"""The probability that a bound is above the truth."""

_FEWEST = 100
_ORDERS = (1.25, 1.5, 2.0, 3.0, 4.0, 8.0, 16.0, 32.0)


def certified_epsilon(first: Codes, second: Codes, *, delta: float = 0.0, error: float = ERROR) -> float:
    """Return a lower bound on the mechanism's ε at this δ: ln((p - δ)/q) of the chosen event.

    Theorem: audit-bound
    """
    return _certify(first, second, partial(_epsilon, delta=delta), error)


def certified_mu(first: Codes, second: Codes, *, error: float = ERROR) -> float:
    """Return a lower bound on the μ of a Gaussian-private mechanism: z(p) - z(q) of the chosen event.

    It considers the whole trade-off curve, so it detects halved noise that a single (ε, δ) would miss.

    Theorem: audit-bound
    """
    return _certify(first, second, _mu, error)


def certified_rho(first: Codes, second: Codes, *, error: float = ERROR) -> float:
    """Return a lower bound on the mechanism's zCDP price: the divergence of the chosen event and its complement.

    Theorem: audit-bound
    """
    return _certify(first, second, _rho, error)


def lowest(count: int, total: int, error: float) -> float:
    """Return the Clopper–Pearson lower bound on a probability, above the truth with probability at most `error`."""
    from scipy.special import betaincinv  # loaded late: it takes longer than everything else here

    return float(betaincinv(count, total - count + 1, error)) if count else 0.0


def highest(count: int, total: int, error: float) -> float:
    """Return the Clopper–Pearson upper bound on a probability, below the truth with probability at most `error`."""
    return 1 - lowest(total - count, total, error)


def _certify(first: Codes, second: Codes, measure: Measure, error: float) -> float:
    """Return the larger bound of the two directions; each of the four probabilities takes a quarter of the error."""
    for argument, sample in (("first", first), ("second", second)):
        if sample.size < _FEWEST:
            raise InvalidArgument(argument, sample.size, f"draw at least {_FEWEST} samples of each table")
    bound = 0.0
    for near, far in ((first, second), (second, first)):
        event = _choose_event(near[: near.size // 2], far[: far.size // 2], measure, error / 4)
        fresh, other = near[near.size // 2 :], far[far.size // 2 :]
        low = lowest(int(np.isin(fresh, event).sum()), fresh.size, error / 4)
        high = highest(int(np.isin(other, event).sum()), other.size, error / 4)
        bound = max(bound, float(measure(np.array([low]), np.array([high]))[0]))
    return bound


def _choose_event(near: Codes, far: Codes, measure: Measure, error: float) -> Codes:
    """Return the values of the most distinguishing event, after a penalty for chance.

    Events are prefixes of the values in some order: by the ratio of counts in the first half of these samples, smoothed
    by one count on each side, or by value from either end. The second half chooses among them, so that an order due to
    chance is not mistaken for evidence.
    """
    values, where = np.unique(np.concatenate((near, far)), return_inverse=True)
    halves = (np.array_split(where[: near.size], 2), np.array_split(where[near.size :], 2))
    (ranked, counts), (ranked_far, counts_far) = (
        [np.bincount(half, minlength=values.size) for half in pair] for pair in halves
    )
    ratio = np.argsort(-(ranked + 1) / (ranked_far + 1), kind="stable")
    rising = np.arange(values.size)
    deviations = NormalDist().inv_cdf(1 - error)
    best, event = -np.inf, values
    for order in (ratio, rising, rising[::-1]):
        low, _ = _wilson(np.cumsum(counts[order]), halves[0][1].size, deviations)
        _, high = _wilson(np.cumsum(counts_far[order]), halves[1][1].size, deviations)
        telling = measure(low, high)
        last = int(np.argmax(telling))
        if telling[last] > best:
            best, event = telling[last], values[order[: last + 1]]
    return event


def _wilson(counts: Codes, total: int, deviations: float) -> tuple[Numbers, Numbers]:
    """Return Wilson's bounds, which are quick: they only choose an event and prove nothing."""
    square = deviations**2
    centre = (counts + square / 2) / (total + square)
    width = deviations / (total + square) * np.sqrt(counts * (total - counts) / total + square / 4)
    return np.clip(centre - width, 0, 1), np.clip(centre + width, 0, 1)


def _epsilon(low: Numbers, high: Numbers, *, delta: float) -> Numbers:
    with np.errstate(divide="ignore"):
        loss: Numbers = np.log(np.maximum(low - delta, 0)) - np.log(high)
    return loss


def _mu(low: Numbers, high: Numbers) -> Numbers:
    from scipy.special import ndtri

    # An event that is certain, or impossible, on both sides says nothing.
    telling = (low > 0) & (high < 1)
    loss: Numbers = np.zeros_like(low)
    loss[telling] = ndtri(low[telling]) - ndtri(high[telling])
    return loss


def _rho(low: Numbers, high: Numbers) -> Numbers:
    """Return the largest of KL and D_order/order over a few orders, each of which is at most ρ."""
    loss: Numbers = np.zeros_like(low)
    telling = low > high  # else the true probabilities may be equal
    inside, outside = np.log(low[telling]), np.log1p(-low[telling])
    inside_far, outside_far = np.log(high[telling]), np.log1p(-high[telling])
    best = np.exp(inside) * (inside - inside_far) + np.exp(outside) * (outside - outside_far)
    for order in _ORDERS:
        power = np.logaddexp(order * inside + (1 - order) * inside_far, order * outside + (1 - order) * outside_far)
        best = np.maximum(best, power / (order - 1) / order)
    loss[telling] = best
    return loss
