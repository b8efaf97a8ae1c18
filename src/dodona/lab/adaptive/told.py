"""An answer about the population, with how far it may be off."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Source = Literal["noisy", "rounded", "fresh-rows", "train", "holdout"]


@dataclass(frozen=True, slots=True)
class Told:
    """The mean of a query over the population lies from `low` to `high`; so do all others, with the confidence."""

    value: float
    within: float
    confidence: float
    """Of all answers together, as many as were declared, whatever was asked after which answer."""
    source: Source
    """Whether it is noisy, told coarsely, from rows of its own, from the training rows, or from the holdout."""

    @property
    def low(self) -> float:
        """The least that it may be."""
        return max(0.0, self.value - self.within)

    @property
    def high(self) -> float:
        """The most that it may be."""
        return min(1.0, self.value + self.within)

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        return f"{self.value:.4f} ± {self.within:.4f}"


def told(value: float, *, within: float, confidence: float, source: Source) -> Told:
    """Return the answer, drawn in to the range that means have, which brings it no further from any of them."""
    return Told(min(1.0, max(0.0, value)), within, confidence, source)
