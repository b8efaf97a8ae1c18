"""Relations of a statement: rows of the table, which only questions may read, and released rows.

Sub-selects and CTEs that only filter, rename or compute columns of rows are merged: each of their columns is an
expression over the table's columns.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from sqlglot import exp

from dodona.schema.schema import LinkKey, PublicTable, Schema
from dodona.sql.joins import PUBLIC, read_public_membership
from dodona.sql.outer import check_outer
from dodona.sql.people import PersonRows
from dodona.sql.scope import DEFAULT_SCHEMAS, InvalidSql, RowView, Scope, change_parts, node_start, table_view

_MOST_LISTED = 10_000
"""How many values of a public table may be joined with answers."""


@dataclass(frozen=True, slots=True)
class SourceText:
    """The text of a statement and the schema that it is read with."""

    text: str
    schema: Schema

    def fault(self, node: exp.Expr, what: str, instead: str) -> InvalidSql:
        """Return an error that points at a node."""
        return InvalidSql(self.text, node_start(node, self.text), what, instead)

    def table(self) -> exp.Table:
        """Return the table as FROM names it."""
        schema, _, table = self.schema.table.rpartition(".")
        return exp.Table(this=exp.to_identifier(table), db=exp.to_identifier(schema) if schema else None)

    def rows(self, table: str) -> RowRelation:
        """Return all rows of a private table."""
        view = table_view(self.schema, table)
        names = [*view.schema.domain.names, *([view.schema.unit.id] if view.schema.unit.id else [])]
        names += [column.name for column in self.schema.computed if table == self.schema.table]
        return RowRelation({name.casefold(): exp.column(name) for name in names}, view=view, table=table)


@dataclass(frozen=True, slots=True)
class RowRelation:
    """Rows of the table, some of them left out: each column as an expression over the table's columns."""

    columns: Mapping[str, exp.Expr]
    """By name, in lower case."""
    where: tuple[exp.Expr, ...] = ()
    view: RowView | None = None
    """The table that the rows are of, perhaps joined with others."""
    qualified: Mapping[str, Mapping[str, exp.Expr]] = field(default_factory=dict)
    """Of a join, the columns of each table by the name that qualifies them."""
    people: PersonRows | None = None
    """The table of people whose columns the expressions name; None for columns of the rows themselves."""
    table: str | None = None
    """The private table that all columns are of; None for a join, and for people."""


@dataclass(frozen=True, slots=True)
class ReleasedColumn:
    """A column of released rows: whether it depends on noise, and whether on the order of noisy values."""

    name: str
    noisy: bool = False
    ranked: bool = False


@dataclass(frozen=True, slots=True)
class ReleasedRelation:
    """Rows that were released, or that were computed from such rows."""

    columns: tuple[ReleasedColumn, ...]
    chosen: bool = False
    """Whether noisy values decide which rows there are."""

    def find(self, name: str) -> ReleasedColumn | None:
        """Return the column with this name, ignoring case."""
        return next((column for column in self.columns if column.name.casefold() == name.casefold()), None)

    def renamed(self, names: Sequence[str]) -> ReleasedRelation:
        """Return the relation with other names for its first columns."""
        pairs = zip(self.columns, (*names, *(column.name for column in self.columns[len(names) :])), strict=False)
        return replace(self, columns=tuple(replace(column, name=name) for column, name in pairs))


def rename_rows(source: SourceText, item: exp.Expr, rows: RowRelation | ReleasedRelation | None) -> RowRelation | None:
    """Return rows with the names that FROM writes for their columns, as in `(SELECT ...) AS x (a, b)`."""
    alias = item.args.get("alias")
    names = [] if alias is None else alias.args.get("columns") or []
    if not isinstance(rows, RowRelation) or not names:
        return rows if isinstance(rows, RowRelation) else None
    if rows.table is not None and rows.columns == source.rows(rows.table).columns:
        what = "The columns of a table have names already, and their order is not told."
        raise source.fault(names[0], what, "Write FROM (SELECT column AS name, ... FROM table) AS x.")
    if len(names) > len(rows.columns):
        what = f"There are {len(names)} names for {len(rows.columns)} columns."
        raise source.fault(names[0], what, "Write one name for each column.")
    kept = list(rows.columns.items())
    renamed = {column.name.casefold(): value for column, (_, value) in zip(names, kept, strict=False)}
    return replace(rows, columns=renamed | dict(kept[len(names) :]), qualified={})


