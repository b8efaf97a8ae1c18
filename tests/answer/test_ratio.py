"""Ratios: the test is honest for the discrete laws, and the interval is the hull of what it leaves."""

import math
from itertools import chain, combinations_with_replacement, product

import duckdb
import numpy as np
import pytest

from dodona.answer.ratios import (
    NormalRatio,
    Ratio,
    RatioNoise,
    bounded_ratio_band,
    can_invert,
    ratio_band,
    share_bounds,
    two_laplace_tail,
)
from dodona.lab.mechanisms import Gaussian, Laplace
from dodona.privacy.budget import FREE
from dodona.privacy.measurement import MeasuredValues
from dodona.query.question import Question
from dodona.schema.attributes import Boolean, Integer
from dodona.schema.schema import Schema
from dodona.sql.compile import read_statement
from tests.answer.scene import answer_from

PAIRS = [
    (Laplace(scale=2), Laplace(scale=2)),
    (Laplace(scale="1/2"), Laplace(scale=1)),
    (Laplace(scale=1), Laplace(scale=30)),
    (Gaussian(scale=2), Gaussian(scale=3)),
    (Gaussian(scale="1/2"), Gaussian(scale="1/2")),
    (Laplace(scale=2), Gaussian(scale=2)),
    (Gaussian(scale=5), Laplace(scale=1)),
]


def ratio(above, below, noises, *, unit: float = 1.0) -> Ratio:
    parts = (RatioNoise(unit, 0.0, noises[0]), RatioNoise(0.0, 1.0, noises[1]))
    return Ratio(np.atleast_1d(np.asarray(above, float)), np.atleast_1d(np.asarray(below, float)), parts)


@pytest.mark.parametrize("noises", PAIRS)
@pytest.mark.parametrize("truth", [0.0, 0.37, 1.0, -3.0, 40.0])
@pytest.mark.parametrize("failing", [0.3, 0.05, 0.01])
def test_the_true_ratio_is_rejected_as_rarely_as_promised_by_the_discrete_laws(noises, truth, failing) -> None:
    """Summed over all pairs of noises, not drawn: the probability that the truth is left out."""
    reach = [int(14 * float(noise.scale)) + 25 for noise in noises]
    first, second = (np.arange(-r, r + 1) for r in reach)
    weights = np.outer(*([noises[i].probability(int(s)) for s in steps] for i, steps in enumerate((first, second))))
    above = np.repeat(1000 * truth + first, len(second))
    below = np.tile(1000.0 + second, len(first))
    kept = ratio(above, below, noises).accepts(np.full(len(above), truth), failing)
    assert float(weights.ravel()[~kept].sum()) <= failing


@pytest.mark.parametrize("noises", PAIRS)
def test_the_interval_is_the_hull_of_the_estimate_and_all_candidates_that_are_accepted(noises) -> None:
    random = np.random.default_rng(3)
    above, below = random.integers(-200, 200, 60).astype(float), random.integers(-40, 120, 60).astype(float)
    case = ratio(above, below, noises)
    band = bounded_ratio_band(case, lower=-2.0, upper=5.0, failing=0.05)
    grid = np.linspace(-2, 5, 7001)
    kept = np.stack([case.accepts(np.full(60, place), 0.05) for place in grid], axis=1)
    with np.errstate(divide="ignore"):
        estimates = np.where(below > 0, np.clip(above / below, -2, 5), 1.5)  # the middle where nothing is counted
    assert band.value == pytest.approx(estimates)
    for group in range(60):
        accepted = np.sort(np.append(grid[kept[group]], estimates[group]))
        if np.any(kept[group]):
            assert band.low[group] <= accepted[0] + 1e-9
            assert band.high[group] >= accepted[-1] - 1e-9
            assert band.low[group] >= accepted[0] - 0.0011
            assert band.high[group] <= accepted[-1] + 0.0011
        else:
            assert (band.high[group] - band.low[group] < 0.0011) or (band.low[group], band.high[group]) == (-2, 5)


