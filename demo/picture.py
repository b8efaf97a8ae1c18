"""The pictures: answers with error bars beside the truth, and what each question took of the budget."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from demo.tour import Told, Tour
from demo.truth import Judged
from dodona.answer.estimate import to_float

# Of the palette of Okabe and Ito, which colour-blind readers can tell apart.
BLUE, ORANGE = "#0072B2", "#D55E00"
INK, QUIET = "#222222", "#8A8A8A"

_STYLE = {
    "figure.facecolor": "white",
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.edgecolor": QUIET,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": INK,
    "ytick.color": INK,
    "text.color": INK,
    "legend.frameon": False,
    "legend.fontsize": 9,
}
_MONTHS, _AGES, _BATCH = 3, 5, 13  # the places of the questions that are drawn by themselves
_SMALL = 100  # counts up to here are drawn on a linear scale
_LABEL = "answer, 95% interval"


def answers(done: Tour, path: Path) -> None:
    """Write the picture of answers, intervals and truths."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(11, 8.2), layout="constrained")
        (months, ages), (crowds, every) = figure.subplots(2, 2)
        _groups(months, done.told[_MONTHS], "stays begun", every=4)
        _groups(ages, done.told[_AGES], "average stay, days")
        _crowds(crowds, done.told[_BATCH], "stays of a week or more")
        _all(every, done.judged)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=110)


def budget(done: Tour, path: Path) -> None:
    """Write the picture of what each question took, and what was left after it."""
    paid = [question for question in done.told if question.share > 0]
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(9.5, 5.6), layout="constrained")
        axes = figure.subplots()
        left = 1.0
        for place, question in enumerate(paid):
            after = left - float(question.share)
            axes.barh(place, 100 * after, color=BLUE, alpha=0.25, height=0.7)
            axes.barh(place, 100 * float(question.share), left=100 * after, color=ORANGE, height=0.7)
            axes.annotate(
                f"{100 * float(question.share):.2f}%",
                (100 * left, place),
                (5, 0),
                textcoords="offset points",
                va="center",
                fontsize=9,
            )
            left = after
        axes.set_yticks(range(len(paid)), [question.title for question in paid])
        axes.invert_yaxis()
        axes.tick_params(axis="y", length=0)
        axes.set(title=f"What each question took of the budget; {100 * left:.0f}% is left", xlim=(0, 108))
        axes.set_xlabel("% of the budget of ε = 1, δ = 1e-6; orange: taken, blue: left after it")
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=110)


def _groups(axes: Any, told: Told, unit: str, every: int = 1) -> None:  # noqa: ANN401  matplotlib is not typed here
    shown = [cell for cell in told.judged if not cell.group.startswith("<")]
    _points(axes, shown)
    places = range(0, len(shown), every)
    axes.set_xticks(list(places), [shown[place].group for place in places])
    axes.set(title=told.title, ylabel=unit)
    axes.legend(loc="best")


def _points(axes: Any, shown: list[Judged]) -> None:  # noqa: ANN401  as above
    values = [float(cell.estimate) for cell in shown]
    below = [float(cell.estimate) - to_float(cell.estimate.low) for cell in shown]
    above = [to_float(cell.estimate.high) - float(cell.estimate) for cell in shown]
    axes.errorbar(
        range(len(shown)),
        values,
        yerr=(below, above),
        fmt="o",
        color=BLUE,
        markersize=4.5,
        capsize=3,
        linewidth=1.4,
        label=_LABEL,
    )
    truths = [cell.truth for cell in shown]
    axes.plot(range(len(shown)), truths, "D", color=ORANGE, markersize=3.4, zorder=3, label="truth")


def _crowds(axes: Any, told: Told, unit: str) -> None:  # noqa: ANN401  as above
    """Draw counts of all sizes against the truth: the error bar is the same, so small ones drown in it."""
    truths = [cell.truth for cell in told.judged]
    most = max(truths)
    axes.plot([0, most], [0, most], color=QUIET, linewidth=0.8, label="truth")
    values = [float(cell.estimate) for cell in told.judged]
    spread = [cell.estimate.within for cell in told.judged]
    axes.errorbar(
        truths, values, yerr=spread, fmt="o", color=BLUE, markersize=4, capsize=2, linewidth=1.2, label=_LABEL
    )
    axes.set_xscale("symlog", linthresh=_SMALL, linscale=0.6)
    axes.set_yscale("symlog", linthresh=_SMALL, linscale=0.6)
    ticks = [tick for tick in (0, 100, 300, 1_000, 3_000, 10_000) if tick <= most]
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks], minor=False)
    axes.set_yticks(ticks, [f"{tick:,}" for tick in ticks], minor=False)
    axes.minorticks_off()
    axes.set(title=f"{told.title}: small crowds stay blurred", xlabel=f"{unit}: truth", ylabel="answer")
    axes.legend(loc="upper left")


def _all(axes: Any, judged: tuple[Judged, ...]) -> None:  # noqa: ANN401  as above
    """Draw every estimate's error in units of its own error bar."""
    errors = [
        (float(cell.estimate) - cell.truth) / cell.estimate.within
        for cell in judged
        if 0 < cell.estimate.within < math.inf
    ]
    inside = sum(cell.inside for cell in judged)
    axes.axhspan(-1, 1, color=BLUE, alpha=0.12, linewidth=0, label="error bar")
    axes.axhline(0, color=QUIET, linewidth=0.8)
    for number, error in enumerate(errors):
        axes.plot(number, error, "o", markersize=4, color=BLUE if abs(error) <= 1 else ORANGE)
    title = f"{inside} of {len(judged)} intervals hold the truth ({inside / len(judged):.0%})"
    axes.set(title=title, xlabel="estimates, in the order they were asked", ylabel="error, in units of its error bar")
    axes.set_ylim(-2.1, 2.1)
