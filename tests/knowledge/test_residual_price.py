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
from dodona.query.bases import Base, base_rows, base_squares
from dodona.query.query import block_weights, group_numbers, product_axes, product_shape
from dodona.query.residual import Classes, Residual
from dodona.schema.attributes import Boolean, Category, Integer
from dodona.schema.schema import Domain, Neighbours, Unit
from tests.house.shares import examples

FOUND = (Phase.explicit, Phase.reuse, Phase.generate)  # a fault is told at once; making it small takes minutes
DOMAIN = Domain((Category("sex", ["f", "m"]), Boolean("urgent"), Integer("age", 0, 1)))
WAYS = {
    "sex": (Classes.of(DOMAIN["sex"]), Classes.split(DOMAIN["sex"], 0b0001), Classes.split(DOMAIN["sex"], 0b0011)),
    "urgent": (Classes.split(DOMAIN["urgent"], 0b0010), Classes("urgent", 4, (0b0001, 0b0010, 0b1100))),
    "age": (Classes.of(DOMAIN["age"]),),
}
COUNTED = (Base.POINTS, Base.RANGES)
variances = st.fractions(min_value=Fraction(1, 10), max_value=50, max_denominator=20)
residuals = st.sets(st.sampled_from(sorted(WAYS)), max_size=3).flatmap(
    lambda names: st.tuples(*(st.sampled_from(WAYS[name]) for name in sorted(names))).map(Residual)
)
several = st.lists(st.tuples(residuals, variances), min_size=1, max_size=5)
based = st.sets(st.sampled_from(sorted(WAYS)), max_size=3).flatmap(
    lambda names: st.tuples(
        *(st.builds(Classes.based, st.sampled_from(WAYS[name]), st.sampled_from(COUNTED)) for name in sorted(names))
    ).map(Residual)
)
several_based = st.lists(st.tuples(based, variances), min_size=1, max_size=5)


def row_weights(residual, row, names):
    """The weight of each cell of some columns in one row of a residual, from the integers of its bases."""
    combined = np.ones([1] * len(names), dtype=np.int64)
    for classing, step in zip(residual.classes, row.steps, strict=True):
        weights = base_rows(classing.base, classing.number)[step - 1][classing.labels()]
        combined = combined * weights.reshape([-1 if name == classing.attribute else 1 for name in names])
    return np.broadcast_to(combined, product_shape(DOMAIN, names)).reshape(-1)


def walked(parts, relation):
    """The largest Σ change²/(σ²N) over all neighbours, from the weights of every cell of the domain."""
    lines, squares = [], []
    for residual, variance in parts:
        for row in residual.rows():
            lines.append(row_weights(residual, row, DOMAIN.names).tolist())
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


@settings(deadline=None, max_examples=examples(60), phases=FOUND)
@given(several, st.sampled_from(Neighbours))
def test_the_price_is_exactly_that_of_a_walk_through_all_neighbours(parts, relation):
    assert worst_ratio(parts, Unit.each_row(relation)) == walked(parts, relation)


@settings(deadline=None, max_examples=examples(60), phases=FOUND)
@given(several_based, st.sampled_from(Neighbours))
def test_no_neighbours_move_residuals_in_any_bases_by_more_than_their_price(parts, relation):
    """Where rows are added the price is exact only for one residual: classes that move two of them most may differ."""
    price, moved = worst_ratio(parts, Unit.each_row(relation)), walked(parts, relation)
    assert moved <= price
    assert price <= moved * Fraction(21, 20) + sum(
        (largest_squared_move(residual) / variance for residual, variance in parts[1:]), Fraction(0)
    )
    if relation is Neighbours.REPLACE:
        assert price <= worst_ratio(parts, Unit.each_row(relation), limit=0)
    elif len(parts) == 1:
        assert price == moved


