"""Payment by pure losses or by zCDP prices, and what a share of the budget buys."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dodona.lab.plan import noise, shares
from dodona.lab.plan.promise import FormulaResult, Unsuitable
from dodona.lab.plan.setting import Setting


@dataclass(frozen=True, slots=True)
class PureLosses:
    """Pure losses, with Laplace noise on counts."""

    epsilon: float

    def test(self, share: float) -> float:
        """Return the ε of a share of the budget."""
        return self.epsilon * share

    def choice(self, share: float) -> float:
        """Return the ε of a share of the budget."""
        return self.epsilon * share

    def counts(self, setting: Setting, share: float) -> FormulaResult:
        """Return the guarantee of Laplace noise."""
        return noise.laplace(setting, self.epsilon * share / setting.questions)


@dataclass(frozen=True, slots=True)
class ZcdpPrices:
    """zCDP prices, with Gaussian noise on counts."""

    rho: float

    def test(self, share: float) -> float:
        """Return ε with ε·tanh(ε/2) equal to the share."""
        return shares.pure_loss(self.rho * share)

    def choice(self, share: float) -> float:
        """Return ε with ε²/8 equal to the share."""
        return math.sqrt(8 * self.rho * share)

    def counts(self, setting: Setting, share: float) -> FormulaResult:
        """Return the guarantee of Gaussian noise."""
        return noise.gaussian(setting, math.sqrt(setting.questions / (2 * self.rho * share)))


Payment = PureLosses | ZcdpPrices


def payments(setting: Setting) -> tuple[Payment, ...]:
    """Return the ways to pay: pure loss always, zCDP if δ > 0."""
    pure = PureLosses(float(setting.epsilon))
    try:
        return (pure,) if setting.delta == 0 else (pure, ZcdpPrices(shares.rho_of(setting)))
    except Unsuitable:  # so small a pair that zCDP has nothing of it
        return (pure,)
