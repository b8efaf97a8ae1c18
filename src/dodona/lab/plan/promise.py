"""A promise: the error that a mechanism guarantees in a setting, and what it assumes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

from dodona.errors import InvalidRequest
from dodona.lab.plan.setting import Setting
from dodona.numbers import format_fraction as exact_shown
from dodona.numbers import format_percent

_MANY = 10**9


class Task(Enum):
    """What is wanted from the questions."""

    ANSWERS = "answers"
    """All answers."""
    LARGEST = "largest"
    """Which question has the largest answer."""
    ABOVE = "above"
    """Which questions are above a threshold, if few are."""


class Adaptivity(Enum):
    """When the questions must be known."""

    IN_TURN = "in turn"
    """One by one: each may depend on earlier answers."""
    TOGETHER = "together"
    """All before the first answer."""


@dataclass(frozen=True, slots=True)
class FormulaResult:
    """The result of a formula in a setting."""

    within: float
    """As a share of the rows; infinite if the formula does not apply."""
    law: str
    """The noise or the design, in words."""
    runs: bool = True
    """Whether it can be run at all: some mechanisms are only theorems."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedMechanism:
    """A mechanism for planning: its name, its purpose and its formula."""

    name: str
    title: str
    task: Task
    adaptivity: Adaptivity
    theorem: str
    formula: Callable[[Setting], FormulaResult]
    short: str = ""
    """The name within a sentence, if the title is long."""

    @property
    def spoken_name(self) -> str:
        """The short name, or the title."""
        return self.short or self.title


@dataclass(frozen=True, slots=True)
class Promise:
    """All answers are within this share of the rows, at the setting's confidence."""

    method: PlannedMechanism
    within: float
    law: str
    runs: bool

    @property
    def holds(self) -> bool:
        """Whether it says anything: any two shares differ by at most 1."""
        return self.within < 1

    def rows(self, setting: Setting) -> float:
        """Return the error in rows."""
        return self.within * setting.rows if math.isfinite(self.within) else math.inf


class Unsuitable(InvalidRequest):
    """A mechanism has no guarantee in a setting; the message says what would work."""

    code = "unsuitable"

    def __init__(self, reason: str) -> None:
        """Say what is missing."""
        self.reason = reason
        super().__init__(f"{reason[0].upper()}{reason[1:]}.")


def format_share(share: float) -> str:
    """Return a share of the rows for display.

    >>> format_share(0.00541), format_share(0.2301), format_share(2.5), format_share(3e-7)
    ('0.541%', '23%', 'nothing', 'less than 0.0001%')
    """
    return format_percent(share) if share < 1 else "nothing"


def format_count(number: int) -> str:
    """Return an integer for display: large powers of two and of ten as powers, others in digits.

    >>> format_count(1024), format_count(2**40), format_count(10**12), format_count(10**12 + 7)
    ('1,024', '2^40', '10^12', '1e+12')
    """
    return f"{number:,}" if number < _MANY else exact_shown(Fraction(number)) if _plain(number) else f"{number:.4g}"


def format_small(number: float) -> str:
    """Return a small number for display.

    >>> format_small(1e-6), format_small(0.5)
    ('1e-6', '0.5')
    """
    return f"{number:g}".replace("e-0", "e-")


def _plain(number: int) -> bool:
    """Return whether it is a power of two or of ten."""
    return number & (number - 1) == 0 or number == 10 ** (len(str(number)) - 1)
