"""The mean of noise given all that was told, against laws that are written out."""

import math
from statistics import NormalDist

import numpy as np
import pytest

from dodona.errors import InvalidArgument
from dodona.lab.adaptive.averaged import averaged_gaussian, averaged_laplace, averaged_verdicts, largest_verdict
from dodona.lab.mechanisms import Gaussian, Laplace

NORMAL = NormalDist()


@pytest.mark.parametrize("place", [1.0, 2.0, 3.5])
def test_the_bound_is_attained_where_only_the_side_of_a_line_is_told(place):
    """Told whether Z > s, the mean of Z is φ(s)/P(Z > s) with that probability."""
    chance = NORMAL.cdf(-place)
    mean = NORMAL.pdf(place) / chance
    assert averaged_gaussian(scale=1, answers=1, failing=2 * chance) == pytest.approx(mean, rel=1e-9)
    assert averaged_gaussian(scale=1, answers=1, failing=2 * chance) >= mean
    beyond = 0.5 * math.exp(-place)
    assert averaged_laplace(scale=1, answers=1, failing=2 * beyond) == pytest.approx(place + 1, rel=1e-9)
    assert averaged_laplace(scale=1, answers=1, failing=2 * beyond) >= place + 1


@pytest.mark.parametrize("law", [Gaussian(scale=3), Gaussian(scale="1/2"), Laplace(scale=3), Laplace(scale="3/10")])
@pytest.mark.parametrize("values", [(0, 1), (0, 7), (0, 3, 4, 20)])
def test_a_sum_that_is_told_with_discrete_noise_is_within_the_bound_and_a_step(law, values):
    """S is one of the values, S + Z is told: P(|E[Z | S + Z]| > a) is summed exactly."""
    noise = np.arange(-150, 151)
    weights = np.array([law.probability(int(z)) for z in noise])
    mass, mean = {}, {}
    for value in values:
        for z, weight in zip(noise, weights, strict=True):
            mass[value + z] = mass.get(value + z, 0) + weight / len(values)
            mean[value + z] = mean.get(value + z, 0) + z * weight / len(values)
    bound = averaged_gaussian if isinstance(law, Gaussian) else averaged_laplace
    for failing in (0.3, 0.05, 0.001, 1e-6):
        within = bound(scale=float(law.scale), answers=1, failing=failing) + 1
        beyond = sum(chance for place, chance in mass.items() if chance > 0 and abs(mean[place] / chance) > within)
        assert beyond <= failing


@pytest.mark.parametrize("law", [Gaussian(scale=2), Gaussian(scale="1/2"), Laplace(scale=2), Laplace(scale="1/3")])
def test_discrete_noise_reaches_no_further_than_continuous_noise_and_a_step(law):
    """E(Z - s)₊ of the discrete law, summed, at most that of the continuous one moved up by a step."""
    noise = np.arange(-200, 201)
    weights = np.array([law.probability(int(z)) for z in noise])
    scale = float(law.scale)
    for place in np.linspace(1, 8 * scale + 1, 40):
        discrete = float((weights * np.maximum(noise - place, 0)).sum())
        moved = place - 1
        if isinstance(law, Gaussian):
            continuous = scale * NORMAL.pdf(moved / scale) - moved * NORMAL.cdf(-moved / scale)
        else:
            continuous = scale / 2 * math.exp(-moved / scale)
        assert discrete <= continuous * (1 + 1e-9) + 1e-15


def test_many_answers_share_what_may_fail():
    single = averaged_gaussian(scale=1, answers=1, failing=0.001)
    assert averaged_gaussian(scale=1, answers=100, failing=0.1) == pytest.approx(single)
    assert averaged_laplace(scale=1, answers=100, failing=0.1) == pytest.approx(1 + math.log(1000))


@pytest.mark.parametrize(("thresholds", "questions"), [(1, 1), (1, 20), (4, 50)])
@pytest.mark.parametrize(("first", "second"), [(3, 6), (5, 5), (8, 4)])
def test_verdicts_of_discrete_noise_are_within_the_bound_and_two_steps(thresholds, questions, first, second):
    """The law of max τ + max ν is summed; no mean of it given anything is beyond E[M | M in its worst share]."""
    places = np.arange(-400, 401)

    def largest(law: Laplace, count: int) -> np.ndarray:
        below = np.cumsum([law.probability(int(z)) for z in places])
        return np.diff(below**count, prepend=0.0)

    law = np.convolve(largest(Laplace(scale=first), thresholds), largest(Laplace(scale=second), questions))
    values = np.arange(-800, 801)
    arguments = {"threshold": first, "question": second, "thresholds": thresholds, "questions": questions}
    for failing in (0.2, 0.02, 0.001):
        beyond = np.cumsum(law[::-1])[::-1]  # P(M ≥ value)
        alarm = largest_verdict(failing=failing, **arguments) + 2
        assert beyond[values > alarm].max() <= failing
        # The worst mean with this probability: of the largest values, down to exactly that share.
        cut = int(np.searchsorted(-beyond, -failing))
        share = beyond[cut] if cut < len(beyond) else 0.0
        worst = float((law[cut:] * values[cut:]).sum()) + (failing - share) * values[cut - 1]
        bound = averaged_verdicts(failing=failing, **arguments) + 2
        assert worst / failing <= bound
        assert bound <= 1.5 * worst / failing + 12


@pytest.mark.parametrize("wrong", [0, 1, -0.1, math.nan])
def test_what_is_no_probability_is_refused(wrong):
    with pytest.raises(InvalidArgument):
        averaged_gaussian(scale=1, answers=1, failing=wrong)
    with pytest.raises(InvalidArgument):
        averaged_verdicts(threshold=1, question=1, thresholds=1, questions=1, failing=wrong)
