"""Comparisons of leaves: where they are true and where they are false. Elsewhere they are NULL."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import partial

from dodona.errors import InvalidArgument
from dodona.query.column import COMPARATORS, comparison_mask, comparison_truth, require_special_cell, special_cell_mask
from dodona.query.predicate import (
    EVERYTHING,
    NOTHING,
    Predicate,
    among_mask,
    complement,
    conjunction,
    disjunction,
    non_negative,
    pack_bits,
)
from dodona.schema.attributes import MISSING, OUTSIDE, Attribute, Category, Date
from dodona.schema.encoding import read_boolean
from dodona.schema.moments import DAY_SECONDS
from dodona.sql.arithmetic import add, formula_of
from dodona.sql.calendar import Interval, date_part_values, parse_interval
from dodona.sql.scalar import (
    Computed,
    Constant,
    Formula,
    Leaf,
    Mapped,
    Mismatch,
    Outcome,
    Scalar,
    Subject,
    TooManyCombinations,
    is_unknown,
    leaf_columns,
    leaf_kind,
    leaf_present,
    leaf_truth,
    parse_moment,
    parse_signed,
    parse_time,
)
from dodona.sql.tables import apply_function, case_by_outcomes, common_unit, strict, tabulate

# --- Comparisons: where one leaf compares true with another, and where it compares false. ---


Truth = tuple[Predicate, Predicate]
"""Where a condition is true and where it is false. Elsewhere it is NULL."""
ALWAYS_NULL: Truth = (NOTHING, NOTHING)
ALWAYS_TRUE: Truth = (EVERYTHING, NOTHING)
ALWAYS_FALSE: Truth = (NOTHING, EVERYTHING)
MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""The relation with its sides swapped; = and <> are symmetric."""
_NEGATED = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_CELLS: tuple[Constant, ...] = (MISSING, OUTSIDE)
_FAR = 10**9
_LONGEST_PATTERN = 1_000


def compare_leaves(left: Leaf, relation: str, right: Leaf) -> Truth:
    """Return where `left relation right` is true and where it is false."""
    if not isinstance(right, Computed):
        return compare_leaf(left, relation, right)
    if not isinstance(left, Computed):
        return compare_leaf(right, MIRRORED.get(relation, relation), left)
    if is_unknown(left) or is_unknown(right):
        return ALWAYS_NULL
    kinds = {"date" if kind == "timestamp" else kind for kind in (leaf_kind(left), leaf_kind(right))}
    if len(kinds) > 1 and None not in kinds:
        listed = " with ".join(f"a {leaf_kind(leaf)}" for leaf in (left, right))
        raise Mismatch(f"This compares {listed}.", "Compare a number with a number, a text with a text.")
    formula, other = formula_of(left), formula_of(right)
    if formula is not None and other is not None:
        return _compare_formula(add(formula, other, -1), relation)
    if kinds == {"text"} and relation not in {"=", "<>"}:
        raise Mismatch("Labels have no order.", "Write = or <>.")
    compare = partial(_holds, relation)
    try:
        return leaf_truth(apply_function(strict(compare), (left, right))) or ALWAYS_NULL
    except TooManyCombinations:
        cases = case_by_outcomes(compare, left, right)
        if cases is None:
            raise
        return cases.where(partial(_is_leaf, value=True)), cases.where(partial(_is_leaf, value=False))


def _holds(relation: str, value: Constant, other: Constant) -> bool:
    return bool(COMPARATORS[relation](_sortable(value), _sortable(other)))


def _is_leaf(leaf: Leaf, *, value: bool) -> Predicate:
    return EVERYTHING if leaf is value else NOTHING


def _compare_formula(difference: Formula, relation: str) -> Truth:
    """Return where a difference compares true with 0, and where it compares false."""
    unit = common_unit([number for _, number in difference.terms])

    def holds(wanted: str) -> Predicate:
        polynomial = difference.polynomial(unit)
        match wanted:
            case ">=":
                return non_negative(polynomial)
            case ">":
                return non_negative(polynomial.plus(-1))
            case "<=":
                return non_negative(polynomial.negative())
            case "<":
                return non_negative(polynomial.negative().plus(-1))
            case "=":
                return conjunction(holds(">="), holds("<="))
            case _:
                return disjunction(holds(">"), holds("<"))

    try:
        return holds(relation), holds(_NEGATED[relation])
    except InvalidArgument as fault:
        raise Mismatch("These columns have too many digits to be compared exactly:", f"{fault.accepted}.") from None


