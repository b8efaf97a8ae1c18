"""What rounds may measure: marginals of the workload and of fewer of its columns, value by value or in coarse bins.

All of it follows from public facts and from released counts of single columns.
"""

import math
from collections.abc import Mapping
from itertools import combinations, product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dodona.knowledge.binned import Bins, average_runs, combine_levels, cut_bins, even_runs, list_levels
from dodona.knowledge.factored import FactoredBelief
from dodona.knowledge.fit import ObservedBlock
from dodona.privacy.additive_noise import Laplace, Noise
from dodona.privacy.scores import MOST_FACTOR
from dodona.query.predicate import EVERYTHING
from dodona.query.query import MOST_VALUES, Block
from dodona.schema.partition import Partition
from dodona.synth.run import SynthesisRun
from dodona.synth.workload import WIDE, marginal_block

_LEAST_BIN = 2.0
"""Wide columns are put into bins, each of at least so many deviations of the noise of a first block."""
_RUNS, _HIDDEN = (4, 16, 64), 0.5
"""Runs of values of a wide column, and the error of its single values, in total variation, above which runs are counted
too."""
_COARSE = 3 / 16
"""Of all rows: the least share of a coarse bin, so that a column has about four of them."""
_WORTHWHILE = 0.7
"""Of the values of a column: with more coarse bins than that, there is little to gain."""
_PAIR = 2
LEAST_PRICE = 0.25
"""Of the price of a usual block: what the smallest ones cost at least."""


class Candidate(NamedTuple):
    """How a block is scored and paid for."""

    factor: int
    """The weight of its distance."""
    price: float
    """Of that of a usual block: smaller blocks are as accurate for less."""
    fine: bool = True
    """Whether it has a group for each value, or for each bin of a wide column."""


Candidates = Mapping[Block, Candidate]


def choose_bins(run: SynthesisRun, belief: FactoredBelief, paid: float) -> tuple[Bins, dict[str, NDArray[np.float64]]]:
    """Return the bins of wide columns, and the shares of their values, even where noise may have made them uneven.

    Each bin has about as many rows at least as the noise of a first block, or noise hides how many it has, and there
    are no more than models have room for. Only released counts of single columns are looked at. Columns stay as they
    are that anything else is known about, or that a count of the workload compares.
    """
    domain, bins = run.workload.query.domain, dict[str, Partition]()
    known = {name for names in belief.prior for name in names}
    for observation in belief.seen:
        alone_and_whole = len(observation.block.keys) == 1 and observation.block.where == EVERYTHING
        known |= set() if alone_and_whole else observation.block.attributes
    for block in run.workload.query.blocks:
        known |= set() if run.workload.marginal(block) is not None else block.attributes
    shares, most = dict[str, NDArray[np.float64]](), run.limit_bins()
    alone: dict[str, list[ObservedBlock]] = {}
    for observation in belief.seen:
        for name in observation.block.attributes - known:
            alone.setdefault(name, []).append(observation)
    for name, observations in alone.items():
        attribute = domain[name]
        levels = list_levels(observations, attribute.size) if attribute.size > WIDE else []
        if not levels:
            continue
        fine = max(observations, key=lambda observation: observation.values.size)
        noise, combined = run.currency.noise(paid, run.sensitivity([fine.block])), combine_levels(levels)
        cuts = {
            level.cuts[place]
            for level in levels
            for place in even_runs(np.add.reduceat(combined, level.cuts), math.sqrt(level.variance))
        }
        runs = tuple(sorted(cuts))
        even = average_runs(combined, runs)
        least, deviation = _LEAST_BIN * float(noise.scale) / run.size, math.sqrt(fine.variance)
        firsts = cut_bins(even, least, runs, deviation, most=most.get(name))
        if len(firsts) < attribute.size:
            bins[name] = Partition.cut(attribute, firsts)
            shares[name] = np.concatenate((even, np.maximum(fine.values[attribute.size :], 0.0)))
    for even_bins in run.workload.runs:  # what was counted was lost after its charge: values of a bin are as likely
        if even_bins.attribute not in bins:
            bins[even_bins.attribute] = even_bins
            shares[even_bins.attribute] = np.ones(even_bins.cells)
    return bins, shares


