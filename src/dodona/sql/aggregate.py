"""Aggregates: the blocks that are measured for each of them, and what is shown of those."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from sqlglot import exp

from dodona.domain.attribute import Boolean, Category
from dodona.query.expression import Certain, Expression, Mean, Quantile, Spread, Total, Variation
from dodona.query.predicate import NOTHING, Predicate, both
from dodona.query.query import Block, Key
from dodona.query.weight import ONE, People, Weight
from dodona.sql.arithmetic import constant_value
from dodona.sql.condition import condition, scalar
from dodona.sql.faults import InvalidSql
from dodona.sql.grammar import DISTINCT
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

    def forget(self, after: int) -> None:
        """Leave out all but the first blocks: what was added since is not needed."""
        for block in list(self.found)[after:]:
            del self.found[block]


def name_of(node: exp.Expr) -> str | None:
    """Return the name of an aggregate function; None where a node is none."""
    if isinstance(node, exp.Filter | exp.WithinGroup):
        return name_of(node.this)
    name = node.name.lower() if isinstance(node, exp.Anonymous) else type(node).__name__.lower()
    name = _SAME.get(name, name)
    return name if name in _NAMES and isinstance(node, exp.Func) else None


@dataclass(frozen=True, slots=True)
class _Call:
    """One aggregate as it is written: where it stands, its name, and the rows that it is about."""

    scope: Scope
    node: exp.Expr
    name: str
    where: Predicate
    blocks: Blocks

    @property
    def written(self) -> str:
        """The name as it was written."""
        return self.scope.word(self.node)

    def fault(self, what: str, instead: str) -> InvalidSql:
        """Return the error that points at it."""
        return self.scope.fault(self.node, what, instead)


def aggregate(scope: Scope, node: exp.Expr, blocks: Blocks) -> Expression:
    """Return what an aggregate shows, and add the blocks that it needs."""
    where, ordered = blocks.where, None
    inner = node
    if isinstance(inner, exp.Filter):
        where = both(where, condition(scope, inner.expression.this)[0])
        inner = inner.this
    if isinstance(inner, exp.WithinGroup):
        inner, ordered = inner.this, inner.expression
    call = _Call(scope, inner, name_of(inner) or "", where, blocks)
    arguments = _arguments(inner) if ordered is None else _within(call, ordered)
    if call.name == "count" and len(arguments) == 1 and isinstance(arguments[0], exp.Star):
        return Total(blocks.number(where))
    if call.name == "count" and len(arguments) == 1 and isinstance(arguments[0], exp.Distinct):
        return Total(_people(call, arguments[0]))
    wanted = ("column", "part") if call.name in _QUANTILES else ("column",)
    if len(arguments) != len(wanted) or any(isinstance(part, exp.Star) for part in arguments):
        what = f"`{call.written}` is written with other arguments here."
        raise call.fault(what, f"Write {call.written}({', '.join(wanted)}).")
    if call.name == "countif":
        return Total(blocks.number(both(where, condition(scope, arguments[0])[0])))
    value = scalar(scope, arguments[0])
    if call.name == "count":
        return Total(blocks.number(both(where, value.present())))
    if call.name in {*_QUANTILES, *_EXTREMES, "median"}:
        return _quantile(call, value, _level(call, arguments))
    return _reckoned(call, value)


def _people(call: _Call, distinct: exp.Distinct) -> int:
    """Return the block that counts people, each once; DISTINCT is for nothing else."""
    if not call.scope.person(distinct.expressions[0]):
        raise call.scope.fault(distinct, *DISTINCT)
    return call.blocks.number(call.where, People())


def _arguments(call: exp.Expr) -> list[exp.Expr]:
    if isinstance(call, exp.Anonymous):
        return list(call.expressions)
    parts = [call.args.get(name) for name in ("this", "quantile", "expression")]
    return [part for part in parts if isinstance(part, exp.Expr)]


def _within(call: _Call, ordered: exp.Expr) -> list[exp.Expr]:
    """Return the arguments of percentile_cont(part) WITHIN GROUP (ORDER BY column), in the order of quantile()."""
    columns, arguments = ordered.expressions, _arguments(call.node)
    if call.name not in {"percentilecont", "percentiledisc"} or len(columns) != 1 or len(arguments) != 1:
        raise call.fault("WITHIN GROUP is not known here.", "Write quantile(column, part).")
    if columns[0].args.get("desc"):
        raise call.scope.fault(columns[0], "The order is downward.", "Leave DESC out, and write 1 minus the part.")
    return [columns[0].this, arguments[0]]


def _level(call: _Call, arguments: list[exp.Expr]) -> Fraction:
    """Return which part of the rows is below a quantile."""
    if call.name in _EXTREMES:
        level = _EXTREMES[call.name]
        call.scope.warn(
            f"{call.name}() is answered by the {level * 100}% quantile: the {call.name}imum itself is one person's "
            "value, and no noise both hides it and tells it."
        )
        return level
    if call.name == "median":
        return _HALF
    found = constant_value(scalar(call.scope, arguments[1]))
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
    tree = levels(attribute)
    if attribute.size > FINEST:
        width = tree[-1].cuts[1]
        call.scope.warn(f"Quantiles of {attribute.name} are told in steps of {width} of its {attribute.size} values.")
    numbers = tuple(call.blocks.number(call.where, further=(one,)) for one in tree)
    return Quantile(numbers, attribute.name, level)


def _reckoned(call: _Call, value: Scalar) -> Expression:
    """Return a sum, an average or a measure of spread."""
    for leaf in value.leaves:
        if line(leaf) is None:
            of = (
                f"`{leaf.attribute.name}` is a {leaf.attribute.kind}" if isinstance(leaf, Subject) else "This is a text"
            )
            raise call.fault(f"{of}, and is not added up.", "Write count(*), or name a column of numbers.")
    if call.name == "sum":
        return Total(_summed(call, call.where, weight_of(value)))
    present = both(call.where, value.present())
    if present == NOTHING != call.where:
        raise call.fault("This is NULL in every row.", f"Write {call.written} of a column of numbers.")
    span = range_of(value, present)
    if span.lower == span.upper:  # so it is in every group that has rows, and nothing has to be measured
        return Certain(span.lower if call.name == "avg" else Fraction(0))
    total = _summed(call, present, weight_of(value, centre=span.centre))
    mean = Mean(total, call.blocks.number(present), span.centre, span.lower, span.upper)
    if call.name == "avg":
        return mean
    squares = _summed(call, present, weight_of(value, centre=span.centre, power=2))
    return Variation(squares, mean, _SPREADS[call.name])


def _summed(call: _Call, where: Predicate, weighed: tuple[Weight, Fraction]) -> int:
    if largest(weighed[0]) > LARGEST_WEIGHT:
        raise call.fault("The numbers have too many digits to be added up exactly.", "Write rounder constants.")
    return call.blocks.number(where, *weighed)
