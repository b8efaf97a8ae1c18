"""The odometer's ε holds whenever an adversary chooses to look."""

import math
from fractions import Fraction
from functools import cache

import pytest

from dodona.errors import InvalidArgument
from dodona.privacy.accountants import odometer
from dodona.privacy.conversion import renyi_epsilon
from dodona.privacy.events import GaussianEvent, PureEvent, PureMechanism
from dodona.schema.schema import Neighbours

DELTA = Fraction(1, 100)


def response(epsilon):
    return PureEvent(PureMechanism.RANDOMIZED_RESPONSE, Fraction(epsilon), Neighbours.REPLACE)


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
        return odometer(events, delta=DELTA) * scale

    return reading


MENU = (Fraction(1, 5), Fraction(1, 20))


def test_no_adversary_that_stops_when_it_likes_is_shown_too_small_an_epsilon():
    """All adversaries with two losses and up to 16 steps, solved exactly."""
    assert worst_delta(reading_of(MENU), MENU, 16) <= DELTA


def test_the_game_notices_a_reading_that_is_two_thirds_too_small():
    assert worst_delta(reading_of(MENU, Fraction(1, 3)), MENU, 16) > DELTA


LONG = (Fraction(1, 10),)


def test_no_adversary_is_shown_too_small_an_epsilon_after_many_questions():
    """Here the orders read less than half of the sum."""
    read = reading_of(LONG)
    assert 2 * read((120,)) < 120 * LONG[0]
    assert worst_delta(read, LONG, 120) <= DELTA


def test_the_game_notices_a_reading_of_many_questions_that_is_a_third_too_small():
    assert worst_delta(reading_of(LONG, Fraction(2, 3)), LONG, 120) > DELTA


@pytest.mark.parametrize("deviation", [5, 20, 60, 300])
def test_one_question_reads_what_it_costs_alone(deviation):
    """At three quarters of δ, which is two percent more."""
    event, delta = gaussian(deviation**2), Fraction(1, 10**6)
    alone = renyi_epsilon(event.renyi, delta=delta)
    assert alone <= odometer({event: 1}, delta=delta) <= 1.025 * alone


@pytest.mark.parametrize("times", [2, 7, 50, 400])
def test_the_orders_share_a_quarter_of_delta(times):
    """No order may show less than a composition that is fixed beforehand has at a sixteenth of that quarter."""
    event, delta = gaussian(900), Fraction(1, 10**6)
    fixed = renyi_epsilon(lambda order: times * event.renyi(order), delta=delta / 64)
    assert fixed <= odometer({event: times}, delta=delta) <= 1.08 * fixed


def test_a_raised_delta_never_raises_the_reading():
    readings = [odometer({gaussian(900): 9}, delta=Fraction(1, 10**power)) for power in range(12, 1, -1)]
    assert readings == sorted(readings, reverse=True)


def test_nothing_spent_reads_zero():
    assert odometer({}, delta=DELTA) == 0


def test_a_few_pure_events_read_their_sum():
    assert odometer({response("1/100"): 3}, delta=Fraction(1, 10**6)) == Fraction(3, 100)


def test_many_small_events_read_less_than_their_sum():
    assert odometer({response("1/100"): 400}, delta=DELTA) < 2


def test_the_reading_never_falls_as_more_is_spent():
    readings = [odometer({gaussian(400): count}, delta=DELTA) for count in range(1, 20)]
    assert readings == sorted(readings)
    assert readings[0] > 0


def test_without_delta_gaussians_have_no_reading():
    assert odometer({gaussian(1): 100}, delta=Fraction(0)) is None
    assert odometer({response("1/100"): 3}, delta=Fraction(0)) == Fraction(3, 100)


def test_events_of_two_relations_are_not_added():
    other = GaussianEvent(1, Fraction(9), Neighbours.ADD_REMOVE)
    with pytest.raises(InvalidArgument, match="neighbours"):
        odometer({gaussian(9): 1, other: 1}, delta=DELTA)
