"""Compile aggregates: the blocks to measure, and the expressions to compute from them.

Covers count, sum, avg, variances and quantiles. A block shared by several aggregates is measured once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial

from sqlglot import exp

from dodona.answer.labels import groups_under
from dodona.errors import InvalidArgument
from dodona.query import query as queries
from dodona.query.predicate import NOTHING, And, Predicate, allowed_codes, complement, conjunction, unpack_bits
from dodona.query.question import (
    Association,
    Expression,
    Mean,
    Measure,
    PublicValue,
    Quantile,
    Spread,
    Total,
    Variation,
)
from dodona.query.ranges import polynomial_range
from dodona.schema.attributes import Attribute, Boolean, Category
from dodona.schema.partition import Partition
from dodona.sql.arithmetic import calculate, formula_of, multiply
from dodona.sql.computed import apply_declared_bounds
from dodona.sql.condition import compile_condition, compile_scalar
from dodona.sql.scalar import (
    UNKNOWN,
    Formula,
    Leaf,
    Mapped,
    Outcome,
    Scalar,
    Subject,
    combine,
    constant_value,
    leaf_kind,
    locate_mismatch,
)
from dodona.sql.scope import InvalidSql, Scope
from dodona.sql.tables import common_unit, list_parts, table_weight

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
    levels = [Partition.every(attribute, width)]
    while len(levels[0].cuts) > FAN_OUT:
        levels.insert(0, Partition.cut(attribute, levels[0].cuts[::FAN_OUT]))
    return tuple(levels)


# --- Summands: the weight of a scalar in integer steps, the value of a step, and the public range. ---


_MOST_NARROWED = 32  # branches whose complements are computed to narrow the range of the last one


@dataclass(frozen=True, slots=True)
class PublicRange:
    """Public lower and upper bounds on a value, and the grid point nearest to the middle."""

    lower: Fraction
    upper: Fraction
    centre: Fraction


def is_numeric(leaf: Leaf) -> bool:
    """Whether a leaf is a number in every row, or NULL, so that it can be added up."""
    return (
        leaf is None
        or leaf_kind(leaf) in {"number", "boolean"}
        or (isinstance(leaf, Mapped) and all(outcome is None or outcome is UNKNOWN for outcome in leaf.outcomes))
    )


def scalar_weight(scalar: Scalar, *, centre: Fraction = Fraction(0), power: int = 1) -> tuple[queries.Weight, Fraction]:
    """Return (value - centre)^power in integer steps, 0 if NULL, and the value of a step."""
    spans = [span for leaf in scalar.leaves for span in _leaf_spans(leaf, centre)]
    unit = common_unit(spans)
    weights = [_leaf_weight(leaf, centre, unit, power) for leaf in scalar.leaves]
    branches = tuple((guard, weight) for (guard, _), weight in zip(scalar.branches, weights, strict=False))
    return (queries.CaseWeight(branches, weights[-1]) if branches else weights[-1]), unit**power


def _leaf_spans(leaf: Leaf, centre: Fraction) -> list[Fraction]:
    """Return numbers that a unit must divide, so that the leaf less the centre is an integer number of units."""
    if isinstance(leaf, Mapped):
        return [Fraction(outcome) - centre for outcome in leaf.outcomes if isinstance(outcome, Fraction | bool)]
    formula = None if leaf is None else _as_formula(leaf)
    if formula is None:
        return []
    terms = dict(formula.terms)
    return [terms.pop((), Fraction(0)) - centre, *terms.values()]


def _leaf_weight(leaf: Leaf, centre: Fraction, unit: Fraction, power: int) -> queries.Weight:
    """Return ((leaf - centre) / unit)^power; 0 if NULL."""
    if isinstance(leaf, Mapped):
        numbers = [_steps(raw, centre, unit) ** power if raw is not None else 0 for raw in map(_counted, leaf.outcomes)]
        return table_weight(leaf, numbers)
    formula = None if leaf is None else _as_formula(leaf)
    if formula is None:
        return queries.ConstantWeight(0)
    first = int((dict(formula.terms).get((), Fraction(0)) - centre) / unit)
    if not formula.columns:
        return queries.ConstantWeight(first**power)
    if len(formula.columns) == 1 and formula.degree <= 1:
        (column,) = formula.columns
        factor = int(dict(formula.terms).get(((column.name, 1),), Fraction(0)) / unit)
        return queries.ValueWeight(column.name, column.size, first, factor, power)
    raised = formula
    if power > 1:
        moved = dict(formula.terms)
        moved[()] = moved.get((), Fraction(0)) - centre
        base = raised = Formula.of(formula.columns, moved)
        for _ in range(power - 1):
            raised = multiply(raised, base)
        return queries.PolynomialWeight(raised.polynomial(unit**power))
    return queries.PolynomialWeight(raised.polynomial(unit, centre))


def _as_formula(leaf: Leaf) -> Formula | None:
    return formula_of(leaf) if is_numeric(leaf) else None


def _counted(outcome: Outcome) -> Fraction | None:
    return Fraction(outcome) if isinstance(outcome, Fraction | bool) else None


def _steps(value: Fraction | None, centre: Fraction, unit: Fraction) -> int:
    return 0 if value is None else int((value - centre) / unit)


def public_range(scalar: Scalar, where: Predicate) -> PublicRange:
    """Return the public range of a scalar over the selected rows."""
    ranges = _leaf_ranges(scalar, where) or _leaf_ranges(scalar, And(()))
    if not ranges:
        return PublicRange(Fraction(0), Fraction(0), Fraction(0))
    lower, upper = min(low for low, _, _ in ranges), max(high for _, high, _ in ranges)
    spans = [span for low, _, step in ranges for span in (low - lower, step)]
    unit = common_unit(spans)
    return PublicRange(lower, upper, lower + round((upper - lower) / 2 / unit) * unit)


def weight_guards(weight: queries.Weight) -> tuple[Predicate, ...]:
    """Return the conditions that a weight depends on."""
    return tuple(guard for guard, _ in weight.branches) if isinstance(weight, queries.CaseWeight) else ()


def _leaf_ranges(scalar: Scalar, where: Predicate) -> list[tuple[Fraction, Fraction, Fraction]]:
    """Return the minimum, the maximum and the step of each leaf that may occur."""
    guards = [guard for guard, _ in scalar.branches]
    others = [complement(guard) for guard in guards] if len(guards) <= _MOST_NARROWED else []
    ranges = []
    for guard, leaf in (*scalar.branches, (conjunction(*others), scalar.otherwise)):
        meant = conjunction(where, guard)
        if leaf is None or meant == NOTHING:
            continue
        if isinstance(leaf, Mapped):
            bounds = _mapped_range(leaf, meant)
        else:
            formula = _as_formula(leaf)
            bounds = None if formula is None else _formula_range(formula, meant)
        if bounds is not None:
            ranges.append(bounds)
    return ranges


def _formula_range(formula: Formula, where: Predicate) -> tuple[Fraction, Fraction, Fraction] | None:
    """Return the bounds of a formula over the codes that a condition allows, and its step; None if it allows none."""
    if not formula.columns:
        constant = dict(formula.terms).get((), Fraction(0))
        return constant, constant, Fraction(0)
    spans: dict[str, tuple[int, int]] = {}
    for column in formula.columns:
        codes = allowed_codes(where, column) & ((1 << column.size) - 1)
        if not codes:
            return None
        spans[column.name] = (codes & -codes).bit_length() - 1, codes.bit_length() - 1
    unit = common_unit([number for _, number in formula.terms])
    polynomial = formula.polynomial(unit)
    (low, high), (least, most) = polynomial.bounds(spans), polynomial_range(polynomial, where)
    low, high = max(low, least), min(high, most)
    return low * unit, high * unit, common_unit([number for powers, number in formula.terms if powers])


def _mapped_range(leaf: Mapped, where: Predicate) -> tuple[Fraction, Fraction, Fraction] | None:
    """Return the least and the largest value of a table over the cells that a condition allows, and its step."""
    places = leaf.places
    for axis, attribute in enumerate(leaf.attributes):
        places = places.compress(unpack_bits(allowed_codes(where, attribute), attribute.cells), axis=axis)
    values = [value for value in (_counted(leaf.outcomes[place]) for place in set(places.flat)) if value is not None]
    if not values:
        return None
    return min(values), max(values), common_unit([value - values[0] for value in values])


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
_MEASURES: dict[str, Measure] = {
    "covarpop": Measure.POPULATION_COVARIANCE,
    "covarsamp": Measure.SAMPLE_COVARIANCE,
    "corr": Measure.CORRELATION,
    "regrslope": Measure.SLOPE,
    "regrintercept": Measure.INTERCEPT,
    "regrr2": Measure.DETERMINATION,
}
_PAIRS = {*_MEASURES, "regrcount", "regravgx", "regravgy"}
_NAMES = {"count", "countif", "sum", "avg", "median", "min", "max", *_SPREADS, *_QUANTILES, *_PAIRS}
_EXTREMES = {"min": Fraction(1, 100), "max": Fraction(99, 100)}
_HALF = Fraction(1, 2)


@dataclass(frozen=True, slots=True)
class Blocks:
    """The blocks of a statement: one for each measured quantity, however often it is shown."""

    where: Predicate
    keys: tuple[queries.Key, ...]
    numbers: dict[queries.Block, int] = field(default_factory=dict)

    def number(
        self,
        where: Predicate,
        weight: queries.Weight = queries.ONE,
        unit: Fraction = Fraction(1),
        further: tuple[queries.Key, ...] = (),
    ) -> int:
        """Return the number of a block, adding it if it is new."""
        return self.numbers.setdefault(queries.Block(where, (*self.keys, *further), weight, unit), len(self.numbers))

    def forget(self, after: int) -> None:
        """Drop all but the first `after` blocks: those added since are not needed."""
        for block in list(self.numbers)[after:]:
            del self.numbers[block]


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
    return locate_mismatch(scope, node, lambda: _compile(scope, node, blocks))


def _compile(scope: Scope, node: exp.Expr, blocks: Blocks) -> Expression:  # noqa: PLR0911  one for each kind
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
        return _count_distinct(call, arguments[0].expressions[0])
    wanted = ("column", "part") if call.name in _QUANTILES else ("y", "x") if call.name in _PAIRS else ("column",)
    if len(arguments) != len(wanted) or any(isinstance(part, exp.Star) for part in arguments):
        what = f"`{call.written}` is written with other arguments here."
        raise call.fault(what, f"Write {call.written}({', '.join(wanted)}).")
    if call.name == "countif":
        return Total(blocks.number(conjunction(where, compile_condition(scope, arguments[0])[0])))
    if call.name in _PAIRS:
        return _association(call, arguments)
    value = compile_scalar(scope, arguments[0])
    if call.name == "count":
        return Total(blocks.number(conjunction(where, value.present())))
    if call.name in {*_QUANTILES, *_EXTREMES, "median"}:
        return _quantile(call, arguments[0], value, _quantile_level(call, arguments))
    return _sum_mean_or_spread(call, value)


def _count_distinct(call: _Call, column: exp.Expr) -> Expression:
    """Return the number of people, each counted once, or of the declared values of a column, which is public."""
    if call.scope.person(column):
        return Total(call.blocks.number(call.where, queries.PeopleWeight()))
    attribute = call.scope.column(column)
    name = attribute.name
    call.scope.warn(
        f"count(DISTINCT {name}) counts the declared values that the conditions allow. They are public, so this is "
        "free, and whether a row has each of them is not said. To count those that enough rows have, "
        f"write SELECT {name}, count(*) ... GROUP BY {name} HAVING count(*) > 100."
    )
    codes = allowed_codes(call.where, attribute) & ((1 << attribute.size) - 1)
    return PublicValue(Fraction(codes.bit_count()))


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
    quantile = constant_value(compile_scalar(call.scope, arguments[1]))
    if quantile is None or not 0 < quantile < 1:
        instead = "Write a number above 0 and below 1, such as 0.9."
        raise call.scope.fault(arguments[1], "This is no part of the rows.", instead)
    return quantile


def _quantile(call: _Call, node: exp.Expr, value: Scalar, level: Fraction) -> Expression:
    subject = value.otherwise
    if not value.branches and isinstance(subject, Fraction):  # the same in every group with rows
        return _public_value(call, call.where, subject)
    if value.branches or not isinstance(subject, Subject) or not subject.plain:
        counts = f"SELECT {node.sql()} AS v, count(*) AS n FROM {call.scope.schema.table} GROUP BY 1"  # noqa: S608
        shares = f"SELECT v, sum(n) OVER (ORDER BY v) / sum(n) OVER () AS part FROM ({counts}) AS x WHERE v IS NOT NULL"  # noqa: S608
        instead = f"Write {call.written} of a column, or count by its values: SELECT min(v) FROM ({shares}) AS y "  # noqa: S608
        raise call.fault("A quantile is of a column alone.", f"{instead}WHERE part >= {float(level):g}.")
    attribute = subject.attribute
    if isinstance(attribute, Category | Boolean):
        raise call.fault(f"The values of `{attribute.name}` have no order.", "Write count(*) with GROUP BY.")
    tree = quantile_levels(attribute)
    if attribute.size > FINEST:
        width = tree[-1].cuts[1]
        call.scope.warn(
            f"Quantiles of {attribute.name} are answered in steps of {width} of its {attribute.size} values."
        )
    numbers = tuple(call.blocks.number(call.where, further=(partition,)) for partition in tree)
    return Quantile(numbers, attribute.name, level)


def _numeric(call: _Call, value: Scalar) -> Scalar:
    """Return a value that can be added up; refuses any other."""
    for leaf in value.leaves:
        if not is_numeric(leaf):
            column = leaf.attribute if isinstance(leaf, Subject) and leaf.part is None else None
            of = f"This is a {leaf_kind(leaf) or 'text'}" if column is None else f"`{column.name}` is a {column.kind}"
            raise call.fault(f"{of}, and is not added up.", "Write count(*), or name a column of numbers.")
    if call.scope.schema.computed:
        value = apply_declared_bounds(call.scope, call.node, value)
    return list_parts(value)


def _sum_mean_or_spread(call: _Call, value: Scalar) -> Expression:
    """Compile a sum, an average or a measure of spread."""
    value = _numeric(call, value)
    present = conjunction(call.where, value.present())
    span = _range(call, value, present)
    if call.name == "sum":
        nothing = span.lower == span.upper == 0  # in every row: its sum is not measured either
        return PublicValue(Fraction(0)) if nothing else Total(_sum_block(call, call.where, value))
    if present == NOTHING != call.where:
        raise call.fault("This is NULL in every row.", f"Write {call.written} of a column of numbers.")
    if span.lower == span.upper or present == NOTHING:  # the same in every group with rows: nothing is measured
        return _public_value(call, present, span.lower if call.name == "avg" else Fraction(0))
    total = _sum_block(call, present, value, centre=span.centre)
    mean = Mean(total, call.blocks.number(present), span.centre, span.lower, span.upper)
    if call.name == "avg":
        return mean
    squares = _sum_block(call, present, value, centre=span.centre, power=2)
    return Variation(squares, mean, _SPREADS[call.name])


def _public_value(call: _Call, present: Predicate, value: Fraction) -> PublicValue:
    """Return a number that is the same in every group with such rows, and NULL where there can be none."""
    keys = call.blocks.keys
    left = () if present == NOTHING else groups_under(present, keys, call.scope.schema.domain)
    if left:
        call.scope.warn(f"{call.written}() is the same wherever a row has a value, so this was not measured.")
    return PublicValue(value, frozenset(range(math.prod(key.groups for key in keys))).difference(left))


def _association(call: _Call, arguments: list[exp.Expr]) -> Expression:
    """Compile a function of pairs, such as corr(y, x), over the rows in which both have a value."""
    second, first = (_numeric(call, compile_scalar(call.scope, argument)) for argument in arguments)
    where = conjunction(call.where, first.present(), second.present())
    if call.name == "regrcount":
        return Total(call.blocks.number(where))
    if where == NOTHING:
        return _public_value(call, where, Fraction(0))
    if call.name in {"regravgx", "regravgy"}:
        scalar = first if call.name == "regravgx" else second
        span = _range(call, scalar, where)
        if span.lower == span.upper:
            return _public_value(call, where, span.lower)
        rows = call.blocks.number(where)
        return Mean(_sum_block(call, where, scalar, centre=span.centre), rows, span.centre, span.lower, span.upper)
    measure, spans = _MEASURES[call.name], [_range(call, scalar, where) for scalar in (first, second)]
    if any(span.lower == span.upper for span in spans):
        raise call.fault("One of these is the same in every row.", "Write two columns that vary.")
    rows = call.blocks.number(where)
    means, moved = [], []
    for scalar, span in zip((first, second), spans, strict=True):
        total = _sum_block(call, where, scalar, centre=span.centre)
        means.append(Mean(total, rows, span.centre, span.lower, span.upper))
        moved.append(scalar.mapped(partial(_less, span.centre)))
    product = locate_mismatch(call.scope, call.node, lambda: combine(partial(calculate, "*"), moved))
    wanted = {Measure.CORRELATION: 2, Measure.DETERMINATION: 2, Measure.SLOPE: 1, Measure.INTERCEPT: 1}.get(measure, 0)
    squares = [
        _sum_block(call, where, scalar, centre=span.centre, power=2)
        for scalar, span in list(zip((first, second), spans, strict=True))[:wanted]
    ]
    pair = (*squares, None, None)[:2]
    return Association(_sum_block(call, where, product), means[0], means[1], pair[0], pair[1], measure)


def _range(call: _Call, value: Scalar, where: Predicate) -> PublicRange:
    """Return the public range of what is added up; refuses numbers that no sum can hold."""
    try:
        return public_range(value, where)
    except InvalidArgument:
        raise call.fault("The numbers have too many digits to be added up exactly.", "Round them.") from None


def _less(centre: Fraction, leaf: Leaf) -> Leaf:
    return calculate("-", leaf, centre)


_MOST_STEPS = 1 << 44  # noise for more has a larger scale than any that is drawn


def _sum_block(call: _Call, where: Predicate, value: Scalar, *, centre: Fraction = Fraction(0), power: int = 1) -> int:
    """Return the block of the sum of (value - centre)^power."""
    try:
        weight, unit = scalar_weight(value, centre=centre, power=power)
    except InvalidArgument as fault:
        raise call.fault("The numbers have too many digits to be added up exactly:", f"{fault.accepted}.") from None
    divided = any(isinstance(leaf, Mapped) for leaf in value.leaves)
    if max(map(abs, queries.weight_range(weight))) > (_MOST_STEPS if divided else queries.LARGEST_WEIGHT):
        rounded = f"Write {call.written}(round(..., 4)), or sum(a) / sum(b) for the ratio of two totals."
        instead = rounded if divided else "Write rounder constants."
        raise call.fault("The numbers have too many digits to be added up exactly.", instead)
    return call.blocks.number(where, weight, unit)
