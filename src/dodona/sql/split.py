"""Split a statement: every SELECT that aggregates over the table becomes questions, and all else reads released rows.

It also follows which columns noise reaches, and refuses whatever else a statement names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import cast

from sqlglot import exp

from dodona.query.predicate import EVERYTHING, conjunction
from dodona.schema.schema import PublicTable
from dodona.sql.condition import compile_condition
from dodona.sql.groups import DEPENDENT, Parts, aggregates_rows, default_name, measure_select
from dodona.sql.joins import SelectedRows, find_public, is_declared, join_tables, written_name
from dodona.sql.outer import check_outer, is_outer_aggregate
from dodona.sql.outer_scope import OuterScope
from dodona.sql.parse import bare, conjuncts
from dodona.sql.people import read_person_rows
from dodona.sql.relations import (
    Environment,
    Names,
    Relation,
    ReleasedColumn,
    ReleasedRelation,
    RowExpressions,
    RowRelation,
    SourceText,
    is_star,
    qualifying_names,
    read_list,
    read_public,
    rename_rows,
    unaliased,
)
from dodona.sql.scope import InvalidSql, Scope, find_private, node_start, select_item, table_view

_MORE_THAN_ROWS = ("group", "having", "distinct", "qualify", "windows", "with_")
_BESIDE_PEOPLE = ("with_", "distinct", "qualify", "windows", "limit", "offset")
_JOINED_ROWS = (
    "A join could bring a person's rows many times, so one table alone is asked.",
    "Aggregate each side first and join the answers, or let the owner declare both tables.",
)


def resolve_relation(split: Splitter, select: exp.Select, environment: Environment) -> RowRelation | None:
    """Return the rows that a FROM clause over the table stands for; None if it names released rows only.

    This is where joins of declared tables and sub-selects by person are read.
    """
    origin = select.args.get("from_")
    if origin is None:
        return None
    items = [origin.this, *(join.this for join in select.args.get("joins") or ())]
    if len(items) > 1 and any(split.public_table(item, environment) is None for item in items):
        selected = split.selected_rows(items, environment)
        if selected is not None:
            joined = join_tables(split.source.text, split.source.schema, select, selected)
            return RowRelation(joined.columns, joined.where, joined.view, joined.qualified)
    relations = [split.rows_of(item, environment) for item in items]
    rows = [relation for relation in relations if relation is not None]
    if not rows:
        return None
    if len(items) > 1:
        raise split.source.fault(items[1], *_JOINED_ROWS)
    return rows[0]


# --- The splitter. ---


@dataclass(slots=True)
class Splitter:
    """The state of one split: the questions found so far."""

    source: SourceText
    parts: Parts

    # Queries.

    def query(self, node: exp.Expr, environment: Environment, outer: tuple[Names, ...]) -> ReleasedRelation:
        """Replace what a query asks of the table by released rows, and return the columns of its result."""
        if isinstance(node, exp.Subquery):
            return self.query(node.this, environment, outer)
        environment = self.environment(node, environment, outer)
        if isinstance(node, exp.SetOperation):
            second = node_start(node.expression, self.source.text)
            left, right = (self.query(side, environment, outer) for side in (node.this, node.expression))
            if len(left.columns) != len(right.columns):
                what = f"These SELECTs have {len(left.columns)} and {len(right.columns)} columns."
                raise InvalidSql(self.source.text, second, what, "Write as many in both.")
            cut = self._tail(node, {"": left}, environment, outer)
            pairs = zip(left.columns, right.columns, strict=True)
            columns = tuple(ReleasedColumn(a.name, a.noisy or b.noisy, a.ranked or b.ranked) for a, b in pairs)
            noisy = any(column.noisy for column in columns) and not isinstance(node, exp.Union)
            return ReleasedRelation(columns, left.chosen or right.chosen or noisy or cut)
        if isinstance(node, exp.Values):
            return cast("ReleasedRelation", read_list(self.source, node))
        if not isinstance(node, exp.Select):
            raise self.source.fault(node, "This is no SELECT.", "Write SELECT ... FROM ...")
        check_outer(self.source.text, node)
        self._filter_by_answers(node, environment)
        rows = resolve_relation(self, node, environment)
        if rows is not None:
            measure_select(self.parts, node, rows)
        return self._select(node, environment, outer)

    def environment(self, node: exp.Expr, environment: Environment, outer: tuple[Names, ...]) -> Environment:
        """Return the environment with the CTEs of a query; those that are not used are dropped when it is read."""
        clause = node.args.get("with_")
        if clause is None:
            return environment
        if clause.args.get("recursive"):
            raise self.source.fault(
                clause.expressions[0], "WITH RECURSIVE is not known.", "Write WITH, and no recursion."
            )
        extended = dict(environment)
        kept: list[exp.CTE] = []
        for cte in clause.expressions:
            extended[cte.alias.casefold()] = self._defer(cte, dict(extended), outer, kept)
        node.set("with_", exp.With(expressions=[]))
        node.args["with_"].meta["kept"] = kept
        return extended

    def _defer(
        self, cte: exp.CTE, environment: Environment, outer: tuple[Names, ...], kept: list[exp.CTE]
    ) -> Callable[[], Relation]:
        """Return a function that reads a CTE once."""
        known: list[Relation] = []

        def read() -> Relation:
            if not known:
                names = [column.name for column in cte.args["alias"].args.get("columns") or ()]
                rows = rename_rows(self.source, cte, self.row_select(cte.this, environment))
                if rows is None:
                    released = self.query(cte.this, environment, outer)
                    self._count_names(cte, names, released)
                    kept.append(cte)
                    known.append(released.renamed(names))
                else:
                    known.append(rows)
            return known[0]

        return read

    def _count_names(self, node: exp.Expr, names: Sequence[str], released: ReleasedRelation) -> None:
        if len(names) > len(released.columns):
            what = f"There are {len(names)} names for {len(released.columns)} columns."
            raise self.source.fault(node, what, "Write one name for each column.")

    def _filter_by_answers(self, select: exp.Select, environment: Environment) -> None:
        """Turn a join of rows with groups that are joined by their key alone into a condition with IN.

        Tools write it to keep the largest groups: `JOIN (SELECT a AS b, ... GROUP BY a ... LIMIT 5) AS x ON a = b`.
        Each key occurs once there, so the join repeats no row.
        """
        origin, joins = select.args.get("from_"), select.args.get("joins") or ()
        filters = [self._key_filter(select, join) for join in joins]
        if not filters or origin is None or self.rows_of(origin.this, environment) is None:
            return
        conditions = [condition for condition in filters if condition is not None]
        if len(conditions) == len(filters):
            where = select.args.get("where")
            conditions += [] if where is None else [where.this]
            select.set("where", exp.Where(this=exp.and_(*conditions, copy=False)))
            select.set("joins", None)

    def _key_filter(self, select: exp.Select, join: exp.Join) -> exp.Expr | None:
        """Return the condition that a join with groups stands for; None if it is any other join."""
        item, on = join.this, bare(join.args.get("on") or join.this)
        inner = item.this if isinstance(item, exp.Subquery) else None
        group = inner.args.get("group") if isinstance(inner, exp.Select) else None
        if group is None or len(group.expressions) != 1 or not isinstance(on, exp.EQ) or join.args.get("side"):
            return None
        names = {expression.alias_or_name.casefold() for expression in item.this.expressions}

        def inside(column: exp.Expr) -> bool:
            qualifier = column.args.get("table")
            return column.name.casefold() in names and (qualifier is None or qualifier.name == item.alias)

        sides = sorted((on.this, on.expression), key=inside)
        used = [column for column in select.find_all(exp.Column) if column.find_ancestor(exp.Join) is not join]
        mine = [
            column
            for column in used
            if column.args.get("table") is not None and column.args["table"].name == item.alias
        ]
        if not inside(sides[1]) or inside(sides[0]) or mine:
            return None
        chosen = exp.Select(expressions=[exp.column(sides[1].name)], from_=exp.From(this=item.copy()))
        return exp.In(this=sides[0].copy(), query=exp.Subquery(this=chosen))

    # Rows of the table.

    def public_table(self, item: exp.Expr, environment: Environment) -> PublicTable | None:
        """Return the public table that an item of FROM names."""
        hidden = written_name(item).casefold() in environment
        return None if hidden else find_public(self.source.schema, written_name(item))

    def rows_of(self, item: exp.Expr, environment: Environment) -> RowRelation | None:
        """Return the rows of the table that an item of FROM stands for; None if it is released rows."""
        if isinstance(item, exp.Table) and isinstance(item.this, exp.Identifier):
            name = item.name.casefold()
            if not item.db and name in environment:
                relation = environment[name]()
                return rename_rows(self.source, item, relation)
            written, schema = written_name(item), self.source.schema
            table = find_private(schema, written)
            if table is not None:
                return rename_rows(self.source, item, self.source.rows(table))
            if find_public(schema, written) is not None:
                return None
            known = [schema.table, *(linked.name for linked in schema.linked), *environment]
            near = get_close_matches(written.casefold(), known, n=1)
            ask = f"Write FROM {near[0] if near else self.source.schema.table}."
            raise self.source.fault(item, f"There is no table `{written[:60]}`.", ask)
        if isinstance(item, exp.Subquery):
            return rename_rows(self.source, item, self.row_select(item.this, environment))
        if isinstance(item, exp.Values) or (isinstance(item, exp.Table) and isinstance(item.this, exp.GenerateSeries)):
            return None
        check_outer(self.source.text, item)  # raises, with what to write instead, for what is known by another name
        raise self.source.fault(item, "This is no table.", f"Write FROM {self.source.schema.table}.")

    def selected_rows(self, items: Sequence[exp.Expr], environment: Environment) -> dict[str, SelectedRows] | None:
        """Return by name the sub-selects and CTEs that only filter, rename or compute columns of one table.

        None if an item of FROM is neither such rows nor a table.
        """
        by_name: dict[str, SelectedRows] = {}
        for item in items:
            if written_name(item).casefold() not in environment and is_declared(self.source.schema, item):
                continue
            rows = self.rows_of(item, environment)
            if rows is None or rows.table is None:
                return None
            by_name[(item.alias or item.name).casefold()] = SelectedRows(rows.table, rows.columns, rows.where)
        return by_name

    def row_select(self, node: exp.Expr, environment: Environment) -> RowRelation | None:
        """Return the rows of a SELECT that only filters, renames or computes columns; None for any other query."""
        while isinstance(node, exp.Subquery) and not node.args.get("alias"):
            node = node.this
        people = self._person_rows(node, environment)
        if people is not None:
            return people
        self._check_parts(node, environment)
        if not isinstance(node, exp.Select) or any(node.args.get(part) for part in _MORE_THAN_ROWS):
            return None
        if any(aggregates_rows(item) or item.find(exp.Window) for item in node.expressions):
            return None
        origin = node.args.get("from_")
        rows = resolve_relation(self, node, environment)
        if origin is None or rows is None:
            return None
        if node.args.get("limit") is not None or node.args.get("offset") is not None:
            what = "LIMIT would choose rows of the table, and rows are never chosen one by one."
            raise self.source.fault(node.args.get("limit") or node, what, "Leave LIMIT out of the inner SELECT.")
        expand = RowExpressions(self.source, rows, qualifying_names(origin.this, self.source.schema))
        columns: dict[str, exp.Expr] = {}
        for item in node.expressions:
            if is_star(unaliased(item)):
                columns |= rows.columns
            else:
                columns[item.alias_or_name.casefold()] = expand(unaliased(item))
        where = node.args.get("where")
        more = () if where is None else tuple(expand(part) for part in conjuncts(where.this))
        dependent = next((part for part in more if part.find(exp.Query)), None)
        if dependent is not None:
            raise self.source.fault(dependent, *DEPENDENT)
        return replace(rows, columns=columns, where=(*rows.where, *more), qualified={})

    def _check_parts(self, node: exp.Expr, environment: Environment) -> None:
        """Refuse UNION and the like of rows: what is aggregated would be rows of several SELECTs."""
        for part in (node.this, node.expression) if isinstance(node, exp.SetOperation) else ():
            inner = part.this if isinstance(part, exp.Subquery) else part
            if isinstance(inner, exp.Select) and self.row_select(inner, environment) is not None:
                what = "Rows of several SELECTs are put together before they are aggregated."
                instead = "Count and add up a UNION ALL, aggregate in each SELECT, or write one SELECT with OR."
                raise self.source.fault(inner, what, instead)

    def _person_rows(self, node: exp.Expr, environment: Environment) -> RowRelation | None:
        """Return the people of a SELECT that groups rows by the person's id; None for any other query."""
        person = self.source.schema.unit.id
        if person is None or not isinstance(node, exp.Select) or node.args.get("group") is None:
            return None
        if any(node.args.get(part) for part in _BESIDE_PEOPLE) or node.args.get("from_") is None:
            return None
        rows = resolve_relation(self, node, environment)
        if rows is None or rows.people is not None:
            return None
        schema, text = self.source.schema, self.source.text
        expand = RowExpressions(self.source, rows, qualifying_names(node.args["from_"].this, schema))
        view = rows.view or table_view(schema, schema.table)
        scope = Scope(text, view.schema, frozenset((schema.table.casefold(),)))
        meant = node.args.get("where")
        parts = [*rows.where, *([] if meant is None else [expand(meant.this)])]
        dependent = next((part for part in parts if part.find(exp.Query)), None)
        if dependent is not None:
            raise self.source.fault(dependent, *DEPENDENT)
        met = conjunction(*(compile_condition(scope, part)[0] for part in parts))
        where = conjunction(view.within, met) if view.joined is None else view.within
        aggregated = EVERYTHING if view.joined is None else conjunction(view.joined, met)
        single = frozenset(name for linked in schema.linked if linked.rows == 1 for name in linked.domain.names)
        people = read_person_rows(scope, node, where, aggregated, expand, single)
        return None if people is None else RowRelation(people.columns, people.where, people=people)

    # The aggregate SELECT: one question, or one for each grouping.

    def _select(self, select: exp.Select, environment: Environment, outer: tuple[Names, ...]) -> ReleasedRelation:
        """Check a SELECT over released rows, and return the columns of its result."""
        names, order = self._sources(select, environment, outer)
        scope = OuterScope(self, names, environment, outer, {})
        chosen = any(relation.chosen for relation in names.values())
        for join in select.args.get("joins") or ():
            if join.args.get("on") is not None:
                chosen |= scope.read(join.args["on"]).noisy
        where = select.args.get("where")
        chosen |= where is not None and scope.read(where).noisy
        columns: list[ReleasedColumn] = []
        items: list[exp.Expr] = []
        for item in select.expressions:
            inner = unaliased(item)
            if is_star(inner):
                columns += self._star(inner, order, select)
                items.append(item)
                continue
            noisy = scope.read(inner)
            grouped = chosen and any(isinstance(part, exp.Window) or is_outer_aggregate(part) for part in inner.walk())
            name = item.alias if isinstance(item, exp.Alias) else default_name(inner)
            columns.append(ReleasedColumn(name, noisy.noisy or grouped, noisy.ranked))
            scope.aliases[name.casefold()] = columns[-1]
            items.append(item if isinstance(item, exp.Alias) else select_item(inner, name))
        select.set("expressions", items)
        for part in ("group", "having", "qualify", "distinct"):
            clause = select.args.get(part)
            if clause is not None:
                chosen |= scope.read(clause).noisy
        for window in select.args.get("windows") or ():
            scope.read(window)
        chosen |= select.args.get("distinct") is not None and any(column.noisy for column in columns)
        chosen |= self._tail(select, names, environment, outer, scope)
        self._keep_used(select)
        select.meta["identity"] = self._identity(select, names, scope)
        return ReleasedRelation(tuple(columns), bool(chosen))

    def _identity(self, select: exp.Select, names: Names, scope: OuterScope) -> list[exp.Expr]:
        """Return what tells the rows of a SELECT apart besides the columns that it shows: keys without noise."""
        group = select.args.get("group")
        if group is not None:
            columns = [key for key in group.expressions if isinstance(key, exp.Column)]
            return [key.copy() for key in columns if not scope.read(key).noisy]
        if any(is_outer_aggregate(part) for item in select.expressions for part in _outside_windows(item)):
            return []  # one row
        clean = [
            (name, column.name) for name, relation in names.items() for column in relation.columns if not column.noisy
        ]
        return [exp.column(column, name, quoted=True) for name, column in clean]

    def _keep_used(self, node: exp.Expr) -> None:
        """Keep the CTEs of a query that were used, in the order in which they were written."""
        clause = node.args.get("with_")
        if clause is not None:
            kept: list[exp.CTE] = clause.meta["kept"]
            node.set("with_", exp.With(expressions=list(kept)) if kept else None)

    def _tail(
        self,
        node: exp.Expr,
        names: Names,
        environment: Environment,
        outer: tuple[Names, ...],
        scope: OuterScope | None = None,
    ) -> bool:
        """Check ORDER BY, LIMIT and OFFSET; return whether noisy values may decide which rows are left."""
        scope = scope or OuterScope(self, names, environment, outer, {})
        order = node.args.get("order")
        by_keys = order is not None and not scope.read(order).noisy
        if order is not None and any(isinstance(ordered.this, exp.Literal) for ordered in order.expressions):
            by_keys = False  # the number of a column, which may be noisy
        for part in ("limit", "offset"):
            clause = node.args.get(part)
            written = None if clause is None else clause.args.get("expression")
            if clause is not None and not (isinstance(written, exp.Literal) and str(written.this).isdecimal()):
                raise self.source.fault(clause, "This is no number of rows.", "Write a whole number.")
        if isinstance(node, exp.SetOperation):
            self._keep_used(node)
        return _is_cut(node) and not by_keys

    def _sources(
        self, select: exp.Select, environment: Environment, outer: tuple[Names, ...]
    ) -> tuple[dict[str, ReleasedRelation], list[tuple[str, ReleasedRelation, tuple[str, ...]]]]:
        """Return the relations of FROM and JOIN by name, and in order with the columns that USING merges."""
        names: dict[str, ReleasedRelation] = {}
        order: list[tuple[str, ReleasedRelation, tuple[str, ...]]] = []
        origin = select.args.get("from_")
        joins = select.args.get("joins") or []
        for join in joins:
            if join.args.get("method") or join.args.get("kind") in {"SEMI", "ANTI"} or join.args.get("match_condition"):
                raise self.source.fault(
                    join.this, "This kind of join is not known.", "Write JOIN ... ON or USING (...)."
                )
        pairs = [(join.this, join.args.get("using") or ()) for join in joins]
        if origin is not None:
            pairs.insert(0, (origin.this, ()))
        for item, using in pairs:
            relation, name = self._source(item, environment, outer)
            if name in names:
                raise self.source.fault(item, f"Two relations here are called `{name}`.", "Name them with AS.")
            for column in using:
                missing = relation.find(column.name) is None or not any(
                    earlier.find(column.name) for earlier in names.values()
                )
                if missing:
                    what = f"There is no column `{column.name[:60]}` on both sides."
                    raise self.source.fault(column, what, "Write ON with the columns of each side.")
            names[name] = relation
            order.append((name, relation, tuple(column.name.casefold() for column in using)))
        return names, order

    def _source(
        self, item: exp.Expr, environment: Environment, outer: tuple[Names, ...]
    ) -> tuple[ReleasedRelation, str]:
        alias = item.args.get("alias")
        names = [column.name for column in alias.args.get("columns") or ()] if alias is not None else []
        if isinstance(item, exp.Subquery):
            known = item.this.meta.get("released")
            relation = known if known is not None else self.query(item.this, environment, outer)
            if not item.alias:
                item.set(
                    "alias",
                    exp.TableAlias(
                        this=exp.to_identifier(
                            f"derived_{len(self.parts.questions)}_{node_start(item, self.source.text)}"
                        )
                    ),
                )
        elif (listed := read_list(self.source, item)) is not None:
            return listed, item.alias.casefold()
        elif (public := self.public_table(item, environment)) is not None:
            return read_public(self.source, item, public).renamed(names), (item.alias or item.name).casefold()
        else:
            if self.rows_of(item, environment) is not None:  # raises if it is no table
                raise self.source.fault(item, *_JOINED_ROWS)
            relation = cast("ReleasedRelation", environment[item.name.casefold()]())
        self._count_names(item, names, relation)
        return relation.renamed(names), (item.alias or item.name).casefold()

    def _star(
        self,
        node: exp.Expr,
        order: Sequence[tuple[str, ReleasedRelation, tuple[str, ...]]],
        select: exp.Select,
    ) -> Iterator[ReleasedColumn]:
        if any(node.args.get(part) for part in ("except_", "replace", "rename")):
            raise self.source.fault(select, "`*` stands alone here.", "Name the columns instead.")
        qualifier = node.args.get("table")
        if not order:
            raise self.source.fault(select, "`*` has no relation to stand for.", "Write FROM ...")
        for name, relation, using in order:
            if qualifier is None or qualifier.name.casefold() == name:
                yield from (column for column in relation.columns if qualifier or column.name.casefold() not in using)


def _outside_windows(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the nodes of an expression, without those of sub-selects and windows."""
    waiting = [node]
    while waiting:
        current = waiting.pop()
        if not isinstance(current, exp.Query | exp.Window):
            yield current
            waiting += current.iter_expressions()


def _is_cut(node: exp.Expr) -> bool:
    return node.args.get("limit") is not None or node.args.get("offset") is not None
