"""Pictures: the ε that is certified so far against the questions asked, for every way to answer a stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.streams.run import Run
from dodona.errors import InvalidRequest

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = {
    "ladder": "#c02a2a",
    "ladder, prepared": "#7a1fa2",
    "laplace+cache": "#1f5fa8",
    "gaussian+cache": "#3f9bd8",
    "histogram-laplace": "#2c8c4c",
    "histogram-gaussian": "#86c06c",
    "residuals": "#c8912a",
    "pmw": "#777777",
}
_FAINT = "#b9a0a0"
_DASHES = ("--", ":", "-.", (0, (5, 1, 1, 1, 1, 1)))
_APART = 0.055
"""How far apart labels stand, as a part of the picture's height."""


def draw(path: Path, *, title: str, ways: Mapping[str, Sequence[Run]]) -> None:
    """Write a picture of the mean over runs of each way, named at its right end."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise InvalidRequest("A picture needs matplotlib: install dodona[plot].") from error
    figure = Figure(figsize=(9.6, 5.4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    ends = []
    for name, runs in ways.items():
        line = _line(axes, name, runs)
        if line is not None:
            ends.append(line)
    axes.set_xscale("log")
    axes.set_xlim(1, max(x for *_, x, _ in ends))
    axes.set_yscale("log")
    axes.set_xlabel("questions asked")
    axes.set_ylabel("ε certified so far, at δ = 10⁻⁹")
    axes.set_title(title, loc="left")
    axes.grid(visible=True, which="major", color="#e4e4e4", linewidth=0.8)
    axes.set_axisbelow(b=True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.draw_without_rendering()  # so that places are known
    _named(axes, ends)
    figure.savefig(path, dpi=130)


def _line(axes: Axes, name: str, runs: Sequence[Run]) -> tuple[str, str, float, float] | None:
    """Draw one way and return its name, colour and end."""
    trails = [run.trail for run in runs if run.trail]
    if not trails:
        return None
    turns = [turn for turn, _ in trails[0]]
    means = [sum(trail[place][1] for trail in trails) / len(trails) for place in range(len(turns))]
    shown = [(turn, mean) for turn, mean in zip(turns, means, strict=True) if mean > 0]
    if not shown:
        return None
    without = name.startswith("ladder-without")
    colour = _FAINT if without else _COLOURS.get(name, "#444444")
    dashes = _DASHES[hash_of(name) % len(_DASHES)] if without else "-"
    width = 2.6 if name.startswith("ladder") and not without else 1.5
    above = 3 if width > 2 else 2  # noqa: PLR2004  the thick line lies on the others
    xs, ys = zip(*shown, strict=True)
    axes.plot(xs, ys, color=colour, linestyle=dashes, linewidth=width, zorder=above, drawstyle="steps-post")
    return name, colour, float(xs[-1]), float(ys[-1])


def hash_of(name: str) -> int:
    """Return a small number of a name, the same in every process."""
    return sum(map(ord, name))


def _named(axes: Axes, ends: Sequence[tuple[str, str, float, float]]) -> None:
    """Write each name beside the end of its line, names that would meet one above the other."""
    inverse = axes.transAxes.inverted()
    placed = sorted(
        (float(inverse.transform(axes.transData.transform((x, y)))[1]), name, colour, y) for name, colour, x, y in ends
    )
    for height, (wanted, name, colour, value) in zip(
        apart([label[0] for label in placed], _APART), placed, strict=True
    ):
        axes.plot(
            [1.0, 1.025],
            [wanted, height],
            transform=axes.transAxes,
            color=colour,
            linewidth=0.8,
            clip_on=False,
        )
        text = colour if colour != _FAINT else "#8a6d6d"
        axes.text(1.03, height, f"{name}  {value:.3g}", transform=axes.transAxes, color=text, fontsize=9, va="center")


def apart(wanted: Sequence[float], least: float) -> list[float]:
    """Return places in the same rising order, at least so far apart and as near to those wanted as they can be.

    >>> apart([0.0, 0.5, 0.5], 0.25)
    [0.0, 0.375, 0.625]
    """
    groups: list[tuple[float, int]] = []  # the mean of neighbours that had to be put together, and how many they are
    for place, position in enumerate(wanted):
        mean, size = position - place * least, 1
        while groups and groups[-1][0] >= mean:
            before, number = groups.pop()
            mean, size = (before * number + mean * size) / (number + size), number + size
        groups.append((mean, size))
    flat = [mean for mean, size in groups for _ in range(size)]
    return [mean + place * least for place, mean in enumerate(flat)]
