"""The picture of an audit: claimed against certified losses."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dodona.lab.audit.audit import Audit
from dodona.lab.audit.examine import AuditResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours, which colour-blind readers can distinguish; shapes differ as well.
_RIGHT, _WRONG = "#0072B2", "#D55E00"
_SHADE, _WORDS = "#fbeee6", "#8a3c00"
_LEAST, _LARGEST = 0.005, 30.0  # what is certified below the least is drawn on the edge
_RATIOS = (0.05, 50.0)


def draw(audit: Audit, path: Path) -> None:
    """Plot correct mechanisms, below the diagonal, and mutants, above it; beside it the ratios by mechanism."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 5.8), layout="constrained")
    FigureCanvasAgg(figure)
    plane, ratios = figure.subplots(1, 2)
    wrong = [capture.clearest for capture in audit.captures]
    _plane(plane, audit.results, wrong)
    _by_mechanism(ratios, audit.results, wrong)
    figure.suptitle("Certified against claimed privacy loss")
    figure.savefig(path, dpi=150)


def _plane(axes: Axes, right: Sequence[AuditResult], wrong: Sequence[AuditResult]) -> None:
    edges = (_LEAST, _LARGEST)
    axes.fill_between(edges, edges, [_LARGEST] * 2, color=_SHADE, linewidth=0)
    axes.plot(edges, edges, color="black", linewidth=1)
    axes.text(0.007, 12, "more is lost than claimed", color=_WORDS)
    for results, label, colour, marker in ((wrong, "mutant", _WRONG, "^"), (right, "correct mechanism", _RIGHT, "o")):
        claims = [result.claim for result in results]
        proved = [max(result.certified, _LEAST) for result in results]
        _points(axes, claims, proved, f"{label} ({len(results)})", colour, marker)
    axes.set(xscale="log", yscale="log", xlim=edges, ylim=edges)
    axes.set(xlabel="claimed loss (ε, μ or ρ)", ylabel="certified loss")
    axes.legend(loc="lower right")


def _by_mechanism(axes: Axes, right: Sequence[AuditResult], wrong: Sequence[AuditResult]) -> None:
    names = sorted({result.mechanism for result in (*right, *wrong)}, reverse=True)
    axes.axvspan(1, _RATIOS[1], color=_SHADE, linewidth=0)
    axes.axvline(1, color="black", linewidth=1)
    # Mutants are drawn a little above the correct mechanisms, so that neither hides the other.
    for results, lift, colour, marker in ((wrong, 0.16, _WRONG, "^"), (right, -0.16, _RIGHT, "o")):
        places = [names.index(result.mechanism) + lift for result in results]
        shown = [min(max(result.tightness, _RATIOS[0]), _RATIOS[1]) for result in results]
        _points(axes, shown, places, "", colour, marker)
    axes.set(xscale="log", xlim=_RATIOS, xlabel="certified / claimed", ylim=(-0.6, len(names) - 0.4))
    axes.set_yticks(range(len(names)), [name.replace("_", " ") for name in names])
    ticks = (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50)
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()


def _points(axes: Axes, across: list[float], up: list[float], label: str, colour: str, marker: str) -> None:  # noqa: PLR0913, PLR0917
    axes.scatter(
        across,
        up,
        s=36,
        color=colour,
        marker=marker,
        alpha=0.75,
        edgecolors="white",
        linewidths=0.5,
        label=label,
        clip_on=False,
        zorder=3,
    )
    axes.grid(visible=True, color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
