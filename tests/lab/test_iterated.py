"""Iterated selection, run: its price, what it finds, and that it catches what is above a threshold."""

from fractions import Fraction

import pytest

from dodona.errors import InvalidArgument
from dodona.lab import direct
from dodona.lab.mechanisms import Exponential, Gaussian, IteratedSelection, Laplace, NoisyMax, PermuteAndFlip
from dodona.query.sensitivity import Sensitivity
from dodona.schema.schema import Neighbours

COUNT = Sensitivity.counts(20, Neighbours.ADD_REMOVE)


@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize("share", ["1/2", "0.9"])
def test_it_costs_exactly_what_was_asked_for(neighbours, share):
    scores = Sensitivity.counts(20, neighbours)
    mechanism = IteratedSelection.for_privacy("0.7", scores, rounds=4, share=share)
    assert mechanism.event(scores).epsilon == Fraction(7, 10)
    ((choice, times), (answer, again)) = mechanism.event(scores).parts
    assert times == again == 4
    assert choice.epsilon == Fraction(7, 40) * Fraction(share)
    assert answer.epsilon == Fraction(7, 40) * (1 - Fraction(share))


def test_gaussian_answers_have_a_zcdp_price_alone():
    mechanism = IteratedSelection(Exponential(scale=10), Gaussian(scale=10), rounds=3)
    event = mechanism.event(COUNT)
    assert event.epsilon is None
    alone = (
        Exponential(scale=10).event(COUNT).rho()
        + Gaussian(scale=10).event(Sensitivity.count(Neighbours.ADD_REMOVE)).rho()
    )
    assert float(event.rho()) == pytest.approx(3 * float(alone))


def test_no_candidate_is_chosen_twice_and_clear_winners_are_found():
    scores = [0, 50_000, 10, 40_000, 5, 30_000]
    for choice in (Exponential(scale=10), PermuteAndFlip(scale=10)):
        winners = direct.run(IteratedSelection(choice, Laplace(scale=10), rounds=3), scores)
        assert [winner.index for winner in winners] == [1, 3, 5]
        assert all(abs(winner.value - scores[winner.index]) < 10 * 40 for winner in winners)  # e^-40 for each
    everything = direct.run(IteratedSelection(Exponential(scale=10), Laplace(scale=10), rounds=6), scores)
    assert sorted(winner.index for winner in everything) == list(range(6))


def test_it_is_right_about_a_threshold_as_often_as_is_promised():
    """1,500 runs at 90%: a right promise is missed more than 225 times with probability below 10^-8."""
    mechanism = IteratedSelection.for_privacy(1, COUNT, rounds=4)
    alpha = mechanism.accuracy(0.9, candidates=20).within
    scores = [int(1.1 * alpha) + 1] * 3 + [-int(alpha) - 1] * 17  # the threshold is 0
    wrong = 0
    for _ in range(1500):
        by_index = {winner.index: winner.value for winner in direct.run(mechanism, scores)}
        above = {index for index, value in by_index.items() if value >= 0}
        off = any(abs(value - scores[index]) > alpha for index, value in by_index.items())
        wrong += above != {0, 1, 2} or off
    assert wrong <= 225


def test_what_is_no_selection_is_refused():
    with pytest.raises(InvalidArgument, match="choice"):
        IteratedSelection(NoisyMax(scale=1), Laplace(scale=1), rounds=2)
    with pytest.raises(InvalidArgument, match="answer"):
        IteratedSelection(Exponential(scale=1), Exponential(scale=1), rounds=2)
    with pytest.raises(InvalidArgument, match="rounds"):
        direct.run(IteratedSelection(Exponential(scale=1), Laplace(scale=1), rounds=3), [1, 2])
