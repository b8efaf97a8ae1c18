"""The schema: the table, its domain of attributes, and the privacy unit. All of it is public.

`Schema.digest` is permanent: the ledger is bound to it. `Neighbours` names the neighbour relation; a guarantee under
one relation says nothing about the other.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Self, assert_never

from dodona.errors import InvalidArgument
from dodona.numbers import to_integer
from dodona.schema import attributes as kinds
from dodona.schema.names import validate_table_name

# --- The domain: all attributes of a table, in order of declaration, and their algebra. ---


class _ByName(dict[str, kinds.Attribute]):
    """Attributes by name; an unknown name is an error that lists the known ones."""

    def __missing__(self, name: str) -> kinds.Attribute:
        raise InvalidArgument("attribute", name, f"write one of {', '.join(self)}")


@dataclass(frozen=True, slots=True)
class Domain:
    """Attributes whose names differ, ignoring case. Its cells are the product of theirs."""

    attributes: tuple[kinds.Attribute, ...] = field(hash=False)
    names: tuple[str, ...] = field(init=False, repr=False, compare=False, hash=True)
    """The names, in order; only they are hashed, as lookups are frequent."""
    shape: tuple[int, ...] = field(init=False, repr=False, compare=False)
    """The number of cells of each attribute."""
    size: int = field(init=False, repr=False, compare=False)
    """The total number of cells."""
    by_name: Mapping[str, kinds.Attribute] = field(init=False, repr=False, compare=False)
    """The attributes by name; an unknown name raises `InvalidArgument`."""

    def __post_init__(self) -> None:
        """Refuse duplicate names."""
        listed = tuple(self.attributes)
        names, shape = tuple([own.name for own in listed]), tuple([own.cells for own in listed])
        by_name = _ByName(zip(names, listed, strict=True))
        kinds.set_fields(self, attributes=listed, names=names, shape=shape, size=math.prod(shape), by_name=by_name)
        if len({name.casefold() for name in self.names}) != len(listed):
            raise InvalidArgument("attributes", self.names, "write each name once; capitals make no difference")

    def project(self, names: Iterable[str]) -> Self:
        """Return the domain of some attributes, in this domain's order."""
        kept = set(names)
        for name in kept:
            self.by_name[name]  # raises for an unknown name
        return type(self)(tuple(attribute for attribute in self.attributes if attribute.name in kept))

    def merge(self, other: Self) -> Self:
        """Return the domain with the attributes of both; shared attributes must be equal."""
        for attribute in other.attributes:
            if attribute.name in self.by_name and self.by_name[attribute.name] != attribute:
                raise InvalidArgument("other", attribute.name, "the two domains declare it differently")
        new = (attribute for attribute in other.attributes if attribute.name not in self.by_name)
        return type(self)((*self.attributes, *new))

    def __contains__(self, name: object) -> bool:
        return name in self.by_name

    def __iter__(self) -> Iterator[kinds.Attribute]:
        return iter(self.attributes)

    def __getitem__(self, name: str) -> kinds.Attribute:
        """Return the attribute with this name."""
        return self.by_name[name]


# --- The neighbour relation: which tables must be indistinguishable. ---


class Neighbours(Enum):
    """The neighbour relation. The two are never mixed: a guarantee under one says nothing under the other."""

    ADD_REMOVE = "add-remove"
    """One table has a row that the other lacks; the size is protected."""
    REPLACE = "replace"
    """The tables differ in one row; the size is public."""


# --- The privacy unit: who is protected. ---


MOST_ROWS = 10**6
LARGEST_SIZE = 10**15
_LONGEST_ID = 200


@dataclass(frozen=True, slots=True, init=False)
class Unit:
    """A row, or a person with at most `rows` rows, under one neighbour relation.

    >>> Unit(neighbours="add-remove", size=200_000, id="patient_id", rows=4).about
    'Of each person at most 4 rows count.'
    """

    neighbours: Neighbours
    size: int
    """The approximate number of rows, declared and public: the 100% of a tolerance in percent."""
    id: str | None
    """The column that identifies people; None if each row is protected individually."""
    rows: int
    """The number of rows of a person that count."""
    about: str = field(init=False, repr=False, compare=False)
    """A sentence on what answers cover, if not all rows may count; otherwise empty."""
    fixed: bool = field(init=False, repr=False, compare=False)
    """Whether all neighbours have the same number of rows, which is then public.

    A replaced person may have had more or fewer rows than their replacement.
    """

    def __init__(self, *, neighbours: Neighbours | str, size: int, id: str | None = None, rows: int = 1) -> None:  # noqa: A002
        """Take a cap on rows only together with the person column."""
        kinds.set_fields(self, neighbours=_parse_neighbours(neighbours), id=id)
        kinds.set_fields(self, size=to_integer(size, argument="size", lower=1, upper=LARGEST_SIZE))
        kinds.set_fields(self, rows=to_integer(rows, argument="rows", lower=1, upper=MOST_ROWS))
        if id is None and self.rows != 1:
            raise InvalidArgument("rows", rows, "leave it out, or name the column of people as id")
        if id is not None and (type(id) is not str or not id.isprintable() or not 0 < len(id) <= _LONGEST_ID):
            raise InvalidArgument("id", id, "write the name of the column that tells people apart")
        counted = f"at most {self.rows:,} rows count" if self.rows > 1 else "one row counts"
        fixed = self.neighbours is Neighbours.REPLACE and id is None
        kinds.set_fields(self, about="" if id is None else f"Of each person {counted}.", fixed=fixed)

    @classmethod
    def each_row(cls, neighbours: Neighbours | str, *, size: int = 1) -> Self:
        """Return the unit that protects each row individually; prices do not depend on the size."""
        return cls(neighbours=neighbours, size=size)


