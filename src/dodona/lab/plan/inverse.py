"""Inverse planning: how many rows, what price or how few questions an error needs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from enum import Enum
from fractions import Fraction
from typing import assert_never

from dodona.errors import InvalidArgument, Refused
from dodona.lab.plan.forecast import METHODS, find_mechanism, promise_for
from dodona.lab.plan.promise import PlannedMechanism, Task, Unsuitable, format_share
from dodona.lab.plan.setting import MOST_QUESTIONS, MOST_ROWS, Setting
from dodona.numbers import smallest_number

_LEAST_EPSILON, _MOST_EPSILON = 1e-9, 1e4
_DIGITS = Context(prec=4, rounding=ROUND_CEILING)
_NEAR = 2e-4


class PlanParameter(Enum):
    """The parameter to solve for."""

    ROWS = "rows"
    """The least number of rows."""
    EPSILON = "epsilon"
    """The least price, to four digits."""
    QUESTIONS = "questions"
    """The largest number of questions."""


class UnreachablePlan(Refused):
    """No number of rows, price or number of questions gives a mechanism the wanted error."""

    code = "plan-unreachable"

    def __init__(self, method: PlannedMechanism, within: float, unknown: PlanParameter) -> None:
        """Say what was searched for."""
        super().__init__(
            f"{method.title}: no {unknown.value} in range guarantee {format_share(within)} of the rows. "
            "Ask for less accuracy, or take another mechanism."
        )


@dataclass(frozen=True, slots=True)
class Requirement:
    """What a mechanism needs for an error; None if nothing is enough."""

    method: PlannedMechanism
    value: int | Fraction | None
    reason: str = ""
    """Why there is no value."""


def requirements(
    setting: Setting, *, within: float, unknown: PlanParameter, task: Task = Task.ANSWERS
) -> tuple[Requirement, ...]:
    """Return what each suitable mechanism needs for an error as a share of the rows, the least first."""
    _share(within)
    needs = []
    for method in METHODS.values():
        if method.task is task:
            try:
                needs.append(Requirement(method, solve_for(setting, method.name, within=within, unknown=unknown)))
            except UnreachablePlan:
                needs.append(Requirement(method, None, f"no {unknown.value} in range would do"))
            except Unsuitable:  # as in a forecast, which says why
                continue
    sign = -1 if unknown is PlanParameter.QUESTIONS else 1
    return tuple(sorted(needs, key=lambda requirement: (requirement.value is None, sign * (requirement.value or 0))))


def solve_for(setting: Setting, mechanism: str, *, within: float, unknown: PlanParameter) -> int | Fraction:
    """Return what one mechanism needs; raise UnreachablePlan if nothing is enough.

    >>> plan = Setting(rows=10**5, questions=1000, epsilon=1, delta="1e-6")
    >>> solve_for(plan, "gaussian-zcdp", within=0.01, unknown=PlanParameter.ROWS)
    58000
    """
    match unknown:
        case PlanParameter.ROWS:
            return rows_for(setting, mechanism, within=within)
        case PlanParameter.EPSILON:
            return epsilon_for(setting, mechanism, within=within)
        case PlanParameter.QUESTIONS:
            return questions_for(setting, mechanism, within=within)
        case _:
            assert_never(unknown)


def rows_for(setting: Setting, mechanism: str, *, within: float) -> int:
    """Return the least number of rows at which a mechanism's guarantee is within a share of them."""

    def enough(rows: int) -> bool:
        return promise_for(setting.with_rows(rows), mechanism).within <= _share(within)

    if not enough(MOST_ROWS):
        raise UnreachablePlan(find_mechanism(mechanism), within, PlanParameter.ROWS)
    return _first(enough, start=setting.rows, most=MOST_ROWS)


def questions_for(setting: Setting, mechanism: str, *, within: float) -> int:
    """Return the largest number of questions at which a mechanism's guarantee is within a share of the rows.

    If a composition is computed only up to some number, that is the largest.
    """
    if setting.workload is not None:
        raise InvalidArgument("questions", "searched", "a workload has its own number of questions: leave it out")

    def too_many(questions: int) -> bool:
        try:
            return promise_for(setting.with_questions(questions), mechanism).within > _share(within)
        except Unsuitable:  # more than are composed
            return True

    promise_for(setting.with_questions(max(2, setting.positives)), mechanism)  # where it is unsuitable, that is said
    if too_many(1):
        raise UnreachablePlan(find_mechanism(mechanism), within, PlanParameter.QUESTIONS)
    if not too_many(MOST_QUESTIONS):
        return MOST_QUESTIONS
    return _first(too_many, start=setting.questions, most=MOST_QUESTIONS) - 1


def epsilon_for(setting: Setting, mechanism: str, *, within: float) -> Fraction:
    """Return the least ε, rounded up to four digits, at which a guarantee is within a share of the rows."""
    wanted = _share(within)

    def enough(epsilon: float) -> bool:
        try:
            return promise_for(setting.with_epsilon(_round_up(epsilon)), mechanism).within <= wanted
        except Unsuitable:
            if setting.delta == 0 or epsilon >= 1:
                raise
            return False  # a price so small that it leaves nothing

    low = high = float(setting.epsilon)
    while enough(low) and low > _LEAST_EPSILON:
        low /= 4
    while not enough(high):
        low, high = high, 4 * high
        if high > _MOST_EPSILON:
            raise UnreachablePlan(find_mechanism(mechanism), within, PlanParameter.EPSILON)
    return _round_up(smallest_number(enough, low, high, near=_NEAR, geometric=True))


def _first(holds: Callable[[int], bool], *, start: int, most: int) -> int:
    """Return the least number from which on a condition holds, searching from `start`; it must hold at `most`."""
    low, high = _bracket(holds, min(max(start, 1), most), most)
    while high - low > 1:
        middle = math.isqrt(low * high) if high > 4 * low > 0 else (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _bracket(holds: Callable[[int], bool], start: int, most: int) -> tuple[int, int]:
    """Return a number at which the condition fails, or 0, and one at which it holds, by growing steps from `start`."""
    step = 2
    if start == most or holds(start):
        high = start
        while high > 1:
            place = max(high // step, 1)
            if not holds(place):
                return place, high
            high, step = place, step * step
        return 0, high
    low = start
    while low * step < most:
        if holds(low * step):
            return low, low * step
        low, step = low * step, step * step
    return low, most


def _round_up(epsilon: float) -> Fraction:
    """Return ε rounded up to four digits."""
    return Fraction(_DIGITS.create_decimal(Decimal(min(max(epsilon, 1e-12), _MOST_EPSILON))))


def _share(within: float) -> float:
    if isinstance(within, bool) or not 0 < within < 1:
        raise InvalidArgument("within", within, "write a share of the rows between 0 and 1, such as 0.01")
    return float(within)