def read_list(source: SourceText, item: exp.Expr) -> ReleasedRelation | None:
    """Return a list of constants in FROM, VALUES or generate_series, as a relation; None for any other item.

    Its columns are named: c0, c1 and so on, or as the series is, unless names are written.
    """
    series = item.this if isinstance(item, exp.Table) and isinstance(item.this, exp.GenerateSeries) else None
    if series is None and not isinstance(item, exp.Values):
        return None
    for value in item.expressions if series is None else series.iter_expressions():
        for part in value.walk():
            if isinstance(part, exp.Column | exp.Query):
                raise source.fault(part, "A list in FROM has constants alone.", "Write numbers, texts and dates.")
            check_outer(source.text, part)
    alias = item.args.get("alias")
    names = [] if alias is None else [column.name for column in alias.args.get("columns") or ()]
    if series is None:
        width = max(len(row.expressions) if isinstance(row, exp.Tuple) else 1 for row in item.expressions)
        names += [f"c{place}" for place in range(len(names), width)]
    else:
        names = names or [item.alias or "generate_series"]
    called = exp.to_identifier(item.alias or f"list_{node_start(item, source.text)}")
    item.set("alias", exp.TableAlias(this=called, columns=[exp.to_identifier(name, quoted=True) for name in names]))
    return ReleasedRelation(tuple(ReleasedColumn(name) for name in names))


def read_public(source: SourceText, item: exp.Expr, table: PublicTable) -> ReleasedRelation:
    """Put a public table that FROM names, beside answers or alone, into the statement as a list of constants."""
    names = (table.key, *table.columns)
    if len(table.keys) * len(names) > _MOST_LISTED:
        what = f"`{table.name}` has {len(table.keys)} rows, too many to be joined with answers."
        raise source.fault(item, what, f"Join it with rows: FROM {source.schema.table} JOIN {table.name} ...")
    rows = [
        exp.Tuple(
            expressions=[_literal(value) for value in (key, *(by_key.get(key) for by_key in table.columns.values()))]
        )
        for key in sorted(table.keys, key=str)
    ]
    called = exp.to_identifier(item.alias or item.name)
    alias = exp.TableAlias(this=called, columns=[exp.to_identifier(name, quoted=True) for name in names])
    select = item.find_ancestor(exp.Select)
    for column in () if select is None else select.find_all(exp.Column):
        if column.text("table").casefold() == item.name.casefold():
            column.set("db", None)
    listed = exp.Values(expressions=rows, alias=alias)
    listed.meta[PUBLIC] = table.name
    item.replace(listed)
    return ReleasedRelation(tuple(ReleasedColumn(name) for name in names))


def _literal(value: LinkKey | None) -> exp.Expr:
    """Return a value of a public table as DuckDB reads it."""
    if value is None or isinstance(value, bool):
        return exp.null() if value is None else exp.Boolean(this=value)
    if isinstance(value, dt.date):
        kind = exp.DType.TIMESTAMP if isinstance(value, dt.datetime) else exp.DType.DATE
        return exp.Cast(this=exp.Literal.string(value.isoformat()), to=exp.DataType(this=kind))
    if isinstance(value, Fraction):
        return exp.Cast(this=exp.Literal.string(repr(float(value))), to=exp.DataType(this=exp.DType.DOUBLE))
    return exp.Literal.string(value) if isinstance(value, str) else exp.Literal.number(value)


