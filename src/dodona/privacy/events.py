"""Events: everything an accountant needs to know about a release, and nothing more.

An event states its neighbour relation and its price in pure DP, zCDP, Rényi DP and Gaussian DP. Events are permanent: a
class is never removed and a field never changes its meaning. Each has one JSON form, and unknown text is refused.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, Context, Decimal, localcontext
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from typing import Any, Protocol

from dodona.errors import InvalidArgument, InvalidRequest
from dodona.numbers import format_fraction, to_integer
from dodona.privacy.gaussian_privacy import bounded_range_ratio
from dodona.schema.schema import Neighbours

# --- Events: exact records of everything that an accountant needs to know about a release. ---


# In these ranges prices are reliably rounded up (page rounding); mechanisms stay well inside them.
_LEAST, _MOST = Fraction(1, 10**15), Fraction(10**30)
_LONGEST = 1 << 62
_LOWEST_ORDER, _HIGHEST_ORDER = 1 + Fraction(1, 10**6), Fraction(10**6)


class Event(Protocol):
    """A priced act on the data."""

    def __hash__(self) -> int:
        """Return a hash; equal events have equal prices, which are cached."""

    @property
    def neighbours(self) -> Neighbours:
        """The neighbour relation under which the prices hold."""

    @property
    def epsilon(self) -> Fraction | None:
        """The exact pure price; None if there is none."""

    def rho(self) -> Decimal:
        """Return the zCDP price, rounded up."""

    def renyi(self, order: Fraction) -> Decimal:
        """Return the Rényi price at an order > 1, rounded up."""

    def mu_squared(self) -> Decimal | None:
        """Return the squared Gaussian price, rounded up; None if there is none."""


class PureMechanism(Enum):
    """Mechanisms that the accountant prices only as ε-differentially private."""

    RANDOMIZED_RESPONSE = "randomized-response"
    PERMUTE_AND_FLIP = "permute-and-flip"
    NOISY_MAX = "noisy-max"
    SPARSE_VECTOR = "sparse-vector"


@dataclass(frozen=True, slots=True)
class PureEvent:
    """An ε-differentially private mechanism, interactive or not, priced as randomized response.

    Theorem: pure-rho
    """

    kind: PureMechanism
    epsilon: Fraction
    neighbours: Neighbours

    def __post_init__(self) -> None:
        """Validate the loss: it must be in the range that is priced reliably."""
        object.__setattr__(self, "epsilon", _validate_range(self.epsilon, "epsilon"))
        _validate_neighbours(self.neighbours)

    def rho(self) -> Decimal:
        """Return ε·tanh(ε/2)."""
        return pure_rho(self.epsilon)

    def renyi(self, order: Fraction) -> Decimal:
        """Return the divergence of randomized response."""
        return pure_renyi(self.epsilon, validate_order(order))

    def mu_squared(self) -> Decimal:
        """Return the squared Gaussian price of randomized response.

        Theorem: gaussian-filter
        """
        return range_mu_squared(2 * self.epsilon)


@dataclass(frozen=True, slots=True)
class LaplaceEvent:
    """Discrete Laplace noise on integers whose changes sum to at most `distance`.

    Theorem: laplace-rho
    """

    distance: int
    scale: Fraction
    neighbours: Neighbours

    def __post_init__(self) -> None:
        """Validate an integer distance and a scale in the range that is priced reliably."""
        if type(self.distance) is not int or not 1 <= self.distance <= _LONGEST:
            distance = to_integer(self.distance, argument="distance", lower=1, upper=_LONGEST)
            object.__setattr__(self, "distance", distance)
        object.__setattr__(self, "scale", _validate_range(self.scale, "scale", most=1 / _LEAST))
        _validate_neighbours(self.neighbours)

    @property
    def epsilon(self) -> Fraction:
        """The pure price, distance/scale."""
        return self.distance / self.scale

    def rho(self) -> Decimal:
        """Return the zCDP price of the discrete law, which is above that of the continuous one."""
        return laplace_rho(self.distance, self.scale)

    def renyi(self, order: Fraction) -> Decimal:
        """Return the Rényi divergence of the discrete law."""
        return laplace_renyi(self.distance, self.scale, validate_order(order))

    def mu_squared(self) -> Decimal:
        """Return that of randomized response at the same pure price: exact for a distance of 1.

        Theorem: gaussian-filter
        """
        return range_mu_squared(2 * self.epsilon)


@dataclass(frozen=True, slots=True)
class GaussianEvent:
    """Discrete Gaussian noise on integers whose squared changes sum to at most `squared_distance`.

    Theorem: gaussian-rho
    """

    squared_distance: int
    variance: Fraction
    neighbours: Neighbours

    def __post_init__(self) -> None:
        """Validate an integer distance and a variance."""
        if type(self.squared_distance) is not int or not 1 <= self.squared_distance <= _LONGEST**2:
            squared = to_integer(self.squared_distance, argument="squared_distance", lower=1, upper=_LONGEST**2)
            object.__setattr__(self, "squared_distance", squared)
        object.__setattr__(self, "variance", _validate_range(self.variance, "variance", least=_LEAST**2))
        _validate_neighbours(self.neighbours)

    @property
    def epsilon(self) -> None:
        """None: Gaussian noise has no pure price."""
        return

    def rho(self) -> Decimal:
        """Return squared distance / (2·variance)."""
        return price_as_decimal(self.squared_distance / (2 * self.variance))

    def renyi(self, order: Fraction) -> Decimal:
        """Return order·rho, an upper bound for discrete Gaussian laws."""
        return price_as_decimal(validate_order(order) * self.squared_distance / (2 * self.variance))

    def mu_squared(self) -> None:
        """Return None: no Gaussian pair dominates a pair of discrete Gaussian laws."""
        return


@dataclass(frozen=True, slots=True)
class UnevenGaussianEvent:
    """Discrete Gaussian noise on integers whose squared changes, each over its own variance, sum to at most `ratio`.

    Theorem: residual-measurement
    """

    ratio: Fraction
    neighbours: Neighbours

    def __post_init__(self) -> None:
        """Validate the ratio: it must be in the range that is priced reliably."""
        object.__setattr__(self, "ratio", _validate_range(self.ratio, "ratio"))
        _validate_neighbours(self.neighbours)

    @property
    def epsilon(self) -> None:
        """None: Gaussian noise has no pure price."""
        return

    def rho(self) -> Decimal:
        """Return half the ratio."""
        return price_as_decimal(self.ratio / 2)

    def renyi(self, order: Fraction) -> Decimal:
        """Return order·rho, an upper bound for discrete Gaussian laws."""
        return price_as_decimal(validate_order(order) * self.ratio / 2)

    def mu_squared(self) -> None:
        """Return None: no Gaussian pair dominates a pair of discrete Gaussian laws."""
        return


@dataclass(frozen=True, slots=True)
class RoundedGaussianEvent:
    """Rounded normal noise on integers whose squared changes, each over its own variance, sum to at most `ratio`.

    Theorem: rounded-gaussian
    """

    ratio: Fraction
    neighbours: Neighbours

    def __post_init__(self) -> None:
        """Validate the ratio: a wide range, as all prices are multiples of it."""
        object.__setattr__(self, "ratio", _validate_range(self.ratio, "ratio", least=_LEAST**2, most=_MOST**2))
        _validate_neighbours(self.neighbours)

    @property
    def epsilon(self) -> None:
        """None: Gaussian noise has no pure price."""
        return

    def rho(self) -> Decimal:
        """Return half the ratio."""
        return price_as_decimal(self.ratio / 2)

    def renyi(self, order: Fraction) -> Decimal:
        """Return order·rho, as for the normal laws before rounding."""
        return price_as_decimal(validate_order(order) * self.ratio / 2)

    def mu_squared(self) -> Decimal:
        """Return the ratio, as for the normal laws before rounding.

        Theorem: rounded-gaussian
        """
        return price_as_decimal(self.ratio)


@dataclass(frozen=True, slots=True)
class ExponentialEvent:
    """The choice of the exponential mechanism: its losses have range at most ε, wherever they lie.

    Theorem: range-rho
    """

    epsilon: Fraction
    neighbours: Neighbours

    def __post_init__(self) -> None:
        """Validate the range: it must be one that is priced reliably."""
        object.__setattr__(self, "epsilon", _validate_range(self.epsilon, "epsilon"))
        _validate_neighbours(self.neighbours)

    def rho(self) -> Decimal:
        """Return the price of bounded range, at most ε²/8."""
        return range_rho(self.epsilon)

    def renyi(self, order: Fraction) -> Decimal:
        """Return the Rényi divergence of the worst pair of bounded range."""
        return range_renyi(self.epsilon, validate_order(order))

    def mu_squared(self) -> Decimal:
        """Return the squared Gaussian price of bounded range: that of pure ε/2.

        Theorem: gaussian-filter
        """
        return range_mu_squared(self.epsilon)


@dataclass(frozen=True, slots=True)
class ComposedEvent:
    """Several events, each with a multiplicity, on the same data: prices add.

    Theorem: composition
    """

    parts: tuple[tuple[Event, int], ...]

    def __post_init__(self) -> None:
        """Refuse an empty list and mixed neighbour relations."""
        if not self.parts or any(type(times) is not int or times < 1 for _, times in self.parts):
            raise InvalidArgument("parts", self.parts, "write at least one event, each one time or more")
        if len({event.neighbours for event, _ in self.parts}) > 1:
            accepted = "events under add-remove and under replace do not add; state all of them under one relation"
            raise InvalidArgument("parts", self.parts, accepted)

    @property
    def neighbours(self) -> Neighbours:
        """The relation that all parts share."""
        return self.parts[0][0].neighbours

    @property
    def epsilon(self) -> Fraction | None:
        """The sum of the pure prices; None if any part has none."""
        total = Fraction(0)
        for event, times in self.parts:
            if event.epsilon is None:
                return None
            total += times * event.epsilon
        return total

    def rho(self) -> Decimal:
        """Return the sum of the zCDP prices."""
        return sum_of_prices((event.rho(), times) for event, times in self.parts)

    def renyi(self, order: Fraction) -> Decimal:
        """Return the sum of the Rényi prices at this order."""
        return sum_of_prices((event.renyi(order), times) for event, times in self.parts)

    def mu_squared(self) -> Decimal | None:
        """Return the sum of the squared Gaussian prices; None if any part has none."""
        prices = [(event.mu_squared(), times) for event, times in self.parts]
        known = [(price, times) for price, times in prices if price is not None]
        return sum_of_prices(known) if len(known) == len(prices) else None


def validate_order(order: object) -> Fraction:
    """Return a validated Rényi order."""
    if not isinstance(order, Fraction | int) or not _LOWEST_ORDER <= order <= _HIGHEST_ORDER:
        raise InvalidArgument("order", order, "write a fraction from 1 + 10^-6 to 10^6")
    return Fraction(order)


def _validate_range(value: object, argument: str, *, least: Fraction = _LEAST, most: Fraction = _MOST) -> Fraction:
    """Return an exact number in the range that is priced reliably."""
    if not isinstance(value, Fraction | int) or isinstance(value, bool) or not least <= value <= most:
        accepted = f"write a fraction from {format_fraction(least)} to {format_fraction(most)}"
        raise InvalidArgument(argument, value, accepted)
    return Fraction(value)


def _validate_neighbours(neighbours: object) -> None:
    if not isinstance(neighbours, Neighbours):
        raise InvalidArgument("neighbours", neighbours, "write Neighbours.ADD_REMOVE or Neighbours.REPLACE")


# --- Privacy curves in decimal arithmetic, each value rounded up: the price of a mechanism in each currency.


# Eighty digits: in the ranges that events accept, cancellation loses at most fifty-one of them (page rounding).
_EIGHTY = Context(prec=80, Emin=MIN_EMIN, Emax=MAX_EMAX)
_SHOWN = Context(prec=34, rounding=ROUND_CEILING, Emin=MIN_EMIN, Emax=MAX_EMAX)
_MARGIN = 1 + Decimal(1).scaleb(-25)


def round_up(value: Decimal) -> Decimal:
    """Return an upper bound on the true value that `value` approximates after up to a hundred steps with eighty digits.

    Theorem: rounding
    """
    return _SHOWN.multiply(value, _MARGIN)


def price_as_decimal(price: Fraction) -> Decimal:
    """Return an exact price as a decimal, rounded up.

    Theorem: rounding
    """
    with localcontext(_EIGHTY):
        return round_up(_decimal(price))


def sum_of_prices(prices: Iterable[tuple[Decimal, int]]) -> Decimal:
    """Return the sum of prices with their multiplicities, rounded up.

    Theorem: rounding
    """
    with localcontext(_EIGHTY):
        return round_up(sum((price * times for price, times in prices), Decimal(0)))


def pure_rho(epsilon: Fraction) -> Decimal:
    """Return ε·tanh(ε/2): an upper bound for every ε-differentially private mechanism, attained by randomized response.

    Theorem: pure-rho
    """
    with localcontext(_EIGHTY):
        loss = _decimal(epsilon)
        power = (-loss).exp()
        return round_up(loss * (1 - power) / (1 + power))


def pure_renyi(epsilon: Fraction, order: Fraction) -> Decimal:
    """Return the Rényi divergence of randomized response: ln[(e^{αε} + e^{(1-α)ε})/(1 + e^ε)]/(α - 1).

    Theorem: pure-rho
    """
    with localcontext(_EIGHTY):
        loss, alpha = _decimal(epsilon), _decimal(order)
        # Divided by e^{αε}, so that nothing overflows.
        inside = (1 + ((1 - 2 * alpha) * loss).exp()) / (1 + (-loss).exp())
        return round_up(loss + inside.ln() / (alpha - 1))


def laplace_rho(distance: int, scale: Fraction) -> Decimal:
    """Return [d - 2q(1 - q^d)/(1 - q²)]/t for discrete Laplace noise of scale t, q = e^(-1/t).

    Theorem: laplace-rho
    """
    with localcontext(_EIGHTY):
        width = _decimal(scale)
        ratio, power = (-1 / width).exp(), (-distance / width).exp()
        return round_up((distance - 2 * ratio * (1 - power) / (1 - ratio * ratio)) / width)


def laplace_renyi(distance: int, scale: Fraction, order: Fraction) -> Decimal:
    """Return the Rényi divergence between two discrete Laplace laws shifted by d.

    Theorem: laplace-rho
    """
    with localcontext(_EIGHTY):
        width, alpha = _decimal(scale), _decimal(order)
        ratio = (-1 / width).exp()
        fall = ((1 - 2 * alpha) / width).exp()
        # E_Q[(P/Q)^α] = high·q^{-(α-1)d} + low·q^{αd}; the first power is factored out of the logarithm.
        high = (1 - fall + (1 - ratio) * fall) / ((1 + ratio) * (1 - fall))
        low = (ratio - fall) / ((1 + ratio) * (1 - fall))
        inside = high + low * ((1 - 2 * alpha) * distance / width).exp()
        return round_up(distance / width + inside.ln() / (alpha - 1))


def range_rho(epsilon: Fraction) -> Decimal:
    """Return x - 1 - ln x, x = ε/(1 - e^-ε): the price of a mechanism whose losses have range at most ε (≤ ε²/8).

    Theorem: range-rho
    """
    with localcontext(_EIGHTY):
        loss = _decimal(epsilon)
        ratio = loss / (1 - (-loss).exp())
        return round_up(ratio - 1 - ratio.ln())


def range_renyi(epsilon: Fraction, order: Fraction) -> Decimal:
    """Return the largest Rényi divergence of a pair whose losses have range at most ε.

    Theorem: range-rho
    """
    with localcontext(_EIGHTY):
        loss, alpha = _decimal(epsilon), _decimal(order)
        low, lowest = (-loss).exp(), (-alpha * loss).exp()
        if low == 0:  # underflow: the range is so large that the pure price is as good
            return round_up(loss)
        # The worst pair has losses t and t - ε; y = e^t is the zero of the derivative, clamped to [1, e^ε].
        worst = (alpha - 1) * (1 - lowest) / (alpha * (low - lowest))
        worst = min(max(worst, Decimal(1)), 1 / low)
        inside = (1 - lowest - worst * (low - lowest)) / (1 - low)
        return round_up(worst.ln() + inside.ln() / (alpha - 1))


def range_mu_squared(width: Fraction) -> Decimal:
    """Return the squared Gaussian price of a mechanism whose losses lie in an interval of this width, wherever it is.

    An ε-differentially private mechanism has width 2ε.

    Theorem: gaussian-filter
    """
    return round_up(bounded_range_ratio(width))


def _decimal(number: Fraction) -> Decimal:
    return Decimal(number.numerator) / Decimal(number.denominator)


# --- Events as text: permanent tags, exact numbers, one canonical form. Unknown text is refused. ---


class UnknownEvent(InvalidRequest):
    """The text is not an event of this version, so it cannot be priced."""

    code = "unknown-event"

    def __init__(self, text: str) -> None:
        """Show the beginning of the text."""
        instead = "open the ledger with the version that wrote it"
        super().__init__(f"{text[:80]!r} is not an event of this version; {instead}.")


def event_to_json(event: Event) -> str:
    """Return the event's canonical JSON.

    >>> event_to_json(LaplaceEvent(1, Fraction(10), Neighbours.REPLACE))
    '{"distance":1,"event":"laplace","neighbours":"replace","scale":"10"}'
    """
    return json.dumps(_fields(event), sort_keys=True, separators=(",", ":"))


@lru_cache(maxsize=1 << 14)
def event_from_json(text: str) -> Event:
    """Parse an event; the text must be its canonical JSON.

    >>> event_from_json('{"distance":1,"event":"laplace","neighbours":"replace","scale":"10"}').epsilon
    Fraction(1, 10)
    """
    try:
        event = _event(json.loads(text))
    except (InvalidRequest, KeyError, TypeError, ValueError, ZeroDivisionError, RecursionError) as fault:
        raise UnknownEvent(text) from fault
    if event_to_json(event) != text:
        raise UnknownEvent(text)
    return event


def _fields(event: Event) -> dict[str, Any]:
    match event:
        case PureEvent():
            fields: dict[str, Any] = {"event": event.kind.value, "epsilon": str(event.epsilon)}
        case LaplaceEvent():
            fields = {"event": "laplace", "distance": event.distance, "scale": str(event.scale)}
        case GaussianEvent():
            variance = str(event.variance)
            fields = {"event": "gaussian", "squared_distance": event.squared_distance, "variance": variance}
        case UnevenGaussianEvent():
            fields = {"event": "uneven-gaussian", "ratio": str(event.ratio)}
        case RoundedGaussianEvent():
            fields = {"event": "rounded-gaussian", "ratio": str(event.ratio)}
        case ExponentialEvent():
            fields = {"event": "exponential", "epsilon": str(event.epsilon)}
        case ComposedEvent():
            return {"event": "together", "parts": [[_fields(part), times] for part, times in event.parts]}
        case _:
            raise UnknownEvent(repr(event))
    return fields | {"neighbours": event.neighbours.value}


def _event(fields: dict[str, Any]) -> Event:
    tag = fields["event"]
    if tag == "together":
        return ComposedEvent(tuple((_event(part), _positive(times)) for part, times in fields["parts"]))
    return _READERS[tag](fields, Neighbours(fields["neighbours"]))


def _pure(fields: dict[str, Any], neighbours: Neighbours) -> Event:
    return PureEvent(PureMechanism(fields["event"]), _fraction(fields["epsilon"]), neighbours)


_READERS: dict[str, Callable[[dict[str, Any], Neighbours], Event]] = {
    **{kind.value: _pure for kind in PureMechanism},
    "laplace": lambda fields, relation: LaplaceEvent(
        _positive(fields["distance"]), _fraction(fields["scale"]), relation
    ),
    "gaussian": lambda fields, relation: GaussianEvent(
        _positive(fields["squared_distance"]), _fraction(fields["variance"]), relation
    ),
    "uneven-gaussian": lambda fields, relation: UnevenGaussianEvent(_fraction(fields["ratio"]), relation),
    "rounded-gaussian": lambda fields, relation: RoundedGaussianEvent(_fraction(fields["ratio"]), relation),
    "exponential": lambda fields, relation: ExponentialEvent(_fraction(fields["epsilon"]), relation),
}


def _fraction(text: str) -> Fraction:
    number = Fraction(text)
    if number <= 0:
        raise ValueError(text)
    return number


def _positive(number: int) -> int:
    if type(number) is not int or number < 1:
        raise ValueError(number)
    return number
