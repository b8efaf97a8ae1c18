"""A table in memory: the reference implementation that every other engine is tested against."""

from collections.abc import Mapping, Sequence

import numpy as np

from dodona.engines.answers import (
    Histogram,
    WholeNumbers,
    answer_block,
    join_answers,
    plan_histograms,
    split_by_table,
)
from dodona.engines.cap import cap_key, number_people, rows_within_cap
from dodona.engines.cells import SourceUnfit
from dodona.errors import InvariantBroken
from dodona.numbers import Integers
from dodona.query.person_table import PersonTable
from dodona.query.predicate import evaluate_predicate
from dodona.query.query import Block, PeopleWeight, Query, group_numbers
from dodona.schema.attributes import source_column_name
from dodona.schema.encoding import RawColumn, encode
from dodona.schema.schema import Schema
from dodona.trusted.source import Sealed


class MemorySource:
    """Columns of values, encoded once.

    >>> from dodona.schema.attributes import Boolean
    >>> schema = Schema.of("stays", Boolean("emergency"), size=3)
    >>> MemorySource(schema, {"emergency": [True, False, None]}).exact(Query.count(schema.domain))
    <sealed>
    """

    def __init__(
        self, schema: Schema, columns: Mapping[str, RawColumn], *, version: str = "1", key: bytes | None = None
    ) -> None:
        """Take all declared columns, and the person column if the unit has one, all of equal length.

        If people are protected, the ledger's key selects which of their rows count.
        """
        own_key = cap_key(schema, key)
        self.version, self._schema = version, schema
        person = schema.unit.id
        needed = [*map(source_column_name, schema.domain), *([] if person is None else [person])]
        for name in needed:
            if name not in columns:
                what = f"The column {name} is declared, and the table does not have it."
                raise SourceUnfit(f"{what} Add it to the table.")
        if len({len(columns[name]) for name in needed}) > 1:
            raise SourceUnfit("The columns differ in length. Give each of them one value for each row.")
        self._people: Integers | None = None
        codes = {
            attribute.name: encode(attribute, columns[source_column_name(attribute)]) for attribute in schema.domain
        }
        if person is not None:
            kept = rows_within_cap(schema, codes, columns[person], own_key)
            codes = {name: column_codes[kept] for name, column_codes in codes.items()}
            self._people = number_people(columns[person])[kept]
        self._codes = codes
        self._rows = len(next(iter(codes.values()))) if codes else 0

    def __repr__(self) -> str:
        return f"MemorySource({self._schema.table})"

    def exact(self, query: Query) -> Sealed:
        """Return all answers of a query, sealed."""
        by_place = dict[int, WholeNumbers]()
        for table, places, part in split_by_table(query):
            answers = self._over_rows(part) if table is None else self._over_people(table, part)
            by_place.update(zip(places, answers, strict=True))
        return Sealed(join_answers([by_place[place] for place in range(len(query.blocks))]))

    def _over_rows(self, query: Query) -> list[WholeNumbers]:
        """Return the answers of each block over the counted rows."""
        plan = plan_histograms(query, rows=self._schema.unit.size)
        by_place = dict[int, WholeNumbers]()
        for names, places in plan.histograms:
            by_place |= self._histogram(query, names).answers(query, plan, places)
        for place in plan.single:
            block = query.blocks[place]
            if isinstance(block.weight, PeopleWeight):
                by_place[place] = self._count_people(block)
            else:
                by_place[place] = answer_block(block, self._codes, counts=None, rows=self._rows)
        return [by_place[place] for place in range(len(query.blocks))]

    def _over_people(self, table: PersonTable, query: Query) -> list[WholeNumbers]:
        """Return the answers of each block over a table of people."""
        if self._people is None:
            raise InvariantBroken("A table of people is made where the table does not tell them apart.")
        codes, rows = table.codes(self._codes, self._people), table.rows(self._codes, self._people)
        return [answer_block(block, codes, counts=None, rows=rows) for block in query.blocks]

    def close(self) -> None:
        """Release the table."""
        self._codes = {}

    def _count_people(self, block: Block) -> Integers:
        """Return the number of people with a row in each group."""
        if self._people is None:
            raise InvariantBroken("People are counted where the table does not tell them apart.")
        meant = np.broadcast_to(evaluate_predicate(block.where, self._codes), (self._rows,))
        groups = np.broadcast_to(group_numbers(block.keys, self._codes), (self._rows,))
        pairs = np.unique(np.stack([groups[meant], self._people[meant]]), axis=1)
        return np.bincount(pairs[0], minlength=block.values).astype(np.int64)

    def _histogram(self, query: Query, names: Sequence[str]) -> Histogram:
        shape = tuple(query.domain[name].cells for name in names)
        number = np.zeros(self._rows, dtype=np.int64)
        for name, size in zip(names, shape, strict=True):
            number *= size
            number += self._codes[name]
        counts = np.bincount(number, minlength=int(np.prod(shape, dtype=np.int64)))
        return Histogram(tuple(names), counts.reshape(shape))