Relation = RowRelation | ReleasedRelation
Environment = Mapping[str, Callable[[], Relation]]
"""The CTEs that may be named, each read when it is first used: one that is not used is not asked."""
Names = Mapping[str, ReleasedRelation]
"""The relations of a FROM clause by the names that qualify their columns."""

CORRELATED = "A sub-select over the table stands by itself: group it by the column, and join the two answers."

# --- Expressions over rows: names are replaced by what they stand for. ---


@dataclass(slots=True)
class RowExpressions:
    """Replaces the columns of a relation of rows by expressions over the table's columns."""

    source: SourceText
    rows: RowRelation
    qualifiers: frozenset[str]
    aliases: dict[str, exp.Expr] = field(default_factory=dict)
    prefer_aliases: bool = False
    keep_aliases: bool = False

    def __call__(self, node: exp.Expr) -> exp.Expr:
        """Return the expression over the table's columns; sub-selects of the data are left as they are."""
        if isinstance(node, exp.In | exp.Exists):
            member = read_public_membership(self.source.schema, node, self, self.source.fault)
            if member is not None:
                return member
        if isinstance(node, exp.Query):
            return node
        if isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
            return self._column(node)
        return change_parts(node, self)

    def _column(self, node: exp.Column) -> exp.Expr:
        name, qualifier = node.name.casefold(), node.args.get("table")
        if qualifier is None and name in self.aliases and (self.prefer_aliases or name not in self.rows.columns):
            return node.copy() if self.keep_aliases else exp.Paren(this=self.aliases[name].copy())
        columns = self.rows.columns
        if qualifier is not None:
            parent = node.args.get("db")
            written = qualifier.name if parent is None else f"{parent.name}.{qualifier.name}"
            columns = self.rows.qualified.get(qualifier.name.casefold(), columns)
            if written.casefold() not in self.qualifiers and qualifier.name.casefold() not in self.rows.qualified:
                raise self.source.fault(node, f"No table here is called `{written[:60]}`.", CORRELATED)
        expression = columns.get(name)
        several = [alias for alias, by_name in self.rows.qualified.items() if name in by_name]
        if expression is None and qualifier is None and len(several) > 1:
            what = f"`{node.name[:60]}` could be a column of several tables."
            raise self.source.fault(
                node, what, f"Write {' or '.join(f'{alias}.{node.name[:60]}' for alias in several)}."
            )
        if expression is None:
            visible = self.source.schema if self.rows.view is None else self.rows.view.schema
            scope = Scope(self.source.text, visible, self.qualifiers)
            if scope.find(node.name) is None:
                scope.column(exp.Column(this=node.this))  # raises, with the nearest name
            known = ", ".join(list(columns)[:20])
            raise self.source.fault(node, f"There is no column `{node.name[:60]}` here.", f"The columns are {known}.")
        if isinstance(expression, exp.Column):
            column = exp.Column(this=exp.to_identifier(expression.name))
            column.this.meta.update(node.this.meta)
            return column
        return exp.Paren(this=expression.copy())


def qualifying_names(item: exp.Expr, schema: Schema) -> frozenset[str]:
    """Return the names that may qualify the columns of an item of FROM."""
    if item.alias:
        return frozenset((item.alias.casefold(),))
    if not isinstance(item, exp.Table):
        return frozenset()
    full = schema.table.casefold()
    names = {*(f"{name}.{full}" for name in DEFAULT_SCHEMAS), full, full.rpartition(".")[2], item.name.casefold()}
    return frozenset((*names, f"{item.db}.{item.name}".casefold()) if item.db else names)


def is_star(node: exp.Expr) -> bool:
    """Whether an item of a select list is `*` or `name.*`."""
    return isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star))


def unaliased(item: exp.Expr) -> exp.Expr:
    """Return an item of a select list without its alias."""
    return item.this if isinstance(item, exp.Alias) else item
