"""What events cost together: the smallest ε that the product's own filter certifies at a δ, and two other readings."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from dodona.errors import InvalidArgument
from dodona.privacy.accountants import Accountant, Spending, budget_filter
from dodona.privacy.events import ComposedEvent, Event, GaussianEvent, UnevenGaussianEvent

DELTA = Fraction(1, 10**9)
_NEAR = 1e-4
_SMALLEST = Fraction(1, 10**9)


@dataclass(frozen=True, slots=True)
class Cost:
    """Three readings of the same events."""

    certified: float
    """The smallest ε whose filter admits them: the pure sum itself, where the budget is pure."""
    zcdp: float
    """ρ + 2√(ρ ln 1/δ) of the sum of their zCDP prices."""
    pure: float | None
    """The sum of their pure losses; None where one has none."""


NOTHING = Cost(0.0, 0.0, 0.0)


def cost_of(events: Iterable[Event] | Mapping[Event, int], *, budget: str) -> Cost:
    """Return what events cost together, for a budget that is approximate or pure."""
    known = gathered(events)
    if not known:
        return NOTHING
    losses = [None if event.epsilon is None else times * event.epsilon for event, times in known.items()]
    pure = None if None in losses else sum((loss for loss in losses if loss is not None), Fraction(0))
    rho = sum(times * float(event.rho()) for event, times in known.items())
    zcdp = rho + 2 * math.sqrt(rho * -math.log(DELTA))
    match budget:
        case "pure":
            certified = math.inf if pure is None else float(pure)
        case _:
            certified = _certified(known, pure, zcdp)
    return Cost(certified, zcdp, None if pure is None else float(pure))


def gathered(events: Iterable[Event] | Mapping[Event, int]) -> Counter[Event]:
    """Return how often each event is there; those of Gaussian noise, whose prices just add, as one of their sum."""
    counted = Counter(dict(events)) if isinstance(events, Mapping) else Counter(events)
    counts: Counter[Event] = Counter()
    ratio = Fraction(0)
    relation = None
    for event, times in counted.items():
        for part, often in _parts(event):
            match part:
                case GaussianEvent():
                    ratio += times * often * part.squared_distance / part.variance
                    relation = part.neighbours
                case UnevenGaussianEvent():
                    ratio += times * often * part.ratio
                    relation = part.neighbours
                case _:
                    counts[part] += times * often
    if relation is not None:
        counts[UnevenGaussianEvent(_short(ratio), relation)] = 1
    return counts


def _parts(event: Event) -> tuple[tuple[Event, int], ...]:
    if not isinstance(event, ComposedEvent):
        return ((event, 1),)
    return tuple((leaf, times * often) for part, times in event.parts for leaf, often in _parts(part))


def _short(ratio: Fraction) -> Fraction:
    """Return the ratio with 60 bits, rounded up: a sum of very many has a denominator of thousands of digits."""
    unit = Fraction(2) ** (ratio.numerator.bit_length() - ratio.denominator.bit_length() - 60)
    return math.ceil(ratio / unit) * unit


def _certified(events: Mapping[Event, int], pure: Fraction | None, zcdp: float) -> float:
    """Return the smallest ε, to a ten-thousandth of itself, at which either account admits the events."""
    high = Fraction(zcdp) * 2 if pure is None else min(pure, Fraction(zcdp) * 2)
    while not _admits(events, high):
        high *= 2
    low = high / 2
    while low > _SMALLEST and _admits(events, low):
        low, high = low / 2, low
    while high > low * Fraction(1 + _NEAR):
        middle = Fraction(math.sqrt(low * high)).limit_denominator(10**12)
        low, high = (low, middle) if _admits(events, middle) else (middle, high)
    return float(high)


def _admits(events: Mapping[Event, int], epsilon: Fraction) -> bool:
    """Whether the filter of a budget admits all events."""
    try:
        tried = budget_filter(Accountant.EITHER, epsilon, DELTA)
    except InvalidArgument:  # so small that only pure losses are counted
        tried = budget_filter(Accountant.PURE, epsilon, Fraction(0))
    spent = Spending()
    for event, times in events.items():
        spent = tried.charged(spent, event, times=times)
    return tried.admits(spent)
