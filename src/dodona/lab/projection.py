"""Projections of a belief in relative entropy: the nearest distribution with given answers.

Serving fits beliefs to noisy answers (`dodona.knowledge.fit`); a projection is the noiseless limit for one block,
including sums, and the step of the textbook's algorithms.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dodona.errors import InvalidArgument
from dodona.knowledge.cells import BlockOnSupport, Contradiction, Numbers, single_block, validate_numbers
from dodona.knowledge.dense import LEAST_SHARE, MOST_SPREAD, DenseBelief
from dodona.query.predicate import complement
from dodona.query.query import Block, ConstantWeight, Query

if TYPE_CHECKING:
    from numpy.typing import NDArray


def project(belief: DenseBelief, query: Query, *, target: Numbers) -> DenseBelief:
    """Return the nearest distribution whose answers are the targets; the belief passed in is consumed.

    Theorem: kl-projection
    """
    placed_block = single_block(query, belief.support)
    targets = validate_numbers(target, placed_block.block.values, argument="target")
    return belief.tilted(query, exponents=projection_exponents(belief, placed_block, targets))


_ROUNDS = 200


_CLOSE = 1e-14


def guarded_target(believed: float, *, noisy: float, margin: float, doubt: float) -> float:
    """Return a target for a share that preserves the guaranteed drop of relative entropy although the answer is noisy.

    `margin` is the least distance between truth and belief, `doubt` the largest error of `noisy`. If `noisy` is above
    `believed`, the target is max(believed + margin, noisy - doubt); if below, the mirror image. If `doubt` exceeds the
    gap, the belief moves by the margin alone.

    >>> guarded_target(0.3, noisy=0.5, margin=0.05, doubt=0.02)
    0.48
    >>> guarded_target(0.3, noisy=0.31, margin=0.05, doubt=0.02)
    0.35

    Theorem: kl-projection
    """
    if not 0 <= believed <= 1:
        raise InvalidArgument("believed", believed, "write a share from 0 to 1")
    if not math.isfinite(noisy):
        raise InvalidArgument("noisy", noisy, "write a number")
    for name, value in (("margin", margin), ("doubt", doubt)):
        if not 0 <= value < math.inf:
            raise InvalidArgument(name, value, "write a number from 0")
    given, below = believed, noisy < believed
    if below:
        believed, noisy = 1 - believed, 1 - noisy
    target = max(believed + margin, min(noisy - doubt, 1 - LEAST_SHARE))
    if target >= 1:
        side = "below" if below else "above"
        raise InvalidArgument("margin", margin, f"no share is {margin:g} {side} {given:g}; write a smaller margin")
    return 1 - target if below else target


def bernoulli_divergence(first: float, second: float) -> float:
    """Return kl(first‖second), the relative entropy of two Bernoulli distributions, in nats.

    >>> round(bernoulli_divergence(0.5, 0.25), 6), bernoulli_divergence(0.0, 0.0)
    (0.143841, 0.0)
    """
    total = 0.0
    for probability, other in ((first, second), (1 - first, 1 - second)):
        if probability > 0:
            total += probability * math.log(probability / other) if other > 0 else math.inf
    return total


def odds_factor(inside: float, outside: float, target: float) -> float:
    """Return the factor for the weights inside that makes `target` their share while those outside stay unchanged.

    Theorem: kl-projection
    """
    validate_share(target)
    if not (inside > 0 and outside > 0):
        raise Contradiction(
            f"target = {target:g} cannot be reached: the belief puts {'all' if inside > 0 else 'no'} weight on the "
            f"cells that are asked about. Start from a belief whose support has cells on both sides."
        )
    return (target / (1 - target)) * (outside / inside)


def validate_share(target: float, *, place: str = "target") -> float:
    """Return a target that is a share strictly between 0 and 1."""
    if not LEAST_SHARE <= target <= 1 - LEAST_SHARE:
        accepted = "write a share between 0 and 1, both excluded: cells without weight never come back"
        raise InvalidArgument(place, target, accepted)
    return target


def solve_exponent(values: NDArray[np.float64], law: NDArray[np.float64], target: float) -> float:
    """Return t such that the mean of `values` under law·e^(t·values) is the target, by bracketed Newton steps.

    Theorem: kl-projection
    """
    seen = law > 0
    values, law = values[seen], law[seen]
    low, high = float(values.min()), float(values.max())
    if not low < target < high:
        raise Contradiction(
            f"target = {target:g} cannot be reached: where the belief has weight, a row counts for {low:g} to "
            f"{high:g}. Write a mean between them."
        )
    scaled = (values - low) / (high - low)  # scaled to [0, 1], so that the spread of the exponents is the exponent
    wanted = (target - low) / (high - low)
    exponent, least, most = 0.0, -MOST_SPREAD, MOST_SPREAD
    for _ in range(_ROUNDS):
        weights = law * np.exp(exponent * scaled - max(exponent, 0.0))
        weights /= weights.sum()
        mean = float((weights * scaled).sum())
        if abs(mean - wanted) <= _CLOSE * max(wanted, _CLOSE):
            break
        least, most = (exponent, most) if mean < wanted else (least, exponent)
        spread = float((weights * (scaled - mean) ** 2).sum())
        newton = exponent + (wanted - mean) / spread if spread > 0 else math.inf
        ahead = newton if least < newton < most else (least + most) / 2
        if ahead == exponent:
            break
        exponent = ahead
    if abs(exponent) > MOST_SPREAD - 1:
        raise Contradiction(
            f"target = {target:g} is so near an end of what a row counts for, {low:g} to {high:g}, that weights would "
            f"vanish. Write a mean further inside."
        )
    return exponent / (high - low)


_WHOLE = 1e-9


def projection_exponents(
    belief: DenseBelief, placed_block: BlockOnSupport, targets: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the exponent of each answer whose tilt leads to the nearest distribution with these answers.

    Theorem: kl-projection
    """
    weight = placed_block.block.weight
    if placed_block.count is not None:
        inside, outside = (
            _share(belief, placed_block.block),
            _share(belief, Block(complement(placed_block.block.where))),
        )
        return np.array(
            [math.log(odds_factor(inside, outside, float(targets[0]) / placed_block.count)) / placed_block.count]
        )
    law = belief.laws([placed_block.places])[placed_block.places]
    if isinstance(weight, ConstantWeight) and weight.number != 0:
        return np.log(_group_factors(placed_block, law, targets / weight.number)) / weight.number
    if placed_block.block.keys:
        accepted = "a belief is moved to counts in groups, or to one sum; move it by one group at a time"
        raise InvalidArgument("query", "sums in groups", accepted)
    return np.array([solve_exponent(placed_block.weights().reshape(-1), law.reshape(-1), float(targets[0]))])


