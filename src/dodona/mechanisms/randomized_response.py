"""Randomized response: each person tells the truth with a probability that leaves room for doubt."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self

from dodona.accounting.event import Kind, PureEvent
from dodona.accuracy import Accuracy, Against, failure
from dodona.domain.neighbours import Neighbours
from dodona.errors import InvalidArgument
from dodona.exact import Exact, exact
from dodona.mechanisms.scale import SMALLEST_EPSILON

# ln 3 rounded up: a coin that decides whether to be honest, and a second one for the lie.
LN3 = Fraction(math.ceil(math.log(3) * 2**40) + 1, 2**40)
_LARGEST_EPSILON = Fraction(700)


@dataclass(frozen=True, slots=True, init=False)
class RandomizedResponse:
    """The truth with probability e^ε/(1 + e^ε), its opposite otherwise.

    Theorem: randomized-response
    """

    theorem: ClassVar[str] = "randomized-response"
    epsilon: Fraction

    def __init__(self, *, epsilon: Exact) -> None:
        """Take any exact number from 10^-12 to 700."""
        checked = exact(epsilon, argument="epsilon", lower=SMALLEST_EPSILON, upper=_LARGEST_EPSILON)
        object.__setattr__(self, "epsilon", checked)

    @classmethod
    def for_accuracy(cls, target: Accuracy, *, respondents: int) -> Self:
        """Return the mechanism with the smallest ε (to seven digits) whose estimated share is within the target.

        >>> RandomizedResponse.for_accuracy(Accuracy(within=0.01), respondents=1_000_000).accuracy(
        ...     0.95, respondents=1_000_000).within <= 0.01
        True
        """
        honest = _half_width(failure(target.confidence), respondents)
        if target.within <= honest:
            accepted = f"even honest answers of so few are only within {honest:.3g}; ask more people or for less"
            raise InvalidArgument("within", target.within, accepted)
        return cls(epsilon=f"{2 * math.atanh(honest / target.within) * (1 + 1e-6):.7g}")

    @property
    def honesty(self) -> float:
        """The probability of the truth."""
        return 1 / (1 + math.exp(-float(self.epsilon)))

    def event(self, neighbours: Neighbours = Neighbours.REPLACE) -> PureEvent:
        """Return what one answer costs the person who gives it: one person's answer is replaced by another.

        Under add-remove the number of respondents would have to be noisy too, so it is refused.
        """
        if neighbours is not Neighbours.REPLACE:
            accepted = "the number of respondents is public here: write Neighbours.REPLACE"
            raise InvalidArgument("neighbours", neighbours, accepted)
        return PureEvent(Kind.RANDOMIZED_RESPONSE, self.epsilon, neighbours)

    def share(self, yes: int, respondents: int) -> float:
        """Return the unbiased estimate of the share of true yes: (observed share - 1 + h)/(2h - 1), h the honesty.

        >>> mechanism = RandomizedResponse(epsilon=1)
        >>> round(mechanism.share(1, 1) - mechanism.share(0, 1), 6), round(mechanism.share(0, 1), 6)
        (2.163953, -0.581977)
        """
        return (yes / respondents - (1 - self.honesty)) / (2 * self.honesty - 1)

    def accuracy(self, confidence: float = 0.95, *, respondents: int, against: Against = Against.TABLE) -> Accuracy:
        """Return the error of the estimated share; the bound is the same against the table and the population.

        The 1,000,000 patients at ε = 1: 2.163953·r - .581977 ± .002939.

        >>> round(RandomizedResponse(epsilon=1).accuracy(respondents=1_000_000).within, 6)
        0.002939

        Theorem: randomized-response-accuracy
        """
        within = _half_width(failure(confidence), respondents) / (2 * self.honesty - 1)
        spread = (
            1 / (4 * respondents) if against is Against.POPULATION else self.honesty * (1 - self.honesty) / respondents
        )
        expected = math.sqrt(spread) / (2 * self.honesty - 1)  # E|e| ≤ √E[e²]
        return Accuracy(within=within, confidence=confidence, expected=expected, against=against)

    def interval(self, yes: int, respondents: int, *, confidence: float = 0.95) -> tuple[float, float]:
        """Return the exact (Clopper-Pearson) interval for the share of yes in the population.

        Theorem: randomized-response-accuracy
        """
        from scipy.stats import beta

        failing = failure(confidence)
        if not 0 <= yes <= respondents:
            raise InvalidArgument("yes", yes, "write how many said yes, from 0 to the number of respondents")
        low = beta.ppf(failing / 2, yes, respondents - yes + 1) if yes else 0.0
        high = beta.isf(failing / 2, yes + 1, respondents - yes) if yes < respondents else 1.0
        lowest, highest = (
            self.share(1, 1) * edge + self.share(0, 1) * (1 - edge) for edge in (float(low), float(high))
        )
        return max(0.0, lowest), min(1.0, highest)


@dataclass(frozen=True, slots=True)
class Coins:
    """The classic with two coins: the truth on tails, else yes or no by a second coin. It is (ln 3)-private.

    Theorem: randomized-response
    """

    theorem: ClassVar[str] = "randomized-response"

    @property
    def honesty(self) -> float:
        """The probability of the truth, by the first coin or by chance."""
        return 0.75

    def event(self, neighbours: Neighbours = Neighbours.REPLACE) -> PureEvent:
        """Return what one answer costs the person who gives it: ln 3, rounded up."""
        return RandomizedResponse(epsilon=LN3).event(neighbours)

    def share(self, yes: int, respondents: int) -> float:
        """Return the unbiased estimate of the share of true yes: 2·(observed share) - 1/2."""
        return 2 * yes / respondents - 0.5

    def accuracy(self, confidence: float = 0.95, *, respondents: int, against: Against = Against.TABLE) -> Accuracy:
        """Return the error of the estimated share."""
        return RandomizedResponse(epsilon=LN3).accuracy(confidence, respondents=respondents, against=against)


def _half_width(failing: float, respondents: int) -> float:
    """Return √(ln(2/β)/(2n)): Hoeffding's bound for a mean of independent numbers from 0 to 1."""
    if respondents < 1:
        raise InvalidArgument("respondents", respondents, "write how many people answer, from 1 up")
    return math.sqrt(math.log(2 / failing) / (2 * respondents))