@pytest.mark.parametrize("noises", PAIRS)
def test_where_the_denominator_may_be_zero_the_interval_has_no_ends(noises) -> None:
    band = ratio_band(ratio([100, 100, 0], [0, 1, 1_000_000], noises), failing=0.05)
    assert (band.low[0], band.high[0]) == (band.low[1], band.high[1]) == (-math.inf, math.inf)
    assert np.isnan(band.value[0])
    assert -0.001 < band.low[2] < 0 < band.high[2] < 0.001


@pytest.mark.parametrize("noises", PAIRS)
def test_an_interval_without_bounds_is_the_hull_too(noises) -> None:
    case = ratio([3_000.0, -500.0], [900.0, 400.0], noises)
    band = ratio_band(case, failing=0.05)
    for inward, outward in ((1e-6, -1e-6), (-1e-6, 1e-6)):
        ends = band.low if inward > 0 else band.high
        assert np.all(case.accepts(ends + inward, 0.05))
        assert not np.any(case.accepts(ends + outward, 0.05))


@pytest.mark.parametrize(("first", "second"), [(1.0, 2.0), (3.0, 3.0), (3.0, 3.000001), (5.0, 0.0), (1e-9, 4.0)])
def test_the_tail_of_two_laplace_draws_is_the_integral(first, second) -> None:
    places = np.array([0.0, 0.5, 2.0, 9.0, 40.0])
    tails = two_laplace_tail(places, np.full(5, first), np.full(5, second))
    grid = np.linspace(-60, 60, 400_001)
    density = np.exp(-np.abs(grid)) / 2
    step = grid[1] - grid[0]
    for place, tail in zip(places, tails, strict=True):
        away = np.abs(place - first * grid), np.abs(-place - first * grid)
        upper = np.where(
            place > first * grid,
            np.exp(-away[0] / max(second, 1e-12)) / 2,
            1 - np.exp(-away[0] / max(second, 1e-12)) / 2,
        )
        assert tail == pytest.approx(2 * float(np.sum(density * upper) * step), abs=2e-4)


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("small", ["1/1000", "1", "900", "2000", "100000"])
def test_a_small_laplace_part_beside_a_wide_normal_one_changes_little_and_never_narrows(order, small) -> None:
    wide = Gaussian(scale=10**8)
    noises = (wide, Laplace(scale=small))[::order]
    reach = 1.959964 * 10**8
    places = np.array([0.999, 1.003]) * reach
    parts = tuple(RatioNoise(1.0, 0.0, noise) for noise in noises)
    kept = Ratio(places, np.ones(2), parts).accepts(np.zeros(2), 0.05)
    assert kept.tolist() == [True, False]


def test_three_laplace_noises_are_left_to_the_arithmetic_of_intervals() -> None:
    assert can_invert([Gaussian(scale=2)] * 5)
    assert can_invert([Laplace(scale=2)] * 2)
    assert not can_invert([Laplace(scale=2)] * 3)


@pytest.mark.parametrize("scales", [(4, 4), (30, 5), (4, 60)])
@pytest.mark.parametrize("truth", [0.0, 0.37, 1.0, -3.0, 40.0])
@pytest.mark.parametrize("failing", [0.3, 0.05, 0.01])
def test_the_true_ratio_of_sums_of_draws_is_rejected_as_rarely_as_promised(scales, truth, failing) -> None:
    """Summed over all pairs of single draws, the coarsest sums of all; and not much more rarely."""
    noises = [Gaussian(scale=scale) for scale in scales]
    first, second = (np.arange(-14 * scale - 25, 14 * scale + 26) for scale in scales)
    weights = np.outer(*([noises[i].probability(int(s)) for s in steps] for i, steps in enumerate((first, second))))
    above = np.repeat(1000 * truth + first, len(second))
    below = np.tile(1000.0 + second, len(first))
    spread = tuple(np.full(len(above), float(scale) ** 2) for scale in scales)
    case = NormalRatio(above, below, spread, np.zeros(len(above)), 1 / min(scales))
    missed = float(weights.ravel()[~case.accepts(np.full(len(above), truth), failing)].sum())
    assert 0.3 * failing <= missed <= failing


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("truth", [0.0, 0.37, 1.0, -3.0, 40.0])
@pytest.mark.parametrize("failing", [0.3, 0.05, 0.01])
def test_the_true_ratio_of_sums_that_share_draws_is_rejected_as_rarely_as_promised(sign, truth, failing) -> None:
    """The numerator has the first draw and half of the second; the denominator the second, with either sign."""
    scales = (6, 9)
    noises = [Gaussian(scale=scale) for scale in scales]
    first, second = (np.arange(-14 * scale - 25, 14 * scale + 26) for scale in scales)
    weights = np.outer(*([noises[i].probability(int(s)) for s in steps] for i, steps in enumerate((first, second))))
    own, shared = np.repeat(first, len(second)), np.tile(second, len(first))
    spread = tuple(np.full(len(own), number) for number in (6.0**2 + 9.0**2 / 4, 9.0**2))
    both = np.full(len(own), sign * 9.0**2 / 2)
    case = NormalRatio(1000 * truth + own + shared / 2, 1000.0 + sign * shared, spread, both, 1 / min(scales))
    missed = float(weights.ravel()[~case.accepts(np.full(len(own), truth), failing)].sum())
    assert 0.3 * failing <= missed <= failing


