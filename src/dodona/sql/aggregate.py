"""Compile aggregates and GROUP BY keys: the blocks to measure, and the expressions to compute from them.

Covers count, sum, avg, variances and quantiles. A block shared by several aggregates is measured once. All groups are
public: declared values or bins, parts of dates, or labels of a CASE.
"""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache

from sqlglot import exp

from dodona.numbers import format_decimal
from dodona.query import query as queries
from dodona.query.predicate import NOTHING, And, Predicate, allowed_codes, complement, conjunction, disjunction
from dodona.query.question import Expression, Mean, PublicValue, Quantile, ReadAs, Spread, Total, Variation
from dodona.schema.attributes import MISSING, OUTSIDE, Attribute, Boolean, Category, Date, numeric_grid
from dodona.schema.partition import Partition
from dodona.sql.condition import compile_condition, compile_scalar
from dodona.sql.parse import DISTINCT_REFUSAL
from dodona.sql.scalar import (
    Constant,
    Leaf,
    Scalar,
    Subject,
    compare_leaf,
    constant_number,
    constant_value,
    date_part_values,
    date_partition,
    null_predicate,
)
from dodona.sql.scope import InvalidSql, Scope

# --- Quantiles: a tree of counts over a column, from coarse groups to fine ones. ---


FAN_OUT = 16
"""The number of groups of one level that form a group of the level above."""
FINEST = 4_096
"""The maximum number of groups at the finest level, which limits the resolution for columns with more values."""


