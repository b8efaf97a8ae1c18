"""Annealed releases: measure what the model is worst at, batch by batch; or the whole workload at once.

Which of the two is decided before the first charge, from public facts: the workload, the domain, the declared number of
rows and the price. Within a batch only released values are looked at.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from dodona.knowledge.binned import BinnedLaw, Bins, average_runs, cut_bins, even_runs
from dodona.knowledge.factored import FactoredBelief
from dodona.knowledge.fit import ObservedBlock
from dodona.privacy.additive_noise import Laplace, Noise
from dodona.privacy.scores import MOST_FACTOR, MOST_HANDICAP, DistanceScores, distance_sensitivity
from dodona.query.predicate import EVERYTHING
from dodona.query.query import MOST_VALUES, Block
from dodona.schema.partition import Partition
from dodona.synth.run import SynthesisRun
from dodona.synth.whole import join_whole, measure_whole, plan_whole
from dodona.synth.workload import marginal_block, marginal_columns

_LEAST_SHARE, _MOST_SHARE = 0.05, 0.1
"""Of the whole for the single columns, which every marginal needs, and of a round for the choice."""
_SINGLE_ERROR = 0.01
"""Single columns get more than the least share while their noise moves them by more than this, in total variation."""
_WIDE, _LEAST_BIN = 64, 2.0
"""Columns with more values are put into bins, each of at least so many deviations of the noise of a first block."""
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
_ANCHOR = 0.5
"""Of the fit of a round: a stronger one takes fewer steps, and what is only a guess may be more even than the end."""
_WHOLE_STEPS, _LAST_STEPS = 200, 500
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
    plan = plan_whole(run) if rounds is None else None
    if plan is not None:
        seen = measure_whole(run, plan)
        belief = join_whole(belief, seen).fitted(_WHOLE_STEPS)
        return belief, (*belief.seen, *belief.loose)
    candidates = _candidates(run)
    singles = [marginal_block(run.workload.query.domain, [name]) for name in run.workload.names]
    share = _preparing_share(run, singles)
    parts = _ROUNDS_PER_COLUMN * len(singles) if rounds is None else rounds
    _require_drawable(run, candidates, min((1 - share) / parts, _SMALLEST) * whole, share)
    measured = run.measure("singles", singles, share * whole, by_size=True)
    belief = belief.joined(measured).fitted(_STEPS, anchor=_ANCHOR)
    pace = (whole - run.spent) / parts
    binned = BinnedLaw.of(belief, *_choose_bins(run, belief, (1 - share) * pace))
    if binned.bins:
        belief = binned.coarse.fitted(_STEPS, anchor=_ANCHOR)
        candidates = _candidates(run, binned.bins)
    batch, number = min(max(_LEAST_BATCH, len(singles) // _COLUMNS_PER_CHOICE), (len(singles) + 1) // 2), 0
    while whole - run.spent > _SMALLEST * whole:
        left = whole - run.spent
        count = max(1, min(batch, math.floor(left / pace)))
        price = count * pace if left - count * pace >= pace else left  # nothing is left for a round of its own
        number += 1
        belief, gained = _round(run, belief, candidates, number, count, (price, share * price))
        if not gained:
            pace *= _ANNEALING_FACTOR
    fitted = belief.fitted(_LAST_STEPS)
    if not binned.bins:
        return fitted, (*fitted.seen, *fitted.loose)
    return replace(binned, coarse=fitted), (*measured, *fitted.seen, *fitted.loose)


def _choose_bins(run: SynthesisRun, belief: FactoredBelief, paid: float) -> tuple[Bins, dict[str, NDArray[np.float64]]]:
    """Return the bins of wide columns, and the shares of their values, even where noise may have made them uneven.

    Each bin has about as many rows at least as the noise of a first block, or noise hides how many it has. Only
    released counts of single columns are looked at. Columns stay as they are that anything else is known about, or that
    a count of the workload compares.
    """
    domain, found = run.workload.query.domain, dict[str, Partition]()
    known = {name for names in belief.prior for name in names}
    known |= {name for one in belief.seen if len(one.block.attributes) > 1 for name in one.block.attributes}
    for block in run.workload.query.blocks:
        known |= set() if marginal_columns(block) is not None else block.attributes
    shares = dict[str, NDArray[np.float64]]()
    for one in belief.seen:
        name = next(iter(one.block.attributes), None)
        if name is None or name in known:  # blocks of several columns are among what is known
            continue
        attribute, deviation = domain[name], math.sqrt(one.variance)
        if attribute.size <= _WIDE or one.values.size != attribute.cells:
            continue
        noise = run.currency.noise(paid, run.sensitivity([one.block]))
        counted, others = np.split(one.values, [attribute.size])
        runs = even_runs(counted, deviation)
        even = average_runs(counted, runs)
        cuts = cut_bins(even, _LEAST_BIN * float(noise.scale) / run.size, runs, deviation)
        if len(cuts) < attribute.size:
            found[name] = Partition.cut(attribute, cuts)
            shares[name] = np.concatenate((even, np.maximum(others, 0.0)))
    return found, shares


def _preparing_share(run: SynthesisRun, singles: Sequence[Block]) -> float:
    """Return the share spent on preparation: of the whole budget on single columns, and of each round on choices.

    With ample budget the least is enough for both, and the rest measures what was chosen.
    """
    shares = run.currency.shares([block.values for block in singles])
    noises = [
        run.currency.noise(_MOST_SHARE * run.total * share, run.sensitivity([block]))
        for block, share in zip(singles, shares, strict=True)
    ]
    moved = [0.5 * _mean_absolute_noise(noise) * block.values for noise, block in zip(noises, singles, strict=True)]
    error = float(np.mean(moved)) / run.size
    power = 1 if run.currency.unit == "ε" else 2
    return min(_MOST_SHARE, max(_LEAST_SHARE, _MOST_SHARE * (error / _SINGLE_ERROR) ** power))


def _require_drawable(run: SynthesisRun, candidates: dict[Block, int], least: float, share: float) -> None:
    """Refuse a price before the first charge, if its least round would ask for more noise than can be drawn."""
    factors = tuple(candidates.values())
    run.currency.choice(share * least, distance_sensitivity(run.asked([*candidates]), factors, run.unit))
    for block in candidates:
        run.currency.noise((1 - share) * least, run.sensitivity([block]))


# --- A round: choose a batch of blocks by what the model believes, measure them together, and fit. ---


def _round(  # noqa: PLR0913, PLR0917  the state of a run
    run: SynthesisRun,
    belief: FactoredBelief,
    candidates: dict[Block, int],
    number: int,
    count: int,
    prices: tuple[float, float],
) -> tuple[FactoredBelief, bool]:
    """Return the belief after one batch, and whether it moved by more than the noise.

    The prices are that of the whole round, and what of it is for the choices.
    """
    price, choosing = prices
    within = max(run.cells * min(1.0, (run.spent + price) / run.total), belief.tree.cells)
    blocks = [block for block in candidates if belief.holds([block], limit=math.ceil(within))]
    small = set(blocks)
    loose = {block for block in candidates if block not in small and _loose(block) and not belief.holds([block])}
    blocks += [block for block in candidates if block in loose]
    blocks = blocks or [one.block for one in belief.seen]
    count = min(count, len(blocks))
    paid = price - choosing
    factors = tuple(candidates.get(block, 1) for block in blocks)
    lost = []
    for block, factor in zip(blocks, factors, strict=True):
        noise = run.currency.noise(paid / count, run.sensitivity([block]))
        lost.append(min(MOST_HANDICAP, factor * math.floor(_mean_absolute_noise(noise) * block.values)))
    query, believed = run.asked(blocks), run.believed(belief, blocks)
    choice = run.currency.choice(choosing / count, distance_sensitivity(query, factors, run.unit))
    scores = DistanceScores(query, believed, factors, tuple(lost), choice, count=count, overlap=_OVERLAP)
    found = run.choose(f"{number} choose", scores)
    chosen, held = list[Block](), list[Block]()
    for place in found:  # each of them could be held alone: together they may tie too many columns
        block = blocks[place]
        holds = block not in loose and belief.holds([*held, block])
        if (holds or _loose(block)) and block.values + sum(own.values for own in chosen) <= MOST_VALUES:
            chosen.append(block)
            held += [block] if holds else []
    seen = run.measure(f"{number} measure", chosen, paid) if chosen else ()
    if not seen:
        return belief, True
    before = [belief.expect(run.workload.over([one.block])) for one in seen]
    belief = belief.joined([one for one in seen if one.block in held])
    belief = belief.fitted(min(_WHOLE_STEPS, max(_STEPS, _CELL_STEPS // belief.tree.cells)), anchor=_ANCHOR)
    belief = belief.loosened([one for one in seen if one.block not in held])
    gains = 0
    for one, old in zip(seen, before, strict=True):
        moved = float(np.abs(belief.expect(run.workload.over([one.block])) - old).sum())
        gains += moved > _noise_distance(one)
    return belief, 2 * gains > len(seen)


def _loose(block: Block) -> bool:
    """Return whether a block can be measured that no clique holds: a marginal, perhaps of bins."""
    return block.where == EVERYTHING and all(isinstance(key, Partition) for key in block.keys)


def _noise_distance(seen: ObservedBlock) -> float:
    """Return the distance that noise alone causes, as a share of the rows."""
    return math.sqrt(2 / math.pi * seen.variance) * seen.values.size


def _mean_absolute_noise(noise: Noise) -> float:
    """Return the mean absolute value of the noise."""
    return float(noise.scale) * (1.0 if isinstance(noise, Laplace) else math.sqrt(2 / math.pi))


def _candidates(run: SynthesisRun, bins: Bins | None = None) -> dict[Block, int]:
    """Return the blocks that may be measured, and the weight of each distance.

    For marginals: all subsets of workload marginals, weighted by the columns that they share with these; the smaller
    ones first, as long as all can be asked for at once.
    """
    domain, found, cut = run.workload.query.domain, dict[Block, int](), bins or {}
    sets = [names for block in run.workload.query.blocks if (names := marginal_columns(block)) is not None]
    uses = {name: sum(name in names for names in sets) for name in run.workload.names}
    below = {some for names in sets for ways in range(1, len(names)) for some in combinations(names, ways)}
    most = MOST_VALUES - run.workload.query.values
    for some in sorted(
        below.difference(sets), key=lambda some: (math.prod([domain[name].cells for name in some]), some)
    ):
        most -= math.prod([domain[name].cells for name in some])
        if most < 0:
            break
        found[marginal_block(domain, some, cut)] = sum(uses[name] for name in some)
    for names in sets:
        found[marginal_block(domain, names, cut)] = sum(uses[name] for name in names)
    usual = max(found.values(), default=1)
    for block in run.workload.query.blocks:
        if marginal_columns(block) is None:
            found.setdefault(block, usual)
    finest = -(-max(found.values()) // MOST_FACTOR)
    return {block: max(1, factor // finest) for block, factor in found.items()}
