"""Dense weights: a belief that keeps one number a cell, and changes only the cells that a step is about."""

from __future__ import annotations

import math
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from dodona.belief.asked import Asked, asked, numbers, only
from dodona.belief.faults import SpentBelief, TooManyCells
from dodona.belief.hypothesis import Chance, Numbers
from dodona.belief.kernel import Kernel, fastest
from dodona.belief.marginals import Places, marginals
from dodona.belief.projection import MOST_SPREAD, odds
from dodona.belief.region import Region, Regions
from dodona.belief.support import Support
from dodona.belief.table import projecting, tilting, too_far
from dodona.domain.domain import Domain
from dodona.errors import InvalidArgument
from dodona.query.predicate import Predicate, complement
from dodona.query.query import Query

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

MOST_CELLS = 1 << 27
LEAST_PROBABILITY = 1e-100
"""Of a cell that has weight: less is raised to it, so that no cell is lost to rounding. A cell of weight 0 stays so."""
_STEPS_BETWEEN_SUMS = 64  # after so many steps the total is summed afresh, so that rounding cannot pile up
_RANGE = 2.0**60  # of the total; beyond, all weights are scaled back
_DEEPEST = 50.0  # nats that weights may sink between two sums; one more step then stays far inside the doubles
_NEARLY_ALL = 0.999  # beyond this share the weight outside is summed, not found as a difference
_LANE = 64
_CHUNK = 1 << 16


class _Known(NamedTuple):
    """What was last seen of the weights: those inside a predicate's region, and all others."""

    where: Predicate
    region: Region | None
    inside: float
    outside: float


