"""The scope of a SQL statement: its text, the tables and columns it may name, its warnings and its errors.

Every error is an `InvalidSql` that points at the place in the text and says what to write instead.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import lru_cache

from sqlglot import exp

from dodona.errors import InvalidRequest
from dodona.query.predicate import EVERYTHING, And, Or, Predicate, among
from dodona.query.query import MOST_VALUES
from dodona.schema.attributes import Attribute, Boolean, Category
from dodona.schema.partition import Partition
from dodona.schema.schema import ROW_OF, ComputedColumn, Domain, Schema

# --- Errors in a SQL text: the position, the problem, and what to write instead. ---


_WIDEST = 100
_BEFORE = 60


class InvalidSql(InvalidRequest):
    """The text is not a question that can be answered. It was only parsed: no data were accessed."""

    code = "invalid-sql"
    sqlstate = "42601"

    def __init__(self, text: str, start: int, what: str, instead: str) -> None:
        """Point at a character of the text and say what is wrong there and what to write.

        >>> print(InvalidSql("SELECT * FROM stays", 7, "`*` would show rows.", "Write count(*)."))
        Line 1, column 8:
            SELECT * FROM stays
                   ^
        `*` would show rows. Write count(*). Nothing was charged.
        """
        self.start = max(0, min(start, len(text)))
        self.line, self.column = line_and_column(text, self.start)
        self.what = _printable(what)
        self.instead = _printable(instead)
        place = f"Line {self.line}, column {self.column}:\n{_mark_position(text, self.start)}"
        super().__init__(f"{place}\n{self.what} {self.instead}")


def line_and_column(text: str, start: int) -> tuple[int, int]:
    r"""Return the line and column of a character, both counted from 1.

    >>> line_and_column("SELECT\n  1", 9)
    (2, 3)
    """
    begin = text.rfind("\n", 0, start) + 1
    return text.count("\n", 0, start) + 1, start - begin + 1


def _mark_position(text: str, start: int) -> str:
    """Return the line at a position, or an excerpt around it, with a caret below."""
    begin = text.rfind("\n", 0, start) + 1
    end = text.find("\n", start)
    line = text[begin : len(text) if end < 0 else end]
    first = 0 if len(line) <= _WIDEST else max(0, start - begin - _BEFORE)
    shown = line[first : first + _WIDEST]
    head, tail = "…" * (first > 0), "…" * (first + _WIDEST < len(line))
    return f"    {head}{_printable(shown)}{tail}\n    {' ' * (len(head) + start - begin - first)}^"


def _printable(text: str) -> str:
    """Remove unprintable characters: names come from the analyst and go to a terminal."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


# --- Private tables: which a name stands for, and the rows of each. ---


DEFAULT_SCHEMAS = ("public", "main")  # in which tools look for a table that is written without one


@dataclass(frozen=True, slots=True)
class RowView:
    """The rows of one private table, perhaps joined with others: the columns that may be named, and which rows."""

    schema: Schema
    within: Predicate = EVERYTHING
    """The rows that come from this table; all of them if there is just one table."""
    joined: Predicate | None = None
    """Where the people of another table are kept: the rows that it is joined with."""


@lru_cache(maxsize=256)
def table_view(
    schema: Schema, name: str, joined: tuple[str, ...] = (), required: tuple[str, ...] = (), kept: str | None = None
) -> RowView:
    """Return the rows of a private table with the columns of joined ones; required ones have a row of the person.

    With `kept`, a table with one row for each person, these rows are there as well.
    """
    if not schema.linked:
        return RowView(schema)
    alone = {table_schema.table: table_schema for table_schema in (schema.own, *map(schema.of_linked, schema.linked))}
    base_schema = alone[name]
    attributes = [attribute for table in (name, *joined) for attribute in alone[table].domain]
    size = alone[kept or name].unit.size
    person = schema.unit.id if joined else base_schema.unit.id  # joined tables have one name for it
    unit = replace(base_schema.unit, size=size, id=person)
    visible = replace(base_schema, table=schema.table, domain=Domain(tuple(attributes)), unit=unit)
    row_of = schema.domain[ROW_OF]
    labels = [label.split("+") for label in getattr(row_of, "labels", ())]
    codes = [code for code, (first, *rest) in enumerate(labels) if first == name and set(required) <= set(rest)]
    if kept is None:
        return RowView(visible, among(row_of, codes))
    beside = [code for code, (first, *_) in enumerate(labels) if first == kept]
    return RowView(visible, among(row_of, (*codes, *beside)), among(row_of, codes))