def list_runs(run: SynthesisRun, singles: Mapping[Block, float]) -> dict[Block, float]:
    """Return the single columns with the price of each, and runs of values of those whose noise hides single values.

    Whether noise does is decided by public facts. Runs are as many as 4, 16 and 64, so that those of one level are in
    those of the level before; all levels of a column have equal parts of its price.
    """
    priced = dict[Block, float]()
    for block, price in singles.items():
        attribute = run.workload.query.domain[next(iter(block.attributes))]
        noise = run.currency.noise(price, run.sensitivity([block]))
        hidden = mean_absolute_noise(noise) * block.values > 2 * _HIDDEN * run.size
        numbers = [number for number in _RUNS if 2 * number <= attribute.size and attribute.size > WIDE and hidden]
        blocks = [block]
        for number in numbers:
            most = numbers[-1]
            firsts = [place * attribute.size // most for place in range(0, most, most // number)]
            blocks.append(Block(EVERYTHING, (Partition.cut(attribute, tuple(firsts)),)))
        priced |= dict.fromkeys(blocks, price / len(blocks))
    return priced


def list_candidates(run: SynthesisRun, bins: Bins | None = None) -> dict[Block, Candidate]:
    """Return the blocks that may be measured.

    For marginals: all subsets of workload marginals, weighted by the columns that they share with these; the smaller
    ones first, as long as all can be asked for at once.
    """
    domain, factors = run.workload.query.domain, dict[Block, int]()
    cut = {runs.attribute: runs for runs in run.workload.runs} | dict(bins or {})
    groups = {name: cut[name].groups if name in cut else domain[name].cells for name in run.workload.names}
    sets = [part for part in run.workload.parts if isinstance(part, tuple)]
    uses = {name: sum(name in names for names in sets) for name in run.workload.names}
    below = {some for names in sets for ways in range(1, len(names)) for some in combinations(names, ways)}
    most = MOST_VALUES - run.workload.query.values
    for some in sorted(below.difference(sets), key=lambda some: (math.prod([groups[name] for name in some]), some)):
        most -= math.prod([groups[name] for name in some])
        if most < 0:
            break
        factors[marginal_block(domain, some, cut)] = sum(uses[name] for name in some)
    for names in sets:
        factors[marginal_block(domain, names, cut)] = sum(uses[name] for name in names)
    usual = max(factors.values(), default=1)
    for part in run.workload.parts:
        if isinstance(part, Block):
            factors.setdefault(part, usual)
    weight = _usual_weight(run)
    finest = -(-max(factors.values()) // MOST_FACTOR)
    return {block: Candidate(max(1, factor // finest), _price(run, block, weight)) for block, factor in factors.items()}


def coarser(run: SynthesisRun, belief: FactoredBelief, candidates: Candidates) -> dict[Block, Candidate]:
    """Return candidates for pairs of columns in coarse bins, one column of a pair or both.

    A table of few cells tells how two columns hang together where noise would hide that in one of all their values; the
    choice decides which of them is worth more. Bins are cut by what is believed of single columns, and so by released
    counts alone. There are no more than can be asked for at once.
    """
    domain, cut = run.workload.query.domain, dict[str, Partition]()
    for block in candidates:
        key = block.keys[0] if len(block.keys) == 1 else None
        if block.where != EVERYTHING or not isinstance(key, Partition):
            continue
        shares = belief.expect(run.workload.over([block]))[: len(key.cuts)]
        cuts = tuple(key.cuts[place] for place in cut_bins(shares, _COARSE, (), 0.0))
        if 1 < len(cuts) < _WORTHWHILE * len(key.cuts):
            cut[key.attribute] = Partition.cut(domain[key.attribute], cuts)
    pair_candidates, weight = dict[Block, Candidate](), _usual_weight(run)
    most = MOST_VALUES - sum(block.values for block in candidates)
    for block, (factor, _, _) in candidates.items():
        keys = [key for key in block.keys if isinstance(key, Partition)]
        if len(keys) != _PAIR or block.where != EVERYTHING:
            continue
        for combination in product(*((key, cut[key.attribute]) if key.attribute in cut else (key,) for key in keys)):
            coarse = Block(EVERYTHING, combination)
            if coarse not in candidates and coarse.values <= most:
                most -= coarse.values
                pair_candidates[coarse] = Candidate(factor, _price(run, coarse, weight), fine=False)
    return pair_candidates


def _price(run: SynthesisRun, block: Block, usual: float) -> float:
    """Return the price of a block, as a part of that of a usual one, which is as large as a pair of columns.

    Prices in proportion to these make the sum of all noises least. Larger blocks cost no more than usual ones, or
    rounds would be too few.
    """
    return max(LEAST_PRICE, min(1.0, run.currency.weight(block.values) / usual))


def _usual_weight(run: SynthesisRun) -> float:
    """Return what a pair of columns should cost on average, in proportion to others; or one column, if there is one."""
    sizes = [run.workload.query.domain[name].cells for name in run.workload.names]
    pairs = [first * second for first, second in combinations(sizes, 2)] or sizes
    return math.fsum(map(run.currency.weight, pairs)) / len(pairs)


def mean_absolute_noise(noise: Noise) -> float:
    """Return the mean absolute value of the noise."""
    return float(noise.scale) * (1.0 if isinstance(noise, Laplace) else math.sqrt(2 / math.pi))
