"""Workloads in words: `"2-way"`, `"3-way"`, or everything about one column."""

import math
import re
from collections.abc import Iterable
from itertools import combinations

from dodona.errors import InvalidRequest
from dodona.query.query import MOST_VALUES
from dodona.schema.schema import ROW_OF, Domain
from dodona.synth.workload import LEAST_GROUPS, WIDE, InvalidWorkload, Room, Workload, limit_groups, order_columns

WORDS = ("1-way", "2-way", "3-way")
"""What a workload is usually called; other numbers of columns are understood too."""
MOST_TARGET_CELLS = 1 << 16
"""The largest table of a target and two more columns that is asked for: wider ones are mostly noise."""
_WORD = re.compile(r"([1-9][0-9]?)[- ]?ways?")
_HOW = f"Write one of {', '.join(map(repr, WORDS))}, target= a column, or a Workload of your own"


def name_workload(
    domain: Domain,
    workload: Workload | str | None = None,
    *,
    target: str | None = None,
    columns: Iterable[str] | None = None,
) -> Workload:
    """Return the workload that a caller means: as it is, by a word such as `"2-way"`, or about a target column.

    >>> from dodona.schema.attributes import Boolean
    >>> domain = Domain((Boolean("sick"), Boolean("night"), Boolean("urgent")))
    >>> [len(name_workload(domain, word).query.blocks) for word in ("2-way", "3-way")]
    [3, 1]
    >>> [sorted(block.attributes) for block in name_workload(domain, target="sick").query.blocks]
    [['night', 'sick'], ['sick', 'urgent'], ['night', 'sick', 'urgent']]
    """
    if (workload is None) == (target is None):
        raise InvalidWorkload(f"Say in one way what the release should answer. {_HOW}.")
    if isinstance(workload, Workload):
        if columns is not None:
            raise InvalidWorkload("A Workload names its columns. Leave columns= out, or write a word, such as '2-way'.")
        return workload
    names = _chosen(domain, columns)
    if target is not None:
        return _about_target(domain, target, names)
    return _ways(domain, workload, names)


def _chosen(domain: Domain, columns: Iterable[str] | None) -> tuple[str, ...]:
    """Return the columns of a workload in words, by default all; always with that of the table that a row is of."""
    if columns is None:
        return domain.names
    if isinstance(columns, str):
        raise InvalidWorkload(f"columns = {columns!r} is a text. Write a list of columns, such as [{columns!r}].")
    chosen = tuple(columns)
    unknown = [name for name in chosen if name not in domain]
    if unknown or len(set(chosen)) < len(chosen) or not chosen:
        known = ", ".join(domain.names)
        raise InvalidWorkload(f"columns = {list(chosen)!r:.200} is not accepted: write some of {known}, each once.")
    return chosen if ROW_OF not in domain or ROW_OF in chosen else (*chosen, ROW_OF)


def _about_target(domain: Domain, target: str, names: tuple[str, ...]) -> Workload:
    """Return all marginals of the target with one other column, and with two where these have few enough cells."""
    if target not in domain.names:
        raise InvalidWorkload(f"target = {target!r:.60} is no column. Write one of {', '.join(domain.names)}.")
    others = [name for name in names if name != target]
    if not others:
        raise InvalidWorkload(f"Nothing can be about {target}, as it is the only column. Write workload = '1-way'.")
    sets: list[tuple[str, ...]] = [(target, name) for name in others]
    sets += [
        (target, *pair)
        for pair in combinations(others, 2)
        if math.prod(domain[name].cells for name in (target, *pair)) <= MOST_TARGET_CELLS
    ]
    return _together(domain, [order_columns(domain, columns) for columns in sets])


def _ways(domain: Domain, word: object, names: tuple[str, ...]) -> Workload:
    matched = _WORD.fullmatch(word.strip().casefold()) if isinstance(word, str) else None
    if matched is None:
        raise InvalidWorkload(
            f"{word!r:.60} is no workload. {_HOW}: Workload.marginals(schema.domain, [['sex', 'age'], ['ward']])."
        )
    ways = int(matched[1])
    if ways > len(names):
        there = "is one column" if len(names) == 1 else f"are {len(names)}"
        raise InvalidWorkload(f"{word!r} takes {ways} columns together, and there {there}. Write '{len(names)}-way'.")
    return _together(domain, [order_columns(domain, some) for some in combinations(names, ways)])


def _together(domain: Domain, sets: list[tuple[str, ...]]) -> Workload:
    groups = limit_groups(domain, sets, Room(each=MOST_VALUES))
    if groups is None:
        used = sorted({name for names in sets for name in names})
        widest = max(used, key=lambda name: domain[name].cells)
        counted = {
            name: min(domain[name].cells, LEAST_GROUPS + 2) if domain[name].size > WIDE else domain[name].cells
            for name in used
        }
        values = sum(math.prod([counted[name] for name in names]) for names in sets)
        raise InvalidWorkload(
            f"These {len(sets):,} marginals have {values:,} cells together, more than {MOST_VALUES:,}, even with "
            f"columns of more than {WIDE} values in {LEAST_GROUPS} bins. Name fewer columns= for it, perhaps without "
            f"{widest}, which has {domain[widest].cells:,} values."
        )
    try:
        return Workload.of_parts(domain, sets, groups=groups)
    except InvalidWorkload:
        raise
    except InvalidRequest as fault:  # what a query cannot hold, said as a workload
        raise InvalidWorkload(fault.message) from fault
