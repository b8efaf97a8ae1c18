"""The maximum-entropy fit of a law on a junction tree to noisy answers: a convex dual, minimised by L-BFGS.

The law has the least KL(law ‖ prior) + Σ_m |answers_m - observed_m|²/(2·r_m). It is log-linear, with one multiplier per
answer, and the dual is log Z(θ) - θ·observed + Σ_m r_m·|θ_m|²/2, whose gradient is answers - observed + r·θ.

The ridge is each measurement's own, r_m = anchor·σ_m: a multiplier of one nat pulls an answer by a quarter of a
deviation of its own noise. With one anchor for all, a coarse measurement would be pulled away as soon as a fine one
comes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dodona.knowledge.fit import solve_multipliers
from dodona.knowledge.junction import CalibratedTree, Columns, JunctionTree, Table

RELATIVE_ANCHOR = 0.25
"""How far one nat of a multiplier pulls an answer, in deviations of its noise."""
_MEMORY = 40  # pairs of steps and changes of the gradient
_LEAST_MEMORY = 5
_MOST_NUMBERS = 1 << 23  # in all pairs: with more answers there are fewer pairs
_ARMIJO = 1e-4
_SHORTER = 0.4
_TRIES = 12
_LEAST_CURVATURE = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """Noisy answers to fit: one for each cell of a table over some columns, or one for each group of cells."""

    columns: Columns
    values: Table
    """Shares of the rows."""
    deviation: float
    """Of the noise, in shares."""
    groups: NDArray[np.int64] | None = None
    """For each cell the number of its answer, or the number of answers where it has none; None: each cell is one."""
    pull: float = 1.0
    """How many times its anchor is as strong."""

    def answers(self, law: Table) -> Table:
        """Return the answers of a marginal of these columns."""
        if self.groups is None:
            return law.reshape(-1)
        counted = np.bincount(self.groups, weights=law.reshape(-1), minlength=self.values.size + 1)
        return counted[: self.values.size].astype(np.float64)

    def table(self, multipliers: Table) -> Table:
        """Return the multiplier of each cell, in one row."""
        return multipliers if self.groups is None else np.append(multipliers, 0.0)[self.groups]


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """A fitted law, and how far it is from the optimum."""

    multipliers: tuple[Table, ...]
    """Of each target."""
    law: CalibratedTree
    gap: float
    """The largest difference between an answer and what the optimum asks of it, in deviations of its noise."""
    steps: int


class _Look(Protocol):
    """The dual at some multipliers: its value, its gradient, the answers, and the law."""

    def __call__(self, theta: Table, /) -> tuple[float, Table, Table, CalibratedTree]: ...


def fit_law(  # noqa: PLR0913  what is fitted, from where, and when it ends
    tree: JunctionTree,
    targets: Sequence[Target],
    start: Sequence[Table],
    *,
    prior: Mapping[Columns, Table],
    steps: int,
    tolerance: float,
    anchor: float = RELATIVE_ANCHOR,
) -> Fit:
    """Return the law after at most so many steps, fewer once no answer is farther off than the tolerance.

    Theorem: maximum-entropy
    """
    if not targets:
        return Fit((), tree.calibrate(prior), 0.0, 0)
    deviations = np.concatenate([np.full(target.values.size, target.deviation) for target in targets])
    pulls = np.concatenate([np.full(target.values.size, target.pull) for target in targets])
    ridge, values = anchor * pulls * deviations, np.concatenate([target.values for target in targets])
    ends = np.cumsum([target.values.size for target in targets])
    spans = [slice(end - target.values.size, end) for target, end in zip(targets, ends.tolist(), strict=True)]
    sets = list(dict.fromkeys(target.columns for target in targets))
    shapes = {columns: [tree.shape[place] for place in columns] for columns in sets}

    def look(theta: Table) -> tuple[float, Table, Table, CalibratedTree]:
        tables = dict(prior)
        for target, span in zip(targets, spans, strict=True):
            table = target.table(theta[span]).reshape(shapes[target.columns])
            tables[target.columns] = tables[target.columns] + table if target.columns in tables else table
        law = tree.calibrate(tables)
        marginals = law.marginals(sets)
        answers = np.concatenate([target.answers(marginals[target.columns]) for target in targets])
        value = law.log_total - _dot(theta, values) + 0.5 * _dot(ridge, theta * theta)
        return value, answers - values + ridge * theta, answers, law

    theta = np.concatenate(start)
    fresh = _apart([target for target, given in zip(targets, start, strict=True) if not given.any()])
    if fresh:
        _, _, answers, _ = look(theta)
        for target, span in zip(targets, spans, strict=True):
            if target in fresh:
                theta[span] = _alone(target, answers[span], anchor)
    optimum = _minimise(
        look,
        theta,
        np.maximum(values, 0.0),
        ridge,
        deviations,
        several=len(targets),
        steps=steps,
        tolerance=tolerance,
    )
    theta, law, gap, done = optimum
    return Fit(tuple(theta[span] for span in spans), law, gap, done)


def _apart(targets: Sequence[Target]) -> list[Target]:
    """Return targets no two of which share more than a column: each may begin where it would be fitted alone."""
    chosen: list[Target] = []
    for target in targets:
        if all(len(set(target.columns) & set(other.columns)) <= 1 for other in chosen):
            chosen.append(target)
    return chosen


def _alone(target: Target, answers: Table, anchor: float) -> Table:
    """Return the multipliers that fit one target, if all others are left as they are."""
    if answers.min() <= 0:
        return np.zeros(answers.size)
    ridge = anchor * target.pull * target.deviation
    return solve_multipliers(np.log(answers), target.values, ridge, max(0.0, 1.0 - float(answers.sum())))[0]


def _minimise(  # noqa: PLR0913  the parts of the dual
    look: _Look,
    theta: Table,
    aims: Table,
    ridge: Table,
    deviations: Table,
    *,
    several: int,
    steps: int,
    tolerance: float,
) -> tuple[Table, CalibratedTree, float, int]:
    """Return the multipliers that L-BFGS reaches, the law at them, the gap and the number of steps.

    The first guess of the inverse Hessian is diagonal, and is taken anew at each step: the curvature along a
    multiplier is about its answer, or the answer that it is heading for. The first step allows for `several` targets
    that all pull the same way.
    """
    value, gradient, answers, law = look(theta)
    pairs: list[tuple[Table, Table, float]] = []
    gap, done = float(np.abs(gradient / deviations).max()), 0
    while done < steps and gap > tolerance:
        scale = 1.0 / (np.maximum(answers, aims) + ridge)
        direction = _direction(gradient, scale, pairs, several)
        slope = _dot(gradient, direction)
        if slope <= 0:  # rounding has spoilt the pairs
            pairs.clear()
            direction = _direction(gradient, scale, pairs, several)
            slope = _dot(gradient, direction)
        length = 1.0
        for _ in range(_TRIES):
            reached = theta - length * direction
            evaluation = look(reached)
            if evaluation[0] <= value - _ARMIJO * length * slope:
                break
            length *= _SHORTER
        else:
            break  # no step is downhill: the rest is rounding
        moved, changed = reached - theta, evaluation[1] - gradient
        curvature = _dot(moved, changed)
        if curvature > _LEAST_CURVATURE * _dot(moved, moved):
            pairs.append((moved, changed, 1.0 / curvature))
            del pairs[: -max(_LEAST_MEMORY, min(_MEMORY, _MOST_NUMBERS // (2 * theta.size)))]
        theta, (value, gradient, answers, law) = reached, evaluation
        gap, done = float(np.abs(gradient / deviations).max()), done + 1
    return theta, law, gap, done


def _direction(gradient: Table, scale: Table, pairs: Sequence[tuple[Table, Table, float]], several: int) -> Table:
    """Return the inverse Hessian times the gradient, by the two loops of L-BFGS (Nocedal 1980)."""
    direction = gradient.copy()
    shares = []
    for moved, changed, inverse in reversed(pairs):
        share = inverse * _dot(moved, direction)
        direction -= share * changed
        shares.append(share)
    if pairs:
        _, changed, inverse = pairs[-1]
        direction *= scale / (inverse * _dot(changed, scale * changed))
    else:
        direction *= scale / several
    for (moved, changed, inverse), share in zip(pairs, reversed(shares), strict=True):
        direction += moved * (share - inverse * _dot(changed, direction))
    return direction


def _dot(first: Table, second: Table) -> float:
    """Return the inner product of two vectors, in this thread.

    A BLAS splits products of ten thousand numbers among threads that wait for each other by spinning: where
    processors are shared, that takes hundreds of times longer than the product.
    """
    return float(np.einsum("i,i->", first, second))
