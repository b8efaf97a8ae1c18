"""Filters hold against adversaries that choose each mechanism by what came before."""

import math
from fractions import Fraction
from functools import cache

import pytest

from dodona.errors import InvalidArgument
from dodona.privacy.accountants import Accountant, PrivacyFilter, Spending, budget_filter
from dodona.privacy.conversion import best_order, renyi_limit, zcdp_limit
from dodona.privacy.events import ExponentialEvent, GaussianEvent, LaplaceEvent, PureEvent, PureMechanism
from dodona.schema.schema import Neighbours

MILLIONTH = Fraction(1, 10**6)


def response(epsilon):
    return PureEvent(PureMechanism.RANDOMIZED_RESPONSE, Fraction(epsilon), Neighbours.REPLACE)


def admitted(budget, event):
    spent, count = Spending(), 0
    while (after := budget.after(spent, event)) is not None:
        spent, count = after, count + 1
    return count


@pytest.mark.parametrize(
    ("epsilon", "delta", "order", "limit", "rho"),
    [
        (Fraction(1), MILLIONTH, 22, 0.5358310582, 0.02435597),
        (Fraction(1), Fraction(1, 10**9), Fraction(279, 8), 0.5221853417, 0.01497306),
        (Fraction(4), MILLIONTH, Fraction(115, 16), 2.2357650617, 0.31106495),
    ],
)
def test_the_constants_of_a_budget_are_those_of_the_literature(epsilon, delta, order, limit, rho):
    assert best_order(epsilon, delta) == order
    assert float(renyi_limit(epsilon, delta, Fraction(order))) == pytest.approx(limit, rel=1e-9)
    assert float(zcdp_limit(epsilon, delta)) == pytest.approx(rho, rel=1e-6)


@pytest.mark.parametrize("epsilon", ["1/10", "1/2", "1", "2", "8"])
@pytest.mark.parametrize("delta", ["1e-5", "1e-6", "1e-9"])
def test_a_limit_never_promises_more_than_its_delta(epsilon, delta):
    """A divergence of the limit at the order implies a δ by the conversion that is not above the budget's."""
    import mpmath

    with mpmath.workdps(60):
        order = best_order(Fraction(epsilon), Fraction(delta))
        limit = mpmath.mpf(str(renyi_limit(Fraction(epsilon), Fraction(delta), order)))
        alpha = mpmath.mpf(order.numerator) / order.denominator
        loss = mpmath.mpf(Fraction(epsilon).numerator) / Fraction(epsilon).denominator
        implied = mpmath.exp((alpha - 1) * (limit - loss)) * (1 - 1 / alpha) ** alpha / (alpha - 1)
        assert implied <= mpmath.mpf(delta)
        assert implied >= mpmath.mpf(delta) * (1 - mpmath.mpf(10) ** -20)


@pytest.mark.parametrize(
    ("accountant", "event", "count"),
    [
        (Accountant.RENYI, response("1/100"), 490),
        (Accountant.RENYI, response("1/20"), 22),
        (Accountant.RENYI, response("1/10"), 7),
        (Accountant.EITHER, response("1/10"), 10),
        (Accountant.ZCDP, response("1/100"), 487),
        (Accountant.RENYI, ExponentialEvent(Fraction(1, 100), Neighbours.REPLACE), 1949),
        (Accountant.RENYI, GaussianEvent(1, Fraction(2500), Neighbours.REPLACE), 121),
        (Accountant.RENYI, GaussianEvent(1, Fraction(10000), Neighbours.REPLACE), 487),
    ],
)
def test_a_budget_of_one_and_a_millionth_admits_as_many_as_is_known(accountant, event, count):
    assert admitted(budget_filter(accountant, Fraction(1), MILLIONTH), event) == count


def test_the_last_tenth_of_ten_tenths_can_be_spent():
    assert admitted(budget_filter(Accountant.PURE, Fraction(1), Fraction(0)), response("1/10")) == 10


def test_a_discrete_laplace_count_is_priced_as_randomized_response_and_not_as_continuous_noise():
    budget = budget_filter(Accountant.RENYI, Fraction(1), MILLIONTH)
    count = LaplaceEvent(1, Fraction(10), Neighbours.REPLACE)
    assert budget.cost(count) == pytest.approx(budget.cost(response("1/10")), rel=1e-15)
    continuous = 0.1 + math.exp(-0.1) - 1  # its zCDP price
    assert float(count.rho()) > continuous * 1.01


def worst_delta(budget, menu, longest):
    """The exact δ at the budget's ε that the best adaptive adversary reaches against the filter, both directions alike.

    The adversary sees all answers of randomized response with the losses of its menu and chooses the next, or stops.
    Its state is the loss so far: paths with equal totals and losses are worth the same, so the game is solved from the
    end.
    """

    @cache
    def value(spent, loss, steps):
        # Of a path with probability 1 under Q: e^loss under P.
        best = max(0.0, math.exp(loss) - math.exp(budget.epsilon))
        if steps == longest:
            return best
        for event in menu:
            after = budget.after(spent, event)
            if after is None:
                continue
            keep = 1 / (1 + math.exp(-event.epsilon))
            up = value(after, loss + event.epsilon, steps + 1)
            down = value(after, loss - event.epsilon, steps + 1)
            best = max(best, (1 - keep) * up + keep * down)
        return best

    return value(Spending(), Fraction(0), 0)


