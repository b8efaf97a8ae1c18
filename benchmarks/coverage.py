"""How often intervals hold the exact value: 10,000 answers of every aggregate, on skewed rows and on few values.

Exact totals are computed here, `dodona.lab.direct` draws their noise, and the intervals are those of every answer.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dodona.answer.evaluation import evaluate
from dodona.lab import direct
from dodona.lab.mechanisms import Gaussian, Laplace
from dodona.privacy.measurement import MeasuredValues
from dodona.query.predicate import EVERYTHING
from dodona.query.query import Block, Query, block_weights, column_weight, group_numbers
from dodona.query.question import (
    AnswerColumn,
    Arithmetic,
    Expression,
    LiteralExpression,
    Mean,
    Quantile,
    Question,
    Spread,
    Total,
    Variation,
)
from dodona.schema.attributes import Integer
from dodona.schema.partition import Partition
from dodona.schema.schema import Domain

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dodona.privacy.additive_noise import Noise

CONFIDENCE = 0.95
ANSWERS = 10_000
_AGE = Integer("age", 0, 110)
_COPY = Integer("copy", 0, ANSWERS - 3)
"""Each answer is a group of its own; with `<missing>` and `<outside>` there are 10,000 of them."""
_DOMAIN = Domain((_COPY, _AGE))
_KEYS = (Partition.of(_COPY),)
_CENTRE = Fraction(55)
_MEAN = Mean(1, 0, _CENTRE, Fraction(0), Fraction(110))
_LEVELS = tuple(Partition("age", _AGE.size, tuple(range(0, _AGE.size, width))) for width in (16, 1))
_BLOCKS = (
    Block(EVERYTHING, _KEYS),
    *(Block(EVERYTHING, _KEYS, *column_weight(_AGE, centre=_CENTRE, power=power)) for power in (1, 2)),
    *(Block(EVERYTHING, (*_KEYS, level)) for level in _LEVELS),
)
_ROWS, _TOTAL, _SQUARES = Total(0), Total(1), Total(2)
_HUNDRED = LiteralExpression(Fraction(100))
_AVERAGE = 1e-9


def _quantile(level: str) -> Quantile:
    return Quantile((3, 4), "age", Fraction(level))


EXPRESSIONS: dict[str, Expression] = {
    "count": _ROWS,
    "sum": _TOTAL,
    "avg": _MEAN,
    "share": Arithmetic("/", Arithmetic("*", _HUNDRED, _TOTAL), _ROWS),
    "var": Variation(2, _MEAN, Spread.SAMPLE_VARIANCE),
    "stddev": Variation(2, _MEAN, Spread.SAMPLE_DEVIATION),
    "median": _quantile("1/2"),
    "quantile": _quantile("9/10"),
    "min": _quantile("1/100"),
    "max": _quantile("99/100"),
    "arithmetic": Arithmetic("+", Arithmetic("*", _ROWS, _TOTAL), _SQUARES),
}
"""What is covered; min and max are told as the quantiles that stand for them."""


def tables() -> dict[str, NDArray[np.int64]]:
    """Return the rows: skewed, and of a few values only, one of them at the bound."""
    skewed = np.clip(np.random.default_rng(5).lognormal(2.5, 0.8, 2_000), 0, 110).astype(np.int64)
    return {"skewed": skewed, "atoms": np.repeat(np.asarray([0, 20, 110]), [250, 400, 150])}


def measure() -> dict[str, float]:
    """Return for each aggregate the least share of answers that hold the exact value, of both tables and both laws."""
    shares: dict[str, float] = {}
    for ages in tables().values():
        for noises in _noises():
            measured = _measured(ages, noises)
            for name, expression in EXPRESSIONS.items():
                band = evaluate(expression, measured, 1 - CONFIDENCE)
                truth = _truth(name, ages)
                slack = _AVERAGE * max(1.0, abs(truth))  # a rounding of the last digit is no failure
                share = np.mean((band.low <= truth + slack) & (truth - slack <= band.high))
                shares[name] = round(min(shares.get(name, 1.0), float(share)), 4)
    return shares


def _noises() -> list[tuple[Noise, ...]]:
    scales = (8, 300, 9_000, 6, 6)
    return [tuple(Laplace(scale=scale) for scale in scales), tuple(Gaussian(scale=scale) for scale in scales)]


def _measured(ages: NDArray[np.int64], noises: tuple[Noise, ...]) -> MeasuredValues:
    """Return the totals of the same rows in every group, each with noise of its own."""
    values = []
    for block, noise in zip(_BLOCKS, noises, strict=True):
        further = block.keys[1:]
        groups = np.broadcast_to(group_numbers(further, {"age": ages}), ages.shape)
        weights = np.broadcast_to(block_weights(block, {"age": ages}), ages.shape)
        exact = np.zeros(further[0].groups if further else 1, dtype=np.int64)
        np.add.at(exact, groups, weights)
        values.append(direct.run(noise, np.tile(exact, ANSWERS)))
    question = Question(text="", query=Query(_DOMAIN, _BLOCKS), keys=_KEYS, columns=(AnswerColumn("rows", _ROWS),))
    return MeasuredValues(question, np.concatenate(values), noises)


def _truth(name: str, ages: NDArray[np.int64]) -> float:
    away = ages - int(_CENTRE)
    rows, total, squares = len(ages), int(away.sum()), int((away**2).sum())
    levels = {"median": "1/2", "quantile": "9/10", "min": "1/100", "max": "99/100"}
    if name in levels:
        place = max(math.ceil(Fraction(levels[name]) * rows), 1) - 1
        return float(np.sort(ages)[place])
    return {
        "count": float(rows),
        "sum": float(total),
        "avg": float(ages.mean()),
        "share": 100 * total / rows,
        "var": float(ages.var(ddof=1)),
        "stddev": float(ages.std(ddof=1)),
        "arithmetic": float(rows * total + squares),
    }[name]
