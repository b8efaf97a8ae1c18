"""Accuracy: how large the error of an answer may be, and with what confidence."""

import math
from dataclasses import dataclass
from enum import Enum
from numbers import Real

from dodona.errors import InvalidArgument
from dodona.numbers import to_integer

_MOST = 1 << 62


class Against(Enum):
    """What an answer is compared with."""

    TABLE = "table"
    """The exact answer on the current rows."""
    POPULATION = "population"
    """The expected answer over tables sampled from the same population."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """The error is at most `within`, in the answer's unit, with probability at least `confidence`."""

    within: float
    confidence: float = 0.95
    expected: float | None = None
    """Bound on the mean absolute error of one answer, if known."""
    against: Against = Against.TABLE

    def __post_init__(self) -> None:
        """Validate the tolerance and the confidence."""
        to_failure_probability(self.confidence)
        if not _is_number(self.within) or not 0 <= self.within < math.inf:
            raise InvalidArgument("within", self.within, "write a number from 0 up, in the answer's unit")
        if not isinstance(self.against, Against):
            raise InvalidArgument("against", self.against, "write Against.TABLE or Against.POPULATION")


def to_failure_probability(confidence: float) -> float:
    """Return 1 - confidence, for a confidence that stays strictly between 0 and 1 after rounding."""
    if not _is_number(confidence) or not 0 < 1 - float(confidence) < 1:
        raise InvalidArgument("confidence", confidence, "write a number between 0 and 1, such as 0.95")
    return 1 - float(confidence)


def sampling_error(failing: float, *, answers: int, sample: int) -> float:
    """Return the sampling error of counts over `sample` independent rows, with failure probability `failing`.

    Theorem: sampling-error
    """
    rows = validate_count(sample, argument="sample")
    return math.sqrt(rows * math.log(2 * validate_count(answers, argument="answers") / failing) / 2)


def validate_count(value: int, *, argument: str, upper: int = _MOST) -> int:
    """Return a validated count: an integer of at least 1."""
    plain = type(value) is int and 1 <= value <= upper
    return value if plain else to_integer(value, argument=argument, lower=1, upper=upper)


def validate_table_target(target: Accuracy) -> Accuracy:
    """Return a target that noise alone can meet; a target against the population would need the number of rows."""
    if target.against is not Against.TABLE:
        accepted = "write a target against the table; `accuracy(sample=...)` says what that means for the population"
        raise InvalidArgument("against", target.against, accepted)
    return target


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)
