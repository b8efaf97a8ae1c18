"""Read a text as one question, or as a statement of two halves: what it asks of the table, and what it computes.

Every SELECT that aggregates over the table becomes a question. What is around it (windows, CTEs, set operations, joins
of answers, HAVING, ORDER BY, CASE and functions of results) stays SQL, over relations of released rows. Sub-selects and
CTEs that only filter, rename or compute columns of rows are merged into the SELECT that aggregates them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Literal

from sqlglot import exp

from dodona.query.question import Question
from dodona.query.statement import DRAW, RELATION, OutputColumn, Statement
from dodona.schema.schema import Schema
from dodona.sql.compile import CLOCK, compile_sql, read_statement
from dodona.sql.groups import Parts, compile_rows
from dodona.sql.joins import PUBLIC, mark_public, written_name
from dodona.sql.outer import is_outer_aggregate, render, total_functions
from dodona.sql.parse import explain_reserved_word, parse_statement
from dodona.sql.person_ids import write_people_plainly
from dodona.sql.person_joins import merge_people
from dodona.sql.refusals import INTERVAL_ENDS
from dodona.sql.relations import RowExpressions, SourceText, qualifying_names, unaliased
from dodona.sql.scope import TODAY, InvalidSql, change_part, day_of_asking, describe_today, find_private, select_item
from dodona.sql.split import Splitter, resolve_relation
from dodona.sql.unions import aggregate_unions

_KEPT = 128
_LONGEST_KEPT = 1 << 12
_MOST_PARTS = 32
_MOST_IDENTITY = 16
_OF_PEOPLE = "SELECT count(*) FROM (SELECT {0}, count(*) AS n FROM {1} GROUP BY {0}) AS people WHERE n > 1"
_NOTHING = "SELECT count(*) FROM {} LIMIT 0"
_EXPLAIN = re.compile(r"\s*explain\b(?:\s*(\(|analy[sz]e\b|verbose\b))?", re.IGNORECASE)
_OF_GROUPS = (
    *(exp.Avg, exp.Min, exp.Count, exp.Median, exp.Quantile, exp.PercentileCont, exp.PercentileDisc, exp.Stddev),
    *(exp.StddevPop, exp.StddevSamp, exp.Variance, exp.VariancePop, exp.Ntile, exp.PercentRank, exp.CumeDist),
)
"""What depends on the number of groups."""


def read_halves(text: str, schema: Schema) -> Question | Statement:
    """Read a text that is not one plain SELECT; recent results are cached."""
    kept = len(text) <= _LONGEST_KEPT and not CLOCK.search(text)
    return _read_once(text, schema) if kept else _read(text, schema)


def _read(text: str, schema: Schema) -> Question | Statement:
    prefix = _EXPLAIN.match(text)
    if prefix is None:
        return _flatten(text, schema) or _split_halves(text, schema)
    if prefix[1]:
        what, instead = "EXPLAIN tells the price, and asks nothing.", "Write EXPLAIN SELECT ..., without further words."
        raise InvalidSql(text, prefix.start(1), what, instead)
    rest = " " * prefix.end() + text[prefix.end() :]  # of the same length, so that errors point into the text
    asked = read_statement(rest, schema)
    if isinstance(asked, Statement):
        return replace(asked, text=text, explain=True)
    return Statement(text=text, parts=(replace(asked, text=text),), sql="", redraw="", columns=(), explain=True)


_read_once = lru_cache(maxsize=_KEPT)(_read)


def _tree(text: str, schema: Schema) -> exp.Query:
    """Return the tree of a statement, with joins in the one form in which they are read."""
    try:
        tree = parse_statement(text)
    except InvalidSql as fault:
        raise explain_reserved_word(text, schema.domain.names) or fault from None
    for group in tree.find_all(exp.Group):
        if not any(group.args.values()):
            raise InvalidSql(text, len(text), "GROUP BY names nothing.", "Name columns after it, or leave it out.")
    for origin in tree.find_all(exp.From):
        _unwrap_joins(origin)
    if schema.unit.id is not None:
        write_people_plainly(tree, schema.unit.id)
    ctes = {cte.alias.casefold() for cte in tree.find_all(exp.CTE)}
    aggregate_unions(
        tree, lambda item: item.name.casefold() not in ctes and find_private(schema, written_name(item)) is not None
    )
    merge_people(tree, schema)
    mark_public(tree, schema)
    return tree


def _unwrap_joins(origin: exp.From) -> None:
    """Take the parentheses away that some tools write around all joins of a FROM."""
    item, select = origin.this, origin.parent
    table = item.this if isinstance(item, exp.Subquery) and not item.alias else None
    if isinstance(table, exp.Table) and isinstance(select, exp.Select):
        joins = [*(table.args.get("joins") or ()), *(select.args.get("joins") or ())]
        table.set("joins", None)
        origin.set("this", table)
        select.set("joins", joins or None)


def _flatten(text: str, schema: Schema) -> Question | None:
    """Return the question of a SELECT whose sub-selects only filter, rename or compute; None if it is more."""
    tree, source = _tree(text, schema), SourceText(text, schema)
    split = Splitter(source, Parts(source))
    origin = tree.args.get("from_")
    if not isinstance(tree, exp.Select) or origin is None:
        return None
    try:
        environment = split.environment(tree, {}, ())
        rows = resolve_relation(split, tree, environment)
        if rows is None or split.parts.questions:
            return None
        aliases = {item.alias.casefold(): item for item in tree.expressions if isinstance(item, exp.Alias)}
        expand = RowExpressions(source, rows, qualifying_names(origin.this, schema))
        late = RowExpressions(source, rows, expand.qualifiers, {name: exp.column(name) for name in aliases})
        late.prefer_aliases = late.keep_aliases = True
        flat = exp.Select(from_=exp.From(this=source.table()))
        for name, value in tree.args.items():
            if value and name not in {"from_", "with_", "where", "joins"}:
                flat.set(
                    name,
                    [_name_item(item, expand) for item in value] if name == "expressions" else change_part(value, late),
                )
        meant = tree.args.get("where")
        where = [*rows.where, *([] if meant is None else [expand(meant.this)])]
        if where:
            flat.set("where", exp.Where(this=exp.and_(*where, copy=False)))
        return compile_rows(source, flat, rows)
    except InvalidSql:
        return None


def _name_item(item: exp.Expr, expand: RowExpressions) -> exp.Expr:
    """Return an item of the select list over the table's columns; a column keeps the name that it was asked by."""
    expression = expand(item)
    changed = isinstance(item, exp.Column) and not (isinstance(expression, exp.Column) and expression.name == item.name)
    return select_item(expression, item.name) if changed and not isinstance(item.this, exp.Star) else expression


