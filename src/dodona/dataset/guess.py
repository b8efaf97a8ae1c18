"""Guesses: from the statistics of a column to a proposed declaration.

Whatever came from values rather than from names and types is marked for the owner's review. Bounds are rounded outward.
"""

import datetime as dt
import json
import re
import unicodedata
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction

from dodona.dataset.place import CERTAIN_MISSING_TEXTS, mixed_dates
from dodona.engines import inspection
from dodona.engines.cells import ColumnForm
from dodona.numbers import format_decimal
from dodona.privacy.events import ExponentialEvent
from dodona.privacy.selection import Exponential
from dodona.query.sensitivity import Sensitivity
from dodona.schema.attributes import MOST_VALUES, find_label_errors
from dodona.schema.names import is_name
from dodona.schema.schema import Neighbours

# --- Round bounds: a draft rounds outward, so that it reveals less about the extreme values. ---


_POINTS = 1_000
_FINEST_POWER = Fraction(1, 16)  # finer powers of two have too many digits to count as round
_FEW = 10
_FIVE = Fraction(5)


def round_bounds(least: Fraction, most: Fraction, *, whole: bool) -> tuple[Fraction, Fraction]:
    """Return bounds around two numbers, rounded outward at the scale of their difference.

    >>> [str(bound) for bound in round_bounds(Fraction(3), Fraction(97), whole=True)]
    ['0', '100']
    >>> [str(bound) for bound in round_bounds(Fraction("0.02"), Fraction("41.3"), whole=False)]
    ['0', '50']
    >>> [str(bound) for bound in round_bounds(Fraction(0), Fraction(104), whole=True)]
    ['0', '120']
    """
    span = most - least or abs(most) or Fraction(1)
    unit = _power_of_ten(span)
    if span < 2 * unit:  # else the bounds may be twice as far apart as the values
        unit /= 5
    if whole:
        unit = _FIVE if span < _FEW else max(unit, Fraction(1))
    lower, upper = least // unit * unit, -(-most // unit) * unit
    return Fraction(lower), Fraction(upper if upper > lower else lower + unit)


def round_step(lower: Fraction, upper: Fraction) -> Fraction:
    """Return a round step with about a thousand points from lower to upper: 2^-k if short, else 1, 2 or 5.

    Steps of 1/2, 1/4 and so on from an integer are exact in doubles.

    >>> str(round_step(Fraction(0), Fraction(400))), str(round_step(Fraction(0), Fraction(7000)))
    ('1/2', '10')
    """
    ideal = (upper - lower) / _POINTS
    if lower.denominator == upper.denominator == 1 and _FINEST_POWER <= ideal < 1:
        step = Fraction(1)
        while step / 2 >= ideal:
            step /= 2
        return step
    unit = _power_of_ten(ideal)
    return next(step for step in (unit, 2 * unit, 5 * unit, 10 * unit) if step >= ideal)


def whole_years(first: dt.date, last: dt.date) -> tuple[dt.date, dt.date]:
    """Extend a range of days to whole years.

    >>> [str(day) for day in whole_years(dt.date(2020, 3, 2), dt.date(2024, 11, 30))]
    ['2020-01-01', '2024-12-31']
    """
    return first.replace(month=1, day=1), last.replace(month=12, day=31)


def round_count(count: int) -> int:
    """Round a count to two significant digits, at least 1.

    >>> round_count(198_412), round_count(0), round_count(47)
    (200000, 1, 47)
    """
    digits = max(0, len(str(count)) - 2)
    return max(1, round(count, -digits))


CAPS = (1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 50, 100)
"""The caps on rows that a draft may propose: public, independent of the rows."""
CAP_EPSILON = Fraction(1, 10)
"""The maximum privacy cost of a proposed cap to any person."""
_INVERSE_TAIL_SHARE = 20  # all rows of 19 in 20 people should count
CAP_SCALE = 2 * _INVERSE_TAIL_SHARE / CAP_EPSILON


def cap_scores(crowds: list[tuple[int, int]]) -> list[int]:
    """Return a score for how well each cap keeps all rows of 19 in 20 people.

    It compares 20 times the number of people above the cap with the number of all people. `crowds` says how many people
    have one row, two rows and so on. One person moves a score by at most 20, so a selection by these scores, at the
    scale `CAP_SCALE`, costs `CAP_EPSILON`.

    >>> dict(zip(CAPS, cap_scores([(1, 90), (4, 10)]), strict=True))[1]
    -100

    Theorem: choice-privacy
    """
    people = sum(number for _, number in crowds)
    return [-abs(_INVERSE_TAIL_SHARE * sum(number for rows, number in crowds if rows > size) - people) for size in CAPS]


