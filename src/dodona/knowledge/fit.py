"""The maximum-entropy fit of a dense belief to noisy counts, block after block: the prediction model's.

It minimises anchor·KL(law ‖ prior) + Σ (answer - observed)²/(2·variance). The minimum is prior·e^(Σ multiplier·weight)
with anchor·variance·multiplier = observed - answer for every answer. Blocks are visited in turn, and the multipliers of
one block have a closed form up to one number, the change of the normalisation: iterative proportional fitting that
allows for noise. A fit has converged when a whole sweep moves no answer by more than a thousandth of its deviation.

`dodona.knowledge.maxent` fits all blocks at once. `dodona.lab.projection` has the noiseless limit for one block,
including sums.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from dodona.knowledge.dense import LEAST_SHARE, DenseBelief
from dodona.knowledge.patterns import noise_variance
from dodona.privacy.additive_noise import Noise
from dodona.query.query import Block, Query

_Numbers = TypeVar("_Numbers", float, "NDArray[np.float64]")

TOLERANCE = 1e-3
"""In deviations of the noise: a fit whose answers move by no more has converged."""
_LEAST = 1e-290
_MOST = 100.0  # nats of a multiplier: a cell scaled by e^-100 is negligible
_CLOSE = 1e-11
_SOME = 0.1  # of the rows: below this, noise rather than missing values may explain the rest
_ROUNDS = 100


@dataclass(frozen=True, slots=True, eq=False)
class ObservedBlock:
    """The noisy counts of one block, pooled over its measurements, and the multipliers fitted to them."""

    block: Block
    values: NDArray[np.float64]
    """Shares of the rows."""
    variance: float
    """Of the noise, in shares."""
    multipliers: NDArray[np.float64]
    peak: float | None = None
    """The largest eigenvalue of the noise's covariance, if cells and blocks share noise; None if it is independent."""
    repeated: float = 1.0
    """How many blocks repeat each number that was measured: a fit to all of them counts it once."""

    @classmethod
    def of(cls, block: Block, counts: Sequence[int], noise: Noise, *, size: int) -> Self:
        """Return the observation from noisy counts of a table with `size` rows."""
        shares = np.array([float(count) for count in counts]) / size
        return cls.of_shares(block, shares, max(noise_variance(noise), 1e-12) / size**2)

    @classmethod
    def of_shares(cls, block: Block, shares: NDArray[np.float64], variance: float) -> Self:
        """Return the observation from noisy shares of the rows, not fitted yet."""
        return cls(block, shares, variance, np.zeros(shares.size))

    def joined(self, other: Self) -> Self:
        """Return two measurements of one block pooled by precision; the multipliers are kept."""
        weight = other.variance / (self.variance + other.variance)
        values = self.values * weight + other.values * (1 - weight)
        peak: float | None = None
        if self.peak is not None or other.peak is not None:
            peaks = [
                observation.variance if observation.peak is None else observation.peak for observation in (self, other)
            ]
            peak = weight**2 * peaks[0] + (1 - weight) ** 2 * peaks[1]
        variance, repeated = weight * self.variance, max(self.repeated, other.repeated)
        return replace(self, values=values, variance=variance, peak=peak, repeated=repeated)


def fit_blocks(
    belief: DenseBelief, seen: list[ObservedBlock], *, anchor: float, sweeps: int, tolerance: float = TOLERANCE
) -> tuple[DenseBelief, float]:
    """Return the belief after the given number of sweeps, fewer if it converged, and the gap of the last sweep.

    The multipliers in the list are updated in place; the belief passed in is spent.
    """
    gap = 0.0
    for _ in range(sweeps):
        gap = 0.0
        for place, observation in enumerate(seen):
            belief, seen[place], moved = fit_block(belief, observation, anchor)
            gap = max(gap, moved)
        if gap <= tolerance:
            break
    return belief, gap


def fit_block(
    belief: DenseBelief, observation: ObservedBlock, anchor: float
) -> tuple[DenseBelief, ObservedBlock, float]:
    """Return the belief with the best multipliers of one block, and how far its answers moved; the old one is spent.

    The distance is that of the answer that moved farthest, in standard deviations of its noise.
    """
    query = Query(belief.support.domain, (observation.block,))
    answers = belief.expect(query)
    if observation.block.keys:
        multipliers, reached = _fit_groups(answers, observation, anchor)
        moved = float(np.abs(reached - answers).max())
    else:
        share = float(answers[0])
        if not LEAST_SHARE < share < 1 - LEAST_SHARE:  # all rows or none: no multiplier can change that
            return belief, observation, 0.0
        best, count = solve_multipliers(
            math.log(share) - float(observation.multipliers[0]),
            float(observation.values[0]),
            anchor * observation.variance,
            1.0 - share,
        )
        multipliers, moved = np.array([min(max(best, -_MOST), _MOST)]), abs(count - share)
    tilted = belief.tilted(query, exponents=multipliers - observation.multipliers)
    return tilted, replace(observation, multipliers=multipliers), moved / math.sqrt(observation.variance)


def _fit_groups(
    answers: NDArray[np.float64], observation: ObservedBlock, anchor: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the best multipliers and answers of grouped counts; groups that no row can be in stay empty."""
    alive = answers > 0
    values = observation.values[alive]
    outside = max(0.0, 1.0 - float(answers.sum()))
    if outside < _CLOSE:  # all believed rows are in some group: the shares sum to 1
        total = float(values.sum())
        if not alive.all() and total > _SOME:  # rows in cells without weight (missing values) are not counted
            values = values / total
        values = values + (1.0 - values.sum()) / values.size
        outside = 0.0
    logs = np.log(np.maximum(answers[alive], _LEAST)) - observation.multipliers[alive]
    multipliers, reached = observation.multipliers.copy(), np.zeros_like(answers)
    best, reached[alive] = solve_multipliers(logs, values, anchor * observation.variance, outside)
    multipliers[alive] = np.clip(best, -_MOST, _MOST)
    return multipliers, reached


def solve_multipliers(logs: _Numbers, values: _Numbers, ridge: float, outside: float) -> tuple[_Numbers, _Numbers]:
    """Return multipliers t and answers π with π = e^(logs+t-λ) = values - ridge·t and Σ π + outside·e^-λ = 1.

    The sum is decreasing and convex in λ, so Newton steps from the left end never pass the root. A single count is
    passed as floats, which is ten times as fast as arrays of one number.
    """
    from scipy.special import wrightomega

    total: Callable[..., float] = np.add.reduce if np.ndim(values) else float
    base = values / ridge + logs - math.log(ridge)
    shift = 0.0
    for _ in range(_ROUNDS):
        omega = wrightomega(base - shift)
        rest = outside * math.exp(-shift)
        excess = ridge * total(omega) + rest - 1.0
        if abs(excess) <= _CLOSE:
            break
        slope = ridge * total(omega / (1 + omega)) + rest
        shift += min(max(excess / slope, -_MOST), _MOST)
    answers = ridge * omega
    return np.log(np.maximum(answers, _LEAST)) - logs + shift, answers