def _check_people(source: SourceText, tree: exp.Expr) -> None:
    """Refuse EXISTS and IN that choose people by their rows, and say how people are asked about."""
    person = source.schema.unit.id
    for node in () if person is None else tree.find_all(exp.Exists, exp.In):
        inner = node.this if isinstance(node, exp.Exists) else node.args.get("query")
        inner = inner.this if isinstance(inner, exp.Subquery) else inner
        if not isinstance(inner, exp.Select):
            continue
        if isinstance(node, exp.Exists) and (inner.args.get("group") or inner.find(exp.AggFunc)):
            continue
        origin = inner.args.get("from_")
        table = origin.this.name if origin is not None and isinstance(origin.this, exp.Table) else ""
        by_id = isinstance(node, exp.Exists) or node.this.name.casefold() == str(person).casefold()
        if by_id and find_private(source.schema, table) is not None:
            instead = f"Give each person one row, and ask about these: {_OF_PEOPLE.format(person, table)}."
            raise source.fault(node, "This chooses people by their rows in another SELECT.", instead)


def _split_halves(text: str, schema: Schema) -> Statement:
    """Return a statement of two halves."""
    tree, source = _tree(text, schema), SourceText(text, schema)
    _check_people(source, tree)
    parts = Parts(source)
    ends, today = _interval_ends(tree), _write_today(tree)
    result = Splitter(source, parts).query(tree, {}, ())
    if not parts.questions and any(PUBLIC in values.meta for values in tree.find_all(exp.Values)):
        parts.questions.append(compile_sql(_NOTHING.format(schema.table), schema))  # public tables alone
    count = len(parts.questions)
    if not count:
        raise InvalidSql(text, len(text), "No table is asked.", f"Write FROM {schema.table}.")
    if count > _MOST_PARTS:
        what = f"These are {count} questions; {_MOST_PARTS} are answered together."
        raise InvalidSql(text, 0, what, "Ask several statements.")
    columns = [OutputColumn(column.name, column.noisy, column.ranked) for column in result.columns]
    for place, end in ends.items():
        columns[place] = replace(columns[place], end=end)
    identity = _add_identity(tree)
    redraw = _redrawn(tree)
    return Statement(
        text=text,
        parts=tuple(replace(question, text=text) for question in parts.questions),
        sql=render(text, total_functions(text, tree)),
        redraw=render(text, total_functions(text, redraw)),
        columns=tuple(columns),
        warnings=(*_group_warnings(tree, parts.questions), *today),
        identity=identity,
        selected_from=1 + sum(1 for _ in tree.find_all(exp.Join)) if result.chosen else 0,
    )


def _write_today(tree: exp.Expr) -> tuple[str, ...]:
    """Write the day of asking where a statement names it, and return what to tell the analyst about it."""
    named = [node for node in tree.find_all(exp.CurrentDate, exp.CurrentTimestamp, exp.Anonymous) if _is_today(node)]
    day = day_of_asking()
    for node in named:
        node.replace(exp.Cast(this=exp.Literal.string(day.isoformat()), to=exp.DataType(this=exp.DType.DATE)))
    return (describe_today(day),) if named else ()