def cap_event(neighbours: Neighbours) -> ExponentialEvent:
    """Return the privacy cost of one selection of a cap, which the ledger begins with.

    >>> cap_event(Neighbours.ADD_REMOVE).epsilon == CAP_EPSILON
    True

    Theorem: choice-privacy
    """
    return Exponential(scale=CAP_SCALE).event(Sensitivity.scores(_INVERSE_TAIL_SHARE, neighbours))


def _power_of_ten(number: Fraction) -> Fraction:
    """Return the largest power of ten not above a positive number, exactly."""
    power = len(str(int(number))) - 1 if number >= 1 else -len(str(int(1 / number)))
    candidate = Fraction(10) ** power
    return candidate * 10 if candidate * 10 <= number else candidate


# --- Guesses: from the statistics of a column to a draft of its declaration. ---


MOST_LABELS = 50
_ROWS_A_LABEL = 3
"""A column in which most rows have a unique text is not a category, however few rows there are."""
_RARE = 10
_FAR = 2
_SAMPLE = 500
_LONGEST_SOURCE = 200
_NAMED = 5
_LONG = 50
_MOST_OF_THEM = Fraction(9, 10)  # of the texts must be numbers, or days, for a column of that kind
_CAMEL = re.compile(r"[a-z](?:Id|ID)$")
_ID_WORD = re.compile(r"(?:^|[_\-. ])(?:id|uuid|guid|ssn|mrn|email)$|^__index_level_\d+__$", re.IGNORECASE)
_PERSON = re.compile(
    r"(?i)(patient|person|people|user|customer|client|member|subject|respondent|employee|student|citizen|resident)"
)
_PERSON_ID = re.compile(rf"{_PERSON.pattern}(?:_?(?:id|no|nr|number|key))?$")


@dataclass(frozen=True, slots=True)
class DraftKey:
    """One line of a draft: a key, its value as TOML, and whether the value came from the rows."""

    name: str
    text: str
    from_data: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedColumn:
    """A column that a draft declares."""

    name: str
    kind: str
    keys: tuple[DraftKey, ...]
    private: str

    @property
    def renamed(self) -> bool:
        """Whether the column has a different name in the data."""
        return any(key.name == "source" for key in self.keys)


@dataclass(frozen=True, slots=True, kw_only=True)
class OmittedColumn:
    """A column that a draft omits, with a reason that may be public."""

    name: str
    reason: str
    private: str = ""


Guess = ProposedColumn | OmittedColumn


def guess_column(table: inspection.Inspection, profile: inspection.ColumnProfile) -> Guess:
    """Return a proposal for one column, under a name valid in questions."""
    reason = _reason_to_omit(profile)
    if reason is not None:
        return OmittedColumn(name=profile.name, reason=reason)
    proposal = _guess_by_kind(table, profile)
    if isinstance(proposal, OmittedColumn) or is_name(profile.name):
        return proposal
    kind, *rest = proposal.keys
    source = DraftKey("source", quote_toml(profile.name))
    return replace(proposal, name=plain_name(profile.name), keys=(kind, source, *rest))


def plain_name(text: str) -> str:
    """Return a valid column name similar to a text.

    >>> plain_name("hours-per-week"), plain_name("income >50K"), plain_name("2024"), plain_name("%")
    ('hours_per_week', 'income_50K', 'c_2024', 'c')
    """
    kept = re.sub(r"\W+", "_", unicodedata.normalize("NFKC", text)).strip("_")
    kept = kept if kept[:1].isidentifier() else f"c_{kept}".strip("_")
    while not is_name(kept):  # too long, or changed by NFKC normalization
        kept = kept[:-1] or "c"
    return kept


def _guess_by_kind(table: inspection.Inspection, profile: inspection.ColumnProfile) -> Guess:
    if profile.held.form is ColumnForm.TRUTH:
        return _guess_boolean(profile, "true and false", from_data=False)
    if profile.days is not None and profile.days.count >= _MOST_OF_THEM * profile.present:
        timed = profile.days.timed > 0
        return _guess_timestamp(profile, profile.days) if timed else _guess_date(profile, profile.days)
    if profile.held.form is ColumnForm.TEXT and sum(profile.truths) == profile.present and min(profile.truths) > 0:
        return _guess_boolean(profile, "texts that read as true and false", from_data=True)
    if profile.numbers is not None and profile.numbers.count >= _MOST_OF_THEM * profile.present:
        return _guess_numeric(profile, profile.numbers)
    return _guess_category(table, profile)


