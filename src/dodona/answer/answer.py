"""The answer: values with intervals, their source, price and receipt.

Rows and intervals are computed when they are first read. Noisy values are never rounded or adjusted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Self

from dodona.answer import mechanism
from dodona.answer.display import Displayed
from dodona.answer.estimate import (
    SELECTED_WARNING,
    AnswerSource,
    Coverage,
    Estimate,
    Row,
    to_float,
)
from dodona.answer.laws import DerivedValues, Evidence, Recalled, guess_warnings
from dodona.answer.ratios import share_bounds
from dodona.answer.rows import displayed_columns, key_columns, lower_bound, make_rows, null_keys_note, selects_by_noise
from dodona.answer.view import View
from dodona.errors import InvalidRequest
from dodona.numbers import format_decimal
from dodona.privacy.accuracy import Against, to_failure_probability, validate_count
from dodona.privacy.budget import Price
from dodona.privacy.measurement import DrawCounts
from dodona.query.query import Query, ValueWeight
from dodona.query.question import Comparison, KeyLabel, Logic, Mean, Question, Total
from dodona.query.question import LiteralExpression as Written
from dodona.schema.attributes import Number

_REUSE_WARNING = (
    "This reuses noise of earlier answers. If you ask because of what they said, as for the largest group, take "
    "any_choice(), or ask with fresh=True."
)

_COARSE = 0.2
"""A step that is a larger part of an interval's half width is mentioned: it shifts an average by half of that."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Answer(Displayed):
    """An answer. It is evaluated lazily; noisy values are never rounded or adjusted."""

    measured: Evidence
    """What it is read from: what was measured, or what follows from earlier releases."""
    price: Price
    view: View
    source: AnswerSource = "measured"
    receipt: str | None = None
    """The id of the receipt that bought it."""
    head: str | None = None
    """The head of the ledger after it was answered."""
    version: str | None = None
    """The version of the data that it is about."""
    stale: bool = False
    """Whether the data have a newer version."""
    notes: tuple[str, ...] = ()
    about: str = ""
    """What it is about, where people are protected: how many rows of each count. Else nothing."""
    reused: bool = False
    """Whether it is read from earlier releases, and not from new noise alone."""
    draws: DrawCounts | None = None
    """How many numbers were released so far, this answer's among them."""
    recall: Callable[[Query], Recalled] | None = None
    """Gives how many numbers are released by now, and each block of a query as it was itself released."""
    _rows: tuple[Row, ...] | None = field(init=False, default=None)

    @property
    def question(self) -> Question:
        """The question that was asked."""
        return self.measured.question

    @property
    def confidence(self) -> float:
        """The least probability that an interval contains the exact value."""
        return self.view.confidence

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(column.name for column in displayed_columns(self.question))

    @property
    def estimated(self) -> tuple[bool, ...]:
        """Whether each column holds estimates; other columns hold labels or constants."""
        known = (KeyLabel, Written, Comparison, Logic)
        return tuple(not isinstance(column.expression, known) for column in displayed_columns(self.question))

    @property
    def approximate(self) -> tuple[bool, ...]:
        """Whether intervals of each column are approximate: those of a question's own columns never are."""
        return (False,) * len(self.columns)

    @property
    def key_places(self) -> tuple[int | None, ...]:
        """For each column, which of a row's keys it shows; None if it shows none."""
        keys, shown = key_columns(self.question), displayed_columns(self.question)
        return tuple(
            keys.index((column.expression, column.read_as)) if isinstance(column.expression, KeyLabel) else None
            for column in shown
        )

    @property
    def lower_bounds(self) -> tuple[float, ...]:
        """For each column, the least number that any table could have."""
        return tuple(lower_bound(column.expression, self.question) for column in displayed_columns(self.question))

    @property
    def coverage(self) -> Coverage:
        """What the intervals hold for."""
        view = self.view
        return Coverage(
            against=view.against,
            together=view.together,
            any_choice=view.draws is not None,
            selected=selects_by_noise(self.question),
        )

    @property
    def rows(self) -> tuple[Row, ...]:
        """The displayed rows, in order."""
        rows = self._rows
        if rows is None:
            rows = make_rows(self.measured, self.view)
            object.__setattr__(self, "_rows", rows)
        return rows

    @property
    def mechanism(self) -> str:
        """The added noise, in words."""
        return mechanism.describe_mechanism(self.measured)

    @property
    def theorem(self) -> str:
        """The ids of the theory pages: on the privacy of the noise, then on the intervals."""
        return mechanism.theorem_ids(self.measured)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader should know before using the values."""
        stale = (f"This is as of version {self.version}: the data have changed since.",) if self.stale else ()
        chosen = (_REUSE_WARNING,) if self.reused and self.view.draws is None else ()
        if self.source == "model":
            guess, chosen = guess_warnings(self.measured, to_failure_probability(self.confidence)), ()
        else:
            guess = ()
        selected = (SELECTED_WARNING,) if self.coverage.beforehand and any(self.estimated) else ()
        lost = (*self._untold(), *self._rounded_down(), *null_keys_note(self.question, self.rows))
        return (*self.question.warnings, *self.notes, *stale, *guess, *lost, *selected, *chosen)

    def _untold(self) -> Iterator[str]:
        """Yield a warning for each average or share with groups of too few rows to say more than the public range."""
        for number, column in enumerate(displayed_columns(self.question)):
            asked = column.expression
            if isinstance(asked, Mean):
                bounds: tuple[float, float] | None = float(asked.lower), float(asked.upper)
            else:
                bounds = share_bounds(asked, self.question.query)
            if bounds is not None:
                ends = [(cell.low, cell.high) for row in self.rows if isinstance(cell := row.cells[number], Estimate)]
                lost = sum(1 for end in ends if end == bounds)
                if lost:
                    few = f"{lost} of {len(ends)} values rest on too few rows"
                    yield f"{column.name}: {few} to say more than the public range."

    def _rounded_down(self) -> Iterator[str]:
        """Yield a warning for each average and sum of a column whose steps are coarse beside the intervals.

        Values count as the step below them. A sum is of at least as many rows as it takes of the largest value.
        """
        domain, blocks = self.question.query.domain, self.question.query.blocks
        for number, column in enumerate(displayed_columns(self.question)):
            match column.expression:
                case Mean(total=block):
                    of = "the average of the values themselves may be up to {} higher"
                case Total(block=block):
                    of = "the sum of the values themselves may be up to {} a row higher"
                case _:
                    continue
            weight = blocks[block].weight
            plain = isinstance(weight, ValueWeight) and weight.power == 1 and blocks[block].table is None
            values = domain[weight.attribute] if isinstance(weight, ValueWeight) and plain else None
            if not isinstance(values, Number):
                continue
            shown = [cell for row in self.rows if isinstance(cell := row.cells[number], Estimate)]
            if isinstance(column.expression, Total):
                largest = float(max(abs(values.lower), abs(values.upper)))
                shifts = [float(values.step) * abs(to_float(cell.value or 0)) / largest for cell in shown]
            else:
                shifts = [float(values.step)] * len(shown)
            if any(shift > cell.within * _COARSE for shift, cell in zip(shifts, shown, strict=True)):
                step = format_decimal(values.step)
                yield f"{column.name}: {values.name} counts in steps of {step}, rounded down: {of.format(step)}."

    @property
    def population(self) -> Self:
        """The answer for the population that the rows were sampled from: intervals include the sampling error.

        A count or sum is the expected value for a table of as many rows. Rows are assumed to be drawn independently, so
        it is refused if a person may have several.
        """
        if self.view.rows > 1:
            raise InvalidRequest(
                "Rows of one person are not drawn independently, so no interval for the population is known. Ask of "
                "a dataset with one row a person: rows = 1 in [unit]."
            )
        return self._seen(replace(self.view, against=Against.POPULATION), now=True)

    def simultaneous(self) -> Self:
        """Return the answer with intervals that hold simultaneously for all groups and columns."""
        return self._seen(replace(self.view, together=True))

    def any_choice(self) -> Self:
        """Return the answer with intervals that hold simultaneously for every question about the released values.

        They are valid even for a question chosen because of other answers: the largest group, the largest half.
        Counts, sums and arithmetic of them have such intervals; they are wider.

        Theorem: any-choice
        """
        if self.view.against is Against.POPULATION:
            raise InvalidRequest(
                "Intervals for any choice are about the table. Take any_choice() of the answer itself."
            )
        if self.draws is None:
            raise InvalidRequest("How many numbers were released so far is not known here. Ask a curator.")
        measured, draws = self.measured, self.draws
        if isinstance(measured, DerivedValues) and self.recall is not None:
            recalled = self.recall(measured.question.query)
            measured, draws = replace(measured, recalled=recalled), recalled.draws
        chosen = replace(self, measured=measured)
        return chosen._seen(replace(self.view, draws=draws, together=False), now=True)  # noqa: SLF001  its own

    def rounded(self) -> Self:
        """Return the answer for display: fewer digits, no negative counts. The values are no longer unbiased."""
        return self._seen(replace(self.view, rounded=True))

    def _seen(self, view: View, *, now: bool = False) -> Self:
        answer = replace(self, view=view)
        if now:
            _ = answer.rows  # so that missing intervals are refused here and not when printing
        return answer


@lru_cache(maxsize=256)
def table_view(confidence: float = 0.95, size: int | None = None, rows: int = 1) -> View:
    """Return the view of single intervals for the table, cached because answers share it.

    `size` is the public number of rows, where there is one, and `rows` the largest number of rows of a person.
    """
    to_failure_probability(confidence)
    public = None if size is None else validate_count(size, argument="size")
    return View(confidence=float(confidence), size=public, rows=validate_count(rows, argument="rows"))
