"""Sub-selects by person: `SELECT id, count(*) AS n FROM visits GROUP BY id` as a table of people.

Each aggregate of a person's rows becomes a column with public bounds. What is selected from such a sub-select is a
question about people, of whom each is one row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from sqlglot import exp

from dodona.query.person_table import (
    Aggregate,
    PersonColumn,
    PersonTable,
    copied_column,
    name_people_columns,
    person_column,
    total_bounds,
)
from dodona.query.predicate import EVERYTHING, Predicate, among_mask, conjunction, disjunction
from dodona.query.query import ONE, Block, CaseWeight, ConstantWeight, PeopleWeight, Query
from dodona.query.question import Question, Total
from dodona.schema.partition import Partition
from dodona.schema.schema import Domain, Schema, Unit
from dodona.sql.aggregate import Blocks, aggregate_name, compile_aggregate, is_numeric, public_range, scalar_weight
from dodona.sql.condition import compile_condition, compile_scalar
from dodona.sql.scalar import Subject, constant_value, locate_mismatch
from dodona.sql.scope import Scope, change_parts
from dodona.sql.tables import list_parts

KNOWN = "known"
"""Marks a truth that is false, and not NULL, about people without the rows that it is of."""
_Clip = Callable[[Fraction, Fraction], tuple[Fraction, Fraction]]
_EXTREMES: dict[str, Aggregate] = {"min": "least", "max": "greatest", "anyvalue": "least"}
_LOGICAL: dict[type[exp.Expr], Aggregate] = {exp.LogicalOr: "greatest", exp.LogicalAnd: "least"}
_DIFFERENT = (
    "Different values in one person's rows are not counted.",
    "Write max(CASE WHEN column = 'value' THEN 1 ELSE 0 END) for each value in the inner SELECT, and add these up.",
)
_AVERAGE = (
    "An average of one person's rows is not a column of people.",
    "Write sum(x) AS total and count(x) AS n in the inner SELECT, and sum(total) / sum(n) in the outer one.",
)


@dataclass(frozen=True, slots=True)
class PersonRows:
    """The rows of a sub-select by person: expressions over the columns of a table of people."""

    schema: Schema
    """The table of people, as analysts may ask it."""
    table: PersonTable
    columns: Mapping[str, exp.Expr]
    """By name, in lower case."""
    where: tuple[exp.Expr, ...]
    """The conditions of HAVING, over these columns."""


class PersonReader:
    """Reads the parts of a sub-select by person: expressions over the rows of one person."""

    def __init__(self, scope: Scope, aggregated: Predicate = EVERYTHING, single: Collection[str] = ()) -> None:
        """Take the scope of the rows, which of a person aggregates are over, and columns that are the same in all."""
        self._scope, self._cap, self._own, self._single = scope, scope.schema.unit.rows, aggregated, single
        self.columns: dict[str, PersonColumn] = {}

    def __call__(self, node: exp.Expr) -> exp.Expr:
        """Return an expression with each aggregate replaced by a column of people."""
        outer = _period_of_extreme(node)
        if outer is not None:
            return self(outer)
        clipped = self._clip_column(node)
        if clipped is not None:
            return clipped
        if type(node) in _LOGICAL:
            true, false = compile_condition(self._scope, node.this)
            weight = CaseWeight(((conjunction(self._own, true), ConstantWeight(1)),), ConstantWeight(0))
            known = conjunction(self._own, disjunction(true, false))  # NULL is skipped, as in all aggregates
            where = EVERYTHING if node.meta.get(KNOWN) else known
            column = self._named(node, person_column(_LOGICAL[type(node)], where, weight, bounds=(0, 1)))
            return exp.EQ(this=column, expression=exp.Literal.number(1))
        if _aggregates(node):
            return self._named(node, self._column(node))
        if isinstance(node, exp.Column):
            what = f"`{node.name[:60]}` may differ between the rows of a person."
            raise self._scope.fault(
                node, what, f"Write any_value({node.name[:60]}), min(...), max(...) or an aggregate."
            )
        return change_parts(node, self)

    def _named(self, node: exp.Expr, column: PersonColumn) -> exp.Column:
        self.columns[column.attribute.name] = column
        identifier = exp.to_identifier(column.attribute.name)
        identifier.meta.update({"start": node.meta.get("start", 0)} | node.meta)
        return exp.Column(this=identifier)

    def _column(self, node: exp.Expr, clip: _Clip | None = None) -> PersonColumn:
        """Return the column of an aggregate; `clip` narrows the bounds of a sum."""
        inner: exp.Expr = node
        alike = isinstance(inner, exp.AnyValue | exp.Min | exp.Max) and isinstance(inner.this, exp.Column)
        where = EVERYTHING if alike and inner.this.name in self._single else self._own
        if isinstance(inner, exp.Filter):
            where, inner = conjunction(where, compile_condition(self._scope, inner.expression.this)[0]), inner.this
        name = _name(inner)
        if name in _EXTREMES:
            return self._extreme(inner, name, where)
        blocks = Blocks(where, ())
        total = compile_aggregate(self._scope, inner, blocks) if name in {"count", "countif", "sum"} else None
        if not isinstance(total, Total):
            what = f"`{self._scope.word(inner)}` of one person's rows is not a column of people."
            instead = "Write count, sum, min, max, any_value, bool_or or bool_and."
            known = {"avg": _AVERAGE, "count": _DIFFERENT}
            raise self._scope.fault(node, *known.get(name, (what, instead)))
        block = list(blocks.numbers)[total.block]
        if isinstance(block.weight, PeopleWeight):
            raise self._scope.fault(node, "Each group is one person already.", "Write count(*) in the outer SELECT.")
        if name != "sum":
            least = 1 if block.where == EVERYTHING else 0  # everybody in the table has a row
            return person_column("count", block.where, bounds=(least, self._cap))
        present = locate_mismatch(self._scope, inner, compile_scalar(self._scope, inner.this).present)
        bounds = total_bounds(block.weight, self._cap)
        if clip is not None:
            low, high = clip(bounds[0] * block.unit, bounds[1] * block.unit)
            bounds = math.floor(low / block.unit), math.floor(high / block.unit)
        covered = conjunction(block.where, present)
        always = covered == EVERYTHING
        return person_column("sum", covered, block.weight, unit=block.unit, bounds=bounds, present=always)

    def _extreme(self, node: exp.Expr, name: str, where: Predicate) -> PersonColumn:
        leaf = compile_scalar(self._scope, node.this)
        subject = leaf.otherwise
        if leaf.branches or not isinstance(subject, Subject) or not subject.plain:
            if not all(map(is_numeric, leaf.leaves)):
                what = f"`{self._scope.word(node)}` of a person is of a column alone, or of numbers."
                raise self._scope.fault(node, what, "Write it of a column, with FILTER or WHERE.")
            covered = conjunction(where, locate_mismatch(self._scope, node, leaf.present))
            listed = locate_mismatch(self._scope, node, lambda: list_parts(leaf))
            weight, unit = locate_mismatch(self._scope, node, lambda: scalar_weight(listed))
            span = public_range(listed, covered)
            bounds = math.floor(span.lower / unit), math.ceil(span.upper / unit)
            return person_column(_EXTREMES[name], covered, weight, unit=unit, bounds=bounds)
        if name != "anyvalue" and subject.attribute.kind in {"category", "boolean"}:
            what = f"The values of `{subject.attribute.name}` have no order."
            raise self._scope.fault(node, what, "Write any_value(...), or bool_or of a condition.")
        return copied_column(subject.attribute, _EXTREMES[name], where)

    def _clip_column(self, node: exp.Expr) -> exp.Column | None:
        """Return the column of least(sum(x), number), greatest(sum(x), number), or both, with narrower bounds."""
        limits: list[tuple[type[exp.Expr], Fraction]] = []
        inner = node
        while isinstance(inner, exp.Least | exp.Greatest):
            parts = [inner.this, *inner.expressions]
            numbers = [_constant(self._scope, part) for part in parts]
            rest = [part for part, number in zip(parts, numbers, strict=True) if number is None]
            if len(rest) != 1:
                return None
            limits += [(type(inner), number) for number in numbers if number is not None]
            inner = rest[0]
        if not limits or _name(inner) != "sum":
            return None

        def narrow(low: Fraction, high: Fraction) -> tuple[Fraction, Fraction]:
            for kind, number in reversed(limits):
                if kind is exp.Least:
                    low, high = min(low, number), min(high, number)
                else:
                    low, high = max(low, number), max(high, number)
            return low, high

        return self._named(node, self._column(inner, narrow))


def read_person_rows(  # noqa: PLR0913, PLR0917  what a sub-select by person is made of
    scope: Scope,
    select: exp.Select,
    where: Predicate,
    aggregated: Predicate,
    expand: Callable[[exp.Expr], exp.Expr],
    single: Collection[str],
) -> PersonRows | None:
    """Return the table of people that a SELECT with GROUP BY id stands for; None if it does not group by the id.

    People with a row in `where` are its rows; what is aggregated are their rows in `own`. `expand` gives an expression
    over the table's columns. `single` names the columns that are the same in all rows of
    a person, as they come from a table of which one row counts: grouping by these too makes no more groups.
    """
    group, person = select.args.get("group"), scope.schema.unit.id
    if group is None or person is None:
        return None
    items = {item.alias.casefold(): item.this for item in select.expressions if isinstance(item, exp.Alias)}
    keys = [expand(_group_expression(scope, key, select, items)) for key in group.expressions]
    mine = [key for key in keys if isinstance(key, exp.Column) and scope.person(key)]
    if not mine:
        return None
    for key, node in zip(keys, group.expressions, strict=True):
        if key not in mine and not all(column.name in single for column in key.find_all(exp.Column)):
            what = "One person may be in several of these groups."
            instead = (
                f"Write count(DISTINCT {person}) with GROUP BY for the people in each group; or group by {person} "
                "alone, and write any_value(...) for what is the same in all rows of a person."
            )
            raise scope.fault(node, what, instead)
    read = PersonReader(scope, aggregated, single)
    columns: dict[str, exp.Expr] = {}
    for item in select.expressions:
        inner = expand(item.this if isinstance(item, exp.Alias) else item)
        name = item.alias if isinstance(item, exp.Alias) else _default_name(inner)
        columns[name.casefold()] = exp.column(person) if inner in mine else read(_of_person(inner, keys))
    having = select.args.get("having")
    conditions = () if having is None else (read(_of_person(expand(_with_aliases(having.this, items)), keys)),)
    table = PersonTable(where, tuple(read.columns.values()))
    unit = scope.schema.unit
    each = Unit(neighbours=unit.neighbours, size=unit.size, id=person, rows=1)
    schema = Schema(table=scope.schema.table, domain=Domain(table.domain.attributes), unit=each)
    return PersonRows(schema, table, columns, conditions)


def _of_person(node: exp.Expr, keys: Sequence[exp.Expr]) -> exp.Expr:
    """Return an expression with any_value of the columns of each key, which are the same in all rows of a person."""
    expression = node.copy()
    for part in list(expression.walk(prune=lambda branch: branch in keys or _aggregates(branch))):
        if part in keys:
            for column in list(part.find_all(exp.Column)):
                held = exp.AnyValue(this=column.copy())
                if column is expression:
                    return held
                column.replace(held)
    return expression


def _group_expression(scope: Scope, key: exp.Expr, select: exp.Select, items: Mapping[str, exp.Expr]) -> exp.Expr:
    """Return what an item of GROUP BY stands for: a column of the select list by its number or alias, or itself."""
    if isinstance(key, exp.Literal) and not key.is_string:
        if not str(key.this).isdecimal() or not 1 <= int(key.this) <= len(select.expressions):
            what = f"There is no column number {str(key.this)[:20]}."
            raise scope.fault(key, what, f"Write 1 to {len(select.expressions)}, or a name.")
        chosen: exp.Expr = select.expressions[int(key.this) - 1]
        return chosen.unalias()
    return items.get(key.name.casefold(), key) if isinstance(key, exp.Column) else key


def about_people(question: Question, people: PersonRows, rows: Schema) -> Question:
    """Return a question that was compiled over a table of people, as one about the people in the rows.

    A block names only the columns that it needs; one that needs none counts people, as count(DISTINCT id) does.
    """
    table, size = people.table, people.schema.unit.size
    blocks = tuple(_about(block, table) for block in question.query.blocks)
    shown = [question.where]
    for key in question.keys:
        attribute = table.domain[key.attribute] if isinstance(key, Partition) else None
        if attribute is not None and attribute.outside_code is not None:  # no person's aggregate is outside
            shown.append(among_mask(attribute, ((1 << attribute.cells) - 1) & ~(1 << attribute.outside_code)))
    warnings = tuple(map(name_people_columns, question.warnings))
    rewritten = replace(question, query=Query(rows.domain, blocks), where=conjunction(*shown), warnings=warnings)
    return rewritten if size == rows.unit.size else replace(rewritten, size=size)


def _about(block: Block, table: PersonTable) -> Block:
    base = replace(block, weight=ONE) if isinstance(block.weight, PeopleWeight) else block
    if not base.attributes and base.where == EVERYTHING and base.weight == ONE and not base.keys:
        return Block(table.where, (), PeopleWeight())
    return replace(base, table=table.part(base.attributes))


def _period_of_extreme(node: exp.Expr) -> exp.Expr | None:
    """Return the period of the least time, as min(date_trunc('month', d)) means; None if a node is no such extreme."""
    period = node.this if isinstance(node, exp.Min | exp.Max) else None
    if not isinstance(period, exp.DateTrunc | exp.TimestampTrunc) or not isinstance(period.this, exp.Column):
        return None
    truncated = period.copy()
    truncated.set("this", type(node)(this=period.this.copy()))
    return truncated


def _aggregates(node: exp.Expr) -> bool:
    return aggregate_name(node) is not None or _name(node) in _EXTREMES


def _name(node: exp.Expr) -> str:
    if isinstance(node, exp.Filter):
        return _name(node.this)
    if isinstance(node, exp.AnyValue):
        return "anyvalue"
    return aggregate_name(node) or ""


def _constant(scope: Scope, node: exp.Expr) -> Fraction | None:
    return None if node.find(exp.Column, exp.AggFunc) is not None else constant_value(compile_scalar(scope, node))


def _default_name(node: exp.Expr) -> str:
    return (
        node.name
        if isinstance(node, exp.Column)
        else node.sql_name().lower()
        if isinstance(node, exp.Func)
        else "value"
    )


def _with_aliases(node: exp.Expr, items: Mapping[str, exp.Expr]) -> exp.Expr:
    """Return a condition of HAVING with the names of the select list replaced by what they stand for."""
    return node.copy().transform(
        lambda part: (
            exp.Paren(this=items[part.name.casefold()].copy())
            if isinstance(part, exp.Column) and part.args.get("table") is None and part.name.casefold() in items
            else part
        )
    )
