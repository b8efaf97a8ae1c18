"""What happened, said exactly: an event is all that an accountant needs to know of a release, and nothing more.

Events are permanent: a class is never removed, a field never changes its meaning, and what is not known is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import Protocol

from dodona.accounting import curves
from dodona.domain.neighbours import Neighbours
from dodona.errors import InvalidArgument


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

    @property
    def epsilon(self) -> None:
        """None: Gaussian noise has no pure price."""
        return

    def rho(self) -> Decimal:
        """Return squared distance / (2·variance)."""
        return _share(self.squared_distance / (2 * self.variance))

    def renyi(self, order: Fraction) -> Decimal:
        """Return order·rho, which discrete Gaussian laws do not exceed."""
        return _share(checked_order(order) * self.squared_distance / (2 * self.variance))


@dataclass(frozen=True, slots=True)
class ExponentialEvent:
    """The exponential mechanism's choice alone: its losses span at most ε, wherever they lie.

    Theorem: range-rho
    """

    epsilon: Fraction
    neighbours: Neighbours

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
        if not self.parts or any(times < 1 for _, times in self.parts):
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
        return _sum(times * event.rho() for event, times in self.parts)

    def renyi(self, order: Fraction) -> Decimal:
        """Return the sum of the Rényi prices at this order."""
        return _sum(times * event.renyi(order) for event, times in self.parts)


def checked_order(order: Fraction) -> Fraction:
    """Return an order that a Rényi divergence is stated for here."""
    if not 1 < order <= 10**6:
        raise InvalidArgument("order", order, "write an order above 1 and up to 10^6")
    return order


def _share(price: Fraction) -> Decimal:
    """Return an exact price as a decimal, rounded up."""
    return curves.rounded_up(Decimal(price.numerator) / Decimal(price.denominator))


def _sum(prices: Iterable[Decimal]) -> Decimal:
    """Return the sum, rounded up."""
    return curves.rounded_up(sum(prices, Decimal(0)))
