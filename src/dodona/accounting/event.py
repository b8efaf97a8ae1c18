"""What happened, said exactly: an event is all that an accountant needs to know of a release, and nothing more.

Events are permanent: a class is never removed, a field never changes its meaning, and what is not known is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import Protocol

from dodona.accounting import curves
from dodona.domain.neighbours import Neighbours
from dodona.errors import InvalidArgument
from dodona.exact import shown, whole

# Prices are rounded up reliably in these ranges (page rounding); mechanisms stay well inside.
_LEAST, _MOST = Fraction(1, 10**15), Fraction(10**30)
_LONGEST = 1 << 62
_LOWEST_ORDER, _HIGHEST_ORDER = 1 + Fraction(1, 10**6), Fraction(10**6)


class Event(Protocol):
    """A priced act on the data."""

    def __hash__(self) -> int:
        """Return a hash: equal events have equal prices, which are computed once."""

    @property
    def neighbours(self) -> Neighbours:
        """The relation under which the prices hold."""

    @property
    def epsilon(self) -> Fraction | None:
        """The pure price, exact; None where there is none."""

    def rho(self) -> Decimal:
        """Return the zCDP price, rounded up."""

    def renyi(self, order: Fraction) -> Decimal:
        """Return the Rényi price at an order > 1, rounded up."""


class Kind(Enum):
    """Mechanisms of which the accountant knows only that they are ε-differentially private."""

    RANDOMIZED_RESPONSE = "randomized-response"
    PERMUTE_AND_FLIP = "permute-and-flip"
    NOISY_MAX = "noisy-max"
    SPARSE_VECTOR = "sparse-vector"


@dataclass(frozen=True, slots=True)
class PureEvent:
    """An ε-differentially private mechanism, interactive or not, priced as randomized response.

    Theorem: pure-rho
    """

    kind: Kind
    epsilon: Fraction
    neighbours: Neighbours

    def __post_init__(self) -> None:
        """Refuse a loss that is not priced reliably."""
        object.__setattr__(self, "epsilon", _ranged(self.epsilon, "epsilon"))
        _related(self.neighbours)

    def rho(self) -> Decimal:
        """Return ε·tanh(ε/2)."""
        return curves.pure_rho(self.epsilon)

    def renyi(self, order: Fraction) -> Decimal:
        """Return the divergence of randomized response."""
        return curves.pure_renyi(self.epsilon, checked_order(order))


@dataclass(frozen=True, slots=True)
class LaplaceEvent:
    """Discrete Laplace noise on integers whose changes sum to at most `distance`.

    Theorem: laplace-rho
    """

    distance: int
    scale: Fraction
    neighbours: Neighbours

    def __post_init__(self) -> None:
        """Refuse a distance that is no whole number and a scale that is not priced reliably."""
        object.__setattr__(self, "distance", whole(self.distance, argument="distance", lower=1, upper=_LONGEST))
        object.__setattr__(self, "scale", _ranged(self.scale, "scale", most=1 / _LEAST))
        _related(self.neighbours)

    @property
    def epsilon(self) -> Fraction:
        """The pure price, distance/scale."""
        return self.distance / self.scale

    def rho(self) -> Decimal:
        """Return the price of the discrete law, which is above the continuous one's."""
        return curves.laplace_rho(self.distance, self.scale)

    def renyi(self, order: Fraction) -> Decimal:
        """Return the divergence of the discrete law."""
        return curves.laplace_renyi(self.distance, self.scale, checked_order(order))


