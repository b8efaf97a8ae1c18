"""Comparisons: the cells in which a column stands in some relation to a constant, and those in which it does not."""

from __future__ import annotations

import datetime as dt
import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from dodona.domain.attribute import MISSING, OUTSIDE, Attribute, Category, Date, cells
from dodona.errors import InvalidArgument
from dodona.query.literal import compare, further_cell, further_mask, unknown
from dodona.query.predicate import EVERYTHING, NOTHING, Predicate, both, either, masked
from dodona.sql.dates import values
from dodona.sql.scalar import Constant, Leaf, Subject

Truth = tuple[Predicate, Predicate]
"""Where a condition is true, and where it is false. Elsewhere it is NULL."""
NEVER: Truth = (NOTHING, NOTHING)
TRUE: Truth = (EVERYTHING, NOTHING)
FALSE: Truth = (NOTHING, EVERYTHING)
HOLDS: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""The same relation, read from the other side; = and <> are their own."""
_DAY = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}")
_CELLS: tuple[Constant, ...] = (MISSING, OUTSIDE)
_FAR = 10**9
_LONGEST_PATTERN = 1_000


class Mismatch(Exception):
    """A column and a constant that cannot be compared: what is wrong, and what to write instead."""


def compared(leaf: Leaf, relation: str, constant: Constant) -> Truth:
    """Return where `leaf relation constant` is true, and where it is false."""
    if leaf is None or constant is None:
        return NEVER
    if not isinstance(leaf, Subject):
        return _constants(leaf, relation, constant)
    attribute = leaf.attribute
    if isinstance(constant, str) and constant in _CELLS:
        return _cell(attribute, relation, constant)
    true = _mask(leaf, relation, constant)
    return masked(attribute, true), masked(attribute, _known(attribute) & ~true)


def among(leaf: Leaf, constants: Iterable[Constant]) -> Truth:
    """Return where a leaf is one of some constants: the pair of all the comparisons joined by OR."""
    true: Predicate = NOTHING
    false: Predicate = EVERYTHING
    codes = 0
    for constant in constants:
        if isinstance(leaf, Subject) and constant is not None and constant not in _CELLS:
            codes |= _mask(leaf, "=", constant)
        else:
            one = compared(leaf, "=", constant)
            true, false = either(true, one[0]), both(false, one[1])
    if isinstance(leaf, Subject):
        true = either(true, masked(leaf.attribute, codes))
        false = both(false, masked(leaf.attribute, _known(leaf.attribute) & ~codes))
    return true, false


def like(subject: Subject, pattern: str, *, folded: Callable[[str], str]) -> Truth:
    """Return where a label fits a pattern. What an outside text is is not known, so it neither fits nor fails."""
    attribute = subject.attribute
    if not isinstance(attribute, Category):
        raise Mismatch(f"LIKE compares texts, and `{attribute.name}` holds none.", "Write = or BETWEEN.")
    if len(pattern) > _LONGEST_PATTERN:
        raise Mismatch("This pattern is longer than any label.", "Write a shorter one.")
    wanted = folded(pattern)
    true = sum(1 << code for code, label in enumerate(attribute.labels) if fits(folded(label), wanted))
    return masked(attribute, true), masked(attribute, ((1 << attribute.size) - 1) & ~true)


def fits(text: str, pattern: str) -> bool:
    """Whether a text fits a pattern of LIKE: % stands for any text, _ for any character. Never more than both lengths.

    >>> fits("female", "%ma_e"), fits("female", "ma%")
    (True, False)
    """
    at = here = mark = 0
    star = -1
    while at < len(text):
        sign = pattern[here] if here < len(pattern) else None
        if sign == "%":
            star, mark, here = here, at, here + 1
        elif sign is not None and sign in {"_", text[at]}:
            at, here = at + 1, here + 1
        elif star >= 0:
            here, mark = star + 1, mark + 1  # the last % takes one character more; earlier ones need not change
            at = mark
        else:
            return False
    return not pattern[here:].strip("%")


def null(attribute: Attribute) -> Predicate:
    """Return the rows in which a column is NULL; none where `otherwise` names what they count as."""
    return masked(attribute, further_mask(attribute, MISSING))


def _known(attribute: Attribute) -> int:
    """Return the cells in which a comparison with a column is true or false; elsewhere it is NULL."""
    return ((1 << cells(attribute)) - 1) & ~unknown(attribute)


def day(text: str) -> dt.date:
    """Return the day that a text writes down."""
    try:
        if _DAY.fullmatch(text):
            return dt.date.fromisoformat(text)
    except ValueError:
        pass
    raise Mismatch(f"'{text[:40]}' is no day.", "Write year, month and day, such as '2024-01-31'.")


def _constants(left: Constant, relation: str, right: Constant) -> Truth:
    """Return the comparison of two constants: everywhere the same."""
    if isinstance(left, dt.date) and isinstance(right, str):
        right = day(right)
    elif isinstance(right, dt.date) and isinstance(left, str):
        left = day(left)
    numbers = (bool, Fraction)
    if type(left) is not type(right) and not (isinstance(left, numbers) and isinstance(right, numbers)):
        raise Mismatch(
            "Two different kinds of values are compared.", "Compare a number with a number, a text with a text."
        )
    return TRUE if HOLDS[relation](left, right) else FALSE


def _cell(attribute: Attribute, relation: str, cell: str) -> Truth:
    """Return the comparison with one of the two further cells, which have no order."""
    if relation not in {"=", "<>"}:
        raise Mismatch(f"{cell} has no order.", f"Write `{attribute.name} = '{cell}'`.")
    try:
        true = further_cell(attribute, cell)
    except InvalidArgument as fault:
        raise Mismatch(f"`{attribute.name}` is not compared with this:", f"{fault.accepted}.") from None
    everything = (1 << cells(attribute)) - 1
    false = everything & ~true & ~(0 if cell == MISSING else further_mask(attribute, MISSING))
    pair = masked(attribute, true), masked(attribute, false)
    return pair if relation == "=" else (pair[1], pair[0])


def _mask(subject: Subject, relation: str, constant: Constant) -> int:
    """Return the cells in which a comparison is true."""
    attribute = subject.attribute
    if subject.part is not None and isinstance(attribute, Date):
        return _part_mask(attribute, subject.part, relation, constant)
    if isinstance(attribute, Date) and isinstance(constant, str):
        constant = day(constant)
    if not subject.plain:
        if isinstance(constant, bool) or not isinstance(constant, Fraction):
            raise Mismatch(f"`{attribute.name}` is reckoned with as a number.", "Compare it with a number.")
        if subject.scale == 0:
            return (1 << attribute.size) - 1 if HOLDS[relation](subject.shift, constant) else 0
        relation = MIRRORED.get(relation, relation) if subject.scale < 0 else relation
        constant = (constant - subject.shift) / subject.scale
    try:
        return compare(attribute, relation, constant) if constant is not None else 0
    except InvalidArgument as fault:
        raise Mismatch(f"`{attribute.name}` is not compared with this:", f"{fault.accepted}.") from None


def _part_mask(attribute: Date, part: str, relation: str, constant: Constant) -> int:
    """Return the days whose part stands in a relation to a number, or to a day."""
    if part.startswith("trunc"):
        place = day(constant) if isinstance(constant, str) else constant
        if not isinstance(place, dt.date):
            raise Mismatch(f"`{attribute.name}` is a date.", "Compare it with a day, such as '2024-01-31'.")
        number = Fraction(place.toordinal())
    elif isinstance(constant, bool) or not isinstance(constant, Fraction):
        raise Mismatch(f"The {part} of a date is a number.", "Compare it with a number without quotes.")
    else:
        number = constant
    limited = min(max(number, Fraction(-_FAR)), Fraction(_FAR))
    if limited.denominator != 1 and relation in {"=", "<>"}:
        return 0 if relation == "=" else (1 << attribute.size) - 1
    whole = math.ceil(limited) if relation in {"<", ">="} else math.floor(limited)
    holds = HOLDS[relation](values(attribute, part), whole)
    return int.from_bytes(np.packbits(holds, bitorder="little").tobytes(), "little")
