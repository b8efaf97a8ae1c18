"""How often intervals through the outer half hold the exact value: fifty kinds of expression over noisy groups.

A true table of groups is made up, its counts and sums get noise many times, and each time the statement is computed on
the noisy values as for an answer. Of each kind, the share of intervals that hold the value on the true table is told.
"""

from __future__ import annotations

import numpy as np

from dodona.answer.answer import Answer, table_view
from dodona.answer.computed import ComputedAnswer
from dodona.answer.estimate import Estimate, to_float
from dodona.privacy.additive_noise import Gaussian, Laplace
from dodona.privacy.budget import FREE
from dodona.privacy.measurement import MeasuredValues
from dodona.query.question import Question
from dodona.query.statement import Statement
from dodona.schema.attributes import Category, Integer
from dodona.schema.schema import Schema
from dodona.sql.compile import read_statement

CELLS = 600
"""How many intervals are looked at of each kind and law; those of one table are not independent."""
CONFIDENCE = 0.95
_SIZE = 20_000
_SCHEMA = Schema.of(
    "stays",
    Category("ward", tuple("abcdefgh")),
    Category("sex", ("female", "male")),
    Integer("age", 0, 99),
    size=_SIZE,
)
_WARDS = "(SELECT ward, count(*) AS n, sum(age) AS s FROM stays GROUP BY ward) AS x"
_BOTH = "(SELECT ward, sex, count(*) AS n FROM stays GROUP BY ward, sex) AS x"
KINDS = {
    "released value": "SELECT ward, n FROM WARDS",
    "multiple": "SELECT ward, 100 * n / 20000 AS y FROM WARDS",
    "difference of groups": "SELECT ward, n - lag(n) OVER (ORDER BY ward) AS y FROM WARDS",
    "running sum": "SELECT ward, sum(n) OVER (ORDER BY ward) AS y FROM WARDS",
    "moving average": "SELECT ward, avg(n) OVER (ORDER BY ward ROWS 2 PRECEDING) AS y FROM WARDS",
    "total": "SELECT sum(n) AS y FROM WARDS",
    "average of groups": "SELECT avg(n) AS y FROM WARDS",
    "weighted sum": "SELECT sum(CASE WHEN ward < 'd' THEN 2 * n ELSE n END) AS y FROM WARDS",
    "above the average": "SELECT ward, n - avg(n) OVER () AS y FROM WARDS",
    "rollup": "SELECT ward, count(*) AS y FROM stays GROUP BY ROLLUP (ward)",
    "percent of total": "SELECT ward, 100.0 * n / sum(n) OVER () AS y FROM WARDS",
    "percent of a partition": "SELECT ward, sex, n / sum(n) OVER (PARTITION BY ward) AS y FROM WARDS_AND_SEXES",
    "ratio of columns": "SELECT ward, s / n AS y FROM WARDS",
    "ratio to the first": "SELECT ward, n / first_value(n) OVER (ORDER BY ward) AS y FROM WARDS WHERE ward >= 'a'",
    "growth": "SELECT ward, (n - lag(n) OVER (ORDER BY ward)) / lag(n) OVER (ORDER BY ward) AS y FROM WARDS",
    "ratio to the largest": "SELECT ward, n / max(n) OVER () AS y FROM WARDS",
    "ratio of questions": "SELECT (SELECT count(*) FROM stays WHERE sex = 'male') / (SELECT count(*) FROM stays) AS y",
    "odds": "SELECT ward, n / (20000 - n) AS y FROM WARDS",
    "product": "SELECT ward, n * s / 1000000 AS y FROM WARDS",
    "square": "SELECT ward, n * n AS y FROM WARDS",
    "sum of squares": "SELECT sum(n * n) AS y FROM WARDS",
    "square root": "SELECT ward, sqrt(n) AS y FROM WARDS",
    "logarithm": "SELECT ward, ln(n) AS y FROM WARDS",
    "exponential": "SELECT ward, exp(n / 5000.0) AS y FROM WARDS",
    "power": "SELECT ward, power(n, 1.5) AS y FROM WARDS",
    "reciprocal": "SELECT ward, 1.0 / n AS y FROM WARDS",
    "absolute change": "SELECT ward, abs(n - lag(n) OVER (ORDER BY ward)) AS y FROM WARDS",
    "distance from a number": "SELECT ward, abs(n - 1000) AS y FROM WARDS",
    "at least zero": "SELECT ward, greatest(n - 2000, 0) AS y FROM WARDS",
    "at most": "SELECT ward, least(n, 1500) AS y FROM WARDS",
    "rounded": "SELECT ward, round(n / 7.0) AS y FROM WARDS",
    "rounded to hundreds": "SELECT ward, round(n, -2) AS y FROM WARDS",
    "floor": "SELECT ward, floor(n / 50) AS y FROM WARDS",
    "case of a limit": "SELECT ward, CASE WHEN n > 2000 THEN n ELSE 0 END AS y FROM WARDS",
    "bonus above a limit": "SELECT ward, n + CASE WHEN n > 1000 THEN 100 ELSE 0 END AS y FROM WARDS",
    "largest": "SELECT max(n) AS y FROM WARDS",
    "smallest": "SELECT min(n) AS y FROM WARDS",
    "range": "SELECT max(n) - min(n) AS y FROM WARDS",
    "median of groups": "SELECT median(n) AS y FROM WARDS",
    "quantile of groups": "SELECT quantile_cont(n, 0.25) AS y FROM WARDS",
    "deviation of groups": "SELECT stddev_samp(n) AS y FROM WARDS",
    "variance of groups": "SELECT var_pop(n) AS y FROM WARDS",
    "coefficient of variation": "SELECT stddev_pop(n) / avg(n) AS y FROM WARDS",
    "correlation of columns": "SELECT corr(n, s) AS y FROM WARDS",
    "slope": "SELECT regr_slope(s, n) AS y FROM WARDS",
    "groups above a limit": "SELECT count(*) AS y FROM WARDS WHERE n > 1000",
    "sum above a limit": "SELECT sum(n) AS y FROM WARDS WHERE n > 1000",
    "share above a limit": "SELECT sum(n) FILTER (WHERE n > 1000) / sum(n) AS y FROM WARDS",
    "concentration": "SELECT sum(p * p) AS y FROM (SELECT n / sum(n) OVER () AS p FROM WARDS) AS q",
    "entropy": "SELECT -sum(p * ln(p)) AS y FROM (SELECT n / sum(n) OVER () AS p FROM WARDS) AS q WHERE p > 0",
    "difference of shares": "SELECT ward, n / sum(n) OVER () - s / sum(s) OVER () AS y FROM WARDS",
    "sum of the largest three": "SELECT sum(n) AS y FROM (SELECT n FROM WARDS ORDER BY n DESC LIMIT 3) AS q",
    "average of averages": "SELECT avg(a) AS y FROM (SELECT ward, avg(age) AS a FROM stays GROUP BY ward) AS x",
    "rounded average": "SELECT ward, round(avg(age), 1) AS y FROM stays GROUP BY ward",
    "difference of averages": "SELECT ward, avg(age) - (SELECT avg(age) FROM stays) AS y FROM stays GROUP BY ward",
}
"""Statements whose column `y`, or else `n`, is held against the true table; some are linear, most are not."""
_SHARES = (0.25, 0.2, 0.15, 0.12, 0.1, 0.1, 0.05, 0.03)  # two wards are equal; `<missing>` and `<outside>` are empty


