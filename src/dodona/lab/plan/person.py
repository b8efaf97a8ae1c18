"""What a budget means for one person: how well anybody can infer whether that person's row is in the table."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from dodona.errors import InvalidArgument
from dodona.lab.conversion import validate_delta
from dodona.numbers import Exact, format_percent
from dodona.privacy.additive_noise import validate_noise_epsilon


@dataclass(frozen=True, slots=True, init=False)
class Exposure:
    """The most that an (ε, δ)-differentially private answer reveals to an attacker who knows everything else.

    Theorem: one-person
    """

    epsilon: Fraction
    delta: Fraction

    def __init__(self, epsilon: Exact, *, delta: Exact = 0) -> None:
        """Validate a budget."""
        object.__setattr__(self, "epsilon", validate_noise_epsilon(epsilon))
        object.__setattr__(self, "delta", validate_delta(delta))

    @property
    def advantage(self) -> float:
        """The largest difference between true- and false-alarm rates: (e^ε - 1 + 2δ)/(e^ε + 1).

        >>> round(Exposure(1, delta="1e-6").advantage, 6)
        0.462118

        Theorem: one-person
        """
        loss = float(self.epsilon)
        return math.tanh(loss / 2) + float(self.delta) * (1 - math.tanh(loss / 2))

    @property
    def guess(self) -> float:
        """The largest probability of guessing right whether a row is in the table, from even prior odds.

        Theorem: one-person
        """
        return (1 + self.advantage) / 2

    def alarms(self, false_alarms: float) -> float:
        """Return the largest true-alarm rate at a false-alarm rate: min(e^ε·f + δ, 1 - e^-ε·(1 - δ - f)).

        >>> round(Exposure(1).alarms(0.01), 4)
        0.0272

        Theorem: one-person
        """
        rate, delta = _between(false_alarms, "false_alarms"), float(self.delta)
        low, high = math.exp(min(float(self.epsilon), 700.0)), math.exp(-float(self.epsilon))
        return min(low * rate + delta, 1 - high * max(0.0, 1 - delta - rate), 1.0)

    def posterior(self, prior: float, *, failing: float | None = None) -> float:
        """Return the largest posterior probability from a prior one.

        For δ = 0 odds grow by at most e^ε, whatever the answer. Otherwise they grow by at most e^ε/(1 - δ/β), except
        for answers of probability β, which must be above δ.

        >>> round(Exposure(1).posterior(0.01), 4)
        0.0267

        Theorem: one-person
        """
        before = _between(prior, "prior")
        spare = 0.0
        if self.delta > 0:
            accepted = f"write a probability above delta = {float(self.delta):g} that the bound may fail with"
            if failing is None or not float(self.delta) < failing < 1:
                raise InvalidArgument("failing", failing, accepted)
            spare = -math.log1p(-float(self.delta) / failing)
        if before in (0.0, 1.0):
            return before
        log_odds = math.log(before) - math.log1p(-before) + float(self.epsilon) + spare
        return 1 / (1 + math.exp(-log_odds))

    def describe(self) -> str:
        """Return what the budget means for one person, in a sentence or two.

        >>> print(Exposure(1).describe()[84:])
        is right with probability 73.1% at most. A suspicion of 1% grows to 2.67% at most.
        """
        failing = None if self.delta == 0 else min(0.5, 100 * float(self.delta))
        grown = self.posterior(0.01, failing=failing)
        but = "" if failing is None else f", except with probability {failing:.2g}"
        return (
            "For one person: an attacker who guesses from even odds whether you are in the table "
            f"is right with probability {format_percent(self.guess)} at most. A suspicion of 1% grows to "
            f"{format_percent(grown)} at most{but}."
        )


def _between(value: float, argument: str) -> float:
    if isinstance(value, bool) or not 0 <= value <= 1:
        raise InvalidArgument(argument, value, "write a probability from 0 to 1")
    return float(value)
