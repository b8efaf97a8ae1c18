"""Compiling: from the text of one SELECT to a question. Only the text and the schema are looked at."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from dodona.domain.partition import Partition
from dodona.domain.schema import Schema
from dodona.errors import InvalidArgument
from dodona.query.expression import Expression, KeyOf, Literal
from dodona.query.predicate import EVERYTHING, NOTHING
from dodona.query.query import MOST_VALUES, Key, Query
from dodona.query.question import Column, Order, Question
from dodona.sql.aggregate import Blocks, name_of
from dodona.sql.condition import condition
from dodona.sql.faults import InvalidSql
from dodona.sql.key import called, key, rank, read_as
from dodona.sql.parse import parse
from dodona.sql.scope import Scope
from dodona.sql.showing import Show, has_aggregate, having, shown_key, value
from dodona.sql.total import guards

LARGEST_LIMIT = 1 << 31
_DECLARED = (
    "These are the declared values, which are public: nothing was counted, and whether any row has them is not said."
)


def compile_sql(text: str, schema: Schema) -> Question:
    """Return the question that a text asks of a table.

    >>> from dodona.domain.attribute import Boolean, Integer
    >>> schema = Schema.of("stays", Integer("age", 0, 110), Boolean("emergency"), size=200_000)
    >>> question = compile_sql("SELECT emergency, count(*) FROM stays WHERE age >= 65 GROUP BY emergency", schema)
    >>> [column.name for column in question.columns], question.query.values
    (['emergency', 'count'], 4)
    """
    if not isinstance(text, str):
        raise InvalidArgument("question", text, "write SQL as a text")
    try:
        return _compiled(text, schema)
    except RecursionError:  # the depth is limited, but the stack may have been deep already
        raise InvalidSql(text, 0, "This is nested too deeply.", "Write it in fewer levels.") from None


def _compiled(text: str, schema: Schema) -> Question:
    tree = parse(text)
    scope = _scope(text, schema, tree)
    meant = tree.args.get("where")
    where = EVERYTHING if meant is None else condition(scope, meant.this)[0]
    if where == NOTHING:
        scope.warn("No row can meet WHERE: every count and sum is 0.")
    items = [_Item.of(scope, node) for node in tree.expressions]
    distinct = _distinct(scope, tree, items)
    keys = _keys(scope, tree, items)
    blocks = Blocks(where, keys)
    columns = _columns(Show(scope, keys, blocks, {}), items)
    show = Show(scope, keys, blocks, {column.name.casefold(): column.expression for column in columns})
    filtered = tree.args.get("having")
    kept = None if filtered is None else having(show, filtered.this)
    order = _order(show, tree, columns)
    if not blocks.found:
        read = [node for node in (*tree.expressions, tree.args.get("order"), filtered) if node]
        if keys and (distinct or not any(map(has_aggregate, read))):
            scope.warn(_DECLARED)
        elif not any(map(has_aggregate, read)):
            raise scope.fault(
                tree.expressions[0], "Nothing is counted or added up.", "Write an aggregate, such as count(*)."
            )
        blocks.number(NOTHING)  # no answer depends on the rows: what is asked of the table is nothing, which is free
    for block in blocks.found:
        scope.bounded(tree.expressions[0], block.where, *guards(block.weight))
    for one in keys:
        scope.bounded(tree.expressions[0], *(() if isinstance(one, Partition) else (each for _, each in one.branches)))
    values = sum(block.values for block in blocks.found)
    if values > MOST_VALUES:
        what = f"This asks for {values} values at once; {MOST_VALUES} are answered."
        raise scope.fault(tree.expressions[0], what, "Group by fewer columns, or by bin(column, width).")
    return Question(
        text=text,
        query=Query(schema.domain, tuple(blocks.found)),
        keys=keys,
        columns=columns,
        having=kept,
        order=order,
        limit=_limit(scope, tree.args.get("limit"), lower=1),
        offset=_limit(scope, tree.args.get("offset"), lower=0) or 0,
        warnings=tuple(scope.warnings),
        where=where,
    )


@dataclass(frozen=True, slots=True)
class _Item:
    """One thing that is selected: its name, where one was written, and its expression."""

    alias: str | None
    node: exp.Expr

    @classmethod
    def of(cls, scope: Scope, node: exp.Expr) -> _Item:
        item = cls(node.alias, node.this) if isinstance(node, exp.Alias) else cls(None, node)
        if isinstance(item.node, exp.Star) or (
            isinstance(item.node, exp.Column) and isinstance(item.node.this, exp.Star)
        ):
            raise scope.fault(
                node, "`*` would show rows, and rows are never shown.", "Write count(*), or name columns in GROUP BY."
            )
        return item


def _scope(text: str, schema: Schema, tree: exp.Select) -> Scope:
    """Return the scope of a statement that asks the one table there is."""
    origin = tree.args.get("from_")
    ask = f"Write FROM {schema.table}."
    if origin is None:
        raise InvalidSql(text, len(text), "No table is asked.", ask)
    if not tree.expressions:
        raise InvalidSql(text, 0, "Nothing is selected.", "Write SELECT count(*) FROM ... to begin with.")
    table = origin.this
    full = schema.table.casefold()
    scope = Scope(text, schema, frozenset((full, full.rpartition(".")[2])))
    if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
        raise scope.fault(origin, "This is no table.", ask)
    written = f"{table.db}.{table.name}" if table.db else table.name
    if written.casefold() not in scope.tables:
        raise scope.fault(table, f"There is no table `{written[:60]}`.", ask)
    return Scope(text, schema, frozenset((table.alias.casefold(),))) if table.alias else scope


def _distinct(scope: Scope, tree: exp.Select, items: list[_Item]) -> bool:
    """Whether the statement asks which values there are: those that are declared, each once."""
    node = tree.args.get("distinct")
    if node is None:
        return False
    if tree.args.get("group") is not None or any(has_aggregate(item.node) for item in items):
        raise scope.fault(node, "DISTINCT stands beside an aggregate or GROUP BY.", "Leave DISTINCT out.")
    return True


def _keys(scope: Scope, tree: exp.Select, items: list[_Item]) -> tuple[Key, ...]:
    """Return what is grouped by, each once, in an order that does not depend on how it was written."""
    group = tree.args.get("group")
    if tree.args.get("distinct") is not None:
        group = exp.Group(all=True)
    if group is None:
        return ()
    if group.args.get("all"):
        nodes = [item.node for item in items if not has_aggregate(item.node) and not _is_constant(item.node)]
    else:
        nodes = [_grouped(scope, node, items) for node in group.expressions]
    if not nodes and not group.args.get("all"):
        raise InvalidSql(
            scope.text, len(scope.text), "GROUP BY names nothing.", "Name columns after it, or leave it out."
        )
    found: dict[Key, None] = {}
    groups = 1
    for node in nodes:
        one = key(scope, node)
        if one not in found:
            groups *= one.groups
            found[one] = None
        if groups > MOST_VALUES:
            what = f"These are {groups} groups; {MOST_VALUES} are answered."
            raise scope.fault(node, what, "Group by fewer columns, or by bin(column, width).")
    names = [one.attribute for one in found if isinstance(one, Partition)]
    if len(set(names)) < len(names):
        scope.warn("Two keys group the same column: groups that cannot occur are answered too, as 0 and their noise.")
    return tuple(sorted(found, key=rank))


def _grouped(scope: Scope, node: exp.Expr, items: list[_Item]) -> exp.Expr:
    """Return the expression that is grouped by: an ordinal or an alias stands for what is selected."""
    if isinstance(node, exp.Literal) and not node.is_string:
        return _no_aggregate(scope, node, _ordinal(scope, node, items).node)
    if isinstance(node, exp.Column) and node.args.get("table") is None:
        for item in items:
            if item.alias is not None and item.alias.casefold() == node.name.casefold():
                return _no_aggregate(scope, node, item.node)
    return _no_aggregate(scope, node, node)


def _no_aggregate(scope: Scope, place: exp.Expr, node: exp.Expr) -> exp.Expr:
    if has_aggregate(node):
        raise scope.fault(
            place, "An aggregate is no key.", "Group by columns; write conditions on answers into HAVING."
        )
    return node


def _ordinal(scope: Scope, node: exp.Literal, items: list[_Item]) -> _Item:
    number = int(node.this) if str(node.this).isdecimal() and len(str(node.this)) < 9 else 0  # noqa: PLR2004
    if not 1 <= number <= len(items):
        raise scope.fault(
            node, f"There is no column number {str(node.this)[:20]}.", f"Write 1 to {len(items)}, or a name."
        )
    return items[number - 1]


def _columns(show: Show, items: list[_Item]) -> tuple[Column, ...]:
    found: list[Column] = []
    seen: dict[str, int] = {}
    for item in items:
        expression = _shown(show, item.node)
        name = item.alias or _name(show, item.node, expression)
        seen[name.casefold()] = seen.get(name.casefold(), 0) + 1
        number = seen[name.casefold()]
        kind = read_as(show.scope, item.node) if isinstance(expression, KeyOf) else "value"
        found.append(Column(name if number == 1 else f"{name}_{number}", expression, kind))
    return tuple(found)


def _shown(show: Show, node: exp.Expr) -> Expression:
    if isinstance(node, exp.Literal) and node.is_string:
        return Literal(str(node.this))
    if has_aggregate(node) or _is_constant(node):
        return value(show, node)
    return shown_key(show, node)


def _is_constant(node: exp.Expr) -> bool:
    return not any(isinstance(part, exp.Column | exp.Star) for part in node.walk())


def _name(show: Show, node: exp.Expr, expression: Expression) -> str:
    if isinstance(expression, KeyOf):
        return called(show.scope, node)
    if name_of(node) is None:
        return "value"
    while isinstance(node, exp.Filter | exp.WithinGroup):
        node = node.this
    return show.scope.word(node)


def _order(show: Show, tree: exp.Select, columns: tuple[Column, ...]) -> tuple[Order, ...]:
    order = tree.args.get("order")
    found = []
    for one in () if order is None else order.expressions:
        node = one.this
        if isinstance(node, exp.Literal) and not node.is_string:
            items = [_Item(column.name, node) for column in columns]
            expression = columns[items.index(_ordinal(show.scope, node, items))].expression
        elif has_aggregate(node) or isinstance(node, exp.Column | exp.Add | exp.Sub | exp.Mul | exp.Div | exp.Neg):
            expression = value(show, node)
        else:
            expression = shown_key(show, node)
        found.append(Order(expression, descending=bool(one.args.get("desc"))))
    return tuple(found)


def _limit(scope: Scope, node: exp.Expr | None, *, lower: int) -> int | None:
    if node is None:
        return None
    written = node.expression
    text = str(written.this) if isinstance(written, exp.Literal) and not written.is_string else ""
    if not text.isdecimal() or len(text) > 10 or not lower <= int(text) <= LARGEST_LIMIT:  # noqa: PLR2004
        raise scope.fault(node, "This is no number of rows.", f"Write a whole number from {lower} to {LARGEST_LIMIT}.")
    return int(text)
