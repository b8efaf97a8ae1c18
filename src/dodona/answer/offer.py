"""Offers: the price of an answer and its expected accuracy. Nothing is spent."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from html import escape
from typing import Any, Self

from dodona.answer.display import QuestionText, RecordedQuestion
from dodona.answer.estimate import AnswerSource, decimal_places, format_number
from dodona.errors import printable, printable_json
from dodona.numbers import format_percent
from dodona.privacy.budget import FREE, Price

_FORECAST = (
    "The accuracy of averages and the like is a forecast, from what is public or was released about the "
    "sizes of groups; where nothing is known, groups are assumed alike. A group of few rows gets a wider "
    "interval. The intervals of the answer always hold."
)


@dataclass(frozen=True, slots=True)
class ExpectedAccuracy:
    """The expected accuracy of a column, at the offer's confidence.

    >>> print(ExpectedAccuracy("stay", 4.0, 2.0, 9.0))
    stay within ±2.0 to ±9.0, depending on how many rows the group has
    """

    column: str
    within: float
    """What is most likely; of counts and sums, what is promised."""
    low: float | None = None
    """Where one number cannot be foreseen: the least of what is to be expected. Else None."""
    high: float | None = None
    """The most of what is to be expected, where `low` is the least."""
    because: str = "how many rows the group has"
    """What the width depends on, where there is a range."""

    def __str__(self) -> str:
        if math.isinf(self.within):
            return f"{self.column}: nothing could be said"
        if self.low is None or self.high is None:
            return f"{self.column} within ±{_round_half_width(self.within)}"
        low, high = _round_half_width(self.low), _round_half_width(self.high)
        return f"{self.column} within ±{low} to ±{high}, depending on {self.because}"


def _round_half_width(within: float) -> str:
    return format_number(within, max(decimal_places(within), 0))


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Offer:
    """A question, the way it would be answered, its price, and the expected accuracy."""

    question: QuestionText
    price: Price
    source: AnswerSource
    mechanism: str
    accuracy: tuple[ExpectedAccuracy, ...]
    confidence: float
    allowed: Fraction = Fraction(1)
    """What the call may take of the budget: the lesser of its highest price and of what is left."""
    explanation: str = ""
    foreseen: bool = False
    """Whether some columns are no counts or sums, so that their accuracy is foreseen and not promised."""
    about: str = ""
    """What answers are about, where people are protected: how many rows of each count. Else nothing."""
    alternatives: tuple[Mapping[str, str], ...] = ()
    """What the call could write instead, if it costs too much: an argument with its value, and perhaps its price."""

    @property
    def affordable(self) -> bool:
        """Whether it would be answered at this price."""
        return self.price.share <= self.allowed

    def explaining(self) -> Self:
        """Return the offer for EXPLAIN of what was asked: that is free, whatever the question costs."""
        priced = f"EXPLAIN is free; what it explains would take {format_percent(self.price.share)} of the budget."
        return replace(self, price=FREE, explanation=f"{priced} {self.explanation}".rstrip())

    def to_json(self) -> str:
        """Return the offer as JSON text; an accuracy of which nothing could be said is null."""
        document = {
            "question": self.question.text,
            "price": self.price.to_document(),
            "source": self.source,
            "mechanism": self.mechanism,
            "confidence": self.confidence,
            "accuracy": [
                {"column": accuracy.column, "within": _finite(accuracy.within)}
                | {"low": _finite(accuracy.low), "high": _finite(accuracy.high), "because": accuracy.because}
                for accuracy in self.accuracy
            ],
            "foreseen": self.foreseen,
            "allowed": str(self.allowed),
            "affordable": self.affordable,
            "explanation": self.explanation,
            "about": self.about,
            "alternatives": [dict(alternative) for alternative in self.alternatives],
        }
        return printable_json(json.dumps(document, ensure_ascii=False))

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Return the offer that `to_json` wrote."""
        document = json.loads(text)
        return cls(
            question=RecordedQuestion(document["question"]),
            price=Price.from_document(document["price"]),
            source=document["source"],
            mechanism=document["mechanism"],
            accuracy=tuple(map(_read_accuracy, document["accuracy"])),
            confidence=document["confidence"],
            allowed=Fraction(document["allowed"]),
            explanation=document["explanation"],
            foreseen=document["foreseen"],
            about=document["about"],
            alternatives=tuple(document.get("alternatives", ())),
        )

    def __str__(self) -> str:
        return "\n".join(self._lines())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        lines = "".join(f'<p style="margin:2px 0">{escape(line)}</p>' for line in self._lines())
        return f'<div style="font-family:sans-serif;font-size:13px">{lines}</div>'

    def _lines(self) -> list[str]:
        expected = ", ".join(map(str, self.accuracy))
        lines = [f"Offer: {self.question.text}"] if self.question.text else ["Offer"]
        lines.append(f"Price: {self.price}; nothing is spent yet.")
        if expected:
            lines.append(f"Expected: {expected}, each with probability {self.confidence:.15g} or more.")
            if self.foreseen:
                lines.append(_FORECAST)
        if self.about:
            lines.append(self.about)
        lines.append(f"Source: {self.source}. Mechanism: {self.mechanism}.")
        return [printable(line) for line in ([*lines, self.explanation] if self.explanation else lines)]


def _finite(number: float | None) -> float | None:
    return number if number is not None and math.isfinite(number) else None


def _read_accuracy(document: Mapping[str, Any]) -> ExpectedAccuracy:
    within, low, high = document["within"], document["low"], document["high"]
    if low is not None and high is None:
        high = math.inf
    return ExpectedAccuracy(
        document["column"], math.inf if within is None else within, low, high, because=document["because"]
    )