class Dense:
    """Weights over a product of up to 2^27 cells. The probability of a cell is its weight over the total.

    The total is kept beside the weights and is the only normalisation, so that a step on some cells leaves all others
    alone. The vector is the one thing that changes; a step hands it on to the belief that it returns.
    """

    __slots__ = ("_depth", "_kernel", "_known", "_regions", "_steps", "_support", "_total", "_weights")

    def __init__(self, support: Support, weights: NDArray[np.float64], *, kernel: Kernel | None = None) -> None:
        """Take weights for the cells of the support, from 0, not all 0. The array is taken over, not copied."""
        refuse_beyond(support.size)
        taken = np.ascontiguousarray(weights, dtype=np.float64).reshape(-1)
        if taken.size != support.size:
            raise InvalidArgument("weights", f"{taken.size} numbers", f"write one for each of {support.size} cells")
        total = float(taken.sum())
        if not (float(taken.min()) >= 0 and 0 < total < math.inf):
            raise InvalidArgument("weights", f"sum {total}", "write numbers from 0, not all 0, with a finite sum")
        self._support = support
        self._weights: NDArray[np.float64] | None = taken
        self._kernel = fastest(support.size) if kernel is None else kernel
        self._regions = Regions(support)
        self._total = total
        self._steps = 0
        self._depth = 0.0
        self._known: _Known | None = None
        self._settle()

    @classmethod
    def uniform(cls, over: Domain | Support, *, kernel: Kernel | None = None) -> Self:
        """Return the belief that knows nothing: the same weight on every cell."""
        support = Support.of(over) if isinstance(over, Domain) else over
        refuse_beyond(support.size)
        return cls(support, np.ones(support.size), kernel=kernel)

    @property
    def support(self) -> Support:
        """The cells that may have weight."""
        return self._support

    def probabilities(self) -> NDArray[np.float64]:
        """Return a copy of the law, in the shape of the support."""
        found: NDArray[np.float64] = (self._own() / self._total).reshape(self._support.shape)
        return found

    def expect(self, query: Query) -> NDArray[np.float64]:
        """Return the mean weight of a row for every answer of a query."""
        questions = asked(query, self._support)
        wanted = {one.places for one in questions if one.count is None}
        tables = self.laws(wanted) if wanted else {}
        found = []
        for one in questions:
            count = one.count
            found.append(one.values(tables[one.places]) if count is None else [count * self.share(one.block.where)])
        return np.concatenate(found)

    def marginals(self, ways: int) -> dict[tuple[str, ...], NDArray[np.float64]]:
        """Return the laws of all sets of so many attributes, by their names."""
        names = self._support.domain.names
        if not 0 <= ways <= len(names):
            raise InvalidArgument("ways", ways, f"write a number from 0 to {len(names)}")
        found = self.laws(combinations(range(len(names)), ways))
        return {tuple(names[place] for place in places): table for places, table in found.items()}

    def share(self, where: Predicate) -> float:
        """Return the probability that a row is meant."""
        inside, outside = self._parts(where)
        return inside / (inside + outside)

    def laws(self, wanted: Iterable[Places]) -> dict[Places, NDArray[np.float64]]:
        """Return the laws of sets of attributes, by their numbers in the support's order."""
        found = marginals(self._own(), self._support.shape, list(wanted))
        return {places: table / self._total for places, table in found.items()}

    def marginal(self, names: Iterable[str]) -> NDArray[np.float64]:
        """Return the law of some attributes, in the support's order."""
        places = self._support.places(names)
        return self.laws([places])[places]

    def updated(self, query: Query, *, target: Numbers) -> Self:
        """Return the nearest law whose answers are the targets; this one is spent.

        Theorem: kl-projection
        """
        one = only(query, self._support)
        wanted = numbers(target, one.block.values, argument="target")
        count = one.count
        if count is None:
            law = self.laws([one.places])[one.places]
            return self._multiplied(one, law, projecting(one, law, wanted))
        return self._scaled(one.block.where, odds(*self._parts(one.block.where), float(wanted[0]) / count))

    def tilted(self, query: Query, *, exponents: Numbers) -> Self:
        """Return the law with each cell times e^(exponent·weight); this one is spent."""
        one = only(query, self._support)
        given = numbers(exponents, one.block.values, argument="exponents")
        count = one.count
        if count is None:
            law = self.laws([one.places])[one.places]
            return self._multiplied(one, law, tilting(one, given))
        if abs(power := float(given[0]) * count) > MOST_SPREAD:
            raise too_far(abs(power))
        return self._scaled(one.block.where, math.exp(power))

    def sample(self, rows: int, rng: Chance) -> dict[str, NDArray[np.int64]]:
        """Return made-up rows: for each attribute the codes, drawn independently from the law."""
        if rows < 0:
            raise InvalidArgument("rows", rows, "write a whole number from 0")
        edges = np.cumsum(self._own())
        last = int(np.searchsorted(edges, edges[-1]))  # cells after it have no weight
        cells = np.minimum(np.searchsorted(edges, rng.random(rows) * edges[-1], side="right"), last)
        places = np.unravel_index(cells, self._support.shape)
        codes = self._support.codes
        return {name: codes[name][own] for name, own in zip(codes, places, strict=True)}

    def copied(self) -> Self:
        """Return a belief with weights of its own."""
        return type(self)(self._support, self._own().copy(), kernel=self._kernel)

    def _own(self) -> NDArray[np.float64]:
        if self._weights is None:
            raise SpentBelief
        return self._weights

    def _parts(self, where: Predicate) -> tuple[float, float]:
        """Return the weights inside and outside."""
        known = self._look(where)
        return known.inside, known.outside

    def _look(self, where: Predicate) -> _Known:
        """Return what is known about a predicate; the last one is remembered, as a step mostly follows a look."""
        weights = self._own()
        if self._known is not None and (self._known.where is where or self._known.where == where):
            return self._known
        region = self._regions.of(where)
        inside = 0.0 if region is None else self._kernel.inside(weights, region)
        outside = self._total - inside
        if outside < (1 - _NEARLY_ALL) * self._total:
            others = self._regions.of(complement(where))
            outside = 0.0 if others is None else self._kernel.inside(weights, others)
        self._known = _Known(where, region, inside, outside)
        return self._known

    def _scaled(self, where: Predicate, factor: float) -> Self:
        """Multiply the cells inside. What is outside stays, and the total follows."""
        known = self._look(where)
        if known.region is not None:
            self._kernel.scale(self._own(), known.region, factor)
        inside = known.inside * factor
        self._total = inside + known.outside
        return self._stepped(math.log(factor), known=known._replace(inside=inside))

    def _multiplied(self, one: Asked, law: NDArray[np.float64], table: NDArray[np.float64]) -> Self:
        """Multiply every cell by the number that a table has for its codes of some attributes."""
        shape, places = self._support.shape, one.places
        cut = len(shape)
        while cut > 0 and math.prod(shape[cut:]) < _LANE:  # short rows would cost more than their cells
            cut -= 1
        thin = table.reshape([length if place in places else 1 for place, length in enumerate(shape)])
        lanes = np.broadcast_to(thin, (*thin.shape[:cut], *shape[cut:])).reshape(*thin.shape[:cut], -1)
        cells = self._own().reshape(*shape[:cut], -1)
        cells *= lanes
        self._total *= float((law * table).sum())
        return self._stepped(float(np.abs(np.log(table)).max()), known=None)

    def _stepped(self, depth: float, *, known: _Known | None) -> Self:
        """Return the belief after a step of so many nats; sum afresh now and then, and before weights could vanish."""
        self._steps += 1
        self._depth += abs(depth)
        self._known = known
        safe = self._depth <= _DEEPEST and 1 / _RANGE < self._total < _RANGE
        if self._steps >= _STEPS_BETWEEN_SUMS or not safe:
            self._settle()
        return self._moved()

    def _moved(self) -> Self:
        """Return a belief with these weights; this one has them no more."""
        self._own()
        moved = object.__new__(type(self))
        for name in self.__slots__:
            setattr(moved, name, getattr(self, name))
        self._weights = None
        return moved

    def _settle(self) -> None:
        """Sum the weights afresh, bring the total near 1 and raise what has nearly sunk to 0."""
        weights = self._own()
        factor = 1.0 if 1 / _RANGE < self._total < _RANGE else 1 / self._total
        least = LEAST_PROBABILITY * self._total * factor
        total = 0.0
        for start in range(0, weights.size, _CHUNK):
            part = weights[start : start + _CHUNK]
            if factor != 1.0:
                part *= factor
            if float(part.min()) < least:
                part[(part > 0) & (part < least)] = least
            total += float(part.sum())
        self._total, self._steps, self._depth, self._known = total, 0, 0.0, None


def refuse_beyond(cells: int) -> None:
    """Refuse more cells than a vector of weights may have."""
    if cells > MOST_CELLS:
        instead = (
            "Use `Components`, which keeps attributes apart until a question ties them, or fewer or coarser columns."
        )
        raise TooManyCells("A dense belief over this domain", cells=cells, limit=MOST_CELLS, instead=instead)
