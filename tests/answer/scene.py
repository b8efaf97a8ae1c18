"""Many copies of one group with independent noise, so that coverage is counted in one evaluation."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from dodona.answer.answer import Answer, table_view
from dodona.answer.bands import Band
from dodona.lab import direct
from dodona.privacy.measurement import MeasuredValues, Measurement
from dodona.query.predicate import EVERYTHING
from dodona.query.query import Block, Query, column_weight
from dodona.query.question import AnswerColumn, Mean, Quantile, Question, Spread, Total, Variation
from dodona.schema.attributes import Category, Integer
from dodona.schema.partition import Partition
from dodona.schema.schema import Domain

AGE = Integer("age", 0, 110)
SEX = Category("sex", ["female", "male"])
CENTRE = Fraction(55)
MEAN = Mean(1, 0, CENTRE, Fraction(0), Fraction(110))
TOTALS = (Total(0), Total(1))
FALSE_ALARM = 1e-6


def answer_from(values, *, confidence: float = 0.95, size: int | None = None, **further: object) -> Answer:
    """The answer read from values that are all there is: measured ones are the only draws so far."""
    only = isinstance(values, MeasuredValues)
    draws = Measurement(values.question.query, values.noises).draws if only else None
    return Answer(measured=values, view=table_view(confidence, size), draws=draws, **further)


def skewed(rows: int) -> np.ndarray:
    """Ages of a lognormal law, the same each time."""
    return np.clip(np.random.default_rng(5).lognormal(2.5, 0.8, rows), 0, 110).astype(np.int64)


DATA = {
    "skewed": skewed(2_000),
    "few and skewed": skewed(60),
    "all equal": np.full(500, 37),
    "all at the bound": np.full(300, 110),
    "two atoms": np.repeat([0, 110], [250, 150]),
    "one atom beside a tail": np.concatenate([np.full(400, 20), skewed(300)]),
    "three rows": np.array([3, 40, 41]),
    "one row": np.array([77]),
}


def variation(spread: Spread) -> Variation:
    return Variation(2, MEAN, spread)


def moments_query(copies: int) -> Question:
    """The question for rows, Σ (age - 55) and Σ (age - 55)² of many groups."""
    copy = Integer("copy", 0, copies - 1)
    domain, keys = Domain((copy, AGE)), (Partition.of(copy),)
    blocks = [Block(EVERYTHING, keys)]
    blocks += [Block(EVERYTHING, keys, *column_weight(AGE, centre=CENTRE, power=power)) for power in (1, 2)]
    return Question(
        text="moments", query=Query(domain, tuple(blocks)), keys=keys, columns=(AnswerColumn("mean", MEAN),)
    )


def moments(ages: np.ndarray) -> list[int]:
    away = ages - 55
    return [len(ages), int(away.sum()), int((away**2).sum())]


def measured_moments(ages: np.ndarray, noises: tuple, copies: int, *, drawn: tuple | None = None) -> MeasuredValues:
    """The moments of a group with independent noise, many times; `drawn` is what the noise really is."""
    question = moments_query(copies)
    exact = moments(ages)
    values = [
        direct.run(noise, np.full(copies + 2, steps)) for noise, steps in zip(drawn or noises, exact, strict=True)
    ]
    return MeasuredValues(question, np.concatenate(values), noises)


def tree_partitions(fan_out: int = 16) -> list[Partition]:
    partitions = [Partition.of(AGE)]
    while len(partitions[0].cuts) > fan_out:
        partitions.insert(0, Partition("age", AGE.size, partitions[0].cuts[::fan_out]))
    return partitions


def measured_tree(ages: np.ndarray, noise, copies: int, *, level: Fraction, fan_out: int = 16):
    """A quantile, and its tree of histograms with independent noise, many times."""
    copy = Integer("copy", 0, copies - 1)
    keys, partitions = (Partition.of(copy),), tree_partitions(fan_out)
    quantile = Quantile(tuple(range(len(partitions))), "age", level)
    blocks = tuple(Block(EVERYTHING, (*keys, partition)) for partition in partitions)
    question = Question(
        text="quantile", query=Query(Domain((copy, AGE)), blocks), keys=keys, columns=(AnswerColumn("q", quantile),)
    )
    values = []
    for partition in partitions:
        exact = np.bincount(partition.table()[ages], minlength=partition.groups)
        values.append(direct.run(noise, np.tile(exact, copies + 2)))
    return quantile, MeasuredValues(question, np.concatenate(values), (noise,) * len(partitions))


def true_quantile(ages: np.ndarray, level: Fraction) -> int:
    """The least value that a part of the rows does not exceed."""
    ordered = np.sort(ages)
    return int(ordered[max(int(np.ceil(level * len(ages))), 1) - 1])


def covered(band: Band, truth: float) -> int:
    """How many intervals hold the truth; a rounding of the last digit is no failure."""
    slack = 1e-9 * max(1.0, abs(truth))
    return int(np.sum((band.low <= truth + slack) & (truth - slack <= band.high)))


def binomial_band(trials: int, probability: float) -> tuple[int, int]:
    """Counts that are left with probability at most 10^-6 in all."""
    from scipy.stats import binom

    return int(binom.ppf(FALSE_ALARM / 2, trials, probability)), int(binom.isf(FALSE_ALARM / 2, trials, probability))


def inside(noise, steps: int) -> float:
    """P(|noise| ≤ steps), summed."""
    return float(sum(noise.probability(step) for step in range(-steps, steps + 1)))