def _parse_neighbours(value: Neighbours | str) -> Neighbours:
    try:
        return Neighbours(value)
    except ValueError as fault:
        names = " or ".join(f'"{relation.value}"' for relation in Neighbours)
        raise InvalidArgument("neighbours", value, f"write {names}") from fault


# --- The schema: the table, its columns, and the privacy unit. All of it is public. ---


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """What an analyst may know of a table in advance."""

    table: str
    """The table name that analysts use."""
    domain: Domain
    unit: Unit

    def __post_init__(self) -> None:
        """Refuse a schema that would allow questions about the person column."""
        validate_table_name(self.table, argument="table")
        person = self.unit.id
        sources = {kinds.source_column_name(own).casefold() for own in self.domain}
        if person is not None and person.casefold() in {name.casefold() for name in self.domain.names}:
            raise InvalidArgument("id", person, "do not declare it as a column: who a row is of is never answered")
        if person is not None and person.casefold() in sources:
            raise InvalidArgument("id", person, "read no column from it: who a row is of is never answered")

    @classmethod
    def of(
        cls,
        table: str,
        *columns: kinds.Attribute,
        size: int,
        neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
        id: str | None = None,  # noqa: A002  the word of the dataset file
        rows: int = 1,
    ) -> Self:
        """Build a schema from columns in one call.

        >>> from dodona import Boolean, Integer
        >>> Schema.of("stays", Integer("age", 0, 110), Boolean("emergency"), size=200_000).domain.shape
        (113, 4)
        """
        return cls(table=table, domain=Domain(columns), unit=Unit(neighbours=neighbours, size=size, id=id, rows=rows))

    @property
    def digest(self) -> str:
        """The hash that a ledger is bound to: it changes with any declaration, and with nothing else."""
        return hashlib.sha256(self.canonical().encode("ascii")).hexdigest()

    def canonical(self) -> str:
        """Return the canonical text that the digest hashes. It is permanent: ledgers depend on it."""
        unit = self.unit
        written = {
            "format": 1,
            "table": self.table,
            "columns": [_canonical_attribute(attribute) for attribute in self.domain],
            "unit": {"neighbours": unit.neighbours.value, "size": unit.size, "id": unit.id, "rows": unit.rows},
        }
        return json.dumps(written, sort_keys=True, ensure_ascii=True, separators=(",", ":"))

    def extends(self, older: Schema) -> bool:
        """Whether this schema only adds columns after those of the older one.

        Which rows of a person count depends on the codes of all columns in order. A column added at the end changes no
        question about the older ones; one added before them might.
        """
        kept = self.domain.attributes[: len(older.domain.attributes)]
        return self.table == older.table and self.unit == older.unit and kept == older.domain.attributes


def _canonical_attribute(attribute: kinds.Attribute) -> dict[str, object]:
    """Return the permanent form of a column. Fields introduced later are omitted if unused."""
    written: dict[str, object] = {"name": attribute.name, "kind": attribute.kind}
    if attribute.source is not None:
        written["source"] = attribute.source
    if attribute.otherwise is not None:
        plain = isinstance(attribute.otherwise, str | int)  # a boolean is written as one
        written["otherwise"] = attribute.otherwise if plain else str(attribute.otherwise)
    match attribute:
        case kinds.Category(labels=labels):
            return written | {"labels": list(labels)}
        case kinds.Boolean():
            return written
        case kinds.Integer():
            bounds: dict[str, object] = {"lower": attribute.lower, "upper": attribute.upper}
        case kinds.Number():
            bounds = {"lower": str(attribute.lower), "upper": str(attribute.upper), "step": str(attribute.step)}
        case kinds.Date():
            bounds = {"lower": attribute.lower.isoformat(), "upper": attribute.upper.isoformat()}
        case kinds.Timestamp():
            ends = {"lower": attribute.lower.isoformat(), "upper": attribute.upper.isoformat()}
            bounds = {**ends, "step": attribute.step}
        case _:
            assert_never(attribute)
    return written | bounds | {"cuts": None if attribute.starts is None else list(attribute.starts)}
