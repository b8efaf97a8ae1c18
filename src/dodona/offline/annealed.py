"""Annealed rounds: buy the marginal that is farthest beyond its noise, fit, and lower the noise when that is little.

The loop is AIM's (McKenna, Mullins, Sheldon and Miklau 2022). The belief keeps every cell, so that no table is refused
for the shape of a model. Beyond so many cells it keeps components, and leaves marginals out that would tie too many.
"""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np

from dodona.mechanisms.distances import Distances, distance_scores
from dodona.mechanisms.gaussian import Gaussian
from dodona.mechanisms.measurement import Noise
from dodona.offline.fitting import Fitted, Seen
from dodona.offline.method import Annealed
from dodona.offline.run import Run
from dodona.offline.workload import marginal, plain
from dodona.query.query import Block

_FIRST = 0.1
"""The part that goes into the single columns, which every marginal needs."""
_CHOICE = 0.1
"""The part of a round that goes into the choice."""
_COOLED = 4.0
"""How many times as much a round costs, once rounds bring less than their noise: noise is halved."""
_SWEEPS = 2
_LAST_SWEEPS = 15
_SMALLEST = 1e-3
"""Of the whole: what is left over in the end buys nothing worth a charge."""


def annealed(run: Run, method: Annealed) -> Fitted:
    """Return the belief after all rounds, and what it was fitted to."""
    candidates = _candidates(run)
    singles = [marginal(run.workload.query.domain, [name]) for name in run.workload.names]
    fitted = Fitted(run.workload.uniform(cells=run.cells))
    whole = run.total * (1 - 1e-9)
    fitted = fitted.joined(run.measure("singles", singles, _FIRST * whole)).swept(_SWEEPS)
    rounds = 2 * len(singles) if method.rounds is None else method.rounds
    pace, number = (whole - run.spent) / rounds, 0
    while whole - run.spent > _SMALLEST * whole:
        left = whole - run.spent
        part = left if left < 2 * pace else pace
        number += 1
        fitted, gained = _round(run, fitted, candidates, number, part)
        if not gained:
            pace *= _COOLED
    return fitted.swept(_LAST_SWEEPS)


def _round(
    run: Run, fitted: Fitted, candidates: list[tuple[Block, int]], number: int, part: float
) -> tuple[Fitted, bool]:
    """Return the belief after one round, and whether it moved by more than the noise."""
    open_ones = [one for one in candidates if run.holds(fitted.belief, one[0])]
    blocks = [block for block, _ in open_ones]
    believed = run.believed(fitted.belief, blocks)
    factors = tuple(factor for _, factor in open_ones)
    paid = (1 - _CHOICE) * part
    noises = [run.currency.noise(paid, run.sensitivity([block])) for block in blocks]
    lost = [
        factor * math.floor(_usual(noise) * block.values)
        for block, noise, factor in zip(blocks, noises, factors, strict=True)
    ]
    query = run.asked(blocks)
    choice = run.currency.choice(_CHOICE * part, distance_scores(query, factors, run.unit))
    found = run.choose(f"{number} choose", Distances(query, believed, factors, tuple(lost), choice))
    if found is None:
        return fitted, True
    block = blocks[found]
    seen = run.measure(f"{number} measure", [block], paid)
    if not seen:
        return fitted, True
    before = fitted.belief.expect(run.workload.over([block]))
    fitted = fitted.joined(seen).swept(_SWEEPS, first=block)
    moved = float(np.abs(fitted.belief.expect(run.workload.over([block])) - before).sum())
    return fitted, moved > _noise_left(seen[0])


def _noise_left(seen: Seen) -> float:
    """Return the distance that noise alone makes, in shares."""
    return math.sqrt(2 / math.pi * seen.variance) * seen.values.size


def _usual(noise: Noise) -> float:
    """Return how far noise is off on average."""
    return float(noise.scale) * (math.sqrt(2 / math.pi) if isinstance(noise, Gaussian) else 1.0)


def _candidates(run: Run) -> list[tuple[Block, int]]:
    """Return what may be measured, and how much each distance counts.

    Of marginals, all that are part of one count for the columns that they share with those of the workload.
    """
    domain, found = run.workload.query.domain, dict[Block, int]()
    sets = [names for block in run.workload.query.blocks if (names := plain(block)) is not None]
    for names in sets:
        for ways in range(1, len(names) + 1):
            for some in combinations(names, ways):
                block = marginal(domain, some)
                if block not in found:
                    found[block] = sum(len(set(some) & set(other)) for other in sets)
    usual = max(found.values(), default=1)
    for block in run.workload.query.blocks:
        found.setdefault(block, usual)
    return list(found.items())