def quantile_levels(attribute: Attribute) -> tuple[Partition, ...]:
    """Return the levels of the tree; each group of one level consists of whole groups of the next.

    >>> from dodona.schema.attributes import Integer
    >>> [len(level.cuts) for level in quantile_levels(Integer("age", 0, 110))]
    [7, 111]
    """
    width = -(-attribute.size // FINEST)
    found = [Partition.every(attribute, width)]
    while len(found[0].cuts) > FAN_OUT:
        found.insert(0, Partition.cut(attribute, found[0].cuts[::FAN_OUT]))
    return tuple(found)


# --- Summands: the weight of a scalar in integer steps, the value of a step, and the public range. ---


_MOST_NARROWED = 32  # branches whose complements are computed to narrow the range of the last one


@dataclass(frozen=True, slots=True)
class GridLine:
    """A leaf on its grid: first + step·code of a column, or a constant."""

    first: Fraction
    step: Fraction = Fraction(0)
    attribute: Attribute | None = None


@dataclass(frozen=True, slots=True)
class PublicRange:
    """Public lower and upper bounds on a value, and the grid point nearest to the middle."""

    lower: Fraction
    upper: Fraction
    centre: Fraction


def grid_line(leaf: Leaf) -> GridLine | None:
    """Return a leaf on its grid; NULL is 0, as it adds nothing. None if it is not a number."""
    if isinstance(leaf, Subject):
        found = numeric_grid(leaf.attribute)
        if found is None or leaf.part is not None:
            return None
        return GridLine(leaf.shift + leaf.scale * found[0], leaf.scale * found[1], leaf.attribute)
    if leaf is None:
        return GridLine(Fraction(0))
    constant = constant_number(leaf)
    return None if constant is None else GridLine(constant)


def scalar_weight(scalar: Scalar, *, centre: Fraction = Fraction(0), power: int = 1) -> tuple[queries.Weight, Fraction]:
    """Return (value - centre)^power in integer steps, 0 if NULL, and the value of a step."""
    lines = [(leaf, grid_line(leaf) or GridLine(Fraction(0))) for leaf in scalar.leaves]
    spans = [span for leaf, one in lines if leaf is not None for span in (one.first - centre, one.step)]
    unit = _common_unit(spans)

    def weighed(leaf: Leaf, one: GridLine) -> queries.Weight:
        if leaf is None:
            return queries.ConstantWeight(0)
        offset = int((one.first - centre) / unit)
        if one.attribute is None:
            return queries.ConstantWeight(offset**power)
        return queries.ValueWeight(one.attribute.name, one.attribute.size, offset, int(one.step / unit), power)

    weights = [weighed(*each) for each in lines]
    branches = tuple((guard, weight) for (guard, _), weight in zip(scalar.branches, weights, strict=False))
    return (queries.CaseWeight(branches, weights[-1]) if branches else weights[-1]), unit**power


def public_range(scalar: Scalar, where: Predicate) -> PublicRange:
    """Return the public range of a scalar over the selected rows."""
    found = _leaf_ranges(scalar, where) or _leaf_ranges(scalar, And(()))
    if not found:
        return PublicRange(Fraction(0), Fraction(0), Fraction(0))
    lower, upper = min(low for low, _, _ in found), max(high for _, high, _ in found)
    spans = [span for low, _, step in found for span in (low - lower, step)]
    unit = _common_unit(spans)
    return PublicRange(lower, upper, lower + round((upper - lower) / 2 / unit) * unit)


def weight_guards(weight: queries.Weight) -> tuple[Predicate, ...]:
    """Return the conditions that a weight depends on."""
    return tuple(guard for guard, _ in weight.branches) if isinstance(weight, queries.CaseWeight) else ()


def _leaf_ranges(scalar: Scalar, where: Predicate) -> list[tuple[Fraction, Fraction, Fraction]]:
    """Return the minimum, the maximum and the step of each leaf that may occur."""
    guards = [guard for guard, _ in scalar.branches]
    others = [complement(guard) for guard in guards] if len(guards) <= _MOST_NARROWED else []
    found = []
    for guard, leaf in (*scalar.branches, (conjunction(*others), scalar.otherwise)):
        meant = conjunction(where, guard)
        one = grid_line(leaf)
        if leaf is None or one is None or meant == NOTHING:
            continue
        if one.attribute is None:
            found.append((one.first, one.first, Fraction(0)))
            continue
        codes = allowed_codes(meant, one.attribute) & ((1 << one.attribute.size) - 1)
        if codes:
            low, high = (codes & -codes).bit_length() - 1, codes.bit_length() - 1
            ends = sorted((one.first + one.step * low, one.first + one.step * high))
            found.append((ends[0], ends[1], one.step))
    return found


def _common_unit(spans: list[Fraction]) -> Fraction:
    """Return the largest unit that divides all spans; 1 if there is none."""
    denominator = math.lcm(*(span.denominator for span in spans))
    numerator = math.gcd(*(int(span * denominator) for span in spans))
    return Fraction(numerator, denominator) if numerator else Fraction(1)


# --- Aggregates: the blocks measured for each, and the expressions shown. ---


_SPREADS: dict[str, Spread] = {
    "var": Spread.SAMPLE_VARIANCE,
    "variance": Spread.SAMPLE_VARIANCE,
    "variancepop": Spread.POPULATION_VARIANCE,
    "std": Spread.SAMPLE_DEVIATION,
    "stddev": Spread.SAMPLE_DEVIATION,
    "stddevsamp": Spread.SAMPLE_DEVIATION,
    "stddevpop": Spread.POPULATION_DEVIATION,
}
_QUANTILES = {"quantile", "approxquantile", "percentilecont", "percentiledisc"}
_SYNONYMS = {
    "mean": "avg",
    "count_if": "countif",
    "quantile_cont": "quantile",
    "quantile_disc": "quantile",
    "percentile": "quantile",
    "approx_percentile": "quantile",
    "percentile_approx": "quantile",
}
_NAMES = {"count", "countif", "sum", "avg", "median", "min", "max", *_SPREADS, *_QUANTILES}
_EXTREMES = {"min": Fraction(1, 100), "max": Fraction(99, 100)}
_HALF = Fraction(1, 2)


@dataclass(frozen=True, slots=True)
class Blocks:
    """The blocks of a statement: one for each measured quantity, however often it is shown."""

    where: Predicate
    keys: tuple[queries.Key, ...]
    found: dict[queries.Block, int] = field(default_factory=dict)

    def number(
        self,
        where: Predicate,
        weight: queries.Weight = queries.ONE,
        unit: Fraction = Fraction(1),
        further: tuple[queries.Key, ...] = (),
    ) -> int:
        """Return the number of a block, adding it if it is new."""
        return self.found.setdefault(queries.Block(where, (*self.keys, *further), weight, unit), len(self.found))

    def forget(self, after: int) -> None:
        """Drop all but the first `after` blocks: those added since are not needed."""
        for block in list(self.found)[after:]:
            del self.found[block]


def aggregate_name(node: exp.Expr) -> str | None:
    """Return the name of an aggregate function; None if the node is not one."""
    if isinstance(node, exp.Filter | exp.WithinGroup):
        return aggregate_name(node.this)
    name = node.name.lower() if isinstance(node, exp.Anonymous) else type(node).__name__.lower()
    name = _SYNONYMS.get(name, name)
    return name if name in _NAMES and isinstance(node, exp.Func) else None


@dataclass(frozen=True, slots=True)
class _Call:
    """One aggregate call: its position, its name, and the rows it covers."""

    scope: Scope
    node: exp.Expr
    name: str
    where: Predicate
    blocks: Blocks

    @property
    def written(self) -> str:
        """The name as written."""
        return self.scope.word(self.node)

    def fault(self, what: str, instead: str) -> InvalidSql:
        """Return an error that points at the call."""
        return self.scope.fault(self.node, what, instead)


def compile_aggregate(scope: Scope, node: exp.Expr, blocks: Blocks) -> Expression:
    """Compile an aggregate to an expression, adding the blocks that it needs."""
    where, ordered = blocks.where, None
    inner = node
    if isinstance(inner, exp.Filter):
        where = conjunction(where, compile_condition(scope, inner.expression.this)[0])
        inner = inner.this
    if isinstance(inner, exp.WithinGroup):
        inner, ordered = inner.this, inner.expression
    call = _Call(scope, inner, aggregate_name(inner) or "", where, blocks)
    arguments = _arguments(inner) if ordered is None else _within_group_arguments(call, ordered)
    if call.name == "count" and len(arguments) == 1 and isinstance(arguments[0], exp.Star):
        return Total(blocks.number(where))
    if call.name == "count" and len(arguments) == 1 and isinstance(arguments[0], exp.Distinct):
        return Total(_people_block(call, arguments[0]))
    wanted = ("column", "part") if call.name in _QUANTILES else ("column",)
    if len(arguments) != len(wanted) or any(isinstance(part, exp.Star) for part in arguments):
        what = f"`{call.written}` is written with other arguments here."
        raise call.fault(what, f"Write {call.written}({', '.join(wanted)}).")
    if call.name == "countif":
        return Total(blocks.number(conjunction(where, compile_condition(scope, arguments[0])[0])))
    value = compile_scalar(scope, arguments[0])
    if call.name == "count":
        return Total(blocks.number(conjunction(where, value.present())))
    if call.name in {*_QUANTILES, *_EXTREMES, "median"}:
        return _quantile(call, value, _quantile_level(call, arguments))
    return _sum_mean_or_spread(call, value)


def _people_block(call: _Call, distinct: exp.Distinct) -> int:
    """Return the block that counts each person once, the only use of DISTINCT."""
    if not call.scope.person(distinct.expressions[0]):
        raise call.scope.fault(distinct, *DISTINCT_REFUSAL)
    return call.blocks.number(call.where, queries.PeopleWeight())


def _arguments(call: exp.Expr) -> list[exp.Expr]:
    if isinstance(call, exp.Anonymous):
        return list(call.expressions)
    parts = [call.args.get(name) for name in ("this", "quantile", "expression")]
    return [part for part in parts if isinstance(part, exp.Expr)]


def _within_group_arguments(call: _Call, ordered: exp.Expr) -> list[exp.Expr]:
    """Return the arguments of percentile_cont(part) WITHIN GROUP (ORDER BY column), in the order of quantile()."""
    columns, arguments = ordered.expressions, _arguments(call.node)
    if call.name not in {"percentilecont", "percentiledisc"} or len(columns) != 1 or len(arguments) != 1:
        raise call.fault("WITHIN GROUP is not known here.", "Write quantile(column, part).")
    if columns[0].args.get("desc"):
        raise call.scope.fault(columns[0], "The order is downward.", "Leave DESC out, and write 1 minus the part.")
    return [columns[0].this, arguments[0]]


def _quantile_level(call: _Call, arguments: list[exp.Expr]) -> Fraction:
    """Return the level of a quantile."""
    if call.name in _EXTREMES:
        level = _EXTREMES[call.name]
        call.scope.warn(
            f"{call.name}() is answered by the {level * 100}% quantile: the {call.name}imum itself is one person's "
            "value, and no noise both hides it and tells it."
        )
        return level
    if call.name == "median":
        return _HALF
    found = constant_value(compile_scalar(call.scope, arguments[1]))
    if found is None or not 0 < found < 1:
        instead = "Write a number above 0 and below 1, such as 0.9."
        raise call.scope.fault(arguments[1], "This is no part of the rows.", instead)
    return found


def _quantile(call: _Call, value: Scalar, level: Fraction) -> Quantile:
    subject = value.otherwise
    if value.branches or not isinstance(subject, Subject) or not subject.plain:
        raise call.fault("A quantile is of a column alone.", f"Write {call.written} of a column, and FILTER or WHERE.")
    attribute = subject.attribute
    if isinstance(attribute, Category | Boolean):
        raise call.fault(f"The values of `{attribute.name}` have no order.", "Write count(*) with GROUP BY.")
    tree = quantile_levels(attribute)
    if attribute.size > FINEST:
        width = tree[-1].cuts[1]
        call.scope.warn(f"Quantiles of {attribute.name} are told in steps of {width} of its {attribute.size} values.")
    numbers = tuple(call.blocks.number(call.where, further=(one,)) for one in tree)
    return Quantile(numbers, attribute.name, level)


def _sum_mean_or_spread(call: _Call, value: Scalar) -> Expression:
    """Compile a sum, an average or a measure of spread."""
    for leaf in value.leaves:
        if grid_line(leaf) is None:
            own = leaf.attribute if isinstance(leaf, Subject) else None
            of = "This is a text" if own is None else f"`{own.name}` is a {own.kind}"
            raise call.fault(f"{of}, and is not added up.", "Write count(*), or name a column of numbers.")
    if call.name == "sum":
        return Total(_sum_block(call, call.where, scalar_weight(value)))
    present = conjunction(call.where, value.present())
    if present == NOTHING != call.where:
        raise call.fault("This is NULL in every row.", f"Write {call.written} of a column of numbers.")
    span = public_range(value, present)
    if span.lower == span.upper:  # the same in every group with rows, so nothing has to be measured
        return PublicValue(span.lower if call.name == "avg" else Fraction(0))
    total = _sum_block(call, present, scalar_weight(value, centre=span.centre))
    mean = Mean(total, call.blocks.number(present), span.centre, span.lower, span.upper)
    if call.name == "avg":
        return mean
    squares = _sum_block(call, present, scalar_weight(value, centre=span.centre, power=2))
    return Variation(squares, mean, _SPREADS[call.name])


def _sum_block(call: _Call, where: Predicate, weighed: tuple[queries.Weight, Fraction]) -> int:
    if max(map(abs, queries.weight_range(weighed[0]))) > queries.LARGEST_WEIGHT:
        raise call.fault("The numbers have too many digits to be added up exactly.", "Write rounder constants.")
    return call.blocks.number(where, *weighed)


# --- Keys: the groups of GROUP BY. ---


_BIN = "bin"
_TRUNCATED: tuple[ReadAs, ...] = ("year", "quarter", "month", "week", "day")
_TRUNCATED_AS = {f"trunc {unit}": unit for unit in _TRUNCATED}
_READ_AS: dict[type, ReadAs] = {Fraction: "number", bool: "boolean", dt.date: "date"}


@dataclass(frozen=True, slots=True)
class CompiledKey:
    """The groups of a key expression, and the type in which programs read them."""

    key: queries.Key
    read_as: ReadAs = "value"


def compile_key(scope: Scope, node: exp.Expr) -> CompiledKey:
    """Compile a key expression to its groups: numbers may be extracted, and dates truncated to their first day."""
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Anonymous) and node.name.lower() == _BIN:
        return CompiledKey(_bin_key(scope, node))
    found = compile_scalar(scope, node)
    if not found.branches and isinstance(found.otherwise, Subject):
        part = found.otherwise.part
        read_as = "value" if part is None else _TRUNCATED_AS.get(part, "number")
        return CompiledKey(_subject_key(scope, node, found.otherwise), read_as)
    if not found.branches or any(isinstance(leaf, Subject) for leaf in found.leaves):
        instead = "Group by a column, bin(column, width), date_trunc(...), or a CASE whose results are texts."
        raise scope.fault(node, "This makes no groups.", instead)
    kinds = {type(leaf) for leaf in found.leaves if leaf is not None}
    return CompiledKey(_case_key(found), _READ_AS.get(kinds.pop(), "value") if len(kinds) == 1 else "value")


