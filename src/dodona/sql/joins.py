"""Joins of declared tables: the dataset's own, those linked to it by the person, and public ones.

A join of private tables never multiplies rows: a person's row of the one side stands in each of that person's rows. A
public table is a map from the values of a declared column, so that joining it is no more than computing a column.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from dodona.schema.schema import PublicTable, Schema
from dodona.sql.parse import conjuncts
from dodona.sql.scope import (
    DEFAULT_SCHEMAS,
    InvalidSql,
    RowView,
    change_parts,
    find_private,
    node_start,
    table_view,
)

LOOKUP = "lookup"
"""The function that a column of a public table becomes: lookup(key, table, column)."""
KEEPS_PEOPLE = "keeps people"
"""Marks a RIGHT JOIN with a table of one row for each person, whose rows are grouped by the person."""
_INNER = ("", "CROSS")
_CHOOSING = {
    "SEMI": "Write WHERE {0} IN (SELECT {0} FROM {1} WHERE ...).",
    "ANTI": "Write WHERE NOT EXISTS (SELECT 1 FROM {1} WHERE {1}.{0} = ...).",
}
"""Joins whose conditions are as good in WHERE."""
PRESENT = ""
"""The column of a public table that says whether it has the key."""
PUBLIC = "public"
"""Marks an IN or EXISTS of a public table with its name, and the condition on rows that IN becomes with that IN."""


def find_public(schema: Schema, written: str) -> PublicTable | None:
    """Return the public table with this name, with or without the schema that tools write before it."""
    named = written.casefold()
    known = (
        {table.name.casefold(), *(f"{namespace}.{table.name.casefold()}" for namespace in DEFAULT_SCHEMAS)}
        for table in schema.public
    )
    return next((table for table, names in zip(schema.public, known, strict=True) if named in names), None)


@dataclass(frozen=True, slots=True)
class JoinedRows:
    """The rows of a join of declared tables."""

    view: RowView
    columns: Mapping[str, exp.Expr]
    """The columns whose names are not ambiguous, in lower case."""
    qualified: Mapping[str, Mapping[str, exp.Expr]]
    """The columns of each table, by the name that qualifies them."""
    where: tuple[exp.Expr, ...]


@dataclass(frozen=True, slots=True)
class SelectedRows:
    """The rows of a sub-select or a CTE that only filters, renames or computes columns of one private table."""

    table: str
    columns: Mapping[str, exp.Expr]
    where: tuple[exp.Expr, ...]


def join_tables(text: str, schema: Schema, select: exp.Select, selected: Mapping[str, SelectedRows]) -> JoinedRows:
    """Return the rows of a FROM with joins of declared tables, or of rows selected from them.

    What is selected is given by the name that qualifies its columns.
    """
    joins: list[exp.Expr] = [*(select.args.get("joins") or ())]
    items = [select.args["from_"].this, *(join.this for join in joins)]
    inner = all(join_kind(join) in _INNER for join in joins)
    public = [_alias(item) not in selected and find_public(schema, written_name(item)) is not None for item in items]
    if joins and inner and public[0] and not public[1]:
        first = items[0].copy()  # of two sides that must both match, the one with the rows comes first
        select.args["from_"].set("this", items[1].copy())
        joins[0].set("this", first)
    joined = ((join.this, join) for join in joins)
    return _Joiner(text, schema, select, selected).rows([(select.args["from_"].this, None), *joined])


def is_declared(schema: Schema, item: exp.Expr) -> bool:
    """Whether an item of FROM names a table of the dataset."""
    written = written_name(item)
    return find_private(schema, written) is not None or find_public(schema, written) is not None


def written_name(item: exp.Expr) -> str:
    """Return the name of a table as it is written, with its schema; empty if an item of FROM names none."""
    if not isinstance(item, exp.Table) or not isinstance(item.this, exp.Identifier):
        return ""
    return f"{item.db}.{item.name}" if item.db else item.name


class _Joiner:
    """Reads one FROM clause with joins."""

    def __init__(self, text: str, schema: Schema, select: exp.Select, selected: Mapping[str, SelectedRows]) -> None:
        self._text, self._schema, self._select, self._selected = text, schema, select, selected
        self._private: dict[str, str] = {}
        """Private tables by the name that qualifies their columns."""
        self._public: dict[str, PublicTable] = {}
        self._maps: dict[str, exp.Expr] = {}
        """For each public table, the expression that it is looked up by."""
        self._kept_without: set[str] = set()
        """The public tables of LEFT JOINs: rows without a match stay, and their key there is NULL."""
        self._required: list[str] = []
        self._kept: str | None = None
        self._where: list[exp.Expr] = []

    def fault(self, node: exp.Expr, what: str, instead: str) -> InvalidSql:
        return InvalidSql(self._text, node_start(node, self._text), what, instead)

    def rows(self, items: Sequence[tuple[exp.Expr, exp.Expr | None]]) -> JoinedRows:
        for item, _ in items:
            self._name(item)
        main = self._main(items)
        for item, join in items:
            self._require_lending(item, join, main)
        if _alias(items[0][0]) in self._public:
            what = "A public table is joined to the rows that are asked about."
            raise self.fault(items[0][0], what, f"Write FROM {main} JOIN {items[0][0].name[:60]} ...")
        for item, join in items:
            alias = _alias(item)
            if join is not None and alias in self._public:
                self._join_public(item, join, alias)
            elif join is not None:
                self._join_private(item, join, alias, main)
            if alias in self._selected:
                self._where += self._kept_conditions(item, join, self._selected[alias])
        joined = tuple(name for name in self._private.values() if name != main)
        first = self._private.get(_alias(items[0][0]))
        if first is not None and first != main:
            self._required.append(first)  # patients JOIN visits is visits JOIN patients: both must have a row
        view = table_view(self._schema, main, joined, tuple(sorted(set(self._required))), self._kept)
        qualified = {alias: self._columns(alias) for alias in (*self._private, *self._public)}
        names = [name for by_name in qualified.values() for name in by_name]
        shared = self._schema.unit.id
        columns = {
            name: column
            for by_name in qualified.values()
            for name, column in by_name.items()
            if names.count(name) == 1 or (shared is not None and name == shared.casefold())
        }
        for alias, key in self._maps.items():  # USING merges the key of a public table with its column
            columns.setdefault(self._public[alias].key.casefold(), key)
        return JoinedRows(view, columns, qualified, tuple(self._where))

    def _name(self, item: exp.Expr) -> None:
        alias = _alias(item)
        if alias in self._private or alias in self._public:
            raise self.fault(item, f"Two tables here are called `{alias}`.", "Name them with AS.")
        selected = self._selected.get(alias)
        public = None if selected is not None else find_public(self._schema, written_name(item))
        private = find_private(self._schema, written_name(item)) if selected is None else selected.table
        if private is not None:
            if private in self._private.values():
                person = self._schema.unit.id
                if person is None:
                    what, instead = (
                        "A table joined with itself pairs its rows.",
                        "Aggregate each side, and join the answers.",
                    )
                    raise self.fault(item, what, instead)
                instead = f"Group by {person} in a sub-select, and ask about people."
                raise self.fault(item, "A table joined with itself would pair the rows of a person.", instead)
            self._private[alias] = private
        elif public is not None:
            self._public[alias] = public

    def _kept_conditions(self, item: exp.Expr, join: exp.Expr | None, selected: SelectedRows) -> tuple[exp.Expr, ...]:
        """Return the conditions of a sub-select, which hold for all rows of an inner join."""
        if selected.where and join_kind(join) == "LEFT":
            what = "LEFT JOIN keeps rows whose other side does not meet WHERE."
            raise self.fault(item, what, "Write JOIN, or leave WHERE out and write its condition into a CASE.")
        return selected.where

    def _main(self, items: Sequence[tuple[exp.Expr, exp.Expr | None]]) -> str:
        """Return the table whose rows are asked about: the one of which several rows of a person count."""
        caps = dict(self._schema.unit.caps) or {self._schema.table: self._schema.unit.rows}
        if not self._private:
            what = "Only public tables are joined here, so no question is asked of the data."
            raise self.fault(items[0][0], what, f"Write FROM {self._schema.table} JOIN ...")
        many = [name for name in self._private.values() if caps[name] > 1]
        if len(many) > 1:
            what = f"{many[0]} and {many[1]} may both have several rows of a person, and a join would multiply them."
            instead = f"Aggregate each in a sub-select by {self._schema.unit.id}, or ask them one by one."
            raise self.fault(
                next(item for item, _ in items if self._private.get(_alias(item)) == many[1]), what, instead
            )
        first = self._schema.table if self._schema.table in self._private.values() else None
        return many[0] if many else first or next(iter(self._private.values()))

    def _require_lending(self, item: exp.Expr, join: exp.Expr | None, main: str) -> None:
        """Refuse to read columns of the first table in the rows of another one: only linked tables lend theirs."""
        first, kept = self._schema.table, join is not None and bool(join.meta.get(KEEPS_PEOPLE))
        if self._private.get(_alias(item)) != first or (main == first and not kept):
            return
        other = next((name for name in self._private.values() if name != first), main)
        raise self.fault(
            item,
            f"{first} is the first table of this dataset: its columns cannot stand in the rows of {other}.",
            f"Ask one by one, or let the owner declare {other} under [source], and {first} as a table linked to it.",
        )

    def _settle(self, join: exp.Expr, fits: Callable[[exp.Expr], bool]) -> None:
        """Keep in ON the equality that an inner join is by, and leave all other conditions to WHERE.

        Tables that are listed with commas have it in WHERE.
        """
        _check_left(self.fault, join, fits)
        if join_kind(join) not in _INNER or join.args.get("using"):
            return
        on, where = join.args.get("on"), self._select.args.get("where")
        mine = [] if on is None else conjuncts(on)
        others = [] if where is None else conjuncts(where.this)
        equality = next((part for part in (*mine, *others) if isinstance(part, exp.EQ) and fits(part)), None)
        if equality is None:
            return
        rest = [part.copy() for part in (*others, *mine) if part is not equality]
        join.set("on", equality.copy())
        join.set("kind", None)
        self._select.set("where", exp.Where(this=exp.and_(*rest, copy=False)) if rest else None)

    def _join_private(self, item: exp.Expr, join: exp.Expr, alias: str, main: str) -> None:
        self._check_choice(item, join, self._schema.unit.id or "")
        self._settle(join, lambda met: self._by_person(met, alias))
        self._check_on(item, join, alias)
        kind, name = join_kind(join), self._private[alias]
        if kind == "RIGHT" and join.meta.get(KEEPS_PEOPLE):
            self._kept = name
            self._required.append(name)
            return
        if kind not in {"", "LEFT"} or (kind == "LEFT" and name == main):
            what = "This join would add rows that the table does not have."
            raise self.fault(item, what, f"Write FROM {main} JOIN ... or LEFT JOIN ...")
        if kind == "" and name != main:
            self._required.append(name)

    def _check_on(self, item: exp.Expr, join: exp.Expr, alias: str) -> None:
        """Refuse a join of private tables that is not by the person."""
        person = self._schema.unit.id or ""
        using = [column.name.casefold() for column in join.args.get("using") or ()]
        if using and any(person.casefold() not in self._columns(name) for name in self._selected):
            raise self.fault(item, f"`{person}` is not selected on both sides.", "Add it to the inner SELECT.")
        met = _join_condition(join)
        if using != [person.casefold()] and not (isinstance(met, exp.EQ) and self._by_person(met, alias)):
            instead = f"Write USING ({person}), or ON with the ids of both tables."
            raise self.fault(
                met if isinstance(met, exp.Expr) else item, "Private tables are joined by the person.", instead
            )

    def _check_choice(self, item: exp.Expr, join: exp.Expr, key: str) -> None:
        """Refuse a join that only chooses rows, and say how that is written."""
        if join_kind(join) in _CHOOSING:
            what = "A join that only chooses rows is written in another way."
            raise self.fault(item, what, _CHOOSING[join_kind(join)].format(key, item.name))

    def _by_person(self, met: exp.Expr, alias: str) -> bool:
        """Whether an equality is between the ids of a table and of another one."""
        sides = (met.this, met.expression)
        if not all(isinstance(side, exp.Column) for side in sides):
            return False
        person = exp.column(self._schema.unit.id or "")
        unqualified = {person.name.casefold(): person}
        known = {"": unqualified} | {name: self._columns(name) for name in self._private}
        by_id = all(known.get(_qualifier(side), unqualified).get(side.name.casefold()) == person for side in sides)
        return by_id and [_qualifier(side) for side in sides].count(alias) == 1

    def _join_public(self, item: exp.Expr, join: exp.Expr, alias: str) -> None:
        table = self._public[alias]
        self._check_choice(item, join, table.key)
        self._settle(join, lambda met: self._looked_up(met, alias, table) is not None)
        kind = join_kind(join)
        if kind not in {"", "LEFT", "CROSS"}:
            raise self.fault(item, "A public table may be joined with JOIN or LEFT JOIN.", "Write one of them.")
        key = self._lookup_key(item, join, alias, table)
        self._maps[alias] = key
        if kind == "":
            self._where.append(_lookup(key, table, PRESENT))
        if kind == "LEFT":
            self._kept_without.add(alias)

    def _lookup_key(self, item: exp.Expr, join: exp.Expr, alias: str, table: PublicTable) -> exp.Expr:
        """Return the column that a public table is looked up by."""
        using = [column.name for column in join.args.get("using") or ()]
        if [name.casefold() for name in using] == [table.key.casefold()]:
            return self._find(item, "", using[0])
        met = _join_condition(join)
        key = self._looked_up(met, alias, table) if isinstance(met, exp.EQ) else None
        if key is not None:
            return self._find(key, _qualifier(key), key.name)
        what = f"`{table.name}` is looked up by its key `{table.key}`."
        joined = f"FROM {self._schema.table} JOIN {table.name}"
        instead = f"Write {joined} ON column = {alias}.{table.key}, or USING ({table.key})."
        raise self.fault(met if isinstance(met, exp.Expr) else item, what, instead)

    def _looked_up(self, met: exp.Expr, alias: str, table: PublicTable) -> exp.Column | None:
        """Return the column that an equality compares with the key of a public table; None if it does not."""
        for table_column, key in ((met.this, met.expression), (met.expression, met.this)):
            if not isinstance(table_column, exp.Column) or not isinstance(key, exp.Column):
                return None
            mine = table_column.name.casefold() == table.key.casefold() and _qualifier(table_column) in {alias, ""}
            if mine and _qualifier(key) != alias:
                return key
        return None

    def _find(self, node: exp.Expr, qualifier: str, name: str) -> exp.Expr:
        for alias in [qualifier] if qualifier else [*self._private, *self._maps]:
            column = (
                self._columns(alias).get(name.casefold()) if alias in self._private or alias in self._maps else None
            )
            if column is not None:
                return column
        raise self.fault(node, f"There is no column `{name[:60]}` to look up.", "Name a column of a table before it.")

    def _columns(self, alias: str) -> dict[str, exp.Expr]:
        """Return the columns of a table by name, over the columns of all private tables."""
        if alias in self._public:
            table, key = self._public[alias], self._maps[alias]
            lookups = {name.casefold(): _lookup(key, table, name) for name in table.columns}
            if alias in self._kept_without:
                key = exp.Case(ifs=[exp.If(this=_lookup(key, table, PRESENT), true=key.copy())])
            return {table.key.casefold(): key, **lookups}
        schema = table_view(self._schema, self._private[alias]).schema
        if alias in self._selected:
            person, column = (exp.column(name or "") for name in (schema.unit.id, self._schema.unit.id))
            return {
                name: column if expression == person else expression
                for name, expression in self._selected[alias].columns.items()
            }
        names = [*schema.domain.names, *([schema.unit.id] if schema.unit.id else [])]
        names += [computed.name for computed in schema.computed if self._private[alias] == self._schema.table]
        columns: dict[str, exp.Expr] = {name.casefold(): exp.column(name) for name in names}
        if schema.unit.id is not None:
            columns[schema.unit.id.casefold()] = exp.column(self._schema.unit.id or "")
        return columns


def _join_condition(join: exp.Expr) -> exp.Expr | None:
    """Return the condition of a join, without the parentheses that tools write around it."""
    condition = join.args.get("on")
    return condition.unnest() if isinstance(condition, exp.Expr) else None


def join_kind(join: exp.Expr | None) -> str:
    """Return LEFT, RIGHT, FULL, CROSS or another kind; empty for an inner join."""
    if join is None:
        return ""
    words = [str(join.args.get(part) or "") for part in ("method", "side", "kind")]
    return " ".join(word for word in words if word and word not in {"INNER", "OUTER"})


def _check_left(
    fault: Callable[[exp.Expr, str, str], InvalidSql], join: exp.Expr, fits: Callable[[exp.Expr], bool]
) -> None:
    """Refuse further conditions in ON of a LEFT JOIN: rows that do not meet them would stay, without their columns."""
    on = join.args.get("on")
    parts = [] if on is None or join_kind(join) != "LEFT" else conjuncts(on)
    further = [part for part in parts if not (isinstance(part, exp.EQ) and fits(part))]
    if further and len(further) < len(parts):
        instead = "Write JOIN, or leave it out of ON and write CASE WHEN condition THEN column END."
        raise fault(further[0], "LEFT JOIN keeps rows whose other side does not meet this.", instead)


def _qualifier(column: exp.Expr) -> str:
    table = column.args.get("table")
    return "" if table is None else table.name.casefold()


def _alias(item: exp.Expr) -> str:
    return (item.alias or item.name).casefold()


def _lookup(key: exp.Expr, table: PublicTable, column: str) -> exp.Expr:
    names = [exp.Literal.string(table.name), exp.Literal.string(column)]
    return exp.Anonymous(this=LOOKUP, expressions=[key.copy(), *names])


# --- Membership: WHERE ward IN (SELECT ward FROM wards WHERE floor > 2), and EXISTS over a public table. ---


def mark_public(tree: exp.Expr, schema: Schema) -> None:
    """Mark each IN and EXISTS whose sub-select is of one public table; CTEs hide tables of their name."""
    hidden = {cte.alias.casefold() for cte in tree.find_all(exp.CTE)} if schema.public else set()
    for node in tree.find_all(exp.In, exp.Exists) if schema.public else ():
        inner = _inner_select(node)
        item = None if inner is None else inner.args["from_"].this
        if item is not None and written_name(item).casefold() not in hidden:
            table = find_public(schema, written_name(item))
            if table is not None:
                node.meta[PUBLIC] = table.name


def read_public_membership(
    schema: Schema,
    node: exp.Expr,
    expand: Callable[[exp.Expr], exp.Expr],
    fault: Callable[[exp.Expr, str, str], InvalidSql],
) -> exp.Expr | None:
    """Return a marked IN or EXISTS as a condition on the value that the table is looked up by; None if not marked.

    `expand` returns an expression of the rows outside over the columns of their table.
    """
    table = next((table for table in schema.public if table.name == node.meta.get(PUBLIC)), None)
    inner = _inner_select(node)
    if table is None or inner is None:
        return None
    item, where = inner.args["from_"].this, inner.args.get("where")
    conditions = [] if where is None else conjuncts(where.this)
    alias, names = _alias(item), {table.key.casefold(): table.key, **{name.casefold(): name for name in table.columns}}

    def inside(part: exp.Expr) -> bool:
        return isinstance(part, exp.Column) and part.name.casefold() in names and _qualifier(part) in {alias, ""}

    def is_key(part: exp.Expr) -> bool:
        return inside(part) and part.name.casefold() == table.key.casefold()

    if isinstance(node, exp.In):
        shown = [part.unalias() for part in inner.expressions]
        key = node.this if len(shown) == 1 and is_key(shown[0]) else None
    else:
        pairs = [
            (part, other)
            for part in conditions
            if isinstance(part, exp.EQ)
            for mine, other in ((part.this, part.expression), (part.expression, part.this))
            if is_key(mine) and isinstance(other, exp.Column) and _qualifier(other) not in {alias, ""}
        ]
        key = pairs[0][1] if len(pairs) == 1 else None
        conditions = [part for part in conditions if all(part is not pair for pair, _ in pairs)]
    if key is None:
        instead = f"Write IN over a list of {table.key}, or FROM {schema.table} JOIN {table.name} USING ({table.key})."
        raise fault(node, f"`{table.name}` is looked up by its key `{table.key}`.", instead)
    looked_up = expand(key)

    def change(part: exp.Expr) -> exp.Expr:
        if inside(part):
            name = names[part.name.casefold()]
            return looked_up.copy() if name == table.key else _lookup(looked_up, table, name)
        return expand(part) if isinstance(part, exp.Column | exp.Query) else change_parts(part, change)

    met = exp.and_(_lookup(looked_up, table, PRESENT), *map(change, conditions))
    unknown = exp.If(this=exp.Is(this=looked_up.copy(), expression=exp.null()), true=exp.null())
    choices = [unknown] if isinstance(node, exp.In) else []
    member = exp.Case(ifs=[*choices, exp.If(this=met, true=exp.true())], default=exp.false())
    if isinstance(node, exp.In):
        member.meta[PUBLIC] = exp.In(this=looked_up.copy(), query=node.args["query"].copy())
    return member


def _inner_select(node: exp.Expr) -> exp.Select | None:
    """Return the sub-select of IN or EXISTS, if it is of one table alone."""
    inner = node.this if isinstance(node, exp.Exists) else node.args.get("query")
    inner = inner.this if isinstance(inner, exp.Subquery) else inner
    origin = inner.args.get("from_") if isinstance(inner, exp.Select) else None
    beyond = ("joins", "group", "having", "qualify", "limit", "offset", "with_")
    if not isinstance(inner, exp.Select) or origin is None or any(inner.args.get(part) for part in beyond):
        return None
    return inner