def admit_texts(value: Scalar, *others: Sequence[Leaf]) -> Scalar:
    """Return a value that is compared with texts which all of some lists have, as `coalesce(x, '')` may be ''.

    Its columns are then compared by their labels, and these texts need not be among them.
    """
    first, *rest = ({leaf for leaf in leaves if isinstance(leaf, str)} for leaves in others)
    texts = first.intersection(*rest)

    def admitted(leaf: Leaf) -> Leaf:
        column = leaf.attribute if isinstance(leaf, Subject) and leaf.plain else None
        known = not isinstance(column, Category) or texts <= set(column.labels)
        return leaf if known or not isinstance(leaf, Subject) else tabulate(leaf)

    return value.mapped(admitted) if texts else value


def compare_leaf(leaf: Leaf, relation: str, constant: Constant) -> Truth:
    """Return where `leaf relation constant` is true and where it is false."""
    if leaf is None or constant is None or is_unknown(leaf):
        return ALWAYS_NULL
    if not isinstance(leaf, Computed):
        return _compare_constants(leaf, relation, constant)
    if isinstance(leaf, Subject) and isinstance(constant, str) and constant in _CELLS:
        return _compare_special_cell(leaf.attribute, relation, constant)
    relation, constant = _coerce(leaf, relation, constant)
    if isinstance(constant, Interval) and leaf_kind(leaf) == "number":
        days = Fraction(constant.length, DAY_SECONDS)
        written = str(days) if days.denominator == 1 else f"{days.numerator} / {days.denominator}"
        raise Mismatch(
            "This compares a number with an interval.", f"A difference of times is in days: write {written}."
        )
    if isinstance(leaf, Subject):
        return comparison_truth(leaf.attribute, _true_mask(leaf, relation, constant))
    formula, other = formula_of(leaf), formula_of(constant)
    if formula is not None and other is not None:
        return _compare_formula(add(formula, other, -1), relation)
    if not isinstance(leaf, Mapped) or type(constant) not in _COMPARABLE.get(leaf_kind(leaf) or "", ()):
        what = f"This compares a {leaf_kind(leaf) or 'value'} with something else."
        raise Mismatch(what, "Compare values of one kind.")
    holds = strict(lambda value: bool(COMPARATORS[relation](_sortable(value), _sortable(constant))))
    return leaf.where(lambda outcome: holds(outcome) is True), leaf.where(lambda outcome: holds(outcome) is False)


_COMPARABLE: dict[str, tuple[type, ...]] = {
    "number": (Fraction, bool),
    "boolean": (bool,),
    "date": (dt.date,),
    "timestamp": (dt.datetime,),
    "text": (str,),
    "interval": (Interval,),
}


def _sortable(value: Constant) -> Constant | int:
    """Return what a value is compared by: a day is its first moment, an interval its length."""
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return dt.datetime.combine(value, dt.time())
    return value.length if isinstance(value, Interval) else value


def _coerce(leaf: Leaf, relation: str, constant: Constant) -> tuple[str, Constant]:  # noqa: C901, PLR0911  one for each kind
    """Return the comparison with a constant of the leaf's kind, as SQL reads a text beside a number or a day."""
    match leaf_kind(leaf), constant:
        case "number", str():
            return relation, parse_signed(constant)
        case "date", str():
            day, later = parse_moment(constant)
            if later:  # a day is its first moment
                if relation in {"=", "<>"}:
                    raise Mismatch("A day is compared with a time of day.", "Write the day alone.")
                relation = {">=": ">", "<": "<="}.get(relation, relation)
            return relation, day
        case "date", dt.datetime():
            return _coerce(leaf, relation, constant.isoformat(" "))
        case "timestamp", str():
            return relation, parse_time(constant)
        case "timestamp", dt.date() if not isinstance(constant, dt.datetime):
            return relation, dt.datetime.combine(constant, dt.time())
        case "boolean", Fraction() if constant in {0, 1}:
            return relation, constant == 1
        case "boolean", str() if (truth := read_boolean(constant)) is not None:
            return relation, truth
        case "interval", str():
            interval = parse_interval(constant)
            if interval is None:
                raise Mismatch(f"'{constant[:40]}' is no interval.", "Write INTERVAL '7 days'.")
            return relation, interval
        case _:
            return relation, constant


