"""Composition theorems: basic, advanced and optimal, each in the form in which it holds.

Optimal composition is exact for parameters that are fixed in advance. It is not a filter: adaptively chosen parameters
break it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dodona.errors import InvalidArgument
from dodona.lab import convolution
from dodona.lab.conversion import (
    MOST_TIMES,
    EpsilonDelta,
    add_rounding_margin,
    epsilon_delta,
    float_below,
    validate_delta,
    validate_epsilon,
    validate_positive_delta,
    validate_repetitions,
)
from dodona.lab.convolution import LossTail
from dodona.numbers import Exact, float_above, largest_number

# --- The composition theorems of the textbook, each by name and in the form in which it holds. ---


@dataclass(frozen=True, slots=True)
class MechanismGroup:
    """Mechanisms that are each (ε, δ)-differentially private, `times` of them."""

    epsilon: Fraction
    delta: Fraction = Fraction(0)
    times: int = 1

    def __post_init__(self) -> None:
        """Refuse invalid parameters."""
        object.__setattr__(self, "epsilon", validate_epsilon(self.epsilon))
        object.__setattr__(self, "delta", validate_delta(self.delta))
        object.__setattr__(self, "times", validate_repetitions(self.times))


def mechanism_group(epsilon: Exact, *, delta: Exact = 0, times: int = 1) -> MechanismGroup:
    """Return a group of mechanisms, with parameters in any exact notation.

    >>> mechanism_group("0.1", times=100)
    MechanismGroup(epsilon=Fraction(1, 10), delta=Fraction(0, 1), times=100)
    """
    return MechanismGroup(validate_epsilon(epsilon), validate_delta(delta), validate_repetitions(times))


def require_groups(parts: Iterable[MechanismGroup]) -> tuple[MechanismGroup, ...]:
    """Return the parts, of which there must be at least one."""
    groups = tuple(parts)
    if not groups:
        raise InvalidArgument("parts", groups, "write at least one part, such as part('0.1', times=10)")
    return groups


def basic(parts: Iterable[MechanismGroup]) -> EpsilonDelta:
    """Return (Σε, Σδ), exactly; it holds however the mechanisms are chosen.

    >>> basic([mechanism_group("0.1", times=10), mechanism_group("0.5", delta="1e-6")])
    EpsilonDelta(epsilon=Fraction(3, 2), delta=Fraction(1, 1000000))

    Theorem: basic-composition
    """
    groups = require_groups(parts)
    delta = sum((each.delta * each.times for each in groups), Fraction(0))
    return EpsilonDelta(sum((each.epsilon * each.times for each in groups), Fraction(0)), min(delta, Fraction(1)))


def advanced(parts: Iterable[MechanismGroup], *, slack: Exact) -> EpsilonDelta:
    """Return theorem 3.20: ε = √(2 ln(1/δ')·Σε²) + Σε(e^ε - 1) and δ = δ' + Σδ, where δ' is the slack.

    Theorem: advanced-composition
    """
    groups = require_groups(parts)
    return _advanced_pair(groups, slack, textbook_drift(groups))


def advanced_sharp(parts: Iterable[MechanismGroup], *, slack: Exact) -> EpsilonDelta:
    """Return theorem 3.20 with the drift of randomized response, Σε·tanh(ε/2).

    Theorem: advanced-composition
    """
    groups = require_groups(parts)
    return _advanced_pair(groups, slack, sharp_drift(groups))


def advanced_delta(parts: Iterable[MechanismGroup], *, epsilon: Exact) -> float:
    """Return the δ at ε by the sharp form: e^{-(ε - drift)²/(2Σε²)} + Σδ; 1 up to the drift.

    Theorem: advanced-composition
    """
    groups = require_groups(parts)
    beyond = float_below(validate_epsilon(epsilon)) - sharp_drift(groups)
    if beyond <= 0:
        return 1.0
    return min(
        1.0,
        add_rounding_margin(
            math.exp(-(beyond**2) / (2 * _squares(groups)) * (1 - 1e-12)) + float_above(basic(groups).delta)
        ),
    )


def textbook_drift(parts: Iterable[MechanismGroup]) -> float:
    """Return Σε(e^ε - 1), rounded up: the bound of lemma 3.18 on the mean loss.

    Theorem: mean-loss
    """
    return add_rounding_margin(math.fsum(each.times * _textbook(float_above(each.epsilon)) for each in parts))


def sharp_drift(parts: Iterable[MechanismGroup]) -> float:
    """Return Σε·tanh(ε/2), rounded up: the largest possible mean loss.

    Theorem: mean-loss
    """
    return add_rounding_margin(math.fsum(each.times * _sharp(float_above(each.epsilon)) for each in parts))


def corollary_epsilon(epsilon: Exact, *, slack: Exact, times: int) -> Fraction:
    """Return corollary 3.21's ε for each of `times` mechanisms, ε/(2√(2k ln(1/δ'))), rounded down.

    It holds up to ε = 8 ln(1/δ') for any number of mechanisms; larger ε are refused.

    Theorem: advanced-composition
    """
    target, logarithm = (
        float_below(validate_epsilon(epsilon)),
        _logarithm(validate_positive_delta(slack, argument="slack")),
    )
    if target > 8 * logarithm * (1 - 1e-12):
        raise InvalidArgument("epsilon", epsilon, f"write at most 8·ln(1/slack), here {8 * logarithm:.6g}")
    return Fraction(target / (2 * math.sqrt(2 * validate_repetitions(times) * logarithm)) * (1 - 1e-12))


def calibrate_epsilon(epsilon: Exact, *, slack: Exact, times: int) -> Fraction:
    """Return the largest ε for each of `times` mechanisms that `advanced_sharp` allows, rounded down.

    Theorem: advanced-composition
    """
    target, wanted = validate_epsilon(epsilon), validate_positive_delta(slack, argument="slack")
    count = validate_repetitions(times)

    def fits(each: float) -> bool:
        return advanced_sharp((MechanismGroup(Fraction(each), times=count),), slack=wanted).epsilon <= target

    return Fraction(largest_number(fits, 0.0, float_above(target), near=1e-13))


def product(epsilon: Exact, *, times: int) -> EpsilonDelta:
    """Return (3kε², e^{-kε²/2}) for the k-fold product of an ε-differentially private mechanism.

    Theorem: product-composition
    """
    loss, count = float_above(validate_epsilon(epsilon)), validate_repetitions(times)
    square = count * loss * loss
    return epsilon_delta(add_rounding_margin(3 * square), add_rounding_margin(math.exp(-square * (1 - 1e-12) / 2)))


def product_sharp(epsilon: Exact, *, times: int) -> EpsilonDelta:
    """Return (3kε², e^{-25kε²/8}): the same proof with the sharp drift.

    Theorem: product-composition
    """
    loss, count = float_above(validate_epsilon(epsilon)), validate_repetitions(times)
    square = count * loss * loss
    return epsilon_delta(add_rounding_margin(3 * square), add_rounding_margin(math.exp(-square * (1 - 1e-12) * 25 / 8)))


def _advanced_pair(parts: tuple[MechanismGroup, ...], slack: Exact, drift: float) -> EpsilonDelta:
    spare = validate_positive_delta(slack, argument="slack")
    epsilon = add_rounding_margin(math.sqrt(2 * _logarithm(spare) * _squares(parts)) + drift)
    return EpsilonDelta(Fraction(epsilon), min(spare + basic(parts).delta, Fraction(1)))


def _squares(parts: Iterable[MechanismGroup]) -> float:
    """Return Σε², rounded up."""
    return add_rounding_margin(math.fsum(each.times * float_above(each.epsilon) ** 2 for each in parts))


def _logarithm(slack: Fraction) -> float:
    """Return ln(1/δ'); if δ' is near 1, the difference is taken before rounding."""
    if slack > Fraction(1, 2):
        return -math.log1p(-float(1 - slack))
    return math.log(slack.denominator) - math.log(slack.numerator)


def _textbook(loss: float) -> float:
    if loss > 700:  # noqa: PLR2004  past it e^ε is no float
        raise InvalidArgument("epsilon", loss, "write at most 700 for the textbook's drift, or use the sharp form")
    return loss * math.expm1(loss)


def _sharp(loss: float) -> float:
    return loss * math.tanh(loss / 2)


# --- Optimal composition: the least δ that holds for every choice of mechanisms with these parameters. ---


def homogeneous_delta(part: MechanismGroup, *, epsilon: Exact) -> float:
    """Return the least δ at ε for k mechanisms with equal parameters, rounded up (Kairouz, Oh, Viswanath 2015).

    Theorem: optimal-composition
    """
    return _with_failures((part,), _binomial_losses(part).delta(float_below(validate_epsilon(epsilon))))


def homogeneous_epsilon(part: MechanismGroup, *, delta: Exact) -> float:
    """Return the least ε at δ for k mechanisms with equal parameters, rounded up; infinity if there is none.

    Theorem: optimal-composition
    """
    wanted = _without_failures((part,), validate_positive_delta(delta))
    return (
        min(_binomial_losses(part).epsilon(wanted), float_above(part.epsilon * part.times)) if wanted > 0 else math.inf
    )


def grouped_delta(parts: Iterable[MechanismGroup], *, epsilon: Exact) -> float:
    """Return the least δ at ε for groups of mechanisms, each with its parameters (Murtagh, Vadhan 2016), rounded up.

    Theorem: optimal-composition
    """
    groups = require_groups(parts)
    laws = [(convolution.pure_loss_distribution(loss), times) for loss, times in _count_by_epsilon(groups).items()]
    return _with_failures(groups, convolution.composed_loss_delta(laws, float_below(validate_epsilon(epsilon))))


def grouped_epsilon(parts: Iterable[MechanismGroup], *, delta: Exact) -> float:
    """Return the least ε at δ for groups of mechanisms, rounded up; at most Σε, infinity if there is none.

    Theorem: optimal-composition
    """
    groups = require_groups(parts)
    wanted = _without_failures(groups, validate_positive_delta(delta))
    if wanted <= 0:
        return math.inf
    laws = [(convolution.pure_loss_distribution(loss), times) for loss, times in _count_by_epsilon(groups).items()]
    return min(convolution.composed_loss_epsilon(laws, wanted), float_above(basic(groups).epsilon))


def product_losses(epsilon: Exact, *, times: int) -> tuple[convolution.Array, convolution.Array]:
    """Return the losses of k randomized responses, largest first, and their probabilities.

    Theorem: optimal-composition
    """
    tail = _binomial_losses(MechanismGroup(validate_epsilon(epsilon), times=validate_repetitions(times)))
    return tail.losses, tail.weights


def _binomial_losses(part: MechanismGroup) -> LossTail:
    """Return the binomial distribution of the losses (k - 2j)·ε."""
    loss = float(part.epsilon)
    losses = np.asarray(loss * (part.times - 2 * np.arange(part.times + 1)), dtype=np.float64)
    return LossTail(losses=losses, weights=convolution.binomial_probabilities(loss, part.times))


def _count_by_epsilon(parts: tuple[MechanismGroup, ...]) -> dict[Fraction, int]:
    """Return the number of mechanisms for each ε."""
    counts: dict[Fraction, int] = {}
    for each in parts:
        counts[each.epsilon] = counts.get(each.epsilon, 0) + each.times
    if sum(counts.values()) > MOST_TIMES:
        raise InvalidArgument("parts", sum(counts.values()), f"write at most {MOST_TIMES} mechanisms in all")
    return counts


def _with_failures(parts: tuple[MechanismGroup, ...], delta: float) -> float:
    """Return 1 - (1 - δ)·∏(1 - δ_i), rounded up."""
    survive = math.fsum(each.times * math.log1p(-float(each.delta)) for each in parts)
    return min(1.0, (delta - math.expm1(survive) * (1 - delta)) * (1 + 1e-12)) if survive < 0 else delta


def _without_failures(parts: tuple[MechanismGroup, ...], delta: Fraction) -> float:
    """Return the δ that remains for the losses: 1 - (1 - δ)/∏(1 - δ_i), rounded down."""
    survive = math.fsum(each.times * math.log1p(-float(each.delta)) for each in parts)
    if survive == 0:
        return float_below(delta)
    failing = -math.expm1(survive)
    return (float(delta) - failing - 1e-12 * (float(delta) + failing)) / math.exp(survive)
