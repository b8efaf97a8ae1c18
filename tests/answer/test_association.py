"""Covariances, correlations and lines: whatever the noise within its bounds, the exact value is in the interval."""

import itertools

import duckdb
import numpy as np
import pytest

from dodona.answer.evaluation import evaluate
from dodona.lab.mechanisms import Gaussian, Laplace
from dodona.privacy.measurement import MeasuredValues
from dodona.query.query import block_weights
from dodona.query.question import Association, Question
from dodona.schema.attributes import Integer, Number
from dodona.schema.schema import Schema
from dodona.sql.compile import compile_sql

FAILING = 0.1
_random = np.random.default_rng(7)
_x = _random.integers(0, 41, 400)
DATA = {
    "a line": (_x, np.minimum(_x // 2 + 3, 25)),
    "noise": (_x, _random.integers(0, 26, 400)),
    "falling": (_x, np.clip(25 - _x // 2 + _random.integers(-3, 4, 400), 0, 25)),
    "one value of x": (np.full(50, 7), _random.integers(0, 26, 50)),
    "two rows": (np.array([3, 30]), np.array([20, 4])),
}
MEASURES = ("covar_pop", "covar_samp", "corr", "regr_slope", "regr_intercept", "regr_r2")
NOISES = [(Laplace, (2, 30, 30, 300, 300, 300)), (Gaussian, (3, 40, 40, 500, 500, 500)), (Laplace, (1,) * 6)]


def asked(measure: str, groups: int) -> tuple[Question, Association]:
    schema = Schema.of("t", Integer("x", 0, 40), Number("y", 0, "12.5", "0.5"), Integer("k", 0, groups - 3), size=1000)
    question = compile_sql(f"SELECT k, {measure}(y, x) FROM t GROUP BY k", schema)  # noqa: S608
    expression = question.columns[1].expression
    assert isinstance(expression, Association)
    return question, expression


def sums(question: Question, x: np.ndarray, y: np.ndarray) -> list[int]:
    """The exact sums of each block, in steps; y in half units is its own code."""
    axes = {"x": x, "y": y, "k": np.zeros_like(x)}
    return [int(np.broadcast_to(block_weights(block, axes), x.shape).sum()) for block in question.query.blocks]


def truth(measure: str, x: np.ndarray, y: np.ndarray) -> float | None:
    rows = list(zip(x.tolist(), (y / 2).tolist(), strict=True))
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t (x DOUBLE, y DOUBLE)")
        connection.executemany("INSERT INTO t VALUES (?, ?)", rows)
        return connection.execute(f"SELECT {measure}(y, x) FROM t").fetchall()[0][0]  # noqa: S608


@pytest.mark.share(3)
@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize(("law", "scales"), NOISES, ids=["laplace", "gaussian", "little"])
def test_noise_at_the_ends_of_what_holds_together_leaves_the_exact_value_inside(measure, name, law, scales) -> None:
    """P(all sums are within these ends) is at least the confidence, so the interval is honest."""
    x, y = DATA[name]
    expected = truth(measure, x, y)
    number = len(asked(measure, 5)[0].query.blocks)
    ends_of = [law(scale=scale) for scale in scales[:number]]
    away = np.array(list(itertools.product((-1, 0, 1), repeat=number))).T
    question, association = asked(measure, away.shape[1])
    order = [association.blocks.index(block) for block in range(number)]  # the scales are by role, not by place
    noises = tuple(ends_of[place] for place in order)
    ends = [int(noise.accuracy(1 - FAILING / 3, answers=3).within) for noise in noises]
    values = (np.array(sums(question, x, y))[:, None] + away * np.array(ends)[:, None]).ravel()
    band = evaluate(association, MeasuredValues(question, values, noises), FAILING)
    assert np.all(np.isnan(band.value) | ((band.low <= band.value) & (band.value <= band.high)))
    if expected is not None and np.isfinite(expected):  # x is the same in every row: no line, no correlation
        assert np.all(band.low <= expected + 1e-9)
        assert np.all(expected - 1e-9 <= band.high)


@pytest.mark.parametrize("measure", MEASURES)
def test_many_rows_tell_it_closely(measure) -> None:
    x, y = (np.tile(series, 200) for series in DATA["falling"])
    question, association = asked(measure, 4)
    noises = tuple(Laplace(scale=2) for _ in question.query.blocks)
    values = np.repeat(sums(question, x, y), 4)
    band = evaluate(association, MeasuredValues(question, values, noises), FAILING)
    expected = truth(measure, x[:400], y[:400]) if measure != "covar_samp" else float(np.cov(x, y / 2)[0, 1])
    assert band.value == pytest.approx([expected] * 4, rel=1e-9)
    assert np.all(band.high - band.low < 0.05)


def test_a_correlation_is_within_its_range_and_a_slope_of_nothing_is_unbounded() -> None:
    values = np.random.default_rng(3).integers(-300, 300, 6 * 50)
    for measure, least, most in (("corr", -1.0, 1.0), ("regr_r2", 0.0, 1.0)):
        question, association = asked(measure, 50)
        band = evaluate(association, MeasuredValues(question, values, (Laplace(scale=20),) * 6), FAILING)
        assert np.all(band.low >= least)
        assert np.all(band.high <= most)
    question, association = asked("regr_slope", 4)
    few = MeasuredValues(question, np.zeros(4 * len(question.query.blocks), dtype=np.int64), (Laplace(scale=9),) * 5)
    assert np.all(np.isinf(evaluate(association, few, FAILING).high))
