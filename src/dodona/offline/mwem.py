"""MWEM in even rounds, and MWEM as its theorem has it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from dodona.belief.dense import Dense
from dodona.mechanisms.distances import Distances, distance_scores
from dodona.mechanisms.excesses import Excesses, excess_scores
from dodona.mechanisms.mwem_theorem import mwem_error, mwem_step
from dodona.offline.fitting import Fitted, Seen
from dodona.offline.mean import Mean, Mixture
from dodona.offline.method import MOST_ROUNDS, Guaranteed, Mwem
from dodona.offline.run import Run
from dodona.query.query import Block

if TYPE_CHECKING:
    from dodona.belief.refit import Belief

_SWEEPS = 3
_LAST_SWEEPS = 30


@dataclass(frozen=True, slots=True)
class Promise:
    """All answers are within so much, as shares of the rows, with so much confidence."""

    within: float
    confidence: float
    theorem: str


def mwem(run: Run, method: Mwem) -> tuple[Fitted, Mixture | None]:
    """Return the last belief, and the mean of all where that is what is wanted.

    The mean is over the beliefs that the choices were made against, as in the theorem.
    """
    part = run.total * (1 - 1e-9) / method.rounds
    fitted, mean = Fitted(run.workload.uniform(cells=run.cells)), Mean()
    for number in range(1, method.rounds + 1):
        if method.hypothesis == "average":
            mean.add(fitted.belief)
        blocks = [block for block in run.workload.query.blocks if run.holds(fitted.belief, block)]
        if not blocks:  # every other block would tie too many cells together
            break
        found = _worst(run, fitted.belief, blocks, number, part / 2)
        seen = () if found is None else run.measure(f"{number} measure", [found], part / 2)
        if found is not None and seen:
            fitted = _stepped(run, fitted, seen) if method.update == "step" else _refitted(fitted, seen)
    if method.update == "refit":
        fitted = fitted.swept(_LAST_SWEEPS)
    return fitted, mean.mixture() if method.hypothesis == "average" else None


def _worst(run: Run, belief: Belief, blocks: list[Block], number: int, part: float) -> Block | None:
    """Return the block that is farthest from the belief, chosen for a part of the budget; None where it was lost."""
    query, ones, none = run.asked(blocks), (1,) * len(blocks), (0,) * len(blocks)
    choice = run.currency.choice(part, distance_scores(query, ones, run.unit))
    found = run.choose(f"{number} choose", Distances(query, run.believed(belief, blocks), ones, none, choice))
    return None if found is None else blocks[found]


def _refitted(fitted: Fitted, seen: tuple[Seen, ...]) -> Fitted:
    return fitted.joined(seen).swept(_SWEEPS, first=seen[0].block)


def _stepped(run: Run, fitted: Fitted, seen: tuple[Seen, ...]) -> Fitted:
    """Return the belief after the sources' step: each cell times e^(weight·(told - believed)/2), in shares."""
    query = run.workload.over([seen[0].block])
    away = np.clip((seen[0].values - fitted.belief.expect(query)) / 2, -1.0, 1.0)
    return Fitted(fitted.belief.tilted(query, exponents=away), fitted.joined(seen).seen)


def guaranteed(run: Run, method: Guaranteed) -> tuple[Mixture, float, Promise | None]:
    """Return the mean of all beliefs, which part of the declared rows it is about, and what is promised of it.

    Each round buys one choice among all answers and their opposites. Where the table may have fewer rows than declared,
    those that are missing are in one spare cell, which no question counts and which is believed in as the others are.
    Nothing is promised where a choice was lost after its charge.

    Theorem: mwem-accuracy
    """
    query = run.workload.query
    rounds, promise = planned(run, method)
    kept: Promise | None = promise
    step = mwem_step(universe=_universe(run), rounds=rounds)
    choice = run.currency.choice(run.total * (1 - 1e-9) / rounds, excess_scores(query, run.unit))
    belief: Belief = Dense.uniform(run.workload.support)
    spare = 1 - run.workload.support.size / _universe(run)
    mean, shares = Mean(), []
    ends = list(accumulate(block.values for block in query.blocks))
    for number in range(1, rounds + 1):
        mean.add(belief, weight=1 - spare)
        shares.append(1 - spare)
        believed = run.believed(belief, query.blocks, share=1 - spare)
        found = run.choose(f"{number} choose", Excesses(query, believed, choice))
        if found is None:
            kept = None
            continue
        side, answer = (1.0, found) if found < query.values else (-1.0, found - query.values)
        place = next(place for place, end in enumerate(ends) if answer < end)
        block = query.blocks[place]
        own = answer - (ends[place] - block.values)
        exponents = np.zeros(block.values)
        exponents[own] = side * step
        over = run.workload.over([block])
        counted = float(
            belief.expect(over)[own]
        )  # cells of the answer grow by e^(±step), all others and the spare do not
        grown = 1 + counted * math.expm1(side * step)
        spare = spare / (spare + (1 - spare) * grown)
        belief = belief.tilted(over, exponents=exponents)
    return mean.mixture(), sum(shares) / rounds, kept


def _universe(run: Run) -> int:
    """Return the number of cells, with a spare one where not every declared row need be in one of them."""
    complete = run.unit.fixed and not run.workload.values_only
    return run.workload.support.size + (0 if complete else 1)


def planned(run: Run, method: Guaranteed) -> tuple[int, Promise]:
    """Return the number of rounds with the best promise, and that promise.

    Beliefs are rounded to whole rows before they are compared, and so is how many rows there are in the end: two rows
    of the promise cover that. Where a person has several rows, a choice misses so many times as much.
    """
    moved = excess_scores(run.workload.query, run.unit)

    def within(rounds: int) -> float:
        event = run.currency.choice(run.total / rounds, moved).event(moved)
        error = mwem_error(
            run.size,
            universe=_universe(run),
            questions=run.workload.query.values,
            rounds=rounds,
            epsilon=float(event.epsilon) / moved.linf,
            confidence=method.confidence,
        )
        return error + 2 / run.size

    if method.rounds is not None:
        best = method.rounds
    else:
        tried = sorted({max(1, round(math.exp(step / 20))) for step in range(int(20 * math.log(MOST_ROUNDS)) + 1)})
        best = min(tried, key=within)
    return best, Promise(within(best), method.confidence, "mwem-accuracy")
