"""The schema: the table, its domain of attributes, and the privacy unit. All of it is public.

`Schema.digest` is permanent: the ledger is bound to it. `Neighbours` names the neighbour relation; a guarantee under
one relation says nothing about the other.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from fractions import Fraction
from typing import Self, assert_never

from dodona.errors import InvalidArgument
from dodona.numbers import Exact, to_fraction, to_integer
from dodona.schema import attributes as kinds
from dodona.schema.names import validate_name, validate_table_name

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
        names, shape = tuple([attribute.name for attribute in listed]), tuple([attribute.cells for attribute in listed])
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
_FARTHEST = Fraction(10**15)
_LONGEST_EXPRESSION = 1_000
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
    """The number of rows of a person that count, of all tables together."""
    caps: tuple[tuple[str, int], ...]
    """With several tables, the number of rows of a person that count in each of them; otherwise empty."""
    about: str = field(init=False, repr=False, compare=False)
    """A sentence on what answers cover, if not all rows may count; otherwise empty."""
    fixed: bool = field(init=False, repr=False, compare=False)
    """Whether all neighbours have the same number of rows, which is then public.

    A replaced person may have had more or fewer rows than their replacement.
    """

    def __init__(
        self,
        *,
        neighbours: Neighbours | str,
        size: int,
        id: str | None = None,  # noqa: A002  the word of the dataset file
        rows: int = 1,
        caps: tuple[tuple[str, int], ...] = (),
    ) -> None:
        """Take a cap on rows only together with the person column; several caps must add up to it."""
        kinds.set_fields(self, neighbours=_parse_neighbours(neighbours), id=id)
        kinds.set_fields(self, size=to_integer(size, argument="size", lower=1, upper=LARGEST_SIZE))
        kinds.set_fields(self, rows=to_integer(rows, argument="rows", lower=1, upper=MOST_ROWS))
        if id is None and self.rows != 1:
            raise InvalidArgument("rows", rows, "leave it out, or name the column of people as id")
        if id is not None and (type(id) is not str or not id.isprintable() or not 0 < len(id) <= _LONGEST_ID):
            raise InvalidArgument("id", id, "write the name of the column that tells people apart")
        if caps and (id is None or sum(most for _, most in caps) != self.rows):
            raise InvalidArgument("caps", caps, "write a cap for each table of people; together they are `rows`")
        fixed = self.neighbours is Neighbours.REPLACE and id is None
        about = "" if id is None else f"Of each person {_describe_caps(self.rows, caps)}."
        kinds.set_fields(self, caps=caps, about=about, fixed=fixed)

    @classmethod
    def each_row(cls, neighbours: Neighbours | str, *, size: int = 1) -> Self:
        """Return the unit that protects each row individually; prices do not depend on the size."""
        return cls(neighbours=neighbours, size=size)


def _describe_caps(rows: int, caps: tuple[tuple[str, int], ...]) -> str:
    """Return how many rows of a person count, in words."""
    if not caps:
        return f"at most {rows:,} rows count" if rows > 1 else "one row counts"
    listed = [f"{f'at most {most:,} rows' if most > 1 else 'one row'} of {name}" for name, most in caps]
    return f"{', '.join(listed[:-1])} and {listed[-1]} count"


def _parse_neighbours(value: Neighbours | str) -> Neighbours:
    try:
        return Neighbours(value)
    except ValueError as fault:
        names = " or ".join(f'"{relation.value}"' for relation in Neighbours)
        raise InvalidArgument("neighbours", value, f"write {names}") from fault


# --- Further tables: private ones that are linked by the person's id, and public ones. ---


ROW_OF = "row_of"
"""The column that says which table a row is from, and of which others the person has a row. Analysts do not see it."""
MOST_LINKED = 6
LinkKey = str | int | bool | Fraction | dt.date
"""A value that a public table is looked up by."""


@dataclass(frozen=True, slots=True)
class LinkedTable:
    """A further private table about the same people.

    If one row of a person counts, that row's columns are also columns of the person's rows in all other tables.
    """

    name: str
    domain: Domain
    id: str
    """Its column that identifies people."""
    rows: int = 1
    """The number of rows of a person that count."""
    size: int | None = None
    """The approximate number of rows, declared and public: the 100% of a tolerance; by default that of the main table.

    No price depends on it, so it may change, and ledgers are not bound to it.
    """

    def __post_init__(self) -> None:
        """Validate the name, the cap and the size."""
        validate_table_name(self.name, argument="table")
        to_integer(self.rows, argument="rows", lower=1, upper=MOST_ROWS)
        if self.size is not None:
            to_integer(self.size, argument="size", lower=1, upper=LARGEST_SIZE)


@dataclass(frozen=True, slots=True, eq=False)  # so that what was compiled with one is not taken for another's
class PublicTable:
    """A table that everyone may know: for each value of its key, one row."""

    name: str
    key: str
    columns: Mapping[str, Mapping[LinkKey, LinkKey | None]]
    """By name, for each value of the key; without the key itself."""
    keys: frozenset[LinkKey]

    @classmethod
    def of(cls, name: str, key: str, rows: Iterable[Mapping[str, LinkKey | None]]) -> Self:
        """Take rows; refuses a key that occurs twice or is missing.

        >>> PublicTable.of("wards", "ward", [{"ward": "a", "floor": 1}, {"ward": "b", "floor": 2}]).columns["floor"]
        {'a': 1, 'b': 2}
        """
        columns: dict[str, dict[LinkKey, LinkKey | None]] = {}
        keys = set[LinkKey]()
        for place, row in enumerate(rows):
            key_value = row.get(key)
            if key_value is None or key_value in keys:
                what = "every row needs a value of the key" if key_value is None else "write each value of the key once"
                raise InvalidArgument(f"{name}[{place}].{key}", key_value, what)
            keys.add(key_value)
            for column, value in row.items():
                if column != key:
                    columns.setdefault(column, {})[key_value] = value
        return cls(validate_table_name(name, argument="table"), key, columns, frozenset(keys))


@dataclass(frozen=True, slots=True, init=False)
class ComputedColumn:
    """An expression of the columns of a row that analysts may use by a name, within public bounds.

    >>> ComputedColumn("revenue", "quantity * unit_price", 0, 500).upper
    Fraction(500, 1)
    """

    name: str
    expression: str
    """In SQL. No ledger is bound to it: what is measured is the clamped expression itself."""
    lower: Fraction
    upper: Fraction

    def __init__(self, name: str, expression: str, lower: Exact, upper: Exact) -> None:
        """Take bounds as exact numbers, the lower one first; a value beyond counts as the bound."""
        bounds = [
            to_fraction(bound, argument=word, lower=-_FARTHEST, upper=_FARTHEST)
            for word, bound in (("lower", lower), ("upper", upper))
        ]
        if bounds[1] <= bounds[0]:
            raise InvalidArgument("upper", str(upper), f"write a number above lower = {bounds[0]}")
        if (
            type(expression) is not str
            or not expression.isprintable()
            or not 0 < len(expression) <= _LONGEST_EXPRESSION
        ):
            raise InvalidArgument("expression", expression, "write an expression in SQL, such as quantity * unit_price")
        kinds.set_fields(
            self, name=validate_name(name, argument="name"), expression=expression, lower=bounds[0], upper=bounds[1]
        )


def row_labels(main: str, linked: tuple[LinkedTable, ...]) -> tuple[str, ...]:
    """Return what the column `ROW_OF` may say: a table, then the tables in which the person has their one row.

    >>> row_labels("visits", (LinkedTable("patients", Domain(()), "id"),))
    ('visits', 'visits+patients', 'patients')
    """
    single = [table.name for table in linked if table.rows == 1]
    labels = []
    for name in (main, *(table.name for table in linked)):
        others = [other for other in single if other != name]
        for subset in range(1 << len(others)):
            met = [other for place, other in enumerate(others) if subset >> place & 1]
            labels.append("+".join([name, *met]))
    return tuple(labels)


# --- Public constraints: facts about every row that need no data, such as that children are not married. ---


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """Conditions in SQL: every row that meets `when` meets `then`, or no row meets `never`.

    >>> print(Constraint(when="age < 15", then="marital_status = 'never married'"))
    when age < 15 then marital_status = 'never married'
    """

    when: str | None = None
    then: str | None = None
    never: str | None = None

    def __post_init__(self) -> None:
        """Refuse anything but one of the two forms."""
        if (self.when is None) != (self.then is None) or (self.when is None) == (self.never is None):
            given = {"when": self.when, "then": self.then, "never": self.never}
            raise InvalidArgument("constraint", given, "write when= and then=, or never=, each a condition in SQL")

    def __str__(self) -> str:
        return f"never {self.never}" if self.never is not None else f"when {self.when} then {self.then}"


# --- The schema: the table, its columns, and the privacy unit. All of it is public. ---


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """What an analyst may know of a table in advance."""

    table: str
    """The table name that analysts use."""
    domain: Domain
    """With linked tables: the columns of the table itself, `ROW_OF`, then those of the linked tables."""
    unit: Unit
    linked: tuple[LinkedTable, ...] = ()
    public: tuple[PublicTable, ...] = ()
    """Public tables that may be joined. They are no part of what the ledger is bound to."""
    constraints: tuple[Constraint, ...] = ()
    """What every row is known to meet, for synthetic rows. They are no part of what the ledger is bound to either."""
    computed: tuple[ComputedColumn, ...] = ()
    """Expressions with a name and bounds. They are no part of what the ledger is bound to either."""

    def __post_init__(self) -> None:
        """Refuse a schema that would allow questions about the person column."""
        validate_table_name(self.table, argument="table")
        person = self.unit.id
        sources = {kinds.source_column_name(attribute).casefold() for attribute in self.domain}
        if person is not None and person.casefold() in {name.casefold() for name in self.domain.names}:
            raise InvalidArgument("id", person, "do not declare it as a column: the id of a row is never answered")
        if person is not None and person.casefold() in sources:
            raise InvalidArgument("id", person, "read no column from it: the id of a row is never answered")
        taken = {name.casefold() for name in (*self.domain.names, person or "")}
        for column in self.computed:
            if column.name.casefold() in taken:
                raise InvalidArgument("computed", column.name, "a column has this name; write another one")
            taken.add(column.name.casefold())

    @classmethod
    def of(  # noqa: PLR0913  what a schema has
        cls,
        table: str,
        *columns: kinds.Attribute,
        size: int,
        neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
        id: str | None = None,  # noqa: A002  the word of the dataset file
        rows: int = 1,
        linked: Iterable[LinkedTable] = (),
        public: Iterable[PublicTable] = (),
        constraints: Iterable[Constraint] = (),
        computed: Iterable[ComputedColumn] = (),
    ) -> Self:
        """Build a schema from columns in one call; the columns of linked tables are added to them.

        >>> from dodona import Boolean, Integer
        >>> Schema.of("stays", Integer("age", 0, 110), Boolean("emergency"), size=200_000).domain.shape
        (113, 4)
        """
        unit = Unit(neighbours=neighbours, size=size, id=id, rows=rows)
        schema = cls(
            table=table,
            domain=Domain(columns),
            unit=unit,
            public=tuple(public),
            constraints=tuple(constraints),
            computed=tuple(computed),
        )
        return schema.link(tuple(linked))

    def link(self, linked: tuple[LinkedTable, ...]) -> Self:
        """Return the schema with further private tables."""
        if not linked:
            return self
        unit, names = self.unit, [self.table, *(table.name for table in linked)]
        if unit.id is None:
            raise InvalidArgument("tables", names[1:], "private tables are linked by the people that [unit] protects")
        if len(linked) > MOST_LINKED or len({name.casefold() for name in names}) < len(names):
            raise InvalidArgument("tables", names, f"write up to {MOST_LINKED} tables, each with a name of its own")
        labels = row_labels(self.table, linked)
        attributes = [*self.domain.attributes, kinds.Category(ROW_OF, labels, otherwise=labels[0])]
        for table in linked:
            for attribute in table.domain:
                if attribute.name.casefold() in {other.name.casefold() for other in attributes}:
                    accepted = f"another table has it too; give it another name, with source = {attribute.name!r}"
                    raise InvalidArgument(f"tables.{table.name}.columns", attribute.name, accepted)
                attributes.append(attribute)
        caps = ((self.table, unit.rows), *((table.name, table.rows) for table in linked))
        rows = sum(most for _, most in caps)
        own_unit = Unit(neighbours=unit.neighbours, size=unit.size, id=unit.id, rows=rows, caps=caps)
        return replace(self, domain=Domain(tuple(attributes)), unit=own_unit, linked=linked)

    @property
    def own(self) -> Schema:
        """The schema of the table by itself, without the linked ones."""
        if not self.linked:
            return self
        unit, names = self.unit, self.domain.names
        alone = Unit(neighbours=unit.neighbours, size=unit.size, id=unit.id, rows=unit.caps[0][1])
        kept = self.domain.attributes[: names.index(ROW_OF)]
        return replace(self, domain=Domain(kept), unit=alone, linked=())

    def of_linked(self, linked: LinkedTable) -> Schema:
        """Return the schema of a linked table by itself."""
        size = linked.size or self.unit.size
        unit = Unit(neighbours=self.unit.neighbours, size=size, id=linked.id, rows=linked.rows)
        return replace(self, table=linked.name, domain=linked.domain, unit=unit, linked=())

    @property
    def size(self) -> int:
        """The declared number of rows of all private tables together."""
        return self.unit.size + sum(self.unit.size if table.size is None else table.size for table in self.linked)

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
        if self.linked:
            written["linked"] = [[table.name, table.id, table.rows, list(table.domain.names)] for table in self.linked]
        return json.dumps(written, sort_keys=True, ensure_ascii=True, separators=(",", ":"))

    def extends(self, older: Schema) -> bool:
        """Whether this schema only adds columns after those of the older one.

        Which rows of a person count depends on the codes of all columns in order. A column added at the end changes no
        question about the older ones; one added before them might.
        """
        kept = self.domain.attributes[: len(older.domain.attributes)]
        linked, others = ([replace(table, size=None) for table in each.linked] for each in (self, older))
        same = self.table == older.table and self.unit == older.unit and linked == others
        return same and kept == older.domain.attributes


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
