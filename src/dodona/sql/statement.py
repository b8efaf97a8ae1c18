"""Split a statement into two halves: the questions that it asks of the table, and the SQL that computes on answers.

Every SELECT that aggregates over the table becomes a question. What is around it (windows, CTEs, set operations, joins
of answers, HAVING, ORDER BY, CASE and functions of results) stays SQL, over relations of released rows. Sub-selects and
CTEs that only filter, rename or compute columns of rows are merged into the SELECT that aggregates them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import lru_cache
from itertools import product

from sqlglot import exp

from dodona.query.question import Question
from dodona.query.statement import DRAW, RELATION, OutputColumn, Statement
from dodona.schema.schema import Schema
from dodona.sql.aggregate import aggregate_name
from dodona.sql.compile import compile_sql, compile_tree
from dodona.sql.outer import AGGREGATES, RANKING, check_outer, render, total_functions
from dodona.sql.parse import check_tree, flatten_chain, parse, parse_statement
from dodona.sql.scope import InvalidSql, Scope, node_start

# --- Relations: rows of the table, which only questions may read, and released rows. ---


@dataclass(frozen=True, slots=True)
class RowRelation:
    """Rows of the table, some of them left out: each column as an expression over the table's columns."""

    columns: Mapping[str, exp.Expr]
    """By name, in lower case."""
    where: tuple[exp.Expr, ...] = ()


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
        return next((one for one in self.columns if one.name.casefold() == name.casefold()), None)

    def renamed(self, names: Sequence[str]) -> ReleasedRelation:
        """Return the relation with other names for its first columns."""
        pairs = zip(self.columns, (*names, *(one.name for one in self.columns[len(names) :])), strict=False)
        return replace(self, columns=tuple(replace(one, name=name) for one, name in pairs))


Relation = RowRelation | ReleasedRelation
Environment = Mapping[str, Callable[[], Relation]]
"""The CTEs that may be named, each read when it is first used: one that is not used is not asked."""
Names = Mapping[str, ReleasedRelation]
"""The relations of a FROM clause by the names that qualify their columns."""

_KEPT = 128
_LONGEST_KEPT = 1 << 12
_MOST_SETS = 64
_MOST_PARTS = 32
_EXPLAIN = re.compile(r"\s*explain\b(?!\s*\()", re.IGNORECASE)
_ENDS = {"dp_interval_low": "low", "dp_interval_high": "high"}
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Neg, exp.Paren)
_ROW_WINDOW = (
    "A window function over rows shows them one by one, and rows are never shown.",
    "Aggregate with GROUP BY first: windows over its groups are free.",
)
_DEPENDENT = (
    "Which rows this covers depends on an answer.",
    "Ask for the answer first and write its number here, or group by the column and filter the groups.",
)
_CORRELATED = "A sub-select over the table stands by itself: group it by the column, and join the two answers."
_JOINED_ROWS = (
    "A join could bring a person's rows many times, so one table alone is asked.",
    "Aggregate each side first and join the answers, or let the owner declare both tables.",
)


def read_statement(text: str, schema: Schema) -> Question | Statement:
    """Read a text as one question where it is a plain SELECT, and otherwise as a statement of two halves.

    >>> from dodona.schema.attributes import Boolean, Integer
    >>> schema = Schema.of("stays", Integer("age", 0, 110), Boolean("emergency"), size=200_000)
    >>> text = "SELECT emergency, 100.0 * count(*) / sum(count(*)) OVER () AS share FROM stays GROUP BY emergency"
    >>> statement = read_statement(text, schema)
    >>> [column.name for column in statement.columns], len(statement.parts)
    (['emergency', 'share'], 1)
    """
    try:
        return compile_sql(text, schema)
    except InvalidSql as plain:
        try:
            return _read_once(text, schema) if len(text) <= _LONGEST_KEPT else _read(text, schema)
        except InvalidSql as fault:
            raise (plain if _is_plain(text) else fault) from None
        except RecursionError:
            raise InvalidSql(text, 0, "This is nested too deeply.", "Write it in fewer levels.") from None


def _is_plain(text: str) -> bool:
    """Whether a text is one plain SELECT by its grammar, so that the error of compiling it is the better one."""
    try:
        parse(text)
    except InvalidSql:
        return False
    return True


def _read(text: str, schema: Schema) -> Question | Statement:
    found = _EXPLAIN.match(text)
    if found is None:
        return _flatten(text, schema) or _Splitter(text, schema).statement()
    rest = " " * found.end() + text[found.end() :]  # of the same length, so that errors point into the text
    asked = read_statement(rest, schema)
    if isinstance(asked, Statement):
        return replace(asked, text=text, explain=True)
    return Statement(
        text=text, parts=(replace(asked, text=text),), sql="", redraw="", columns=(), explain=True
    )


_read_once = lru_cache(maxsize=_KEPT)(_read)


def _flatten(text: str, schema: Schema) -> Question | None:
    """Return the question of a SELECT whose sub-selects only filter, rename or compute; None if it is more than that."""
    tree, split = parse_statement(text), _Splitter(text, schema)
    origin = tree.args.get("from_")
    if not isinstance(tree, exp.Select) or origin is None or tree.args.get("joins"):
        return None
    try:
        environment = split.environment(tree, {}, ())
        rows = split.rows_of(origin.this, environment)
        if rows is None or split.parts:
            return None
        aliases = {item.alias.casefold(): item for item in tree.expressions if isinstance(item, exp.Alias)}
        expand = _Expansion(split, rows, _qualifiers(origin.this, schema))
        late = _Expansion(split, rows, expand.qualifiers, {name: exp.column(name) for name in aliases})
        late.prefer_aliases = late.keep_aliases = True
        flat = exp.Select(from_=exp.From(this=split.table()))
        for name, value in tree.args.items():
            if value and name not in {"from_", "with_", "where"}:
                flat.set(name, (expand if name == "expressions" else late).argument(value))
        meant = tree.args.get("where")
        where = [*rows.where, *([] if meant is None else [expand(meant.this)])]
        if where:
            flat.set("where", exp.Where(this=exp.and_(*where, copy=False)))
        check_tree(text, flat)
        return compile_tree(text, schema, flat)
    except InvalidSql:
        return None


