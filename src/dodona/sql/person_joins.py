"""Tables with one row for each person, joined with a sub-select by person, or filtered by people's rows elsewhere.

Each is turned into one sub-select by person of both tables, which `people` reads.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import chain

from sqlglot import exp

from dodona.schema.schema import Schema
from dodona.sql.joins import KEEPS_PEOPLE, join_kind, written_name
from dodona.sql.parse import bare, conjuncts
from dodona.sql.people import KNOWN
from dodona.sql.scope import find_private, select_item, table_view

_PEOPLE = "people"
_JOINED = "has rows"
_BEYOND = ("with_", "distinct", "qualify", "windows", "limit", "offset", "joins")


def merge_people(tree: exp.Expr, schema: Schema) -> None:
    """Merge a table of one row for each person with the sub-select by person that it is joined with, or filtered by.

    `patients JOIN (SELECT id, count(*) AS n FROM visits GROUP BY id) USING (id)`, and patients WHERE id IN (SELECT id
    FROM visits ...) or EXISTS (...), are a sub-select by person of visits JOIN patients, with any_value of the columns
    of patients. With LEFT JOIN, NOT IN and NOT EXISTS people without visits are there as well. What chooses people may
    group by the person itself, with HAVING. Visits WHERE id IN (SELECT id FROM patients ...) are a join.
    """
    if schema.unit.id is not None and schema.linked:
        named = {cte.alias.casefold(): cte.this for cte in tree.find_all(exp.CTE)}
        for select in list(tree.find_all(exp.Select)):
            _PersonMerge(schema, named, select).run()


@dataclass(frozen=True, slots=True)
class _PersonMerge:
    """Merges the FROM of one SELECT."""

    schema: Schema
    named: Mapping[str, exp.Expr]
    """The CTEs of the statement."""
    select: exp.Select

    def run(self) -> None:
        if self._reads_rows_by_person():
            self._turn_join()
            return
        self._deny_rows()
        several = self._find_filters()
        outer = None if several else self._find_join(kind="LEFT")
        joined = None if several or outer else self._find_join()
        chosen = None if several or outer or joined else self._find_filter()
        if several is not None:
            self._merge(*several, keeps=True)
        elif outer is not None:
            self._keep_people(*outer)
        elif joined is not None:
            self._merge(*joined)
        elif chosen is not None and self._is_single(chosen[1].args["from_"].this):
            self._narrow(*chosen)
        elif chosen is not None:
            self._merge(*chosen)

    def _merge(self, table: exp.Expr, inner: exp.Select, conditions: list[exp.Expr], *, keeps: bool = False) -> None:
        """Select from one sub-select by person of both tables; with `keeps` also people without rows in the other."""
        attributes = {name.casefold(): name for name in table_view(self.schema, self._table(table)).schema.domain.names}
        if any(item.alias_or_name.casefold() in attributes for item in inner.expressions):
            return  # a name would mean both
        columns = self._own_columns()
        many = inner.args["from_"].this
        sides = [exp.column(self._person(item), item.alias_or_name) for item in (many, table)]
        join = exp.Join(
            this=table.copy(), on=exp.EQ(this=sides[0], expression=sides[1]), side="RIGHT" if keeps else None
        )
        join.meta[KEEPS_PEOPLE] = keeps
        inner.set("joins", [join])
        asked = sorted({column.name.casefold() for column in columns} & attributes.keys())
        held = [exp.AnyValue(this=exp.column(attributes[name], table.alias_or_name)) for name in asked]
        copies = [exp.alias_(value, attributes[name]) for value, name in zip(held, asked, strict=True)]
        inner.set("expressions", [*inner.expressions, *copies])
        for column in columns:
            column.set("table", None)
            column.set("db", None)
        people = exp.Subquery(this=inner, alias=exp.TableAlias(this=exp.to_identifier(_PEOPLE)))
        self.select.args["from_"].set("this", people)
        self.select.set("joins", None)
        self.select.set("where", exp.Where(this=exp.and_(*conditions)) if conditions else None)

    def _own_columns(self) -> list[exp.Column]:
        return [
            column for column in self.select.find_all(exp.Column) if column.find_ancestor(exp.Select) is self.select
        ]

    def _keep_people(self, table: exp.Expr, inner: exp.Select, conditions: list[exp.Expr]) -> None:
        """Merge a LEFT JOIN: the columns of people without such rows are NULL."""
        called, person = self._joined_name(), self._person(inner.args["from_"].this).casefold()
        having = inner.args.get("having")
        inner.set("having", None)
        some = exp.LogicalOr(this=exp.true())
        some.meta[KNOWN] = True
        joined = exp.and_(some, *([] if having is None else [having.this]), copy=True)
        items = []
        for item in inner.expressions:
            if item.unalias().name.casefold() == person:
                items.append(item)
                continue
            value = exp.Case(ifs=[exp.If(this=joined.copy(), true=item.unalias().copy())])
            items.append(select_item(value, item.alias_or_name))
        has_rows = exp.Case(ifs=[exp.If(this=joined.copy(), true=exp.Literal.number(1))])
        inner.set("expressions", [*items, select_item(has_rows, _JOINED)])
        for column in self._own_columns():
            mine = column.name.casefold() == person and column.text("table").casefold() == called
            if mine and isinstance(column.parent, exp.Is | exp.Count):
                column.set("this", exp.to_identifier(_JOINED, quoted=True))
        self._merge(table, inner, conditions, keeps=True)

    def _reads_rows_by_person(self) -> bool:
        """Whether this groups a table of one row for each person by the person, with LEFT JOIN of rows.

        People without such rows have one row there, of NULLs, so all that is aggregated must be of the other table.
        """
        origin, joins = self.select.args.get("from_"), self.select.args.get("joins") or []
        beside = any(self.select.args.get(part) for part in ("where", *_BEYOND[:-1]))
        if origin is None or len(joins) != 1 or join_kind(joins[0]) != "LEFT" or beside:
            return False
        people, many = origin.this, joins[0].this
        if not self._is_single(people) or not self._table(many):
            return False
        single = {name.casefold() for name in table_view(self.schema, self._table(people)).schema.domain.names}
        if not self._groups_by_person(self.select, beside=single):
            return False
        more, on = self._more_on(joins[0]), joins[0].args.get("on")
        unrelated = on is not None and len(more) == len(conjuncts(on))  # no equality of the ids
        beyond = {column.text("table").casefold() for part in more for column in part.find_all(exp.Column)}
        if unrelated or beyond - {many.alias_or_name.casefold()}:
            return False
        for aggregate in self._own_aggregates():
            names = {column.name.casefold() for column in aggregate.find_all(exp.Column)}
            if self._counts_rows(aggregate, many) or self._tells_person(aggregate, single):
                continue
            if not names or names & {*single, self._person(people).casefold(), self._person(many).casefold()}:
                return False
        return True

    def _own_aggregates(self) -> list[exp.AggFunc]:
        return [
            aggregate
            for aggregate in self.select.find_all(exp.AggFunc)
            if aggregate.find_ancestor(exp.Select) is self.select
        ]

    def _tells_person(self, aggregate: exp.Expr, single: Collection[str]) -> bool:
        """Whether this is a column of the person, the same in all rows."""
        names = {column.name.casefold() for column in aggregate.find_all(exp.Column)}
        return isinstance(aggregate, exp.AnyValue | exp.Min | exp.Max) and names <= set(single)

    def _more_on(self, join: exp.Expr) -> list[exp.Expr]:
        """Return the conditions of ON besides equalities of the ids: they choose which rows are joined."""
        parts = [] if join.args.get("on") is None else conjuncts(join.args["on"])
        ids = {self._person(item).casefold() for item in (self.select.args["from_"].this, join.this)}
        return [
            part
            for part in parts
            if not isinstance(part, exp.EQ)
            or any(
                not isinstance(side, exp.Column) or side.name.casefold() not in ids for side in part.iter_expressions()
            )
        ]

    def _counts_rows(self, aggregate: exp.Expr, many: exp.Expr) -> bool:
        """Whether this counts the ids of the rows that are joined: a person without such rows has none."""
        column = bare(aggregate.this) if isinstance(aggregate, exp.Count) and aggregate.this else None
        return (
            isinstance(column, exp.Column)
            and column.name.casefold() == self._person(many).casefold()
            and column.text("table").casefold() == many.alias_or_name.casefold()
        )

    def _turn_join(self) -> None:
        """Name the rows first: they keep people without any."""
        join = self.select.args["joins"][0]
        people, many = self.select.args["from_"].this, join.this
        single = {name.casefold() for name in table_view(self.schema, self._table(people)).schema.domain.names}
        more = self._more_on(join)
        for aggregate in self._own_aggregates():
            if self._counts_rows(aggregate, many):
                aggregate.set("this", exp.Star())
            if more and not self._tells_person(aggregate, single):
                self._filter(aggregate, more)
        if more:
            join.set("on", exp.and_(*(part for part in conjuncts(join.args["on"]) if part not in more)))
        self.select.args["from_"].set("this", many)
        join.set("this", people)
        join.set("side", "RIGHT")
        join.meta[KEEPS_PEOPLE] = True

    def _filter(self, aggregate: exp.Expr, more: list[exp.Expr]) -> None:
        """Let an aggregate read only rows that meet further conditions."""
        outer = aggregate.parent
        if isinstance(outer, exp.Filter):
            met = exp.and_(outer.expression.this, *more)
            outer.set("expression", exp.Where(this=met))
        else:
            aggregate.replace(exp.Filter(this=aggregate.copy(), expression=exp.Where(this=exp.and_(*more))))

    def _joined_name(self) -> str:
        name: str = self.select.args["joins"][0].this.alias_or_name
        return name.casefold()

    def _narrow(self, rows: exp.Expr, inner: exp.Select, conditions: list[exp.Expr]) -> None:
        """Join rows with the table of one row for each person that chooses them: their conditions are one."""
        item = inner.args["from_"].this
        sides = [exp.column(self._person(table), table.alias_or_name) for table in (rows, item)]
        where = inner.args.get("where")
        more = [] if where is None else conjuncts(where.this)
        self.select.set("joins", [exp.Join(this=item, on=exp.EQ(this=sides[0], expression=sides[1]))])
        self.select.set("where", exp.Where(this=exp.and_(*conditions, *more)) if conditions or more else None)

    def _deny_rows(self) -> None:
        """Read LEFT JOIN rows ... WHERE rows.id IS NULL, which keeps people without such rows, as NOT EXISTS."""
        origin, joins = self.select.args.get("from_"), self.select.args.get("joins") or []
        where = self.select.args.get("where")
        if origin is None or where is None or len(joins) != 1 or join_kind(joins[0]) != "LEFT":
            return
        people, rows = origin.this, joins[0].this
        if not self._is_single(people) or not self._table(rows):
            return
        name = rows.alias_or_name.casefold()
        parts = conjuncts(where.this)
        missing = [part for part in parts if self._is_missing(part, rows)]
        on, more = joins[0].args.get("on"), self._more_on(joins[0])
        if not missing or (on is not None and len(conjuncts(on)) != len(more) + 1):
            return
        only = {*table_view(self.schema, self._table(rows)).schema.domain.names}
        only -= {*table_view(self.schema, self._table(people)).schema.domain.names}
        apart = {id(column) for part in (*missing, joins[0]) for column in part.find_all(exp.Column)}
        for column in self._own_columns():
            lent = not column.text("table") and column.name.casefold() in {each.casefold() for each in only}
            if id(column) not in apart and (lent or column.text("table").casefold() == name):
                return
        sides = [exp.column(self._person(item), item.alias_or_name) for item in (rows, people)]
        met = exp.and_(exp.EQ(this=sides[0], expression=sides[1]), *more)
        inner = exp.Select(expressions=[exp.Literal.number(1)], from_=exp.From(this=rows), where=exp.Where(this=met))
        rest = [part for part in parts if part not in missing]
        self.select.set("joins", None)
        self.select.set("where", exp.Where(this=exp.and_(*rest, exp.Not(this=exp.Exists(this=inner)))))

    def _is_missing(self, part: exp.Expr, rows: exp.Expr) -> bool:
        """Whether a condition says that no such row was joined: its id is NULL."""
        column = bare(part.this) if isinstance(part, exp.Is) and isinstance(part.expression, exp.Null) else None
        return (
            isinstance(column, exp.Column)
            and column.name.casefold() == self._person(rows).casefold()
            and column.text("table").casefold() == rows.alias_or_name.casefold()
        )

    def _find_join(self, *, kind: str = "") -> tuple[exp.Expr, exp.Select, list[exp.Expr]] | None:
        """Return the table, the sub-select that it is joined with, and the conditions on both."""
        origin, joins = self.select.args.get("from_"), self.select.args.get("joins") or []
        if origin is None or len(joins) != 1 or join_kind(joins[0]) != kind:
            return None
        join, where = joins[0], self.select.args.get("where")
        items: list[exp.Expr] = [origin.this, join.this]
        for table, other in (items, items[::-1])[: 1 if kind else 2]:
            select = other.this if isinstance(other, exp.Subquery) else self.named.get(written_name(other).casefold())
            inner = self._of_one_table(select) if self._is_single(table) else None
            if inner is None or not self._groups_by_person(inner):
                continue
            met = join.args.get("on")
            by_id = met is not None and self._are_people(table, inner, *bare(met).iter_expressions())
            if join.args.get("using") or (by_id and isinstance(bare(met), exp.EQ)):
                return table, inner, [] if where is None else conjuncts(where.this)
        return None

    def _find_filter(self) -> tuple[exp.Expr, exp.Select, list[exp.Expr]] | None:
        """Return the table, the people that IN or EXISTS chooses, and the other conditions."""
        origin, where = self.select.args.get("from_"), self.select.args.get("where")
        if origin is None or where is None or self.select.args.get("joins") or not self._table(origin.this):
            return None
        parts = conjuncts(where.this)
        for place, part in enumerate(parts):
            inner = self._find_chosen(part, origin.this)
            if inner is None:
                continue
            single, chooses = self._is_single(origin.this), self._is_single(inner.args["from_"].this)
            if (single or chooses) and not (chooses and inner.args.get("having")):
                return origin.this, inner, parts[:place] + parts[place + 1 :]
        return None

    def _find_filters(self) -> tuple[exp.Expr, exp.Select, list[exp.Expr]] | None:
        """Return the table, people with a truth for each IN and EXISTS that chooses them, and all conditions.

        None if one alone chooses people, without NOT: only people with such rows are asked about then.
        """
        origin, where = self.select.args.get("from_"), self.select.args.get("where")
        if origin is None or where is None or self.select.args.get("joins") or not self._is_single(origin.this):
            return None
        choices: list[tuple[exp.Select, bool]] = []
        rest = []
        for part in conjuncts(where.this):
            denied = isinstance(part, exp.Not)
            inner = self._find_chosen(bare(part.this) if denied else part, origin.this)
            many = None if inner is None else self._table(inner.args["from_"].this)
            if inner is None:
                rest.append(part)
            elif choices and many != self._table(choices[0][0].args["from_"].this):
                return None
            else:
                choices.append((inner, denied))
        if not any(denied for _, denied in choices) and len(choices) < 2:  # noqa: PLR2004  one alone is a join
            return None
        first = choices[0][0]
        name = first.args["from_"].this.alias_or_name
        for place, (inner, denied) in enumerate(choices):
            called = f"{_JOINED} {place}"
            first.append("expressions", select_item(self._chosen_truth(inner, name), called))
            truth = exp.column(exp.to_identifier(called, quoted=True))
            rest.append(exp.Not(this=truth) if denied else truth)
        first.set("where", None)
        first.set("having", None)
        return origin.this, first, rest

    def _chosen_truth(self, inner: exp.Select, name: str) -> exp.Expr:
        """Return whether a sub-select chooses a person: some row meets WHERE, and HAVING is true of all that do."""
        meant, having, alias = (*map(inner.args.get, ("where", "having")), inner.args["from_"].this.alias_or_name)
        met = exp.true() if meant is None else meant.this.copy()
        after = None if having is None else having.this.copy()
        for column in chain(met.find_all(exp.Column), () if after is None else after.find_all(exp.Column)):
            if column.text("table").casefold() == alias.casefold():
                column.set("table", exp.to_identifier(name))
        some = exp.LogicalOr(this=met)
        some.meta[KNOWN] = True
        if after is None:
            return some
        for aggregate in list(after.find_all(exp.AggFunc)) if meant is not None else ():
            self._filter(aggregate, [met.copy()])
        return exp.and_(some, exp.Is(this=exp.Paren(this=after), expression=exp.true()))  # NULL chooses nobody

    def _find_chosen(self, part: exp.Expr, table: exp.Expr) -> exp.Select | None:
        """Return a sub-select by person of those whom a condition chooses; None for any other condition."""
        if isinstance(part, exp.In) and isinstance(part.args.get("query"), exp.Subquery):
            inner, shown = self._chosen_people(part.args["query"].this)
            if inner is None or shown is None or not self._are_people(table, inner, part.this, shown):
                return None
        elif isinstance(part, exp.Exists):
            inner = self._of_one_table(part.this)
            meant = None if inner is None else inner.args.get("where")
            if inner is None or meant is None:
                return None
            parts = conjuncts(meant.this)
            by_id = [
                condition
                for condition in parts
                if isinstance(condition, exp.EQ) and self._is_pair(condition, table, inner)
            ]
            rest = [condition for condition in parts if condition not in by_id]
            if len(by_id) != 1:
                return None
            inner.set("where", exp.Where(this=exp.and_(*rest)) if rest else None)
        else:
            return None
        if not self._groups_by_person(inner) if inner.args.get("group") else inner.args.get("having"):
            return None
        person = exp.column(self._person(inner.args["from_"].this))
        inner.set("expressions", [person])
        inner.set("group", exp.Group(expressions=[person.copy()]))
        return inner

    def _chosen_people(self, query: exp.Expr) -> tuple[exp.Select | None, exp.Expr | None]:
        """Return a SELECT from one private table and its only column, or the one that a SELECT around it shows."""
        inner = self._of_one_table(query)
        if inner is not None:
            return inner, inner.expressions[0].unalias() if len(inner.expressions) == 1 else None
        parts = {name for name, value in query.args.items() if value}
        if not isinstance(query, exp.Select) or parts != {"expressions", "from_"} or len(query.expressions) != 1:
            return None, None
        item, column = query.args["from_"].this, query.expressions[0].unalias()
        behind = item.this if isinstance(item, exp.Subquery) else self.named.get(written_name(item).casefold())
        inner = None if behind is None else self._of_one_table(behind)
        around = None if behind is None or behind.parent is None else behind.parent.args.get("alias")
        if inner is None or not isinstance(column, exp.Column) or (around and around.args.get("columns")):
            return None, None
        called = column.name.casefold()
        return inner, next(
            (part.unalias() for part in inner.expressions if part.output_name.casefold() == called), None
        )

    def _of_one_table(self, select: exp.Expr | None) -> exp.Select | None:
        """Return a copy of a SELECT from one private table."""
        origin = select.args.get("from_") if isinstance(select, exp.Select) else None
        if not isinstance(select, exp.Select) or origin is None or any(select.args.get(part) for part in _BEYOND):
            return None
        return select.copy() if self._table(origin.this) else None

    def _groups_by_person(self, inner: exp.Select, *, beside: Collection[str] = ()) -> bool:
        """Whether a SELECT groups by the person, and by nothing else but some columns."""
        group = inner.args.get("group")
        keys = [] if group is None else group.expressions
        shown = [item.unalias() for item in inner.expressions]
        places = {str(place): item for place, item in enumerate(shown, 1)}
        meant = [
            places.get(key.name, key) if isinstance(key, exp.Literal) and not key.is_string else key for key in keys
        ]
        names = [key.name.casefold() if isinstance(key, exp.Column) else None for key in meant]
        person = self._person(inner.args["from_"].this).casefold()
        return names.count(person) == 1 and all(name == person or name in beside for name in names)

    def _is_pair(self, met: exp.EQ, table: exp.Expr, inner: exp.Select) -> bool:
        tables = [side.text("table").casefold() for side in met.iter_expressions()]
        return tables.count(table.alias_or_name.casefold()) == 1 and self._are_people(
            table, inner, *met.iter_expressions()
        )

    def _are_people(self, table: exp.Expr, inner: exp.Select, *columns: exp.Expr) -> bool:
        """Whether all of these are columns that name the person."""
        names = {self._person(item).casefold() for item in (table, inner.args["from_"].this)}
        return all(isinstance(column, exp.Column) and column.name.casefold() in names for column in columns)

    def _table(self, item: exp.Expr) -> str:
        """Return the private table that an item of FROM names; empty if it names none."""
        written = written_name(item)
        return "" if written.casefold() in self.named else find_private(self.schema, written) or ""

    def _is_single(self, item: exp.Expr) -> bool:
        return dict(self.schema.unit.caps).get(self._table(item)) == 1

    def _person(self, item: exp.Expr) -> str:
        """Return the column that names the person in a table."""
        ids = (linked.id for linked in self.schema.linked if linked.name == self._table(item))
        return next(ids, self.schema.unit.id or "")
