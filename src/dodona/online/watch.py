"""A watch: threshold alerts over counts, paid for when it is opened."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dodona.answer.price import Price
from dodona.exact import whole
from dodona.online.chance import prepaid
from dodona.online.count import counted
from dodona.query.question import Question
from dodona.trusted.alerts import Alerts
from dodona.trusted.threshold import Verdict

_FARTHEST = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """Ask as many counts as you like; it says which are above, until the last alert.

    It ends with this process, unless it was opened with a key: `above` with the same key goes on with what is left.
    """

    threshold: int
    price: Price
    within: float
    """Counts further from the threshold than this are told right, all of them, at the confidence."""
    confidence: float
    questions: int
    """For how many questions that holds."""
    alerts: Alerts
    read: Callable[[object], Question]
    about: str = ""
    """What it is about, where people are protected: how many rows of each count. Else nothing."""

    def __str__(self) -> str:
        right = f"of {self.questions:,} counts all are told right that are {self.within:.4g} away"
        about = f" {self.about}" if self.about else ""
        return f"Which counts are above {self.threshold:,} ({right}, at {self.confidence:.0%}; {self.price}).{about}"

    @property
    def left(self) -> int:
        """How many alerts it may still tell."""
        return self.alerts.left

    def ask(self, question: object, *, threshold: int | None = None) -> Verdict:
        """Return whether the count of a question is above the threshold, both with noise; no further charge.

        A question may have a threshold of its own.
        """
        query = counted(self.read(question))
        level = self.threshold if threshold is None else level_of(threshold)
        with prepaid():
            return self.alerts.ask(query, level)


def level_of(threshold: int) -> int:
    """Return a threshold that counts can be compared with."""
    return whole(threshold, argument="threshold", lower=-_FARTHEST, upper=_FARTHEST)
