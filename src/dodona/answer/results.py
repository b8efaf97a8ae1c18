"""What other calls than `ask` return: choices, prepared workloads, and answers of multiplicative weights."""

import json
import math
from dataclasses import asdict, dataclass
from typing import Literal, Self

from dodona.errors import printable, printable_json
from dodona.privacy.budget import Price


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The names of the chosen candidates, in the order in which they were chosen; their scores stay private."""

    names: tuple[str, ...]
    price: Price
    source: str
    mechanism: str
    within: float
    """How far a chosen candidate's score may be below the best that was left, in the scores' unit."""
    confidence: float
    receipt: str
    head: str
    about: str = ""
    """What it is about, where people are protected: how many rows of each count; and whether it promises nothing."""

    @property
    def name(self) -> str:
        """The first choice."""
        return self.names[0]

    def to_json(self) -> str:
        """Return the choice as JSON text."""
        document = asdict(self) | {"names": list(self.names), "price": self.price.to_document()}
        return printable_json(json.dumps(document, ensure_ascii=False))

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Return the choice that `to_json` wrote."""
        document = json.loads(text)
        return cls(**document | {"names": tuple(document["names"]), "price": Price.from_document(document["price"])})

    def __str__(self) -> str:
        best = f"each within {self.within:.4g} of the best that was left, at {self.confidence:.15g}"
        about = f" {self.about}" if self.about else ""
        return f"{printable(', '.join(self.names))} ({best}; {self.price}){about}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedWorkload:
    """The number of questions that are now free, and the price of that."""

    questions: int
    price: Price
    bought: str

    def to_json(self) -> str:
        """Return it as JSON text."""
        document = asdict(self) | {"price": self.price.to_document()}
        return printable_json(json.dumps(document, ensure_ascii=False))

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Return what `to_json` wrote."""
        document = json.loads(text)
        return cls(**document | {"price": Price.from_document(document["price"])})

    def __str__(self) -> str:
        noun = "question" if self.questions == 1 else "questions"
        return f"Prepared {self.questions} {noun}. Price: {self.price}. Bought: {self.bought}."

    __repr__ = __str__


@dataclass(frozen=True, slots=True)
class WeightsAnswer:
    """An answer, as a share of all rows."""

    value: float
    source: Literal["confirmed", "measured"]
    """Whether the hypothesis knew it, or it was answered anew."""
    within: float
    confidence: float
    """Of all answers together, for as many questions as the design is for."""
    rows: int

    @property
    def count(self) -> float:
        """The answer in rows."""
        return self.value * self.rows

    def __str__(self) -> str:
        return f"{self.count:.0f} ± {math.ceil(self.within * self.rows)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsAnswers:
    """The answers to a list of counts that were asked together, and their price."""

    answers: tuple[WeightsAnswer | None, ...]
    """In the order of the questions; None for those that were left when the last update was used."""
    columns: tuple[str, ...]
    within: float
    """How far off all answers together are at most, in rows, at the confidence."""
    confidence: float
    price: Price
    receipt: str
    advice: str
    """What it promises, and what would have promised more at its price."""
    rows: int
    """The declared number of rows, of which answers are shares."""
    about: str = ""
    """What it is about, where people are protected: how many rows of each count. Else nothing."""

    def to_json(self) -> str:
        """Return the answers as JSON text; their values are in rows."""
        document = asdict(self) | {"price": self.price.to_document()}
        document["answers"] = [
            None if answer is None else {"value": answer.count, "source": answer.source} for answer in self.answers
        ]
        return printable_json(json.dumps(document, ensure_ascii=False, allow_nan=False))

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Return the answers that `to_json` wrote."""
        document = json.loads(text)
        within, confidence, rows = document["within"], document["confidence"], document["rows"]
        answers = (
            None
            if entry is None
            else WeightsAnswer(entry["value"] / rows, entry["source"], within / rows, confidence, rows)
            for entry in document["answers"]
        )
        return cls(
            **document
            | {
                "answers": tuple(answers),
                "columns": tuple(document["columns"]),
                "price": Price.from_document(document["price"]),
            }
        )

    def __str__(self) -> str:
        about = f" {self.about}" if self.about else ""
        return f"{len(self.answers):,} counts over {', '.join(self.columns)} ({self.price}). {self.advice}{about}"
