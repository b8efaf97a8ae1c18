"""What was prepared: a workload that was declared, and what was bought so that all of it follows."""

from __future__ import annotations

from dataclasses import dataclass

from dodona.answer.price import Price


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """How many questions are now free, and what that cost."""

    questions: int
    price: Price
    bought: str

    def __str__(self) -> str:
        return f"Prepared {self.questions} questions. Price: {self.price}. Bought: {self.bought}."

    __repr__ = __str__
