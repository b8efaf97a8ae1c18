"""Advice: which mechanism to use, and why, in a sentence."""

from __future__ import annotations

from dodona.lab.plan.forecast import Forecast
from dodona.lab.plan.inverse import UnreachablePlan, rows_for
from dodona.lab.plan.promise import Adaptivity, Promise, Task, Unsuitable, format_count, format_share

_NAMED = 2  # others that a sentence compares with
_ABOUT = 1.05  # closer than this, two promises are called alike
_USUAL = {Task.ANSWERS: "gaussian-zcdp", Task.LARGEST: "exponential", Task.ABOVE: "numeric-sparse"}
_PURE = {Task.ANSWERS: "laplace-basic", Task.LARGEST: "exponential", Task.ABOVE: "numeric-sparse"}
_PROMISED = {
    Task.ANSWERS: "every answer is within {} of the rows",
    Task.LARGEST: "the selected one is within {} of the rows of the largest",
    Task.ABOVE: "released values are within {} of the rows",
}


def advice(forecast: Forecast, adaptivity: Adaptivity) -> str:
    """Return which mechanism gives the best guarantee, and how far others are behind.

    >>> from dodona.lab.plan.forecast import forecast
    >>> from dodona.lab.plan.setting import Setting
    >>> plan = Setting(rows=10**5, questions=1000, cells=2**40, epsilon=1, delta="1e-6")
    >>> advice(forecast(plan), Adaptivity.IN_TURN)
    "Gaussian noise: every answer is within 0.541% of the rows. Laplace noise's guarantee is 2.4 times worse here. PMW's guarantee is 34 times worse here."
    """  # noqa: E501
    best = forecast.best(adaptivity)
    if best is None:
        return _nothing(forecast)
    spoken_name = best.method.spoken_name
    promised = _PROMISED[forecast.task].format(format_share(best.within))
    said = f"{spoken_name[0].upper()}{spoken_name[1:]}: {promised}."
    others = _others(forecast, best, adaptivity)
    if others:
        said += f" {' '.join(_behind(other, best) for other in others)}"
    return said


def sentences(forecast: Forecast) -> dict[str, str]:
    """Return the advice for adaptive questions and for questions known in advance, if the two differ."""
    together, in_turn = advice(forecast, Adaptivity.TOGETHER), advice(forecast, Adaptivity.IN_TURN)
    if forecast.task is Task.LARGEST or together == in_turn:
        return {"": together}
    best = forecast.best(Adaptivity.TOGETHER), forecast.best(Adaptivity.IN_TURN)
    if best[0] is not None and best[0] == best[1]:
        return {"": in_turn}
    return {"If questions may depend on answers": in_turn, "If all questions are known": together}


def _others(forecast: Forecast, best: Promise, adaptivity: Adaptivity) -> list[Promise]:
    """Return the nearest mechanisms of other families, and the lecture's online mechanism, if they hold."""
    seen, others = {best.method.spoken_name}, []
    for promise in forecast.promises:
        fits = adaptivity is Adaptivity.TOGETHER or promise.method.adaptivity is Adaptivity.IN_TURN
        if fits and promise.holds and promise.method.spoken_name not in seen:
            seen.add(promise.method.spoken_name)
            others.append(promise)
    learned = [promise for promise in others if promise.method.name == "pmw"]
    nearest = [promise for promise in others if promise not in learned]
    return sorted([*nearest[: _NAMED - len(learned)], *learned], key=lambda promise: promise.within)


def _behind(other: Promise, best: Promise) -> str:
    spoken_name = other.method.spoken_name
    owner = f"{spoken_name[0].upper()}{spoken_name[1:]}'s guarantee is"
    if best.within == 0:
        return f"{owner} {format_share(other.within)}."
    times = other.within / best.within
    if times < 1 / _ABOUT:
        return f"{owner} {1 / times:.2g} times better, but it cannot be run here."
    if times < _ABOUT:
        return f"{owner} about the same."
    return f"{owner} {times:.2g} times worse here."


def _nothing(forecast: Forecast) -> str:
    """Return how many rows a guarantee of 10% would need."""
    usual = (_PURE if forecast.setting.delta == 0 else _USUAL)[forecast.task]
    said = "No mechanism that can be run guarantees anything here."
    try:
        rows = rows_for(forecast.setting, usual, within=0.1)
    except (UnreachablePlan, Unsuitable):
        return f"{said} Raise epsilon, or ask fewer questions."
    method = next(promise.method for promise in forecast.promises if promise.method.name == usual)
    spoken_name = method.spoken_name
    return f"{said} {spoken_name[0].upper()}{spoken_name[1:]} would be within 10% with {format_count(rows)} rows."
