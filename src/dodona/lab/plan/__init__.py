"""Planning: the error that every mechanism guarantees, before a row is read or anything is charged."""

from dodona.lab.plan.advice import advice
from dodona.lab.plan.forecast import Forecast, forecast, promise_for
from dodona.lab.plan.inverse import PlanParameter, UnreachablePlan, epsilon_for, questions_for, requirements, rows_for
from dodona.lab.plan.marginals import Marginals
from dodona.lab.plan.person import Exposure
from dodona.lab.plan.promise import Adaptivity, Promise, Task, Unsuitable
from dodona.lab.plan.setting import Setting
from dodona.schema.schema import Neighbours

__all__ = [
    "Adaptivity",
    "Exposure",
    "Forecast",
    "Marginals",
    "Neighbours",
    "PlanParameter",
    "Promise",
    "Setting",
    "Task",
    "UnreachablePlan",
    "Unsuitable",
    "advice",
    "epsilon_for",
    "forecast",
    "promise_for",
    "questions_for",
    "requirements",
    "rows_for",
]
