"""The model: a law over the columns that were asked about, fitted to all that was released. It touches no data.

Of each column it keeps the classes that questions have told apart so far. When a question tells a class apart, its
weight is parted as the prior has it: nothing released says otherwise, so the law stays the nearest to the prior.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from dodona.belief.dense import Dense
from dodona.belief.facet import Facet
from dodona.belief.measurements import variance_of
from dodona.belief.projection import LEAST, MOST_SPREAD
from dodona.belief.support import Support
from dodona.domain.attribute import cells
from dodona.domain.domain import Domain
from dodona.online.learned import Learned, Marginal
from dodona.query.atoms import Trait, labels, traits
from dodona.query.predicate import EVERYTHING
from dodona.query.query import Block, Query
from dodona.query.residual import Residual, block_of
from dodona.query.stack import Stack

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dodona.belief.lattice import Lattice

MOST_CELLS = 1 << 20
_RARE = 1e-3  # of a value's prior weight: `<missing>` and `<outside>`, until releases say more
_ANCHOR = 50.0  # rows: what the prior weighs, beside noise that is weighed by its variance
_NEWTON = 50
_CLOSE = 1e-9
_GROWN = 32  # all is fitted again when there is a thirty-second part more of it
_SWEEPS = 2
_PAIR = 2


@dataclass(slots=True)
class _Term:
    """What the law is fitted to: shares of the rows, and the deviation of the noise in each."""

    block: Block
    shares: NDArray[np.float64]
    deviation: float
    multiplier: float = 0.0


@dataclass(slots=True)
class Model:
    """A law over the classes of the columns that were asked about; it is off where these are too many."""

    domain: Domain
    known: Counter[str] = field(default_factory=Counter)
    """How many releases each column is in."""
    off: bool = False
    _seen: dict[str, Trait] = field(default_factory=dict)
    _labels: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    _belief: Dense | None = None
    _terms: list[_Term] = field(default_factory=list)
    _fitted: int = 0

    def predict(self, query: Query, rows: float) -> NDArray[np.float64] | None:
        """Return what the answers of a query would be, in steps, on a table of so many rows; None where it is off."""
        belief = self._covering(query.blocks)
        if belief is None:
            return None
        found: NDArray[np.float64] = belief.expect(Query(belief.support.domain, query.blocks)) * rows
        return found

    def take(self, block: Block, share: float, deviation: float) -> None:
        """Fit the law to the share of the rows that a count is, too."""
        self._take([_Term(block, np.clip([share], 0.0, 1.0), deviation)])

    def take_table(self, learned: Learned | Marginal, lattice: Lattice, rows: float) -> None:
        """Fit the law to counts in groups too."""
        self._take(_terms(learned, lattice, self.domain, rows))

    def _take(self, terms: Iterable[_Term]) -> None:
        for term in terms:
            if self._covering((term.block,)) is None:
                return
            self.known.update(term.block.attributes)
            self._terms.append(term)
            self._step(term)
        if len(self._terms) >= self._fitted + max(1, self._fitted // _GROWN):
            self._fitted = len(self._terms)
            for _ in range(_SWEEPS):
                for term in self._terms:
                    self._step(term)

    def _covering(self, blocks: Sequence[Block]) -> Dense | None:
        """Return the law over classes that no block tells apart."""
        if self.off:
            return None
        finer = dict(self._labels)
        for name, trait in traits(Stack((), tuple(blocks))).items():
            known = self._seen.setdefault(name, Trait())
            told = trait.masks <= known.masks and trait.partitions <= known.partitions and trait.values <= known.values
            if told and name in finer:
                continue
            known.masks |= trait.masks
            known.partitions |= trait.partitions
            known.values |= trait.values
            finer[name] = labels(cells(self.domain[name]), known)
        if not finer:  # a question about all rows: any column will do
            finer[self.domain.names[0]] = np.zeros(cells(self.domain.attributes[0]), dtype=np.int64)
        if self._belief is None or any(finer[name] is not self._labels.get(name) for name in finer):
            self._part(finer)
        return self._belief

    def _part(self, finer: dict[str, NDArray[np.int64]]) -> None:
        """Part the classes that are told apart now; the weight of each is shared as the prior has it."""
        ordered = {name: finer[name] for name in self.domain.names if name in finer}
        if math.prod(int(own.max()) + 1 for own in ordered.values()) > MOST_CELLS:
            self.off, self._belief = True, None
            return
        support = Support(
            self.domain.project(ordered),
            tuple(sum(1 << int(code) for code in _firsts(own)) for own in ordered.values()),
        )
        weights = np.ones([1] * len(ordered))
        if self._belief is not None:
            before = [1 if name not in self._labels else int(self._labels[name].max()) + 1 for name in ordered]
            weights = self._belief.probabilities().reshape(before)
        for place, (name, own) in enumerate(ordered.items()):
            known = self._labels.get(name)
            prior = _prior(self.domain, name)
            mass = np.bincount(own, weights=prior)
            if known is None:
                parents, share = np.zeros(len(mass), dtype=np.int64), mass / mass.sum()
            elif known is own:
                continue
            else:
                parents = known[_firsts(own)]
                share = mass / np.bincount(known, weights=prior)[parents]
            weights = np.take(weights, parents, axis=place)
            weights = weights * share.reshape([-1 if other == place else 1 for other in range(len(ordered))])
        self._belief, self._labels = Dense(support, weights), ordered

    def _step(self, term: _Term) -> None:
        """Move the law to where this release has it; of one count, as far as its noise lets it."""
        belief = self._belief
        if belief is None:
            return
        query = Query(belief.support.domain, (term.block,))
        if term.block.keys:
            shares = _possible(term.shares, belief.expect(query))
            self._belief = belief if shares is None else belief.updated(query, target=shares)
            return
        share = belief.share(term.block.where)
        if not LEAST < share < 1 - LEAST:
            return
        moved = _tilt(share, float(term.shares[0]), _ANCHOR * term.deviation**2, term.multiplier)
        term.multiplier += moved
        self._belief = belief.tilted(query, exponents=moved)


def _possible(shares: NDArray[np.float64], believed: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Return shares of groups that the law can have: none in a group that no row can be in, all where all rows are.

    A condition may leave nothing of a group, and its noisy count is above 0 all the same.
    """
    found = np.where(believed > 0, shares, 0.0)
    total = float(found.sum())
    if total <= 0:
        return None
    return found / total if float(believed.sum()) >= 1 - LEAST else found


