"""A dense belief: one weight per cell; an update touches only the cells it concerns.

Updates are exponential tilts. Passes over the weights go through a kernel: NumPy
by default, numba for large vectors if it is installed.
"""

import math
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple, Protocol, Self, cast

import numpy as np
from numpy.typing import NDArray

from dodona.errors import InvalidArgument
from dodona.knowledge import cells, vector
from dodona.knowledge.cells import BlockOnSupport, Numbers, Places, Support
from dodona.knowledge.region import Region, RegionCache
from dodona.query.predicate import Predicate, complement
from dodona.query.query import Query
from dodona.schema.schema import Domain

# --- The kernel that passes over the weights: NumPy is always available; numba is faster on large vectors. ---


_WORTH_COMPILING = 1 << 18  # cells: below this, NumPy takes microseconds, while compiling takes seconds


class WeightKernel(Protocol):
    """Passes over the cells of a region of a contiguous vector of weights."""

    def inside(self, weights: NDArray[np.float64], region: Region) -> float:
        """Return the total weight of a region."""

    def scale(self, weights: NDArray[np.float64], region: Region, factor: float) -> None:
        """Multiply the weights of a region by a factor."""


def fastest_weight_kernel(cells: int) -> WeightKernel:
    """Return the fastest kernel for this many cells: numba's if it is installed and worth compiling, else NumPy's."""
    if cells >= _WORTH_COMPILING:
        with suppress(ImportError):  # the `fast` extra is not installed; the NumPy kernel gives the same weights
            from dodona.knowledge import compiled

            return cast("WeightKernel", compiled)
    return cast("WeightKernel", vector)


LEAST_SHARE = 2.0**-50
"""The least share that a target leaves on either side: a share of 0 would exclude cells for ever."""
MOST_SPREAD = 300.0
"""The largest difference of exponents in one step: e^300 leaves doubles room on both sides."""


# --- Tables of factors: what an update multiplies each cell of a few attributes by. ---


