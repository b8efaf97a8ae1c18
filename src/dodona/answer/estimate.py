"""Estimates and rows: noisy values with their intervals, and how they read. They need no library, local or remote."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from fractions import Fraction
from typing import Literal

from dodona.errors import InvalidRequest, printable
from dodona.numbers import format_decimal
from dodona.privacy.accuracy import Against
from dodona.schema.attributes import MISSING, OUTSIDE, RESERVED_LABELS, Label

# --- Readable numbers: no more digits than the error supports. ---


_MOST_DIGITS = 12
_ALL = -1


def decimal_places(within: float) -> int:
    """Return how many decimal places show an error of this size to two digits; -1, meaning all, if there is none.

    >>> [decimal_places(within) for within in (250.0, 31.0, 1.96, 0.034, 0.0)]
    [0, 0, 1, 3, -1]
    """
    if within == 0:
        return _ALL
    if math.isinf(within):
        return 0
    return min(_MOST_DIGITS, max(0, 1 - math.floor(math.log10(within))))


def format_number(value: float | Fraction | date | str | None, digits: int) -> str:
    """Return a value with this many decimal places; integers are shown without any.

    >>> [format_number(value, 2) for value in (12.3456, 7, Fraction(1, 3), float("inf"), None)]
    ['12.35', '7', '0.33', '∞', '?']
    """
    match value:
        case None:
            return "?"
        case str():
            return value
        case date():
            return str(value)
        case int():
            return str(value)
        case _:
            number = float(value)
            if math.isinf(number):
                return "∞" if number > 0 else "-∞"
            text = f"{number:.12g}" if digits == _ALL else f"{number:.{digits}f}"
            return text.removeprefix("-") if float(text) == 0 else text


def round_outward(low: float, high: float, within: float) -> tuple[float, float]:
    """Return an interval that contains this one, with ends rounded to the digits that an error of this size supports.

    >>> round_outward(12.3456, 15.6789, 1.7)
    (12.3, 15.7)
    """
    if not math.isfinite(low) or not math.isfinite(high):
        return low, high
    scale = 10 ** decimal_places(within)
    return math.floor(low * scale) / scale, math.ceil(high * scale) / scale


# --- An estimate: a noisy value and an interval for the exact value at the confidence. ---


EstimateValue = int | float | Fraction | date
"""What a value may be; dates and times come from quantiles of these."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its interval. Counts and sums are exact numbers; an unknown bound is infinite.

    >>> print(Estimate(1203, 1150, 1256))
    1203 ± 53
    >>> Estimate(Fraction(5, 2), Fraction(1), Fraction(3)).within
    1.5
    """

    value: EstimateValue | None
    """None where the noise leaves nothing to say, as for a division by a noisy 0."""
    low: EstimateValue
    high: EstimateValue

    @property
    def within(self) -> float:
        """The largest distance to the exact value, at the confidence; in days for a date or a time."""
        if self.value is None:
            return math.inf
        return max(_distance(self.low, self.value), _distance(self.value, self.high))

    def __float__(self) -> float:
        return math.nan if self.value is None else to_float(self.value)

    def __str__(self) -> str:
        within = self.within
        if self.value is None or math.isinf(within):
            return self._span(3)
        digits = decimal_places(within)
        if isinstance(self.value, date):
            return self._span(digits)
        below, above = _distance(self.low, self.value), _distance(self.value, self.high)
        if max(below, above) > 1.1 * min(below, above) + 1e-9:
            return self._span(digits)
        whole = isinstance(self.value, int) and within.is_integer()
        return f"{format_number(self.value, digits)} ± {format_number(int(within) if whole else within, digits)}"

    def _span(self, digits: int) -> str:
        value, low, high = (format_number(end, digits) for end in (self.value, self.low, self.high))
        return f"{value} (from {low} to {high})"


def to_float(measure: EstimateValue) -> float:
    """Return a value as a float; dates and times count days.

    >>> to_float(Fraction(1, 4)), to_float(date(1, 1, 2)), to_float(datetime(1, 1, 2, 6))
    (0.25, 2.0, 2.25)
    """
    if isinstance(measure, datetime):
        return measure.toordinal() + (measure - datetime.combine(measure, time())) / timedelta(days=1)
    return float(measure.toordinal()) if isinstance(measure, date) else float(measure)


def moment_of(days: float) -> datetime:
    """Return the time that so many days mean, to the second.

    >>> moment_of(2.25)
    datetime.datetime(1, 1, 2, 6, 0)
    """
    return datetime.fromordinal(1) + timedelta(seconds=round((days - 1) * 86_400))


def _distance(low: EstimateValue, high: EstimateValue) -> float:
    """Return high - low; exact numbers are subtracted before rounding."""
    if isinstance(low, int | Fraction) and isinstance(high, int | Fraction):
        return float(high - low)
    return to_float(high) - to_float(low)


# --- The rows of an answer. ---


AnswerSource = Literal["replayed", "derived", "measured", "model"]
"""Where an answer came from."""
KeyValue = str | int | float | bool | date | None
"""What a group stands for, to a program."""
Cell = Estimate | Label | float | None
"""An estimate; or what is known beforehand: the label of a group, a number or a text that was written down. Of what is
computed from answers also a number without an interval, or None for NULL."""


@dataclass(frozen=True, slots=True)
class Row:
    """One group: its labels in the order of SELECT, and a cell for each displayed column."""

    keys: tuple[Label, ...]
    """As people read them; keys that are not shown come last."""
    cells: tuple[Cell, ...]
    values: tuple[KeyValue, ...]
    """The same keys for programs: texts, whole numbers, floats, truths and dates, and None for `<missing>`."""

    @property
    def estimates(self) -> tuple[Estimate, ...]:
        """The cells that are estimates."""
        return tuple(cell for cell in self.cells if isinstance(cell, Estimate))


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """What the intervals of an answer hold for."""

    against: Against = Against.TABLE
    together: bool = False
    """Whether they hold simultaneously, for all groups and columns."""
    any_choice: bool = False
    """Whether they hold simultaneously for every question about the released values."""
    selected: bool = False
    """Whether noisy values decided which rows are shown. Simultaneous intervals cover the other rows too."""

    @property
    def beforehand(self) -> bool:
        """Whether an interval is only known to hold for a row that was named beforehand."""
        return self.selected and not self.together and not self.any_choice


SELECTED_WARNING = (
    "Noisy values decided which rows are shown, so the largest look larger than they are. Take simultaneous() for "
    "intervals that hold for the rows shown."
)


@dataclass(frozen=True, slots=True)
class ColumnAccuracy:
    """The accuracy of a column's values at the answer's confidence."""

    column: str
    worst: float
    typical: float
    """The lower median of all rows: of two labels beside two groups that nobody is in, that of a label."""


def column_accuracy(
    columns: Sequence[str], estimated: Sequence[bool], rows: Sequence[Row]
) -> tuple[ColumnAccuracy, ...]:
    """Return the worst and the typical half-width of each column of estimates."""
    accuracies = []
    for number, name in enumerate(columns):
        cells = (row.cells[number] for row in rows)
        widths = [cell.within for cell in cells if isinstance(cell, Estimate)]
        if estimated[number] and widths:
            accuracies.append(ColumnAccuracy(name, max(widths), statistics.median_low(widths)))
    return tuple(accuracies)


def single_estimate(rows: Sequence[Row]) -> Estimate:
    """Return the single estimate of an answer with one cell."""
    cells = [estimate for row in rows for estimate in row.estimates]
    if len(cells) != 1:
        raise InvalidRequest(
            f"This answer has {len(cells)} estimates, in {len(rows)} rows; `value` is for one. "
            "Read `rows`, or take `to_pandas()`."
        )
    return cells[0]


def round_estimate(cell: Estimate, *, least: float) -> Estimate:
    """Return an estimate for display: only the digits its error supports, ends rounded outward, no negative counts."""
    if cell.value is None or isinstance(cell.value, date) or math.isinf(cell.within):
        return cell
    low, high = round_outward(to_float(cell.low), to_float(cell.high), cell.within)
    whole = isinstance(cell.value, int)
    ends = [max(end, least) for end in (low, high)]
    value = max(to_float(cell.value) if whole else round(to_float(cell.value), decimal_places(cell.within)), least)
    return Estimate(int(value), *map(int, ends)) if whole else Estimate(value, *ends)


def label_text(label: Label | float) -> str:
    """Return a label in readable form.

    >>> label_text(Fraction(1, 4)), label_text(Fraction("0.3333333333333333")), label_text(1 / 3), label_text("female")
    ('0.25', '0.333333333333', '0.333333333333', 'female')
    """
    match label:
        case bool():
            return "true" if label else "false"
        case Fraction():
            rounded = f"{float(label):.12g}"  # a computed number read back from JSON has all digits of a double
            return format_decimal(label) if label.denominator == 1 or Fraction(rounded) == label else rounded
        case float():
            return f"{label:.12g}"
        case datetime():
            return label.isoformat(" ")
        case date():
            return label.isoformat()
        case _:
            return printable(str(label)).replace("\n", "\\n")


def computed_values(labels: tuple[Label, ...]) -> tuple[KeyValue, ...]:
    """Return the typed values of computed labels, with None for `<missing>`; `<outside>` stays among texts alone.

    Among texts, such as "1 to 9", all others are texts too.

    >>> computed_values((0, 10, Fraction(5, 2), "<missing>", "<outside>"))
    (0.0, 10.0, 2.5, None, None)
    >>> computed_values(("1 to 9", 10, "<missing>"))
    ('1 to 9', '10', None)
    """
    texts = any(isinstance(label, str) and label not in RESERVED_LABELS for label in labels)
    parts = any(isinstance(label, Fraction) for label in labels)

    def typed(label: Label) -> KeyValue:
        if label == MISSING or (label == OUTSIDE and not texts):
            return None
        if texts:
            return label_text(label)
        return float(label) if parts and isinstance(label, int | Fraction) and not isinstance(label, bool) else label  # type: ignore[return-value]

    return tuple(map(typed, labels))
