"""Laplace noise on real numbers: the grid is public, the law exact, and rounding costs at most one step an answer."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dodona.errors import InvalidArgument
from dodona.lab import direct
from dodona.lab.mechanisms import GridLaplace, Laplace
from dodona.query.sensitivity import Sensitivity
from dodona.schema.schema import Neighbours

REPLACE = Neighbours.REPLACE
numbers = st.fractions(min_value=-50, max_value=50, max_denominator=97)
steps = st.sampled_from([Fraction(1), Fraction(1, 4), Fraction(1, 10), Fraction(3, 7)])


@given(first=numbers, moved=st.fractions(min_value=-3, max_value=3, max_denominator=89), grid=steps)
def test_a_number_that_moves_moves_by_no_more_steps_than_are_charged(first, moved, grid):
    mechanism = GridLaplace(scale=5, grid=grid)
    distance = abs(mechanism.steps(first + moved) - mechanism.steps(first))
    allowed = mechanism.event(abs(moved), REPLACE).distance if moved else 0
    assert distance <= allowed


@given(
    pairs=st.lists(
        st.tuples(numbers, st.fractions(min_value=-1, max_value=1, max_denominator=31)), min_size=2, max_size=6
    ),
    grid=steps,
)
def test_several_answers_move_by_no_more_steps_than_are_charged(pairs, grid):
    mechanism = GridLaplace(scale=5, grid=grid)
    total = sum((abs(moved) for _, moved in pairs), Fraction(0))
    distance = sum(abs(mechanism.steps(first + moved) - mechanism.steps(first)) for first, moved in pairs)
    allowed = mechanism.event(total, REPLACE, answers=len(pairs)).distance if total else 0
    assert distance <= allowed


@pytest.mark.parametrize("grid", [Fraction(1, 10), Fraction(1, 3), Fraction(7, 10)])
def test_the_price_is_reached_by_some_pair_and_never_passed(grid):
    """All pairs of numbers on a fine grid that are at most 1 apart; the loss of each outcome is exact."""
    mechanism = GridLaplace(scale=2, grid=grid)
    event = mechanism.event(1, REPLACE)
    scale = mechanism.noise.scale
    worst = Fraction(0)
    for place in range(60):
        for moved in range(61):
            first, second = Fraction(place, 60), Fraction(place + moved, 60)
            worst = max(worst, abs(mechanism.steps(second) - mechanism.steps(first)) / scale)
    assert worst == event.epsilon
    assert event.epsilon >= Fraction(1, 2)  # the real line's Δ/b; equal where the grid divides Δ
    assert (event.epsilon == Fraction(1, 2)) == ((1 / grid).denominator == 1)


def test_a_mechanism_for_a_price_costs_exactly_that():
    for grid in (None, "1/3", "0.4", 1):
        mechanism = GridLaplace.for_privacy("0.3", sensitivity="1.2", grid=grid)
        assert mechanism.event("1.2", REPLACE).epsilon == Fraction(3, 10)


def test_a_share_is_the_count_divided_by_the_rows():
    share, count = GridLaplace.for_share("1/2", rows=1000), Laplace(scale=2)
    assert share.event(Fraction(1, 1000), REPLACE) == count.event(Sensitivity.count(REPLACE))
    assert share.noise == count
    for _ in range(20):
        released = direct.run(share, Fraction(417, 1000))
        assert (released * 1000).denominator == 1


def test_what_is_released_lies_on_the_grid_and_covers_the_real_number():
    """2,000 runs at 90%: more than 290 misses have probability below 10^-9 (binomial with 1/10)."""
    mechanism = GridLaplace.for_privacy(1, sensitivity="0.25", grid="0.1")
    within = mechanism.accuracy(0.9).within
    truth = Fraction(math.pi).limit_denominator(10**6)
    missed = 0
    for _ in range(2000):
        released = direct.run(mechanism, truth)
        assert (released / mechanism.grid).denominator == 1
        missed += abs(released - truth) > within
    assert missed <= 290


def test_half_a_step_is_rounded_upwards_so_that_no_number_moves_twice():
    """Half to even would move 1/2 and 3/2 two steps apart, though they are one step apart."""
    mechanism = GridLaplace(scale=1, grid=1)
    assert [mechanism.steps(Fraction(odd, 2)) for odd in (-3, -1, 1, 3, 5)] == [-1, 0, 1, 2, 3]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: GridLaplace(scale=1, grid=0),
        lambda: GridLaplace(scale="1e-9", grid=1),
        lambda: GridLaplace.for_share(1, rows=0),
        lambda: GridLaplace.for_privacy(1, sensitivity=0),
        lambda: direct.run(GridLaplace(scale=1, grid=1), [1, 2]),
        lambda: direct.run(GridLaplace(scale=1, grid=1), math.nan),
    ],
)
def test_what_is_no_grid_is_refused(wrong):
    with pytest.raises(InvalidArgument):
        wrong()