def default_key_name(scope: Scope, node: exp.Expr) -> str:
    """Return the default column name of a key."""
    while isinstance(node, exp.Paren | exp.Cast):
        node = node.this
    if isinstance(node, exp.Column):
        return scope.column(node).name
    return scope.word(node) if isinstance(node, exp.Func) and not isinstance(node, exp.Case) else "case"


def key_rank(one: queries.Key) -> tuple[int, str, int, tuple[int, ...]]:
    """Return the sort rank of a key, so that GROUP BY a, b and GROUP BY b, a are the same question."""
    if isinstance(one, Partition):
        return 0, one.attribute, len(one.cuts), one.cuts
    return 1, repr(one), 0, ()


def _subject_key(scope: Scope, node: exp.Expr, subject: Subject) -> queries.Key:
    attribute = subject.attribute
    if isinstance(attribute, Date) and subject.part is not None:
        name = subject.part.removeprefix("trunc ")
        spans = name != subject.part or name == "year"
        return date_partition(attribute, name) if spans else _date_part_key(attribute, name)
    if not subject.plain:
        raise scope.fault(node, "Groups are not reckoned.", f"Write bin({attribute.name}, width).")
    cuts = None if isinstance(attribute, Category | Boolean) else attribute.starts
    if (attribute.size if cuts is None else len(cuts)) > queries.MOST_VALUES:
        what = f"`{attribute.name}` has {attribute.size} values, too many groups."
        raise scope.fault(node, what, f"Write bin({attribute.name}, width).")
    return _declared_groups(attribute)


