"""A factored belief: a law on a junction tree, fitted to all observations at once.

It holds any number of columns, as long as the cliques that the observed blocks tie together are small. Marginals inside
a clique are exact, and so are others whose columns small cliques tie; what is left is counted on rows drawn from the
law.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from itertools import accumulate, combinations
from typing import Self

import numpy as np
from numpy.typing import NDArray

from dodona.errors import InvalidArgument
from dodona.knowledge import cells, junction
from dodona.knowledge.cells import BlockOnSupport, Places, Support
from dodona.knowledge.fit import ObservedBlock
from dodona.knowledge.junction import CalibratedTree, Columns, JunctionTree, Table
from dodona.knowledge.loglinear import fit_mode
from dodona.knowledge.maxent import RELATIVE_ANCHOR, Fit, Target, fit_law
from dodona.query.query import Block, Query

TOLERANCE = 0.02
"""In deviations of the noise: fits end once answers are no farther from the optimum, root mean square."""
IMPOSSIBLE = -1e4
"""The logarithm of the prior weight of a cell that no row can be in: its exponential is 0."""
SCORED_ROWS = 1 << 17
"""Rows that marginals outside the cliques are counted on, where the law is too large to sum."""
_MOST_CROSSED = 1 << 26
"""Cells that are multiplied at most for marginals outside the cliques: beyond that, counting on rows takes less."""
_SOME = 0.1  # of the rows: below this, noise rather than missing values may explain the rest

_Sums = Callable[[Iterable[Columns]], dict[Columns, Table]]

Prior = Mapping[tuple[str, ...], Table]
"""Logarithms of public weights, by columns in the order of the support: constraints, or what is known already."""


@dataclass(frozen=True)
class FactoredBelief:
    """A law over the cells of a support, as the product of a prior and of one factor per observed block."""

    support: Support
    limit: int
    """The largest number of cells of all cliques."""
    prior: Prior = field(default_factory=dict, repr=False)
    seen: tuple[ObservedBlock, ...] = field(default=(), repr=False)
    """The observations, with the multipliers of their factors."""
    cliques: tuple[Columns, ...] | None = field(default=None, repr=False)
    """Of the tree; None before anything was joined."""
    gap: float = 0.0
    """How far answers of the last fit were from its optimum, in deviations of their noise: root mean square."""
    loose: tuple[ObservedBlock, ...] = field(default=(), repr=False)
    """Marginals that were observed too, and that no clique holds: believed as far as noise does not explain them."""

    @cached_property
    def order(self) -> Places:
        """The columns by number of codes, the largest last: so tables are passed over in long runs."""
        return tuple(sorted(range(len(self.support.shape)), key=lambda place: (self.support.shape[place], place)))

    @cached_property
    def whole(self) -> bool:
        """Whether one table of all cells is within the limit."""
        return junction.count_cells(self._shape, [self._every]) <= self.limit

    def holds(self, blocks: Iterable[Block], *, limit: int | None = None) -> bool:
        """Return whether the belief stays within its limit, or a lower one, once more blocks are observed.

        What `joined` makes of these blocks then has that many cells: both look at the same cliques.
        """
        return self.holds_columns([block.attributes for block in blocks], limit=limit)

    def holds_columns(self, groups: Iterable[Iterable[str]], *, limit: int | None = None) -> bool:
        """Return the same for blocks over these columns."""
        if self.whole:
            return True
        most = self.limit if limit is None else min(limit, self.limit)
        sets = [self._internal(self.support.places(names)) for names in groups]
        if len(sets) == 1:  # hundreds of candidates are asked for one by one: neither tree is made
            return self._widened(sets[0]) <= most or self._remade(sets[0]) <= most
        return junction.count_cells(self._shape, self._grown(sets)) <= most

    def joined(self, more: Iterable[ObservedBlock]) -> Self:
        """Return the belief with more observations, not fitted to them yet; those of one block are pooled."""
        blocks, observations = {observation.block: observation for observation in self.seen}, tuple(more)
        for observation in observations:
            blocks[observation.block] = (
                blocks[observation.block].joined(observation) if observation.block in blocks else observation
            )
        return replace(
            self,
            seen=tuple(blocks.values()),
            cliques=self._grown(self._columns(observation.block) for observation in observations),
        )

    def loosened(self, more: Iterable[ObservedBlock]) -> Self:
        """Return the belief with more marginals that no clique is to hold; those of one block are pooled."""
        blocks = {observation.block: observation for observation in self.loose}
        for observation in more:
            blocks[observation.block] = (
                blocks[observation.block].joined(observation) if observation.block in blocks else observation
            )
        belief = replace(self, loose=tuple(blocks.values()))
        belief.__dict__.update(tree=self.tree, law=self.law)  # cached properties that stay as they are
        return belief

    def tied(self, pairs: Iterable[Iterable[str]], *, limit: int) -> Self:
        """Return the belief with cliques for as many pairs of columns as stay within a limit, the first ones first."""
        kept = list(self._sets)
        for names in pairs:
            pair = self._internal(self.support.places(names))
            if junction.count_cells(self._shape, junction.eliminate(self._shape, (*kept, pair))) <= limit:
                kept.append(pair)
        return replace(self, cliques=tuple(junction.eliminate(self._shape, kept)))

    def fitted(self, steps: int, *, tolerance: float = TOLERANCE, anchor: float = RELATIVE_ANCHOR) -> Self:
        """Return the belief after at most so many steps of the maximum-entropy fit, fewer if it converges."""
        return self._fit(partial(fit_law, steps=steps, tolerance=tolerance, anchor=anchor))

    def refined(self, steps: int, *, tolerance: float = TOLERANCE) -> Self:
        """Return the most probable belief near a fitted one, after so many steps, or more while it is still far off."""
        return self._fit(partial(fit_mode, steps=steps, tolerance=tolerance))

    def _fit(self, fit_tree: Callable[..., Fit]) -> Self:
        targets = [self._target(observation) for observation in self.seen]
        start = [observation.multipliers[where] for observation, (_, where) in zip(self.seen, targets, strict=True)]
        fit = fit_tree(self.tree, [target for target, _ in targets], start, prior=self._priors())
        seen = []
        for observation, (_, where), fitted in zip(self.seen, targets, fit.multipliers, strict=True):
            multipliers = np.zeros(observation.block.values)
            multipliers[where] = fitted
            seen.append(replace(observation, multipliers=multipliers))
        belief = replace(self, seen=tuple(seen), gap=fit.gap)
        belief.__dict__.update(tree=self.tree, law=fit.law)  # cached properties that are computed already
        return belief

    def tilted(self, block: Block, exponents: NDArray[np.float64]) -> Self:
        """Return the law with each cell multiplied by e^exponent of its answer: one step of multiplicative weights."""
        unseen = all(observation.block != block for observation in self.seen)
        belief = self.joined([ObservedBlock.of_shares(block, np.zeros(block.values), 1.0)]) if unseen else self
        seen = [
            replace(observation, multipliers=observation.multipliers + exponents)
            if observation.block == block
            else observation
            for observation in belief.seen
        ]
        return replace(belief, seen=tuple(seen))

    def expect(self, query: Query) -> NDArray[np.float64]:
        """Return the expected weight of a row for every answer of a query."""
        questions = cells.blocks_on_support(query, self.support)
        laws = self.laws({question.places for question in questions})
        return np.concatenate([question.values(laws[question.places]) for question in questions])

    def laws(self, wanted: Iterable[Places]) -> dict[Places, NDArray[np.float64]]:
        """Return marginals by the positions of their attributes.

        They are exact inside a clique and across small ones, and else counted on drawn rows.
        """
        sets = set(wanted)
        inside = {places for places in sets if self._inside(places)}
        marginals = self._exact(inside, self.law.marginals)
        for places, table in self._outside(sets - inside).items():
            marginals[places] = self._loose_marginal(places, table)
        return marginals

    def _exact(self, wanted: Iterable[Places], sums: _Sums) -> dict[Places, NDArray[np.float64]]:
        """Return marginals that the law gives, in the order of the support."""
        sets = {places: self._internal(places) for places in wanted}
        tables = sums(set(sets.values()))
        return {
            places: np.ascontiguousarray(
                tables[columns].transpose(np.argsort([self.order[column] for column in columns]))
            )
            for places, columns in sets.items()
        }

    def _outside(self, wanted: Iterable[Places]) -> dict[Places, NDArray[np.float64]]:
        """Return marginals of the law that no clique holds."""
        sets = set(wanted)
        crossed = self._crossed(sets)
        counted = {places: self._count_rows(places) for places in sorted(sets - crossed)}
        return counted | self._exact(crossed, self.law.across)

    def _crossed(self, wanted: Iterable[Places]) -> set[Places]:
        """Return which marginals that no clique holds are summed exactly: those that take the least work."""
        work = sorted((self.tree.crossing(self._internal(places)), places) for places in wanted)
        sums = accumulate(cells for cells, _ in work)
        return {places for (_, places), cells in zip(work, sums, strict=True) if cells <= _MOST_CROSSED}

    def _loose_marginal(self, places: Places, table: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return a marginal that no clique holds, as the law has it, moved towards what loose ones say of it.

        A loose marginal y moves its own m by the positive-part estimator of James and Stein: noise makes about cells·σ²
        of |y - m|². Other marginals are scaled to what they have in common with it.
        """
        if places in self._believed:
            return self._believed[places]
        shared: dict[Places, NDArray[np.float64]] = {}
        for loose_places, believed in self._believed.items():
            common = tuple(place for place in loose_places if place in places)
            if len(common) > 1:
                shared[common] = believed.sum(
                    axis=tuple(at for at, place in enumerate(loose_places) if place not in places)
                )
        for common, believed in sorted(shared.items(), key=lambda item: len(item[0])):
            now = table.sum(axis=tuple(at for at, place in enumerate(places) if place not in common), keepdims=True)
            table = table * (believed.reshape(now.shape) / np.where(now > 0, now, 1.0))
        return table

    @cached_property
    def _believed(self) -> dict[Places, NDArray[np.float64]]:
        estimates = {}
        blocks = [BlockOnSupport(observation.block, self.support) for observation in self.loose]
        tables = self._outside(shown.places for shown in blocks)
        for observation, shown in zip(self.loose, blocks, strict=True):
            law = tables[shown.places]
            away = observation.values[shown.groups()] - law
            noise = law.size * observation.variance
            part = 1.0 - noise / max(noise, float((away * away).sum()))
            estimates[shown.places] = np.maximum(0.0, law + part * away)
        return estimates

    def covers(self, names: Iterable[str]) -> bool:
        """Return whether a clique holds some attributes, so that their marginal is exact."""
        return self._inside(self.support.places(names))

    def _inside(self, places: Places) -> bool:
        return self.tree.find(self._internal(places)) is not None

    def held(self, wanted: Iterable[Places]) -> list[Places]:
        """Return the largest of the wanted and of the observed sets of columns that the law gives exactly.

        And the loose ones, with the pairs of columns in them: what is far off shows most in tables of few cells.
        """
        names = [*(observation.block.attributes for observation in (*self.seen, *self.loose)), *self.prior]
        inside = {places for places in wanted if self._inside(places)}
        sets = {*map(self.support.places, names), *inside, *self._crossed(set(wanted) - inside)}
        largest: list[Places] = []
        for candidate in sorted(sets, key=lambda places: (-len(places), places)):
            if candidate and not any(set(candidate) <= set(other) for other in largest):
                largest.append(candidate)
        pairs = {
            pair
            for observation in self.loose
            for pair in combinations(self.support.places(observation.block.attributes), 2)
        }
        return [*largest, *sorted(pair for pair in pairs.difference(largest) if not self._inside(pair))]

    def rows(self, count: int, rng: cells.RandomSource) -> NDArray[np.int64]:
        """Return rows drawn clique by clique in proportion to the law, as positions in the support, one column each.

        Rows that agree on what a clique shares with its parent are spread evenly over what is left of it, from a random
        start: each cell gets its share of them up to one row.
        """
        return junction.draw_rows(self.law, count, rng).T[self._inverse].T

    def sample(self, rows: int, rng: cells.RandomSource) -> dict[str, NDArray[np.int64]]:
        """Return synthetic rows: the codes of each attribute, drawn independently from the distribution."""
        if rows < 0:
            raise InvalidArgument("rows", rows, "write a whole number from 0")
        drawn = junction.draw_rows(self.law, rows, rng, independent=True).T[self._inverse].T
        return {name: codes[drawn[:, place]] for place, (name, codes) in enumerate(self.support.codes.items())}

    def probabilities(self) -> NDArray[np.float64]:
        """Return the distribution over all cells, in the shape of a support that is within the limit."""
        if not self.whole:
            raise cells.TooManyCells(
                "A table with all cells of this law", cells=self.support.size, limit=self.limit, instead="Draw rows."
            )
        every = self._every
        whole = JunctionTree.over(self._shape, self.law.tables, cliques=[every]).calibrate(self.law.tables)
        return np.ascontiguousarray(whole.marginals([every])[every].transpose(np.argsort(self.order)))

    @cached_property
    def tree(self) -> JunctionTree:
        """The junction tree of all observed blocks; one clique of all columns if the tree would be larger than that."""
        sets = list(dict.fromkeys(self._sets))
        cliques = self._smallest(junction.eliminate(self._shape, sets)) if self.cliques is None else self.cliques
        size = junction.count_cells(self._shape, cliques)
        if size > self.limit:
            raise cells.TooManyCells(
                "The model of these blocks", cells=size, limit=self.limit, instead="Ask for fewer columns together."
            )
        return JunctionTree.over(self._shape, sets, cliques=cliques)

    def _grown(self, more: Iterable[Columns]) -> tuple[Columns, ...]:
        """Return the cliques once more sets are observed: the same ones, if these hold them all.

        Otherwise they are those of the smaller one of two trees: one made anew of all sets, and the present one
        widened. Alone, the first could grow by sets that the present tree holds, as an order of elimination that is
        good for some sets may be bad for more of them.
        """
        tree, sets = self.tree, list(dict.fromkeys(more))
        for columns in sets:
            if tree.find(columns) is None:
                tree = JunctionTree.over(self._shape, (), cliques=tree.widen(columns))
        present = tuple(clique.columns for clique in tree.cliques)
        if tree is self.tree:
            return present
        return self._smallest(junction.eliminate(self._shape, (*self._sets, *sets)), present)

    def _smallest(self, *trees: Sequence[Columns]) -> tuple[Columns, ...]:
        """Return the cliques of the smallest tree; that of one clique with all columns is there for all."""
        return tuple(min(((self._every,), *trees), key=lambda cliques: junction.count_cells(self._shape, cliques)))

    @cached_property
    def _widened(self) -> Callable[[Columns], int]:
        """How many cells the tree has once it is widened by a set, of which many candidates are about the same."""
        return cache(self.tree.widened)

    @cached_property
    def _remade(self) -> Callable[[Columns], int]:
        """How many cells a tree has that is made anew of all sets and one more."""
        shape, sets = self._shape, tuple(dict.fromkeys(self._sets))  # not of the belief itself, so that it is let go
        return cache(lambda more: junction.count_cells(shape, junction.eliminate(shape, (*sets, more))))

    @cached_property
    def _every(self) -> Columns:
        return tuple(range(len(self._shape)))

    @cached_property
    def law(self) -> CalibratedTree:
        """The law itself."""
        tables = self._priors()
        for observation in self.seen:
            target, where = self._target(observation)
            table = target.table(observation.multipliers[where]).reshape(
                [self._shape[place] for place in target.columns]
            )
            junction.add_table(tables, target.columns, table)
        return self.tree.calibrate(tables)

    @cached_property
    def _drawn(self) -> NDArray[np.int64]:
        return self.rows(SCORED_ROWS, np.random.default_rng(0))  # noqa: TID251  rows of a public law

    def _count_rows(self, places: Places) -> NDArray[np.float64]:
        shape = tuple(self.support.shape[place] for place in places)
        numbers = np.zeros(SCORED_ROWS, dtype=np.int64)
        for place, length in zip(places, shape, strict=True):
            numbers *= length
            numbers += self._drawn[:, place]
        shares: NDArray[np.float64] = np.bincount(numbers, minlength=math.prod(shape)).reshape(shape) / SCORED_ROWS
        return shares

    @cached_property
    def _shape(self) -> tuple[int, ...]:
        return tuple(self.support.shape[place] for place in self.order)

    @cached_property
    def _inverse(self) -> list[int]:
        return [self.order.index(place) for place in range(len(self.order))]

    def _internal(self, places: Iterable[int]) -> Columns:
        return tuple(sorted([self._inverse[place] for place in places]))

    def _columns(self, block: Block) -> Columns:
        return self._internal(self.support.places(block.attributes))

    @cached_property
    def _sets(self) -> tuple[Columns, ...]:
        known = [self._internal(self.support.places(names)) for names in self.prior]
        return (*known, *(self._columns(observation.block) for observation in self.seen))

    def _priors(self) -> dict[Columns, Table]:
        priors: dict[Columns, Table] = {}
        for names, table in self.prior.items():
            columns = self._internal(self.support.places(names))
            places = [self.order[column] for column in columns]
            shaped = table.reshape([self.support.shape[place] for place in sorted(places)])
            junction.add_table(priors, columns, shaped.transpose([sorted(places).index(place) for place in places]))
        return priors

    def _target(self, observation: ObservedBlock) -> tuple[Target, NDArray[np.int64]]:
        """Return what the fit aims at, and which answers of the block its values are."""
        shown = BlockOnSupport(observation.block, self.support)
        columns = self._internal(shown.places)
        answers = np.where(
            shown.weights() != 0, shown.groups() if observation.block.keys else 0, observation.block.values
        )
        places = [self.order[column] for column in columns]
        groups = np.ascontiguousarray(answers.transpose([shown.places.index(place) for place in places])).reshape(-1)
        used = np.unique(groups)
        apart = used.size == groups.size and used[-1] < observation.block.values
        where = groups if apart else used[used < observation.block.values]
        values = observation.values[where]
        if used[-1] < observation.block.values:  # all believed rows are in some group: the shares sum to 1
            total = float(values.sum())
            if where.size < observation.block.values and total > _SOME:  # rows in cells without weight are not counted
                values = values / total
            values = values + (1.0 - values.sum()) / values.size
        numbers = None if apart else np.searchsorted(where, groups)
        return Target(columns, values, math.sqrt(observation.variance * observation.repeated), numbers), where
