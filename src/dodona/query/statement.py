"""A statement of two halves: questions about the table, and SQL that computes on their answers.

The inner half is a tuple of questions, which are planned and charged together. The outer half is SQL over relations of
released rows: it never names the table, and costs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dodona.query.question import Question

RELATION = "released_"
"""The rows of question number n are a relation called this, followed by n; its columns are `k0`, ... and `v0`, ..."""
ROW = "row_"
"""The column that numbers the rows of a relation: two groups may look alike, such as NULL for two reasons."""
DRAW = "draw_"
"""The column that numbers the redraws of a relation, and the relation of their numbers."""


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """A column of the result: its name, and what its error depends on."""

    name: str
    noisy: bool
    """Whether it is computed from noisy values, or from which rows noisy values select."""
    ranked: bool = False
    """Whether it depends on the order of noisy values, so that no honest interval is known."""
    end: Literal["", "low", "high"] = ""
    """For DP_INTERVAL_LOW and DP_INTERVAL_HIGH: which end of the interval is shown instead of the value."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Statement:
    """A statement as it was read: what it measures, and what it computes from that."""

    text: str
    parts: tuple[Question, ...]
    """The questions, each about one aggregate SELECT over the table; empty if everything is public."""
    sql: str
    """The outer half over the relations of the parts."""
    redraw: str
    """The same for one number of the redraws, without what only selects or sorts the rows that are shown."""
    columns: tuple[OutputColumn, ...]
    identity: int = 0
    """How many columns `redraw` has at the end that tell its rows apart."""
    selected_from: int = 0
    """How many relations are combined where noisy values decide which rows are shown; 0 where they do not."""
    warnings: tuple[str, ...] = ()
    explain: bool = False
    """Whether only the price is asked for."""
