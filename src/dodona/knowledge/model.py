"""The prediction model: a distribution over the columns asked about, fitted to all releases. It touches no data.

For each column it keeps the classes that questions have distinguished; a split class is divided as in the prior.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from dodona.answer.laws import GaussianSumBound
from dodona.knowledge.cells import Support
from dodona.knowledge.dense import DenseBelief
from dodona.knowledge.fit import ObservedBlock, fit_block, fit_blocks
from dodona.knowledge.knowledge import LearnedBlock, LearnedMarginal
from dodona.knowledge.patterns import CountPattern, noise_variance
from dodona.knowledge.residuals import ResidualStore
from dodona.query.movement import AttributeUse, Stack, atom_labels, attribute_uses
from dodona.query.query import Block, Query
from dodona.query.residual import Residual, blocks_of_residual
from dodona.schema.schema import Domain

MOST_MODEL_CELLS = 1 << 20
_RARE = 1e-3  # prior weight of `<missing>` and `<outside>` relative to a value, until releases say more
_ANCHOR = 50.0  # rows: the weight of the prior, relative to noise weighted by its variance
_GROWN = 32  # everything is refitted when it has grown by one part in this many
_SWEEPS = 2
_PAIR = 2


@dataclass(slots=True)
class PredictionModel:
    """A distribution over the classes of the columns asked about; disabled if there are too many."""

    domain: Domain
    known: Counter[str] = field(default_factory=Counter)
    """How many releases each column is in."""
    off: bool = False
    _seen: dict[str, AttributeUse] = field(default_factory=dict)
    _labels: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    _belief: DenseBelief | None = None
    _terms: list[ObservedBlock] = field(default_factory=list)
    _fitted: int = 0

    def predict(self, query: Query, rows: float) -> NDArray[np.float64] | None:
        """Return the predicted answers of a query, in steps, for a table of `rows` rows; None if disabled."""
        belief = self._covering(query.blocks)
        if belief is None:
            return None
        answers: NDArray[np.float64] = belief.expect(Query(belief.support.domain, query.blocks)) * rows
        return answers

    def take(self, block: Block, share: float, deviation: float) -> None:
        """Fit the distribution to a count as well, given as a share of the rows."""
        self._take([ObservedBlock.of_shares(block, np.clip([share], 0.0, 1.0), deviation**2)])

    def take_table(self, learned: LearnedBlock | LearnedMarginal, residuals: ResidualStore, rows: float) -> None:
        """Fit the distribution to grouped counts as well."""
        self._take(_fit_terms(learned, residuals, self.domain, rows))

    def _take(self, terms: Iterable[ObservedBlock]) -> None:
        for term in terms:
            belief = self._covering((term.block,))
            if belief is None:
                return
            self.known.update(term.block.attributes)
            self._belief, fitted, _ = fit_block(belief, term, _ANCHOR)
            self._terms.append(fitted)
        if self._belief is not None and len(self._terms) >= self._fitted + max(1, self._fitted // _GROWN):
            self._fitted = len(self._terms)
            self._belief, _ = fit_blocks(self._belief, self._terms, anchor=_ANCHOR, sweeps=_SWEEPS)

    def _covering(self, blocks: Sequence[Block]) -> DenseBelief | None:
        """Return the distribution over classes that no block splits."""
        if self.off:
            return None
        finer = dict(self._labels)
        for name, trait in attribute_uses(Stack((), tuple(blocks))).items():
            known = self._seen.setdefault(name, AttributeUse())
            covered = (
                trait.masks <= known.masks and trait.partitions <= known.partitions and trait.values <= known.values
            )
            if covered and name in finer:
                continue
            known.masks |= trait.masks
            known.partitions |= trait.partitions
            known.values |= trait.values
            finer[name] = atom_labels(self.domain[name].cells, known)
        if not finer:  # a query about all rows: any column will do
            finer[self.domain.names[0]] = np.zeros(self.domain.attributes[0].cells, dtype=np.int64)
        if self._belief is None or any(finer[name] is not self._labels.get(name) for name in finer):
            self._part(finer)
        return self._belief

    def _part(self, finer: dict[str, NDArray[np.int64]]) -> None:
        """Split the classes that are now distinguished; the weight of each is divided as in the prior."""
        ordered = {name: finer[name] for name in self.domain.names if name in finer}
        if math.prod(int(labels.max()) + 1 for labels in ordered.values()) > MOST_MODEL_CELLS:
            self.off, self._belief = True, None
            return
        support = Support(
            self.domain.project(ordered),
            tuple(sum(1 << int(code) for code in _first_codes(labels)) for labels in ordered.values()),
        )
        weights = np.ones([1] * len(ordered))
        if self._belief is not None:
            before = [1 if name not in self._labels else int(self._labels[name].max()) + 1 for name in ordered]
            weights = self._belief.probabilities().reshape(before)
        for place, (name, labels) in enumerate(ordered.items()):
            known = self._labels.get(name)
            prior = _prior(self.domain, name)
            mass = np.bincount(labels, weights=prior)
            if known is None:
                parents, share = np.zeros(len(mass), dtype=np.int64), mass / mass.sum()
            elif known is labels:
                continue
            else:
                parents = known[_first_codes(labels)]
                share = mass / np.bincount(known, weights=prior)[parents]
            weights = np.take(weights, parents, axis=place)
            weights = weights * share.reshape([-1 if other == place else 1 for other in range(len(ordered))])
        self._belief, self._labels = DenseBelief(support, weights), ordered


def _fit_terms(
    learned: LearnedBlock | LearnedMarginal, residuals: ResidualStore, domain: Domain, rows: float
) -> Iterator[ObservedBlock]:
    """Yield what a release implies about shares of the rows."""
    if isinstance(learned, LearnedMarginal):
        known = residuals.cells(CountPattern(learned.classes, None, grouped=True))
        if known is not None and isinstance(known.laws[0], GaussianSumBound):
            (block,) = blocks_of_residual(Residual(learned.classes), domain)
            deviation = math.sqrt(known.laws[0].variance)
            yield from _group_terms(block, np.asarray(known.values), deviation, rows)
        return
    block, values = learned.block, np.asarray(learned.values, dtype=np.float64)
    deviation = math.sqrt(noise_variance(learned.noise))
    if learned.classes is None or rows / values.size >= deviation:
        yield from _group_terms(block, values, deviation, rows)
    else:  # more noise than rows per cell: marginal sums are more informative
        table = values.reshape([classing.number for classing in learned.classes])
        for places in combinations(range(table.ndim), min(_PAIR, table.ndim)):
            others = tuple(place for place in range(table.ndim) if place not in places)
            summed = table.sum(axis=others)
            (marginal,) = blocks_of_residual(Residual(tuple(learned.classes[place] for place in places)), domain)
            wider = deviation * math.sqrt(table.size / summed.size)
            yield from _group_terms(marginal, summed.reshape(-1), wider, rows)


def _group_terms(block: Block, values: NDArray[np.float64], deviation: float, rows: float) -> Iterator[ObservedBlock]:
    """Yield grouped counts as shares of the rows, where noise does not dominate them."""
    if rows / values.size >= deviation:
        yield ObservedBlock.of_shares(block, values / rows, (deviation / rows) ** 2)


def _first_codes(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the first code of each class."""
    return np.unique(labels, return_index=True)[1]


def _prior(domain: Domain, name: str) -> NDArray[np.float64]:
    """Return the prior weight of each code: equal for values, small for all else."""
    attribute = domain[name]
    weights = np.full(attribute.cells, _RARE)
    weights[: attribute.size] = 1.0
    return weights
