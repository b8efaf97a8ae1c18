"""Randomized response: each person answers truthfully with a probability that leaves deniability."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self

from dodona.errors import InvalidArgument
from dodona.numbers import Exact, smallest_integer, to_fraction, to_integer
from dodona.privacy.accuracy import Accuracy, Against, to_failure_probability, validate_count
from dodona.privacy.additive_noise import SMALLEST_EPSILON
from dodona.privacy.events import PureEvent, PureMechanism
from dodona.schema.schema import Neighbours

# ln 3 rounded up: a coin that decides whether to be honest, and a second one for the lie.
LN3 = Fraction(math.ceil(math.log(3) * 2**40) + 1, 2**40)
_LARGEST_EPSILON = Fraction(700)
_INVERTED = 4096  # up to this many respondents the distribution of the answers is inverted exactly


@dataclass(frozen=True, slots=True, init=False)
class RandomizedResponse:
    """The truth with probability e^ε/(1 + e^ε), its opposite otherwise.

    Theorem: randomized-response
    """

    theorem: ClassVar[str] = "randomized-response"
    epsilon: Fraction

    def __init__(self, *, epsilon: Exact) -> None:
        """Accept any exact number from 10^-12 to 700."""
        checked = to_fraction(epsilon, argument="epsilon", lower=SMALLEST_EPSILON, upper=_LARGEST_EPSILON)
        object.__setattr__(self, "epsilon", checked)

    @classmethod
    def for_accuracy(cls, target: Accuracy, *, respondents: int) -> Self:
        """Return the mechanism with the smallest ε (to seven digits) whose estimated share is within the target.

        >>> RandomizedResponse.for_accuracy(Accuracy(within=0.01), respondents=1_000_000).accuracy(
        ...     0.95, respondents=1_000_000).within <= 0.01
        True
        """
        honest = _half_width(to_failure_probability(target.confidence), respondents)
        if target.within <= honest:
            accepted = f"even honest answers of so few are only within {honest:.3g}; ask more people or for less"
            raise InvalidArgument("within", target.within, accepted)
        return cls(epsilon=f"{2 * math.atanh(honest / target.within) * (1 + 1e-6):.7g}")

    @property
    def honesty(self) -> float:
        """The probability of the truth."""
        return 1 / (1 + math.exp(-float(self.epsilon)))

    @property
    def _clarity(self) -> float:
        """2h - 1, h the honesty, without cancellation."""
        return math.tanh(float(self.epsilon) / 2)

    def event(self, neighbours: Neighbours = Neighbours.REPLACE) -> PureEvent:
        """Return the event of one answer: one person's answer is replaced by another.

        Under add-remove the number of respondents would have to be noisy too, so it is refused.
        """
        if neighbours is not Neighbours.REPLACE:
            accepted = "the number of respondents is public here: write Neighbours.REPLACE"
            raise InvalidArgument("neighbours", neighbours, accepted)
        return PureEvent(PureMechanism.RANDOMIZED_RESPONSE, self.epsilon, neighbours)

    def share(self, yes: int, respondents: int) -> float:
        """Return the unbiased estimate of the share of true yes: 1/2 + (observed share - 1/2)/tanh(ε/2).

        With h the honesty, tanh(ε/2) = 2h - 1, so this is (observed share - 1 + h)/(2h - 1).

        >>> mechanism = RandomizedResponse(epsilon=1)
        >>> round(mechanism.share(1, 1) - mechanism.share(0, 1), 6), round(mechanism.share(0, 1), 6)
        (2.163953, -0.581977)
        """
        return _debias(_share(yes, respondents), self._clarity)

    def accuracy(self, confidence: float = 0.95, *, respondents: int, against: Against = Against.TABLE) -> Accuracy:
        """Return the error of the estimated share; the bound is the same against the table and the population.

        The 1,000,000 patients at ε = 1: 2.163953·r - .581977 ± .002939.

        >>> round(RandomizedResponse(epsilon=1).accuracy(respondents=1_000_000).within, 6)
        0.002939

        Theorem: randomized-response-accuracy
        """
        return _accuracy(self._clarity, confidence, respondents, against)

    def interval(
        self, yes: int, respondents: int, *, confidence: float = 0.95, against: Against = Against.POPULATION
    ) -> tuple[float, float]:
        """Return an interval for the share of true yes, in the population or among the respondents.

        For the population it is Clopper and Pearson's. For the table it inverts the distribution of the answers, which
        is Bin(m, h) + Bin(n - m, 1 - h) if m of n would truly say yes; beyond 4,096 respondents it is Hoeffding's.

        Theorem: randomized-response-accuracy
        """
        failing = to_failure_probability(confidence)
        observed = _share(yes, respondents)
        if against is Against.POPULATION:
            edges = _clopper_pearson(yes, respondents, failing)
        elif respondents <= _INVERTED:
            return _invert_test(yes, respondents, self.honesty, failing)
        else:
            edges = observed - _half_width(failing, respondents), observed + _half_width(failing, respondents)
        lowest, highest = (min(max(_debias(edge, self._clarity), 0.0), 1.0) for edge in edges)
        return lowest, highest


@dataclass(frozen=True, slots=True)
class Coins:
    """The classic with two coins: the truth on tails, otherwise yes or no by a second coin. It is (ln 3)-private.

    Theorem: randomized-response
    """

    theorem: ClassVar[str] = "randomized-response"

    @property
    def honesty(self) -> float:
        """The probability of the truth, by the first coin or by chance."""
        return 0.75

    def event(self, neighbours: Neighbours = Neighbours.REPLACE) -> PureEvent:
        """Return the event of one answer: ln 3, rounded up."""
        return RandomizedResponse(epsilon=LN3).event(neighbours)

    def share(self, yes: int, respondents: int) -> float:
        """Return the unbiased estimate of the share of true yes: 2·(observed share) - 1/2."""
        return _debias(_share(yes, respondents), 0.5)

    def accuracy(self, confidence: float = 0.95, *, respondents: int, against: Against = Against.TABLE) -> Accuracy:
        """Return the error of the estimated share."""
        return _accuracy(0.5, confidence, respondents, against)


def _half_width(failing: float, respondents: int) -> float:
    """Return √(ln(2/β)/(2n)): Hoeffding's bound for a mean of independent variables in [0, 1]."""
    return math.sqrt(math.log(2 / failing) / (2 * validate_count(respondents, argument="respondents")))


