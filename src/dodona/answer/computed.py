"""Computed answers: what a statement computes from the answers to its questions, with intervals through it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Self, cast

import numpy as np

from dodona.answer import outer
from dodona.answer.answer import Answer
from dodona.answer.display import Displayed
from dodona.answer.estimate import (
    SELECTED_WARNING,
    AnswerSource,
    Cell,
    Coverage,
    Estimate,
    KeyValue,
    Row,
    moment_of,
    round_estimate,
)
from dodona.answer.redraws import (
    DRAWS,
    FEWER_DRAWS,
    MANY_VALUES,
    RedrawnPart,
    ResultBand,
    redraw_parts,
    result_band,
    value_columns,
)
from dodona.answer.released import match_rows, redrawn_rows, released_rows, to_doubles
from dodona.answer.rows import null_keys_note
from dodona.answer.view import View
from dodona.errors import InvalidRequest
from dodona.numbers import Doubles
from dodona.privacy.accuracy import to_failure_probability
from dodona.privacy.budget import Price
from dodona.query.question import Question
from dodona.query.statement import RELATION, Statement
from dodona.schema.attributes import Label

if TYPE_CHECKING:
    import pyarrow as pa

_MOST_REDRAWN = 2_000_000
_LAST_DAY = date.max.toordinal()


_SOURCES: tuple[AnswerSource, ...] = ("model", "measured", "derived", "replayed")
_NO_INTERVAL = "{}: this depends on the order of noisy values, so no interval is known; near ties it may be wrong."
_DECIDED = "{}: decided by noisy values, so it has no interval; near a limit it may be wrong."
_UNTOLD = "Some cells have no interval: their rows cannot be told apart, or too few redraws have them."
_APPROXIMATE = (
    "{}: computed from noisy values in a way without an exact law; its intervals are approximate, "
    "from {:,} redraws of the noise."
)
_TOO_LARGE = "The result is too large to draw its noise again, so what is not a released value has no interval."
_MODEL = "The released values are a model's guess, so nothing that is computed from them has an interval."


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ComputedAnswer(Displayed):
    """The answer to a statement: its result is computed at once, its intervals when they are first read."""

    question: Statement
    """The statement that was asked."""
    parts: tuple[Answer, ...]
    """The answers to its questions."""
    view: View
    result: pa.Table
    """What the outer half computed from the released values, with the columns that tell rows apart."""
    _read: tuple[tuple[Row, ...], tuple[bool, ...], tuple[str, ...], tuple[bool, ...]] | None = field(
        init=False, default=None
    )

    @classmethod
    def compute(cls, statement: Statement, parts: Sequence[Answer]) -> Self:
        """Return the answer from the answers to the questions of a statement."""
        import pyarrow as pa

        relations = {f"{RELATION}{number}": pa.table(released_rows(part)) for number, part in enumerate(parts)}
        result = outer.run(statement.sql, relations)
        return cls(question=statement, parts=tuple(parts), view=parts[0].view, result=result)

    # What it is about, and what it cost.

    @property
    def price(self) -> Price:
        """The price of all questions together; they are bought at once."""
        return max((part.price for part in self.parts), key=lambda price: price.share)

    @property
    def source(self) -> AnswerSource:
        """Where the released values came from: the least certain source of all questions."""
        return next(source for source in _SOURCES if any(part.source == source for part in self.parts))

    @property
    def receipt(self) -> str | None:
        """The id of the receipt that bought it."""
        bought = [part.receipt for part in self.parts if part.receipt is not None and part.price.share > 0]
        return next(iter((*bought, *(part.receipt for part in self.parts if part.receipt is not None))), None)

    @property
    def head(self) -> str | None:
        """The head of the ledger after it was answered."""
        return self.parts[-1].head

    @property
    def version(self) -> str | None:
        """The version of the data that it is about."""
        return self.parts[0].version

    @property
    def stale(self) -> bool:
        """Whether the data have a newer version."""
        return any(part.stale for part in self.parts)

    @property
    def about(self) -> str:
        """What it is about, where people are protected. Else nothing."""
        return self.parts[0].about

    @property
    def reused(self) -> bool:
        """Whether it is read from numbers that were told before."""
        return any(part.reused for part in self.parts)

    @property
    def mechanism(self) -> str:
        """The added noise, in words."""
        return "; ".join(dict.fromkeys(part.mechanism for part in self.parts))

    @property
    def theorem(self) -> str:
        """The ids of the theory pages: on the privacy of the noise, then on the intervals."""
        pages = dict.fromkeys(name for part in self.parts for name in part.theorem.split(", "))
        return ", ".join((*pages, "redraws") if any(self.approximate) else pages)

    # The table.

    @property
    def confidence(self) -> float:
        """The probability that an interval contains the exact value."""
        return self.view.confidence

    @property
    def coverage(self) -> Coverage:
        """What the intervals hold for."""
        selected = self.question.selected_from > 0
        return Coverage(against=self.view.against, together=self.view.together, selected=selected)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        names = self.result.column_names
        return tuple(names[: len(names) - self.question.identity])

    @property
    def estimated(self) -> tuple[bool, ...]:
        """Whether each column holds estimates; other columns hold labels, or numbers without an interval."""
        return self._contents()[1]

    @property
    def approximate(self) -> tuple[bool, ...]:
        """Whether some intervals of each column are approximate: read off redraws of the noise."""
        return self._contents()[3]

    @property
    def key_places(self) -> tuple[int | None, ...]:
        """For each column, which of a row's keys it shows: every column without estimates is one."""
        places = iter(range(len(self.columns)))
        return tuple(None if estimated else next(places) for estimated in self.estimated)

    @property
    def lower_bounds(self) -> tuple[float, ...]:
        """For each column, the least number that any table could have; none is known for what is computed."""
        return (-math.inf,) * len(self.columns)

    @property
    def rows(self) -> tuple[Row, ...]:
        """The displayed rows, in order."""
        rows = self._contents()[0]
        if not self.view.rounded:
            return rows

        def shown(cell: Cell) -> Cell:
            return round_estimate(cell, least=-math.inf) if isinstance(cell, Estimate) else cell

        return tuple(replace(row, cells=tuple(map(shown, row.cells))) for row in rows)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader should know before using the values."""
        selected = (SELECTED_WARNING,) if self.coverage.beforehand and any(self.estimated) else ()
        answer_warnings = (*self.question.warnings, *self._contents()[2], *selected)
        untold = {note for part in self.parts for note in null_keys_note(part.question, part.rows)}
        if untold and self._has_alike_rows():
            untold = set()
        rest = (warning for part in self.parts for warning in part.warnings if warning not in untold)
        return tuple(dict.fromkeys((*answer_warnings, *rest)))

    def _has_alike_rows(self) -> bool:
        """Whether two rows with NULL in a key have the same keys."""
        keys = [row.values for row in self._contents()[0] if None in row.values]
        return len(set(keys)) < len(keys)

    def simultaneous(self) -> Self:
        """Return the answer with intervals that hold simultaneously for all rows and columns."""
        return replace(self, view=replace(self.view, together=True))

    @property
    def population(self) -> Self:
        """Refused: the sampling error of what is computed from answers is not known."""
        raise InvalidRequest(
            "What is computed from answers has no interval for the population. Ask for its counts, sums and averages."
        )

    def any_choice(self) -> Self:
        """Refused: intervals for any choice are known for counts, sums and arithmetic of them."""
        raise InvalidRequest(
            "What is computed from answers has no intervals for any choice. Ask for its counts and sums, or with "
            "fresh=True."
        )

    def rounded(self) -> Self:
        """Return the answer for display: only the digits that its error supports."""
        return replace(self, view=replace(self.view, rounded=True))

    # Intervals.

    def _contents(self) -> tuple[tuple[Row, ...], tuple[bool, ...], tuple[str, ...], tuple[bool, ...]]:
        if self._read is None:
            object.__setattr__(self, "_read", self._compute_contents())
        return cast("tuple[tuple[Row, ...], tuple[bool, ...], tuple[str, ...], tuple[bool, ...]]", self._read)

    def _compute_contents(self) -> tuple[tuple[Row, ...], tuple[bool, ...], tuple[str, ...], tuple[bool, ...]]:
        numeric = [place for place in range(len(self.columns)) if self._is_number(place)]
        bands, draws, notes = self._bands(numeric)
        cells: list[list[Cell]] = []
        estimated, approximate = [], []
        for place, name in enumerate(self.columns):
            column = self.question.columns[place]
            plain = self.result.column(place).to_pylist()
            band = bands.get(place)
            moving = band is not None and not bool(np.all(band.steady))
            if column.noisy and (column.ranked or place not in numeric):
                notes.append((_NO_INTERVAL if column.ranked else _DECIDED).format(name))
            if band is not None and moving and bool(np.any(band.approximate)):
                notes.append(_APPROXIMATE.format(name, draws))
            approximate.append(band is not None and moving and bool(np.any(band.approximate)))
            estimated.append(moving and not column.end)
            if band is None or not moving:
                cells.append([_label(value) for value in plain])
            elif column.end:
                ends = band.band.low if column.end == "low" else band.band.high
                cells.append([end if math.isfinite(end) else None for end in ends.tolist()])
            else:
                kinds = {type(value) for value in plain}
                day = moment_of if datetime in kinds else _day_of if date in kinds else None
                whole = all(value is None or type(value) is int for value in plain)
                cells.append([_estimate(band, row, day=day, whole=whole) for row in range(len(plain))])
        rows = []
        for row_cells in zip(*cells, strict=True) if cells else ():
            labels = tuple(cell for cell, is_estimate in zip(row_cells, estimated, strict=True) if not is_estimate)
            rows.append(
                Row(
                    cast("tuple[Label, ...]", labels),
                    tuple(row_cells),
                    cast("tuple[KeyValue, ...]", tuple(map(_key, labels))),
                )
            )
        return tuple(rows), tuple(estimated), tuple(dict.fromkeys(notes)), tuple(approximate)

    def _is_number(self, place: int) -> bool:
        import pyarrow as pa

        kind, column = self.result.schema.field(place).type, self.question.columns[place]
        number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
        number = number or pa.types.is_date(kind) or pa.types.is_timestamp(kind)
        return bool(number and column.noisy and not column.ranked)

    def _bands(self, places: Sequence[int]) -> tuple[dict[int, ResultBand], int, list[str]]:
        """Return the intervals of the noisy columns of numbers, the number of redraws, and notes."""
        if not places or not self.result.num_rows:
            return {}, 0, []
        if self.source == "model":
            return {place: self._untold(place) for place in places}, 0, [_MODEL]
        failing = to_failure_probability(self.view.confidence)
        if self.view.together:
            failing /= self._candidates() * len(places)
        seen = [replace(part, view=replace(part.view, confidence=1 - failing)) for part in self.parts]
        released = sum(len(part.rows) * len(value_columns(part)) for part in seen)
        draws = DRAWS if released <= MANY_VALUES else FEWER_DRAWS
        redrawn = redraw_parts(seen, draws, failing)
        drawn = self._drawn(seen, redrawn, draws, places)
        if drawn is None:
            return {place: self._untold(place) for place in places}, draws, [_TOO_LARGE]
        bands, notes = {}, []
        for place in places:
            value = to_doubles(self.result.column(place))
            bands[place] = result_band(value, drawn[place], redrawn, failing)
            if np.any(np.isinf(bands[place].band.low) & np.isfinite(value)):
                notes.append(_UNTOLD)
        return bands, draws, notes

    def _candidates(self) -> int:
        """Return how many rows simultaneous intervals cover: also those that noisy values have left out."""
        released = sum(len(part.rows) for part in self.parts)
        return max(int(self.result.num_rows), int(released**self.question.selected_from))

    def _untold(self, place: int) -> ResultBand:
        from dodona.answer.bands import Band

        value = to_doubles(self.result.column(place))
        endless = np.full_like(value, np.inf)
        nothing = np.zeros(len(value), dtype=np.bool_)
        return ResultBand(Band(value, -endless, endless), nothing, nothing)

    def _drawn(
        self, parts: Sequence[Answer], redrawn: Sequence[RedrawnPart], draws: int, places: Sequence[int]
    ) -> dict[int, Doubles] | None:
        """Return the redraws of each column by row of the result; None if there are too many."""
        total = draws + 3  # the redraws, two corners, and the released values themselves
        pairs = enumerate(zip(parts, redrawn, strict=True))
        relations = {f"{RELATION}{number}": redrawn_rows(part, drawn, total) for number, (part, drawn) in pairs}
        redraws = outer.run_redraws(self.question.redraw, relations, total, most=_MOST_REDRAWN)
        if redraws is None:
            return None
        identity = [
            place
            for place in range(self.result.num_columns)
            if place >= len(self.columns) or not self.question.columns[place].noisy
        ]
        numbers = redraws.column(0).to_numpy()
        matched = match_rows(self.result, redraws, numbers, identity, places)
        kept = matched >= 0
        result = {}
        for place in places:
            matrix = np.full((total, self.result.num_rows), np.nan)
            matrix[numbers[kept], matched[kept]] = to_doubles(redraws.column(place + 1))[kept]
            result[place] = matrix[:-1]
        return result


def _estimate(band: ResultBand, row: int, *, day: Callable[[float], date] | None, whole: bool) -> Cell:
    value, low, high = (float(ends[row]) for ends in (band.band.value, band.band.low, band.band.high))
    if math.isnan(value):
        return None if band.steady[row] else Estimate(None, -math.inf, math.inf)
    ends = (value, low, high)
    if day is not None:
        return Estimate(*(day(min(max(end, 1), _LAST_DAY)) if math.isfinite(end) else end for end in ends))
    if (whole or not band.approximate[row]) and all(end.is_integer() and abs(end) < 2**53 for end in ends):
        return Estimate(*map(int, ends))
    return Estimate(value, low, high)


def _day_of(number: float) -> date:
    return date.fromordinal(round(number))


def _label(value: object) -> Cell:
    match value:
        case float() if math.isnan(value) or math.isinf(value):
            return None
        case Decimal():
            return Fraction(value)
        case None | bool() | int() | float() | str() | date():
            return value
        case _:
            return str(value)


def _key(label: object) -> KeyValue:
    return float(label) if isinstance(label, Fraction) else cast("KeyValue", label)


def statement_parts(asked: Question | Statement) -> tuple[Question, ...]:
    """Return the questions that are asked for a question or a statement."""
    return asked.parts if isinstance(asked, Statement) else (asked,)


def assemble_answers(
    asked: Sequence[Question | Statement], answers: Sequence[Answer]
) -> tuple[Answer | ComputedAnswer, ...]:
    """Return one answer for each question or statement, from the answers to all their questions."""
    assembled: list[Answer | ComputedAnswer] = []
    start = 0
    for question in asked:
        parts = answers[start : start + len(statement_parts(question))]
        start += len(parts)
        assembled.append(ComputedAnswer.compute(question, parts) if isinstance(question, Statement) else parts[0])
    return tuple(assembled)