def compare_any(leaf: Leaf, constants: Iterable[Constant]) -> Truth:
    """Return where a leaf equals one of some constants: all comparisons joined by OR."""
    truths, codes = list[Truth](), 0
    for constant in constants:
        if isinstance(leaf, Subject) and constant is not None and constant not in _CELLS:
            codes |= _true_mask(leaf, "=", _coerce(leaf, "=", constant)[1])
        else:
            truths.append(compare_leaf(leaf, "=", constant))
    if isinstance(leaf, Subject):
        truths.append(comparison_truth(leaf.attribute, codes))
    return disjunction(*(true for true, _ in truths)), conjunction(*(false for _, false in truths))


def match_like(leaf: Leaf, pattern: str, *, escape: str, folded: Callable[[str], str]) -> Truth:
    """Return where a text matches a pattern. An outside text is unknown, so it neither matches nor fails."""
    if leaf_kind(leaf) != "text" or not isinstance(leaf, Subject | Mapped):
        raise Mismatch("LIKE compares texts, and this is none.", "Write = or BETWEEN.")
    if len(pattern) > _LONGEST_PATTERN:
        raise Mismatch("This pattern is longer than any label.", "Write a shorter one.")
    if len(escape) > 1:
        raise Mismatch("ESCAPE is followed by one character.", "Write one that no label has, such as ESCAPE '!'.")
    wanted = read_pattern(folded(pattern), folded(escape))
    table = tabulate(leaf)

    def matches(outcome: Outcome) -> bool | None:
        return matches_pattern(folded(outcome), wanted) if isinstance(outcome, str) else None

    return table.where(lambda outcome: matches(outcome) is True), table.where(lambda outcome: matches(outcome) is False)


def read_pattern(pattern: str, escape: str = "") -> tuple[str, ...]:
    """Return the signs of a LIKE pattern; one that is escaped, and so means itself, follows the escape character.

    >>> read_pattern("1_!%", "!")
    ('1', '_', '!%')
    """
    signs: list[str] = []
    for sign in pattern:
        if signs and signs[-1] == escape:
            signs[-1] += sign
        else:
            signs.append(sign)
    if signs and signs[-1] == escape:
        raise Mismatch("The pattern ends with the character of its ESCAPE.", "Write that character twice for itself.")
    return tuple(signs)


def matches_pattern(text: str, pattern: Sequence[str]) -> bool:
    """Whether a text matches a LIKE pattern: % is any text, _ any character. Time is bounded by the product of lengths.

    >>> matches_pattern("female", "%ma_e"), matches_pattern("female", "ma%"), matches_pattern("9%", ("9", "!%"))
    (True, False, True)
    """
    at = here = mark = 0
    star = -1
    while at < len(text):
        sign = pattern[here] if here < len(pattern) else None
        if sign == "%":
            star, mark, here = here, at, here + 1
        elif sign is not None and (sign == "_" or sign[-1] == text[at]):
            at, here = at + 1, here + 1
        elif star >= 0:
            here, mark = star + 1, mark + 1  # let the last % match one more character; earlier ones need not change
            at = mark
        else:
            return False
    return all(sign == "%" for sign in pattern[here:])


def null_predicate(leaf: Leaf) -> Predicate:
    """Return where a leaf is NULL. `<outside>` is not NULL, although its value is unknown."""
    if isinstance(leaf, Mapped):
        return leaf.where(lambda outcome: outcome is None)
    if isinstance(leaf, Subject | Formula):
        return disjunction(*(missing_predicate(column) for column in leaf_columns(leaf)))
    return complement(leaf_present(leaf))