def _reason_to_omit(profile: inspection.ColumnProfile) -> str | None:
    """Return why a column is omitted before its values are examined; None if it is not."""
    if not profile.name.isprintable() or not 0 < len(profile.name) <= _LONGEST_SOURCE:
        return "its name is empty, too long, or has signs that cannot be printed; rename it in the data"
    if profile.held.form is None:
        return f"no kind of column is read from the type {_word(profile.held.type)}"
    if profile.held.form is not ColumnForm.TRUTH and profile.present == 0:
        return "it holds nothing that could be looked at; declare it by hand"
    if is_id(profile.name) and (is_person(profile.name) or profile.different > MOST_LABELS):
        return "it seems to tell people or rows apart; that is never answered"
    return None


def is_id(name: str) -> bool:
    """Whether a column's name suggests that it identifies people or rows.

    pandas calls an index that it writes beside the columns `__index_level_0__`.

    >>> [is_id(name) for name in ("patient_id", "userId", "id", "paid", "valid", "customer", "__index_level_0__")]
    [True, True, True, False, False, True, True]
    """
    return any(pattern.search(name) for pattern in (_ID_WORD, _CAMEL)) or _PERSON_ID.fullmatch(name) is not None


def is_person(name: str) -> bool:
    """Whether a column's name refers to people."""
    return _PERSON.search(name) is not None


def quote_toml(text: str) -> str:
    r"""Quote any text as TOML.

    >>> print(quote_toml('the "old" ward'))
    "the \"old\" ward"
    """
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def toml_text(value: object) -> str:
    """Return a value as TOML text."""
    match value:
        case list() | tuple():
            return f"[{', '.join(map(toml_text, value))}]"
        case str():
            return quote_toml(value)
        case bool():
            return str(value).lower()
        case int() | Decimal() | dt.date():
            return str(value)
        case _:
            return "a table"


def _guess_boolean(profile: inspection.ColumnProfile, private: str, *, from_data: bool) -> ProposedColumn:
    keys = (DraftKey("kind", '"boolean"', from_data=from_data),)
    return ProposedColumn(name=profile.name, kind="boolean", keys=keys, private=private)


def _guess_date(profile: inspection.ColumnProfile, days: inspection.DateProfile) -> ProposedColumn:
    lower, upper = whole_years(days.first, days.last)
    from_data = profile.held.form is ColumnForm.TEXT
    word = "month" if upper.year - lower.year < _LONG else "year"
    keys = (
        DraftKey("kind", '"date"', from_data=from_data),
        DraftKey("lower", str(lower), from_data=True),
        DraftKey("upper", str(upper), from_data=True),
        DraftKey("bins", f'"{word}"'),
    )
    return ProposedColumn(name=profile.name, kind="date", keys=keys, private=f"{days.first} to {days.last}")


def _guess_timestamp(profile: inspection.ColumnProfile, days: inspection.DateProfile) -> ProposedColumn:
    """Propose hours, grouped by day or month; the owner may choose another step."""
    lower, upper = whole_years(days.first, days.last)
    word = "day" if upper.year == lower.year else "month"
    keys = (
        DraftKey("kind", '"timestamp"', from_data=True),
        DraftKey("lower", f"{lower}T00:00:00", from_data=True),
        DraftKey("upper", f"{upper}T23:00:00", from_data=True),
        DraftKey("step", '"1 hour"'),
        DraftKey("bins", f'"{word}"'),
    )
    return ProposedColumn(name=profile.name, kind="timestamp", keys=keys, private=f"{days.first} to {days.last}")


