"""Optimal composition: the least δ that holds for every choice of mechanisms with these parameters.

Exact for parameters that are fixed before the first answer. It is no filter: parameters chosen on the way break it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction

import numpy as np

from dodona.accounting import convolution, losses
from dodona.accounting.bounds import MOST_TIMES, above, below, positive_probability, privacy_loss, repetitions
from dodona.accounting.composition import Part, basic, checked
from dodona.accounting.tail import Tail
from dodona.errors import InvalidArgument
from dodona.exact import Exact


def homogeneous_delta(part: Part, *, epsilon: Exact) -> float:
    """Return the least δ at ε for k mechanisms with equal parameters, rounded up (Kairouz, Oh, Viswanath 2015).

    Theorem: optimal-composition
    """
    return _with_failures((part,), _repeated(part).delta(below(privacy_loss(epsilon))))


def homogeneous_epsilon(part: Part, *, delta: Exact) -> float:
    """Return the least ε at δ for k mechanisms with equal parameters, rounded up; infinity where there is none.

    Theorem: optimal-composition
    """
    wanted = _without_failures((part,), positive_probability(delta))
    return min(_repeated(part).epsilon(wanted), above(part.epsilon * part.times)) if wanted > 0 else math.inf


def grouped_delta(parts: Iterable[Part], *, epsilon: Exact) -> float:
    """Return the least δ at ε for groups of mechanisms, each with its parameters (Murtagh, Vadhan 2016), rounded up.

    Theorem: optimal-composition
    """
    found = checked(parts)
    laws = [(losses.pure(loss), times) for loss, times in _groups(found).items()]
    return _with_failures(found, convolution.delta(laws, below(privacy_loss(epsilon))))


def grouped_epsilon(parts: Iterable[Part], *, delta: Exact) -> float:
    """Return the least ε at δ for groups of mechanisms, rounded up; at most Σε, infinity where there is none.

    Theorem: optimal-composition
    """
    found = checked(parts)
    wanted = _without_failures(found, positive_probability(delta))
    if wanted <= 0:
        return math.inf
    laws = [(losses.pure(loss), times) for loss, times in _groups(found).items()]
    return min(convolution.epsilon(laws, wanted), above(basic(found).epsilon))


def losses_of_product(epsilon: Exact, *, times: int) -> tuple[losses.Array, losses.Array]:
    """Return the losses of k randomized responses, largest first, and their probabilities.

    Theorem: optimal-composition
    """
    tail = _repeated(Part(privacy_loss(epsilon), times=repetitions(times)))
    return tail.losses, tail.weights


def _repeated(part: Part) -> Tail:
    """Return the binomial law of the losses (k - 2j)·ε."""
    loss = float(part.epsilon)
    found = np.asarray(loss * (part.times - 2 * np.arange(part.times + 1)), dtype=np.float64)
    return Tail(losses=found, weights=losses.binomial(loss, part.times))


def _groups(parts: tuple[Part, ...]) -> dict[Fraction, int]:
    """Return how many mechanisms there are of each ε."""
    found: dict[Fraction, int] = {}
    for each in parts:
        found[each.epsilon] = found.get(each.epsilon, 0) + each.times
    if sum(found.values()) > MOST_TIMES:
        raise InvalidArgument("parts", sum(found.values()), f"write at most {MOST_TIMES} mechanisms in all")
    return found


def _with_failures(parts: tuple[Part, ...], delta: float) -> float:
    """Return 1 - (1 - δ)·∏(1 - δ_i), rounded up."""
    survive = math.fsum(each.times * math.log1p(-float(each.delta)) for each in parts)
    return min(1.0, (delta - math.expm1(survive) * (1 - delta)) * (1 + 1e-12)) if survive < 0 else delta


def _without_failures(parts: tuple[Part, ...], delta: Fraction) -> float:
    """Return the δ that is left to the losses: 1 - (1 - δ)/∏(1 - δ_i), rounded down."""
    survive = math.fsum(each.times * math.log1p(-float(each.delta)) for each in parts)
    if survive == 0:
        return below(delta)
    failing = -math.expm1(survive)
    return (float(delta) - failing - 1e-12 * (float(delta) + failing)) / math.exp(survive)