@pytest.mark.parametrize("number", [4, 9])
def test_a_wave_column_in_two_ways_is_priced_for_every_pair_of_cells(number):
    """Beside points in the same column: cells that differ in neither way may overlap less than fully in waves."""
    age = Integer("age", 0, number - 3)
    fine, coarse = Classes.of(age), Classes.split(age, (1 << number // 2) - 1)
    for ways in ((fine.based(Base.RANGES), coarse), (fine.based(Base.RANGES), fine), (fine, coarse)):
        precision = sum(squared_distances(classing) for classing in ways)
        parts = [(Residual((classing,)), Fraction(1)) for classing in ways]
        price = worst_ratio(parts, Unit.each_row(Neighbours.REPLACE))
        assert precision.max() <= price <= 2 * precision.max()


def overlaps(classes):
    """Σ_j b_j(x)·b_j(y)/n_j for all pairs of cells, in doubles."""
    rows = base_rows(classes.base, classes.number)[:, classes.labels()].astype(np.float64)
    return (rows.T / np.array(base_squares(classes.base, classes.number))) @ rows


def test_neighbouring_cells_of_different_classes_may_overlap_in_waves():
    """They differ in the coarse classes and hardly in the waves: no combination of differing and not differing."""
    age, urgent = Integer("age", 0, 28), Classes.split(Boolean("urgent"), 0b10)
    waves, coarse = Classes.of(age).based(Base.RANGES), Classes.split(age, (1 << 15) - 1)
    parts = [(Residual((waves, urgent)), Fraction(1)), (Residual((coarse,)), Fraction(1, 2))]
    fine, halves, other = overlaps(waves), overlaps(coarse), overlaps(urgent)
    together = fine[:, None, :, None] * other[None, :, None, :]  # by age and urgency of the one row and of the other
    diagonal = np.multiply.outer(fine.diagonal(), other.diagonal())
    moved = diagonal[:, :, None, None] + diagonal[None, None] - 2 * together
    split = halves.diagonal()[:, None] + halves.diagonal() - 2 * halves
    worst = (moved + 2 * split[:, None, :, None]).max()
    price = float(worst_ratio(parts, Unit.each_row(Neighbours.REPLACE)))
    assert worst <= price * (1 + 1e-12)
    assert price <= 1.3 * worst


def squared_distances(classes):
    """For all pairs of cells Σ_j (b_j(x) - b_j(y))²/n_j, in fractions."""
    rows = base_rows(classes.base, classes.number)[:, classes.labels()].astype(object)
    apart = (rows[:, :, None] - rows[:, None, :]) ** 2
    return sum(
        distances * Fraction(1, square)
        for distances, square in zip(apart, base_squares(classes.base, classes.number), strict=True)
    )


def test_an_attribute_that_is_classed_in_two_ways_may_differ_in_one_of_them():
    """The worst pair differs in the second way to class the sex, and in urgency, and not in the first way."""
    first, second, urgent = WAYS["sex"][1], WAYS["sex"][2], WAYS["urgent"][0]
    parts = [(Residual(classes), Fraction(1)) for classes in ((first, urgent), (second,), (urgent,))]
    assert (
        worst_ratio(parts, Unit.each_row(Neighbours.REPLACE))
        == walked(parts, Neighbours.REPLACE)
        == sum(map(largest_squared_move, dict(parts)))
    )


@settings(deadline=None, max_examples=examples(40), phases=FOUND)
@given(several)
def test_beyond_the_limit_the_price_is_a_bound(parts):
    exact, bound = (
        worst_ratio(parts, Unit.each_row(Neighbours.REPLACE)),
        worst_ratio(parts, Unit.each_row(Neighbours.REPLACE), limit=0),
    )
    assert exact <= bound
    assert bound == sum(largest_squared_move(residual) / variance for residual, variance in parts)


@settings(deadline=None, max_examples=examples(40), phases=FOUND)
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
@pytest.mark.parametrize("base", COUNTED)
@pytest.mark.parametrize("relation", Neighbours)
def test_no_pair_of_rows_tells_more_than_the_event_says(relation, base, variance, order):
    sex, urgent = WAYS["sex"][0].based(base), WAYS["urgent"][1]
    if base is Base.RANGES:
        variance = (
            variance / 1000
        )  # waves are integers in the hundreds: with less noise their law is seen to be discrete
    parts = ((Residual((sex,)), variance), (Residual((sex, urgent)), 2 * variance))
    measured = ResidualMeasurement(DOMAIN, parts)
    names = ("sex", "urgent")
    table = np.array([row_weights(residual, row, names) for residual, _ in measured.parts for row in residual.rows()])
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
    if relation is Neighbours.ADD_REMOVE and base is Base.POINTS and variance > 1:
        assert worst >= 0.99 * claimed


@settings(deadline=None, max_examples=examples(40), phases=FOUND)
@given(several_based)
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


SUMMED = Domain((Category("sex", ["f", "m"]), Integer("age", 0, 3), Integer("stay", 0, 2, otherwise=0)))
SUM_WAYS = {
    "sex": (Classes.of(SUMMED["sex"]), Classes.split(SUMMED["sex"], 0b0011)),
    "age": (
        Classes.summed(SUMMED["age"]),
        Classes.summed(SUMMED["age"], 2),
        Classes.of(SUMMED["age"]),
        Classes.of(SUMMED["age"]).based(Base.RANGES),
    ),
    "stay": (Classes.summed(SUMMED["stay"]), Classes.summed(SUMMED["stay"], 2), Classes.of(SUMMED["stay"])),
}
summed = (
    st.sets(st.sampled_from(sorted(SUM_WAYS)), max_size=3)
    .flatmap(lambda names: st.tuples(*(st.sampled_from(SUM_WAYS[name]) for name in sorted(names))))
    .filter(lambda own: sum(classing.base.sums for classing in own) < 2)
    .map(Residual)
)
several_summed = st.lists(st.tuples(summed, variances), min_size=1, max_size=5)


def read_of_each_cell(measured):
    """What the gate would turn into rows if the table had one row: a column for each cell, from the blocks it asks."""
    shape = product_shape(SUMMED, SUMMED.names)
    axes = product_axes(SUMMED, SUMMED.names)
    blocks = measured.query.blocks
    weights = [np.broadcast_to(block_weights(block, axes), shape).reshape(-1) for block in blocks]
    groups = [
        np.broadcast_to(group_numbers(block.keys, axes) if block.keys else np.int64(0), shape).reshape(-1)
        for block in blocks
    ]
    columns = []
    for cell in range(math.prod(shape)):
        counts = []
        for block, weight, group in zip(blocks, weights, groups, strict=True):
            values = [0] * block.values
            values[int(group[cell])] = int(weight[cell])
            counts += values
        columns.append(measured.turned(counts))
    return np.array(columns, dtype=object).T


@pytest.mark.parametrize("rows", [1, 3])
@settings(deadline=None, max_examples=examples(40), phases=FOUND)
@given(parts=several_summed, relation=st.sampled_from(Neighbours))
def test_no_neighbours_move_sums_by_more_than_their_price(parts, relation, rows):
    """By all cells of a table and all pairs of them, through the very blocks and rows that are released.

    A person may have several rows, all in the worst cell; each neighbour's rows are bounded likewise.
    """
    measured = ResidualMeasurement(SUMMED, tuple(parts))
    table = np.unique(read_of_each_cell(measured).astype(np.int64), axis=1).astype(object)
    squares = [variance * row.square for residual, variance in parts for row in residual.rows()]
    common = math.lcm(*(square.numerator for square in squares))
    worth = np.array([int(common / square) for square in squares], dtype=object)
    moved = Fraction(max(worth @ (table * table)), common)
    if relation is Neighbours.REPLACE:
        apart = (table[:, :, None] - table[:, None, :]).reshape(len(table), -1)
        moved = Fraction(max(worth @ (apart * apart)), common)
    unit = Unit.each_row(relation) if rows == 1 else Unit(id="who", neighbours=relation, rows=rows, size=100)
    assert rows**2 * moved <= worst_ratio(parts, unit)
    if len(parts) == 1 and relation is Neighbours.ADD_REMOVE:
        assert rows**2 * moved == worst_ratio(parts, unit)