@dataclass(frozen=True, slots=True)
class GaussianEvent:
    """Discrete Gaussian noise on integers whose squared changes sum to at most `squared_distance`.

    Theorem: gaussian-rho
    """

    squared_distance: int
    variance: Fraction
    neighbours: Neighbours

    def __post_init__(self) -> None:
        """Refuse a distance that is no whole number and a variance that is none."""
        squared = whole(self.squared_distance, argument="squared_distance", lower=1, upper=_LONGEST**2)
        object.__setattr__(self, "squared_distance", squared)
        object.__setattr__(self, "variance", _ranged(self.variance, "variance", least=_LEAST**2))
        _related(self.neighbours)

    @property
    def epsilon(self) -> None:
        """None: Gaussian noise has no pure price."""
        return

    def rho(self) -> Decimal:
        """Return squared distance / (2·variance)."""
        return curves.share(self.squared_distance / (2 * self.variance))

    def renyi(self, order: Fraction) -> Decimal:
        """Return order·rho, which discrete Gaussian laws do not exceed."""
        return curves.share(checked_order(order) * self.squared_distance / (2 * self.variance))


@dataclass(frozen=True, slots=True)
class UnevenGaussianEvent:
    """Discrete Gaussian noise on integers whose squared changes, each over its own variance, sum to at most `ratio`.

    Theorem: residual-measurement
    """

    ratio: Fraction
    neighbours: Neighbours

    def __post_init__(self) -> None:
        """Refuse a ratio that is not priced reliably."""
        object.__setattr__(self, "ratio", _ranged(self.ratio, "ratio"))
        _related(self.neighbours)

    @property
    def epsilon(self) -> None:
        """None: Gaussian noise has no pure price."""
        return

    def rho(self) -> Decimal:
        """Return half the ratio."""
        return curves.share(self.ratio / 2)

    def renyi(self, order: Fraction) -> Decimal:
        """Return order·rho, which discrete Gaussian laws do not exceed."""
        return curves.share(checked_order(order) * self.ratio / 2)


@dataclass(frozen=True, slots=True)
class ExponentialEvent:
    """The exponential mechanism's choice alone: its losses span at most ε, wherever they lie.

    Theorem: range-rho
    """

    epsilon: Fraction
    neighbours: Neighbours

    def __post_init__(self) -> None:
        """Refuse a range that is not priced reliably."""
        object.__setattr__(self, "epsilon", _ranged(self.epsilon, "epsilon"))
        _related(self.neighbours)

    def rho(self) -> Decimal:
        """Return the price of bounded range, at most ε²/8."""
        return curves.range_rho(self.epsilon)

    def renyi(self, order: Fraction) -> Decimal:
        """Return the divergence of the worst pair of bounded range."""
        return curves.range_renyi(self.epsilon, checked_order(order))


@dataclass(frozen=True, slots=True)
class Together:
    """Several events, each any number of times, on the same data: prices add.

    Theorem: composition
    """

    parts: tuple[tuple[Event, int], ...]

    def __post_init__(self) -> None:
        """Refuse an empty list and mixed relations."""
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
        """The sum of the pure prices; None as soon as one part has none."""
        total = Fraction(0)
        for event, times in self.parts:
            if event.epsilon is None:
                return None
            total += times * event.epsilon
        return total

    def rho(self) -> Decimal:
        """Return the sum of the zCDP prices."""
        return curves.total((event.rho(), times) for event, times in self.parts)

    def renyi(self, order: Fraction) -> Decimal:
        """Return the sum of the Rényi prices at this order."""
        return curves.total((event.renyi(order), times) for event, times in self.parts)


def checked_order(order: object) -> Fraction:
    """Return an order that a Rényi divergence is stated for here."""
    if not isinstance(order, Fraction | int) or not _LOWEST_ORDER <= order <= _HIGHEST_ORDER:
        raise InvalidArgument("order", order, "write a fraction from 1 + 10^-6 to 10^6")
    return Fraction(order)


def _ranged(value: object, argument: str, *, least: Fraction = _LEAST, most: Fraction = _MOST) -> Fraction:
    """Return an exact number in the range in which it is priced reliably."""
    if not isinstance(value, Fraction | int) or isinstance(value, bool) or not least <= value <= most:
        raise InvalidArgument(argument, value, f"write a fraction from {shown(least)} to {shown(most)}")
    return Fraction(value)


def _related(neighbours: object) -> None:
    if not isinstance(neighbours, Neighbours):
        raise InvalidArgument("neighbours", neighbours, "write Neighbours.ADD_REMOVE or Neighbours.REPLACE")
