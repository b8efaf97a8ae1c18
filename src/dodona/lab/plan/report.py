"""Forecasts and requirements as table rows and as plain data."""

from __future__ import annotations

import math
from fractions import Fraction

from dodona.lab.plan.advice import sentences
from dodona.lab.plan.forecast import Forecast
from dodona.lab.plan.inverse import PlanParameter, Requirement
from dodona.lab.plan.person import Exposure
from dodona.lab.plan.promise import Adaptivity, Promise, format_count, format_share, format_small
from dodona.lab.plan.setting import Setting

HEADINGS = ("mechanism", "within", "rows", "questions", "how")
NEED_HEADINGS = ("mechanism", "needs", "questions")
_ADAPTIVITY = {Adaptivity.IN_TURN: "in turn", Adaptivity.TOGETHER: "all known"}
_WHOLE = 100  # from here on a number of rows is shown without digits after the point


def rows(forecast: Forecast) -> list[tuple[str, ...]]:
    """Return a table row for each promise: its error as a share and in rows."""
    return [
        (
            promise.method.title,
            format_share(promise.within),
            _number(promise.rows(forecast.setting)) if promise.holds else "",
            _ADAPTIVITY[promise.method.adaptivity],
            promise.law if promise.runs else f"{promise.law}; not run",
        )
        for promise in forecast.promises
    ]


def need_rows(needs: tuple[Requirement, ...]) -> list[tuple[str, ...]]:
    """Return a table row for each mechanism: what it needs, or why nothing is enough."""
    return [
        (
            need.method.title,
            need.reason if need.value is None else _value(need.value),
            _ADAPTIVITY[need.method.adaptivity],
        )
        for need in needs
    ]


def heading(setting: Setting) -> str:
    """Return the setting in a line."""
    parts = [f"{format_count(setting.rows)} rows", f"{format_count(setting.questions)} questions"]
    if setting.cells is not None:
        parts.append(f"{format_count(setting.cells)} cells")
    delta = "" if setting.delta == 0 else f", delta {format_small(float(setting.delta))}"
    parts.append(f"epsilon {format_small(float(setting.epsilon))}{delta}")
    parts.append(f"{100 * setting.confidence:g}% sure of all together")
    return f"{', '.join(parts)} ({setting.neighbours.value})"


def summary(forecast: Forecast) -> dict[str, object]:
    """Return a forecast as plain data for JSON; an error that says nothing has no number.

    Numbers are shares of the rows.
    """
    setting = forecast.setting
    exposure = Exposure(setting.epsilon, delta=setting.delta)
    return {
        "setting": plain(setting),
        "task": forecast.task.value,
        "advice": list(sentences(forecast).values()),
        "promises": [_promise(promise) for promise in forecast.promises],
        "left_out": {method.name: reason for method, reason in forecast.left_out},
        "person": {"advantage": exposure.advantage, "guess": exposure.guess},
    }


def need_summary(
    setting: Setting, needs: tuple[Requirement, ...], *, within: float, unknown: PlanParameter
) -> dict[str, object]:
    """Return requirements as plain data."""
    return {
        "setting": {name: value for name, value in plain(setting).items() if name != unknown.value},
        "within": within,
        "unknown": unknown.value,
        "needed": {
            need.method.name: None if need.value is None else _json_number(need.value) for need in needs
        },
    }  # fmt: skip


def plain(setting: Setting) -> dict[str, object]:
    """Return a setting as plain data."""
    return {
        "rows": setting.rows,
        "questions": setting.questions,
        "cells": setting.cells,
        "epsilon": float(setting.epsilon),
        "delta": float(setting.delta),
        "confidence": setting.confidence,
        "neighbours": setting.neighbours.value,
        "positives": setting.positives,
    }


def _promise(promise: Promise) -> dict[str, object]:
    return {
        "mechanism": promise.method.name,
        "title": promise.method.title,
        "within": promise.within if math.isfinite(promise.within) else None,
        "asked": promise.method.adaptivity.value,
        "runs": promise.runs,
        "how": promise.law,
        "theorem": promise.method.theorem,
    }


def _json_number(value: int | Fraction) -> int | float:
    return value if isinstance(value, int) else float(value)


def _value(value: int | Fraction) -> str:
    return format_count(value) if isinstance(value, int) else f"{float(value):.4g}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= _WHOLE else f"{value:.3g}"