@pytest.mark.parametrize("accountant", [Accountant.RENYI, Accountant.ZCDP, Accountant.EITHER])
@pytest.mark.parametrize(("epsilon", "delta"), [("1", "1/100"), ("1/2", "1/20"), ("2", "1/1000")])
def test_no_adaptive_adversary_passes_a_filter(accountant, epsilon, delta):
    """All adversaries with these three losses and up to nine steps, solved exactly."""
    budget = budget_filter(accountant, Fraction(epsilon), Fraction(delta))
    menu = tuple(response(Fraction(epsilon) * part) for part in (Fraction(1, 2), Fraction(1, 3), Fraction(1, 5)))
    assert worst_delta(budget, menu, 9) <= budget.delta


def test_no_adversary_gets_any_delta_out_of_a_pure_budget():
    budget = budget_filter(Accountant.PURE, Fraction(1), Fraction(0))
    menu = tuple(response(Fraction(1, part)) for part in (2, 3, 5))
    assert worst_delta(budget, menu, 9) < 1e-12


def test_the_game_finds_an_adversary_where_the_limit_is_half_again_too_large():
    """The check can fail: a limit that implies no δ is passed."""
    honest = budget_filter(Accountant.RENYI, Fraction(1), Fraction(1, 100))
    loose = PrivacyFilter(honest.accountant, honest.epsilon, honest.delta, honest.order, honest.limit * 3)
    menu = tuple(response(Fraction(1, part)) for part in (2, 3, 5))
    assert worst_delta(loose, menu, 9) > loose.delta


def test_separate_accounts_for_pure_and_renyi_would_be_unsound():
    """Ten tenths on a pure account, seven more on a Rényi account: the exact δ at 1 is a thousandfold the budget's."""
    steps = 17
    keep = 1 / (1 + math.exp(-0.1))
    exact = math.fsum(
        math.comb(steps, ups)
        * max(0.0, keep**ups * (1 - keep) ** (steps - ups) - math.e * keep ** (steps - ups) * (1 - keep) ** ups)
        for ups in range(steps + 1)
    )
    assert exact == pytest.approx(1.46e-3, rel=0.01)
    assert exact > 1000 * MILLIONTH
    # The filter charges both accounts with everything, so after ten tenths nothing more fits.
    budget = budget_filter(Accountant.EITHER, Fraction(1), MILLIONTH)
    spent = budget.charged(Spending(), response("1/10"), times=10)
    assert budget.admits(spent)
    assert budget.after(spent, response("1/10")) is None


def test_a_gaussian_closes_the_pure_account_for_ever():
    budget = budget_filter(Accountant.EITHER, Fraction(1), MILLIONTH)
    spent = budget.after(Spending(), GaussianEvent(1, Fraction(10**6), Neighbours.REPLACE))
    assert spent is not None
    assert spent.pure is None
    after = budget.charged(spent, response("1/10"), times=10)
    assert not budget.admits(after)


@pytest.mark.parametrize("accountant", list(Accountant))
def test_refusing_leaves_the_total_as_it_was_and_smaller_events_may_still_fit(accountant):
    budget = budget_filter(accountant, Fraction(1), Fraction(0) if accountant is Accountant.PURE else MILLIONTH)
    spent = Spending()
    assert budget.after(spent, response(2)) is None
    assert budget.after(spent, response("1/100")) is not None


def test_costs_do_not_depend_on_the_order_of_events():
    budget = budget_filter(Accountant.RENYI, Fraction(1), MILLIONTH)
    events = [response("1/100"), GaussianEvent(1, Fraction(10**4), Neighbours.REPLACE), response("1/50")]
    forward, backward = Spending(), Spending()
    for event in events:
        forward = budget.charged(forward, event)
    for event in reversed(events):
        backward = budget.charged(backward, event)
    assert forward == backward


def test_a_share_of_a_budget_is_that_part_of_its_units():
    budget = budget_filter(Accountant.RENYI, Fraction(1), MILLIONTH)
    half = budget.scaled(Fraction(1, 2))
    assert half.limit == budget.limit // 2
    assert 2 * admitted(half, response("1/100")) <= admitted(budget, response("1/100"))


def test_events_of_two_relations_are_not_added():
    budget = budget_filter(Accountant.RENYI, Fraction(1), MILLIONTH)
    spent = budget.charged(Spending(), response("1/100"))
    other = LaplaceEvent(1, Fraction(100), Neighbours.ADD_REMOVE)
    with pytest.raises(InvalidArgument, match="priced under replace"):
        budget.after(spent, other)


@pytest.mark.parametrize(
    ("accountant", "epsilon", "delta", "argument"),
    [
        (Accountant.RENYI, Fraction(0), MILLIONTH, "epsilon"),
        (Accountant.RENYI, Fraction(-1), MILLIONTH, "epsilon"),
        (Accountant.RENYI, Fraction(1), Fraction(0), "delta"),
        (Accountant.RENYI, Fraction(1), Fraction(1), "delta"),
        (Accountant.PURE, Fraction(1), MILLIONTH, "delta"),
        (Accountant.ZCDP, Fraction(1, 10**9), Fraction(1, 10**12), "epsilon"),
    ],
)
def test_budgets_that_promise_nothing_are_refused(accountant, epsilon, delta, argument):
    with pytest.raises(InvalidArgument) as caught:
        budget_filter(accountant, epsilon, delta)
    assert caught.value.argument == argument
