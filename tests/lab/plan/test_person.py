"""What a budget means to one person, beside the worst mechanism there is."""

import math
from itertools import product

import numpy as np
import pytest

from dodona.errors import InvalidArgument
from dodona.lab.plan import Exposure


def worst(epsilon, delta):
    """Return the two laws of the worst (ε, δ)-private mechanism: four outcomes (Kairouz, Oh, Viswanath)."""
    power = math.exp(epsilon)
    law = np.array([delta, (1 - delta) * power / (1 + power), (1 - delta) / (1 + power), 0])
    return law, law[::-1]


@pytest.mark.parametrize("epsilon", [0.1, 1, 4])
@pytest.mark.parametrize("delta", [0, 0.01, 0.2])
def test_no_test_beats_the_bounds_and_the_worst_mechanism_attains_them(epsilon, delta):
    exposure = Exposure(epsilon, delta=delta)
    first, second = worst(epsilon, delta)
    rates = [(float(second @ chosen), float(first @ chosen)) for chosen in map(np.array, product((0.0, 1.0), repeat=4))]
    for false, true in rates:
        assert true <= exposure.alarms(min(false, 1.0)) + 1e-12
        assert true - false <= exposure.advantage + 1e-12
    assert max(true - false for false, true in rates) == pytest.approx(exposure.advantage)
    corner = (1 - delta) / (1 + math.exp(epsilon))
    assert exposure.alarms(corner) - corner == pytest.approx(exposure.advantage)
    assert exposure.guess == pytest.approx((1 + exposure.advantage) / 2)


def test_pure_odds_grow_by_the_loss():
    first, second = worst(1, 0)
    likelihood = first[1] / second[1]
    for prior in (0.001, 0.2, 0.5, 0.9):
        odds = prior / (1 - prior) * likelihood
        assert Exposure(1).posterior(prior) == pytest.approx(odds / (1 + odds))
    assert (Exposure(1).posterior(0), Exposure(1).posterior(1)) == (0, 1)


@pytest.mark.parametrize("failing", [0.021, 0.05, 0.5])
def test_odds_grow_no_more_than_is_said_but_with_the_stated_probability(failing):
    """Of all laws on two outcomes that are (1, .02)-indistinguishable, none passes; the worst one nearly does."""
    exposure, prior = Exposure(1, delta="0.02"), 0.1
    allowed = exposure.posterior(prior, failing=failing)
    nearest = 0.0
    for telling in np.geomspace(1e-4, 0.9, 400):
        # An outcome of probability `telling` with the row has at least this one without it.
        least = max((telling - 0.02) / math.e, 1e-300)
        odds = prior / (1 - prior) * telling / least
        if odds / (1 + odds) > allowed + 1e-9:
            nearest = max(nearest, telling)
    assert nearest <= failing
    assert nearest > 0.95 * failing


def test_a_budget_is_told_in_words():
    assert "73.1%" in Exposure(1).describe()
    assert "0.0001" in Exposure(1, delta="1e-6").describe()


@pytest.mark.parametrize(
    "ask",
    [
        lambda: Exposure(0),
        lambda: Exposure(1, delta=1),
        lambda: Exposure(1).posterior(1.5),
        lambda: Exposure(1).alarms(-0.1),
        lambda: Exposure(1, delta="1e-6").posterior(0.5),
        lambda: Exposure(1, delta="1e-6").posterior(0.5, failing=1e-7),
    ],
)
def test_what_is_no_probability_is_refused(ask):
    with pytest.raises(InvalidArgument):
        ask()
