"""Queries on tables that differ in one person, who has more rows than the cap or rows in several groups."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

from dodona.answer.answer import Answer
from dodona.lab.audit.cases.asking import RepeatedQueries, Rows, Tables, values
from dodona.lab.audit.cases.case import AuditCase
from dodona.lab.audit.cases.scene import PERSON, Row
from dodona.lab.audit.cases.served import COUNT, GROUPS, query_case
from dodona.lab.audit.features import DIFFERENCE, VALUE, pair
from dodona.schema.schema import Neighbours

_REACH = 200
_SHARE = 20
_BUSY, _MANY = 100, 5  # people who have more rows than count, and rows of the one who comes
_PEOPLE = "SELECT count(DISTINCT who) FROM stays"
_BY_SEX = "SELECT sex, count(DISTINCT who) FROM stays GROUP BY sex"


def cases() -> Iterator[AuditCase]:
    """Yield the audits with people as the privacy unit."""
    for neighbours in Neighbours:
        asked = partial(RepeatedQueries, neighbours=neighbours, person=PERSON)
        busy = _neighbouring_tables(neighbours, *[_row("female", "busy")] * 5)
        spread = _neighbouring_tables(neighbours, _row("female", "busy"), _row("other", "busy"), _row("other", "busy"))
        yield query_case("count of a person's rows", asked(texts=(COUNT,), tables=busy), VALUE, share=_SHARE)
        groups = asked(texts=(GROUPS,), tables=spread, read=_two, width=2)
        yield query_case("groups of a person's rows", groups, DIFFERENCE, pair(_REACH), share=_SHARE)
        yield query_case("count of people", asked(texts=(_PEOPLE,), tables=busy), VALUE, share=_SHARE)
        others = asked(texts=(COUNT,), tables=_among_busy(neighbours))
        yield query_case("rows of others", others, VALUE, share=_SHARE)
        sexes = asked(texts=(_BY_SEX,), tables=spread, read=_two, width=2)
        yield query_case("people in groups", sexes, DIFFERENCE, pair(_REACH), share=_SHARE)


def _among_busy(neighbours: Neighbours) -> Tables:
    """Return neighbours in which many people have more rows than the cap, half of them of women.

    The new person sorts before all others, and must not change which rows of the others count.
    """
    crowd: Rows = tuple(_row(sex, f"{who}") for who in range(_BUSY) for sex in ("female", "male") * 2)
    gone: Rows = () if neighbours is Neighbours.ADD_REMOVE else (_row("male", "busy"),)
    return (*gone, *crowd), (*(_row("male", "busy"),) * _MANY, *crowd)


def _two(answer: Answer) -> tuple[int, ...]:
    """Return the values of women and of others: the groups that the person is in."""
    group_values = values(answer)
    return group_values[0], group_values[2]


def _row(sex: str, who: str) -> Row:
    return sex, 1.0, math.nan, who


def _neighbouring_tables(neighbours: Neighbours, *rows: Row) -> Tables:
    """Return neighbours: a crowd, and the crowd with one person added, or with one replaced."""
    crowd: Rows = tuple(_row(sex, f"{place}") for place, sex in enumerate(("female", "male", "male", "other")))
    gone: Rows = () if neighbours is Neighbours.ADD_REMOVE else (_row("male", "quiet"), _row("male", "quiet"))
    return (*crowd, *gone), (*crowd, *rows)
