"""The rows of a base are whole numbers that sum to 0, and its scalars are those of all classes and pairs of them."""

import hashlib
from fractions import Fraction

import numpy as np
import pytest

from dodona.query.bases import (
    Base,
    base_length,
    base_reach,
    base_rows,
    base_squares,
    farthest_step,
    largest_weight,
    least_overlap,
    middle_code,
    row_reach,
)

NUMBERS = (2, 3, 4, 5, 7, 8, 12, 31, 113)


def precision(base, number):
    """W = Σ_j b_jᵀ·b_j/n_j over the classes, in fractions."""
    cells = base_rows(base, number).shape[1]
    total = np.zeros((cells, cells), dtype=object)
    for row, square in zip(base_rows(base, number).tolist(), base_squares(base, number), strict=True):
        line = np.array(row, dtype=object)
        total = total + np.outer(line, line) * Fraction(1, square)
    return total


@pytest.mark.parametrize("base", [Base.POINTS, Base.RANGES])
@pytest.mark.parametrize("number", NUMBERS)
def test_rows_sum_to_nought_and_leave_nothing_out(base, number):
    rows = base_rows(base, number)
    assert rows.dtype == np.int64
    assert rows.shape == (number - 1, number)
    assert (rows.sum(axis=1) == 0).all()
    assert np.linalg.matrix_rank(rows.astype(np.float64)) == number - 1
    assert base_reach(base, number) == np.abs(rows).sum(axis=1).max()


@pytest.mark.parametrize("base", Base)
@pytest.mark.parametrize("number", [2, 3, 4, 5, 7, 8, 12])
def test_the_scalars_are_those_of_every_class_and_every_pair(base, number):
    table = precision(base, number)
    assert largest_weight(base, number) == max(table.diagonal())
    assert least_overlap(base, number) == table.min()


@pytest.mark.parametrize("number", [2, 3, 4, 85, 512, 1024])
def test_products_of_waves_are_exact_in_doubles(number):
    assert base_squares(Base.RANGES, number)[0] < 1 << 53
    rows = base_rows(Base.RANGES, number)[:, :64].astype(object)
    table = base_rows(Base.RANGES, number)[:, :64].astype(np.float64)
    assert (rows.T @ rows == (table.T @ table).astype(np.int64)).all()


def worst_variances(number):
    """The largest variance of a range and of a point at σ² = 1, by inverting the precision."""
    rows, square = base_rows(Base.RANGES, number).astype(np.float64), base_squares(Base.RANGES, number)[0]
    covariance = np.linalg.pinv(rows.T @ rows / square)
    sums = np.zeros((number + 1, number + 1))
    sums[1:, 1:] = covariance.cumsum(axis=0).cumsum(axis=1)
    ranges = sums.diagonal()[:, None] + sums.diagonal() - 2 * sums
    return ranges.max(), covariance.diagonal().max()


@pytest.mark.parametrize(
    ("number", "ranges", "points"), [(12, 1.68, 1.17), (85, 4.73, 1.97), (128, 5.57, 2.14), (512, 8.89, 2.7)]
)
def test_price_times_variance_of_ranges_is_near_the_least_that_is_known(number, ranges, points):
    """Points have (1 - 1/m)·m/4: 21.0 for 85 classes, 127.8 for 512."""
    assert largest_weight(Base.RANGES, number) == 1
    widest, single = worst_variances(number)
    assert widest <= ranges
    assert single <= points


def test_the_rows_are_permanent():
    """Ledgers hold noisy sums over these rows: another rounding would read them as something else."""
    data = b"".join(base_rows(Base.RANGES, number).tobytes() for number in (*range(2, 130), 365, 512, 1024))
    assert hashlib.sha256(data).hexdigest() == "962bdc7e6263df065e57038cae116db9ca0f167698876b2875295240dcb9b619"


def test_the_waves_are_cosines_and_sines():
    rows = base_rows(Base.RANGES, 85)
    angles = 2 * np.pi * np.arange(85) / 85
    for number, row in enumerate(rows):
        wave = (np.cos, np.sin)[number % 2]((number // 2 + 1) * angles)
        assert np.abs(row - wave * (row @ wave) / (wave @ wave)).max() <= 1


@pytest.mark.parametrize("number", NUMBERS)
def test_numbers_are_counted_from_the_middle_and_no_cell_is_in_two_rows(number):
    steps = base_rows(Base.NUMBERS, number)
    assert steps.tolist() == [[code - middle_code(number) for code in range(number)]]
    assert farthest_step(number) == abs(steps).max() <= (number + 1) // 2
    values = base_rows(Base.VALUES, number)
    assert (values[:1, :-1] == steps).all()
    assert values[1].tolist() == [0] * number + [1]
    assert not (values[0] * values[1]).any()
    assert [base_length(base, number) for base in (Base.VALUES, Base.NUMBERS)] == [2, 1]


@pytest.mark.parametrize("number", NUMBERS)
def test_squares_go_from_one_end_to_the_other(number):
    steps = base_rows(Base.NUMBERS, number)[0]
    squares = base_rows(Base.NUMBER_SQUARES, number)
    assert ((squares[0] + farthest_step(number) ** 2) == 2 * steps**2).all()
    assert squares.max() == -squares.min() == row_reach(Base.SQUARES, number) == farthest_step(number) ** 2
    values = base_rows(Base.SQUARES, number)
    assert (values[:1, :-1] == squares).all()
    assert values[1].tolist() == [0] * number + [1]
    assert base_squares(Base.SQUARES, number) == (int(squares.max()) ** 2, 1)
    for base in (Base.SQUARES, Base.NUMBER_SQUARES):
        table = base_rows(base, number).T / np.sqrt(np.array(base_squares(base, number), dtype=float))
        overlap = table @ table.T
        assert overlap.max() == pytest.approx(float(largest_weight(base, number)))
        assert overlap.min() == pytest.approx(float(least_overlap(base, number)))


def test_the_middle_is_permanent():
    """Ledgers hold sums of steps from it; an average is centred there too, so that its two noises are independent."""
    assert [middle_code(number) for number in range(2, 12)] == [0, 1, 2, 2, 2, 3, 4, 4, 4, 5]