def _guess_numeric(profile: inspection.ColumnProfile, numbers: inspection.NumberProfile) -> ProposedColumn:
    """Propose an integer if all numbers are whole and the range is small enough, otherwise a number on a grid."""
    private = f"{format_decimal(numbers.least)} to {format_decimal(numbers.most)}"
    from_data, whole = profile.held.form is ColumnForm.TEXT, numbers.whole == numbers.count
    if whole and numbers.least == 0 and numbers.most == 1 and profile.held.form is not ColumnForm.TEXT:
        return _guess_boolean(profile, "the numbers 0 and 1", from_data=True)
    least, most = numbers.least, numbers.most
    codes = _special_codes(numbers) if whole else ()
    if codes and numbers.inner is not None:
        least = numbers.inner[0] if least in codes else least
        most = numbers.inner[1] if most in codes else most
        listed = " and ".join(format_decimal(code) for code in codes)
        instead = "would count as the nearest bound: take them out of the data, or list them in `null` of a CSV column"
        private += f"; {listed} may stand for no answer, and {instead}"
    lower, upper = round_bounds(least, most, whole=whole)
    if whole and upper - lower < MOST_VALUES:
        points = (
            DraftKey("kind", '"integer"', from_data=from_data or profile.held.form is not ColumnForm.WHOLE),
            DraftKey("lower", str(lower), from_data=True),
            DraftKey("upper", str(upper), from_data=True),
        )
        return ProposedColumn(name=profile.name, kind="integer", keys=points, private=private)
    keys = (
        DraftKey("kind", '"number"', from_data=from_data),
        DraftKey("lower", f'"{format_decimal(lower)}"', from_data=True),
        DraftKey("upper", f'"{format_decimal(upper)}"', from_data=True),
        DraftKey("step", f'"{format_decimal(round_step(lower, upper))}"', from_data=True),
    )
    return ProposedColumn(name=profile.name, kind="number", keys=keys, private=private)


def _special_codes(numbers: inspection.NumberProfile) -> tuple[Fraction, ...]:
    """Return the extremes of whole numbers that look like codes for no answer, far from all others."""
    if numbers.inner is None:
        return ()
    first, last = numbers.inner
    low = numbers.least < 0 <= first and numbers.least in inspection.MISSING_VALUE_NUMBERS
    high = numbers.most > _FAR * last and numbers.most > _FAR and numbers.most in inspection.MISSING_VALUE_NUMBERS
    return (*((numbers.least,) if low else ()), *((numbers.most,) if high else ()))


def _guess_category(table: inspection.Inspection, profile: inspection.ColumnProfile) -> Guess:
    if profile.held.form is not ColumnForm.TEXT:
        return OmittedColumn(name=profile.name, reason="none of its values can be declared; look at it by hand")
    if profile.different > MOST_LABELS or profile.different * _ROWS_A_LABEL > profile.present:
        private = f"{profile.different:,} different texts"
        return OmittedColumn(name=profile.name, reason=_why_no_category(table, profile), private=private)
    counts = inspection.text_counts(table, profile.name, most=MOST_LABELS + 1)
    wrong = {place for place, _ in find_label_errors(text for text, _ in counts)}
    nothing = {place for place, (text, _) in enumerate(counts) if text.strip().lower() in CERTAIN_MISSING_TEXTS}
    if len(wrong | nothing) < len(counts):
        wrong |= nothing
    labels = [text for place, (text, _) in enumerate(counts) if place not in wrong]
    if not labels:
        return OmittedColumn(name=profile.name, reason="none of its texts may be a label")
    listed = f"[{', '.join(map(quote_toml, labels))}]"
    keys = DraftKey("kind", '"category"'), DraftKey("labels", listed, from_data=True)
    rare = [text for place, (text, times) in enumerate(counts) if times < _RARE and place not in wrong]
    parts = [f"{len(labels)} label{'s' * (len(labels) != 1)}"]
    if wrong:
        words = ", ".join(repr(counts[place][0]) for place in sorted(nothing & wrong)[:_NAMED])
        parts.append(f"{len(wrong)} that may not be labels were left out{f', such as {words}' if words else ''}")
    if rare:
        more = f" and {len(rare) - _NAMED} more" if len(rare) > _NAMED else ""
        parts.append(f"in fewer than {_RARE} rows: {', '.join(rare[:_NAMED])}{more}")
    return ProposedColumn(name=profile.name, kind="category", keys=keys, private="; ".join(parts))


def _why_no_category(table: inspection.Inspection, profile: inspection.ColumnProfile) -> str:
    """Return why a text column is omitted, without revealing a count."""
    some = [text for text, _ in inspection.text_counts(table, profile.name, most=_SAMPLE)]
    if mixed_dates(some):
        return "its texts look like days, in several orders or with years of two digits; write them as 2024-01-31"
    if profile.numbers is not None and profile.numbers.count * 2 >= profile.present:
        return "many of its texts are numbers and many are not; write numbers in one way"
    return "it has too many different texts for a category"


def _word(kind: str) -> str:
    """Return the first word of a type: the rest may be long."""
    return "list" if kind.endswith("]") else kind.partition("(")[0]