@lru_cache(maxsize=32)
def _declared_groups(attribute: Attribute) -> Partition:
    """Return the declared values or bins; cached, as most questions group by the same few columns."""
    return Partition.of(attribute)


def _date_part_key(attribute: Date, part: str) -> queries.CaseKey:
    """Return the groups of days that share a date part, such as the month in any year."""
    subject = Subject(attribute, part=part)
    numbers = sorted(set(date_part_values(attribute, part).tolist()))
    branches = [(str(number), compare_leaf(subject, "=", Fraction(number))[0]) for number in numbers]
    if attribute.otherwise is not None:
        return queries.CaseKey(tuple(branches[:-1]), branches[-1][0])
    return queries.CaseKey((*branches, (MISSING, null_predicate(attribute))), OUTSIDE)


def _bin_key(scope: Scope, node: exp.Anonymous) -> Partition:
    """Return bins of equal width that begin at multiples of it; without a width, the declared bins."""
    column, *widths = node.expressions or [node]
    found = compile_scalar(scope, column) if column is not node else None
    subject = None if found is None or found.branches else found.otherwise
    if not isinstance(subject, Subject) or not subject.plain or len(widths) > 1:
        raise scope.fault(node, "bin() takes a column and a width.", "Write bin(column, width), such as bin(age, 10).")
    attribute = subject.attribute
    if isinstance(attribute, Category | Boolean):
        raise scope.fault(node, f"`{attribute.name}` has no widths.", f"Write GROUP BY {attribute.name}.")
    if not widths:
        if attribute.starts is None:
            raise scope.fault(node, f"`{attribute.name}` has no declared bins.", f"Write bin({attribute.name}, width).")
        return _declared_groups(attribute)
    width = constant_value(compile_scalar(scope, widths[0]))
    if isinstance(attribute, Date):
        lower, step = Fraction(0), Fraction(1)  # days are counted from the first one
    else:
        lower, step = numeric_grid(attribute) or (Fraction(0), Fraction(1))
    if width is None or width <= 0 or (width / step).denominator != 1:
        unit = "days" if isinstance(attribute, Date) else f"multiples of {format_decimal(step)}"
        raise scope.fault(widths[0], "This is no width of bins here.", f"Write a number above 0, in {unit}.")
    if attribute.size * step / width > queries.MOST_VALUES:
        raise scope.fault(widths[0], "This makes too many groups.", "Write a larger width.")
    each, before = int(width / step), math.floor(lower / step)  # bins begin at multiples of the width, not at the bound
    cuts = range((math.floor(lower / width) + 1) * each - before, attribute.size, each)
    return Partition.cut(attribute, (0, *(cuts if cuts.start > 0 else cuts[1:])))


def _case_key(found: Scalar) -> queries.CaseKey:
    """Return the groups of a CASE: one per label, even if several branches give it."""
    last = _case_label(found.otherwise)
    labels = [_case_label(leaf) for _, leaf in found.branches]
    if len({*labels, last}) == len(labels) + 1:
        return queries.CaseKey(tuple(zip(labels, (guard for guard, _ in found.branches), strict=True)), last)
    merged: dict[str, Predicate] = {}
    before: Predicate = NOTHING
    for (guard, _), label in zip(found.branches, labels, strict=True):
        merged[label] = disjunction(merged.get(label, NOTHING), conjunction(guard, complement(before)))
        before = disjunction(before, guard)
    merged.pop(last, None)
    return queries.CaseKey(tuple(merged.items()), last)


def _case_label(leaf: Constant | Subject) -> str:
    match leaf:
        case None:
            return MISSING
        case bool():
            return str(leaf).lower()
        case Fraction():
            return format_decimal(leaf)
        case dt.date():
            return leaf.isoformat()
        case _:
            return str(leaf)
