"""Recorded answers: an answer read back from the JSON that `to_json` wrote, with everything that was in it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self

from dodona.answer.display import JSON_FORMAT, Displayed, RecordedQuestion
from dodona.answer.estimate import (
    AnswerSource,
    Cell,
    Coverage,
    Estimate,
    EstimateValue,
    KeyValue,
    Row,
    round_estimate,
)
from dodona.errors import InvalidRequest
from dodona.privacy.accuracy import Against
from dodona.privacy.budget import FREE, Price
from dodona.schema.attributes import Label

if TYPE_CHECKING:
    from dodona.answer.offer import Offer

_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)  # beside days, a column may show spans of them, and `<missing>`


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class RecordedAnswer(Displayed):
    """An answer as it was recorded: the same rows, intervals and words, but nothing to compute others from.

    Exact fractions were rounded to doubles when they were written.
    """

    question: RecordedQuestion
    columns: tuple[str, ...]
    estimated: tuple[bool, ...]
    """Whether each column holds estimates; other columns hold labels or constants."""
    approximate: tuple[bool, ...]
    """Whether some intervals of each column are approximate."""
    key_places: tuple[int | None, ...]
    """For each column, which of a row's keys it shows; None if it shows none."""
    lower_bounds: tuple[float, ...]
    """For each column, the least number that any table could have."""
    rows: tuple[Row, ...]
    confidence: float
    coverage: Coverage
    """What the intervals hold for."""
    source: AnswerSource
    price: Price
    mechanism: str
    theorem: str
    receipt: str | None
    head: str | None
    version: str | None
    stale: bool
    about: str
    warnings: tuple[str, ...]
    reused: bool

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Return the answer that `to_json` wrote."""
        return cls.from_document(json.loads(text))

    @classmethod
    def from_document(cls, document: Mapping[str, Any], **further: Any) -> Self:  # noqa: ANN401  fields of a subclass
        """Return the answer that a parsed JSON object holds; a subclass may have further fields."""
        if document.get("format") != JSON_FORMAT:
            raise InvalidRequest("This answer is of another version of Dodona. Install the version that wrote it.")
        columns = document["columns"]
        return cls(
            question=RecordedQuestion(document["question"]),
            columns=tuple(column["name"] for column in columns),
            estimated=tuple(column["kind"] == "estimate" for column in columns),
            approximate=tuple(column.get("approximate", False) for column in columns),
            key_places=tuple(column.get("key") for column in columns),
            lower_bounds=tuple(column.get("lower", -math.inf) for column in columns),
            rows=_read_rows(columns, document["rows"], document["keys"]),
            confidence=document["confidence"],
            coverage=Coverage(
                against=Against(document["against"]),
                together=document["simultaneous"],
                any_choice=document["any_choice"],
                selected=document.get("selected", False),
            ),
            source=document["source"],
            price=Price.from_document(document["price"]),
            mechanism=document["mechanism"],
            theorem=document["theorem"],
            receipt=document["receipt"],
            head=document["head"],
            version=document["version"],
            stale=document["stale"],
            about=document["about"],
            warnings=tuple(document["warnings"]),
            reused=document["reused"],
            **further,
        )

    def rounded(self) -> Self:
        """Return the answer for display: fewer digits, no negative counts. The values are no longer unbiased."""

        def shown(row: Row) -> Row:
            pairs = zip(row.cells, self.lower_bounds, strict=True)
            cells = (round_estimate(cell, least=low) if isinstance(cell, Estimate) else cell for cell, low in pairs)
            return replace(row, cells=tuple(cells))

        return replace(self, rows=tuple(map(shown, self.rows)))


def explain_offer(offer: Offer, text: str, *, head: str | None, version: str | None) -> RecordedAnswer:
    """Return an offer as an answer of one column of text, as EXPLAIN shows it; it costs nothing."""
    lines = str(offer).splitlines()
    return RecordedAnswer(
        question=RecordedQuestion(text),
        columns=("explain",),
        estimated=(False,),
        approximate=(False,),
        key_places=(0,),
        lower_bounds=(-math.inf,),
        rows=tuple(Row((line,), (line,), (line,)) for line in lines),
        confidence=offer.confidence,
        coverage=Coverage(),
        source="derived",
        price=FREE,
        mechanism="none: nothing was measured",
        theorem="",
        receipt=None,
        head=head,
        version=version,
        stale=False,
        about=offer.about,
        warnings=(),
        reused=False,
    )


def _read_rows(
    columns: Sequence[Mapping[str, Any]], rows: Sequence[Sequence[Any]], keys: Sequence[Mapping[str, Any]]
) -> tuple[Row, ...]:
    """Return the rows with values of the types that they had."""
    days = [column.get("type") == "date" for column in columns]
    cells = [tuple(_read_cell(cell, day=day) for cell, day in zip(row, days, strict=True)) for row in rows]
    shown = {column["key"]: number for number, column in reversed(list(enumerate(columns))) if "key" in column}
    typed_rows = []
    for number, row in enumerate(cells):
        labels = (
            row[shown[place]]
            if place in shown
            else _read_label(key["labels"][number], day=key.get("label_type") == "date")
            for place, key in enumerate(keys)
        )
        values = (_read_key(key["values"][number], day=key.get("type") == "date") for key in keys)
        typed_rows.append(Row(tuple(label for label in labels if not isinstance(label, Estimate)), row, tuple(values)))
    return tuple(typed_rows)


def _read_day(text: str) -> date:
    """Return a day, or a time."""
    return datetime.fromisoformat(text) if "T" in text else date.fromisoformat(text)


def _read_cell(cell: Any, *, day: bool) -> Cell:  # noqa: ANN401  a JSON value
    if not isinstance(cell, dict):
        return _read_label(cell, day=day)
    value, low, high = (_read_number(cell[name], day=day) for name in ("value", "low", "high"))
    return Estimate(value, -math.inf if low is None else low, math.inf if high is None else high)


def _read_number(value: Any, *, day: bool) -> EstimateValue | None:  # noqa: ANN401  a JSON value
    return _read_day(value) if day and isinstance(value, str) else value


def _read_label(label: Any, *, day: bool) -> Label:  # noqa: ANN401  a JSON value
    """Return a label; numbers that are not whole are exact decimals, rounded to doubles when they were written."""
    if isinstance(label, float):
        return Fraction(repr(label))
    return _read_day(label) if day and isinstance(label, str) and _DAY.fullmatch(label.partition("T")[0]) else label


def _read_key(value: Any, *, day: bool) -> KeyValue:  # noqa: ANN401  a JSON value
    return _read_day(value) if day and isinstance(value, str) else value
