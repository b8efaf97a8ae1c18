"""Queries through the curator: compiled, planned, charged, measured and displayed, on tables that differ in one row."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

import numpy as np

from dodona.answer.answer import Answer
from dodona.errors import InvariantBroken
from dodona.lab.audit.cases.asking import RepeatedQueries, Rows, Tables, values
from dodona.lab.audit.cases.case import AuditCase, LossMeasure, pure_epsilon
from dodona.lab.audit.cases.scene import INCOMES, Row
from dodona.lab.audit.features import DIFFERENCE, INDEX, LOWEST_BIT, VALUE, Feature, Outputs, pair
from dodona.schema.schema import Neighbours

COUNT = "SELECT count(*) FROM stays WHERE sex = 'female'"
GROUPS = "SELECT sex, count(*) FROM stays GROUP BY sex"
GROUPS_OF_SEX = ("female", "male", "other", "<missing>", "<outside>")
FEMALE: Row = ("female", 1.0, math.nan)
MALE: Row = ("male", 2.0, math.nan)
CROWD: Rows = (FEMALE, FEMALE, MALE, MALE, (None, 0.5, math.nan), ("?", 0.5, math.nan))
"""Every group but `other` is occupied."""

_OTHER: Row = ("other", 1.0, math.nan)
_LONG, _SHORT = ("female", 1e9, math.nan), ("female", -1e9, math.nan)
_POOR, _RICH = (("male", 0.0, float(income)) for income in INCOMES)
_REACH = 200
_STEP = 26  # sums of incomes are looked at in steps of 2^26


def cases() -> Iterator[AuditCase]:
    """Yield the audits of queries through a curator."""
    for neighbours in Neighbours:
        yield from _counts(neighbours)
        yield from _groups(neighbours)
        yield from _sums(neighbours)


def neighbouring_tables(neighbours: Neighbours, rows: Rows, new: Row, *, old: Row = MALE) -> Tables:
    """Return neighbours: the rows, and the rows with a new one, which is added or replaces an old one."""
    return rows if neighbours is Neighbours.ADD_REMOVE else (*rows, old), (*rows, new)


def _counts(neighbours: Neighbours) -> Iterator[AuditCase]:
    repeated_queries = partial(
        RepeatedQueries, neighbours=neighbours, tables=neighbouring_tables(neighbours, CROWD, FEMALE)
    )
    yield query_case("count", repeated_queries(texts=(COUNT,)), VALUE, LOWEST_BIT)
    yield query_case("count singly", repeated_queries(texts=(COUNT,), singly=True), VALUE, share=80)
    male = "SELECT count(*) FROM stays WHERE sex = 'male'"
    yield query_case("pair of counts", repeated_queries(texts=(COUNT, male)), DIFFERENCE, pair(_REACH), share=20)
    gaussian = repeated_queries(texts=(COUNT,), delta="1e-6")
    yield AuditCase(
        name="served count with Gaussian noise",
        mechanism="served",
        neighbours=neighbours,
        claim=lambda: _mu(gaussian),
        draw=gaussian.draw,
        features=(VALUE,),
        measure=LossMeasure.MU,
        share=10,
    )
    rounded = repeated_queries(texts=(COUNT,), delta="1e-6", accountant="gaussian")
    yield AuditCase(
        name="served count under the Gaussian accountant",
        mechanism="served",
        neighbours=neighbours,
        claim=lambda: math.sqrt(2 * float(rounded.event().rho()) / rounded.times),  # exact: ρ = μ²/2
        draw=rounded.draw,
        features=(VALUE,),
        measure=LossMeasure.MU,
        share=10,
    )


def _groups(neighbours: Neighbours) -> Iterator[AuditCase]:
    asked = partial(RepeatedQueries, texts=(GROUPS,), neighbours=neighbours)
    moved = asked(tables=neighbouring_tables(neighbours, CROWD, FEMALE), read=_two, width=2)
    yield query_case("groups", moved, DIFFERENCE, pair(_REACH), share=20)
    rare = asked(tables=neighbouring_tables(neighbours, CROWD, _OTHER), read=_display_features, width=3)
    features = (INDEX, _column("number of rows", 1), _column("value of the rare key", 2))
    yield query_case("rare group", rare, *features, share=20)
    even = neighbouring_tables(neighbours, (FEMALE, *CROWD), MALE, old=FEMALE)
    top = RepeatedQueries(
        texts=(f"{GROUPS} ORDER BY count(*) DESC LIMIT 1",),
        neighbours=neighbours,
        tables=even,
        read=_display_features,
        width=3,
    )
    yield query_case("top group", top, INDEX, share=20)


def _sums(neighbours: Neighbours) -> Iterator[AuditCase]:
    stays = neighbouring_tables(neighbours, (_SHORT,) * 3 + (_LONG,) * 4, _LONG, old=_SHORT)
    asked = partial(RepeatedQueries, neighbours=neighbours, tables=stays)
    yield query_case("sum", asked(texts=("SELECT sum(stay) FROM stays",)), VALUE, LOWEST_BIT, share=20)
    yield query_case(
        "average",
        asked(texts=("SELECT avg(stay) FROM stays",), width=2),
        pair(_REACH),
        _column("first block", 0),
        _column("second block", 1),
        share=50,
    )
    # With the new row the sum reaches 2^31.
    incomes = neighbouring_tables(neighbours, (_RICH,) * 3, _RICH, old=_POOR)
    wide = RepeatedQueries(texts=("SELECT sum(income) FROM stays",), neighbours=neighbours, tables=incomes)
    yield query_case("sum of 32 bits", wide, VALUE, Feature("in steps of 2^26", _coarse), share=20)


def query_case(name: str, asked: RepeatedQueries, *features: Feature, share: int = 10) -> AuditCase:
    """Return the audit case of these queries, at a pure price."""
    return AuditCase(
        name=f"served {name}",
        mechanism="served",
        neighbours=asked.neighbours,
        claim=lambda: pure_epsilon(asked.event()) / asked.times,
        draw=asked.draw,
        features=features,
        share=share,
    )


def _mu(asked: RepeatedQueries) -> float:
    """Return the μ of a count; `noise` explains why it is not √(2ρ), and the variance is 1/(2ρ)."""
    rho = float(asked.event().rho()) / asked.times
    return math.sqrt(2 * rho) * (1 + 2 * rho / 22)


def _two(answer: Answer) -> tuple[int, ...]:
    return values(answer)[:2]


def _display_features(answer: Answer) -> tuple[int, ...]:
    """Return which keys are displayed in which order, the number of rows, and the value of `other`."""
    shown = {str(row.keys[0]): row.estimates[0].value for row in answer.rows}
    places = sum(
        (GROUPS_OF_SEX.index(key) + 1) * (len(GROUPS_OF_SEX) + 1) ** number for number, key in enumerate(shown)
    )
    other = shown.get("other", -1)
    if not isinstance(other, int):
        raise InvariantBroken("A count is no integer.")
    return places, len(shown), other


def _column(name: str, index: int) -> Feature:
    return Feature(name, lambda outputs: outputs[:, index].astype(np.int64))


def _coarse(outputs: Outputs) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return outputs.astype(np.int64) >> _STEP
