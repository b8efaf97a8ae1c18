"""How far an answer may be off, and how sure that is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

from dodona.errors import InvalidArgument


class Against(Enum):
    """What an answer is compared with."""

    TABLE = "table"
    """The exact answer on the rows at hand."""
    POPULATION = "population"
    """What the answer would be on average over tables sampled like this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """The error is at most `within`, in the answer's unit, with probability at least `confidence`."""

    within: float
    confidence: float = 0.95
    expected: float | None = None
    """Bound on the mean absolute error of one answer, where it is known."""
    against: Against = Against.TABLE

    def __post_init__(self) -> None:
        """Refuse what no answer can promise."""
        failure(self.confidence)
        if not 0 <= self.within < math.inf:
            raise InvalidArgument("within", self.within, "write a number from 0 up, in the answer's unit")


def failure(confidence: float) -> float:
    """Return 1 - confidence, for a confidence strictly between 0 and 1."""
    if not 0 < confidence < 1:
        raise InvalidArgument("confidence", confidence, "write a number between 0 and 1, such as 0.95")
    return 1 - confidence


def sampling_error(failing: float, *, answers: int, sample: int) -> float:
    """Return how far counts over `sample` independent rows are from what is expected, but with probability `failing`.

    Theorem: sampling-error
    """
    if sample < 1:
        raise InvalidArgument("sample", sample, "write the number of rows that were sampled, from 1 up")
    return math.sqrt(sample * math.log(2 * answers / failing) / 2)


def answers_of(answers: int) -> int:
    """Return a number of answers, from 1 up."""
    if isinstance(answers, bool) or answers < 1:
        raise InvalidArgument("answers", answers, "write how many answers the error must hold for, from 1 up")
    return answers
