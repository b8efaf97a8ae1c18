"""Planning: the error that every mechanism guarantees, before a row is read or anything is charged."""

from dodona.lab.plan.advice import advice
from dodona.lab.plan.forecast import Forecast, forecast, promised
from dodona.lab.plan.inverse import Unknown, Unreachable, epsilon_for, needed, questions_for, rows_for
from dodona.lab.plan.marginals import Marginals
from dodona.lab.plan.person import Exposure
from dodona.lab.plan.promise import Asked, Promise, Task, Unsuitable
from dodona.lab.plan.setting import Setting
from dodona.schema.schema import Neighbours

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