def resolve_relation(split: _Splitter, select: exp.Select, environment: Environment) -> RowRelation | None:
    """Return the rows that a FROM clause over the table stands for; None if it names released rows only.

    This is where joins of declared tables and sub-selects by person are read.
    """
    origin = select.args.get("from_")
    if origin is None:
        return None
    items = [origin.this, *(join.this for join in select.args.get("joins") or ())]
    found = [split.rows_of(item, environment) for item in items]
    rows = [one for one in found if one is not None]
    if not rows:
        return None
    if len(items) > 1:
        raise split.fault(items[1], *_JOINED_ROWS)
    return rows[0]


# --- The splitter. ---


@dataclass(slots=True)
class _Splitter:
    """The state of one split: the questions found so far."""

    text: str
    schema: Schema
    parts: list[Question] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)
    """The number of each question by the text of its SELECT, so that it is asked once."""
    warnings: dict[str, None] = field(default_factory=dict)

    def fault(self, node: exp.Expr, what: str, instead: str) -> InvalidSql:
        return InvalidSql(self.text, node_start(node, self.text), what, instead)

    def statement(self) -> Statement:
        """Return the whole statement."""
        tree = parse_statement(self.text)
        ends = _interval_ends(tree)
        result = self.query(tree, {}, ())
        if not self.parts:
            raise InvalidSql(self.text, len(self.text), "No table is asked.", f"Write FROM {self.schema.table}.")
        if len(self.parts) > _MOST_PARTS:
            what = f"These are {len(self.parts)} questions; {_MOST_PARTS} are answered together."
            raise InvalidSql(self.text, 0, what, "Ask several statements.")
        columns = [OutputColumn(one.name, one.noisy, one.ranked) for one in result.columns]
        for place, end in ends.items():
            columns[place] = replace(columns[place], end=end)
        redraw, identity = _redrawn(tree, result)
        return Statement(
            text=self.text,
            parts=tuple(replace(one, text=self.text if number == 0 else "") for number, one in enumerate(self.parts)),
            sql=render(self.text, total_functions(self.text, tree)),
            redraw=render(self.text, total_functions(self.text, redraw)),
            columns=tuple(columns),
            identity=identity,
            warnings=tuple(self.warnings),
        )

    # Queries.

    def query(self, node: exp.Expr, environment: Environment, outer: tuple[Names, ...]) -> ReleasedRelation:
        """Replace what a query asks of the table by released rows, and return the columns of its result."""
        if isinstance(node, exp.Subquery):
            return self.query(node.this, environment, outer)
        environment = self.environment(node, environment, outer)
        if isinstance(node, exp.SetOperation):
            left, right = (self.query(side, environment, outer) for side in (node.this, node.expression))
            if len(left.columns) != len(right.columns):
                what = f"These SELECTs have {len(left.columns)} and {len(right.columns)} columns."
                raise self.fault(node.expression, what, "Write as many in both.")
            self._tail(node, {"": left}, environment, outer)
            pairs = zip(left.columns, right.columns, strict=True)
            columns = tuple(ReleasedColumn(a.name, a.noisy or b.noisy, a.ranked or b.ranked) for a, b in pairs)
            noisy = any(one.noisy for one in columns) and not isinstance(node, exp.Union)
            return ReleasedRelation(columns, left.chosen or right.chosen or noisy or _is_cut(node))
        if not isinstance(node, exp.Select):
            raise self.fault(node, "This is no SELECT.", "Write SELECT ... FROM ...")
        check_outer(self.text, node)
        rows = resolve_relation(self, node, environment)
        if rows is not None:
            self._measure(node, rows)
        return self._select(node, environment, outer)

    def environment(self, node: exp.Expr, environment: Environment, outer: tuple[Names, ...]) -> Environment:
        """Return the environment with the CTEs of a query; those that are not used are dropped when it is read."""
        clause = node.args.get("with_")
        if clause is None:
            return environment
        if clause.args.get("recursive"):
            raise self.fault(clause.expressions[0], "WITH RECURSIVE is not known.", "Write WITH, and no recursion.")
        found = dict(environment)
        kept = []
        for cte in clause.expressions:
            found[cte.alias.casefold()] = self._deferred(cte, dict(found), outer, kept)
        node.set("with_", exp.With(expressions=[]))
        node.args["with_"].meta["kept"] = kept
        return found

    def _deferred(
        self, cte: exp.CTE, environment: Environment, outer: tuple[Names, ...], kept: list[exp.CTE]
    ) -> Callable[[], Relation]:
        """Return a function that reads a CTE once."""
        known: list[Relation] = []

        def read() -> Relation:
            if not known:
                names = [one.name for one in cte.args["alias"].args.get("columns") or ()]
                rows = self.row_select(cte.this, environment) if not names else None
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
            raise self.fault(node, what, "Write one name for each column.")

    # Rows of the table.

    def rows_of(self, item: exp.Expr, environment: Environment) -> RowRelation | None:
        """Return the rows of the table that an item of FROM stands for; None if it is released rows."""
        if isinstance(item, exp.Table) and isinstance(item.this, exp.Identifier):
            name = item.name.casefold()
            if not item.db and name in environment:
                found = environment[name]()
                return found if isinstance(found, RowRelation) else None
            written = f"{item.db}.{item.name}" if item.db else item.name
            full = self.schema.table.casefold()
            if written.casefold() in {full, full.rpartition(".")[2]}:
                return self._table()
            known = [self.schema.table, *environment]
            near = get_close_matches(written.casefold(), known, n=1)
            ask = f"Write FROM {near[0] if near else self.schema.table}."
            raise self.fault(item, f"There is no table `{written[:60]}`.", ask)
        if isinstance(item, exp.Subquery):
            return self.row_select(item.this, environment)
        raise self.fault(item, "This is no table.", f"Write FROM {self.schema.table}.")

    def table(self) -> exp.Table:
        """Return the table as FROM names it."""
        schema, _, table = self.schema.table.rpartition(".")
        return exp.Table(this=exp.to_identifier(table), db=exp.to_identifier(schema) if schema else None)

    def _table(self) -> RowRelation:
        names = [*self.schema.domain.names, *([self.schema.unit.id] if self.schema.unit.id else [])]
        return RowRelation({name.casefold(): exp.column(name) for name in names})

    def row_select(self, node: exp.Expr, environment: Environment) -> RowRelation | None:
        """Return the rows of a SELECT that only filters, renames or computes columns; None for any other query."""
        while isinstance(node, exp.Subquery) and not node.args.get("alias"):
            node = node.this
        if not isinstance(node, exp.Select) or any(node.args.get(part) for part in _AGGREGATING):
            return None
        if any(_aggregates(item) or item.find(exp.Window) for item in node.expressions):
            return None
        if node.args.get("with_") is not None:
            return None
        origin = node.args.get("from_")
        if origin is None or node.args.get("joins"):
            return None
        rows = self.rows_of(origin.this, environment)
        if rows is None:
            return None
        if node.args.get("limit") is not None or node.args.get("offset") is not None:
            what = "LIMIT would choose rows of the table, and rows are never chosen one by one."
            raise self.fault(node.args.get("limit") or node, what, "Leave LIMIT out of the inner SELECT.")
        expand = _Expansion(self, rows, _qualifiers(origin.this, self.schema))
        columns: dict[str, exp.Expr] = {}
        for item in node.expressions:
            inner = item.this if isinstance(item, exp.Alias) else item
            if isinstance(inner, exp.Star) or (isinstance(inner, exp.Column) and isinstance(inner.this, exp.Star)):
                columns |= rows.columns
                continue
            name = item.alias if isinstance(item, exp.Alias) else inner.name
            columns[name.casefold()] = expand(inner)
        where = node.args.get("where")
        more = () if where is None else tuple(expand(part) for part in _conjuncts(where.this))
        for part in more:
            if part.find(exp.Query) is not None:
                raise self.fault(part, *_DEPENDENT)
        return RowRelation(columns, (*rows.where, *more))

    # The aggregate SELECT: one question, or one for each grouping.

    def _measure(self, select: exp.Select, rows: RowRelation) -> None:
        """Turn a SELECT over rows into one over released groups, adding its questions."""
        expand = _Expansion(self, rows, _qualifiers(select.args["from_"].this, self.schema))
        items = [self._item(item, expand) for item in select.expressions]
        if not items:
            raise self.fault(select, "Nothing is selected.", "Write SELECT count(*) FROM ... to begin with.")
        aliases = {item.alias.casefold(): item.this for item in items if isinstance(item, exp.Alias)}
        late = _Expansion(self, rows, expand.qualifiers, aliases, prefer_aliases=True)
        sets = self._grouping_sets(select, items, late)
        keys = list(dict.fromkeys(key for one in sets for key in one))
        groups = _Groups(self, keys)
        shown = [groups.item(item) for item in items]
        if not sets[0] and len(sets) == 1 and not groups.atoms:
            loose = next((item for item in items if item.find(exp.Window)), None)
            if loose is not None:
                raise self.fault(loose, *_ROW_WINDOW)
            if select.args.get("group") is None:
                raise self.fault(
                    items[0],
                    "Rows are never shown, so this column has no single value.",
                    "Write an aggregate, such as count(*) or avg(...), or name it in GROUP BY.",
                )
        for part in ("having", "qualify", "order"):
            clause = select.args.get(part)
            if clause is not None:
                groups.clause(clause, late)
        for window in select.args.get("windows") or ():
            groups.clause(window, late)
        where, dependent = [*rows.where], []
        if select.args.get("where") is not None:
            for one in _conjuncts(select.args["where"].this):
                (dependent if one.find(exp.Query) else where).append(expand(one))
        later = [groups.condition(one) for one in dependent]
        numbers = [self._question(select, keys, one, groups, where) for one in sets]
        self._rewrite(select, shown, groups, sets, keys, numbers, later)

    def _item(self, item: exp.Expr, expand: _Expansion) -> exp.Expr:
        """Return an item of the select list over the table's columns, with the name that it will have."""
        inner = item.this if isinstance(item, exp.Alias) else item
        if isinstance(inner, exp.Star) or (isinstance(inner, exp.Column) and isinstance(inner.this, exp.Star)):
            what = "`*` would show rows, and rows are never shown."
            raise self.fault(item, what, "Write count(*), or name columns in GROUP BY.")
        name = item.alias if isinstance(item, exp.Alias) else _default_name(inner)
        found = exp.alias_(expand(inner), name, quoted=True)
        expand.aliases[name.casefold()] = found.this
        return found

    def _grouping_sets(
        self, select: exp.Select, items: Sequence[exp.Expr], late: _Expansion
    ) -> list[tuple[exp.Expr, ...]]:
        """Return the keys of each grouping: one for GROUP BY, several for ROLLUP, CUBE and GROUPING SETS."""
        group = select.args.get("group")
        plain = [item.this for item in items if not _aggregates(item) and item.find(exp.Column)]
        if group is None and select.args.get("distinct") is not None and not any(map(_aggregates, items)):
            select.set("distinct", None)
            return [tuple(dict.fromkeys(map(_bare, plain)))]
        if group is None:
            return [()]
        if group.args.get("all"):
            return [tuple(dict.fromkeys(map(_bare, plain)))]
        choices: list[list[tuple[exp.Expr, ...]]] = []
        for node in group.expressions:
            sets = [tuple(self._key(key, items, late) for key in one) for one in _node_sets(node)]
            choices.append(sets)
        count = 1
        for choice in choices:
            count *= len(choice)
            if count > _MOST_SETS:
                what = f"These are more than {_MOST_SETS} groupings."
                raise self.fault(group, what, "Write fewer with GROUPING SETS.")
        joined = (tuple(dict.fromkeys(key for part in one for key in part)) for one in product(*choices))
        return list(joined)

    def _key(self, node: exp.Expr, items: Sequence[exp.Expr], late: _Expansion) -> exp.Expr:
        if isinstance(node, exp.Literal) and not node.is_string:
            number = int(node.this) if str(node.this).isdecimal() and len(str(node.this)) < 9 else 0  # noqa: PLR2004
            if not 1 <= number <= len(items):
                what = f"There is no column number {str(node.this)[:20]}."
                raise self.fault(node, what, f"Write 1 to {len(items)}, or a name.")
            found = items[number - 1].this
        else:
            found = late(node)
        if _aggregates(found):
            instead = "Group by columns; write conditions on answers into HAVING."
            raise self.fault(node, "An aggregate is no key.", instead)
        return _bare(found)

    def _question(
        self,
        select: exp.Select,
        keys: Sequence[exp.Expr],
        chosen: tuple[exp.Expr, ...],
        groups: _Groups,
        where: Sequence[exp.Expr],
    ) -> int:
        """Return the number of the question about one grouping, adding it if it is new."""
        used = [key for key in keys if key in chosen]
        items = [key.copy() for key in used]
        items += [exp.alias_(atom.copy(), name, quoted=True) for atom, name in groups.named()]
        inner = exp.Select(expressions=items, from_=exp.From(this=self.table()))
        if where:
            inner.set("where", exp.Where(this=exp.and_(*(one.copy() for one in where), copy=False)))
        if used:
            numbers = [exp.Literal.number(place + 1) for place in range(len(used))]
            inner.set("group", exp.Group(expressions=numbers))
        if not items:  # GROUPING SETS with the empty set, and no aggregate
            inner.set("expressions", [exp.Count(this=exp.Star())])
        written = inner.sql(comments=False)
        if written not in self.numbers:
            check_tree(self.text, inner)
            self.numbers[written] = len(self.parts)
            self.parts.append(compile_tree(self.text, self.schema, inner))
        return self.numbers[written]

    def _rewrite(  # noqa: PLR0913  all that a SELECT has
        self,
        select: exp.Select,
        shown: Sequence[exp.Expr],
        groups: _Groups,
        sets: Sequence[tuple[exp.Expr, ...]],
        keys: Sequence[exp.Expr],
        numbers: Sequence[int],
        later: Sequence[exp.Expr],
    ) -> None:
        """Let a SELECT read the released groups instead of rows."""
        sides = []
        for chosen, number in zip(sets, numbers, strict=True):
            relation = f"{RELATION}{number}"
            used = [key for key in keys if key in chosen]
            columns: list[exp.Expr] = []
            for place, key in enumerate(keys):
                value = exp.column(f"k{used.index(key)}", relation) if key in used else exp.null()
                columns.append(exp.alias_(value, f"k{place}"))
                columns.append(exp.alias_(exp.Literal.number(int(key not in used)), f"g{place}"))
            columns += [exp.alias_(exp.column(f"v{place}", relation), f"v{place}") for place in range(len(groups.atoms))]
            columns = columns or [exp.alias_(exp.Literal.number(1), "v0")]
            sides.append(exp.Select(expressions=columns, from_=exp.From(this=exp.to_table(relation))))
        union: exp.Query = sides[0]
        for side in sides[1:]:
            union = exp.Union(this=union, expression=side, distinct=False)
        union.meta["released"] = ReleasedRelation(
            tuple(
                [ReleasedColumn(f"{kind}{place}") for place in range(len(keys)) for kind in "kg"]
                + [ReleasedColumn(f"v{place}", noisy=True) for place in range(len(groups.atoms))]
            )
        )
        select.set("expressions", list(shown))
        select.set("from_", exp.From(this=exp.Subquery(this=union, alias=exp.TableAlias(this=exp.to_identifier(_GROUPS)))))
        having = select.args.get("having")
        conditions = [*later, *([having.this] if having is not None else [])]
        select.set("where", exp.Where(this=exp.and_(*conditions, copy=False)) if conditions else None)
        for part in ("group", "having", "joins"):
            select.set(part, None)

    # The outer SELECT.

    def _select(
        self, select: exp.Select, environment: Environment, outer: tuple[Names, ...]
    ) -> ReleasedRelation:
        """Check a SELECT over released rows, and return the columns of its result."""
        names, order = self._sources(select, environment, outer)
        scope = _OuterScope(self, names, environment, outer, {})
        chosen = any(relation.chosen for relation in names.values())
        for join in select.args.get("joins") or ():
            if join.args.get("on") is not None:
                chosen |= scope.read(join.args["on"]).noisy
        where = select.args.get("where")
        chosen |= where is not None and scope.read(where).noisy
        columns: list[ReleasedColumn] = []
        items: list[exp.Expr] = []
        for item in select.expressions:
            inner = item.this if isinstance(item, exp.Alias) else item
            if isinstance(inner, exp.Star) or (isinstance(inner, exp.Column) and isinstance(inner.this, exp.Star)):
                columns += self._star(inner, order, select)
                items.append(item)
                continue
            noisy = scope.read(inner)
            grouped = chosen and any(isinstance(part, exp.AggFunc | exp.Window) for part in inner.walk())
            name = item.alias if isinstance(item, exp.Alias) else _default_name(inner)
            columns.append(ReleasedColumn(name, noisy.noisy or grouped, noisy.ranked))
            scope.aliases[name.casefold()] = columns[-1]
            items.append(item if isinstance(item, exp.Alias) else exp.alias_(inner, name, quoted=True))
        select.set("expressions", items)
        for part in ("group", "having", "qualify", "distinct"):
            clause = select.args.get(part)
            if clause is not None:
                chosen |= scope.read(clause).noisy
        for window in select.args.get("windows") or ():
            scope.read(window)
        chosen |= select.args.get("distinct") is not None and any(one.noisy for one in columns)
        self._tail(select, names, environment, outer, scope)
        self._keep_used(select)
        return ReleasedRelation(tuple(columns), bool(chosen) or _is_cut(select))

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
        scope: _OuterScope | None = None,
    ) -> None:
        """Check ORDER BY, LIMIT and OFFSET."""
        scope = scope or _OuterScope(self, names, environment, outer, {})
        if node.args.get("order") is not None:
            scope.read(node.args["order"])
        for part in ("limit", "offset"):
            clause = node.args.get(part)
            written = None if clause is None else clause.args.get("expression")
            if clause is not None and not (isinstance(written, exp.Literal) and str(written.this).isdecimal()):
                raise self.fault(clause, "This is no number of rows.", "Write a whole number.")
        if isinstance(node, exp.SetOperation):
            self._keep_used(node)

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
                raise self.fault(join.this, "This kind of join is not known.", "Write JOIN ... ON or USING (...).")
        pairs = [] if origin is None else [(origin.this, ()), *((join.this, join.args.get("using") or ()) for join in joins)]
        for item, using in pairs:
            relation, name = self._source(item, environment, outer)
            if name in names:
                raise self.fault(item, f"Two relations here are called `{name}`.", "Name them with AS.")
            for column in using:
                missing = relation.find(column.name) is None or not any(one.find(column.name) for one in names.values())
                if missing:
                    what = f"There is no column `{column.name[:60]}` on both sides."
                    raise self.fault(column, what, "Write ON with the columns of each side.")
            names[name] = relation
            order.append((name, relation, tuple(column.name.casefold() for column in using)))
        return names, order

    def _source(
        self, item: exp.Expr, environment: Environment, outer: tuple[Names, ...]
    ) -> tuple[ReleasedRelation, str]:
        alias = item.args.get("alias")
        names = [one.name for one in alias.args.get("columns") or ()] if alias is not None else []
        if isinstance(item, exp.Subquery):
            known = item.this.meta.get("released")
            found = known if known is not None else self.query(item.this, environment, outer)
            if not item.alias:
                item.set("alias", exp.TableAlias(this=exp.to_identifier(f"derived_{id(item)}")))
        else:
            relation = environment[item.name.casefold()]()
            if isinstance(relation, RowRelation):
                raise self.fault(item, *_JOINED_ROWS)
            found = relation
        self._count_names(item, names, found)
        return found.renamed(names), (item.alias or item.name).casefold()

    def _star(
        self,
        node: exp.Expr,
        order: Sequence[tuple[str, ReleasedRelation, tuple[str, ...]]],
        select: exp.Select,
    ) -> Iterator[ReleasedColumn]:
        if any(node.args.get(part) for part in ("except_", "replace", "rename")):
            raise self.fault(select, "`*` stands alone here.", "Name the columns instead.")
        qualifier = node.args.get("table")
        if not order:
            raise self.fault(select, "`*` has no relation to stand for.", "Write FROM ...")
        for name, relation, using in order:
            if qualifier is None or qualifier.name.casefold() == name:
                yield from (one for one in relation.columns if qualifier or one.name.casefold() not in using)