def _is_today(node: exp.Expr) -> bool:
    named = not isinstance(node, exp.Anonymous) or (node.name.lower() in TODAY and not node.expressions)
    return named and isinstance(node.parent, exp.Expr)


def _group_warnings(tree: exp.Expr, questions: Sequence[Question]) -> tuple[str, ...]:
    """Return a warning where a result depends on how many groups there are: all that are declared."""
    function = next(tree.find_all(*_OF_GROUPS), None)
    if function is None or not any(question.keys for question in questions):
        return ()
    what = (
        f"`{function.sql_name().lower()}` is over all declared groups, also those without rows and those of missing or"
    )
    return (f"{what} undeclared values; WHERE around the groups leaves some out.",)


def check_statement(statement: Statement) -> None:
    """Refuse a statement whose outer half cannot be computed, before anything is charged.

    It is run on made-up values of all groups, which are public: types, sizes and times are those of the real run.
    """
    from dodona.answer.outer import OuterFailure

    try:
        _rehearse(statement)
    except OuterFailure as failure:
        raise InvalidSql(statement.text, _place(statement.text, failure.what), failure.what, failure.instead) from None


@lru_cache(maxsize=_KEPT)
def _rehearse(statement: Statement) -> None:
    from dodona.answer.released import rehearse_statement

    rehearse_statement(statement)


def _place(text: str, what: str) -> int:
    """Return where the first quoted name of a message stands in the text; its beginning if it has none."""
    for name in re.findall(r"['\"]\s*(\w+)", what):
        matched = re.search(rf"\b{re.escape(name)}\b", text, re.IGNORECASE)
        if matched is not None:
            return matched.start()
    return 0


def _interval_ends(tree: exp.Expr) -> dict[int, Literal["low", "high"]]:
    """Replace DP_INTERVAL_LOW(x) and DP_INTERVAL_HIGH(x) in the select list by x, and return which columns they are."""
    ends: dict[int, Literal["low", "high"]] = {}
    if isinstance(tree, exp.Select):
        for place, item in enumerate(tree.expressions):
            inner = unaliased(item)
            end = INTERVAL_ENDS.get(inner.name.lower()) if isinstance(inner, exp.Anonymous) else None
            if end is not None and len(inner.expressions) == 1:
                ends[place] = end
                name = item.alias if isinstance(item, exp.Alias) else inner.name.lower()
                tree.expressions[place] = select_item(inner.expressions[0], name)
        tree.set("expressions", tree.expressions)
    return ends


# --- Redraws: the same statement for every redraw of the noise, with rows that can be told apart. ---


def _add_identity(tree: exp.Expr) -> int:
    """Add columns that tell the rows of a result apart, and return their number; they are not shown."""
    columns: list[exp.Expr] = []
    if isinstance(tree, exp.Select) and not tree.args.get("distinct"):
        columns = tree.meta.get("identity", [])[:_MOST_IDENTITY]
        added = [exp.alias_(column.copy(), f"identity_{place}") for place, column in enumerate(columns)]
        tree.set("expressions", [*tree.expressions, *added])
    return len(columns)


def _redrawn(tree: exp.Expr) -> exp.Expr:
    """Return the statement over one redraw.

    Sorting and cutting only decide which rows are shown, and so do conditions where no window or aggregate reads the
    rows that are left: every group has its value and interval, shown or not.
    """
    statement = tree.copy()
    for part in ("order", "limit", "offset"):
        statement.set(part, None)
    if isinstance(statement, exp.Select):
        statement.set("qualify", None)
        if not _reads_rows_together(statement) and not statement.args.get("distinct"):
            statement.set("where", None)
    number = exp.column(DRAW, f"{DRAW}s")
    for table in list(statement.find_all(exp.Table)):
        if table.name.startswith(RELATION) and table.name[len(RELATION) :].isdecimal():
            same = exp.EQ(this=exp.column(DRAW), expression=number.copy())
            chosen = exp.Select(
                expressions=[exp.Star()], from_=exp.From(this=exp.to_table(table.name)), where=exp.Where(this=same)
            )
            table.replace(exp.Subquery(this=chosen, alias=exp.TableAlias(this=exp.to_identifier(table.name))))
    return statement


def _reads_rows_together(select: exp.Select) -> bool:
    """Whether a SELECT has a window or an aggregate, whose values depend on which rows are left."""
    if select.args.get("group") is not None:
        return True
    nodes = (part for item in select.expressions for part in _own_nodes(item))
    return any(isinstance(part, exp.Window) or is_outer_aggregate(part) for part in nodes)


def _own_nodes(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the nodes of an expression, without those of sub-selects."""
    waiting = [node]
    while waiting:
        current = waiting.pop()
        if not isinstance(current, exp.Query):
            yield current
            waiting += current.iter_expressions()
