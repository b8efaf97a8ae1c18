"""Ranges: what a polynomial in the codes of several columns can be in rows that meet a condition.

A clamp such as least(greatest(a * b, 0), 1000) is a CASE whose condition compares a * b itself with numbers. So where
the condition holds, a * b is between them, however wide the columns are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import product

from dodona.query.polynomial import Polynomial, Powers
from dodona.query.predicate import Among, And, Jointly, NonNegative, Or, Predicate

Shape = tuple[tuple[Powers, int], ...]
"""The terms of a polynomial but the constant, without a common factor, the first one positive."""
Interval = tuple[int, int]


def polynomial_range(polynomial: Polynomial, where: Predicate) -> Interval:
    """Return bounds on a polynomial over the rows of a condition in which it has a value; 0 and 0 if there are none.

    Theorem: sensitivity
    """
    spans = _code_spans(polynomial, where)
    if spans is None:
        return 0, 0
    low, high = polynomial.bounds(spans)
    for shape in dict.fromkeys(_compared_shapes(where)):
        fit = _as_quadratic(polynomial, shape)
        whole = None if fit is None else _shape_bounds(polynomial, shape, spans)
        if fit is None or whole is None:
            continue
        held = _held_interval(where, shape, polynomial, whole)
        if held is None:
            return 0, 0
        least, most = _quadratic_range(*fit, held)
        low, high = max(low, least), min(high, most)
    return (low, high) if low <= high else (0, 0)


def _code_spans(polynomial: Polynomial, where: Predicate) -> dict[str, Interval] | None:
    """Return the first and the last code of each column that the condition allows; None if it allows none."""
    spans = {name: (0, size - 1) for name, size in zip(polynomial.names, polynomial.sizes, strict=True)}
    for part in where.parts if isinstance(where, And) else (where,):
        if isinstance(part, Among) and part.attribute in spans:
            first, last = spans[part.attribute]
            codes = part.codes >> first & ((1 << last - first + 1) - 1)
            if not codes:
                return None
            spans[part.attribute] = first + (codes & -codes).bit_length() - 1, first + codes.bit_length() - 1
    return spans


def _compared_shapes(where: Predicate) -> Iterator[Shape]:
    """Yield the shapes of all polynomials that a condition compares with numbers."""
    match where:
        case NonNegative(polynomial):
            terms = _terms(polynomial)
            if terms:
                common = math.gcd(*(number for _, number in terms)) * (1 if terms[0][1] > 0 else -1)
                yield tuple((powers, number // common) for powers, number in terms)
        case And(parts) | Or(parts):
            for part in parts:
                yield from _compared_shapes(part)


def _terms(polynomial: Polynomial) -> list[tuple[Powers, int]]:
    """Return all terms but the constant, in one order."""
    listed = zip(polynomial.powers(), polynomial.terms, strict=True)
    return sorted((powers, number) for powers, (_, number) in listed if powers)


def _constant(polynomial: Polynomial) -> int:
    return dict(polynomial.terms).get((0,) * len(polynomial.names), 0)


def _shape_bounds(polynomial: Polynomial, shape: Shape, spans: dict[str, Interval]) -> Interval | None:
    """Return bounds on a shape from the codes of its columns; None if it has other columns than the polynomial."""
    columns = dict(zip(polynomial.names, zip(polynomial.sizes, polynomial.cells, strict=True), strict=True))
    names = {name for powers, _ in shape for name, _ in powers}
    if not names <= columns.keys():
        return None
    return Polynomial.of({name: columns[name] for name in names}, dict(shape)).bounds(spans)


def _held_interval(where: Predicate, shape: Shape, polynomial: Polynomial, whole: Interval) -> Interval | None:
    """Return where a shape is in rows of a condition in which the polynomial has a value; None if there are none."""
    match where:
        case And(parts):
            intervals = [_held_interval(part, shape, polynomial, whole) for part in parts]
            kept = [interval for interval in intervals if interval is not None]
            low, high = (
                max([whole[0], *(interval[0] for interval in kept)]),
                min([whole[1], *(interval[1] for interval in kept)]),
            )
            return (low, high) if len(kept) == len(intervals) and low <= high else None
        case Or(parts):
            intervals = [_held_interval(part, shape, polynomial, whole) for part in parts]
            kept = [interval for interval in intervals if interval is not None]
            return (min(interval[0] for interval in kept), max(interval[1] for interval in kept)) if kept else None
        case NonNegative(compared):
            return _compared_interval(compared, shape, whole)
        case Among(name, _, codes) if name in polynomial.names:
            size = polynomial.sizes[polynomial.names.index(name)]
            return whole if codes & ((1 << size) - 1) else None
        case Among() | Jointly():
            return whole


def _compared_interval(compared: Polynomial, shape: Shape, whole: Interval) -> Interval | None:
    """Return where a shape is if factor · shape + constant ≥ 0; anywhere, if that is not what is compared."""
    terms = _terms(compared)
    factor = Fraction(terms[0][1], shape[0][1]) if terms else Fraction(0)
    if factor == 0 or [(powers, Fraction(number)) for powers, number in terms] != _scaled(shape, factor):
        return whole
    edge = -_constant(compared) / factor
    low, high = (
        (max(whole[0], math.ceil(edge)), whole[1]) if factor > 0 else (whole[0], min(whole[1], math.floor(edge)))
    )
    return (low, high) if low <= high else None


def _scaled(shape: Shape, factor: Fraction) -> list[tuple[Powers, Fraction]]:
    return [(powers, factor * number) for powers, number in shape]


def _as_quadratic(polynomial: Polynomial, shape: Shape) -> tuple[Fraction, Fraction, Fraction] | None:
    """Return a, b and c with polynomial = a·shape² + b·shape + c, term by term; None if there are none."""
    rest = {powers: Fraction(number) for powers, number in _terms(polynomial)}
    lead, number = max(shape, key=lambda term: [dict(term[0]).get(name, 0) for name in polynomial.names])
    squared = tuple((name, 2 * power) for name, power in lead)
    square = rest.get(squared, Fraction(0)) / number**2
    if square:
        for (monomial, first), (other, second) in product(shape, repeat=2):
            _take(rest, _multiply(monomial, other), square * first * second)
    slope = rest.get(lead, Fraction(0)) / number
    for powers, coefficient in shape:
        _take(rest, powers, slope * coefficient)
    return None if rest or not (square or slope) else (square, slope, Fraction(_constant(polynomial)))


def _multiply(monomial: Powers, other: Powers) -> Powers:
    powers = dict(monomial)
    for name, power in other:
        powers[name] = powers.get(name, 0) + power
    return tuple(sorted(powers.items()))


def _take(rest: dict[Powers, Fraction], powers: Powers, number: Fraction) -> None:
    left = rest.pop(powers, Fraction(0)) - number
    if left:
        rest[powers] = left


def _quadratic_range(square: Fraction, slope: Fraction, constant: Fraction, held: Interval) -> Interval:
    """Return the range of a quadratic over an interval, as whole numbers."""
    at = [Fraction(held[0]), Fraction(held[1])]
    if square and held[0] < -slope / (2 * square) < held[1]:
        at.append(-slope / (2 * square))
    values = [(square * point + slope) * point + constant for point in at]
    return math.ceil(min(values)), math.floor(max(values))