def _tilt(share: float, told: float, ridge: float, multiplier: float) -> float:
    """Return t with share·e^t/(1 - share + share·e^t) + ridge·(multiplier + t) = told: one step of the dual."""
    low, high, found = -MOST_SPREAD, MOST_SPREAD, 0.0
    odds = math.log(share / (1 - share))
    for _ in range(_NEWTON):
        ahead = 0.5 * (1 + math.tanh((odds + found) / 2))
        gap = ahead - told + ridge * (multiplier + found)
        if abs(gap) < _CLOSE:
            break
        low, high = (found, high) if gap < 0 else (low, found)
        newton = found - gap / (ahead * (1 - ahead) + ridge)
        found = newton if low < newton < high else (low + high) / 2
    return found


def _terms(learned: Learned | Marginal, lattice: Lattice, domain: Domain, rows: float) -> Iterator[_Term]:
    """Yield what a release says of shares of the rows."""
    if isinstance(learned, Marginal):
        told = lattice.cells(Facet(learned.classes, None, grouped=True))
        if told is not None:
            yield from _grouped(block_of(Residual(learned.classes), domain), told[0], math.sqrt(told[1]), rows)
        return
    block, values = learned.block, np.asarray(learned.values, dtype=np.float64)
    deviation = math.sqrt(variance_of(learned.noise))
    if learned.classes is None or rows / values.size >= deviation:
        yield from _grouped(block, values, deviation, rows)
    else:  # more noise than rows in a cell: what the cells add up to says more
        table = values.reshape([own.number for own in learned.classes])
        for places in combinations(range(table.ndim), min(_PAIR, table.ndim)):
            others = tuple(place for place in range(table.ndim) if place not in places)
            summed = table.sum(axis=others)
            own = block_of(Residual(tuple(learned.classes[place] for place in places)), domain)
            wider = deviation * math.sqrt(table.size / summed.size)
            yield from _grouped(own, summed.reshape(-1), wider, rows)


def _grouped(block: Block, values: NDArray[np.float64], deviation: float, rows: float) -> Iterator[_Term]:
    """Yield counts in groups as shares, none of them 0, where they are not lost in noise."""
    if rows / values.size < deviation:
        return
    least = max(LEAST, 1e-3 / rows)
    shares = np.clip(values / rows, least, 1.0)
    whole = block.where == EVERYTHING
    if whole or shares.sum() >= 1 - least:
        shares *= (1.0 if whole else 1 - least) / shares.sum()
    yield _Term(block, shares, deviation / rows)


def _firsts(own: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the first code of each class."""
    return np.unique(own, return_index=True)[1]


def _prior(domain: Domain, name: str) -> NDArray[np.float64]:
    """Return the prior weight of each code: values alike, all else rare."""
    attribute = domain[name]
    found = np.full(cells(attribute), _RARE)
    found[: attribute.size] = 1.0
    return found
