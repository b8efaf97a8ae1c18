"""What the first questions of a stream would have cost, had they been known before: the best of the simple ways."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.streams import prices
from benchmarks.streams.certified import cost_of
from benchmarks.streams.ladder import epsilon_until
from benchmarks.streams.run import Run, rounded
from benchmarks.streams.stream import Products, Stream
from dodona.privacy.additive_noise import Gaussian, Laplace

PREFIXES = (100, 1_000, 10_000, 50_000)


def prices_of(stream: Stream, turn: int, *, budget: str) -> dict[str, float]:
    """Return the certified ε of each simple way for the questions until a turn."""
    asked = int(stream.fresh()[turn - 1])  # questions are numbered in the order of their first turns
    epsilons = {}
    accuracy = {"within": stream.within, "failing": stream.failing}
    for law in (Laplace, Gaussian) if budget != "pure" else (Laplace,):
        name = law.__name__.lower()
        alone = prices.single(law, **accuracy).event(prices.COUNT)
        epsilons[f"{name}+cache"] = cost_of({alone: asked}, budget=budget).certified
        whole = prices.histogram(law, cells=stream.cells.size, **accuracy).event(prices.HISTOGRAM)
        epsilons[f"histogram-{name}"] = cost_of([whole], budget=budget).certified
    if budget != "pure" and isinstance(stream.questions, Products):
        parts = prices.residuals(stream, range(asked))
        epsilons["residuals"] = cost_of([prices.residual_event(parts)], budget=budget).certified
    return epsilons


def prefixes(stream: Stream, runs: Sequence[Run], *, budget: str) -> dict[str, object]:
    """Return for each prefix the simple ways, the best of them, and how many times its price the ladder spent."""
    by_turn: dict[str, object] = {}
    for turn in PREFIXES:
        if turn > len(stream.asked):
            break
        known = prices_of(stream, turn, budget=budget)
        best = min(known, key=lambda name: known[name])
        ladder = epsilon_until(runs, turn)
        by_turn[str(turn)] = {
            "ladder": [rounded(epsilon) for epsilon in ladder],
            **{name: rounded(epsilon) for name, epsilon in known.items()},
            "best": best,
            "ratio": [rounded(epsilon / known[best]) for epsilon in ladder],
        }
    return by_turn
