"""The picture: for each law the draws over the exact probabilities, the tails, and the speed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from scipy.stats import binom

from benchmarks import peer
from demo.draws import Draws, Fit, Speed

# Of the palette of Okabe and Ito, which colour-blind readers can tell apart.
COLOURS = ("#0072B2", "#D55E00")
INK = "#222222"
QUIET = "#8A8A8A"

CONFIDENCE = 0.99
"""Of each value's count by itself: about one point in a hundred lies outside the band."""
_FAINT = 0.1  # expected count down to which the tails are shown
_BULK = 45  # farthest value in the linear panels

_STYLE = {
    "figure.facecolor": "white",
    "font.size": 10.5,
    "axes.titlesize": 11.5,
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
    "legend.fontsize": 9.5,
}


def paint(results: list[tuple[Draws, Fit, Speed]], path: Path) -> None:
    """Write the picture."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(12, 10.5), layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.1, wspace=0.03))
        # Two parts, so that the long names beside the bars do not push the panels above them aside.
        grid = figure.add_gridspec(2, 1, height_ratios=(len(results) * 1.8, 1))
        laws, bars = figure.add_subfigure(grid[0]), figure.add_subfigure(grid[1])
        panels = laws.subplots(len(results), 2, squeeze=False)
        for (left, right), (draws, fitted, _), colour in zip(panels, results, COLOURS, strict=True):
            _histogram(left, draws, colour)
            _tails(right, draws, fitted, colour)
        _speeds(bars.subplots(), results)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=150)


def _histogram(axes: Any, draws: Draws, colour: str) -> None:  # noqa: ANN401  matplotlib is not typed here
    near = np.abs(draws.values) <= _BULK
    values, share = draws.values[near], draws.observed[near] / draws.count
    axes.bar(values, share, width=1.0, color=colour, alpha=0.35, label=f"{draws.count:,} draws")
    axes.plot(values, draws.exact[near], "o", color=INK, markersize=2.6, label="exact probability")
    axes.set(title=_title(draws), xlabel="noise", ylabel="probability", xlim=(-_BULK - 1, _BULK + 1))
    axes.set_ylim(0, draws.exact.max() * 1.12)
    axes.legend(loc="upper left", handlelength=1.2, borderaxespad=0.2)


def _tails(axes: Any, draws: Draws, fitted: Fit, colour: str) -> None:  # noqa: ANN401  as above
    reach = np.abs(draws.values[(draws.exact * draws.count >= _FAINT) | (draws.observed > 0)]).max()
    shown = np.abs(draws.values) <= reach
    values, exact = draws.values[shown], draws.exact[shown]
    low, high = (bound / draws.count for bound in binom.interval(CONFIDENCE, draws.count, exact))
    floor = _FAINT / draws.count
    band = {"color": QUIET, "alpha": 0.3, "linewidth": 0, "label": f"{CONFIDENCE:.0%} of counts at each value"}
    axes.fill_between(values, np.maximum(low, floor), high, step="mid", **band)
    axes.plot(values, exact, color=INK, linewidth=1.0, label="exact probability")
    seen = draws.observed > 0
    share = draws.observed[seen] / draws.count
    axes.plot(draws.values[seen], share, "o", color=colour, markersize=2.6, alpha=0.8, label="share of draws")
    axes.set(
        title=f"{draws.subject.name}: the tails, on a log scale", xlabel="noise", ylabel="probability", yscale="log"
    )
    axes.set_ylim(floor, draws.exact.max() * 30)
    axes.legend(loc="upper left", handlelength=1.2, borderaxespad=0.2)
    verdict = f"χ² = {fitted.statistic:.1f}\n{fitted.freedom} degrees of freedom\np = {fitted.p_value:.3f}"
    axes.text(0.99, 0.97, verdict, transform=axes.transAxes, ha="right", va="top", fontsize=9.5, linespacing=1.4)


def _speeds(axes: Any, results: list[tuple[Draws, Fit, Speed]]) -> None:  # noqa: ANN401  as above
    places = []
    for group, ((_, _, speed), colour) in enumerate(zip(results, COLOURS, strict=True)):
        for place, rate, fill in ((2.4 * group, speed.ours, colour), (2.4 * group + 1, speed.peer, QUIET)):
            axes.barh(place, rate, height=0.86, color=fill)
            axes.annotate(_short(rate), (rate, place), (6, 0), textcoords="offset points", va="center")
            places.append(place)
    names = [f"{draws.subject.name}, {maker}" for draws, _, _ in results for maker in ("Dodona", peer.NAME)]
    axes.set(title=f"Samples per CPU-second at scale {_scales(results)}, log scale", xscale="log")
    axes.set_yticks(places, names)
    axes.tick_params(axis="y", length=0)
    axes.invert_yaxis()
    axes.set_xlim(1e4, max(speed.ours for _, _, speed in results) * 4)


def _scales(results: list[tuple[Draws, Fit, Speed]]) -> str:
    return " and ".join(sorted({str(draws.subject.mechanism.scale) for draws, _, _ in results}))


def _title(draws: Draws) -> str:
    return f"{draws.subject.name}, scale {draws.subject.mechanism.scale}"


def _short(rate: float) -> str:
    return f"{rate / 1e6:,.0f} million" if rate >= 1e7 else f"{rate / 1e6:.2f} million"  # noqa: PLR2004  ten million
