"""Fitting a belief to noisy observations, each weighted by its own noise.

The fitted law minimises anchor·KL(law‖prior) + Σ (answer - observed)²/(2·deviation²). Its smooth convex dual is
solved by Newton's method, warm-started from earlier fits.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, assert_never

import numpy as np

from dodona.answer.measured import MeasuredValues, Noise
from dodona.errors import InvalidArgument
from dodona.knowledge.cells import (
    BlockOnSupport,
    Numbers,
    Places,
    compute_marginals,
    single_block,
    spread_tables,
    validate_numbers,
)
from dodona.knowledge.components import ComponentBelief
from dodona.knowledge.dense import DenseBelief
from dodona.numbers import to_integer
from dodona.privacy.additive_noise import Gaussian, Laplace
from dodona.query.query import Query

if TYPE_CHECKING:
    from numpy.typing import NDArray


# --- Observations: what releases say about the mean row, each with how far off it may be. ---


@dataclass(frozen=True, slots=True, eq=False)
class Observation:
    """The answers of one block for the mean row, in steps, and the standard deviation of the noise in each."""

    query: Query
    """Of one block."""
    values: NDArray[np.float64] = field(repr=False)
    deviations: NDArray[np.float64] = field(repr=False)

    @classmethod
    def of(cls, query: Query, values: Numbers, *, deviation: Numbers) -> Observation:
        """Return what was seen: one value an answer, and one deviation for all or one for each, above 0."""
        if len(query.blocks) != 1:
            raise InvalidArgument("query", f"{len(query.blocks)} blocks", "observe one block at a time")
        found = validate_numbers(values, query.values, argument="values")
        given = np.asarray(deviation, dtype=np.float64).reshape(-1)
        spread = validate_numbers(
            np.repeat(given, query.values) if given.size == 1 else given, query.values, argument="deviation"
        )
        if not (spread > 0).all():
            raise InvalidArgument("deviation", deviation, "write numbers above 0")
        return cls(query, found, spread)


def observations_from(measured: MeasuredValues, *, rows: int) -> Iterator[Observation]:
    """Yield what a measurement says about the mean row of a table of so many rows, block by block."""
    size = to_integer(rows, argument="rows", lower=1, upper=1 << 62)
    domain = measured.question.query.domain
    start = 0
    for block, noise in zip(measured.question.query.blocks, measured.noises, strict=True):
        steps = [int(value) / size for value in measured.values[start : start + block.values]]
        start += block.values
        yield Observation.of(Query(domain, (block,)), steps, deviation=math.sqrt(variance_bound(noise)) / size)


def variance_bound(noise: Noise) -> float:
    """Return the variance of integer noise: of the discrete Laplace law, and at most σ² for the discrete Gaussian.

    Inusah and Kozubowski 2006 give the first, Canonne, Kamath and Steinke 2020 the second. It only weighs observations.

    >>> round(variance_bound(Laplace(scale=10)), 3), variance_bound(Gaussian(scale=10))
    (199.833, 100.0)
    """
    scale = float(noise.scale)
    match noise:
        case Laplace():
            return max(1 / (2 * math.sinh(0.5 / scale) ** 2), 1e-12) if scale > 1 / 1000 else 1e-12
        case Gaussian():
            return scale**2
        case _:
            assert_never(noise)


# --- The design of a fit: all observed answers as one linear map from laws to numbers, and its transpose. ---


_LARGEST_MATRIX = 1 << 22  # numbers: up to here one matrix beats the shared sums


@dataclass(frozen=True, slots=True, eq=False)
class _BlockMap:
    """One block: what each cell of its attributes counts for, in units of the most that one counts for, and where."""

    places: Places
    weights: NDArray[np.float64]
    groups: NDArray[np.int64] | None
    answers: int
    unit: float

    @classmethod
    def of(cls, one: BlockOnSupport) -> _BlockMap:
        weights = one.weights().reshape(-1)
        unit = float(np.abs(weights).max(initial=0.0)) or 1.0
        groups = one.groups().reshape(-1) if one.block.keys else None
        return cls(one.places, weights / unit, groups, one.block.values, unit)

    def values(self, law: NDArray[np.float64]) -> NDArray[np.float64]:
        weighed = self.weights * law.reshape(-1)
        if self.groups is None:
            return np.array([weighed.sum()])
        found: NDArray[np.float64] = np.bincount(self.groups, weights=weighed, minlength=self.answers).astype(
            np.float64
        )
        return found

    def table(self, multipliers: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.weights * (multipliers[0] if self.groups is None else multipliers[self.groups])

    def ends(self) -> tuple[float, float]:
        """The least and the most that a row may add to an answer."""
        low, high = float(self.weights.min(initial=np.inf)), float(self.weights.max(initial=-np.inf))
        return (min(low, 0.0), max(high, 0.0)) if self.groups is not None else (low, high)


class ObservationMap:
    """Answers of many blocks for a law over all cells (`values`), and the transposed map (`exponents`).

    Answers are in units of the most that a row counts for in the block (`units`), so that all are of one size.
    """

    __slots__ = ("_rows", "matrix", "shape", "units")

    def __init__(
        self, asked: Sequence[BlockOnSupport], shape: tuple[int, ...], *, after: ObservationMap | None = None
    ) -> None:
        """Take blocks over a support of this shape, to follow those of an earlier design."""
        rows = [_BlockMap.of(one) for one in asked]
        self.shape = shape
        self._rows: list[_BlockMap] = rows if after is None else [*after._rows, *rows]  # noqa: SLF001  a design of the same kind
        self.units = np.repeat([row.unit for row in self._rows], [row.answers for row in self._rows])
        self.matrix: NDArray[np.float64] | None = None
        """The whole map, where that is small: one row an answer, one column a cell."""
        if self.units.size * math.prod(shape) <= _LARGEST_MATRIX:
            before = [] if after is None or after.matrix is None else [after.matrix]
            self.matrix = np.concatenate([*before, *(self._whole(row) for row in (rows if before else self._rows))])

    @property
    def blocks(self) -> int:
        """How many blocks it has."""
        return len(self._rows)

    def values(self, law: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the answers for the mean row of a law."""
        if self.matrix is not None:
            found: NDArray[np.float64] = np.einsum("ij,j->i", self.matrix, law)
            return found
        tables = compute_marginals(law, self.shape, {row.places for row in self._rows})
        return np.concatenate([row.values(tables[row.places]) for row in self._rows])

    def exponents(self, multipliers: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return for each cell the sum of multiplier times weight."""
        if self.matrix is not None:
            found: NDArray[np.float64] = np.einsum("i,ij->j", multipliers, self.matrix)
            return found
        tables: dict[Places, NDArray[np.float64]] = {}
        start = 0
        for row in self._rows:
            own = row.table(multipliers[start : start + row.answers])
            start += row.answers
            tables[row.places] = tables[row.places] + own if row.places in tables else own
        return spread_tables(tables, self.shape)

    def ends(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the least and the most that each answer can be, for any law."""
        counts = [row.answers for row in self._rows]
        low, high = zip(*(row.ends() for row in self._rows), strict=True)
        return np.repeat(low, counts), np.repeat(high, counts)

    def _whole(self, row: _BlockMap) -> NDArray[np.float64]:
        """Return a block's part of the matrix."""
        answers = np.arange(row.answers)[:, None]
        meant = row.weights if row.groups is None else np.where(row.groups == answers, row.weights, 0.0)
        shape = [length if place in row.places else 1 for place, length in enumerate(self.shape)]
        cells = np.broadcast_to(meant.reshape(row.answers, *shape), (row.answers, *self.shape))
        return cells.reshape(row.answers, -1)


# --- The dual of a fit: a smooth convex function of one multiplier an answer, and Newton's method for it. ---


_MOST_ROUNDS = 200
_MOST_INNER = 500
_FEW = 20
_LARGEST_HESSIAN = 1 << 11  # answers
_SHORTEST = 1e-10  # part of a Newton step
_ROUNDING = 1e-11
_DEEPEST = -230.0  # exponents below the largest; e^-230 = 1e-100, the least probability that a dense belief holds


class Solution(NamedTuple):
    """Multipliers, the Newton steps they took, the worst gap in deviations, and the inverse of a Hessian near by."""

    multipliers: NDArray[np.float64]
    rounds: int
    gap: float
    inverse: NDArray[np.float64] | None


class _State(NamedTuple):
    """Where Newton's method stands."""

    multipliers: NDArray[np.float64]
    law: NDArray[np.float64]
    answers: NDArray[np.float64]
    value: float
    gradient: NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Dual:
    """The function, for observed values and deviations in the design's units."""

    design: ObservationMap
    prior: NDArray[np.float64]
    observed: NDArray[np.float64]
    deviations: NDArray[np.float64]
    anchor: float

    @property
    def ridge(self) -> NDArray[np.float64]:
        """The diagonal that noise adds to the Hessian."""
        return self.anchor * self.deviations**2

    def weights(self, multipliers: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the law's weights, the largest factor being 1; cells with a prior keep some weight."""
        powers = self.design.exponents(multipliers)
        powers -= np.max(powers, where=self.prior > 0, initial=-np.inf)
        np.clip(powers, _DEEPEST, 0.0, out=powers)
        np.exp(powers, out=powers)
        powers *= self.prior
        return powers

    def at(self, multipliers: NDArray[np.float64]) -> _State:
        """Return the function and its gradient."""
        powers = self.design.exponents(multipliers)
        top = float(np.max(powers, where=self.prior > 0, initial=-np.inf))
        powers -= top
        np.minimum(powers, 0.0, out=powers)  # cells without a prior may be above
        np.exp(powers, out=powers)
        powers *= self.prior
        total = float(powers.sum())
        powers /= total
        answers = self.design.values(powers)
        pull = self.ridge * multipliers
        value = top + np.log(total) - _dot(multipliers, self.observed) + 0.5 * _dot(pull, multipliers)
        return _State(multipliers, powers, answers, float(value), answers - self.observed + pull)

    def curved(self, state: _State, direction: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the Hessian times a direction."""
        along = self.design.exponents(direction)
        along -= _dot(state.answers, direction)
        along *= state.law
        return self.design.values(along) + self.ridge * direction

    def inverse(self, state: _State, known: NDArray[np.float64] | None = None) -> NDArray[np.float64] | None:
        """Return the inverse of the Hessian, where it is small enough to be made.

        Where that of the first answers is known, only the rows of the others are made: [[K, b], [bᵀ, c]] has the
        inverse [[K⁻¹ + u·s⁻¹·uᵀ, -u·s⁻¹], [-s⁻¹·uᵀ, s⁻¹]] with u = K⁻¹b and s = c - bᵀu.
        """
        matrix = self.design.matrix
        if matrix is None or len(matrix) > _LARGEST_HESSIAN:
            return None
        first = 0 if known is None else len(known)
        rows = (matrix[first:] * state.law) @ matrix.T
        rows -= np.outer(state.answers[first:], state.answers)
        corner = rows[:, first:]
        corner[np.diag_indices_from(corner)] += self.ridge[first:]
        if known is None:
            return _symmetrize(np.linalg.inv(corner))
        reach = known @ rows[:, :first].T
        inner = np.linalg.inv(corner - rows[:, :first] @ reach)
        if not float(inner.diagonal().min()) > 0:  # the known one is of a law too far away to be joined to
            reach, inner = np.zeros_like(reach), np.diag(1 / corner.diagonal())
        across = reach @ inner
        return _symmetrize(np.block([[known + across @ reach.T, -across], [-across.T, inner]]))

    def gap(self, state: _State) -> float:
        """Return the largest part of the gradient, in deviations."""
        return float(np.max(np.abs(state.gradient) / self.deviations, initial=0.0))


def solve_dual(
    dual: Dual, start: NDArray[np.float64], *, tolerance: float, inverse: NDArray[np.float64] | None = None
) -> Solution:
    """Return multipliers at which no part of the gradient is above so many deviations.

    `inverse` is that of an earlier Hessian, of the first multipliers.
    """
    state = dual.at(start)
    if start.any():  # a start that is worse than none is not used
        nothing = dual.at(np.zeros_like(start))
        state = nothing if nothing.value < state.value else state
    if inverse is not None and len(inverse) < start.size:
        inverse = dual.inverse(state, inverse)
    for rounds in range(_MOST_ROUNDS):
        gap = dual.gap(state)
        if gap <= tolerance:
            return Solution(state.multipliers, rounds, gap, inverse)
        direction, steps = _direction(dual, state, inverse)
        if steps > _FEW + start.size // _FEW:  # making the Hessian costs about as much
            inverse = dual.inverse(state)
        ahead = _line_search(dual, state, direction)
        if ahead is None:
            break
        state = ahead
    accepted = f"{dual.observed.size} answers can be fitted to {dual.gap(state):.1e} deviations here, in doubles"
    raise InvalidArgument("tolerance", tolerance, f"{accepted}; write a larger one, or larger deviations")


def _line_search(dual: Dual, state: _State, direction: NDArray[np.float64]) -> _State | None:
    """Return where the next step leads: far enough down, or, where rounding hides that, to a much smaller gradient."""
    slope = _dot(direction, state.gradient)
    size = 1.0
    while size > _SHORTEST:
        ahead = dual.at(state.multipliers + size * direction)
        if ahead.value <= state.value + 1e-4 * size * slope:
            return ahead
        if ahead.value - state.value <= _ROUNDING * (1 + abs(state.value)) and dual.gap(ahead) < dual.gap(state) / 2:
            return ahead
        size /= 2
    return None


def _direction(dual: Dual, state: _State, inverse: NDArray[np.float64] | None) -> tuple[NDArray[np.float64], int]:
    """Return an approximate Newton step, by conjugate gradients, and how many steps of these it took."""
    spread = np.maximum(np.abs(state.answers) * (1 - np.abs(state.answers)), 0.0) + dual.ridge

    def scaled_by(residual: NDArray[np.float64]) -> NDArray[np.float64]:
        found: NDArray[np.float64] = residual / spread if inverse is None else np.einsum("ij,j->i", inverse, residual)
        return found

    residual = -state.gradient
    found = np.zeros_like(residual)
    direction = scaled = scaled_by(residual)
    measure = _dot(residual, scaled)
    enough = measure * min(0.01, measure)
    for step in range(1, _MOST_INNER + 1):
        curved = dual.curved(state, direction)
        size = measure / _dot(direction, curved)
        found = found + size * direction
        residual = residual - size * curved
        scaled = scaled_by(residual)
        before, measure = measure, _dot(residual, scaled)
        if measure <= enough:
            return found, step
        direction = scaled + (measure / before) * direction
    return found, _MOST_INNER


def _dot(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Return the sum of products, added in one thread: the same on every run."""
    return float(np.einsum("i,i->", first, second))


def _symmetrize(matrix: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """Return a matrix that is its own transpose to the last bit."""
    found: NDArray[np.float64] = 0.5 * (matrix + matrix.T).astype(np.float64, copy=False)
    return found


# --- Refitting: the belief that is nearest to a prior and to all that was observed, each by its own noise. ---


Belief = DenseBelief | ComponentBelief
USUAL_TOLERANCE = 1e-2
"""In deviations of the noise: a hundredth of it moves no conclusion."""
_LEAST = 1e-12


class _FitSettings(NamedTuple):
    """How near the minimum a fit ends, in deviations, and what a nat away from the prior costs."""

    tolerance: float
    anchor: float | None


class _WarmStart(NamedTuple):
    """What a later fit saves work with: the map of some observations, their multipliers, and an inverse near them."""

    design: ObservationMap
    multipliers: NDArray[np.float64]
    inverse: NDArray[np.float64] | None


_WarmStarts = dict[tuple[int, ...], _WarmStart]
"""By the numbers of the observations that are about one component."""


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """A prior, what was observed, and the belief fitted to both. The prior and the belief stay usable."""

    prior: Belief
    observations: tuple[Observation, ...]
    belief: Belief
    multipliers: tuple[NDArray[np.float64], ...] = field(repr=False)
    """One for each answer of each observation: the law is prior·e^(Σ multiplier·weight), up to its sum."""
    rounds: int
    """Newton steps that it took."""
    gap: float
    """How far the worst answer is off where the minimum has it, in deviations of its noise."""
    _terms: _FitSettings = field(repr=False)
    _keeps: _WarmStarts = field(repr=False)

    def extended(self, more: Iterable[Observation]) -> Fit:
        """Return the fit to further observations too. It starts from here, and is found in a few steps."""
        return _fit_all(self.prior, (*self.observations, *more), self._terms, self._keeps)


def refit(
    prior: Belief,
    observations: Iterable[Observation],
    *,
    tolerance: float = USUAL_TOLERANCE,
    anchor: float | None = None,
) -> Fit:
    """Return the law that minimises anchor·KL(law‖prior) + Σ (answer - observed)²/(2·deviation²).

    Without an anchor it is `usual_anchor`: so light that the prior decides only what was not observed. Observed values
    that no table can have are drawn to the nearest that one can. The gap that is left is at most the tolerance, in
    deviations; the same input gives the same fit.
    """
    for name, value in (("tolerance", tolerance), ("anchor", 1.0 if anchor is None else anchor)):
        if not _LEAST <= value < np.inf:
            raise InvalidArgument(name, value, "write a number above 0")
    return _fit_all(prior, tuple(observations), _FitSettings(tolerance, anchor), {})


def usual_anchor(deviations: NDArray[np.float64]) -> float:
    """Return an anchor that pulls no answer by more than a thousandth of its deviation for each unit of multiplier.

    It is 1, or more where the noise is so small that multipliers of 1/deviation would be lost in rounding.
    """
    return max(1.0, 1e-3 / float(deviations.min()))


def _fit_all(prior: Belief, seen: tuple[Observation, ...], terms: _FitSettings, before: _WarmStarts) -> Fit:
    """Return the fit of each component to the observations that are about it."""
    asked = [single_block(one.query, prior.support) for one in seen]
    whole = prior if isinstance(prior, DenseBelief) else _tie_components(prior, asked)
    parts = [whole] if isinstance(whole, DenseBelief) else list(whole.parts)
    owner = {name: number for number, part in enumerate(parts) for name in part.support.domain.names}
    members: dict[int, list[int]] = {}
    for place, one in enumerate(asked):
        members.setdefault(owner[min(one.block.attributes, default=prior.support.domain.names[0])], []).append(place)
    rounds, gap, keeps = 0, 0.0, _WarmStarts()
    multipliers = [np.zeros(0)] * len(seen)
    for number, places in members.items():
        own = [(BlockOnSupport(asked[place].block, parts[number].support), seen[place]) for place in places]
        key = max((key for key in before if tuple(places[: len(key)]) == key), key=len, default=())
        parts[number], solution, design = _fit_component(parts[number], own, terms, before.get(key))
        keeps[tuple(places)] = _WarmStart(design, solution.multipliers, solution.inverse)
        ends = np.cumsum([seen[place].values.size for place in places])[:-1]
        for place, found in zip(places, np.split(solution.multipliers / design.units, ends), strict=True):
            multipliers[place] = found
        rounds, gap = max(rounds, solution.rounds), max(gap, solution.gap)
    if isinstance(prior, ComponentBelief):
        belief: Belief = ComponentBelief(prior.support, parts, limit=prior.limit)
    else:
        belief = parts[0] if members else prior.copied()
    return Fit(prior, seen, belief, tuple(multipliers), rounds, gap, terms, keeps)


def _tie_components(prior: ComponentBelief, asked: Iterable[BlockOnSupport]) -> ComponentBelief:
    """Return a copy of the prior in which each block is about one component."""
    tied = prior.copied()
    for one in asked:
        tied = tied.tied(one.block.attributes)
    return tied


def _fit_component(
    prior: DenseBelief,
    own: Sequence[tuple[BlockOnSupport, Observation]],
    terms: _FitSettings,
    before: _WarmStart | None,
) -> tuple[DenseBelief, Solution, ObservationMap]:
    """Return the belief fitted to what is about it, started from what was kept of the first observations."""
    shape = prior.support.shape
    if before is not None and before.design.shape != shape:  # another component has joined since
        before = None
    known = 0 if before is None else before.design.blocks
    design = ObservationMap([one for one, _ in own[known:]], shape, after=None if before is None else before.design)
    low, high = design.ends()
    values = np.clip(np.concatenate([one.values for _, one in own]) / design.units, low, high)
    deviations = np.concatenate([one.deviations for _, one in own]) / design.units
    anchor = usual_anchor(deviations) if terms.anchor is None else terms.anchor
    dual = Dual(design, prior.probabilities().reshape(-1), values, deviations, anchor)
    start = np.zeros(values.size)
    if before is not None:
        start[: before.multipliers.size] = before.multipliers
    inverse = None if before is None else before.inverse
    solution = solve_dual(dual, start, tolerance=terms.tolerance, inverse=inverse)
    return DenseBelief(prior.support, dual.weights(solution.multipliers)), solution, design
