"""What leaves a respondent's device: one report, or many in a block, with a canonical JSON encoding."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np

from dodona.errors import InvalidRequest
from dodona.lab.local.channel import Words

FORMAT = 1
_ROWS = 1 << 13  # single reports that are counted at a time
_HEX = re.compile(r"(?:[0-9a-f]{16}){1,65536}", re.ASCII)
_KEYS = {"channel", "format", "question", "words"}


class BadReport(InvalidRequest):
    """A report that this question's channel cannot have sent."""

    code = "bad-report"

    def __init__(self, why: str, *, number: int | None = None) -> None:
        """Say which report it is and what is wrong with it."""
        self.number = number
        where = "The report" if number is None else f"Report {number}"
        super().__init__(f"{where} cannot be used: {why}. No report was counted.")


class NoReports(InvalidRequest):
    """An estimate was requested without any reports."""

    code = "no-reports"

    def __init__(self, question: str) -> None:
        """Say how many are needed."""
        super().__init__(f"Nobody has answered {question!r}: an estimate needs at least one report.")


@dataclass(frozen=True, slots=True)
class Report:
    """One respondent's report: safe to send, to store and to display."""

    question: str
    channel: str
    """The digest of the question, so that reports of two questions or two privacy losses are never mixed."""
    words: tuple[int, ...]

    def to_json(self) -> str:
        """Return the canonical JSON. Words are in hexadecimal, because JavaScript's numbers hold 53 bits."""
        words = "".join(f"{word:016x}" for word in self.words)
        fields = {"channel": self.channel, "format": FORMAT, "question": self.question, "words": words}
        return json.dumps(fields, sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the report that a text encodes."""
        try:
            fields = json.loads(text)
        except (ValueError, TypeError, RecursionError):
            raise BadReport("it is not JSON") from None
        if not isinstance(fields, dict) or fields.keys() != _KEYS:
            raise BadReport("it has other fields than channel, format, question and words")
        if type(fields["format"]) is not int or fields["format"] != FORMAT:
            raise BadReport(f"its format is not {FORMAT}; use the version that wrote it")
        question, channel, words = fields["question"], fields["channel"], fields["words"]
        if not all(isinstance(field, str) for field in (question, channel, words)) or not _HEX.fullmatch(words):
            raise BadReport("its question, channel or words is not the text that it should be")
        return cls(question, channel, tuple(int(words[at : at + 16], 16) for at in range(0, len(words), 16)))


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Reports of many respondents, one in each row of words."""

    question: str
    channel: str
    words: Words

    def __len__(self) -> int:
        return int(self.words.shape[0])

    def __iter__(self) -> Iterator[Report]:
        return (Report(self.question, self.channel, tuple(row)) for row in self.words.tolist())


def blocks(reports: Iterable[Report | Batch], *, question: str, channel: str, width: int) -> Iterator[Batch]:
    """Yield reports in blocks; one that belongs to another question is refused with its number."""
    seen, waiting = 0, list[Report]()
    for report in (reports,) if isinstance(reports, Report | Batch) else reports:
        if not isinstance(report, Report | Batch):
            raise BadReport("it is no report: write `Report.from_json(text)`", number=seen)
        if report.question != question or report.channel != channel:
            raise BadReport("it answers another question, or this one with other settings", number=seen)
        columns = len(report.words) if isinstance(report, Report) else report.words.shape[1]
        if columns != width:
            raise BadReport("it is not as long as this question's reports", number=seen)
        if isinstance(report, Report):
            waiting.append(report)
            seen += 1
        if waiting and (isinstance(report, Batch) or len(waiting) == _ROWS):
            yield _gather(waiting, seen)
            waiting = []
        if isinstance(report, Batch):
            seen += len(report)
            yield report
    if waiting:
        yield _gather(waiting, seen)


def _gather(reports: list[Report], last: int) -> Batch:
    """Return reports as rows; `last` is the number of the one after them."""
    try:
        words = np.array([report.words for report in reports], dtype=np.uint64)
    except (OverflowError, TypeError, ValueError):
        raise BadReport("it, or one just before it, holds what is no word of 64 bits", number=last - 1) from None
    return Batch(reports[0].question, reports[0].channel, words)
