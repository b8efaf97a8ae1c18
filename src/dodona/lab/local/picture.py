"""Noise on the input against noise on the output: one question in the local and in the central model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dodona.errors import InvalidRequest
from dodona.lab import direct
from dodona.lab.local.odds import LEAST, MOST
from dodona.lab.local.question import SurveyQuestion
from dodona.lab.mechanisms import Laplace
from dodona.numbers import Exact, to_fraction
from dodona.privacy.accuracy import to_failure_probability, validate_count

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RESPONDENTS = (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
_INPUT, _OUTPUT, _SAMPLE = "#D55E00", "#0072B2", "#555555"  # Okabe and Ito's colours


@dataclass(frozen=True, slots=True)
class ErrorPoint:
    """The errors of a share at one number of respondents: observed and guaranteed."""

    respondents: int
    input_errors: tuple[float, ...]
    """Randomized response: every answer is noisy."""
    output_errors: tuple[float, ...]
    """The Laplace mechanism: the exact count is noisy."""
    input_within: float
    output_within: float
    sampling_within: float
    """How far a sample without noise may be from its population."""


def compare_errors(
    respondents: Sequence[int] = RESPONDENTS,
    *,
    epsilon: Exact = 1,
    share: float = 0.3,
    runs: int = 200,
    confidence: float = 0.95,
) -> tuple[ErrorPoint, ...]:
    """Return both kinds of error for synthetic respondents, of whom this share would say yes.

    >>> point = compare_errors([1_000], runs=3)[0]
    >>> round(point.input_within, 3), round(point.output_within, 4)
    (0.093, 0.003)
    """
    loss, failing = (
        to_fraction(epsilon, argument="epsilon", lower=LEAST, upper=MOST),
        to_failure_probability(confidence),
    )
    question, laplace = SurveyQuestion.yes_no("made up", epsilon=loss), Laplace(scale=1 / loss)
    yes_of = {number: round(share * validate_count(number, argument="respondents")) for number in respondents}
    times = validate_count(runs, argument="runs")
    return tuple(
        ErrorPoint(
            number,
            tuple(_input_error(question, yes, number) for _ in range(times)),
            tuple((direct.run(laplace, yes) - yes) / number for _ in range(times)),
            question.accuracy(confidence, respondents=number).within,
            laplace.accuracy(confidence).within / number,
            math.sqrt(math.log(2 / failing) / (2 * number)),
        )
        for number, yes in yes_of.items()
    )


def draw_noise(path: str | Path, points: Sequence[ErrorPoint] | None = None) -> None:
    """Plot both kinds of error against the number of respondents. Needs the extra `plot`."""
    error_points = compare_errors() if points is None else points
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise InvalidRequest("A picture needs matplotlib: install dodona[plot].") from error
    figure = Figure(figsize=(11.0, 4.6), layout="constrained")
    errors, law = figure.subplots(1, 2, width_ratios=(3, 2))
    _errors(errors, error_points)
    _middle(law, error_points[len(error_points) // 2])
    figure.suptitle("Noise on the input against noise on the output")
    figure.savefig(path, dpi=120)


def _errors(axes: Axes, points: Sequence[ErrorPoint]) -> None:
    """Draw guaranteed errors as lines, and the 95% quantile of the runs as marks."""
    across = [point.respondents for point in points]
    for name, colour, marker, shown, promised in (
        ("on every answer", _INPUT, "o", [p.input_errors for p in points], [p.input_within for p in points]),
        ("on the count", _OUTPUT, "^", [p.output_errors for p in points], [p.output_within for p in points]),
    ):
        axes.plot(across, promised, color=colour, label=f"noise {name}: promised, 95%")
        high = [float(np.quantile(np.abs(errors), 0.95)) for errors in shown]
        axes.scatter(across, high, color=colour, marker=marker, s=36, zorder=3, label=f"noise {name}: 95% of runs")
    sampling = [point.sampling_within for point in points]
    axes.plot(across, sampling, color=_SAMPLE, linestyle="--", label="sampling alone, no noise")
    axes.set(xscale="log", yscale="log", xlabel="respondents", ylabel="error of the share")
    axes.grid(visible=True, color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.legend(fontsize=8, loc="lower left")


def _middle(axes: Axes, point: ErrorPoint) -> None:
    """Draw the errors of all runs for one number of respondents."""
    reach = max(map(abs, (*point.input_errors, *point.output_errors)))
    bins = np.linspace(-reach, reach, 42).tolist()
    for name, colour, errors in (
        ("on the count", _OUTPUT, point.output_errors), ("on every answer", _INPUT, point.input_errors)
    ):  # fmt: skip
        axes.hist(errors, bins=bins, color=colour, alpha=0.8, label=f"noise {name}")
    axes.set(yscale="log", xlabel="error of the share", ylabel="runs")
    axes.set_title(f"{point.respondents:,} respondents, {len(point.input_errors)} runs", fontsize=10)
    axes.grid(visible=True, color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.legend(fontsize=8, loc="upper left")


def _input_error(question: SurveyQuestion, yes: int, respondents: int) -> float:
    """Return the error of the estimate of one survey."""
    answers = np.arange(respondents) < yes
    estimates = question.collect(question.batches(answers.astype(np.int64)))
    return float(estimates.support.share(estimates.marks[1], respondents)) - yes / respondents