def _table() -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Return the true table: rows by ward, sex and age, with nothing missing or outside."""
    generator = np.random.default_rng(7)
    counts = np.zeros((10, 4, 102), dtype=np.int64)
    for ward, share in enumerate(_SHARES):
        for sex, part in enumerate((0.55, 0.45)):
            rows = round(_SIZE * share * part)
            ages = np.clip(generator.normal(35 + 4 * ward, 15, rows), 0, 99).astype(np.int64)
            counts[ward, sex, :100] += np.bincount(ages, minlength=100)
    return counts


def _exact(question: Question, cells: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> list[int]:
    """Return the exact numbers of a question's blocks on the true table."""
    from dodona.query.query import block_weights, group_numbers

    codes = np.nonzero(cells)
    axes = {name: np.repeat(code, cells[codes]) for name, code in zip(_SCHEMA.domain.names, codes, strict=True)}
    numbers = []
    for block in question.query.blocks:
        groups = np.broadcast_to(group_numbers(block.keys, axes), (len(axes["ward"]),))
        weights = np.broadcast_to(block_weights(block, axes), (len(axes["ward"]),))
        numbers += np.bincount(groups, weights, minlength=block.values).astype(np.int64).tolist()
    return numbers


def _answer(question: Question, values: list[int], noises: tuple[Laplace | Gaussian, ...]) -> Answer:
    return Answer(measured=MeasuredValues(question, values, noises), price=FREE, view=table_view(CONFIDENCE, _SIZE))


