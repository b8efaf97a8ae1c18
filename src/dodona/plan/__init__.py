"""What to expect: the error that every mechanism guarantees, before a row is read or anything is charged."""

from dodona.domain.neighbours import Neighbours
from dodona.plan.advice import advice
from dodona.plan.forecast import Forecast, forecast, promised
from dodona.plan.inverse import Unknown, Unreachable, epsilon_for, needed, questions_for, rows_for
from dodona.plan.marginals import Marginals
from dodona.plan.person import Exposure
from dodona.plan.promise import Asked, Promise, Task, Unsuitable
from dodona.plan.setting import Setting

__all__ = [
    "Asked",
    "Exposure",
    "Forecast",
    "Marginals",
    "Neighbours",
    "Promise",
    "Setting",
    "Task",
    "Unknown",
    "Unreachable",
    "Unsuitable",
    "advice",
    "epsilon_for",
    "forecast",
    "needed",
    "promised",
    "questions_for",
    "rows_for",
]
