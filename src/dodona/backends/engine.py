"""Answers from any engine that speaks SQL: what is asked in one pass, and what the columns that come back are worth.

Only sums come back from an engine, one row a group that is there: never a row of the table.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dodona.backends.histogram import Histogram, planned
from dodona.backends.totals import Whole, fitted, joined
from dodona.domain.attribute import cells
from dodona.query.predicate import Predicate
from dodona.query.query import Block, Key, Query
from dodona.query.weight import People
from dodona.sql.render import Statement, Table, conditional, histogram, people, statement
from dodona.sql.render_check import told_apart, unread
from dodona.trusted.source import Sealed

if TYPE_CHECKING:
    from numpy.typing import NDArray

Fetch = Callable[[Statement], "list[NDArray[np.int64]]"]
"""Runs a statement and returns the columns of its answer: the group, then the limbs. Raises SourceFailed."""
_CONDITIONS_AT_ONCE = 200  # more of them in one statement cost more each
_FEW_CONDITIONS = 2
_WEIGHTS_AT_ONCE = 500  # each is two columns at most, and PostgreSQL gives back 1,664


def answers(query: Query, table: Table, *, rows: int, fetch: Fetch) -> Sealed:
    """Return all answers of a query, sealed; `rows` is the declared size."""
    plan = planned(query, rows=rows)
    found = dict[int, Whole]()
    for names, places in plan.histograms:
        found |= _histogram(query, names, table, fetch).answers(query, plan, places)
    for answered, asked in _statements(table, query.blocks, plan.single):
        found.update(zip(answered, _sums(asked, fetch), strict=True))
    return Sealed(joined([found[place] for place in range(len(query.blocks))]))


def unread_columns(table: Table, fetch: Fetch) -> tuple[str, ...]:
    """Return the columns in which something stands in some row, and in no row a value that is declared."""
    columns = told_apart(table)
    if not columns:
        return ()
    _, *figures = fetch(unread(table))
    counts = [int(column[0]) for column in figures]
    pairs = zip(columns, counts[::2], counts[1::2], strict=True)
    return tuple(own.attribute.name for own, within, beyond in pairs if within == 0 < beyond)


def _histogram(query: Query, names: Sequence[str], table: Table, fetch: Fetch) -> Histogram:
    shape = tuple(cells(query.domain[name]) for name in names)
    columns = fetch(histogram(table, names))
    counts = np.zeros(int(np.prod(shape, dtype=np.int64)), dtype=np.int64)
    counts[columns[0]] = columns[1]
    return Histogram(tuple(names), counts.reshape(shape))


def _sums(asked: Statement, fetch: Fetch) -> list[Whole]:
    """Return the answers of each weight of a statement, for all of its groups."""
    group, *columns = fetch(asked)
    found = list[Any]()
    for scales in asked.scales:
        own, columns = columns[: len(scales)], columns[len(scales) :]
        found.append(_total(group, own, scales, groups=asked.groups))
    return found


def _statements(table: Table, blocks: Sequence[Block], places: Sequence[int]) -> list[tuple[list[int], Statement]]:
    """Return statements for blocks, and which places each of them answers; what can be asked in one pass is."""
    alike = defaultdict[tuple[Predicate, tuple[Key, ...]], list[int]](list)
    found = list[tuple[list[int], Statement]]()
    for place in places:
        block = blocks[place]
        if isinstance(block.weight, People):
            found.append(([place], people(table, block.where, block.keys)))
        else:
            alike[block.where, block.keys].append(place)
    alone = [own for (_, keys), own in alike.items() if not keys]
    for (where, keys), own in alike.items():
        if keys or len(alone) <= _FEW_CONDITIONS:
            for start in range(0, len(own), _WEIGHTS_AT_ONCE):
                some = own[start : start + _WEIGHTS_AT_ONCE]
                found.append((some, statement(table, where, keys, [blocks[place].weight for place in some])))
    if len(alone) > _FEW_CONDITIONS:
        listed = [place for own in alone for place in own]
        for start in range(0, len(listed), _CONDITIONS_AT_ONCE):
            own = listed[start : start + _CONDITIONS_AT_ONCE]
            found.append((own, conditional(table, [blocks[place] for place in own])))
    return found


def _total(
    group: NDArray[np.int64], columns: Sequence[NDArray[np.int64]], scales: Sequence[int], *, groups: int
) -> Whole:
    """Return what limbs are worth together, one number a group; groups that did not come up have 0."""
    *high, low = columns
    if scales[-1] == 1 and not any(limb.any() for limb in high):
        dense = np.zeros(groups, dtype=np.int64)
        dense[group] = low
        return dense
    total = [0] * groups
    limbs = zip(*(column.tolist() for column in columns), strict=True)
    for place, parts in zip(group.tolist(), limbs, strict=True):
        total[place] = sum(scale * part for scale, part in zip(scales, parts, strict=True))
    return fitted(total)
