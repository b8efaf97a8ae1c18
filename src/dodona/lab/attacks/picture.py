"""Pictures of attacks: how much of a table is recovered, by noise and by ε."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dodona.errors import InvalidRequest
from dodona.lab.attacks.bound import largest_share
from dodona.lab.attacks.sweep import Sweep

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours, which colour-blind readers can distinguish; shapes differ as well.
_PLAIN, _SERVED, _OTHER, _PALE = "#0072B2", "#D55E00", "#009E73", "#8c8c8c"
_ZERO = 0.2  # where no noise at all is drawn on a logarithmic axis


def draw(sweep: Sweep, path: Path) -> None:
    """Plot what linear programming recovers by noise; beside it, what attacks on Dodona recover by ε."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InvalidRequest("A picture needs matplotlib: install dodona[plot].") from error
    figure = Figure(figsize=(12, 5.2), layout="constrained")
    FigureCanvasAgg(figure)
    by_noise, by_epsilon = figure.subplots(1, 2)
    _by_noise(by_noise, sweep)
    _by_epsilon(by_epsilon, sweep)
    for axes in (by_noise, by_epsilon):
        axes.set(ylim=(0.25, 1.03), yticks=np.arange(0.5, 1.01, 0.1), ylabel="share of secrets recovered")
        axes.axhline(0.5, color=_PALE, linewidth=1, linestyle=":")
        axes.grid(visible=True, color="#e4e4e4", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.text(0.99, 0.49, "tossing a coin", color=_PALE, va="top", ha="right", transform=axes.get_yaxis_transform())
    figure.savefig(path, dpi=150)


def _by_noise(axes: Axes, sweep: Sweep) -> None:
    noise = [max(point.noise, _ZERO) for point in sweep.noised]
    axes.plot(noise, [point.share for point in sweep.noised], "-o", color=_PLAIN, label="noise without an account")
    axes.scatter(
        [point.noise for point in sweep.served],
        [point.share for point in sweep.served],
        s=70,
        marker="D",
        color=_SERVED,
        zorder=3,
        label="Dodona",
    )
    for point in sweep.served:
        axes.annotate(f"ε = {point.epsilon:g}", (point.noise, point.share), (9, 6), textcoords="offset points")
    root = float(np.sqrt(sweep.people))
    axes.axvline(root, color="black", linewidth=1, linestyle="--")
    axes.annotate(f"√n = {root:.1f}", (root, 1.0), (5, 0), textcoords="offset points", va="center")
    most = max(point.noise for point in (*sweep.noised, *sweep.served))
    axes.set(
        xscale="log",
        xlim=(_ZERO / 1.5, 4 * most),
        xlabel="noise in each answer (root mean square, people; left end: none)",
    )
    axes.set_title(f"Linear programming: {sweep.people} people, {sweep.questions} counts")
    axes.legend(loc="lower left")


def _by_epsilon(axes: Axes, sweep: Sweep) -> None:
    ends = [point.epsilon for point in (*sweep.served, *sweep.alone, *sweep.together)]
    line = np.geomspace(min(ends) / 1.3, max(ends) * 1.3, 200)
    bound = [largest_share(float(epsilon)) for epsilon in line]
    axes.plot(line, bound, color="black", linewidth=1.5, label="no attack can do better on average")
    axes.fill_between(line, bound, 1.1, color="#fbeee6", linewidth=0)
    for points, label, colour, marker in (
        (sweep.alone, f"one person for the whole budget ({sweep.tables} tables)", _OTHER, "o"),
        (sweep.together, "everybody at once, GROUP BY", _PLAIN, "s"),
        (sweep.served, "linear programming", _SERVED, "D"),
    ):
        axes.errorbar(
            [point.epsilon for point in points],
            [point.share for point in points],
            yerr=[2 * np.sqrt(point.share * (1 - point.share) / point.total) for point in points],
            color=colour,
            marker=marker,
            linestyle="none",
            capsize=3,
            label=label,
        )
    axes.set(xscale="log", xlabel="ε of the whole budget", xlim=(line[0], line[-1]))
    axes.set_title("Dodona: what attacks recover, by ε (bars: two standard errors)")
    axes.legend(loc="lower right")
