"""The schema: which table, what its columns may hold, and who is protected. All of it is public."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Self, assert_never

from dodona.domain.attribute import Attribute, Boolean, Category, Date, Integer, Number, column_of
from dodona.domain.domain import Domain
from dodona.domain.naming import checked_table
from dodona.domain.neighbours import Neighbours
from dodona.domain.unit import Unit
from dodona.errors import InvalidArgument


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """What an analyst may know of a table beforehand."""

    table: str
    """The name that analysts use."""
    domain: Domain
    unit: Unit

    def __post_init__(self) -> None:
        """Refuse a schema that would answer questions about the column of people."""
        checked_table(self.table, argument="table")
        person = self.unit.id
        if person is not None and person.casefold() in {name.casefold() for name in self.domain.names}:
            raise InvalidArgument("id", person, "do not declare it as a column: who a row is of is never answered")
        if person is not None and person.casefold() in {column_of(own).casefold() for own in self.domain}:
            raise InvalidArgument("id", person, "read no column from it: who a row is of is never answered")

    @classmethod
    def of(
        cls,
        table: str,
        *columns: Attribute,
        size: int,
        neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
        id: str | None = None,  # noqa: A002  the word of the dataset file
        rows: int = 1,
    ) -> Self:
        """Return a schema of columns, in one call.

        >>> Schema.of("stays", Integer("age", 0, 110), Boolean("emergency"), size=200_000).domain.shape
        (113, 4)
        """
        return cls(table=table, domain=Domain(columns), unit=Unit(neighbours=neighbours, size=size, id=id, rows=rows))

    @property
    def digest(self) -> str:
        """The hash that a ledger is bound to: it changes with any declaration, and with nothing else."""
        return hashlib.sha256(self.canonical().encode("ascii")).hexdigest()

    def canonical(self) -> str:
        """Return the one spelling that the digest is taken of. It is permanent: ledgers depend on it."""
        written = {
            "format": 1,
            "table": self.table,
            "columns": [_spelled(attribute) for attribute in self.domain],
            "unit": {
                "neighbours": self.unit.neighbours.value,
                "size": self.unit.size,
                "id": self.unit.id,
                "rows": self.unit.rows,
            },
        }
        return json.dumps(written, sort_keys=True, ensure_ascii=True, separators=(",", ":"))

    def extends(self, older: Schema) -> bool:
        """Whether this schema only adds columns, after those of the older one.

        Which rows of a person count follows from the codes of all columns in their order. So a column that is added
        at the end changes no question about the older ones; one that is added before them might.
        """
        kept = self.domain.attributes[: len(older.domain.attributes)]
        return self.table == older.table and self.unit == older.unit and kept == older.domain.attributes


def _spelled(attribute: Attribute) -> dict[str, object]:
    """Return the permanent spelling of a column. What came later is left out where it is not used."""
    written: dict[str, object] = {"name": attribute.name, "kind": attribute.kind}
    if attribute.source is not None:
        written["source"] = attribute.source
    if attribute.otherwise is not None:
        plain = isinstance(attribute.otherwise, str | int)  # a truth is written as one
        written["otherwise"] = attribute.otherwise if plain else str(attribute.otherwise)
    match attribute:
        case Category(labels=labels):
            return written | {"labels": list(labels)}
        case Boolean():
            return written
        case Integer():
            bounds: dict[str, object] = {"lower": attribute.lower, "upper": attribute.upper}
        case Number():
            bounds = {"lower": str(attribute.lower), "upper": str(attribute.upper), "step": str(attribute.step)}
        case Date():
            bounds = {"lower": attribute.lower.isoformat(), "upper": attribute.upper.isoformat()}
        case _:
            assert_never(attribute)
    return written | bounds | {"cuts": None if attribute.starts is None else list(attribute.starts)}
