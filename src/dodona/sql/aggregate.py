"""Aggregates: the blocks that are measured for each of them, and what is shown of those."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from sqlglot import exp

from dodona.domain.attribute import Boolean, Category
from dodona.query.expression import Expression, Mean, Quantile, Spread, Total, Variation
from dodona.query.predicate import Predicate, both
from dodona.query.query import Block, Key
from dodona.query.weight import ONE, Weight
from dodona.sql.arithmetic import constant_value
from dodona.sql.condition import condition, scalar
from dodona.sql.quantile import FINEST, levels
from dodona.sql.scalar import Scalar, Subject
from dodona.sql.scope import Scope
from dodona.sql.total import largest, line, range_of, weight_of

LARGEST_WEIGHT = 1 << 62
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
_SAME = {
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
    """The blocks of a statement: one for each thing that is measured, however often it is shown."""

    where: Predicate
    keys: tuple[Key, ...]
    found: dict[Block, int] = field(default_factory=dict)

    def number(
        self, where: Predicate, weight: Weight = ONE, unit: Fraction = Fraction(1), further: tuple[Key, ...] = ()
    ) -> int:
        """Return the number of a block, which is added where it is new."""
        return self.found.setdefault(Block(where, (*self.keys, *further), weight, unit), len(self.found))


def name_of(node: exp.Expr) -> str | None:
    """Return the name of an aggregate function; None where a node is none."""
    if isinstance(node, exp.Filter | exp.WithinGroup):
        return name_of(node.this)
    name = node.name.lower() if isinstance(node, exp.Anonymous) else type(node).__name__.lower()
    name = _SAME.get(name, name)
    return name if name in _NAMES and isinstance(node, exp.Func) else None


def aggregate(scope: Scope, node: exp.Expr, blocks: Blocks) -> Expression:
    """Return what an aggregate shows, and add the blocks that it needs."""
    where, ordered = blocks.where, None
    call = node
    if isinstance(call, exp.Filter):
        where = both(where, condition(scope, call.expression.this)[0])
        call = call.this
    if isinstance(call, exp.WithinGroup):
        ordered = call.expression
        call = call.this
    name = name_of(call) or ""
    arguments = _arguments(call)
    if ordered is not None:
        arguments = _within(scope, call, name, ordered, arguments)
    if name == "count" and len(arguments) == 1 and isinstance(arguments[0], exp.Star):
        return Total(blocks.number(where))
    wanted = 2 if name in _QUANTILES else 1
    if len(arguments) != wanted or any(isinstance(part, exp.Star) for part in arguments):
        how = f"{_shown(call)}(column, part)" if wanted == 2 else f"{_shown(call)}(column)"  # noqa: PLR2004
        raise scope.fault(call, f"`{_shown(call)}` is written with other arguments here.", f"Write {how}.")
    if name == "countif":
        return Total(blocks.number(both(where, condition(scope, arguments[0])[0])))
    value = scalar(scope, arguments[0])
    if name == "count":
        return Total(blocks.number(both(where, value.present())))
    if name in _QUANTILES or name == "median" or name in _EXTREMES:
        return _quantile(scope, call, where, value, _level(scope, name, arguments), blocks)
    return _reckoned(scope, call, name, where, value, blocks)


def _arguments(call: exp.Expr) -> list[exp.Expr]:
    if isinstance(call, exp.Anonymous):
        return list(call.expressions)
    parts = [call.args.get(name) for name in ("this", "quantile", "expression")]
    return [part for part in parts if isinstance(part, exp.Expr)]


def _within(scope: Scope, call: exp.Expr, name: str, ordered: exp.Expr, arguments: list[exp.Expr]) -> list[exp.Expr]:
    """Return the arguments of percentile_cont(part) WITHIN GROUP (ORDER BY column), in the order of quantile()."""
    columns = ordered.expressions
    if name not in {"percentilecont", "percentiledisc"} or len(columns) != 1 or len(arguments) != 1:
        raise scope.fault(call, "WITHIN GROUP is not known here.", "Write quantile(column, part).")
    if columns[0].args.get("desc"):
        raise scope.fault(columns[0], "The order is downward.", "Leave DESC out, and write 1 minus the part.")
    return [columns[0].this, arguments[0]]


def _level(scope: Scope, name: str, arguments: list[exp.Expr]) -> Fraction:
    """Return which part of the rows is below a quantile."""
    if name in _EXTREMES:
        percent = _EXTREMES[name] * 100
        scope.warn(
            f"{name}() is answered by the {percent}% quantile: the {name}imum itself is one person's value, "
            "and no noise both hides it and tells it."
        )
        return _EXTREMES[name]
    if name == "median":
        return _HALF
    level = constant_value(scalar(scope, arguments[1]))
    if level is None or not 0 < level < 1:
        raise scope.fault(
            arguments[1], "This is no part of the rows.", "Write a number above 0 and below 1, such as 0.9."
        )
    return level


def _quantile(
    scope: Scope, call: exp.Expr, where: Predicate, value: Scalar, level: Fraction, blocks: Blocks
) -> Quantile:
    subject = value.otherwise
    if value.branches or not isinstance(subject, Subject) or not subject.plain:
        raise scope.fault(
            call, "A quantile is of a column alone.", f"Write {_shown(call)}(column), and FILTER or WHERE."
        )
    attribute = subject.attribute
    if isinstance(attribute, Category | Boolean):
        raise scope.fault(call, f"The values of `{attribute.name}` have no order.", "Write count(*) with GROUP BY.")
    tree = levels(attribute)
    if attribute.size > FINEST:
        width = tree[-1].cuts[1]
        scope.warn(f"Quantiles of {attribute.name} are told in steps of {width} of its {attribute.size} values.")
    return Quantile(tuple(blocks.number(where, further=(one,)) for one in tree), attribute.name, level)


def _reckoned(scope: Scope, call: exp.Expr, name: str, where: Predicate, value: Scalar, blocks: Blocks) -> Expression:
    """Return a sum, an average or a measure of spread."""
    for leaf in value.leaves:
        if line(leaf) is None:
            of = (
                f"`{leaf.attribute.name}` is a {leaf.attribute.kind}" if isinstance(leaf, Subject) else "This is a text"
            )
            instead = "Write count(*), or name a column of numbers."
            raise scope.fault(call, f"{of}, and is not added up.", instead)
    if name == "sum":
        return Total(_summed(scope, call, blocks, where, weight_of(value)))
    present = both(where, value.present())
    span = range_of(value, present)
    total = _summed(scope, call, blocks, present, weight_of(value, centre=span.centre))
    mean = Mean(total, blocks.number(present), span.centre, span.lower, span.upper)
    if name == "avg":
        return mean
    squares = _summed(scope, call, blocks, present, weight_of(value, centre=span.centre, power=2))
    return Variation(squares, mean, _SPREADS[name])


def _summed(scope: Scope, call: exp.Expr, blocks: Blocks, where: Predicate, weighed: tuple[Weight, Fraction]) -> int:
    if largest(weighed[0]) > LARGEST_WEIGHT:
        raise scope.fault(call, "The numbers have too many digits to be added up exactly.", "Write rounder constants.")
    return blocks.number(where, *weighed)


def _shown(call: exp.Expr) -> str:
    return call.name.lower() if isinstance(call, exp.Anonymous) else call.sql_name().lower()  # type: ignore[attr-defined]
