"""The mirror of a dataset in the sidecar: its table with types, bounds and comments, one row of NULLs, and a guard.

There are no data in it. Tools find there what a dataset file declares, all of which is public. Whatever is executed
over the mirror itself raises an error: only the answers that the door puts into a statement are ever computed with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from dodona.server.door.constants import identifier, quote
from dodona.server.door.shape import Catalog

ADMINISTRATOR = "dodona"
_MOST_LABELS = 200
_INT4 = 2**31
_TYPES = {"category": "text", "boolean": "boolean", "number": "double precision", "date": "date"}
_NUMBERS = ("integer", "number")
RELATIONS = {
    "budget": "dataset text, epsilon text, delta text, accountant text, spent double precision, "
    '"left" double precision, yours double precision, epsilon_spent double precision, charges bigint, closed boolean',
    "history": "number bigint, time timestamp with time zone, share double precision, question text, receipt text, "
    "answered boolean",
}
"""What the door fills when it is read: what was spent, and the caller's charges."""
_END_READERS = """SELECT pg_terminate_backend(pid) FROM pg_locks WHERE pid <> pg_backend_pid() AND relation IN
(SELECT oid FROM pg_class WHERE relnamespace = 'public'::regnamespace)
AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"""
"""A transaction that read the mirror keeps it from being replaced for as long as it is open, perhaps for hours."""


@dataclass(frozen=True, slots=True)
class Mirror:
    """What is declared about a dataset.

    Theorem: sql-door
    """

    dataset: str
    table: str
    columns: tuple[Mapping[str, Any], ...]
    """As the core describes them."""
    person: str | None
    size: int | None
    previews: bool = False
    aggregates: frozenset[str] = frozenset()

    @classmethod
    def of(cls, description: Mapping[str, Any], aggregates: frozenset[str]) -> Mirror:
        """Return the mirror of a dataset that the core has described."""
        unit = description["unit"]
        return cls(
            description["dataset"],
            description["table"],
            tuple(description["columns"]),
            unit["id"],
            unit["size"],
            bool(description.get("previews")),
            aggregates,
        )

    @property
    def catalog(self) -> Catalog:
        """What the door must know to find the dataset in a statement."""
        names = frozenset(column["name"] for column in self.columns) | ({self.person} if self.person else set())
        wholes = {column["name"]: column["kind"] == "integer" for column in self.columns if column["kind"] in _NUMBERS}
        previews = {self.table: ", ".join(self._types())} if self.previews else {}
        return Catalog({self.table: names}, self.person, self.aggregates, RELATIONS, wholes, previews)

    def _types(self, check: Callable[[Mapping[str, Any]], str] = lambda _: "") -> list[str]:
        """Return the columns with their types, and what is to follow each."""
        definitions = [f"{identifier(column['name'])} {_type(column)}{check(column)}" for column in self.columns]
        return [*definitions, f"{identifier(self.person)} text"] if self.person is not None else definitions

    def statements(self) -> Iterator[str]:
        """Yield the SQL that makes the mirror in a database of its own."""
        table = f"public.{identifier(self.table)}"
        yield _END_READERS
        yield "DROP SCHEMA public CASCADE"
        yield "CREATE SCHEMA public"
        yield "GRANT USAGE ON SCHEMA public TO PUBLIC"
        yield f"CREATE TABLE {table} ({', '.join(self._types(_check))})"
        yield f"INSERT INTO {table} DEFAULT VALUES"
        protects = "row" if self.person is None else "person"
        about = f"Protects each {protects}. Answers are noisy. EXPLAIN shows a price, dodona.budget what is left."
        yield f"COMMENT ON TABLE {table} IS {quote(about)}"
        for column in self.columns:
            yield f"COMMENT ON COLUMN {table}.{identifier(column['name'])} IS {quote(_about(column))}"
        if self.person is not None:
            about = "Names a person: never shown. count(DISTINCT ...) counts people."
            yield f"COMMENT ON COLUMN {table}.{identifier(self.person)} IS {quote(about)}"
        yield from _guard(table)
        if self.size is not None:
            where = f"WHERE oid = {quote(table)}::regclass"
            yield f"UPDATE pg_class SET reltuples = {self.size}, relpages = 1 {where}"  # noqa: S608  all is quoted
        yield from self._columns()

    def _columns(self) -> Iterator[str]:
        yield "DELETE FROM dodona.columns"
        for place, column in enumerate(self.columns):
            facts = (quote(self.table), quote(column["name"]), quote(column["kind"]))
            bounds = (_text(column.get("lower")), _text(column.get("upper")))
            values = (str(place + 1), *facts, *bounds, _array(column.get("labels")), _array(column.get("bins")))
            yield f"INSERT INTO dodona.columns VALUES ({', '.join(values)})"  # noqa: S608  all is quoted


def _guard(table: str, raises: str = "dodona.refuse()") -> Iterator[str]:
    yield f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY"
    yield f"CREATE POLICY never ON {table} USING ({raises})"
    yield f"GRANT SELECT ON {table} TO PUBLIC"


def _type(column: Mapping[str, Any]) -> str:
    if column["kind"] == "integer":
        small = int(column["lower"]) >= -_INT4 and int(column["upper"]) < _INT4
        return "integer" if small else "bigint"
    if column["kind"] == "timestamp":
        return "timestamp without time zone"
    return _TYPES.get(column["kind"], "text")


def _check(column: Mapping[str, Any]) -> str:
    name, labels = identifier(column["name"]), column.get("labels")
    if labels is not None and column["kind"] == "category" and len(labels) <= _MOST_LABELS:
        return f" CHECK ({name} IN ({', '.join(quote(str(label)) for label in labels)}))"
    if "lower" in column and "upper" in column:
        lower, upper = (quote(str(column[end])) for end in ("lower", "upper"))
        return f" CHECK ({name} BETWEEN {lower} AND {upper})"
    return ""


def _about(column: Mapping[str, Any]) -> str:
    parts = [column["kind"]]
    if column.get("labels") is not None:
        parts.append(", ".join(str(label) for label in column["labels"][:_MOST_LABELS]))
    if "lower" in column and "upper" in column:
        parts.append(f"{column['lower']} to {column['upper']}")
    if column.get("bins") is not None:
        bins = column["bins"]
        parts.append(f"grouped by {bins if isinstance(bins, str) else ', '.join(str(edge) for edge in bins)}")
    facts = ": ".join(parts[:2]) + "".join(f"; {part}" for part in parts[2:])
    return f"{column['means']} ({facts})" if "means" in column else facts


def _text(value: object) -> str:
    return "NULL" if value is None else quote(str(value))


def _array(value: object) -> str:
    match value:
        case None:
            return "NULL"
        case str():
            return f"ARRAY[{quote(value)}]"
        case list():
            return f"ARRAY[{', '.join(quote(str(item)) for item in value)}]::text[]"
        case _:
            return _text(value)


def template() -> str:
    """Return the SQL that turns the template of a new sidecar into one for mirrors."""
    text = files("dodona.server.door").joinpath("template.sql").read_text(encoding="utf-8")
    for name, columns in RELATIONS.items():
        table = f"dodona.{name}"
        text += f"CREATE TABLE {table} ({columns});INSERT INTO {table} DEFAULT VALUES;"
        text += ";".join(_guard(table, "dodona.unfilled()")) + ";"
        text += f"COMMENT ON TABLE {table} IS 'Filled when it is read in FROM by this name. Reading it is free.';"
    return text