def _share(belief: DenseBelief, block: Block) -> float:
    """Return the probability that a row is selected."""
    return float(belief.expect(Query(belief.support.domain, (Block(block.where),)))[0])


def _group_factors(
    placed_block: BlockOnSupport, law: NDArray[np.float64], targets: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the factor of each group, relative to that of the rest: target/believed over left/outside."""
    meant, groups = placed_block.weights() != 0, placed_block.groups()
    believed = np.bincount(groups.reshape(-1), weights=(law * meant).reshape(-1), minlength=targets.size)
    outside = float(law[~meant].sum())
    left = 1.0 - float(targets.sum())
    for group in np.flatnonzero(believed > 0).tolist():
        validate_share(float(targets[group]), place=f"target[{group}]")
    empty = np.flatnonzero((believed == 0) & (targets != 0)).tolist()
    if empty:
        raise Contradiction(
            f"target[{empty[0]}] = {targets[empty[0]]:g} cannot be reached: the belief has no weight in that group. "
            f"Write 0 there, or start from a belief that has."
        )
    if outside > 0:
        validate_share(left, place="1 - sum of the targets")
        factor = left / outside
    elif abs(left) > _WHOLE:
        raise Contradiction(
            f"The targets add up to {1 - left:g}, and the groups together have all rows. Divide them by their sum."
        )
    else:
        factor = 1.0
    factors: NDArray[np.float64] = np.divide(targets, believed, out=np.full_like(targets, factor), where=believed > 0)
    return factors / factor
