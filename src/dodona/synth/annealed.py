"""Annealed releases: measure what the model is worst at, batch by batch; or the whole workload at once.

Which of the two is decided before the first charge, from public facts: the workload, the domain, the declared number of
rows and the price. Within a batch only released values are looked at.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from dodona.knowledge.binned import BinnedLaw
from dodona.knowledge.factored import FactoredBelief
from dodona.knowledge.fit import ObservedBlock
from dodona.privacy.scores import MOST_HANDICAP, DistanceScores, distance_sensitivity
from dodona.query.predicate import EVERYTHING
from dodona.query.query import MOST_VALUES, Block
from dodona.schema.partition import Partition
from dodona.synth.candidates import (
    LEAST_PRICE,
    Candidate,
    Candidates,
    choose_bins,
    coarser,
    list_candidates,
    list_runs,
    mean_absolute_noise,
)
from dodona.synth.run import SynthesisRun, total_rows
from dodona.synth.whole import WholePlan, join_whole, measure_whole, plan_whole
from dodona.synth.workload import marginal_block

_LEAST_SHARE, _MOST_SHARE, _CHOICE_SHARE = 0.05, 0.35, 0.1
"""Of the whole, the least and the most for the single columns, which every marginal needs; of a round, for choices."""
_SHARE_PER_ERROR, _SINGLE_ERROR = 4.0, 0.01
"""For single columns, by how far the noise of a tenth of the whole moves them, in total variation; and how far it does
where choices need all of their share."""
_ANNEALING_FACTOR = 4.0
"""The factor on the cost of a round once rounds gain less than their noise: it halves the noise."""
_ROUNDS_PER_COLUMN = 2
_LEAST_BATCH, _COLUMNS_PER_CHOICE = 4, 4
"""The least batch, and the columns for each choice: they are chosen by one model, and fitted together. There are never
more than half as many as columns."""
_OVERLAP = 2
"""Blocks of one batch share fewer columns than this."""
_STEPS, _CELL_STEPS = 30, 1 << 23
"""Of the fit of a round: small trees take more steps in the same time."""
_ANCHOR, _WHOLE_ANCHOR = 0.5, 8.0
"""Of the fit of a round, and of one to the whole workload. A stronger one takes fewer steps, and a guess, or what the
search for the most probable law starts from, may be more even than the end."""
_FITTING_STEPS = 200
_REFINING_STEPS = 240
"""Of the search for the most probable law, at the end; of a workload that was measured whole half as many, as little is
left to chance there."""
_SMALLEST = 1e-3
"""As a share of the whole: a smaller remainder is not worth a charge."""


def run_annealed(
    run: SynthesisRun, *, rounds: int | None
) -> tuple[FactoredBelief | BinnedLaw, tuple[ObservedBlock, ...]]:
    """Return the law after all rounds, fitted to their measurements, and these.

    Theorem: synthesis
    """
    belief = run.begin()
    whole = run.total * (1 - 1e-9)
    plan = _choose_plan(run) if rounds is None else None
    if plan is not None:
        seen = measure_whole(run, plan)
        belief = join_whole(belief if run.part == 1 else run.begin(), seen).fitted(_FITTING_STEPS, anchor=_WHOLE_ANCHOR)
        belief = belief.refined(_REFINING_STEPS // 2)
        return belief, (*belief.seen, *belief.loose)
    candidates = list_candidates(run)
    singles = [marginal_block(run.workload.query.domain, [name]) for name in run.workload.names]
    first, choosing = _preparing_shares(run, singles)
    parts = _ROUNDS_PER_COLUMN * len(singles) if rounds is None else rounds
    _require_drawable(run, candidates, min((1 - first) / parts, _SMALLEST) * whole, choosing)
    shares = run.currency.shares([block.values for block in singles])
    priced = list_runs(run, dict(zip(singles, (first * whole * share for share in shares), strict=True)))
    shares = [price / (first * whole) for price in priced.values()]
    measured = run.measure("singles", [*priced], first * whole, shares=shares)
    if measured and run.count_rows(*total_rows(measured)):
        belief, measured = run.begin(), tuple(run.observed.values())
    belief = belief.joined(measured).fitted(_STEPS, anchor=_ANCHOR)
    pace = (whole - run.spent) / parts
    binned = BinnedLaw.of(belief, *choose_bins(run, belief, (1 - choosing) * pace))
    if binned.bins:
        belief = binned.coarse.fitted(_STEPS, anchor=_ANCHOR)
        candidates = list_candidates(run, binned.bins)
    candidates.update(coarser(run, belief, candidates))
    batch, number = min(max(_LEAST_BATCH, len(singles) // _COLUMNS_PER_CHOICE), (len(singles) + 1) // 2), 0
    while whole - run.spent > _SMALLEST * whole:
        left = whole - run.spent
        count = max(1, min(batch, math.floor(left / pace)))
        last = left - count * pace < pace  # nothing is left for a round of its own
        number += 1
        belief, gained = _round(
            run, belief, candidates, number, count, _Prices(left if last else count * pace, choosing, last)
        )
        if not gained:
            pace *= _ANNEALING_FACTOR
    fitted = belief.fitted(_FITTING_STEPS, anchor=_ANCHOR).refined(_REFINING_STEPS)
    if not binned.bins:
        return fitted, (*fitted.seen, *fitted.loose)
    return replace(binned, coarse=fitted), (*run.start.known, *run.observed.values())


def _choose_plan(run: SynthesisRun) -> WholePlan | None:
    """Return how to measure the whole workload at once; None if it is to be measured in rounds.

    A run that has begun goes on in its way, also where another version of Dodona began it.
    """
    if run.charge("singles") is not None:
        return None
    if run.charge("residuals") is not None:
        return plan_whole(run, most=math.inf)
    return None if run.limit_bins() else plan_whole(run)  # tables value by value have no room in one model


def _preparing_shares(run: SynthesisRun, singles: Sequence[Block]) -> tuple[float, float]:
    """Return the shares spent on preparation: of the whole budget on single columns, and of each round on choices.

    With ample budget the least is enough for both, and the rest measures what was chosen. Where noise hides the single
    columns, these are most of what can be known.
    """
    shares = run.currency.shares([block.values for block in singles])
    noises = [
        run.currency.noise(_CHOICE_SHARE * run.total * share, run.sensitivity([block]))
        for block, share in zip(singles, shares, strict=True)
    ]
    moved = [0.5 * mean_absolute_noise(noise) * block.values for noise, block in zip(noises, singles, strict=True)]
    error = float(np.mean(moved)) / run.size
    power = 1 if run.currency.unit == "ε" else 2
    choosing = _CHOICE_SHARE * min(1.0, (error / _SINGLE_ERROR) ** power)
    return min(_MOST_SHARE, max(_LEAST_SHARE, _SHARE_PER_ERROR * error)), max(_LEAST_SHARE, choosing)


def _require_drawable(run: SynthesisRun, candidates: Candidates, least: float, choosing: float) -> None:
    """Refuse a price before the first charge, if its least round would ask for more noise than can be drawn."""
    factors = tuple(candidate.factor for candidate in candidates.values())
    run.currency.choice(choosing * least, distance_sensitivity(run.asked([*candidates]), factors, run.unit))
    for block in candidates:
        run.currency.noise((1 - choosing) * least * LEAST_PRICE, run.sensitivity([block]))


# --- A round: choose a batch of blocks by what the model believes, measure them together, and fit. ---


class _Prices(NamedTuple):
    """What a round may spend, the share of that for its choices, and whether it is the last one, which spends all."""

    whole: float
    choosing: float
    last: bool


def _round(  # noqa: PLR0913, PLR0917  the state of a run
    run: SynthesisRun, belief: FactoredBelief, candidates: Candidates, number: int, count: int, prices: _Prices
) -> tuple[FactoredBelief, bool]:
    """Return the belief after one batch, and whether it moved by more than the noise."""
    within = max(run.cells * min(1.0, (run.spent + prices.whole) / run.total), belief.tree.cells)
    blocks = [block for block in candidates if belief.holds([block], limit=math.ceil(within))]
    small = set(blocks)
    loose = {block for block in candidates if block not in small and _loose(block, candidates)}
    loose = {block for block in loose if not belief.holds([block])}
    blocks += [block for block in candidates if block in loose]
    blocks = blocks or [observation.block for observation in belief.seen]
    count = min(count, len(blocks))
    each = (1 - prices.choosing) * prices.whole / count
    scored = [candidates.get(block, Candidate(1, 1.0)) for block in blocks]
    factors, lost = tuple(candidate.factor for candidate in scored), []
    for block, candidate in zip(blocks, scored, strict=True):
        noise = run.currency.noise(each * candidate.price, run.sensitivity([block]))
        lost.append(min(MOST_HANDICAP, candidate.factor * math.floor(mean_absolute_noise(noise) * block.values)))
    query, believed = run.asked(blocks), run.believed(belief, blocks)
    choice = run.currency.choice(prices.choosing * prices.whole / count, distance_sensitivity(query, factors, run.unit))
    scores = DistanceScores(query, believed, factors, tuple(lost), choice, count=count, overlap=_OVERLAP)
    proposed, step = run.choose_blocks(f"{number} choose", scores), f"{number} measure"
    chosen, held, weights = list[Block](), list[Block](), list[float]()
    for block in proposed:  # each of them could be held alone: together they may tie too many columns
        holds = block not in loose and belief.holds([*held, block])
        if (holds or _loose(block, candidates)) and block.values + sum(other.values for other in chosen) <= MOST_VALUES:
            chosen.append(block)
            weights.append(candidates.get(block, Candidate(1, 1.0)).price)
            held += [block] if holds else []
    if not chosen:
        if run.charge(step) is None:
            return belief, True
        chosen, weights = blocks[:1], [1.0]  # another version measured what is not to be measured now: it is recalled
    paid = (1 - prices.choosing) * prices.whole if prices.last else each * sum(weights)
    seen = run.measure(step, chosen, paid, shares=[weight / sum(weights) for weight in weights])
    if not seen:
        return belief, True
    if [observation.block for observation in seen] != chosen:
        held = _held(belief, [observation.block for observation in seen])
    before = [belief.expect(run.workload.over([observation.block])) for observation in seen]
    belief = belief.joined([observation for observation in seen if observation.block in held])
    belief = belief.fitted(min(_FITTING_STEPS, max(_STEPS, _CELL_STEPS // belief.tree.cells)), anchor=_ANCHOR)
    belief = belief.loosened(
        [observation for observation in seen if observation.block not in held and _loose(observation.block, candidates)]
    )
    gains = 0
    for observation, old in zip(seen, before, strict=True):
        moved = float(np.abs(belief.expect(run.workload.over([observation.block])) - old).sum())
        gains += moved > _noise_distance(observation)
    return belief, 2 * gains > len(seen)


def _held(belief: FactoredBelief, blocks: Sequence[Block]) -> list[Block]:
    """Return the blocks that the belief can hold together, the first ones first."""
    held = list[Block]()
    for block in blocks:
        if belief.holds([*held, block]):
            held.append(block)
    return held


def _loose(block: Block, candidates: Candidates) -> bool:
    """Return whether a block can be measured that no clique holds: a marginal, perhaps in the bins of wide columns."""
    fine = block not in candidates or candidates[block].fine
    return fine and block.where == EVERYTHING and all(isinstance(key, Partition) for key in block.keys)


def _noise_distance(seen: ObservedBlock) -> float:
    """Return the distance that noise alone causes, as a share of the rows."""
    return math.sqrt(2 / math.pi * seen.variance) * seen.values.size