def _share(yes: int, respondents: int) -> float:
    """Return the observed share of yes."""
    asked = validate_count(respondents, argument="respondents")
    return to_integer(yes, argument="yes", lower=0, upper=asked) / asked


def _debias(observed: float, clarity: float) -> float:
    return 0.5 + (observed - 0.5) / clarity


def _accuracy(clarity: float, confidence: float, respondents: int, against: Against) -> Accuracy:
    """Return the error of a share whose answers have 2h - 1 = clarity."""
    within = _half_width(to_failure_probability(confidence), respondents) / clarity
    # The variance of one answer: at most 1/4, and h(1 - h) if only the coin is random.
    spread = (1 if against is Against.POPULATION else (1 - clarity) * (1 + clarity)) / (4 * respondents)
    expected = math.sqrt(spread) / clarity  # E|e| ≤ √E[e²]
    return Accuracy(within=within, confidence=confidence, expected=expected, against=against)


def _clopper_pearson(yes: int, respondents: int, failing: float) -> tuple[float, float]:
    """Return an interval for the probability of an observed yes."""
    from scipy.stats import beta

    low = beta.ppf(failing / 2, yes, respondents - yes + 1) if yes else 0.0
    high = beta.isf(failing / 2, yes + 1, respondents - yes) if yes < respondents else 1.0
    return float(low), float(high)


def _invert_test(yes: int, respondents: int, honesty: float, failing: float) -> tuple[float, float]:
    """Return the least and greatest share of true yes under which the answers are not too rare on either side."""
    import numpy as np
    from scipy.stats import binom

    rare = failing / 2 * (1 - 1e-9)  # rounding widens the interval

    def at_most(said: int, true: int) -> float:
        """Return P(at most `said` say yes) if `true` truly would."""
        honest = np.arange(true + 1)
        others = binom.cdf(said - honest, respondents - true, 1 - honesty)
        return float(np.sum(binom.pmf(honest, true, honesty) * others))

    def first(holds: Callable[[int], bool]) -> int:
        """Return the least number of true yes at which a monotone condition holds."""
        return smallest_integer(holds, -1, respondents + 1)

    # By symmetry, at least `yes` say yes exactly if at most the rest say no.
    lowest = first(lambda true: at_most(respondents - yes, respondents - true) > rare)
    highest = first(lambda true: at_most(yes, true) <= rare) - 1
    # If no number of true yes explains the answers, return the nearest one.
    return min(lowest, respondents) / respondents, max(highest, 0) / respondents
