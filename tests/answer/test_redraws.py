from __future__ import annotations

import numpy as np
import pytest

from benchmarks import sqlcoverage
from dodona.answer.answer import Answer, table_view
from dodona.answer.computed import ComputedAnswer
from dodona.answer.estimate import Estimate
from dodona.answer.laws import ErrorLaw, GaussianSumBound, NoiseSum, half_width, make_derived_values
from dodona.answer.redraws import SeededNumbers, result_band
from dodona.privacy.additive_noise import Gaussian, Laplace
from dodona.privacy.budget import FREE
from dodona.privacy.measurement import MeasuredValues
from dodona.query.statement import Statement
from dodona.schema.attributes import Category, Integer
from dodona.schema.schema import Schema
from dodona.sql.compile import read_statement

DRAWS = 20_000
SEED = b"redraws"


@pytest.mark.parametrize("law", [Laplace(scale=7), Gaussian(scale=7)])
def test_redraws_have_the_law_of_the_noise_and_come_in_pairs(law):
    """The variance of 10,000 pairs is within 6 deviations of the law's: a false alarm in 10^8."""
    draws = SeededNumbers(SEED).noise(law, DRAWS, 3)
    assert np.array_equal(draws[: DRAWS // 2], -draws[DRAWS // 2 :])
    assert np.array_equal(draws, np.rint(draws))
    share = float(np.mean(np.abs(draws) <= law.accuracy(0.9).within))
    exact = 1 - 0.1  # at least, as the noise is discrete
    assert exact - 0.013 < share < exact + 0.04


def test_endless_and_huge_redraws_have_intervals_without_a_warning():
    drawn = np.full((10, 2), [np.inf, 1e200])
    drawn[::2, 1] = -1e200
    result = result_band(np.array([np.inf, 0.0]), drawn, (), 0.05)
    assert (result.band.low[0], result.band.high[0]) == (-np.inf, np.inf)
    assert result.band.low[1] <= -1e200 < 1e200 <= result.band.high[1]


def test_redraws_depend_on_the_seed_alone():
    first, same, other = (SeededNumbers(seed).normal(5, 2) for seed in (SEED, SEED, b"another"))
    assert np.array_equal(first, same)
    assert not np.array_equal(first, other)


def test_uniform_numbers_are_uniform():
    """Of 100,000 numbers the shares of ten parts are within 0.006 of a tenth: six deviations."""
    numbers = SeededNumbers(SEED).uniform(100_000)
    assert numbers.min() > 0
    assert numbers.max() < 1
    assert np.abs(np.histogram(numbers, 10, (0, 1))[0] / 100_000 - 0.1).max() < 0.006


def test_what_noise_does_not_change_has_no_width():
    value = np.array([3.0, np.nan])
    drawn = np.tile(value, (102, 1))
    result = result_band(value, drawn, (), 0.05)
    assert result.steady.tolist() == [True, True]
    assert result.band.low[0] == result.band.high[0] == 3.0
    assert not result.approximate.any()


def test_a_result_that_too_few_redraws_have_gets_no_interval():
    drawn = np.full((102, 1), np.nan)
    drawn[:40, 0] = np.arange(40)
    result = result_band(np.array([20.0]), drawn, (), 0.05)
    assert np.isinf(result.band.low[0])
    assert np.isinf(result.band.high[0])


def test_a_biased_result_is_covered_by_the_mirror_images_of_its_redraws():
    """|x| at 0: redraws are never below 0, but the exact value may be."""
    noise = SeededNumbers(SEED).normal(500, 1)
    both = np.concatenate([noise, -noise, [[-3.0], [3.0]]])
    result = result_band(np.array([0.5]), np.abs(0.5 - both), (), 0.05)
    assert result.band.low[0] <= 0
    assert result.approximate[0]


@pytest.mark.parametrize("kind", ["percent of total", "largest", "absolute change"])
def test_intervals_through_the_outer_half_hold_the_exact_value(kind):
    """Of 24 intervals a law at most 9 miss at 95%: a false alarm in 10^7, if they are independent."""
    assert sqlcoverage.measure(24, (kind,))[kind] >= 15 / 24


SHARES = Schema.of("visits", Category("ward", list("abcdefgh"), otherwise="a"), size=10_000)
LAW = Laplace(scale=20)


def derived(sql: str, errors: np.ndarray, law: ErrorLaw = LAW) -> Estimate:
    """The first estimate of a statement over eight counts of 1,000 that follow from releases, with these errors."""
    asked = read_statement("WITH x AS (SELECT ward, count(*) AS n FROM visits GROUP BY ward) " + sql, SHARES)  # noqa: S608  written below
    assert isinstance(asked, Statement)
    measured = make_derived_values(asked.parts[0], [(1000 + errors).tolist()], [law])
    part = Answer(measured=measured, price=FREE, view=table_view(0.95, 10_000), source="derived")
    cells = ComputedAnswer.compute(asked, (part,)).rows[0].cells
    return next(cell for cell in cells if isinstance(cell, Estimate))


@pytest.mark.parametrize(
    ("value", "signs"),
    [
        ("sum(n)", [1] * 8),
        ("max(n) FILTER (WHERE ward = 'a') - max(n) FILTER (WHERE ward = 'b')", [1, -1] + [0] * 6),
        ("sum(CASE WHEN ward IN ('a', 'c', 'e', 'g') THEN n ELSE -n END)", [1, -1] * 4),
    ],
    ids=["all together", "two apart", "turn by turn"],
)
@pytest.mark.parametrize(
    "law", [LAW, NoiseSum.of([0.5] * 4, LAW), GaussianSumBound(400.0, 1.0)], ids=["one", "sum", "bound"]
)
def test_a_sum_of_values_that_share_one_draw_is_held(value: str, signs: list[int], law: ErrorLaw) -> None:
    """The worst joint law: one draw moves all values in the directions that move the result."""
    estimate = derived(f"SELECT {value} AS v FROM x", np.zeros(8), law)  # noqa: S608  written above
    worst = sum(map(abs, signs)) * half_width(law, 0.05)
    assert estimate.value - estimate.low >= 0.999 * worst
    assert estimate.high - estimate.value >= 0.999 * worst
    assert estimate.high - estimate.value <= 2 * worst  # Chernoff's bound is not far from the quantile


@pytest.mark.parametrize("signs", [[1, -1] + [0] * 6, [1] * 8, [1] + [-1] * 7])
def test_a_ratio_of_values_that_share_one_draw_is_held(signs: list[int]) -> None:
    """Of 60 intervals at 95% at most 11 miss: a false alarm in 10^4."""
    draws = np.rint(np.random.default_rng(3).laplace(0, 20, 60))
    value = "max(n) FILTER (WHERE ward = 'a') / sum(n)"
    held = 0
    for draw in draws:
        estimate = derived(f"SELECT {value} AS v FROM x", draw * np.array(signs))  # noqa: S608  written above
        held += estimate.low <= 1 / 8 <= estimate.high
    assert held >= 49


def test_a_released_ratio_without_a_value_in_some_redraws_leaves_others_their_law():
    schema = Schema.of("stays", Category("ward", ("a", "b")), Integer("age", 0, 9), size=100)
    x = "WITH x AS (SELECT ward, count(*) / count(age) AS r, count(*) AS n FROM stays GROUP BY ward)"
    asked = read_statement(f"{x} SELECT r, n, n * n FROM x", schema)  # noqa: S608  written above
    assert isinstance(asked, Statement)
    (question,) = asked.parts
    law = Laplace(scale=3)
    values = MeasuredValues(
        question, [2] * question.query.values, (law, law)
    )  # counts near 0: some redraws divide by 0
    answer = ComputedAnswer.compute(asked, [Answer(measured=values, price=FREE, view=table_view(0.95, 100))])
    within = half_width(law, 0.05)
    assert [row.cells[1] for row in answer.rows] == [Estimate(2, 2 - within, 2 + within)] * len(answer.rows)
    assert answer.approximate == (True, False, True)


@pytest.mark.parametrize("value", ["coalesce(r, 0)", "sum(r) OVER ()", "r"], ids=["coalesce", "sum", "itself"])
def test_what_is_computed_from_an_unknown_value_is_not_known_either(value):
    schema = Schema.of("stays", Category("ward", ("a", "b"), otherwise="a"), Integer("age", 0, 9), size=100)
    x = "WITH x AS (SELECT ward, count(*) / count(age) AS r FROM stays GROUP BY ward)"
    asked = read_statement(f"{x} SELECT ward, {value} AS v, DP_INTERVAL_LOW(r) AS low FROM x", schema)  # noqa: S608  written above
    assert isinstance(asked, Statement)
    (question,) = asked.parts
    values = MeasuredValues(question, [90, 90, 0, 0], (Laplace(scale=1),) * 2)  # nothing is divided by 0
    answer = ComputedAnswer.compute(asked, [Answer(measured=values, price=FREE, view=table_view(0.95, 100))])
    assert [(row.cells[1].low, row.cells[1].high) for row in answer.rows] == [(-np.inf, np.inf)] * 2
    assert [row.cells[2] for row in answer.rows] == [None, None]
    assert answer.to_arrow().num_rows == 2
