"""Requests: the required accuracy or the price of an answer, and the dataset it is asked of.

Tolerances become noise scales here: rounded up where privacy depends on them, down where accuracy does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Literal, get_args

from dodona.curator.tolerance import ColumnTolerances, Tolerance, Tolerances
from dodona.errors import InvalidArgument, InvalidRequest, Refused
from dodona.ledger.ledger import Ledger
from dodona.numbers import Exact, python_number, to_share
from dodona.privacy.accountants import Spending
from dodona.privacy.accuracy import Accuracy, to_failure_probability
from dodona.privacy.additive_noise import (
    LARGEST_SCALE,
    SMALLEST_SCALE,
    Gaussian,
    Laplace,
    round_scale_down,
    round_scale_up,
    validate_noise_epsilon,
)
from dodona.privacy.budget import Budget
from dodona.privacy.events import Event
from dodona.privacy.measurement import Measurement, Noise
from dodona.query.query import Query
from dodona.query.sensitivity import Sensitivity, row_count_sensitivity
from dodona.schema.schema import Schema, Unit
from dodona.trusted.source import Source

AfterBudget = Literal["refuse", "model"]
"""They are refused, or the model guesses: marked, without a guarantee, and for nothing."""


# --- Noise scales. ---


Scales = dict[int, float]
"""By the number of a block, in its steps."""
NoiseType = type[Laplace | Gaussian]
_NOISE_TYPES: dict[str, NoiseType] = {law.__name__: law for law in (Laplace, Gaussian)}
_NEAR = 2e-3  # a gain of 1/500 in noise is not worth searching for
_STEPS = 40
_LEAP = 8.0
_ANY = float(LARGEST_SCALE)  # of a block that no column needs: it costs almost nothing


class ToleranceUnreachable(Refused):
    """No available noise is small enough."""

    code = "unreachable"

    def __init__(self, column: str, best: float) -> None:
        """State the column and the best reachable tolerance."""
        super().__init__(
            f"{column!r} cannot be answered that precisely; the best is within {best:.3g}. Ask for a wider tolerance."
        )


def largest_factor(
    error: Callable[[float], float], tolerance: float, *, lower: float, first: float = 1.0
) -> float | None:
    """Return nearly the largest factor whose error is within the tolerance; None if even the lowest is not.

    Errors grow roughly in proportion to factors, so a few proportional steps come close. Those of quantiles grow in
    jumps; if two factors have the same error, the midpoint is tried next. Only tested factors are returned. A good
    first guess saves steps.
    """
    below, above, factor, before = lower, math.inf, max(first, lower), -1.0
    for _ in range(_STEPS):
        found = error(factor)
        if found <= tolerance:
            below = max(below, factor)
            if found >= tolerance * (1 - _NEAR):
                break
        else:
            above = min(above, factor)
        if above <= below * (1 + _NEAR):
            break
        guess = factor * tolerance / found * (1 - _NEAR / 2) if 0 < found < math.inf else math.nan
        if found == before or not below < guess < above:  # all comparisons with NaN are false
            guess = math.sqrt(below * above) if above < math.inf else below * _LEAP
        factor, before = guess, found
    return below if below > lower or error(lower) <= tolerance else None


def scale_cost(event: Event) -> float:
    """Return the cost in the unit that scales are proportional to."""
    return float(event.epsilon) if event.epsilon is not None else math.sqrt(2 * float(event.rho()))


@lru_cache(maxsize=1 << 10)
def unit_scale_cost(law: str, sensitivity: Sensitivity) -> float:
    """Return the cost of noise with scale 1."""
    return scale_cost(_NOISE_TYPES[law](scale=1).event(sensitivity))


def widest_noise(law: NoiseType, tolerance: float, confidence: float) -> Noise:
    """Return the widest noise that is within the tolerance."""
    try:
        return _widest_laplace(tolerance, confidence) if law is Laplace else _widest_gaussian(tolerance, confidence)
    except InvalidArgument:
        raise ToleranceUnreachable("this", 0.0) from None


@lru_cache(maxsize=1 << 12)
def _widest_laplace(tolerance: float, confidence: float) -> Laplace:
    return Laplace.for_accuracy(Accuracy(within=tolerance, confidence=confidence))


@lru_cache(maxsize=1 << 12)
def _widest_gaussian(tolerance: float, confidence: float) -> Gaussian:
    return Gaussian.for_accuracy(Accuracy(within=tolerance, confidence=confidence))


def merge_scales(scales: Scales, other: Mapping[int, float]) -> None:
    """Keep the smaller scale if a block serves two columns."""
    for block, scale in other.items():
        scales[block] = min(scale, scales.get(block, math.inf))


def make_measurement(law: NoiseType, scales: Scales, query: Query) -> Measurement:
    """Return the measurement of a query with noise of these scales, rounded up to preserve privacy."""
    noises = (_noise_above(law.__name__, scales.get(block, _ANY)) for block in range(len(query.blocks)))
    return Measurement(query, tuple(noises))


def noises_within(law: NoiseType, scales: Scales, blocks: int) -> tuple[Noise, ...]:
    """Return the noise of each block, with scales rounded down to preserve accuracy."""
    return tuple(_noise_below(law.__name__, scales.get(block, _ANY)) for block in range(blocks))


@lru_cache(maxsize=1 << 12)
def _noise_below(law: str, scale: float) -> Noise:
    return _NOISE_TYPES[law](scale=round_scale_down(_clamp_scale(scale)))


@lru_cache(maxsize=1 << 12)
def _noise_above(law: str, scale: float) -> Noise:
    return _NOISE_TYPES[law](scale=round_scale_up(_clamp_scale(scale)))


def _clamp_scale(scale: float) -> float:
    return min(max(scale, float(SMALLEST_SCALE)), float(LARGEST_SCALE))


# --- Requests, and the defaults of a dataset. ---


_ACCEPTED = "write a tolerance such as 50 or '1%', or one for each column, such as {'n': 50, 'average': 2}"


DEFAULT_MAX_PRICE = Fraction(1, 50)
"""What one call may take of the budget where neither the call nor the dataset says."""

_DEFAULT_COUNT_SHARE = Fraction(1, 500)  # of the budget: the price of a count at the default tolerance
_ROUND_PERCENTAGES = tuple(Fraction(digit) * Fraction(10) ** power for power in range(-4, 2) for digit in (1, 2, 3, 5))
"""Tolerances in percent, the most accurate first; wider than half of all rows says nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A tolerance or a price, the confidence of intervals, and the maximum share of the budget for the call."""

    within: Tolerance | ColumnTolerances | None
    epsilon: Fraction | None
    confidence: float
    max_price: Fraction = Fraction(1)
    """A share of the whole budget."""
    fresh: bool = False
    """Whether earlier releases may not be used: neither replayed nor combined with new noise."""


def make_request(  # noqa: PLR0913  all that a call may say
    within: Tolerances | None,
    epsilon: Exact | None,
    confidence: float | None,
    max_price: Exact | None,
    *,
    fresh: bool = False,
    default: Request,
) -> Request:
    """Return the request of a call, with the dataset's defaults for what is not given."""
    if within is not None and epsilon is not None:
        raise InvalidRequest(
            "Both within and epsilon were given. Write within= for an accuracy, or epsilon= for a price, and not both."
        )
    wanted = None if within is None else _validate_tolerances(within)
    sure = default.confidence
    if confidence is not None:
        sure = confidence
        to_failure_probability(sure)
    most = effective_max_price(max_price, default)
    if epsilon is not None:
        return Request(
            within=None, epsilon=validate_noise_epsilon(epsilon), confidence=sure, max_price=most, fresh=fresh
        )
    return Request(
        within=default.within if wanted is None else wanted, epsilon=None, confidence=sure, max_price=most, fresh=fresh
    )