def tilt_factors(placed_block: BlockOnSupport, exponents: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the factors e^(exponent·weight), scaled so that the largest is 1."""
    powers = placed_block.weights() * (exponents[placed_block.groups()] if placed_block.block.keys else exponents[0])
    if powers.size == 0:
        return np.ones(powers.shape)
    powers -= powers.max()
    _refuse_spread(-float(powers.min()))
    factors: NDArray[np.float64] = np.exp(powers)
    return factors


def _refuse_spread(spread: float) -> None:
    """Refuse a step that would make weights vanish."""
    if not spread <= MOST_SPREAD:
        accepted = f"exponent times weight may differ by {MOST_SPREAD:g} between cells; take smaller steps"
        raise InvalidArgument("exponents", f"a spread of {spread:.3g}", accepted)


# --- Dense weights: a belief with one number per cell, where an update touches only the cells it concerns. ---


MOST_DENSE_CELLS = 1 << 27
LEAST_PROBABILITY = 1e-100
"""Of a cell that has weight: less is raised to it, so that no cell is lost to rounding. A cell of weight 0 stays so."""
_STEPS_BETWEEN_SUMS = 64  # the total is recomputed after this many steps, so that rounding errors cannot accumulate
_RANGE = 2.0**60  # of the total; beyond it, all weights are rescaled
_DEEPEST = 50.0  # nats that weights may sink between two sums; one more step then stays well within double range
_NEARLY_ALL = 0.999  # above this share the outside weight is summed, as a difference would lose precision
_LANE = 64
_SAMPLE_CHUNK = 1 << 16


class _LastRead(NamedTuple):
    """The weights last read: inside a predicate's region, and outside."""

    where: Predicate
    region: Region | None
    inside: float
    outside: float


class DenseBelief:
    """Weights over a product of up to 2^27 cells. The probability of a cell is its weight divided by the total.

    The total is stored next to the weights and is the only normalisation; an update of some cells leaves all others
    untouched. `tilted` works in place: it passes the vector on to the belief that it returns, and the old one is spent
    (`SpentBelief`). A vector of 2^27 weights is a gigabyte; copying it at each step would be slower than the step;
    `copied` returns a belief with its own weights.
    """

    __slots__ = ("_depth", "_kernel", "_known", "_regions", "_steps", "_support", "_total", "_weights")

    def __init__(self, support: Support, weights: NDArray[np.float64], *, kernel: WeightKernel | None = None) -> None:
        """Take over, without a copy, nonnegative weights for the cells of the support, not all 0."""
        validate_cell_count(support.size)
        taken = np.ascontiguousarray(weights, dtype=np.float64).reshape(-1)
        if taken.size != support.size:
            raise InvalidArgument("weights", f"{taken.size} numbers", f"write one for each of {support.size} cells")
        total = float(taken.sum())
        if not (float(taken.min()) >= 0 and 0 < total < math.inf):
            raise InvalidArgument("weights", f"sum {total}", "write numbers from 0, not all 0, with a finite sum")
        self._support = support
        self._weights: NDArray[np.float64] | None = taken
        self._kernel = fastest_weight_kernel(support.size) if kernel is None else kernel
        self._regions = RegionCache(support)
        self._total = total
        self._steps = 0
        self._depth = 0.0
        self._known: _LastRead | None = None
        self._settle()

    @classmethod
    def uniform(cls, over: Domain | Support, *, kernel: WeightKernel | None = None) -> Self:
        """Return the uninformed belief: the same weight on every cell."""
        support = Support.of(over) if isinstance(over, Domain) else over
        validate_cell_count(support.size)
        return cls(support, np.ones(support.size), kernel=kernel)

    @property
    def support(self) -> Support:
        """The cells that may have weight."""
        return self._support

    def probabilities(self) -> NDArray[np.float64]:
        """Return a copy of the distribution, in the shape of the support."""
        probabilities: NDArray[np.float64] = (self._own() / self._total).reshape(self._support.shape)
        return probabilities

    def expect(self, query: Query) -> NDArray[np.float64]:
        """Return the expected weight of a row for every answer of a query."""
        questions = cells.blocks_on_support(query, self._support)
        wanted = {question.places for question in questions if question.count is None}
        tables = self.laws(wanted) if wanted else {}
        expectations = []
        for question in questions:
            count = question.count
            expectations.append(
                question.values(tables[question.places])
                if count is None
                else [count * self.share(question.block.where)]
            )
        return np.concatenate(expectations)

    def share(self, where: Predicate) -> float:
        """Return the probability that a row is selected."""
        known = self._look(where)
        return known.inside / (known.inside + known.outside)

    def laws(self, wanted: Iterable[Places]) -> dict[Places, NDArray[np.float64]]:
        """Return the marginals of sets of attributes, by their positions in the support's order."""
        marginals = cells.compute_marginals(self._own(), self._support.shape, list(wanted))
        return {places: table / self._total for places, table in marginals.items()}

    def tilted(self, query: Query, *, exponents: Numbers) -> Self:
        """Return the distribution with each cell multiplied by e^(exponent·weight); this belief is spent."""
        placed_block = cells.single_block(query, self._support)
        given = cells.validate_numbers(exponents, placed_block.block.values, argument="exponents")
        count = placed_block.count
        if count is None:
            law = self.laws([placed_block.places])[placed_block.places]
            return self._multiply(placed_block, law, tilt_factors(placed_block, given))
        power = float(given[0]) * count
        _refuse_spread(abs(power))
        return self._scale_inside(placed_block.block.where, math.exp(power))

    def sample(self, rows: int, rng: cells.RandomSource) -> dict[str, NDArray[np.int64]]:
        """Return synthetic rows: the codes of each attribute, drawn independently from the distribution."""
        if rows < 0:
            raise InvalidArgument("rows", rows, "write a whole number from 0")
        edges = np.cumsum(self._own())
        last = int(np.searchsorted(edges, edges[-1]))  # cells after it have no weight
        cells = np.minimum(np.searchsorted(edges, rng.random(rows) * edges[-1], side="right"), last)
        places = np.unravel_index(cells, self._support.shape)
        codes = self._support.codes
        return {name: codes[name][positions] for name, positions in zip(codes, places, strict=True)}

    def copied(self) -> Self:
        """Return a belief with its own copy of the weights."""
        return type(self)(self._support, self._own().copy(), kernel=self._kernel)

    def _own(self) -> NDArray[np.float64]:
        if self._weights is None:
            raise cells.SpentBelief
        return self._weights

    def _look(self, where: Predicate) -> _LastRead:
        """Return the weights of a predicate; the last result is cached, as an update usually follows a read."""
        weights = self._own()
        if self._known is not None and (self._known.where is where or self._known.where == where):
            return self._known
        region = self._regions.of(where)
        inside = 0.0 if region is None else self._kernel.inside(weights, region)
        outside = self._total - inside
        if outside < (1 - _NEARLY_ALL) * self._total:
            others = self._regions.of(complement(where))
            outside = 0.0 if others is None else self._kernel.inside(weights, others)
        self._known = _LastRead(where, region, inside, outside)
        return self._known

    def _scale_inside(self, where: Predicate, factor: float) -> Self:
        """Multiply the cells inside and adjust the total; cells outside are unchanged."""
        known = self._look(where)
        if known.region is not None:
            self._kernel.scale(self._own(), known.region, factor)
        inside = known.inside * factor
        self._total = inside + known.outside
        return self._step(math.log(factor), known=known._replace(inside=inside))

    def _multiply(self, placed_block: BlockOnSupport, law: NDArray[np.float64], table: NDArray[np.float64]) -> Self:
        """Multiply every cell by the table entry for its codes of some attributes."""
        shape, places = self._support.shape, placed_block.places
        cut = len(shape)
        while cut > 0 and math.prod(shape[cut:]) < _LANE:  # short rows would cost more than their cells
            cut -= 1
        thin = table.reshape([length if place in places else 1 for place, length in enumerate(shape)])
        lanes = np.broadcast_to(thin, (*thin.shape[:cut], *shape[cut:])).reshape(*thin.shape[:cut], -1)
        cells = self._own().reshape(*shape[:cut], -1)
        cells *= lanes
        self._total *= float((law * table).sum())
        return self._step(float(np.abs(np.log(table)).max()), known=None)

    def _step(self, depth: float, *, known: _LastRead | None) -> Self:
        """Return the belief after a step of `depth` nats; recompute the total regularly and before weights vanish."""
        self._steps += 1
        self._depth += abs(depth)
        self._known = known
        safe = self._depth <= _DEEPEST and 1 / _RANGE < self._total < _RANGE
        if self._steps >= _STEPS_BETWEEN_SUMS or not safe:
            self._settle()
        return self._take_over()

    def _take_over(self) -> Self:
        """Return a belief that takes over these weights; this one is spent."""
        self._own()
        moved = object.__new__(type(self))
        for name in self.__slots__:
            setattr(moved, name, getattr(self, name))
        self._weights = None
        return moved

    def _settle(self) -> None:
        """Recompute the total, rescale it to about 1, and raise weights that have nearly vanished."""
        weights = self._own()
        factor = 1.0 if 1 / _RANGE < self._total < _RANGE else 1 / self._total
        least = LEAST_PROBABILITY * self._total * factor
        total = 0.0
        for start in range(0, weights.size, _SAMPLE_CHUNK):
            part = weights[start : start + _SAMPLE_CHUNK]
            if factor != 1.0:
                part *= factor
            if float(part.min()) < least:
                part[(part > 0) & (part < least)] = least
            total += float(part.sum())
        self._total, self._steps, self._depth, self._known = total, 0, 0.0, None


def validate_cell_count(number: int) -> None:
    """Raise if a vector of weights would have too many cells."""
    if number > MOST_DENSE_CELLS:
        instead = "Use a `FactoredBelief`, which keeps only what questions tie together, or fewer or coarser columns."
        what = "A dense belief over this domain"
        raise cells.TooManyCells(what, cells=number, limit=MOST_DENSE_CELLS, instead=instead)
