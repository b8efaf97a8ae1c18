"""The odometer's ε holds whenever an adversary chooses to look."""

import math
from fractions import Fraction
from functools import cache

from dodona.accounting.event import GaussianEvent, Kind, PureEvent
from dodona.accounting.odometer import odometer
from dodona.domain.neighbours import Neighbours

DELTA = Fraction(1, 100)


def response(epsilon):
    return PureEvent(Kind.RANDOMIZED_RESPONSE, Fraction(epsilon), Neighbours.REPLACE)


def gaussian(variance):
    return GaussianEvent(1, Fraction(variance), Neighbours.REPLACE)


def worst_delta(reading, menu, longest):
    """The exact δ of the best adversary that picks losses by what it sees and stops where the reading is too small."""

    @cache
    def value(counts, loss):
        shown = float(reading(counts))
        best = max(0.0, math.exp(loss) - math.exp(shown))
        if sum(counts) == longest:
            return best
        for index, epsilon in enumerate(menu):
            after = tuple(count + (index == place) for place, count in enumerate(counts))
            keep = 1 / (1 + math.exp(-epsilon))
            best = max(best, (1 - keep) * value(after, loss + epsilon) + keep * value(after, loss - epsilon))
        return best

    return value((0,) * len(menu), Fraction(0))


def reading_of(menu, scale=1):
    @cache
    def reading(counts):
        events = {response(epsilon): count for epsilon, count in zip(menu, counts, strict=True) if count}
        return odometer(events, epsilon=Fraction(1), delta=DELTA) * scale

    return reading


MENU = (Fraction(1, 5), Fraction(1, 20))


def test_no_adversary_that_stops_when_it_likes_is_shown_too_small_an_epsilon():
    """All adversaries with two losses and up to 16 steps, solved exactly."""
    assert worst_delta(reading_of(MENU), MENU, 16) <= DELTA


def test_the_game_notices_a_reading_that_is_a_third_too_small():
    assert worst_delta(reading_of(MENU, Fraction(1, 3)), MENU, 16) > DELTA


def test_nothing_spent_reads_zero():
    assert odometer({}, epsilon=Fraction(1), delta=DELTA) == 0


def test_a_few_pure_events_read_their_sum():
    assert odometer({response("1/100"): 3}, epsilon=Fraction(1), delta=DELTA) == Fraction(3, 100)


def test_many_small_events_read_less_than_their_sum():
    assert odometer({response("1/100"): 400}, epsilon=Fraction(4), delta=DELTA) < 2


def test_the_reading_never_falls_as_more_is_spent():
    readings = [odometer({gaussian(400): count}, epsilon=Fraction(1), delta=DELTA) for count in range(1, 20)]
    assert readings == sorted(readings)
    assert readings[0] > 0


def test_gaussians_beyond_twice_the_budget_have_no_reading():
    assert odometer({gaussian(1): 100}, epsilon=Fraction(1), delta=DELTA) is None
