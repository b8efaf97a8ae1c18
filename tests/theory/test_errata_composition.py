"""Statements on composition that fail as printed, each shown failing, and what holds in its place shown holding."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from dodona.errors import InvalidArgument
from dodona.lab.composition import (
    MechanismGroup,
    advanced,
    advanced_delta,
    advanced_sharp,
    calibrate_epsilon,
    corollary_epsilon,
    homogeneous_delta,
    homogeneous_epsilon,
    mechanism_group,
    product,
    product_losses,
    product_sharp,
    sharp_drift,
    textbook_drift,
)
from dodona.lab.divergence import (
    approximate_maximum,
    close_pair,
    hockey_stick,
    kullback_leibler,
    maximum,
    total_variation,
)
from dodona.lab.gaussian_composition import gdp_delta

SLACK = Fraction(math.exp(-32))


def response(epsilon: float) -> tuple[list[float], list[float]]:
    kept = 1 / (1 + math.exp(-epsilon))
    return [kept, 1 - kept], [1 - kept, kept]


@pytest.mark.parametrize(("times", "epsilon", "exact"), [(10**4, "0.01", 1.5354e-3), (400, "0.05", 1.49e-3)])
def test_erratum_1_the_product_needs_the_square_in_its_delta(times: int, epsilon: str, exact: float) -> None:
    pair = product(epsilon, times=times)
    delta = homogeneous_delta(mechanism_group(epsilon, times=times), epsilon=pair.epsilon)
    assert delta == pytest.approx(exact, rel=5e-3)
    printed = math.exp(-times * float(epsilon) / 2)
    assert delta > 10 * printed
    assert delta <= float(product_sharp(epsilon, times=times).delta) < float(pair.delta)


@pytest.mark.parametrize("epsilon", ["0.01", "0.1", "0.5", "1.2", "1.79", "3", "8"])
@pytest.mark.parametrize("times", [1, 7, 100, 3000])
def test_erratum_1_the_mended_product_theorem_holds_for_every_epsilon(epsilon: str, times: int) -> None:
    for theorem in (product, product_sharp):
        pair = theorem(epsilon, times=times)
        if pair.epsilon < Fraction(epsilon) * times:
            assert homogeneous_delta(mechanism_group(epsilon, times=times), epsilon=pair.epsilon) <= float(pair.delta)


def test_erratum_11_a_lifetime_of_databases_allows_less_by_the_theorem_and_more_by_the_optimum() -> None:
    printed = mechanism_group(Fraction(1, 801), times=10**4)
    assert float(advanced([printed], slack=SLACK).epsilon) == pytest.approx(1.0143, abs=1e-4)
    assert float(advanced_sharp([printed], slack=SLACK).epsilon) == pytest.approx(1.00654, abs=1e-5)
    assert advanced([mechanism_group(1 / Fraction("812.319"), times=10**4)], slack=SLACK).epsilon <= 1
    assert advanced([mechanism_group(1 / Fraction("812.317"), times=10**4)], slack=SLACK).epsilon > 1
    assert 1 / float(calibrate_epsilon(1, slack=SLACK, times=10**4)) == pytest.approx(806.202, abs=1e-3)
    # The conclusion is true all the same.
    assert homogeneous_delta(printed, epsilon=1) == pytest.approx(1.38e-17, rel=5e-3)
    assert homogeneous_delta(mechanism_group(1 / Fraction("715.6"), times=10**4), epsilon=1) <= SLACK
    assert homogeneous_delta(mechanism_group(1 / Fraction("715.4"), times=10**4), epsilon=1) > SLACK


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 4.0])
def test_erratum_13_the_mean_loss_is_a_hyperbolic_tangent(epsilon: float) -> None:
    attained = kullback_leibler(*response(epsilon))
    assert attained == pytest.approx(epsilon * math.tanh(epsilon / 2), rel=1e-9)
    assert sharp_drift([mechanism_group(epsilon)]) >= attained
    both = attained + kullback_leibler(*reversed(response(epsilon)))
    assert both < textbook_drift([mechanism_group(epsilon)])
    if epsilon == 1:
        assert both == pytest.approx(0.9242, abs=1e-4)
        assert textbook_drift([mechanism_group(1)]) == pytest.approx(1.7183, abs=1e-4)


@pytest.mark.parametrize(("positives", "proved", "true"), [(200, 46.99, 153), (10**4, 53.86, 124)])
def test_erratum_14_the_sparse_vector_needs_a_range(positives: int, proved: float, true: float) -> None:
    delta = Fraction(1, 10**6)

    def each(epsilon: float) -> MechanismGroup:
        return mechanism_group(epsilon / math.sqrt(8 * positives * math.log(10**6)), times=positives)

    def book(epsilon: float) -> bool:
        return advanced([each(epsilon)], slack=delta).epsilon <= epsilon

    def exact(epsilon: float) -> bool:
        return homogeneous_delta(each(epsilon), epsilon=epsilon) <= delta

    assert book(proved - 0.2)
    assert not book(proved + 0.2)
    assert advanced_sharp([each(110)], slack=delta).epsilon <= 110  # up to 8 ln(1/δ) = 110.5
    assert exact(true - 2)
    assert not exact(true + 2)


def test_erratum_14_at_everyday_parameters_it_asks_for_too_much_noise() -> None:
    delta, positives = Fraction(1, 10**6), 100
    each = corollary_epsilon(1, slack=delta, times=positives)
    assert float(each) * math.sqrt(positives) == pytest.approx(0.0951, abs=1e-4)
    assert homogeneous_epsilon(MechanismGroup(each, times=positives), delta=delta) < 0.5


def test_erratum_16_the_mean_is_bounded_by_the_power_and_not_by_another_epsilon() -> None:
    epsilon, other = 1.0, 0.01
    assert kullback_leibler(*response(epsilon)) > epsilon * other
    assert kullback_leibler(*response(epsilon)) <= textbook_drift([mechanism_group(1)])
    composed = advanced([mechanism_group("0.1", times=100)], slack="1e-6").epsilon
    deviation = math.sqrt(2 * 100 * math.log(10**6)) * 0.1
    assert float(composed) == pytest.approx(deviation + 100 * 0.1 * math.expm1(0.1), rel=1e-9)


def test_erratum_22_one_direction_is_not_enough() -> None:
    first, second, epsilon, delta = [1.0, 0.0], [0.9, 0.1], 0.2, 0.01
    assert maximum(first, second) == pytest.approx(0.105, abs=1e-3)  # the printed condition holds with Y' = Y, Z' = Z
    assert maximum(first, second) <= epsilon
    assert hockey_stick(second, first, epsilon=epsilon) == pytest.approx(0.1)
    assert hockey_stick(second, first, epsilon=epsilon) > delta
    near, nearer = close_pair(first, second, epsilon=epsilon)
    assert max(maximum(near, nearer), maximum(nearer, near)) <= epsilon + 1e-12
    needed = max(total_variation(first, near), total_variation(second, nearer)) * (math.exp(epsilon) + 1)
    assert needed == pytest.approx(0.1)


def test_erratum_26_the_corollary_has_a_range() -> None:
    def proved(slack: str) -> float:
        each = 1 / (2 * math.sqrt(2 * math.log(1 / Fraction(slack))))
        return float(advanced([mechanism_group(each)], slack=slack).epsilon)

    assert proved("0.8") == pytest.approx(1.3336, abs=1e-4)
    assert proved("0.709") <= 1 < proved("0.71")
    assert corollary_epsilon(1, slack="0.88", times=1) > 0  # by the sharp drift, up to e^(-1/8) = 0.8825
    with pytest.raises(InvalidArgument):
        corollary_epsilon(1, slack="0.89", times=1)


def test_erratum_26_the_drift_in_its_proof_is_not_the_theorems() -> None:
    printed = math.sqrt(2 * 100 * math.log(10**6)) * 0.1 + 100 * 0.1**2
    assert printed < float(advanced([mechanism_group("0.1", times=100)], slack="1e-6").epsilon)
    assert printed > float(advanced_sharp([mechanism_group("0.1", times=100)], slack="1e-6").epsilon)


def test_erratum_27_the_bad_views_have_the_probability_of_the_slack() -> None:
    """For pure mechanisms δ is 0; losses past ε' do happen, with a probability up to δ'."""
    slack = Fraction(1, 20)
    epsilon = float(advanced([mechanism_group("0.1", times=100)], slack=slack).epsilon)
    losses, weights = product_losses("0.1", times=100)
    bad = float(weights[losses > epsilon].sum())
    assert 0 < bad <= slack


def test_erratum_27_the_last_divergence_is_between_the_two_views() -> None:
    """The printed one is from V⁰ to W, which for pure mechanisms is V⁰ itself: it is 0 and says nothing of V¹."""
    view, other = response(1.0)
    near = close_pair(view, other, epsilon=1)[0]
    assert maximum(view, near) == pytest.approx(0, abs=1e-12)
    assert approximate_maximum(view, other, delta="0.01") > 0.9


def test_erratum_33_the_proof_needs_a_smaller_epsilon_unless_the_drift_is_sharp() -> None:
    def book(epsilon: float) -> float:
        return epsilon * math.expm1(epsilon) + epsilon**2

    assert book(1.79) == pytest.approx(12.14, abs=5e-2)
    assert book(1.79) > 3 * 1.79**2
    assert book(1.2564) <= 3 * 1.2564**2
    assert book(1.2565) > 3 * 1.2565**2
    for epsilon in (0.1, 1.79, 5.0, 50.0):
        assert sharp_drift([mechanism_group(epsilon)]) + epsilon**2 <= 3 * epsilon**2


@pytest.mark.parametrize("times", [100, 10**4])
def test_erratum_34_below_one_over_the_root_the_product_theorem_is_empty(times: int) -> None:
    epsilon = Fraction(1, 2) / math.isqrt(times)
    pair = product(epsilon, times=times)
    assert pair.epsilon > Fraction(3, times)  # not o(1/k)
    assert float(pair.delta) > 0.606
    assert advanced_delta([MechanismGroup(epsilon, times=times)], epsilon=3) < 1e-6


def test_erratum_35_the_release_mechanism_inherits_the_wrong_delta() -> None:
    rows, alpha, queries, universe = 10**4, 0.1, 10**3, 2**10
    times = round(math.log(universe) / alpha**2)
    noise = alpha / (2 * math.log(queries))
    each = 1 / (noise * rows)
    printed = math.exp(-times * each / 2)
    assert printed == pytest.approx(0.0083, abs=1e-4)
    exact = homogeneous_delta(mechanism_group(each, times=times), epsilon=3 * times * each**2)
    assert exact == pytest.approx(0.0306, abs=1e-4)
    assert printed < exact <= float(product(each, times=times).delta)


def test_erratum_45_private_with_probability_is_stronger_than_a_delta() -> None:
    assert gdp_delta(1, epsilon=1) == pytest.approx(0.1269, abs=1e-4)
    passing = math.erfc(0.5 / math.sqrt(2)) / 2  # the loss is normal with mean 1/2 and variance 1
    assert passing == pytest.approx(0.3085, abs=1e-4)
    assert gdp_delta(1, epsilon=1) < passing
