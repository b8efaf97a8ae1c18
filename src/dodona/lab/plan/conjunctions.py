"""The lecture's example: all monotone conjunctions of d yes/no columns, 2^d questions over 2^d cells."""

from __future__ import annotations

from dataclasses import dataclass

from dodona.lab.plan.forecast import promise_for
from dodona.lab.plan.inverse import UnreachablePlan, rows_for
from dodona.lab.plan.promise import Unsuitable
from dodona.lab.plan.setting import Setting
from dodona.numbers import Exact, to_integer
from dodona.schema.schema import Neighbours

MOST_COLUMNS = 49
COMPARED = ("laplace-basic", "gaussian-zcdp", "histogram", "blr-textbook", "blr", "mwem-mean", "pmw-textbook", "pmw")


def conjunctions(  # noqa: PLR0913  the sides of a promise
    columns: int,
    *,
    rows: int,
    epsilon: Exact,
    delta: Exact = 0,
    confidence: float = 0.95,
    neighbours: Neighbours = Neighbours.REPLACE,
) -> Setting:
    """Return the setting: for each set of columns, how many rows say yes to all of them.

    >>> conjunctions(20, rows=10**6, epsilon=1).questions
    1048576
    """
    size = 1 << to_integer(columns, argument="columns", lower=1, upper=MOST_COLUMNS)
    return Setting(
        rows=rows,
        questions=size,
        cells=size,
        epsilon=epsilon,
        delta=delta,
        confidence=confidence,
        neighbours=neighbours,
    )


@dataclass(frozen=True, slots=True)
class LectureOrders:
    """The lecture's orders of magnitude for the example, without constants."""

    laplace: float
    """2^d·d/(εn)."""
    blr: float
    """(d²/(εn))^{1/3}."""


def lecture_orders(columns: int, *, rows: int, epsilon: float) -> LectureOrders:
    """Return the lecture's orders of magnitude."""
    scale = epsilon * rows
    return LectureOrders(2.0**columns * columns / scale, (columns**2 / scale) ** (1 / 3))


def compare_promises(setting: Setting) -> dict[str, float]:
    """Return the guarantees of the lecture's mechanisms and of their rivals, with real constants."""
    guarantees = {}
    for name in COMPARED:
        try:
            guarantees[name] = promise_for(setting, name).within
        except Unsuitable:
            continue
    return guarantees


def rows_needed(setting: Setting, *, within: float) -> dict[str, int | None]:
    """Return how many rows each mechanism needs for an error; None if 10^11 are not enough."""
    rows: dict[str, int | None] = {}
    for name in COMPARED:
        try:
            rows[name] = rows_for(setting, name, within=within)
        except UnreachablePlan:
            rows[name] = None
        except Unsuitable:
            continue
    return rows
