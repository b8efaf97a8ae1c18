"""A certificate: how answers are made, and how far they may be from the population. Data play no part in it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from dodona.privacy.additive_noise import Gaussian, Laplace


class Values(Enum):
    """What a query gives each row."""

    SHARES = "shares"
    """Any number from 0 to 1."""
    YES_NO = "yes-no"
    """0 or 1 alone."""


class Route(Enum):
    """A way to answer, with the proof that it rests on."""

    SPLITTING = "splitting"
    """Rows of its own for each question; no noise."""
    ROUNDING = "rounding"
    """Means over all rows, told coarsely; no noise, but so few possible answers that all of them can be counted."""
    GAUSSIAN = "gaussian"
    """Gaussian noise on a fine grid, and the transfer of Gaussian differential privacy."""
    CONCENTRATED = "concentrated"
    """Gaussian noise, and the transfer of zero-concentrated differential privacy."""
    INFORMATION = "information"
    """Gaussian noise, and the mutual information of rows and answers."""
    JUNG = "jung"
    """Gaussian noise, and the transfer theorem of Jung et al. as it is published."""
    STABILITY = "stability"
    """Gaussian noise, and its exact total variation over all questions."""
    ADDED_STABILITY = "added-stability"
    """Gaussian noise, and total variation added over questions, as in the lecture."""
    LAPLACE = "laplace"
    """Laplace noise, and pure privacy."""
    COMPOSED_LAPLACE = "composed-laplace"
    """Laplace noise, and the privacy of all answers together."""

    @property
    def theorem(self) -> str:
        """The page of the proof."""
        return _THEOREMS[self]


_THEOREMS = {
    Route.SPLITTING: "sample-splitting",
    Route.ROUNDING: "description-length",
    Route.GAUSSIAN: "posterior-transfer",
    Route.CONCENTRATED: "posterior-transfer",
    Route.INFORMATION: "published-transfer",
    Route.JUNG: "published-transfer",
    Route.STABILITY: "posterior-transfer",
    Route.ADDED_STABILITY: "posterior-transfer",
    Route.LAPLACE: "posterior-transfer",
    Route.COMPOSED_LAPLACE: "posterior-transfer",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """All answers together are within `within` of the population, with the confidence, whatever is asked when."""

    route: Route
    rows: int
    queries: int
    within: float
    confidence: float
    resolution: int
    """How many steps a value from 0 to 1 has."""
    noise: Gaussian | Laplace | None = None
    """On the sum, in steps; None where there is none."""
    levels: int | None = None
    """How many different answers there are, where they are told coarsely."""

    @property
    def rows_each(self) -> int:
        """How many rows an answer is taken over."""
        return self.rows // self.queries if self.route is Route.SPLITTING else self.rows

    @property
    def scale(self) -> float:
        """The scale of the noise on an answer from 0 to 1."""
        return 0.0 if self.noise is None else float(self.noise.scale) / (self.rows * self.resolution)

    def __str__(self) -> str:
        return f"±{self.within:.4g} for {self.queries} questions at {self.confidence:.4g}, by {self.route.value}"