def measure(cells: int = CELLS, kinds: tuple[str, ...] | None = None) -> dict[str, float]:
    """Return the share of intervals that hold the exact value, for each kind of expression, over two laws of noise."""
    table = _table()
    shares = {}
    for number, (kind, text) in enumerate(KINDS.items()):
        if kinds is None or kind in kinds:
            laws: list[Laplace | Gaussian] = [Laplace(scale=20), Gaussian(scale=30)]
            held = [_coverage(text, law, table, cells, seed=number + 100 * place) for place, law in enumerate(laws)]
            shares[kind] = round(sum(held) / len(held), 4)
    return shares


def _coverage(
    text: str,
    law: Laplace | Gaussian,
    table: np.ndarray[tuple[int, ...], np.dtype[np.int64]],
    cells: int,
    *,
    seed: int,
) -> float:
    text = text.replace("WARDS_AND_SEXES", _BOTH).replace("WARDS", _WARDS)
    asked = read_statement(text, _SCHEMA)
    if not isinstance(asked, Statement):
        asked = read_statement(f"SELECT * FROM ({text}) AS whole", _SCHEMA)  # noqa: S608  constants
    if not isinstance(asked, Statement):
        raise TypeError(text)
    generator = np.random.default_rng(seed)
    exact = [_exact(part, table) for part in asked.parts]
    noises = [tuple(_scaled(law, block.weight) for block in part.query.blocks) for part in asked.parts]
    truth = _values(
        ComputedAnswer.compute(
            asked, [_answer(*arguments) for arguments in zip(asked.parts, exact, noises, strict=True)]
        )
    )
    held = total = 0
    while total < cells:
        parts = []
        for part, values, laws in zip(asked.parts, exact, noises, strict=True):
            noise = [
                _draw(generator, scaled, block.values) for scaled, block in zip(laws, part.query.blocks, strict=True)
            ]
            noisy = np.asarray(values) + np.concatenate(noise)
            parts.append(_answer(part, [int(value) for value in noisy], laws))
        answer = ComputedAnswer.compute(asked, parts)
        for name, cell in _told(answer).items():
            wanted = truth.get(name)
            if wanted is None or not isinstance(cell, Estimate):
                continue
            total += 1
            slack = 1e-9 * max(1.0, abs(wanted))
            held += to_float(cell.low) - slack <= wanted <= to_float(cell.high) + slack
    return held / total


def _scaled(law: Laplace | Gaussian, weight: object) -> Laplace | Gaussian:
    """Return noise that is as large beside a sum of ages as the law is beside a count."""
    from dodona.query.query import ConstantWeight

    scale = int(law.scale) if isinstance(weight, ConstantWeight) else 40 * int(law.scale)
    return type(law)(scale=scale)


def _draw(
    generator: np.random.Generator, law: Laplace | Gaussian, count: int
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    if isinstance(law, Laplace):
        return np.rint(generator.laplace(0, float(law.scale), count))
    return np.rint(generator.normal(0, float(law.scale), count))


def _column(answer: ComputedAnswer) -> int:
    return answer.columns.index("y" if "y" in answer.columns else "n")


def _names(answer: ComputedAnswer) -> list[tuple[object, ...]]:
    """Return the identity of each row: its keys, of which `<missing>` and `<outside>` are left out."""
    keys = [place for place, name in enumerate(answer.columns) if name in {"ward", "sex"}]
    columns = [answer.result.column(place).to_pylist() for place in keys]
    return list(zip(*columns, strict=True)) if keys else [()] * answer.result.num_rows


def _values(answer: ComputedAnswer) -> dict[tuple[object, ...], float]:
    values = answer.result.column(_column(answer)).to_pylist()
    pairs = zip(_names(answer), values, strict=True)
    return {name: float(value) for name, value in pairs if value is not None and _is_counted(name)}


def _told(answer: ComputedAnswer) -> dict[tuple[object, ...], object]:
    cells = [row.cells[_column(answer)] for row in answer.rows]
    return {name: cell for name, cell in zip(_names(answer), cells, strict=True) if _is_counted(name)}


def _is_counted(name: tuple[object, ...]) -> bool:
    return all(part not in {"<outside>", None} for part in name)