def _validate_tolerances(within: Tolerances) -> Tolerance | ColumnTolerances:
    """Return a tolerance, or one for each column."""
    if isinstance(within, Mapping):
        found = ColumnTolerances(tuple((str(name), _validate_tolerance(own)) for name, own in within.items()))
    elif isinstance(within, list | tuple):
        found = ColumnTolerances(tuple((place, _validate_tolerance(own)) for place, own in enumerate(within)))
    else:
        return _validate_tolerance(within)
    if not found.parts:
        raise InvalidArgument("within", within, _ACCEPTED)
    return found


def _validate_tolerance(within: object) -> Tolerance:
    if isinstance(within, str) or type(within) is int or type(within) is float:
        return within
    found = python_number(within)
    if found is None:
        raise InvalidArgument("within", within, _ACCEPTED)
    return found


@lru_cache(maxsize=64)
def default_tolerance(unit: Unit, budget: Budget, confidence: float = 0.95) -> str:
    """Return the default tolerance of questions, from public facts alone.

    It is the smallest round percentage at which one count takes at most a five-hundredth of the budget; for small
    tables 50%, which may take more.
    """
    first, after = 0, len(_ROUND_PERCENTAGES) - 1
    while first < after:
        middle = (first + after) // 2
        ordinary = (
            count_share(unit, budget, float(_ROUND_PERCENTAGES[middle] / 100 * unit.size), confidence)
            <= _DEFAULT_COUNT_SHARE
        )
        first, after = (first, middle) if ordinary else (middle + 1, after)
    return f"{float(_ROUND_PERCENTAGES[first]):g}%"


def count_share(unit: Unit, budget: Budget, tolerance: float, confidence: float) -> Fraction:
    """Return the budget share of a count with this tolerance; above 1 if no noise is small enough."""
    moved, whole = row_count_sensitivity(unit), budget.filter()
    found = [Fraction(2)]
    for law in (Gaussian, Laplace) if budget.delta > 0 else (Laplace,):
        try:
            event = widest_noise(law, tolerance, confidence).event(moved)
        except Refused:  # no available noise is that small
            continue
        found.append(whole.share(whole.charged(Spending(), event)))
    return min(found)


def effective_max_price(max_price: Exact | None, default: Request) -> Fraction:
    """Return the maximum share of the budget for a call: its own setting, or else the dataset's."""
    return default.max_price if max_price is None else to_share(max_price, argument="max_price")


# --- The open dataset. ---


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """A schema, its source, and the ledger to which questions are charged."""

    name: str
    """As the ledger knows it."""
    schema: Schema
    source: Source
    ledger: Ledger
    default: Request
    """What is asked for where a question does not say."""
    after: AfterBudget = "refuse"
    """What becomes of questions that the budget cannot buy."""
    left_out: str = ""
    """What was published of the rows that the cap leaves out, in words."""

    @property
    def about(self) -> str:
        """The protected unit of answers if people are protected; otherwise empty."""
        return " ".join(part for part in (self.schema.unit.about, self.left_out) if part)

    def __post_init__(self) -> None:
        """Raise if an option is invalid."""
        if self.after not in get_args(AfterBudget):
            raise InvalidArgument("after", self.after, 'write "refuse" or "model"')
