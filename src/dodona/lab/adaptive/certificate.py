"""A certificate: how queries are answered and how far answers may be from the population, whatever the data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from numbers import Real

from dodona.errors import InvalidArgument
from dodona.privacy.accuracy import validate_count
from dodona.privacy.additive_noise import Gaussian, Laplace

MOST_ROWS = 10**9
MOST_QUERIES = 10**9


def validate_rows(value: int) -> int:
    """Return the number of sampled rows, if valid."""
    return validate_count(value, argument="rows", upper=MOST_ROWS)


def validate_queries(value: int) -> int:
    """Return the number of queries, if valid."""
    return validate_count(value, argument="queries", upper=MOST_QUERIES)


def validate_positive(value: float, *, argument: str) -> float:
    """Return a finite number above 0, if it is one."""
    if not _is_number(value) or not 0 < value < math.inf:
        raise InvalidArgument(argument, value, "write a number above 0")
    return float(value)


def validate_fraction(value: float, *, argument: str) -> float:
    """Return a number from 0 to 1, if it is one."""
    if not _is_number(value) or not 0 <= value <= 1:
        raise InvalidArgument(argument, value, "write a number from 0 to 1")
    return float(value)


def validate_probability(value: float, *, argument: str) -> float:
    """Return a probability strictly between 0 and 1, if it is one."""
    if not _is_number(value) or not 0 < value < 1:
        raise InvalidArgument(argument, value, "write a number between 0 and 1, such as 0.05")
    return float(value)


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


class Values(Enum):
    """Which values a query may assign to a row."""

    SHARES = "shares"
    """Any number from 0 to 1."""
    YES_NO = "yes-no"
    """Only 0 or 1."""


class Route(Enum):
    """A way to answer queries, with the proof behind it."""

    SPLITTING = "splitting"
    """Fresh rows for each query; no noise."""
    ROUNDING = "rounding"
    """Means over all rows, rounded to few levels. No noise: a union bound covers all transcripts that are possible."""
    GAUSSIAN = "gaussian"
    """Gaussian noise on a fine grid, with the transfer theorem for Gaussian differential privacy."""
    CONCENTRATED = "concentrated"
    """Gaussian noise, with the transfer theorem for zero-concentrated differential privacy."""
    INFORMATION = "information"
    """Gaussian noise, with the mutual information of rows and answers."""
    JUNG = "jung"
    """Gaussian noise, with the transfer theorem of Jung et al. as published."""
    STABILITY = "stability"
    """Gaussian noise, with its exact total variation over all queries."""
    ADDED_STABILITY = "added-stability"
    """Gaussian noise, with total variation added over queries, as in the lecture."""
    LAPLACE = "laplace"
    """Laplace noise, with pure differential privacy."""
    COMPOSED_LAPLACE = "composed-laplace"
    """Laplace noise, with the privacy of all answers composed."""

    @property
    def theorem(self) -> str:
        """The id of the page with the proof."""
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
    """All answers are simultaneously within `within` of the population at `confidence`, however queries are chosen."""

    route: Route
    rows: int
    queries: int
    within: float
    confidence: float
    resolution: int
    """Number of steps between 0 and 1."""
    noise: Gaussian | Laplace | None = None
    """Noise on the sum, in steps; None for routes without noise."""
    levels: int | None = None
    """Number of possible answers, for routes that round."""

    @property
    def rows_each(self) -> int:
        """Number of rows behind each answer."""
        return self.rows // self.queries if self.route is Route.SPLITTING else self.rows

    @property
    def scale(self) -> float:
        """Scale of the noise on an answer from 0 to 1."""
        return 0.0 if self.noise is None else float(self.noise.scale) / (self.rows * self.resolution)

    def __str__(self) -> str:
        return f"±{self.within:.4g} for {self.queries} questions at {self.confidence:.4g}, by {self.route.value}"
