"""The dual of a fit: a smooth convex function of one multiplier an answer, and Newton's method for it.

For the law p ∝ prior·e^(Σ multiplier·weight) it is ln Σ prior·e^(…) - multipliers·observed + (anchor/2) Σ deviation²·
multiplier². Its gradient is answer - observed + anchor·deviation²·multiplier, its Hessian the covariance of the weights
under p plus the diagonal of anchor·deviation². Steps solve with it by conjugate gradients. These run along the inverse
of an earlier Hessian, where there is one: it serves while the law changes little, and a new one is made when not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dodona.belief.design import Design
from dodona.errors import InvalidArgument

if TYPE_CHECKING:
    from numpy.typing import NDArray

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

    design: Design
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
            return _balanced(np.linalg.inv(corner))
        reach = known @ rows[:, :first].T
        inner = np.linalg.inv(corner - rows[:, :first] @ reach)
        if not float(inner.diagonal().min()) > 0:  # the known one is of a law too far away to be joined to
            reach, inner = np.zeros_like(reach), np.diag(1 / corner.diagonal())
        across = reach @ inner
        return _balanced(np.block([[known + across @ reach.T, -across], [-across.T, inner]]))

    def gap(self, state: _State) -> float:
        """Return the largest part of the gradient, in deviations."""
        return float(np.max(np.abs(state.gradient) / self.deviations, initial=0.0))


def solved(
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
        ahead = _ahead(dual, state, direction)
        if ahead is None:
            break
        state = ahead
    accepted = f"{dual.observed.size} answers can be fitted to {dual.gap(state):.1e} deviations here, in doubles"
    raise InvalidArgument("tolerance", tolerance, f"{accepted}; write a larger one, or larger deviations")


def _ahead(dual: Dual, state: _State, direction: NDArray[np.float64]) -> _State | None:
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


def _balanced(matrix: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """Return a matrix that is its own transpose to the last bit."""
    found: NDArray[np.float64] = 0.5 * (matrix + matrix.T).astype(np.float64, copy=False)
    return found
