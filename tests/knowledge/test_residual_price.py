"""What residuals cost, by closed forms and by a walk through all neighbours."""

import math
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from dodona.errors import InvalidArgument
from dodona.privacy.events import UnevenGaussianEvent, event_from_json, event_to_json
from dodona.privacy.measurement import (
    ResidualMeasurement,
    largest_squared_move,
    sqrt_above,
    squared_move_replaced,
    worst_ratio,
)
from dodona.query.query import block_weights, product_axes, product_shape
from dodona.query.residual import Classes, Residual
from dodona.schema.attributes import Boolean, Category, Integer
from dodona.schema.schema import Domain, Neighbours, Unit

FOUND = (Phase.explicit, Phase.reuse, Phase.generate)  # a fault is told at once; making it small takes minutes
DOMAIN = Domain((Category("sex", ["f", "m"]), Boolean("urgent"), Integer("age", 0, 1)))
WAYS = {
    "sex": (Classes.of(DOMAIN["sex"]), Classes.split(DOMAIN["sex"], 0b0001), Classes.split(DOMAIN["sex"], 0b0011)),
    "urgent": (Classes.split(DOMAIN["urgent"], 0b0010), Classes("urgent", 4, (0b0001, 0b0010, 0b1100))),
    "age": (Classes.of(DOMAIN["age"]),),
}
variances = st.fractions(min_value=Fraction(1, 10), max_value=50, max_denominator=20)
residuals = st.sets(st.sampled_from(sorted(WAYS)), max_size=3).flatmap(
    lambda names: st.tuples(*(st.sampled_from(WAYS[name]) for name in sorted(names))).map(Residual)
)
several = st.lists(st.tuples(residuals, variances), min_size=1, max_size=5)


def walked(parts, relation):
    """The largest Σ change²/(σ²N) over all neighbours, from the weights of every cell of the domain."""
    axes, shape = product_axes(DOMAIN, DOMAIN.names), product_shape(DOMAIN, DOMAIN.names)
    lines, squares = [], []
    for residual, variance in parts:
        for row in residual.rows():
            weights = np.broadcast_to(block_weights(residual.block(row), axes), shape).reshape(-1)
            lines.append(weights.tolist())
            squares.append(variance * row.square)
    common = math.lcm(*(square.numerator for square in squares))
    worth = np.array([int(common / square) for square in squares], dtype=object)
    table = np.array(lines, dtype=object)
    if relation is Neighbours.ADD_REMOVE:
        return Fraction(max(worth @ (table * table)), common)
    cells_apart = np.unique(np.array(lines), axis=1).astype(object)
    return max(
        Fraction(max(worth @ ((cells_apart[:, [place]] - cells_apart) ** 2)), common)
        for place in range(cells_apart.shape[1])
    )


@settings(deadline=None, max_examples=60, phases=FOUND)
@given(several, st.sampled_from(Neighbours))
def test_the_price_is_exactly_that_of_a_walk_through_all_neighbours(parts, relation):
    assert worst_ratio(parts, Unit.each_row(relation)) == walked(parts, relation)


def test_an_attribute_that_is_classed_in_two_ways_may_differ_in_one_of_them():
    """The worst pair differs in the second way to class the sex, and in urgency, and not in the first way."""
    first, second, urgent = WAYS["sex"][1], WAYS["sex"][2], WAYS["urgent"][0]
    parts = [(Residual(own), Fraction(1)) for own in ((first, urgent), (second,), (urgent,))]
    assert (
        worst_ratio(parts, Unit.each_row(Neighbours.REPLACE))
        == walked(parts, Neighbours.REPLACE)
        == sum(map(largest_squared_move, dict(parts)))
    )


@settings(deadline=None, max_examples=40, phases=FOUND)
@given(several)
def test_beyond_the_limit_the_price_is_a_bound(parts):
    exact, bound = (
        worst_ratio(parts, Unit.each_row(Neighbours.REPLACE)),
        worst_ratio(parts, Unit.each_row(Neighbours.REPLACE), limit=0),
    )
    assert exact <= bound
    assert bound == sum(largest_squared_move(residual) / variance for residual, variance in parts)


@settings(deadline=None, max_examples=40, phases=FOUND)
@given(residuals)
def test_one_residual_moves_farthest_in_its_attribute_of_fewest_classes(residual):
    moves = [
        squared_move_replaced(residual, differs) for differs in product((False, True), repeat=len(residual.classes))
    ]
    assert max(moves) == largest_squared_move(residual)
    if residual.classes:
        assert (
            worst_ratio([(residual, Fraction(3))], Unit.each_row(Neighbours.REPLACE))
            == largest_squared_move(residual) / 3
        )


def bits(number):
    domain = Domain(tuple(Boolean(f"b{place:02}") for place in range(number)))
    return domain, [Classes.split(attribute, 0b10) for attribute in domain]


def by_number(number, rows):
    """2·max over k of Σ_A 1[A meets the k changed bits an odd number of times]/variance, counted by hand."""
    first, second, third = rows
    return 2 * max(
        k / first + Fraction(k * (number - k)) / second + (k * math.comb(number - k, 2) + math.comb(k, 3)) / third
        for k in range(number + 1)
    )


