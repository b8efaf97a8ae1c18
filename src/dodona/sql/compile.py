"""Compile the text of one SELECT into a question: GROUP BY keys, select list, HAVING, ORDER BY and LIMIT.

Only the text and the public schema are read, never the data. All groups are public.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, partial

from sqlglot import exp

from dodona.errors import InvalidArgument
from dodona.query import question as asked
from dodona.query.canonical import key_text
from dodona.query.predicate import NOTHING, Predicate, conjunction
from dodona.query.query import MOST_VALUES, Key, Query
from dodona.query.statement import Statement
from dodona.schema.partition import Partition
from dodona.schema.schema import Domain, Schema
from dodona.sql.aggregate import Blocks, aggregate_name, compile_aggregate, weight_guards
from dodona.sql.arithmetic import type_kind
from dodona.sql.condition import compile_condition
from dodona.sql.joins import find_public
from dodona.sql.keys import CompiledKey, compile_key
from dodona.sql.parse import RELATIONS, flatten_chain, function_name, parse
from dodona.sql.privacy_clause import PRIVACY_CLAUSE, check_privacy_clause
from dodona.sql.refusals import REFUSED_AGGREGATES
from dodona.sql.scalar import literal_constant
from dodona.sql.scope import DEFAULT_SCHEMAS, InvalidSql, RowView, Scope, find_private, node_start, table_view

# --- Output: arithmetic and conditions over aggregates, as post-processing of noisy values. ---


_OF_PUBLIC = "This is a public table, and no question of the data."
NOT_ARITHMETIC = "This cannot be computed from the answers."
_READ_FURTHER = (NOT_ARITHMETIC, _OF_PUBLIC)
"""What one SELECT refuses and a statement may answer, so that the statement's own error is the better one."""
_ARITHMETIC: dict[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/"}


@dataclass(frozen=True, slots=True)
class SelectContext:
    """What a statement may show: its keys, its blocks, and the columns named so far."""

    scope: Scope
    keys: tuple[Key, ...]
    compiled: dict[exp.Expr, CompiledKey]
    """The keys by their source expressions, so that identical expressions are compiled once."""
    blocks: Blocks
    aliases: Mapping[str, asked.Expression]


def has_aggregate(node: exp.Expr) -> bool:
    """Whether an expression contains an aggregate."""
    return any(aggregate_name(part) is not None for part in node.walk())


def compile_value(show: SelectContext, node: exp.Expr) -> asked.Expression:
    """Compile an expression over aggregates and numbers."""
    while isinstance(node, exp.Paren):
        node = node.this
    if aggregate_name(node) is not None:
        return compile_aggregate(show.scope, node, show.blocks)
    if isinstance(node, exp.Column):
        return _column(show, node)
    if isinstance(node, exp.Literal) and not node.is_string:
        return asked.LiteralExpression(_number(show, node))
    if isinstance(node, exp.Neg):
        return asked.Arithmetic("-", asked.LiteralExpression(Fraction(0)), _operand(show, node.this))
    if isinstance(node, exp.Cast):
        return _cast(show, node)
    return _arithmetic(show, node)


def _arithmetic(show: SelectContext, node: exp.Expr) -> asked.Expression:
    sign = _ARITHMETIC.get(type(node))
    if sign is None:
        instead = "Write aggregates and numbers with + - * / between them."
        raise show.scope.fault(node, NOT_ARITHMETIC, instead)
    before = len(show.blocks.numbers)
    left, right = _operand(show, node.this), _operand(show, node.expression)
    if sign == "/" and isinstance(right, asked.LiteralExpression | asked.PublicValue) and right.value == 0:
        raise show.scope.fault(node.expression, "This divides by zero.", "Write another divisor.")
    if sign == "/" and left == right and not isinstance(left, asked.LiteralExpression):
        show.blocks.forget(before)
        absent = left.absent if isinstance(left, asked.PublicValue) else frozenset[int]()
        return asked.PublicValue(Fraction(1), absent)  # the share of all in all, in every group with rows
    return asked.Arithmetic(sign, left, right)


def _operand(show: SelectContext, node: exp.Expr) -> asked.Expression:
    """Compile an operand: anything but a group label or a text."""
    expression = compile_value(show, node)
    text = isinstance(expression, asked.LiteralExpression) and isinstance(expression.value, str)
    if text or isinstance(expression, asked.KeyLabel):
        raise show.scope.fault(node, "Names are no numbers to compute with.", "Show it in a column of its own.")
    return expression


def find_key(show: SelectContext, node: exp.Expr) -> asked.KeyLabel:
    """Return the key that an expression without aggregates matches."""
    name = function_name(node)
    if name in REFUSED_AGGREGATES:
        raise show.scope.fault(node, *REFUSED_AGGREGATES[name])
    for column in node.find_all(exp.Column):
        if show.scope.computed(column) is None:
            show.scope.column(column)
    if not show.keys and not isinstance(node, exp.Anonymous):
        instead = "Write an aggregate, such as count(*) or avg(...), or name it in GROUP BY."
        raise show.scope.fault(node, "Rows are never shown, so this column has no single value.", instead)
    if node not in show.compiled:
        show.compiled[node] = _compile_key(show.scope, node)
    key = show.compiled[node].key
    if key not in show.keys:
        instead = "Name it in GROUP BY just as in SELECT, or write an aggregate of it."
        raise show.scope.fault(node, "This is not what the statement groups by.", instead)
    return asked.KeyLabel(show.keys.index(key), show.compiled[node].labels)


def _compile_key(scope: Scope, node: exp.Expr) -> CompiledKey:
    """Compile a key expression to its groups; nearly all are plain columns."""
    if isinstance(node, exp.Column) and scope.computed(node) is None:
        return CompiledKey(scope.groups(node, scope.column(node)))
    return compile_key(scope, node)


def compile_having(show: SelectContext, node: exp.Expr) -> asked.Expression:
    """Compile a condition over the noisy values of a group."""
    match node:
        case exp.Paren():
            return compile_having(show, node.this)
        case exp.Not():
            return asked.Logic("not", (compile_having(show, node.this),))
        case exp.And() | exp.Or():
            word = "and" if isinstance(node, exp.And) else "or"
            return asked.Logic(word, tuple(compile_having(show, part) for part in flatten_chain(node)))
        case exp.Between():
            middle = _comparison(show, node.this)
            low, high = _comparison(show, node.args["low"]), _comparison(show, node.args["high"])
            return asked.Logic("and", (asked.Comparison(">=", middle, low), asked.Comparison("<=", middle, high)))
        case exp.In() if node.expressions:
            subject, others = _comparison(show, node.this), (_comparison(show, part) for part in node.expressions)
            return asked.Logic("or", tuple(asked.Comparison("=", subject, other) for other in others))
    relation = RELATIONS.get(type(node))
    if relation is None:
        raise show.scope.fault(node, "This is no condition on answers.", "Write a comparison, such as count(*) > 100.")
    return asked.Comparison(relation, _comparison(show, node.this), _comparison(show, node.expression))


def _comparison(show: SelectContext, node: exp.Expr) -> asked.Expression:
    expression = compile_value(show, node)
    if isinstance(expression, asked.KeyLabel):
        instead = "Write conditions on columns into WHERE: that costs nothing."
        raise show.scope.fault(node, "HAVING filters groups by their noisy values.", instead)
    return expression


def _number(show: SelectContext, node: exp.Expr) -> Fraction:
    constant = literal_constant(show.scope, node)
    return constant if isinstance(constant, Fraction) else Fraction(0)


def _cast(show: SelectContext, node: exp.Cast) -> asked.Expression:
    if type_kind(node.args["to"]) != "number":
        raise show.scope.fault(node, "Answers are numbers with parts of a whole.", "Leave the cast out.")
    return compile_value(show, node.this)


def _column(show: SelectContext, node: exp.Column) -> asked.Expression:
    if node.args.get("table") is None:
        expression = show.aliases.get(node.name.casefold())
        if expression is not None:
            return expression
    return find_key(show, node)


# --- Compilation: from the text of one SELECT to a question. Only the text and the schema are read. ---


LARGEST_LIMIT = 1 << 31
_KEPT = 128
_LONGEST_NAME = 63
_LONGEST_KEPT = _WIDEST_KEPT = 1 << 12
"""Recent questions are cached unless the text or the widest column exceeds this, as they would be large."""
CLOCK = re.compile(r"current_|\b(now|today|getdate|curdate|sysdate|age)\s*[(]", re.IGNORECASE)
"""Words that may mean the day of asking: such a question is compiled anew each time."""
_DECLARED = (
    "These are the declared values, which are public: nothing was counted, and whether any row has them is not said."
)


def read_statement(text: str, schema: Schema) -> asked.Question | Statement:
    """Read a text as one question where it is a plain SELECT, and otherwise as a statement of two halves.

    >>> from dodona.schema.attributes import Boolean, Integer
    >>> schema = Schema.of("stays", Integer("age", 0, 110), Boolean("emergency"), size=200_000)
    >>> text = "SELECT emergency, 100.0 * count(*) / sum(count(*)) OVER () AS share FROM stays GROUP BY emergency"
    >>> statement = read_statement(text, schema)
    >>> [column.name for column in statement.columns], len(statement.parts)
    (['emergency', 'share'], 1)
    """
    clause = PRIVACY_CLAUSE.match(text)
    if clause is not None:
        bare, notes = check_privacy_clause(clause, schema)
        statement = read_statement(bare, schema)
        return replace(statement, text=text, warnings=(*statement.warnings, *notes))
    try:
        return compile_sql(text, schema)
    except InvalidSql as plain:
        from dodona.sql.statement import read_halves  # only what is more than one SELECT needs it

        try:
            return read_halves(text, schema)
        except InvalidSql as fault:
            raise (plain if _is_plain(text) and plain.what not in _READ_FURTHER else fault) from None
        except RecursionError:
            raise InvalidSql(text, 0, "This is nested too deeply.", "Write it in fewer levels.") from None


def read_questions(text: str, schema: Schema) -> tuple[asked.Question, ...]:
    """Return the questions that a text asks of the table."""
    statement = read_statement(text, schema)
    return statement.parts if isinstance(statement, Statement) else (statement,)


def _is_plain(text: str) -> bool:
    """Whether a text is one plain SELECT by its grammar, so that the error of compiling it is the better one."""
    try:
        parse(text)
    except InvalidSql:
        return False
    return True


def compile_sql(text: str, schema: Schema) -> asked.Question:
    """Compile a SQL text to a question about a table; recent results are cached.

    >>> from dodona.schema.attributes import Boolean, Integer
    >>> schema = Schema.of("stays", Integer("age", 0, 110), Boolean("emergency"), size=200_000)
    >>> question = compile_sql("SELECT emergency, count(*) FROM stays WHERE age >= 65 GROUP BY emergency", schema)
    >>> [column.name for column in question.columns], question.query.values
    (['emergency', 'count'], 4)
    """
    if not isinstance(text, str):
        raise InvalidArgument("question", text, "write SQL as a text")
    small = len(text) <= _LONGEST_KEPT and max(schema.domain.shape, default=0) <= _WIDEST_KEPT
    try:
        return _compile_once(text, schema) if small and not CLOCK.search(text) else _compile(text, schema)
    except RecursionError:  # the depth is limited, but the caller's stack may already be deep
        raise InvalidSql(text, 0, "This is nested too deeply.", "Write it in fewer levels.") from None


def _compile(text: str, schema: Schema) -> asked.Question:
    return compile_tree(text, schema, parse(text))


def compile_tree(text: str, schema: Schema, tree: exp.Select, view: RowView | None = None) -> asked.Question:
    """Compile the checked tree of one SELECT over a table; errors point into the text that it came from.

    The view is what FROM stands for, if it was read before.
    """
    scope, within = _scope(text, schema, tree, view)
    meant = tree.args.get("where")
    where = within if meant is None else conjunction(within, compile_condition(scope, meant.this)[0])
    limit = _limit(scope, tree.args.get("limit"), lower=0)
    if limit == 0:  # a program asks for the columns alone: nothing is measured
        where = NOTHING
    elif where == NOTHING:
        scope.warn("No row can meet WHERE: every count and sum is 0.")
    scope = replace(scope, where=where)
    items = [_Item.of(scope, node) for node in tree.expressions]
    distinct = _distinct(scope, tree, items)
    compiled: dict[exp.Expr, CompiledKey] = {}
    keys = _keys(scope, tree, items, compiled)
    blocks = Blocks(where, keys)
    show = SelectContext(scope, keys, compiled, blocks, {})
    columns = _columns(show, items)
    show = replace(show, aliases={column.name.casefold(): column.expression for column in columns})
    filtered = tree.args.get("having")
    kept = None if filtered is None else compile_having(show, filtered.this)
    order = _order(show, tree, columns)
    if not blocks.numbers:
        read = [node for node in (*tree.expressions, tree.args.get("order"), filtered) if node]
        if keys and (distinct or not any(map(has_aggregate, read))):
            scope.warn(_DECLARED)
        elif limit != 0 and not any(map(has_aggregate, read)):
            instead = "Write an aggregate, such as count(*)."
            raise scope.fault(tree.expressions[0], "Nothing is counted or added up.", instead)
        blocks.number(NOTHING)  # no answer depends on the rows: measure nothing, which is free
    for block in blocks.numbers:
        scope.bounded(tree.expressions[0], block.where, *weight_guards(block.weight))
    for key in keys:
        scope.bounded(tree.expressions[0], *(() if isinstance(key, Partition) else (each for _, each in key.branches)))
    values = sum(block.values for block in blocks.numbers)
    if values > MOST_VALUES:
        what = f"This asks for {values} values at once; {MOST_VALUES} are answered."
        raise scope.fault(tree.expressions[0], what, "Group by fewer columns, or by bin(column, width).")
    offset = _limit(scope, tree.args.get("offset"), lower=0) or 0
    return asked.Question(
        text=text,
        query=Query(schema.domain, tuple(blocks.numbers)),
        keys=keys,
        columns=columns,
        having=kept,
        order=order,
        limit=limit,
        offset=offset,
        warnings=tuple(scope.warnings),
        where=where,
        size=None if scope.schema.unit.size == schema.unit.size else scope.schema.unit.size,
    )


_compile_once = lru_cache(maxsize=_KEPT)(_compile)


@dataclass(frozen=True, slots=True)
class _Item:
    """One item of the select list: its alias if any, its expression, and whether that aggregates."""

    alias: str | None
    node: exp.Expr
    aggregates: bool

    @classmethod
    def of(cls, scope: Scope, node: exp.Expr) -> _Item:
        alias, inner = (node.alias, node.this) if isinstance(node, exp.Alias) else (None, node)
        if isinstance(inner, exp.Star) or (isinstance(inner, exp.Column) and isinstance(inner.this, exp.Star)):
            instead = "Write count(*), or name columns in GROUP BY."
            raise scope.fault(node, "`*` would show rows, and rows are never shown.", instead)
        return cls(alias, inner, has_aggregate(inner))


def _scope(text: str, schema: Schema, tree: exp.Select, view: RowView | None) -> tuple[Scope, Predicate]:
    """Return the scope of a statement over one table, and which rows are that table's."""
    origin = tree.args.get("from_")
    ask = f"Write FROM {schema.table}."
    if origin is None:
        raise InvalidSql(text, len(text), "No table is asked.", ask)
    if not tree.expressions:
        raise InvalidSql(text, 0, "Nothing is selected.", "Write SELECT count(*) FROM ... to begin with.")
    table = origin.this
    if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
        raise InvalidSql(text, node_start(origin, text), "This is no table.", ask)
    written = f"{table.db}.{table.name}" if table.db else table.name
    name = find_private(schema, written)
    if name is None and find_public(schema, written) is not None:
        raise InvalidSql(
            text, node_start(table, text), _OF_PUBLIC, f"Write FROM {schema.table} JOIN {written[:60]} ..."
        )
    if name is None:
        raise InvalidSql(text, node_start(table, text), f"There is no table `{written[:60]}`.", ask)
    row_view = view or table_view(schema, name)
    names = (
        (table.alias,)
        if table.alias
        else (name, name.rpartition(".")[2], *(f"{namespace}.{name}" for namespace in DEFAULT_SCHEMAS))
    )
    return Scope(
        text, row_view.schema, frozenset(alias.casefold() for alias in names), elsewhere=schema
    ), row_view.within


def _distinct(scope: Scope, tree: exp.Select, items: list[_Item]) -> bool:
    """Whether the statement asks for the distinct values, which are the declared ones."""
    node = tree.args.get("distinct")
    if node is None:
        return False
    if tree.args.get("group") is not None or any(item.aggregates for item in items):
        raise scope.fault(node, "DISTINCT stands beside an aggregate or GROUP BY.", "Leave DISTINCT out.")
    return True


def _keys(scope: Scope, tree: exp.Select, items: list[_Item], compiled: dict[exp.Expr, CompiledKey]) -> tuple[Key, ...]:
    """Return the GROUP BY keys without duplicates, in an order independent of how they were written."""
    group = tree.args.get("group")
    if tree.args.get("distinct") is not None:
        group = exp.Group(all=True)
    if group is None:
        return ()
    if group.args.get("all"):
        nodes = [item.node for item in items if not item.aggregates and not _is_constant(item.node)]
    else:
        nodes = [_resolve_group(scope, node, items) for node in group.expressions]
    if not nodes and not group.args.get("all"):
        instead = "Name columns after it, or leave it out."
        raise InvalidSql(scope.text, len(scope.text), "GROUP BY names nothing.", instead)
    keys: dict[Key, None] = {}
    groups = 1
    for node in nodes:
        compiled[node] = _compile_key(scope, node)
        key = compiled[node].key
        if key not in keys:
            groups *= key.groups
            keys[key] = None
        if groups > MOST_VALUES:
            what = f"These are {groups} groups; {MOST_VALUES} are answered."
            raise scope.fault(node, what, "Group by fewer columns, or by bin(column, width).")
    names = [key.attribute for key in keys if isinstance(key, Partition)]
    if len(set(names)) < len(names):
        scope.warn("Two keys group the same column: groups that cannot occur are answered too, as 0 and their noise.")
    return tuple(sorted(keys, key=partial(_key_rank, scope.schema.domain))) if len(keys) > 1 else tuple(keys)


def _key_rank(domain: Domain, key: Key) -> tuple[int, str, int, tuple[int, ...]]:
    """Return the sort rank of a key, so that GROUP BY a, b and GROUP BY b, a are the same question."""
    if isinstance(key, Partition):
        return 0, key.attribute, len(key.cuts), key.cuts
    return 1, key_text(key, domain), 0, ()


def _resolve_group(scope: Scope, node: exp.Expr, items: list[_Item]) -> exp.Expr:
    """Return the expression grouped by, resolving an ordinal or alias to the selected item."""
    meant = None
    if isinstance(node, exp.Literal) and not node.is_string:
        meant = items[_ordinal(scope, node, len(items))]
    elif isinstance(node, exp.Column) and node.args.get("table") is None:
        named = node.name.casefold()
        meant = next((item for item in items if item.alias is not None and item.alias.casefold() == named), None)
    if has_aggregate(node) if meant is None else meant.aggregates:
        instead = "Group by columns; write conditions on answers into HAVING."
        raise scope.fault(node, "An aggregate is no key.", instead)
    return node if meant is None else meant.node


def _ordinal(scope: Scope, node: exp.Literal, columns: int) -> int:
    """Return the zero-based position of the column that an ordinal refers to."""
    number = int(node.this) if str(node.this).isdecimal() and len(str(node.this)) < 9 else 0  # noqa: PLR2004
    if not 1 <= number <= columns:
        what = f"There is no column number {str(node.this)[:20]}."
        raise scope.fault(node, what, f"Write 1 to {columns}, or a name.")
    return number - 1


def _columns(show: SelectContext, items: list[_Item]) -> tuple[asked.AnswerColumn, ...]:
    columns: list[asked.AnswerColumn] = []
    seen: dict[str, int] = {}
    for item in items:
        expression = _compile_item(show, item)
        name = item.alias or _column_name(show, item.node, expression)
        seen[name.casefold()] = seen.get(name.casefold(), 0) + 1
        number = seen[name.casefold()]
        kind = show.compiled[item.node].read_as if isinstance(expression, asked.KeyLabel) else "value"
        columns.append(asked.AnswerColumn(name if number == 1 else f"{name}_{number}", expression, kind))
    return tuple(columns)


def _compile_item(show: SelectContext, item: _Item) -> asked.Expression:
    if isinstance(item.node, exp.Literal) and item.node.is_string:
        return asked.LiteralExpression(str(item.node.this))
    if item.aggregates or _is_constant(item.node):
        return compile_value(show, item.node)
    return find_key(show, item.node)


def _is_constant(node: exp.Expr) -> bool:
    return not any(isinstance(part, exp.Column | exp.Star) for part in node.walk())


def _column_name(show: SelectContext, node: exp.Expr, expression: asked.Expression) -> str:
    if isinstance(expression, asked.KeyLabel):
        return _default_key_name(show.scope, node)
    if aggregate_name(node) is None:
        return "value"
    while isinstance(node, exp.Filter | exp.WithinGroup):
        node = node.this
    return show.scope.word(node)


def _default_key_name(scope: Scope, node: exp.Expr) -> str:
    """Return the default column name of a key."""
    while isinstance(node, exp.Paren | exp.Cast):
        node = node.this
    if isinstance(node, exp.Column):
        return (scope.computed(node) or scope.column(node)).name
    if isinstance(node, exp.Binary) and not isinstance(node, exp.Connector):
        return node.sql(normalize_functions="lower")[:_LONGEST_NAME]
    return scope.word(node) if isinstance(node, exp.Func) and not isinstance(node, exp.Case) else "case"


def _order(show: SelectContext, tree: exp.Select, columns: tuple[asked.AnswerColumn, ...]) -> tuple[asked.SortKey, ...]:
    order = tree.args.get("order")
    sort_keys = []
    for ordered in () if order is None else order.expressions:
        node = ordered.this
        if isinstance(node, exp.Literal) and not node.is_string:
            expression = columns[_ordinal(show.scope, node, len(columns))].expression
        elif has_aggregate(node) or isinstance(node, exp.Column | exp.Add | exp.Sub | exp.Mul | exp.Div | exp.Neg):
            expression = compile_value(show, node)
        else:
            expression = find_key(show, node)
        sort_keys.append(asked.SortKey(expression, descending=bool(ordered.args.get("desc"))))
    return tuple(sort_keys)


def _limit(scope: Scope, node: exp.Expr | None, *, lower: int) -> int | None:
    if node is None:
        return None
    written = node.expression
    text = str(written.this) if isinstance(written, exp.Literal) and not written.is_string else ""
    if not text.isdecimal() or len(text) > 10 or not lower <= int(text) <= LARGEST_LIMIT:  # noqa: PLR2004
        raise scope.fault(node, "This is no number of rows.", f"Write a whole number from {lower} to {LARGEST_LIMIT}.")
    return int(text)