_AGGREGATING = ("group", "having", "distinct", "qualify", "windows")
_GROUPS = "groups_"


# --- Expressions over rows: names are replaced by what they stand for. ---


@dataclass(slots=True)
class _Expansion:
    """Replaces the columns of a relation of rows by expressions over the table's columns."""

    split: _Splitter
    rows: RowRelation
    qualifiers: frozenset[str]
    aliases: dict[str, exp.Expr] = field(default_factory=dict)
    prefer_aliases: bool = False
    keep_aliases: bool = False

    def __call__(self, node: exp.Expr) -> exp.Expr:
        """Return the expression over the table's columns; sub-selects are left as they are."""
        if isinstance(node, exp.Query):
            return node
        if isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
            return self._column(node)
        found = node.copy() if not node.args else type(node)(
            **{name: self.argument(value) for name, value in node.args.items()}
        )
        found.meta.update(node.meta)
        return found

    def argument(self, value: object) -> object:
        if isinstance(value, list):
            return [self(one) if isinstance(one, exp.Expr) else one for one in value]
        return self(value) if isinstance(value, exp.Expr) else value

    def _column(self, node: exp.Column) -> exp.Expr:
        name, qualifier = node.name.casefold(), node.args.get("table")
        if qualifier is None and name in self.aliases and (self.prefer_aliases or name not in self.rows.columns):
            return node.copy() if self.keep_aliases else exp.Paren(this=self.aliases[name].copy())
        if qualifier is not None:
            parent = node.args.get("db")
            written = qualifier.name if parent is None else f"{parent.name}.{qualifier.name}"
            if written.casefold() not in self.qualifiers:
                raise self.split.fault(node, f"No table here is called `{written[:60]}`.", _CORRELATED)
        found = self.rows.columns.get(name)
        if found is None:
            scope = Scope(self.split.text, self.split.schema, self.qualifiers)
            if scope.find(node.name) is None:
                scope.column(exp.Column(this=node.this))  # raises, with the nearest name
            known = ", ".join(list(self.rows.columns)[:20])
            raise self.split.fault(node, f"There is no column `{node.name[:60]}` here.", f"The columns are {known}.")
        if isinstance(found, exp.Column):
            column = exp.Column(this=exp.to_identifier(found.name))
            column.this.meta.update(node.this.meta)
            return column
        return exp.Paren(this=found.copy())


