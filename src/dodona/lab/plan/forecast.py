"""A forecast: every mechanism's guarantee in a setting, the best first."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dodona.errors import InvalidArgument
from dodona.lab.plan import histogram, lattice, noise, selection, sparse, weights
from dodona.lab.plan.promise import Adaptivity, PlannedMechanism, Promise, Task, Unsuitable
from dodona.lab.plan.setting import Setting

METHODS: dict[str, PlannedMechanism] = {
    method.name: method
    for methods in (
        noise.METHODS,
        histogram.METHODS,
        lattice.METHODS,
        weights.METHODS,
        selection.METHODS,
        sparse.METHODS,
    )
    for method in methods
}


@dataclass(frozen=True, slots=True)
class Forecast:
    """What can be guaranteed, and why some mechanisms are left out."""

    setting: Setting
    task: Task
    promises: tuple[Promise, ...]
    """The smallest error first."""
    left_out: tuple[tuple[PlannedMechanism, str], ...]
    """Mechanisms without a guarantee in this setting, each with the reason."""

    def best(self, adaptivity: Adaptivity = Adaptivity.TOGETHER) -> Promise | None:
        """Return the best guarantee that can be run; for questions in turn, among those that hold for them."""
        fitting = (
            promise
            for promise in self.promises
            if promise.runs
            and promise.holds
            and (adaptivity is Adaptivity.TOGETHER or promise.method.adaptivity is Adaptivity.IN_TURN)
        )
        return next(fitting, None)


def forecast(setting: Setting, task: Task = Task.ANSWERS) -> Forecast:
    """Return all guarantees for a task.

    >>> found = forecast(Setting(rows=10**5, questions=1000, cells=1024, epsilon=1, delta="1e-6"))
    >>> found.best(Adaptivity.IN_TURN).method.name, round(found.best(Adaptivity.IN_TURN).within, 5)
    ('gaussian-exact', 0.00541)
    """
    promises, left_out = [], []
    for method in METHODS.values():
        if method.task is not task:
            continue
        try:
            promises.append(promise_for(setting, method.name))
        except Unsuitable as unsuitable:
            left_out.append((method, unsuitable.reason))
    ordered = sorted(promises, key=lambda promise: (promise.within, promise.method.name))
    return Forecast(setting, task, tuple(ordered), tuple(left_out))


def promise_for(setting: Setting, mechanism: str) -> Promise:
    """Return one mechanism's guarantee; raise Unsuitable if it has none in this setting.

    >>> promise_for(Setting(rows=10**4, questions=1000, epsilon=1), "laplace-basic").within
    0.9878
    """
    method = find_mechanism(mechanism)
    guarantee = method.formula(setting)
    within = guarantee.within if math.isfinite(guarantee.within) else math.inf
    return Promise(method, within, guarantee.law, guarantee.runs)


def find_mechanism(mechanism: str) -> PlannedMechanism:
    """Return a mechanism by its name."""
    if mechanism not in METHODS:
        raise InvalidArgument("mechanism", mechanism, f"write one of {', '.join(METHODS)}")
    return METHODS[mechanism]
