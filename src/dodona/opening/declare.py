"""Changes of a schema after its ledger was created: what may change, and what would alter what was told before.

A ledger holds the digest of a schema and not the schema. So a new one is held against it by its own beginnings: if the
first columns of the new schema, with its table and unit, have the digest that the ledger is bound to, then columns were
only added at the end.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from dodona.domain.domain import Domain
from dodona.domain.neighbours import Neighbours
from dodona.domain.schema import Schema
from dodona.errors import InvalidRequest
from dodona.ledger import place
from dodona.ledger.chain import Line
from dodona.ledger.contract import Ledger
from dodona.ledger.faults import LedgerOfAnother
from dodona.opening.file import DatasetFile


class SchemaContradicts(InvalidRequest):
    """The new schema is not the one of the ledger with columns added at the end."""

    code = "schema-contradicts"


def declare(path: str | Path, *, same_people: bool = False) -> str:
    """Bind the ledger that a dataset file names to the file's schema, and return what changed, in words.

    After the first charge columns may be added at the end, and nothing else. Before it anything may change but the
    neighbours. With `same_people` a further table of the same people comes under the ledger's budget.
    """
    file = DatasetFile.read(path)
    with place.open_ledger(file.place, head=file.head_file) as ledger:
        head = ledger.head  # what is decided now must not be overtaken by a charge
        bound = ledger.datasets().get(file.dataset)
        if bound == file.schema.digest:
            return f"{file.dataset} is bound to this schema already"
        _same_relation(file.schema, ledger.lines())
        if bound is None:
            words = _further(file, ledger, same_people=same_people)
        elif ledger.state().charges == 0:
            words = "the schema changed before anything was charged"
        else:
            words = _added(file, bound, ledger.lines())
        ledger.declare(file.dataset, file.schema.digest, head=head)
        return words


def added_columns(schema: Schema, bound: str) -> tuple[str, ...] | None:
    """Return the columns that were added at the end of the schema with a digest; None where that is not what was done.

    >>> from dodona.domain.attribute import Boolean, Integer
    >>> old = Schema.of("stays", Integer("age", 0, 110), size=1000)
    >>> added_columns(Schema.of("stays", Integer("age", 0, 110), Boolean("urgent"), size=1000), old.digest)
    ('urgent',)
    """
    columns = schema.domain.attributes
    for kept in range(1, len(columns) + 1):
        older = Schema(table=schema.table, domain=Domain(columns[:kept]), unit=schema.unit)
        if older.digest == bound and schema.extends(older):
            return schema.domain.names[kept:]
    return None


def _added(file: DatasetFile, bound: str, lines: Sequence[Line]) -> str:
    added = added_columns(file.schema, bound)
    if added is not None:
        return f"columns were added: {', '.join(added)}"
    earlier = {str(digest) for line in lines for digest in _digests(line, file.dataset)}
    if file.schema.digest in earlier:
        raise SchemaContradicts(
            f"{file.path.name} has a schema that {file.dataset!r} had before: columns were taken away. A column that "
            "was declared stays; put it back."
        )
    raise SchemaContradicts(
        f"The schema in {file.path.name} is not the one that the ledger is bound to with columns added at the end. "
        "What differs cannot be told, as the ledger holds a digest alone. After the first charge columns may be added "
        "behind all others; the name of the table, the unit (protects, id, rows, neighbours, size), and the order, "
        "kinds, bounds, steps, labels, bins and otherwise of older columns may not change. Put them back as they were."
    )


def _further(file: DatasetFile, ledger: Ledger, *, same_people: bool) -> str:
    names = ", ".join(ledger.datasets())
    if not same_people:
        raise LedgerOfAnother(
            f"The ledger is for {names}, not for {file.dataset!r}. If this is a further table of the same people, "
            "write --same-people: all tables then share one budget."
        )
    return f"a further table of the same people, beside {names}"


def _same_relation(schema: Schema, lines: Sequence[Line]) -> None:
    relation = Neighbours(json.loads(lines[0].text)["neighbours"])
    if schema.unit.neighbours is not relation:
        raise SchemaContradicts(
            f'The ledger counts under neighbours = "{relation.value}", and that is for ever: a guarantee under one '
            "relation says nothing under the other. Put it back."
        )


def _digests(line: Line, dataset: str) -> list[object]:
    """Return the digests that a line bound a dataset to."""
    fields = json.loads(line.text)
    if fields["entry"] == "created":
        return [digest for name, digest in fields["datasets"] if name == dataset]
    return [fields["schema"]] if fields["entry"] == "declared" and fields["dataset"] == dataset else []
