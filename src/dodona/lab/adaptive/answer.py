"""An estimate for the population, and the process that counts queries."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal, NoReturn

from dodona.lab.adaptive.faults import AnotherProcess

EstimateSource = Literal["noisy", "rounded", "fresh-rows", "train", "holdout"]


@dataclass(frozen=True, slots=True)
class PopulationEstimate:
    """The population mean of a query lies between `low` and `high`, simultaneously for all queries at `confidence`."""

    value: float
    within: float
    confidence: float
    """For all declared queries together, however they depend on earlier answers."""
    source: EstimateSource
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


def make_estimate(value: float, *, within: float, confidence: float, source: EstimateSource) -> PopulationEstimate:
    """Return an estimate clipped to [0, 1], which moves it no further from any mean."""
    return PopulationEstimate(min(1.0, max(0.0, value)), within, confidence, source)


class ProcessBound:
    """Cannot be copied, and refuses to answer in a forked process, where it would start a second count of queries.

    The guarantee covers the answers of both processes together, so there must be one count.
    """

    def __init__(self) -> None:
        """Remember the current process."""
        self._process = os.getpid()

    def _check_process(self) -> None:
        if self._process != os.getpid():
            raise AnotherProcess

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} is not copied: the copy would count its own questions")
