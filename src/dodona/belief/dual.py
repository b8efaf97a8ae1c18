"""The dual of a fit: a smooth convex function of one multiplier an answer, and Newton's method for it.

For the law p ∝ prior·e^(Σ multiplier·weight) it is ln Σ prior·e^(…) - multipliers·observed + (anchor/2) Σ deviation²·
multiplier². Its gradient is answer - observed + anchor·deviation²·multiplier, its Hessian the covariance of the weights
under p plus the diagonal of anchor·deviation². Steps solve with it by conjugate gradients, which never form it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dodona.belief.design import Design
from dodona.errors import InvalidArgument

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MOST_ROUNDS = 200
_MOST_INNER = 500
_SHORTEST = 1e-10  # part of a Newton step
_ROUNDING = 1e-11
_DEEPEST = -230.0  # exponents below the largest; e^-230 = 1e-100, the least probability that a dense belief holds


class Solution(NamedTuple):
    """Multipliers, the Newton steps they took, and the worst gap in deviations."""

    multipliers: NDArray[np.float64]
    rounds: int
    gap: float


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

    def gap(self, state: _State) -> float:
        """Return the largest part of the gradient, in deviations."""
        return float(np.max(np.abs(state.gradient) / self.deviations, initial=0.0))


def solved(dual: Dual, start: NDArray[np.float64], *, tolerance: float) -> Solution:
    """Return multipliers at which no part of the gradient is above so many deviations."""
    state = dual.at(start)
    if start.any():  # a start that is worse than none is not used
        nothing = dual.at(np.zeros_like(start))
        state = nothing if nothing.value < state.value else state
    for rounds in range(_MOST_ROUNDS):
        gap = dual.gap(state)
        if gap <= tolerance:
            return Solution(state.multipliers, rounds, gap)
        ahead = _ahead(dual, state)
        if ahead is None:
            break
        state = ahead
    accepted = f"{dual.observed.size} answers can be fitted to {dual.gap(state):.1e} deviations here, in doubles"
    raise InvalidArgument("tolerance", tolerance, f"{accepted}; write a larger one, or larger deviations")


def _ahead(dual: Dual, state: _State) -> _State | None:
    """Return where the next step leads: far enough down, or, where rounding hides that, to a much smaller gradient."""
    direction = _direction(dual, state)
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


def _direction(dual: Dual, state: _State) -> NDArray[np.float64]:
    """Return an approximate Newton step, by conjugate gradients scaled with the diagonal of the Hessian."""
    spread = np.maximum(np.abs(state.answers) * (1 - np.abs(state.answers)), 0.0) + dual.ridge
    residual = -state.gradient
    found = np.zeros_like(residual)
    scaled = residual / spread
    direction, measure = scaled, _dot(residual, scaled)
    enough = measure * min(0.01, measure)
    for _ in range(_MOST_INNER):
        curved = dual.curved(state, direction)
        size = measure / _dot(direction, curved)
        found = found + size * direction
        residual = residual - size * curved
        scaled = residual / spread
        before, measure = measure, _dot(residual, scaled)
        if measure <= enough:
            break
        direction = scaled + (measure / before) * direction
    return found


def _dot(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Return the sum of products, added in one thread: the same on every run."""
    return float(np.einsum("i,i->", first, second))