def missing_predicate(attribute: Attribute) -> Predicate:
    """Return the rows in which a column is NULL; none if `otherwise` says what they count as."""
    return among_mask(attribute, special_cell_mask(attribute, MISSING))


def _compare_constants(left: Constant, relation: str, right: Constant) -> Truth:
    """Compare two constants: the result is the same in every row."""
    if isinstance(left, dt.date) and isinstance(right, str):
        right = parse_time(right)
    elif isinstance(right, dt.date) and isinstance(left, str):
        left = parse_time(left)
    if isinstance(left, dt.date) and isinstance(right, dt.date):
        days = (left, right)
        left, right = (
            moment if isinstance(moment, dt.datetime) else dt.datetime.combine(moment, dt.time()) for moment in days
        )
    numbers = (bool, Fraction)
    if type(left) is not type(right) and not (isinstance(left, numbers) and isinstance(right, numbers)):
        instead = "Compare a number with a number, a text with a text."
        raise Mismatch("Two different kinds of values are compared.", instead)
    return ALWAYS_TRUE if COMPARATORS[relation](_sortable(left), _sortable(right)) else ALWAYS_FALSE


def _compare_special_cell(attribute: Attribute, relation: str, cell: str) -> Truth:
    """Compare with `<missing>` or `<outside>`, which have no order."""
    if relation not in {"=", "<>"}:
        raise Mismatch(f"{cell} has no order.", f"Write `{attribute.name} = '{cell}'`.")
    try:
        true = require_special_cell(attribute, cell)
    except InvalidArgument as fault:
        raise Mismatch(f"`{attribute.name}` is not compared with this:", f"{fault.accepted}.") from None
    false = ((1 << attribute.cells) - 1) & ~true & ~(0 if cell == MISSING else special_cell_mask(attribute, MISSING))
    pair = among_mask(attribute, true), among_mask(attribute, false)
    return pair if relation == "=" else (pair[1], pair[0])


def _true_mask(subject: Subject, relation: str, constant: Constant) -> int:
    """Return the cells in which a comparison is true."""
    attribute = subject.attribute
    if subject.part is not None and isinstance(attribute, Date):
        return _date_part_mask(attribute, subject.part, relation, constant)
    if not subject.plain:
        if isinstance(constant, bool) or not isinstance(constant, Fraction):
            raise Mismatch(f"`{attribute.name}` is used as a number.", "Compare it with a number.")
        if subject.scale == 0:
            return (1 << attribute.size) - 1 if COMPARATORS[relation](subject.shift, constant) else 0
        relation = MIRRORED.get(relation, relation) if subject.scale < 0 else relation
        constant = (constant - subject.shift) / subject.scale
    try:
        if constant is None or isinstance(constant, Interval):
            return 0
        return comparison_mask(attribute, relation, constant)
    except InvalidArgument as fault:
        raise Mismatch(f"`{attribute.name}` is not compared with this:", f"{fault.accepted}.") from None


def _date_part_mask(attribute: Date, part: str, relation: str, constant: Constant) -> int:
    """Return the days whose date part compares true with a number or a day."""
    if part.startswith("trunc"):
        if not isinstance(constant, dt.date):
            raise Mismatch(f"`{attribute.name}` is a date.", "Compare it with a day, such as '2024-01-31'.")
        number = Fraction(constant.toordinal())
    elif isinstance(constant, bool) or not isinstance(constant, Fraction):
        raise Mismatch(f"The {part} of a date is a number.", "Compare it with a number.")
    else:
        number = constant
    limited = min(max(number, Fraction(-(_FAR**2))), Fraction(_FAR**2))
    if limited.denominator != 1 and relation in {"=", "<>"}:
        return 0 if relation == "=" else (1 << attribute.size) - 1
    whole = math.ceil(limited) if relation in {"<", ">="} else math.floor(limited)
    holds = COMPARATORS[relation](date_part_values(attribute, part), whole)
    return pack_bits(holds)