def _qualifiers(item: exp.Expr, schema: Schema) -> frozenset[str]:
    """Return the names that may qualify the columns of an item of FROM."""
    if item.alias:
        return frozenset((item.alias.casefold(),))
    if not isinstance(item, exp.Table):
        return frozenset()
    full = schema.table.casefold()
    names = {full, full.rpartition(".")[2], item.name.casefold()}
    return frozenset((*names, f"{item.db}.{item.name}".casefold()) if item.db else names)


# --- Expressions over groups: keys and aggregates become columns of released rows. ---


@dataclass(slots=True)
class _Groups:
    """The columns of the released groups: the keys, and every aggregate that is used."""

    split: _Splitter
    keys: Sequence[exp.Expr]
    atoms: dict[exp.Expr, int] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)

    def named(self) -> Iterator[tuple[exp.Expr, str]]:
        """Yield each measured expression with the name of its column."""
        for atom, place in self.atoms.items():
            yield atom, self.names.get(place) or atom.sql(comments=False).lower()

    def item(self, item: exp.Expr) -> exp.Expr:
        """Return an item of the select list over released groups."""
        inner = _bare(item.this)
        if _is_plain_value(inner) and inner not in self.keys:
            found = self._atom(inner)
            self.names.setdefault(self.atoms[inner], item.alias)
        else:
            found = self(inner)
        return exp.alias_(found, item.alias, quoted=True)

    def clause(self, clause: exp.Expr, late: _Expansion) -> None:
        """Turn HAVING, QUALIFY, ORDER BY or a named window into one over released groups, in place."""
        for name, value in list(clause.args.items()):
            if name in {"over", "alias"} or (isinstance(clause, exp.Window) and name == "this"):
                continue
            if isinstance(value, list):
                clause.set(name, [self._late(one, late) for one in value])
            elif isinstance(value, exp.Expr):
                clause.set(name, self._late(value, late))

    def _late(self, node: exp.Expr, late: _Expansion) -> exp.Expr:
        if isinstance(node, exp.Ordered):
            if not isinstance(node.this, exp.Literal):  # a number stands for a column of the result
                node.set("this", self(late(node.this)))
            return node
        if isinstance(node, exp.Order):
            for one in node.expressions:
                self._late(one, late)
            return node
        return node if isinstance(node, exp.WindowSpec) else self(late(node))

    def condition(self, node: exp.Expr) -> exp.Expr:
        """Return a condition of WHERE that holds for whole groups, as it reads only keys."""
        try:
            return self(node)
        except InvalidSql:
            raise self.split.fault(node, *_DEPENDENT) from None

    def __call__(self, node: exp.Expr) -> exp.Expr:
        """Return an expression over released groups; sub-selects are left to be read by themselves."""
        if isinstance(node, exp.Query):
            return node
        bare = _bare(node)
        if bare in self.keys:
            return exp.column(f"k{self.keys.index(bare)}", _GROUPS)
        if isinstance(node, exp.Grouping):
            return self._grouping(node)
        if isinstance(node, exp.Window):
            return self._window(node)
        if _aggregate(node):
            return self._atom(node)
        if isinstance(node, exp.Column):
            instead = "Name it in GROUP BY just as in SELECT, or write an aggregate of it."
            raise self.split.fault(node, "This is not what the statement groups by.", instead)
        return self._inside(node)

    def _inside(self, node: exp.Expr) -> exp.Expr:
        found = type(node)(**{name: self._argument(value) for name, value in node.args.items()})
        found.meta.update(node.meta)
        return found

    def _argument(self, value: object) -> object:
        if isinstance(value, list):
            return [self(one) if isinstance(one, exp.Expr) else one for one in value]
        return self(value) if isinstance(value, exp.Expr) else value

    def _atom(self, node: exp.Expr) -> exp.Expr:
        place = self.atoms.setdefault(node, len(self.atoms))
        return exp.column(f"v{place}", _GROUPS)

    def _window(self, node: exp.Window) -> exp.Expr:
        """Return a window over groups: its function is no aggregate of rows, but the function's arguments may be."""
        function = node.this
        wrapped = []
        while isinstance(function, exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
            wrapped.append(function)
            function = function.this
        found = self._inside(function)
        for one in reversed(wrapped):
            changed = type(one)(**{name: self._argument(value) for name, value in one.args.items() if name != "this"})
            changed.set("this", found)
            found = changed
        parts = {name: self._argument(value) for name, value in node.args.items() if name not in {"this", "spec", "alias"}}
        return exp.Window(this=found, spec=node.args.get("spec"), alias=node.args.get("alias"), **parts)

    def _grouping(self, node: exp.Grouping) -> exp.Expr:
        """Return GROUPING(...): a bit for each key, 1 where the row is over all of its groups."""
        total: exp.Expr = exp.Literal.number(0)
        for one in node.expressions:
            if _bare(one) not in self.keys:
                raise self.split.fault(one, "GROUPING is of a key.", "Name a column of GROUP BY.")
            bit = exp.column(f"g{self.keys.index(_bare(one))}", _GROUPS)
            total = exp.Add(this=exp.Mul(this=exp.Literal.number(2), expression=exp.Paren(this=total)), expression=bit)
        return exp.Paren(this=total)


def _aggregate(node: exp.Expr) -> bool:
    return aggregate_name(node) is not None or isinstance(node, tuple(AGGREGATES))


def _aggregates(node: exp.Expr) -> bool:
    """Whether an expression has an aggregate of rows, outside of sub-selects."""
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if isinstance(one, exp.Query):
            continue
        if isinstance(one, exp.Window):
            waiting += [part for part in one.this.iter_expressions()]
            waiting += [part for part in one.iter_expressions() if part is not one.this]
            continue
        if _aggregate(one):
            return True
        waiting += one.iter_expressions()
    return False


def _is_plain_value(node: exp.Expr) -> bool:
    """Whether an item is arithmetic of aggregates and numbers, which has an exact interval of its own."""
    waiting, found = [node], False
    while waiting:
        one = waiting.pop()
        if _aggregate(one) and aggregate_name(one) is not None:
            found = True
        elif isinstance(one, _ARITHMETIC):
            waiting += one.iter_expressions()
        elif not (isinstance(one, exp.Literal) and not one.is_string):
            return False
    return found


def _bare(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _conjuncts(node: exp.Expr) -> list[exp.Expr]:
    while isinstance(node, exp.Paren):
        node = node.this
    return flatten_chain(node) if isinstance(node, exp.And) else [node]


def _node_sets(node: exp.Expr) -> list[tuple[exp.Expr, ...]]:
    """Return the groupings that one item of GROUP BY stands for."""
    match node:
        case exp.Rollup():
            parts = [_members(one) for one in node.expressions]
            return [tuple(key for part in parts[:length] for key in part) for length in range(len(parts), -1, -1)]
        case exp.Cube():
            parts = [_members(one) for one in node.expressions]
            chosen = product((True, False), repeat=len(parts))
            return [tuple(key for part, kept in zip(parts, one, strict=True) if kept for key in part) for one in chosen]
        case exp.GroupingSets():
            return [one for part in node.expressions for one in _node_sets(part)]
        case _:
            return [_members(node)]


def _members(node: exp.Expr) -> tuple[exp.Expr, ...]:
    return tuple(node.expressions) if isinstance(node, exp.Tuple) else (_bare(node),)


def _default_name(node: exp.Expr) -> str:
    """Return the name of a column without an alias: that of the column or function, as in a plain SELECT."""
    node = _bare(node)
    while isinstance(node, exp.Window | exp.Filter | exp.IgnoreNulls | exp.WithinGroup | exp.Cast | exp.Round):
        node = _bare(node.this)
    if isinstance(node, exp.Column):
        return node.name
    if isinstance(node, exp.Anonymous):
        return node.name.lower()
    if isinstance(node, exp.Case):
        return "case"
    return node.sql_name().lower() if isinstance(node, exp.Func) and not isinstance(node, exp.Connector) else "value"


def _interval_ends(tree: exp.Expr) -> dict[int, str]:
    """Replace DP_INTERVAL_LOW(x) and DP_INTERVAL_HIGH(x) in the select list by x, and return which columns they are."""
    found: dict[int, str] = {}
    if isinstance(tree, exp.Select):
        for place, item in enumerate(tree.expressions):
            inner = item.this if isinstance(item, exp.Alias) else item
            end = _ENDS.get(inner.name.lower()) if isinstance(inner, exp.Anonymous) else None
            if end is not None and len(inner.expressions) == 1:
                found[place] = end
                name = item.alias if isinstance(item, exp.Alias) else inner.name.lower()
                tree.expressions[place] = exp.alias_(inner.expressions[0], name, quoted=True)
        tree.set("expressions", tree.expressions)
    return found


# --- Expressions over released rows: what may be named, and what noise reaches. ---


@dataclass(frozen=True, slots=True)
class _Taint:
    noisy: bool
    ranked: bool


@dataclass(slots=True)
class _OuterScope:
    """The names of a SELECT over released rows, and of the SELECTs around it."""

    split: _Splitter
    names: Names
    environment: Environment
    outer: tuple[Names, ...]
    aliases: dict[str, ReleasedColumn]

    def read(self, node: exp.Expr) -> _Taint:
        """Check an expression, and return whether noise reaches it."""
        noisy = ranked = False
        waiting = [node]
        while waiting:
            one = waiting.pop()
            if isinstance(one, exp.Query):
                found = self.split.query(one, self.environment, (self.names, *self.outer))
                noisy |= found.chosen or any(column.noisy for column in found.columns)
                ranked |= any(column.ranked for column in found.columns)
                continue
            check_outer(self.split.text, one)
            if isinstance(one, exp.Column):
                if isinstance(one.this, exp.Star):
                    continue
                column = self._find(one)
                noisy, ranked = noisy | column.noisy, ranked | column.ranked
                continue
            waiting += one.iter_expressions()
        orders = node.find_all(*RANKING)
        return _Taint(noisy, ranked or (noisy and next(orders, None) is not None))

    def _find(self, node: exp.Column) -> ReleasedColumn:
        name, qualifier = node.name, node.args.get("table")
        for names in (self.names, *self.outer):
            if qualifier is not None:
                if qualifier.name.casefold() in names:
                    found = names[qualifier.name.casefold()].find(name)
                    if found is not None:
                        return found
                    self._refuse(node, [one.name for one in names[qualifier.name.casefold()].columns])
                continue
            matches = [found for relation in names.values() if (found := relation.find(name)) is not None]
            alias = self.aliases.get(name.casefold())
            if len(matches) > 1 and alias is None and not self._merged(node):
                what = f"`{name[:60]}` could be a column of several relations."
                raise self.split.fault(node, what, f"Write {' or '.join(f'{one}.{name}' for one in names)}.")
            if matches or alias is not None:
                both = [*matches, *([alias] if alias is not None else [])]
                return ReleasedColumn(name, any(one.noisy for one in both), any(one.ranked for one in both))
        if qualifier is not None:
            instead = f"Write {' or '.join(self.names) or 'no table'}."
            raise self.split.fault(node, f"No relation here is called `{qualifier.name[:60]}`.", instead)
        self._refuse(node, [one.name for relation in self.names.values() for one in relation.columns])
        raise AssertionError

    def _merged(self, node: exp.Column) -> bool:
        """Whether USING has merged the columns of this name."""
        select = node.find_ancestor(exp.Select)
        joins = () if select is None else select.args.get("joins") or ()
        used = [column.name.casefold() for join in joins for column in join.args.get("using") or ()]
        return node.name.casefold() in used

    def _refuse(self, node: exp.Column, known: Sequence[str]) -> None:
        shown = [name for name in known if not re.fullmatch(r"[kgv]\d+", name)]
        near = get_close_matches(node.name, shown, n=1)
        instead = f"Did you mean `{near[0]}`?" if near else f"The columns here are {', '.join(shown[:20])}."
        raise self.split.fault(node, f"There is no column `{node.name[:60]}` here.", instead if shown else _CORRELATED)


def _is_cut(node: exp.Expr) -> bool:
    return node.args.get("limit") is not None or node.args.get("offset") is not None


# --- Redraws: the same statement for every redraw of the noise, with rows that can be told apart. ---


_MOST_IDENTITY = 16


def _redrawn(tree: exp.Expr, result: ReleasedRelation) -> tuple[exp.Expr, int]:
    """Return the statement over one redraw, and how many columns at its end tell rows apart.

    Sorting and cutting only decide which rows are shown, and so do conditions where no window or aggregate reads the
    rows that are left: every group has its value and interval, shown or not.
    """
    found = tree.copy()
    for part in ("order", "limit", "offset"):
        found.set(part, None)
    added: list[exp.Expr] = []
    if isinstance(found, exp.Select):
        windows = found.find(exp.Window) is not None
        grouped = found.args.get("group") is not None or any(
            isinstance(part, exp.AggFunc) for item in found.expressions for part in _own_nodes(item)
        )
        found.set("qualify", None)
        if not windows and not grouped and not found.args.get("distinct") and any(c.noisy for c in result.columns):
            found.set("where", None)
        added = _identity(found, grouped=grouped)
        found.set("expressions", [*found.expressions, *added])
    else:
        clean = [one for one in result.columns if not one.noisy]
        added = clean and []
    number = exp.column(DRAW, f"{DRAW}s")
    for table in list(found.find_all(exp.Table)):
        if table.name.startswith(RELATION) and table.name[len(RELATION) :].isdecimal():
            same = exp.EQ(this=exp.column(DRAW), expression=number.copy())
            chosen = exp.Select(
                expressions=[exp.Star()], from_=exp.From(this=exp.to_table(table.name)), where=exp.Where(this=same)
            )
            table.replace(exp.Subquery(this=chosen, alias=exp.TableAlias(this=exp.to_identifier(table.name))))
    return found, len(added)


def _own_nodes(node: exp.Expr) -> Iterator[exp.Expr]:
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if isinstance(one, exp.Query | exp.Window):
            continue
        yield one
        waiting += one.iter_expressions()


def _identity(select: exp.Select, *, grouped: bool) -> list[exp.Expr]:
    """Return columns that tell the rows of a SELECT apart: its keys, or the clean columns of what it reads."""
    if select.args.get("distinct"):
        return []
    origin = select.args.get("from_")
    found: list[exp.Expr] = []
    if grouped:
        group = select.args.get("group")
        found = [one.copy() for one in group.expressions if isinstance(one, exp.Column)] if group is not None else []
    elif origin is not None and isinstance(origin.this, exp.Subquery) and origin.this.alias == _GROUPS:
        known: ReleasedRelation = origin.this.this.meta["released"]
        found = [exp.column(one.name, _GROUPS) for one in known.columns if not one.noisy]
    return [exp.alias_(one, f"identity_{place}") for place, one in enumerate(found[:_MOST_IDENTITY])]