def find_private(schema: Schema, written: str) -> str | None:
    """Return the private table that a name stands for, with or without its schema; None if there is none."""
    for name in (schema.table, *(table.name for table in schema.linked)):
        full = name.casefold()
        if written.casefold() in {
            full,
            full.rpartition(".")[2],
            *(f"{namespace}.{full}" for namespace in DEFAULT_SCHEMAS),
        }:
            return name
    return None


def day_of_asking() -> dt.date:
    """Return the day, in UTC."""
    return dt.datetime.now(dt.UTC).date()


# --- The scope of a statement: its text, the names it may use, and its warnings. ---


_WORDS: dict[type[exp.Expr], str] = {exp.Case: "case", exp.Distinct: "distinct", exp.Neg: "-", exp.Null: "null"}
"""The first word of a node for which the parser keeps no position."""
LARGEST_CONDITION = 10_000
"""The maximum number of parts of a condition."""
DEEPEST_CONDITION = 64
_LEAST_EFFORT = 1 << 14
TODAY = frozenset(("now", "today", "getdate", "curdate", "sysdate"))
"""Functions that give the day of asking, besides current_date."""
_MOST_EFFORT = 1 << 31


@dataclass(frozen=True, slots=True)
class Scope:
    """The meaning of names in one statement."""

    text: str
    schema: Schema
    tables: frozenset[str]
    """The names that may qualify a column, in lower case."""
    warnings: dict[str, None] = field(default_factory=dict)
    """Warnings without duplicates, in order of appearance."""
    effort: list[int] = field(default_factory=lambda: [0])
    """The number of cells examined so far."""
    day: dt.date = field(default_factory=day_of_asking)
    """The day of asking."""
    elsewhere: Schema | None = None
    """The whole schema, if it has tables that the statement does not name."""
    where: Predicate = EVERYTHING
    """The rows that WHERE chooses, once it is read."""

    def work(self, node: exp.Expr, cells: int) -> None:
        """Add to the effort, and refuse a question that takes longer to compile than to answer."""
        self.effort[0] += cells + _LEAST_EFFORT
        if self.effort[0] > _MOST_EFFORT:
            raise self.fault(node, "Too much is compared in this question.", "Write BETWEEN, or ask several questions.")

    def bounded(self, node: exp.Expr, *predicates: Predicate) -> None:
        """Refuse conditions that have become too large or too deep."""
        waiting = [(predicate, 0) for predicate in predicates]
        for predicate, depth in waiting:
            if isinstance(predicate, And | Or):
                waiting.extend((part, depth + 1) for part in predicate.parts)
            if len(waiting) > LARGEST_CONDITION or depth > DEEPEST_CONDITION:
                instead = "Write IN (...) or BETWEEN instead of many comparisons, and fewer branches of CASE."
                raise self.fault(node, "This condition is too large.", instead)

    def today(self) -> dt.date:
        """Return the day of asking, a public constant of the question."""
        self.warn(describe_today(self.day))
        return self.day

    def warn(self, sentence: str) -> None:
        """Record a warning for the analyst."""
        self.warnings[sentence] = None

    def fault(self, node: exp.Expr, what: str, instead: str) -> InvalidSql:
        """Return an error that points at a node."""
        return InvalidSql(self.text, node_start(node, self.text), what, instead)

    def word(self, node: exp.Expr) -> str:
        """Return the first word of a node, such as a function name, in lower case."""
        start, end = node.meta.get("start"), node.meta.get("end")
        return type(node).__name__.lower() if start is None or end is None else self.text[start : end + 1].lower()

    def column(self, node: exp.Expr) -> Attribute:
        """Return the attribute that a column name refers to, ignoring case."""
        name = self._named(node)
        attribute = self.find(name)
        if attribute is None:
            raise self.fault(node, *self._unknown(name))
        return attribute

    def computed(self, node: exp.Expr) -> ComputedColumn | None:
        """Return the computed column that a name refers to; None if it is none."""
        if not self.schema.computed:
            return None
        name = self._named(node).casefold()
        return next((column for column in self.schema.computed if column.name.casefold() == name), None)

    def groups(self, node: exp.Expr, attribute: Attribute) -> Partition:
        """Return the groups of a column: its declared values or bins."""
        cuts = None if isinstance(attribute, Category | Boolean) else attribute.starts
        if (attribute.size if cuts is None else len(cuts)) > MOST_VALUES:
            what = f"`{attribute.name}` has {attribute.size} values, too many groups."
            raise self.fault(node, what, f"Write bin({attribute.name}, width).")
        return _declared_groups(attribute)

    def person(self, node: exp.Expr) -> bool:
        """Whether a column is the person identifier."""
        person = self.schema.unit.id
        return person is not None and self._named(node).casefold() == person.casefold()

    def _named(self, node: exp.Expr) -> str:
        """Return the name of a column, which may be qualified only by this table."""
        identifier = node.this
        qualifier = node.args.get("table")
        if qualifier is not None:
            parent = node.args.get("db")
            written = qualifier.name if parent is None else f"{parent.name}.{qualifier.name}"
            if written.casefold() not in self.tables:
                known = " or ".join(
                    sorted(table for table in self.tables if not table.startswith(("public.", "main.")))
                )
                raise self.fault(node, f"No table here is called `{written}`.", f"Write {known}, or no table at all.")
        return identifier.name if isinstance(identifier, exp.Identifier) else node.name

    def find(self, name: str) -> Attribute | None:
        """Return the attribute with this name, or None."""
        known = self.schema.domain.by_name
        if name in known:
            return known[name]
        folded = name.casefold()
        return next((attribute for attribute in self.schema.domain if attribute.name.casefold() == folded), None)

    def _unknown(self, name: str) -> tuple[str, str]:
        person = self.schema.unit.id
        if person is not None and name.casefold() == person.casefold():
            return f"`{name}` tells people apart, so nothing about it is answered.", f"Write count(DISTINCT {name})."
        if name.casefold() == "all":
            return "Sorting by ALL is not known.", "Write the columns, or their numbers: ORDER BY 1, 2."
        if any(isinstance(attribute, Category) and name in attribute.labels for attribute in self.schema.domain):
            return f"`{name[:60]}` is a label, and texts stand in single quotes.", f"Write '{name[:60]}'."
        for table in () if self.elsewhere is None else self.elsewhere.linked:
            if table.rows == 1 and any(column.casefold() == name.casefold() for column in table.domain.names):
                return f"`{name[:60]}` is a column of `{table.name}`.", f"Write JOIN {table.name} USING ({person})."
        names = (*self.schema.domain.names, *(column.name for column in self.schema.computed))
        near = get_close_matches(name[:100], names, n=1)
        listed = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")  # noqa: PLR2004
        hint = f"Write `{near[0]}`" if near else "Write one of them"
        return f"There is no column `{name[:60]}`.", f"{hint}; the columns are {listed}."


