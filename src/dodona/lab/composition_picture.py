"""The privacy loss of a composition as a picture: why k mechanisms cost about √k rather than k."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dodona.errors import InvalidArgument, InvalidRequest
from dodona.lab.composition import MechanismGroup, advanced_sharp, homogeneous_epsilon, product_losses, sharp_drift
from dodona.lab.conversion import validate_epsilon, validate_positive_delta, validate_repetitions
from dodona.numbers import Exact

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SHOWN = 4.5  # standard deviations on each side of the mean


def draw_losses(path: str | Path, *, epsilon: Exact, times: Sequence[int], slack: Exact) -> None:
    """Plot the loss of k randomized responses for each k: its distribution, mean, worst case, and ε by two theorems.

    It is computed from formulas; no data is read. Needs the extra `plot`.
    """
    loss, spare = validate_epsilon(epsilon), validate_positive_delta(slack, argument="slack")
    if not times:
        raise InvalidArgument("times", times, "write at least one number of mechanisms, such as (1, 10, 100)")
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise InvalidRequest("A picture needs matplotlib: install dodona[plot].") from error
    figure = Figure(figsize=(10.0, 1.9 * len(times) + 0.8), layout="constrained")
    for axes, count in zip(figure.subplots(len(times), 1, squeeze=False).flat, times, strict=True):
        _panel(axes, MechanismGroup(loss, times=validate_repetitions(count)), spare)
    figure.suptitle(f"Privacy loss of k randomized responses, each of ε = {float(loss):g}")
    figure.supxlabel("privacy loss")
    figure.savefig(path, dpi=120)


def _panel(axes: Axes, part: MechanismGroup, slack: Fraction) -> None:
    """Draw one number of mechanisms; the worst case is given in the legend if it lies outside."""
    losses, weights = product_losses(part.epsilon, times=part.times)
    each, worst = float(part.epsilon), float(part.epsilon * part.times)
    mean, exact = sharp_drift((part,)), homogeneous_epsilon(part, delta=slack)
    advanced = float(advanced_sharp((part,), slack=slack).epsilon)
    width = _SHOWN * each * math.sqrt(part.times)
    right = min(max(advanced, mean + width), worst) * 1.12 + each
    shown = (losses > max(mean - width, -worst) - each) & (losses < right)
    axes.bar(losses[shown], weights[shown], width=1.6 * each, color="#7da0c4", label="probability of the loss")
    axes.axvline(mean, color="#222222", label=f"mean k·ε·tanh(ε/2) = {mean:.3g}")
    axes.axvline(exact, color="#2c8c4c", linestyle="-.", label=f"optimal ε at δ = {float(slack):g}: {exact:.3g}")
    name = f"advanced composition: {advanced:.3g}"
    if advanced < right:
        axes.axvline(advanced, color="#c8702a", linestyle="--", label=name)
    else:
        axes.plot([], [], color="#c8702a", linestyle="--", label=f"{name} (to the right)")
    if worst < right:
        axes.axvline(worst, color="#b03030", linestyle=":", label=f"worst case k·ε = {worst:.3g}")
    else:
        axes.plot([], [], color="#b03030", linestyle=":", label=f"worst case k·ε = {worst:.3g} (to the right)")
    axes.set_xlim(float(losses[shown][-1]) - each if np.any(shown) else -each, right)
    axes.set_title(f"k = {part.times:,}", loc="left", fontsize=10)
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    axes.set_yticks([])
    axes.spines[["top", "left", "right"]].set_visible(False)
