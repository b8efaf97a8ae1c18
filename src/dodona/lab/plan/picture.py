"""A picture of guarantees: the error of each mechanism along one parameter of a setting."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from dodona.errors import InvalidArgument, InvalidRequest
from dodona.lab.plan.forecast import METHODS, promise_for
from dodona.lab.plan.inverse import PlanParameter
from dodona.lab.plan.promise import PlannedMechanism, Task, Unsuitable, format_count, format_small
from dodona.lab.plan.setting import MOST_QUESTIONS, MOST_ROWS, Setting

SHOWN = (
    "randomized-response", "laplace-basic", "laplace-zcdp", "gaussian-zcdp", "histogram", "histogram-any",
    "residuals", "blr", "mwem-mean", "pmw",
)  # fmt: skip
"""The default mechanisms: one line for each family."""
_POINTS = 25
_DECADES = 2
_AXES = {PlanParameter.ROWS: "rows", PlanParameter.EPSILON: "epsilon", PlanParameter.QUESTIONS: "questions"}


def draw(
    path: str | Path,
    setting: Setting,
    *,
    over: PlanParameter = PlanParameter.ROWS,
    mechanisms: Sequence[str] | None = None,
    task: Task = Task.ANSWERS,
) -> None:
    """Plot guaranteed errors, two decades to each side of the setting. Needs the extra `plot`."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise InvalidRequest("A picture needs matplotlib: install dodona[plot].") from error
    names = mechanisms or [name for name, method in METHODS.items() if _is_drawn(method, task)]
    settings = _around(setting, over)
    figure = Figure(figsize=(9.0, 5.2), layout="constrained")
    axes = figure.subplots()
    lowest = math.inf
    for number, name in enumerate(names):
        points = [(place, within) for place, shifted in settings if (within := _within(shifted, name)) is not None]
        if points:
            lowest = min([lowest, *(within for _, within in points)])
            axes.plot(*zip(*points, strict=True), color=f"C{number % 10}", label=METHODS[name].title, linewidth=1.8)
    if lowest == math.inf:
        raise InvalidArgument("mechanisms", names, "none of these promises anything near this setting")
    axes.axvline(_place(setting, over), color="#999999", linewidth=1, linestyle=":")
    axes.axhline(1, color="#999999", linewidth=1, linestyle="--")
    axes.text(settings[0][0], 1.06, "above: no promise", color="#666666", fontsize=8, va="bottom")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_ylim(max(lowest / 2, 1e-7), 3)
    axes.set_xlabel(_AXES[over])
    axes.set_ylabel("guaranteed error, as a share of the rows")
    axes.set_title(_title(setting, over), fontsize=10)
    axes.grid(visible=True, which="major", color="#e6e6e6", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    figure.savefig(path, dpi=120)


def _is_drawn(method: PlannedMechanism, task: Task) -> bool:
    return method.task is task and (method.name in SHOWN or task is not Task.ANSWERS)


def _around(setting: Setting, over: PlanParameter) -> list[tuple[float, Setting]]:
    """Return settings along a parameter, with the value of each."""
    settings: dict[float, Setting] = {}
    for number in range(_POINTS):
        factor = 10 ** (_DECADES * (2 * number / (_POINTS - 1) - 1))
        shifted = _shift_parameter(setting, over, factor)
        settings[_place(shifted, over)] = shifted
    return sorted(settings.items(), key=lambda pair: pair[0])


def _shift_parameter(setting: Setting, over: PlanParameter, factor: float) -> Setting:
    if over is PlanParameter.ROWS:
        return setting.with_rows(min(max(1, round(setting.rows * factor)), MOST_ROWS))
    if over is PlanParameter.QUESTIONS:
        if setting.workload is not None:
            raise InvalidArgument(
                "over", over.value, "a workload has its own number of questions: write rows or epsilon"
            )
        return setting.with_questions(min(max(1, round(setting.questions * factor)), MOST_QUESTIONS))
    return setting.with_epsilon(float(f"{min(max(float(setting.epsilon) * factor, 1e-9), 1e4):.4g}"))


def _place(setting: Setting, over: PlanParameter) -> float:
    return float(
        {PlanParameter.ROWS: setting.rows, PlanParameter.QUESTIONS: setting.questions}.get(over, setting.epsilon)
    )


def _within(setting: Setting, name: str) -> float | None:
    """Return the guaranteed error if it can be plotted."""
    try:
        within = promise_for(setting, name).within
    except Unsuitable:
        return None
    return within if 0 < within < math.inf else None


def _title(setting: Setting, over: PlanParameter) -> str:
    """Return what all points share."""
    sides = {
        PlanParameter.ROWS: f"{format_count(setting.rows)} rows",
        PlanParameter.QUESTIONS: f"{format_count(setting.questions)} questions",
        PlanParameter.EPSILON: f"epsilon {format_small(float(setting.epsilon))}",
    }
    said = [text for side, text in sides.items() if side is not over]
    if setting.cells is not None:
        said.append(f"{format_count(setting.cells)} cells")
    if setting.delta > 0:
        said.append(f"delta {format_small(float(setting.delta))}")
    return ", ".join([*said, f"{100 * setting.confidence:g}% sure"])
