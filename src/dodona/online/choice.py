"""A choice: what `choose` tells."""

from __future__ import annotations

from dataclasses import dataclass

from dodona.answer.price import Price
from dodona.errors import printable


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
    """What it is about, where people are protected: how many rows of each count. Else nothing."""

    @property
    def name(self) -> str:
        """The first choice."""
        return self.names[0]

    def __str__(self) -> str:
        best = f"each within {self.within:.4g} of the best that was left, at {self.confidence:.0%}"
        about = f" {self.about}" if self.about else ""
        return f"{printable(', '.join(self.names))} ({best}; {self.price}){about}"