STAYS = Schema.of("stays", Boolean("sick", otherwise=False), Integer("age", -1, 3, otherwise=0), size=1000)
SHARES = {
    "count(*) FILTER (WHERE sick) / count(*)": (0, 1),
    "100.0 * count(*) FILTER (WHERE sick AND age > 1) / count(*) FILTER (WHERE sick)": (0, 100),
    "1 - count_if(age >= 2) / count(*)": (0, 1),
    "count_if(age > 1) / count_if(age > 0)": (0, 1),
    "count(*) / -2.0 / count(*) + 3 * count_if(sick) / count(*)": None,
    "(3 * count_if(sick) - count(*)) / count(*)": (-1, 2),
    "sum(CASE WHEN sick THEN 2 ELSE 1 END) / count(*)": (0, 2),
    "sum(age) / count(*)": (-1, 3),
    "sum(age) FILTER (WHERE sick) / count_if(sick)": (-1, 3),
    "count_if(sick) / count_if(age > 0)": None,
    "count(*) / count_if(sick)": None,
    "(count_if(sick) + 5) / count(*)": None,
    "count_if(sick) / (count(*) + 5)": None,
    "count_if(sick) / (count(*) - count_if(age > 0))": None,
}


def share(text: str) -> Question:
    question = read_statement(f"SELECT {text} AS part FROM stays", STAYS)  # noqa: S608  from below
    assert isinstance(question, Question)
    return question


@pytest.mark.parametrize("text", SHARES)
def test_no_table_has_a_share_beyond_its_bounds(text: str) -> None:
    """Of all tables of up to three rows, computed by DuckDB."""
    question = share(text)
    bounds = share_bounds(question.columns[0].expression, question.query)
    assert bounds == SHARES[text]
    if bounds is not None:
        kinds = list(product((False, True), range(-1, 4)))
        tables = chain.from_iterable(combinations_with_replacement(kinds, rows) for rows in (1, 2, 3))
        rows = [(number, *row) for number, table in enumerate(tables) for row in table]
        database = duckdb.connect()
        database.execute("CREATE TABLE stays (number INTEGER, sick BOOLEAN, age INTEGER)")
        database.executemany("INSERT INTO stays VALUES (?, ?, ?)", rows)
        found = database.execute(f"SELECT {text} FROM stays GROUP BY number").fetchall()  # noqa: S608  from above
        shares = [float(number) for (number,) in found if number is not None and math.isfinite(number)]
        assert len(shares) > 100
        assert bounds[0] <= min(shares)
        assert max(shares) == bounds[1]


def test_a_share_of_few_rows_stays_within_its_bounds() -> None:
    question = share("count(*) FILTER (WHERE sick) / count(*)")
    for values, told in (((5, 3), False), ((4, -6), True), ((300, 900), False)):
        measured = MeasuredValues(question, values, (Laplace(scale=20), Laplace(scale=20)))
        answer = answer_from(measured, price=FREE)
        assert 0 <= answer.value.low <= answer.value.value <= answer.value.high <= 1
        whole = (answer.value.low, answer.value.high) == (0, 1)
        assert whole >= told
        assert any("rest on too few rows" in warning for warning in answer.warnings) == whole
