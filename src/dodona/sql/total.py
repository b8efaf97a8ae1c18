"""What is added up: the weight of a scalar in whole steps, what a step is worth, and the range that is public."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import assert_never

from dodona.domain.attribute import Attribute, grid
from dodona.query.bits import marginal
from dodona.query.predicate import NOTHING, Among, And, Jointly, Predicate, both, complement
from dodona.query.weight import Cases, Constant, People, Value, Weight
from dodona.sql.scalar import Leaf, Scalar, Subject, number

_MOST_NARROWED = 32  # branches whose complements are worked out to narrow the range of the last one


@dataclass(frozen=True, slots=True)
class Line:
    """What a leaf is on its grid: first + step·code of a column, or a constant."""

    first: Fraction
    step: Fraction = Fraction(0)
    attribute: Attribute | None = None


@dataclass(frozen=True, slots=True)
class Range:
    """What no value is below or above, and the point of the grid nearest to the middle."""

    lower: Fraction
    upper: Fraction
    centre: Fraction


def line(leaf: Leaf) -> Line | None:
    """Return a leaf on its grid; NULL is 0, as it adds nothing. None where it is no number."""
    if isinstance(leaf, Subject):
        found = grid(leaf.attribute)
        if found is None or leaf.part is not None:
            return None
        return Line(leaf.shift + leaf.scale * found[0], leaf.scale * found[1], leaf.attribute)
    if leaf is None:
        return Line(Fraction(0))
    constant = number(leaf)
    return None if constant is None else Line(constant)


def weight_of(scalar: Scalar, *, centre: Fraction = Fraction(0), power: int = 1) -> tuple[Weight, Fraction]:
    """Return (value - centre)^power in whole steps, 0 where it is NULL, and what a step is worth."""
    lines = [(leaf, line(leaf) or Line(Fraction(0))) for leaf in scalar.leaves]
    spans = [span for leaf, one in lines if leaf is not None for span in (one.first - centre, one.step)]
    unit = _common(spans)

    def weighed(leaf: Leaf, one: Line) -> Weight:
        if leaf is None:
            return Constant(0)
        offset = int((one.first - centre) / unit)
        if one.attribute is None:
            return Constant(offset**power)
        return Value(one.attribute.name, one.attribute.size, offset, int(one.step / unit), power)

    weights = [weighed(*each) for each in lines]
    branches = tuple((guard, weight) for (guard, _), weight in zip(scalar.branches, weights, strict=False))
    return (Cases(branches, weights[-1]) if branches else weights[-1]), unit**power


def range_of(scalar: Scalar, where: Predicate) -> Range:
    """Return the public range of a scalar in the rows that are meant."""
    found = _ends(scalar, where) or _ends(scalar, And(()))
    if not found:
        return Range(Fraction(0), Fraction(0), Fraction(0))
    lower, upper = min(low for low, _, _ in found), max(high for _, high, _ in found)
    spans = [span for low, _, step in found for span in (low - lower, step)]
    unit = _common(spans)
    return Range(lower, upper, lower + round((upper - lower) / 2 / unit) * unit)


def largest(weight: Weight) -> int:
    """Return a number that no weight is above in size, also on the way to it."""
    match weight:
        case Constant(value):
            return abs(value)
        case People():
            return 1
        case Value(_, size, offset, factor, power):
            return int((abs(offset) + abs(factor) * size) ** power)
        case Cases(branches, otherwise):
            return max(largest(otherwise), *(largest(branch) for _, branch in branches))
        case _:
            assert_never(weight)


def guards(weight: Weight) -> tuple[Predicate, ...]:
    """Return the conditions that a weight depends on."""
    return tuple(guard for guard, _ in weight.branches) if isinstance(weight, Cases) else ()


def _ends(scalar: Scalar, where: Predicate) -> list[tuple[Fraction, Fraction, Fraction]]:
    """Return the least and the largest value of each leaf that may occur, and its step."""
    guards = [guard for guard, _ in scalar.branches]
    others = [complement(guard) for guard in guards] if len(guards) <= _MOST_NARROWED else []
    found = []
    for guard, leaf in (*scalar.branches, (both(*others), scalar.otherwise)):
        meant = both(where, guard)
        one = line(leaf)
        if leaf is None or one is None or meant == NOTHING:
            continue
        if one.attribute is None:
            found.append((one.first, one.first, Fraction(0)))
            continue
        codes = _codes(meant, one.attribute)
        if codes:
            low, high = (codes & -codes).bit_length() - 1, codes.bit_length() - 1
            ends = sorted((one.first + one.step * low, one.first + one.step * high))
            found.append((ends[0], ends[1], one.step))
    return found


def _codes(meant: Predicate, attribute: Attribute) -> int:
    """Return the values of a column that may occur, as far as a plain part of the condition says it."""
    codes = (1 << attribute.size) - 1
    for part in meant.parts if isinstance(meant, And) else (meant,):
        if isinstance(part, Among) and part.attribute == attribute.name:
            codes &= part.codes
        elif isinstance(part, Jointly) and attribute.name in part.names:
            codes &= marginal(part.shape, part.codes, part.names.index(attribute.name))
    return codes


def _common(spans: list[Fraction]) -> Fraction:
    """Return the largest unit of which all spans are whole multiples; 1 where there is none."""
    denominator = math.lcm(*(span.denominator for span in spans))
    numerator = math.gcd(*(int(span * denominator) for span in spans))
    return Fraction(numerator, denominator) if numerator else Fraction(1)
