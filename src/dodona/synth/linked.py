"""Synthetic rows of several tables: from one law over the rows of all of them to tables that are linked by made-up ids.

The first table with one row of a person is drawn first, and each of its rows is a person. Rows of other tables that
have such a person go to one with the same values there; the others are of people who are only in their own table.
"""

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator  # noqa: TID251  people of made-up rows; the seed is public
from numpy.typing import NDArray

from dodona.errors import InvalidRequest
from dodona.schema.schema import ROW_OF, Domain, Schema, Unit, row_labels
from dodona.synth.people import draw_people
from dodona.synth.table import SyntheticRows

Codes = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Table:
    """A private table: its columns that were released, the name of its id, and how many rows of a person count."""

    name: str
    domain: Domain
    id: str
    cap: int


def split_tables(schema: Schema, rows: SyntheticRows, chance: Generator) -> dict[str, SyntheticRows]:
    """Return the rows of each private table, with ids that link them."""
    if not schema.linked:
        raise InvalidRequest("There is one table here. Use rounded() or sampled().")
    if ROW_OF not in rows.codes:
        raise InvalidRequest(f"The release does not say which table a row is of. Add {ROW_OF!r} to its columns.")
    listed = _private_tables(schema, rows.domain)
    labels = [label.split("+") for label in row_labels(schema.table, schema.linked)]
    of = np.asarray(rows.codes[ROW_OF])
    parent = next((table for table in listed[1:] if table.cap == 1), None)
    places = {table.name: np.flatnonzero(np.isin(of, _labels_of(labels, table.name))) for table in listed}
    people, number = dict[str, Codes](), 0
    if parent is not None:
        number = len(places[parent.name])
        people[parent.name] = np.arange(number)
    for table in listed:
        if table.name in people:
            continue
        here = places[table.name]
        owners = np.full(len(here), -1, dtype=np.int64)
        if parent is not None:
            tied = np.isin(of[here], [code for code, label in enumerate(labels) if parent.name in label[1:]])
            keys = _keys(rows, parent.domain, np.concatenate([places[parent.name], here[tied]]))
            owners[tied] = _match(keys[: len(places[parent.name])], keys[len(places[parent.name]) :], table.cap, chance)
        alone = owners < 0
        unit = Unit(neighbours=schema.unit.neighbours, size=1, id=table.id, rows=table.cap)
        fresh = draw_people(int(alone.sum()), unit, chance)
        owners[alone] = fresh + number
        number += int(fresh.max(initial=-1)) + 1
        people[table.name] = owners
    return {table.name: _rows_of(table, rows, places[table.name], people[table.name]) for table in listed}


def _private_tables(schema: Schema, released: Domain) -> list[_Table]:
    caps = dict(schema.unit.caps)
    listed = [(schema.table, schema.own.domain, schema.unit.id or "")]
    listed += [(table.name, table.domain, table.id) for table in schema.linked]
    return [
        _Table(name, domain.project(known for known in domain.names if known in released), person, caps[name])
        for name, domain, person in listed
    ]


def _labels_of(labels: list[list[str]], name: str) -> list[int]:
    """Return the codes that say that a row is of a table."""
    return [code for code, label in enumerate(labels) if label[0] == name]


def _keys(rows: SyntheticRows, domain: Domain, places: Codes) -> Codes:
    """Return a number for each combination of values of some columns."""
    if not domain.names:
        return np.zeros(len(places), dtype=np.int64)
    table = np.stack([np.asarray(rows.codes[name])[places] for name in domain.names])
    return np.unique(table, axis=1, return_inverse=True)[1].reshape(-1)


def _match(parents: Codes, children: Codes, cap: int, chance: Generator) -> Codes:
    """Return the person of each child: one with the same key and room for it, or else any with room; -1 without one."""
    people = np.full(len(children), -1, dtype=np.int64)
    free = np.repeat(np.arange(len(parents)), cap)  # each person as often as rows of theirs count
    chance.shuffle(free)
    free = free[np.argsort(parents[free], kind="stable")]
    order = chance.permutation(len(children))
    order = order[np.argsort(children[order], kind="stable")]
    taken = np.zeros(len(free), dtype=bool)
    starts, ends = (np.searchsorted(parents[free], children[order], side=side) for side in ("left", "right"))
    rank = np.arange(len(order)) - np.searchsorted(children[order], children[order], side="left")
    fits = starts + rank < ends
    slots = (starts + rank)[fits]
    people[order[fits]] = free[slots]
    taken[slots] = True
    left = np.flatnonzero(people < 0)
    spare = chance.permutation(free[~taken])[: len(left)]
    people[left[: len(spare)]] = spare
    return people


def _rows_of(table: _Table, rows: SyntheticRows, places: Codes, people: Codes) -> SyntheticRows:
    codes = {name: np.asarray(rows.codes[name])[places] for name in table.domain.names}
    return SyntheticRows(table.domain, codes, id=table.id, people=people)
