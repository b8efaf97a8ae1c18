"""The maximum-entropy fit of a law on a junction tree to noisy answers: a convex dual, minimised by L-BFGS.

The law has the least KL(law ‖ prior) + Σ_m |answers_m - observed_m|²/(2·r_m). It is log-linear, with one multiplier per
answer, and the dual is log Z(θ) - θ·observed + Σ_m r_m·|θ_m|²/2, whose gradient is answers - observed + r·θ.

The ridge is each measurement's own, r_m = anchor·σ_m: a multiplier of one nat pulls an answer by a quarter of a
deviation of its own noise. With one anchor for all, a coarse measurement would be pulled away as soon as a fine one
comes.

Marginals that share columns repeat each other, and then many multipliers give one law. They are pooled first: what they
say together is one value and one ridge for each interaction of columns, and a table for each largest marginal is left.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Self

import numpy as np
from numpy.typing import NDArray

from dodona.knowledge.fit import solve_multipliers
from dodona.knowledge.junction import CalibratedTree, Columns, JunctionTree, Table, add_table

RELATIVE_ANCHOR = 0.25
"""How far one nat of a multiplier pulls an answer, in deviations of its noise."""
_MOST_POOLED = 4
"""Columns of a marginal that is pooled with others: it has an interaction for each subset of its columns."""
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


# --- Marginals that repeat each other, pooled by interactions. ---


@dataclass(frozen=True, slots=True, eq=False)
class _Pool:
    """Marginals with a table of multipliers for each largest one, and a ridge for each interaction.

    A table over columns m is the sum over subsets S of m of its interactions: functions of S whose mean along each
    column of S is 0. Those of S are orthogonal to all others, and have |columns of m outside S| cells each, so that
    Σ_m |answers_m - observed_m|²/(2·r_m) is Σ_S w_S·|interaction of answers - pooled one|²/2 up to a constant, with
    w_S = Σ_m 1/(r_m·cells of m outside S). The dual of that has 1/w_S as the ridge of the interaction of all tables.
    """

    targets: tuple[Target, ...]
    shapes: Mapping[Columns, tuple[int, ...]]
    """Of all interactions."""
    weights: Mapping[Columns, float]
    spans: Mapping[Columns, slice]
    """Where the multipliers of each largest marginal are."""
    holders: Mapping[Columns, Columns]
    """The largest marginal that has the columns of a target."""
    values: Table
    """Of the largest marginals, as all targets together say."""
    ridge: Table
    """How the penalty curves along each multiplier."""

    @classmethod
    def of(cls, shape: Sequence[int], targets: Sequence[Target], anchor: float) -> Self:
        """Return the pool of marginals whose values sum to 1."""
        weights, sums = dict[Columns, float](), dict[Columns, Table]()
        for target in targets:
            table = target.values.reshape([shape[place] for place in target.columns])
            for inner in _interactions(target.columns):
                outside = _axes_outside(target.columns, inner)
                weight = 1.0 / (anchor * target.pull * target.deviation * _cells(shape, target.columns, inner))
                weights[inner] = weights.get(inner, 0.0) + weight
                part = weight * _centered(table.sum(axis=outside))
                sums[inner] = sums[inner] + part if inner in sums else part
        sets = {target.columns for target in targets}
        largest = _largest(sets)
        values, ridges, spans, end = list[Table](), list[Table](), dict[Columns, slice](), 0
        for columns in largest:
            table, ridge = np.full([shape[place] for place in columns], 1.0 / _cells(shape, columns, ())), 0.0
            for inner in _interactions(columns):
                cells = _cells(shape, columns, inner)
                table += _spread(sums[inner] / weights[inner], columns, inner) / cells
                ridge += math.prod([1 - 1 / shape[place] for place in inner]) / (weights[inner] * cells**2)
            values.append(table.reshape(-1))
            ridges.append(np.full(table.size, ridge))
            spans[columns] = slice(end, end + table.size)
            end += table.size
        return cls(
            tuple(targets),
            {inner: tuple(shape[place] for place in inner) for inner in weights},
            weights,
            spans,
            {columns: next(large for large in largest if set(columns) <= set(large)) for columns in sets - {*largest}}
            | {columns: columns for columns in largest},
            np.concatenate(values) if values else np.zeros(0),
            np.concatenate(ridges) if ridges else np.zeros(0),
        )

    def tables(self, theta: Table) -> dict[Columns, Table]:
        """Return the tables of multipliers."""
        return {columns: theta[span].reshape(self.shapes[columns]) for columns, span in self.spans.items()}

    def penalty(self, theta: Table) -> tuple[float, Table]:
        """Return half the sum of ridges times squared interactions, and its gradient."""
        interactions = dict[Columns, Table]()
        tables = self.tables(theta)
        for columns, table in tables.items():
            for inner in _interactions(columns):
                outside = _axes_outside(columns, inner)
                mean = table.sum(axis=outside) / (table.size / math.prod(self.shapes[inner])) if outside else table
                interactions[inner] = interactions[inner] + mean if inner in interactions else mean
        penalty = 0.0
        for inner, table in interactions.items():
            centered = _centered(table)
            interactions[inner] = centered / self.weights[inner]
            penalty += 0.5 * _dot(centered.reshape(-1), interactions[inner].reshape(-1))
        gradient = np.empty(theta.size)
        for columns, span in self.spans.items():
            push = np.zeros(self.shapes[columns])
            for inner in _interactions(columns):
                push += _spread(interactions[inner] * (math.prod(self.shapes[inner]) / push.size), columns, inner)
            gradient[span] = push.reshape(-1)
        return penalty, gradient

    def gap(self, gradient: Table) -> float:
        """Return the largest of the gradient, summed to each target and in deviations of its noise."""
        gap, tables = 0.0, self.tables(gradient)
        for target in self.targets:
            columns = self.holders[target.columns]
            off = tables[columns].sum(axis=_axes_outside(columns, target.columns))
            gap = max(gap, float(np.abs(off).max()) / target.deviation)
        return gap


def _largest(sets: Iterable[Columns]) -> list[Columns]:
    """Return the sets of columns that are in no other one."""
    inside = {inner for columns in sets for inner in _interactions(columns) if inner != columns}
    return sorted(columns for columns in sets if columns not in inside)


@lru_cache(maxsize=1 << 14)
def _interactions(columns: Columns) -> tuple[Columns, ...]:
    return tuple(inner for ways in range(1, len(columns) + 1) for inner in combinations(columns, ways))


@lru_cache(maxsize=1 << 16)
def _axes_outside(columns: Columns, inner: Columns) -> tuple[int, ...]:
    return tuple(axis for axis, place in enumerate(columns) if place not in inner)


def _cells(shape: Sequence[int], columns: Columns, inner: Columns) -> int:
    """Return the number of cells of the columns outside others."""
    return math.prod([shape[place] for place in columns if place not in inner])


def _centered(table: Table) -> Table:
    """Return a table less its means along each axis."""
    for axis, length in enumerate(table.shape):
        table = table - table.sum(axis=axis, keepdims=True) / length
    return table


def _spread(table: Table, columns: Columns, inner: Columns) -> Table:
    """Return a view of a table over some columns with the axes of all."""
    lengths = iter(table.shape)
    return table.reshape([next(lengths) if place in inner else 1 for place in columns])


# --- The fit. ---


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
    dual = _Dual.of(tree, targets, prior, anchor)
    theta, law, gap, done = _minimise(dual, dual.begin(start), steps=steps, tolerance=tolerance)
    return Fit(dual.multipliers(theta), law, gap, done)


@dataclass(frozen=True, slots=True, eq=False)
class _Dual:
    """The function to minimise: its multipliers are those of the pool, and one for each answer of other targets."""

    tree: JunctionTree
    prior: Mapping[Columns, Table]
    pool: _Pool
    targets: tuple[tuple[Target, slice], ...]
    """With the multipliers of each: of a pooled one, those of the largest marginal that holds it."""
    others: tuple[tuple[Target, slice], ...]
    """Those that are not pooled."""
    values: Table
    ridge: Table

    @classmethod
    def of(cls, tree: JunctionTree, targets: Sequence[Target], prior: Mapping[Columns, Table], anchor: float) -> Self:
        """Return the dual of a fit."""
        pooled = [target.groups is None and len(target.columns) <= _MOST_POOLED for target in targets]
        pool = _Pool.of(tree.shape, [target for target, whole in zip(targets, pooled, strict=True) if whole], anchor)
        placed, others, values, ridges = list[tuple[Target, slice]](), [], [pool.values], [pool.ridge]
        end = pool.values.size
        for target, whole in zip(targets, pooled, strict=True):
            if whole:
                placed.append((target, pool.spans[pool.holders[target.columns]]))
                continue
            placed.append((target, slice(end, end + target.values.size)))
            others.append(placed[-1])
            values.append(target.values)
            ridges.append(np.full(target.values.size, anchor * target.pull * target.deviation))
            end += target.values.size
        return cls(tree, prior, pool, tuple(placed), tuple(others), np.concatenate(values), np.concatenate(ridges))

    @property
    def sets(self) -> list[Columns]:
        """The sets of columns that tables of multipliers are over."""
        return list(dict.fromkeys([*self.pool.spans, *(target.columns for target, _ in self.others)]))

    def look(self, theta: Table) -> tuple[float, Table, Table, CalibratedTree]:
        """Return the value at some multipliers, the gradient, the answers, and the law."""
        tables = dict(self.prior)
        for columns, table in self.pool.tables(theta).items():
            add_table(tables, columns, table)
        for target, span in self.others:
            shape = [self.tree.shape[place] for place in target.columns]
            add_table(tables, target.columns, target.table(theta[span]).reshape(shape))
        law = self.tree.calibrate(tables)
        marginals = law.marginals(self.sets)
        parts = [marginals[columns].reshape(-1) for columns in self.pool.spans]
        answers = np.concatenate([*parts, *(target.answers(marginals[target.columns]) for target, _ in self.others)])
        first = self.pool.values.size
        penalty, pooled_push = self.pool.penalty(theta[:first])
        push = np.concatenate([pooled_push, self.ridge[first:] * theta[first:]])
        value = law.log_total - _dot(theta, self.values) + penalty + 0.5 * _dot(push[first:], theta[first:])
        return value, answers - self.values + push, answers, law

    def gap(self, gradient: Table) -> float:
        """Return how far answers are from what the optimum asks of them at most, in deviations of their noise."""
        apart = [float(np.abs(gradient[span]).max()) / target.deviation for target, span in self.others]
        return max([self.pool.gap(gradient), *apart])

    def begin(self, start: Sequence[Table]) -> Table:
        """Return the multipliers to begin with: those that the targets had, or what fits new ones alone."""
        theta, fresh = np.zeros(self.values.size), dict[Columns, slice]()
        for (target, span), given in zip(self.targets, start, strict=True):
            if not given.any():
                if span.stop - span.start == target.values.size:
                    fresh.setdefault(target.columns, span)
            elif span.start >= self.pool.values.size:
                theta[span] = given
            else:
                columns, shapes = self.pool.holders[target.columns], self.pool.shapes
                table = theta[span].reshape(shapes[columns])
                table += _spread(given.reshape(shapes[target.columns]), columns, target.columns)
        spans = _apart(fresh)
        if spans:
            answers = self.look(theta)[2]
            for span in spans:
                theta[span] += _alone(self.values[span], answers[span], float(self.ridge[span.start]))
        return theta

    def multipliers(self, theta: Table) -> tuple[Table, ...]:
        """Return those of each target; they are 0 for a marginal that a larger one repeats."""
        multipliers, taken = list[Table](), set[int]()
        for target, span in self.targets:
            first = span.start not in taken and span.stop - span.start == target.values.size
            multipliers.append(theta[span] if first else np.zeros(target.values.size))
            taken.update([span.start] if first else [])
        return tuple(multipliers)


def _apart(fresh: Mapping[Columns, slice]) -> list[slice]:
    """Return those of fresh tables no two of which share more than a column: each begins where it would end alone."""
    chosen: dict[Columns, slice] = {}
    for columns, span in fresh.items():
        if all(len(set(columns) & set(other)) <= 1 for other in chosen):
            chosen[columns] = span
    return list(chosen.values())


def _alone(values: Table, answers: Table, ridge: float) -> Table:
    """Return what to add to the multipliers of one target to fit it, if all others are left as they are."""
    if answers.min() <= 0 or answers.size == 1:
        return np.zeros(answers.size)
    return solve_multipliers(np.log(answers), values, ridge, max(0.0, 1.0 - float(answers.sum())))[0]


def _minimise(dual: _Dual, theta: Table, *, steps: int, tolerance: float) -> tuple[Table, CalibratedTree, float, int]:
    """Return the multipliers that L-BFGS reaches, the law at them, the gap and the number of steps.

    The first guess of the inverse Hessian is diagonal, and is taken anew at each step: the curvature along a
    multiplier is about its answer, or the answer that it is heading for. The first step allows for all tables pulling
    the same way.
    """
    look, ridge, aims, several = dual.look, dual.ridge, np.maximum(dual.values, 0.0), len(dual.sets)
    value, gradient, answers, law = look(theta)
    pairs: list[tuple[Table, Table, float]] = []
    gap, done = dual.gap(gradient), 0
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
        gap, done = dual.gap(gradient), done + 1
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
