"""An estimate for the population, and the process that counts queries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Source = Literal["noisy", "rounded", "fresh-rows", "train", "holdout"]


@dataclass(frozen=True, slots=True)
class Told:
    """The population mean of a query lies between `low` and `high`, simultaneously for all queries at `confidence`."""

    value: float
    within: float
    confidence: float
    """For all declared queries together, however they depend on earlier answers."""
    source: Source
    """Whether it is noisy, rounded, from fresh rows, from the training rows, or from the holdout."""

    @property
    def low(self) -> float:
        """Lower end of the interval."""
        return max(0.0, self.value - self.within)

    @property
    def high(self) -> float:
        """Upper end of the interval."""
        return min(1.0, self.value + self.within)

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        return f"{self.value:.4f} ± {self.within:.4f}"


def told(value: float, *, within: float, confidence: float, source: Source) -> Told:
    """Return an estimate clipped to [0, 1], which moves it no further from any mean."""
    return Told(min(1.0, max(0.0, value)), within, confidence, source)
