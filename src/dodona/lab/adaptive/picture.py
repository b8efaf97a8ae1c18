"""Pictures of adaptive data analysis: a holdout used many times, and how many queries a sample answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dodona.errors import InvalidArgument, InvalidRequest
from dodona.lab.adaptive.answer import PopulationEstimate
from dodona.lab.adaptive.answerable import most_queries
from dodona.lab.adaptive.certificate import Route

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# From the palette of Okabe and Ito, which colour-blind readers can distinguish.
_COLOURS = ("#D55E00", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#8A8A8A")
_BLUE = "#0072B2"


def draw_reuse(
    path: str | Path,
    *,
    sizes: Sequence[int],
    estimates: Sequence[PopulationEstimate],
    others: Mapping[str, Sequence[float]],
) -> None:
    """Plot the reusable holdout's estimates for growing models, beside other scores of the same models.

    Needs the extra `plot`.
    """
    if not sizes or any(len(each) != len(sizes) for each in (estimates, *others.values())):
        raise InvalidArgument("sizes", sizes, "write at least one size, and a score of each kind for each")
    figure = _figure((7.5, 4.2))
    axes: Axes = figure.subplots()
    for colour, (name, scores) in zip(_COLOURS, others.items(), strict=False):
        axes.plot(sizes, scores, marker=".", color=colour, label=name)
    within = max(each.within for each in estimates)
    axes.errorbar(
        sizes,
        [each.value for each in estimates],
        yerr=[[each.value - each.low for each in estimates], [each.high - each.value for each in estimates]],
        color=_BLUE,
        marker="o",
        capsize=3,
        label=f"reusable holdout, all within ±{within:.2g} at {estimates[0].confidence:.0%}",
    )
    axes.set_xscale("log")
    axes.set_xlabel("features that were selected")
    axes.set_ylabel("accuracy")
    _finish(figure, axes, path)


def draw_answerable(
    path: str | Path, *, rows: Sequence[int], within: float, routes: Sequence[Route] = tuple(Route)
) -> None:
    """Plot how many adaptive queries a sample answers within an error at 95%, for each route.

    It is computed from formulas; no data is read. Needs the extra `plot`.
    """
    figure = _figure((7.5, 4.6))
    axes: Axes = figure.subplots()
    for number, route in enumerate(routes):
        limits = [most_queries(route, rows=each, within=within) for each in rows]
        shown = [(each, queries) for each, queries in zip(rows, limits, strict=True) if queries]
        colour = _BLUE if route is Route.GAUSSIAN else _COLOURS[number % len(_COLOURS)]
        axes.plot(
            [each for each, _ in shown],
            [queries for _, queries in shown],
            marker=".",
            color=colour,
            linestyle="-" if number < len(_COLOURS) else "--",
            label=route.value.replace("-", " "),
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("rows")
    axes.set_ylabel(f"adaptive queries within {within:g}")
    _finish(figure, axes, path)


def _figure(size: tuple[float, float]) -> Any:  # noqa: ANN401  matplotlib is partly typed
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise InvalidRequest("A picture needs matplotlib: install dodona[plot].") from error
    return Figure(figsize=size, layout="constrained")


def _finish(figure: Any, axes: Axes, path: str | Path) -> None:  # noqa: ANN401
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.savefig(path, dpi=110)
