"""Intervals for the population: tables are sampled afresh, noise is drawn, and what was sampled from is inside.

10,000 tables a test, false alarms 10^-6.
"""

from fractions import Fraction

import numpy as np
import pytest

from dodona.answer.evaluation import evaluate, population_band
from dodona.lab import direct
from dodona.lab.mechanisms import Gaussian, Laplace
from dodona.privacy.measurement import MeasuredValues
from dodona.query.predicate import EVERYTHING
from dodona.query.query import Block, Query
from dodona.query.question import AnswerColumn, Quantile, Question, Total
from dodona.schema.attributes import Integer
from dodona.schema.partition import Partition
from dodona.schema.schema import Domain
from tests.answer.scene import AGE, MEAN, binomial_band, covered, moments_query

COPIES, TRIALS, ROWS, FAILING = 9_998, 10_000, 400, 0.05
FLOOR = binomial_band(TRIALS, 1 - FAILING)[0]
POPULATIONS = {
    "two atoms": np.where(np.isin(np.arange(111), [0, 110]), 0.5, 0.0),
    "falling": np.exp(-np.arange(111) / 15) / np.exp(-np.arange(111) / 15).sum(),
    "one atom": np.where(np.arange(111) == 40, 1.0, 0.0),
}
pytestmark = [pytest.mark.distribution, pytest.mark.slow]


def histograms(name: str, rows: int = ROWS) -> np.ndarray:
    """The ages of 10,000 tables, each sampled from the population, as counts."""
    return np.random.default_rng(11).multinomial(rows, POPULATIONS[name], TRIALS)


def measured_samples(name: str, noises: tuple, rows: int = ROWS) -> MeasuredValues:
    counts, away = histograms(name, rows), np.arange(111) - 55
    exact = [counts.sum(axis=1), counts @ away, counts @ away**2]
    values = [direct.run(noise, steps) for noise, steps in zip(noises, exact, strict=True)]
    return MeasuredValues(moments_query(COPIES), np.concatenate(values), noises)


NOISES = (Laplace(scale=2), Laplace(scale=80), Laplace(scale=3000))
FAINT = (Laplace(scale="1/100"),) * 3


@pytest.mark.parametrize("name", list(POPULATIONS))
@pytest.mark.parametrize("noises", [NOISES, FAINT])
def test_the_populations_average_is_covered(name, noises) -> None:
    truth = float(POPULATIONS[name] @ np.arange(111))
    band = population_band(MEAN, measured_samples(name, noises), failing=FAILING, size=None)
    assert covered(band, truth) >= FLOOR


def test_the_tables_own_interval_does_not_cover_the_population() -> None:
    band = evaluate(MEAN, measured_samples("two atoms", FAINT), FAILING)
    assert covered(band, 55.0) < FLOOR


@pytest.mark.parametrize("name", ["two atoms", "falling"])
def test_what_a_sum_is_on_average_over_such_tables_is_covered(name) -> None:
    truth = ROWS * float(POPULATIONS[name] @ (np.arange(111) - 55))
    measured = measured_samples(name, FAINT)
    assert covered(population_band(Total(1), measured, failing=FAILING, size=ROWS), truth) >= FLOOR
    assert covered(evaluate(Total(1), measured, FAILING), truth) < FLOOR


@pytest.mark.share(8)
@pytest.mark.parametrize("name", list(POPULATIONS))
@pytest.mark.parametrize("level", [Fraction(1, 2), Fraction(1, 10)])
@pytest.mark.parametrize("noise", [Gaussian(scale=3), Laplace(scale="1/100")])
def test_the_populations_quantile_is_covered(name, level, noise) -> None:
    quantile, measured = sampled_tree(name, level, noise)
    below = np.cumsum(POPULATIONS[name])
    least = float(np.argmax(below >= float(level) - 1e-12))
    band = population_band(quantile, measured, failing=FAILING, size=None)
    assert covered(band, least) >= FLOOR


def test_the_tables_own_quantile_does_not_cover_the_population() -> None:
    quantile, measured = sampled_tree("falling", Fraction(1, 2), Laplace(scale="1/100"))
    least = float(np.argmax(np.cumsum(POPULATIONS["falling"]) >= 0.5))
    assert covered(evaluate(quantile, measured, FAILING), least) < FLOOR


def sampled_tree(name: str, level: Fraction, noise) -> tuple[Quantile, MeasuredValues]:
    copy = Integer("copy", 0, COPIES - 1)
    keys, partition = (Partition.of(copy),), Partition.of(AGE)
    quantile = Quantile((0,), "age", level)
    question = Question(
        text="quantile",
        query=Query(Domain((copy, AGE)), (Block(EVERYTHING, (*keys, partition)),)),
        keys=keys,
        columns=(AnswerColumn("q", quantile),),
    )
    exact = np.concatenate([histograms(name), np.zeros((TRIALS, 2), dtype=np.int64)], axis=1)
    return quantile, MeasuredValues(question, direct.run(noise, exact.ravel()), (noise,))