@pytest.mark.parametrize(
    ("number", "rows"),
    [
        (10, (Fraction(4), Fraction(8), Fraction(28))),
        (10, (Fraction(4), Fraction(76, 10), Fraction(292, 10))),
        (12, (Fraction(34, 10), Fraction(62, 10), Fraction(352, 10))),
    ],
)
def test_conjunctions_of_bits_cost_what_counting_by_hand_says(number, rows):
    """All one-, two- and three-way residuals; the variances are those of the rows themselves."""
    _, ways = bits(number)
    parts = [(Residual(chosen), rows[size - 1] / 2**size) for size in (1, 2, 3) for chosen in combinations(ways, size)]
    assert worst_ratio(parts, Unit.each_row(Neighbours.REPLACE)) / 2 == by_number(number, rows)


def test_ten_bits_cost_the_known_figures():
    rows = (Fraction(4), Fraction(8), Fraction(28))
    assert by_number(10, rows) == Fraction(95, 7)  # 2 · 6.786, where one by one they would cost 2 · 12.411


def test_one_running_sum_for_each_pattern_never_passes_the_sum_of_the_prices():
    _, ways = bits(4)
    sets = [Residual(chosen) for size in (1, 2) for chosen in combinations(ways, size)]
    bought, charged = [], Fraction(0)
    for place, residual in enumerate(sets):
        part = (residual, Fraction(place + 2, 3))
        before = worst_ratio(bought, Unit.each_row(Neighbours.REPLACE)) if bought else Fraction(0)
        bought.append(part)
        charged += worst_ratio(bought, Unit.each_row(Neighbours.REPLACE)) - before
    assert charged == worst_ratio(bought, Unit.each_row(Neighbours.REPLACE))
    assert charged < sum(worst_ratio([part], Unit.each_row(Neighbours.REPLACE)) for part in bought)


def divergence(shift, variance, order):
    """D_order of discrete Gaussians that are `shift` apart, by summing far into the tails."""
    reach = math.ceil(40 * math.sqrt(variance)) + 60 * abs(shift)
    points = np.arange(-reach, reach + 1, dtype=np.float64)
    first, second = -(points**2) / (2 * variance), -((points - shift) ** 2) / (2 * variance)
    total = np.logaddexp.reduce(first)
    return (np.logaddexp.reduce(order * first + (1 - order) * second) - total) / (order - 1)


@pytest.mark.parametrize("order", [1.5, 4.0, 22.0])
@pytest.mark.parametrize("variance", [Fraction(3, 10), Fraction(2)])
@pytest.mark.parametrize("relation", Neighbours)
def test_no_pair_of_rows_tells_more_than_the_event_says(relation, variance, order):
    parts = ((Residual((WAYS["sex"][0],)), variance), (Residual((WAYS["sex"][0], WAYS["urgent"][1])), 2 * variance))
    measured = ResidualMeasurement(DOMAIN, parts)
    names = ["sex", "urgent"]
    axes, shape = product_axes(DOMAIN, names), product_shape(DOMAIN, names)
    table = np.array(
        [
            np.broadcast_to(block_weights(residual.block(row), axes), shape).reshape(-1)
            for residual, _ in measured.parts
            for row in residual.rows()
        ]
    )
    laws = [float(noise.scale) ** 2 for noise in measured.noises]
    stay = np.zeros((len(laws), 1), dtype=np.int64)
    others = stay if relation is Neighbours.ADD_REMOVE else table[:, :1]
    known = {
        (abs(int(move)), law): divergence(abs(int(move)), law, order)
        for line, law in zip(table - others, laws, strict=True)
        for move in line
    }
    worst = max(
        sum(known[abs(int(move)), law] for move, law in zip(column, laws, strict=True)) for column in (table - others).T
    )
    claimed = float(measured.event(Unit.each_row(relation)).renyi(Fraction(order)))
    assert worst <= claimed * (1 + 1e-9)
    if relation is Neighbours.ADD_REMOVE and variance > 1:
        assert worst >= 0.99 * claimed


@settings(deadline=None, max_examples=40, phases=FOUND)
@given(several)
def test_no_noise_is_smaller_than_what_is_priced(parts):
    measured = ResidualMeasurement(DOMAIN, tuple(parts))
    squares = [variance * row.square for residual, variance in parts for row in residual.rows()]
    for square, noise in zip(squares, measured.noises, strict=True):
        assert square <= noise.scale**2 <= square * (1 + Fraction(1, 2**38))


@given(st.fractions(min_value=Fraction(1, 10**6), max_value=10**9))
def test_a_root_is_exact_or_rounded_up(square):
    root = sqrt_above(square)
    assert square <= root * root < square * (1 + Fraction(1, 2**38))
    assert sqrt_above(square * square) == square


def test_an_event_comes_back_from_the_ledger_s_text():
    event = ResidualMeasurement(DOMAIN, ((Residual((WAYS["age"][0],)), Fraction(7, 3)),)).event(
        Unit.each_row(Neighbours.REPLACE)
    )
    assert event_from_json(event_to_json(event)) == event == UnevenGaussianEvent(Fraction(6, 7), Neighbours.REPLACE)


def test_the_number_of_rows_is_not_sold_where_it_is_public():
    counted = ResidualMeasurement(DOMAIN, ((Residual(), Fraction(2)),))
    assert counted.event(Unit.each_row(Neighbours.ADD_REMOVE)).ratio == Fraction(1, 2)
    with pytest.raises(InvalidArgument, match="is public where rows are replaced"):
        counted.event(Unit.each_row(Neighbours.REPLACE))


@pytest.mark.parametrize("parts", [(), ((Residual(), 0),), ((Residual(), 0.5),), ((Residual(), True),)])
def test_no_residuals_and_variances_that_are_none_are_refused(parts):
    with pytest.raises(InvalidArgument):
        ResidualMeasurement(DOMAIN, parts)
