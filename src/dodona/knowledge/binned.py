"""A law on bins of columns: they are fitted in runs of adjacent values, and rows of a bin are spread over its values.

A column with many rare values would fill tables with noise and cliques with cells. What is known of its values one by
one decides the bins and the spread within each; how it hangs together with other columns is fitted bin by bin.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Self

import numpy as np
from numpy.typing import NDArray

from dodona.knowledge import cells
from dodona.knowledge.cells import BlockOnSupport, Places, Support
from dodona.knowledge.factored import FactoredBelief
from dodona.knowledge.fit import ObservedBlock
from dodona.query.predicate import EVERYTHING
from dodona.query.query import ONE, Block, Query
from dodona.schema.partition import Partition

Bins = Mapping[str, Partition]
"""The bins of some columns; values of other columns stand for themselves."""


_MOST_PLACES = 1 << 11
"""Of a search for even runs, whose time grows with the square: values of wider columns are taken several at once."""


_LARGER = 1.2
"""How many times as large a share bins have where there would be too many."""


def even_runs(shares: NDArray[np.float64], deviation: float) -> tuple[int, ...]:
    """Return the first codes of runs of adjacent values that noise alone may have made uneven.

    The runs minimize the squared distances from their means, in deviations, plus 2 ln n for each run: the least squares
    of n values with changes at unknown places (Yao 1988).

    >>> even_runs(np.array([0.1, 0.11, 0.09, 0.3, 0.1, 0.1, 0.1]), 0.01)
    (0, 3, 4)
    """
    width = -(-shares.size // _MOST_PLACES)
    places = np.arange(0, shares.size, width)
    sums = np.concatenate(([0.0], np.cumsum(np.add.reduceat(shares, places))))
    ends = np.concatenate((places, [shares.size])).astype(np.float64)
    penalty = 2 * math.log(max(places.size, 2)) * deviation**2
    # Squares of the values themselves are the same for all partitions, so only the squares of the means are compared.
    least, last = np.zeros(ends.size), np.zeros(ends.size, dtype=np.int64)
    for end in range(1, ends.size):
        costs = least[:end] - (sums[end] - sums[:end]) ** 2 / (ends[end] - ends[:end])
        last[end] = int(np.argmin(costs))
        least[end] = costs[last[end]] + penalty
    cuts, end = list[int](), places.size
    while end:
        end = int(last[end])
        cuts.append(int(places[end]))
    return tuple(reversed(cuts))


def average_runs(shares: NDArray[np.float64], runs: tuple[int, ...]) -> NDArray[np.float64]:
    """Return the shares with each value at the mean of its run, and none below 0.

    >>> average_runs(np.array([0.25, 0.75, -0.5]), (0, 2)).tolist()
    [0.5, 0.5, 0.0]
    """
    lengths = np.diff((*runs, shares.size))
    means: NDArray[np.float64] = np.repeat(np.add.reduceat(shares, runs) / lengths, lengths)
    return np.maximum(means, 0.0)


def cut_bins(
    shares: NDArray[np.float64], least: float, runs: tuple[int, ...], deviation: float, *, most: int | None = None
) -> tuple[int, ...]:
    """Return the first codes of runs of adjacent values that have at least this share, as far as values allow it.

    A frequent value is not joined with those before it, unless these have less than half of the least share. Even runs
    whose share is known less well than that, from values with noise of this deviation, are bins of their own. Where
    there would be more bins than the most, each has a larger share.

    >>> cut_bins(np.array([0.02, 0.03, 0.4, 0.01, 0.01, 0.01, 0.5, 0.02]), 0.05, (), 0.0)
    (0, 2, 3, 6)
    """
    firsts = _cut(shares, least, runs, deviation)
    while most is not None and len(firsts) > most:
        least = max(_LARGER * least, float(shares.sum()) / most)
        firsts = _cut(shares, least, runs, deviation)
    return firsts


def _cut(shares: NDArray[np.float64], least: float, runs: tuple[int, ...], deviation: float) -> tuple[int, ...]:
    cuts, held, starts = [0], 0.0, set(runs)
    for code, share in enumerate(shares.tolist()):
        unsure = code in starts and deviation * math.sqrt(code - cuts[-1]) >= least
        if code and (held >= least or unsure or (share >= least and held >= least / 2)):
            cuts.append(code)
            held = 0.0
        held += share
    sure = deviation * math.sqrt(shares.size - cuts[-1]) < least
    return tuple(cuts[:-1] if held < least / 2 and sure and len(cuts) > 1 else cuts)


# --- Counts of runs beside those of values: nested runs, from single values up. ---


@dataclass(frozen=True, slots=True, eq=False)
class RunCounts:
    """Noisy shares of runs of adjacent values, and the noise of each."""

    cuts: tuple[int, ...]
    """The first code of each run."""
    shares: NDArray[np.float64]
    variance: float


def combine_levels(levels: Sequence[RunCounts]) -> NDArray[np.float64]:
    """Return the shares of single values that all levels together say: the best linear unbiased ones.

    The first level is the single values; each run of a later one is made of runs of the level before. Going up, a run's
    own share and the sum of its parts are weighted by their precision; going down, what differs is spread over the
    parts by their variance (Hay, Rastogi, Miklau and Suciu 2010).

    >>> values, halves = RunCounts((0, 1, 2, 3), np.array([0.0, 0.4, 0.4, 0.4]), 0.01), np.array([0.5, 0.5])
    >>> combine_levels([values, RunCounts((0, 2), halves, 0.02)]).round(3).tolist()
    [0.025, 0.425, 0.325, 0.325]
    """
    estimates = [levels[0].shares]
    variances = [np.full(levels[0].shares.size, levels[0].variance)]
    parts: list[tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]] = []
    for below, level in pairwise(levels):
        starts = np.searchsorted(below.cuts, level.cuts)
        sums, spreads = (np.add.reduceat(numbers[-1], starts) for numbers in (estimates, variances))
        lengths = np.diff(np.append(starts, len(below.cuts)))
        parts.append((lengths, sums, spreads))
        variances.append(1 / (1 / level.variance + 1 / spreads))
        estimates.append(variances[-1] * (level.shares / level.variance + sums / spreads))
    combined = estimates.pop()
    for (lengths, sums, spreads), estimate, variance in zip(
        reversed(parts), reversed(estimates), reversed(variances[:-1]), strict=True
    ):
        combined = estimate + np.repeat((combined - sums) / spreads, lengths) * variance
    return combined


def run_variance(levels: Sequence[RunCounts], first: int, after: int, size: int) -> float:
    """Return the variance of the share of a run of values as the sum of the fewest measured runs in it."""
    level = levels[-1]
    edges = np.append(level.cuts, size)
    start, end = int(np.searchsorted(edges, first)), int(np.searchsorted(edges, after, side="right")) - 1
    if len(levels) == 1:
        return (after - first) * level.variance
    if start >= end:
        return run_variance(levels[:-1], first, after, size)
    rest = [(first, int(edges[start])), (int(edges[end]), after)]
    return (end - start) * level.variance + sum(
        run_variance(levels[:-1], low, high, size) for low, high in rest if low < high
    )


@dataclass(frozen=True)
class BinnedLaw:
    """A law over the cells of a support: that of bins, and the share of each value in its bin."""

    support: Support
    bins: Bins
    coarse: FactoredBelief
    """The law of bins, over a support with the first value of each."""
    within: Mapping[str, NDArray[np.float64]] = field(repr=False)
    """For each column in bins, and each code of the support: its share of its bin."""

    @classmethod
    def of(cls, belief: FactoredBelief, bins: Bins, shares: Mapping[str, NDArray[np.float64]]) -> Self:
        """Return a belief that has observed single columns, with some of these in bins and not fitted yet.

        The shares of values in all rows, by code, say how those of a bin are to each other.
        """
        support, masks, within = belief.support, list[int](), dict[str, NDArray[np.float64]]()
        for place, (name, codes) in enumerate(support.codes.items()):
            if name not in bins:
                masks.append(support.masks[place])
                continue
            groups = bins[name].table()[codes]
            code_shares = shares[name][codes]
            totals = np.bincount(groups, code_shares, minlength=bins[name].groups)[groups]
            even = 1.0 / np.bincount(groups)[groups]
            within[name] = np.where(totals > 0, code_shares / np.where(totals > 0, totals, 1.0), even)
            masks.append(sum(1 << int(code) for code in codes[np.flatnonzero(np.diff(groups, prepend=-1))]))
        columns: dict[str, list[ObservedBlock]] = {name: [] for name in bins}
        seen: list[ObservedBlock] = []
        for observation in belief.seen:
            names = observation.block.attributes
            (columns[next(iter(names))] if len(names) == 1 and names <= set(bins) else seen).append(observation)
        seen += [observed for name, alone in columns.items() for observed in _in_bins(alone, bins[name])]
        coarse = FactoredBelief(Support(support.domain, tuple(masks)), belief.limit, belief.prior, tuple(seen))
        return cls(support, bins, coarse, within)

    @property
    def gap(self) -> float:
        """How far the last fit was from its optimum at most, in deviations of the noise."""
        return self.coarse.gap

    def expect(self, query: Query) -> NDArray[np.float64]:
        """Return the expected weight of a row for every answer of a query."""
        questions = cells.blocks_on_support(query, self.support)
        runs = {question.block for question in questions if self._in_runs(question.block)}
        laws = self.laws({question.places for question in questions if question.block not in runs})
        coarse = self.coarse.laws({question.places for question in questions if question.block in runs})
        return np.concatenate(
            [
                self._spread_runs(coarse[question.places], question)
                if question.block in runs
                else question.values(laws[question.places])
                for question in questions
            ]
        )

    def _in_runs(self, block: Block) -> bool:
        """Return whether a block is a marginal with a column in runs of values: all its values may be too many."""
        keys = [key for key in block.keys if isinstance(key, Partition)]
        names = {key.attribute for key in keys}
        return (
            block.where == EVERYTHING
            and block.weight == ONE
            and len(names) == len(block.keys)
            and any(key.attribute in self.bins and not key.single for key in keys)
        )

    def _spread_runs(self, law: NDArray[np.float64], question: BlockOnSupport) -> NDArray[np.float64]:
        """Return the answers of a marginal in runs of values from the table of bins, one column after the other."""
        keys = {key.attribute: key for key in question.block.keys if isinstance(key, Partition)}
        table = law
        for axis, place in enumerate(question.places):
            name = self.support.domain.names[place]
            codes = self.support.codes[name]
            shares = self.within.get(name, np.ones(codes.size))
            rows = self._positions(name) if name in self.bins else np.arange(codes.size)
            parts = np.zeros((law.shape[axis], keys[name].groups))
            np.add.at(parts, (rows, keys[name].table()[codes]), shares)
            table = np.moveaxis(np.einsum("i...,ij->...j", np.moveaxis(table, axis, 0), parts), -1, axis)
        order = [question.places.index(self.support.places([name])[0]) for name in keys]
        return np.ascontiguousarray(table.transpose(order)).reshape(-1)

    def laws(self, wanted: Iterable[Places]) -> dict[Places, NDArray[np.float64]]:
        """Return marginals by the positions of their attributes: those of bins, spread over their values."""
        return {places: self._spread_table(law, places) for places, law in self.coarse.laws(wanted).items()}

    @property
    def whole(self) -> bool:
        """Whether one table of all cells of bins is within the limit."""
        return self.coarse.whole

    def probabilities(self) -> NDArray[np.float64]:
        """Return the distribution over all cells, in the shape of the support."""
        return self._spread_table(self.coarse.probabilities(), tuple(range(len(self.support.shape))))

    def sample(self, rows: int, rng: cells.RandomSource) -> dict[str, NDArray[np.int64]]:
        """Return synthetic rows: the codes of each attribute, drawn independently from the distribution."""
        return self.spread(self.coarse.sample(rows, rng), rng, independent=True)

    def spread(
        self, codes: Mapping[str, NDArray[np.int64]], rng: cells.RandomSource, *, independent: bool = False
    ) -> dict[str, NDArray[np.int64]]:
        """Return the codes of rows of bins with values of these in place of their first ones.

        The rows of a bin are spread over its values evenly, in a random order, so that each value has its share of them
        up to one row; or each on its own.
        """
        columns = dict(codes)
        for name, shares in self.within.items():
            bins, values = self._positions(name), self.support.codes[name]
            numbers = bins[np.searchsorted(values, codes[name])]
            levels = rng.random(numbers.size) if independent else _even_levels(numbers, rng)
            places = np.searchsorted(np.cumsum(shares), numbers + levels, side="right")
            first, after = (np.searchsorted(bins, numbers, side) for side in ("left", "right"))
            columns[name] = values[np.clip(places, first, after - 1)]
        return columns

    def _spread_table(self, law: NDArray[np.float64], places: Places) -> NDArray[np.float64]:
        """Return the table of values of a table of bins."""
        table = law
        for axis, name in enumerate(self.support.domain.names[place] for place in places):
            if name in self.bins:
                shape = [-1 if other == axis else 1 for other in range(len(places))]
                table = table.take(self._positions(name), axis) * self.within[name].reshape(shape)
        return table

    def _positions(self, name: str) -> NDArray[np.int64]:
        """Return for each code of a column in bins the position of its bin."""
        groups = self.bins[name].table()[self.support.codes[name]]
        return np.cumsum(np.diff(groups, prepend=groups[0]) != 0)


def _even_levels(numbers: NDArray[np.int64], rng: cells.RandomSource) -> NDArray[np.float64]:
    """Return for each row a level in [0, 1): those of one number are evenly spaced, from a random start."""
    order, times = np.argsort(numbers + rng.random(numbers.size)), np.bincount(numbers)
    sorted_numbers = numbers[order]
    levels = np.empty(numbers.size)
    ranks = np.arange(numbers.size) - (np.cumsum(times) - times)[sorted_numbers]
    levels[order] = (ranks + rng.random(times.size)[sorted_numbers]) / times[sorted_numbers]
    return levels


def list_levels(observations: Iterable[ObservedBlock], size: int) -> list[RunCounts]:
    """Return what was observed of one column by itself, from single values up; nothing if those were not.

    Runs that are not made of those of the level before are left out.
    """
    counted = []
    for observation in observations:
        (key,) = observation.block.keys
        cuts = key.cuts if isinstance(key, Partition) else tuple(range(size))
        counted.append(RunCounts(cuts, observation.values[: len(cuts)], observation.variance))
    levels: list[RunCounts] = []
    for level in sorted(counted, key=lambda level: -len(level.cuts)):
        if set(level.cuts) < set(levels[-1].cuts) if levels else len(level.cuts) == size:
            levels.append(level)
    return levels


def _in_bins(observations: Sequence[ObservedBlock], bins: Partition) -> list[ObservedBlock]:
    """Return the observations of one column as ones of its bins, and of runs of these that were counted together.

    Each has the noise of its least certain run.
    """
    levels = list_levels(observations, bins.size)
    if not levels:  # they were charged and lost
        return []
    combined = combine_levels(levels)
    further = max(observations, key=lambda observation: observation.values.size).values[bins.size :]
    by_cuts: dict[tuple[int, ...], ObservedBlock] = {}
    for level in (RunCounts(bins.cuts, combined, 0.0), *levels[1:]):
        cuts = tuple(sorted(set(bins.cuts) & set(level.cuts)))
        shares = np.concatenate((np.add.reduceat(combined, cuts), further))
        spread = max(run_variance(levels, first, after, bins.size) for first, after in pairwise((*cuts, bins.size)))
        block = Block(EVERYTHING, (Partition(bins.attribute, bins.size, cuts, bins.further),))
        if len(cuts) > 1:
            by_cuts.setdefault(cuts, ObservedBlock.of_shares(block, shares, spread))
    return [*by_cuts.values()]
