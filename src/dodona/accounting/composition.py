"""The composition theorems of the textbook, each by name and in the form in which it holds."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from dodona.accounting.bounds import (
    Pair,
    above,
    below,
    pair,
    positive_probability,
    privacy_loss,
    probability,
    raised,
    repetitions,
)
from dodona.errors import InvalidArgument
from dodona.exact import Exact


@dataclass(frozen=True, slots=True)
class Part:
    """Mechanisms that are each (ε, δ)-differentially private, `times` of them."""

    epsilon: Fraction
    delta: Fraction = Fraction(0)
    times: int = 1

    def __post_init__(self) -> None:
        """Refuse what no mechanism has."""
        object.__setattr__(self, "epsilon", privacy_loss(self.epsilon))
        object.__setattr__(self, "delta", probability(self.delta))
        object.__setattr__(self, "times", repetitions(self.times))


def part(epsilon: Exact, *, delta: Exact = 0, times: int = 1) -> Part:
    """Return mechanisms whose numbers may be written in any exact way.

    >>> part("0.1", times=100)
    Part(epsilon=Fraction(1, 10), delta=Fraction(0, 1), times=100)
    """
    return Part(privacy_loss(epsilon), probability(delta), repetitions(times))


def checked(parts: Iterable[Part]) -> tuple[Part, ...]:
    """Return at least one part."""
    found = tuple(parts)
    if not found:
        raise InvalidArgument("parts", found, "write at least one part, such as part('0.1', times=10)")
    return found


def basic(parts: Iterable[Part]) -> Pair:
    """Return (Σε, Σδ), exactly; it holds however the mechanisms are chosen.

    >>> basic([part("0.1", times=10), part("0.5", delta="1e-6")])
    Pair(epsilon=Fraction(3, 2), delta=Fraction(1, 1000000))

    Theorem: basic-composition
    """
    found = checked(parts)
    delta = sum((each.delta * each.times for each in found), Fraction(0))
    return Pair(sum((each.epsilon * each.times for each in found), Fraction(0)), min(delta, Fraction(1)))


def advanced(parts: Iterable[Part], *, slack: Exact) -> Pair:
    """Return theorem 3.20: ε = √(2 ln(1/δ')·Σε²) + Σε(e^ε - 1) and δ = δ' + Σδ, where δ' is the slack.

    Theorem: advanced-composition
    """
    found = checked(parts)
    return _advanced(found, slack, textbook_drift(found))


def advanced_sharp(parts: Iterable[Part], *, slack: Exact) -> Pair:
    """Return theorem 3.20 with the drift that randomized response has, Σε·tanh(ε/2).

    Theorem: advanced-composition
    """
    found = checked(parts)
    return _advanced(found, slack, sharp_drift(found))


def advanced_delta(parts: Iterable[Part], *, epsilon: Exact) -> float:
    """Return the δ that goes with ε by the sharp form: e^{-(ε - drift)²/(2Σε²)} + Σδ; 1 up to the drift.

    Theorem: advanced-composition
    """
    found = checked(parts)
    beyond = below(privacy_loss(epsilon)) - sharp_drift(found)
    if beyond <= 0:
        return 1.0
    return min(1.0, raised(math.exp(-(beyond**2) / (2 * _squares(found)) * (1 - 1e-12)) + above(basic(found).delta)))


def textbook_drift(parts: Iterable[Part]) -> float:
    """Return Σε(e^ε - 1), raised: what Lemma 3.18 allows the mean loss to be.

    Theorem: mean-loss
    """
    return raised(math.fsum(each.times * _textbook(above(each.epsilon)) for each in parts))


def sharp_drift(parts: Iterable[Part]) -> float:
    """Return Σε·tanh(ε/2), raised: the largest mean loss that there is.

    Theorem: mean-loss
    """
    return raised(math.fsum(each.times * _sharp(above(each.epsilon)) for each in parts))


def corollary(epsilon: Exact, *, slack: Exact, times: int) -> Fraction:
    """Return corollary 3.21's ε for each of `times` mechanisms, ε/(2√(2k ln(1/δ'))), rounded down.

    It holds up to ε = 8 ln(1/δ'), whatever the number of mechanisms; beyond, it is refused.

    Theorem: advanced-composition
    """
    target, logarithm = below(privacy_loss(epsilon)), _logarithm(positive_probability(slack, argument="slack"))
    if target > 8 * logarithm * (1 - 1e-12):
        raise InvalidArgument("epsilon", epsilon, f"write at most 8·ln(1/slack), here {8 * logarithm:.6g}")
    return Fraction(target / (2 * math.sqrt(2 * repetitions(times) * logarithm)) * (1 - 1e-12))


def calibrated(epsilon: Exact, *, slack: Exact, times: int) -> Fraction:
    """Return the largest ε for each of `times` mechanisms that `advanced_sharp` allows, rounded down.

    Theorem: advanced-composition
    """
    target, wanted = privacy_loss(epsilon), positive_probability(slack, argument="slack")
    low, high = 0.0, above(target)
    count = repetitions(times)
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        fits = advanced_sharp((Part(Fraction(middle), times=count),), slack=wanted).epsilon <= target
        low, high = (middle, high) if fits else (low, middle)
    return Fraction(low)


def product(epsilon: Exact, *, times: int) -> Pair:
    """Return (3kε², e^{-kε²/2}) for the k-fold product of an ε-differentially private mechanism.

    Theorem: product-composition
    """
    loss, count = above(privacy_loss(epsilon)), repetitions(times)
    square = count * loss * loss
    return pair(raised(3 * square), raised(math.exp(-square * (1 - 1e-12) / 2)))


def product_sharp(epsilon: Exact, *, times: int) -> Pair:
    """Return (3kε², e^{-25kε²/8}): what the same proof gives with the sharp drift.

    Theorem: product-composition
    """
    loss, count = above(privacy_loss(epsilon)), repetitions(times)
    square = count * loss * loss
    return pair(raised(3 * square), raised(math.exp(-square * (1 - 1e-12) * 25 / 8)))


def _advanced(parts: tuple[Part, ...], slack: Exact, drift: float) -> Pair:
    spare = positive_probability(slack, argument="slack")
    epsilon = raised(math.sqrt(2 * _logarithm(spare) * _squares(parts)) + drift)
    return Pair(Fraction(epsilon), min(spare + basic(parts).delta, Fraction(1)))


def _squares(parts: Iterable[Part]) -> float:
    """Return Σε², raised."""
    return raised(math.fsum(each.times * above(each.epsilon) ** 2 for each in parts))


def _logarithm(slack: Fraction) -> float:
    """Return ln(1/δ'); where δ' is near 1 the difference is taken before rounding."""
    if slack > Fraction(1, 2):
        return -math.log1p(-float(1 - slack))
    return math.log(slack.denominator) - math.log(slack.numerator)


def _textbook(loss: float) -> float:
    if loss > 700:  # noqa: PLR2004  past it e^ε is no float
        raise InvalidArgument("epsilon", loss, "write at most 700 for the textbook's drift, or use the sharp form")
    return loss * math.expm1(loss)


def _sharp(loss: float) -> float:
    return loss * math.tanh(loss / 2)