def describe_today(day: dt.date) -> str:
    """Return the sentence on the day of asking, which is a public constant of a question."""
    return f"The day of asking counts as {day} (UTC) in this question."


@lru_cache(maxsize=32)
def _declared_groups(attribute: Attribute) -> Partition:
    """Return the declared values or bins; cached, as most questions group by the same few columns."""
    return Partition.of(attribute)


def change_parts(node: exp.Expr, change: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """Return a node of the same kind, at the same place in the text, with all its parts changed."""
    changed = type(node)(**{name: change_part(value, change) for name, value in node.args.items()})
    changed.meta.update(node.meta)
    return changed


def select_item(node: exp.Expr, name: str) -> exp.Alias:
    """Return an item of a select list with a name; also of a node that sqlglot would take for a table."""
    return exp.Alias(this=node, alias=exp.to_identifier(name, quoted=True))


def change_part(value: object, change: Callable[[exp.Expr], exp.Expr]) -> object:
    """Return an argument of a node changed, if it is an expression or a list of them; else as it is."""
    if isinstance(value, list):
        return [change(item) if isinstance(item, exp.Expr) else item for item in value]
    return change(value) if isinstance(value, exp.Expr) else value


def node_start(node: exp.Expr, text: str) -> int:
    """Return where a node begins, from its own position, its parts, or the words and nodes before it."""
    places = [part.meta["start"] for part in node.walk() if part.meta.get("start") is not None]
    word = _WORDS.get(type(node))
    if places:
        first = int(min(places))
        before = -1 if word is None or node.meta.get("start") is not None else text.lower().rfind(word, 0, first)
        return max(before, 0) if before >= 0 else first
    if isinstance(node, exp.Boolean):
        word = str(node.this).lower()
    after = _start_before(node)
    matched = None if word is None else re.search(rf"\b{word}\b", text[after:].lower())
    return after if matched is None else after + matched.start()


def _start_before(node: exp.Expr) -> int:
    """Return the last known position before a node without one, in reading order."""
    last = 0
    for part in node.root().walk(bfs=False):
        if part is node:
            break
        last = max(last, int(part.meta.get("start") or 0))
    return last
