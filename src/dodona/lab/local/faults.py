"""Errors about surveys, answers and reports."""

from __future__ import annotations

from dodona.errors import InvalidRequest


class CollidingLabels(InvalidRequest):
    """Two labels of one alphabet cannot be distinguished."""

    code = "colliding-labels"

    def __init__(self, first: str, second: str, *, why: str) -> None:
        """Name both and say what to do."""
        self.labels = (first, second)
        super().__init__(f"The labels {first!r} and {second!r} cannot be distinguished: {why}. Nothing was drawn.")


class UnknownValue(InvalidRequest):
    """An answer that the question does not offer."""

    code = "unknown-value"

    def __init__(self, question: str, accepted: str) -> None:
        """Say which answers are valid; the answer itself is private and not repeated."""
        super().__init__(f"The question {question!r} has no such answer: {accepted}. Nothing was drawn.")


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


class TooManyOutcomes(InvalidRequest):
    """A channel has too many reports to enumerate."""

    code = "too-many-outcomes"

    def __init__(self, outcomes: int, limit: int) -> None:
        """Say how many there would be and what to use instead."""
        super().__init__(
            f"The channel has {outcomes} reports, and at most {limit} can be enumerated. "
            "Take fewer labels or bits; `channel.ratio` is the same number by formula."
        )
