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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from dodona.knowledge.fit import solve_multipliers
from dodona.knowledge.interactions import Interactions, centered, dot, spread, subsets, sum_onto
from dodona.knowledge.junction import CalibratedTree, Columns, JunctionTree, Table, add_table
from dodona.knowledge.search import Look, minimise

RELATIVE_ANCHOR = 0.25
"""How far one nat of a multiplier pulls an answer, in deviations of its noise."""
_MOST_POOLED = 4
"""Columns of a marginal that is pooled with others: it has an interaction for each subset of its columns."""


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """Noisy answers to fit: one for each cell of a table over some columns, or one for each group of cells."""

    columns: Columns
    values: Table
    """Shares of the rows."""
    deviation: float
    """Of the noise, in shares; more where tables repeat each other's noise."""
    groups: NDArray[np.int64] | None = None
    """For each cell the number of its answer, or the number of answers where it has none; None: each cell is one."""

    @property
    def pooled(self) -> bool:
        """Whether this is a marginal that is pooled with others by interactions."""
        return self.groups is None and len(self.columns) <= _MOST_POOLED

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
    """How far answers are from what the optimum asks of them, in deviations of their noise: root mean square."""
    steps: int


# --- The multipliers of a log-linear law: those of interactions, and one for each answer of what is not pooled. ---


@dataclass(frozen=True, slots=True, eq=False)
class Multipliers:
    """Where the multipliers of some targets are in one vector, and the law that they make."""

    tree: JunctionTree
    prior: Mapping[Columns, Table]
    interactions: Interactions
    targets: tuple[tuple[Target, Columns, slice], ...]
    """With the columns of the table that has its multipliers, and where they are: a pooled one is in a larger one."""
    size: int

    @classmethod
    def of(
        cls, tree: JunctionTree, prior: Mapping[Columns, Table], targets: Sequence[Target], interactions: Interactions
    ) -> Self:
        """Return the places of multipliers: the interactions' first."""
        placed, end = list[tuple[Target, Columns, slice]](), interactions.size
        for target in targets:
            if target.pooled:
                holder = interactions.holders[target.columns]
                placed.append((target, holder, interactions.spans[holder]))
            else:
                placed.append((target, target.columns, slice(end, end + target.values.size)))
                end += target.values.size
        return cls(tree, prior, interactions, tuple(placed), end)

    @property
    def others(self) -> list[tuple[Target, slice]]:
        """The targets that are not pooled."""
        return [(target, span) for target, _, span in self.targets if not target.pooled]

    @property
    def sets(self) -> list[Columns]:
        """The sets of columns that tables of multipliers are over."""
        return list(dict.fromkeys([*self.interactions.spans, *(target.columns for target, _ in self.others)]))

    def tables(self, theta: Table) -> dict[Columns, Table]:
        """Return the tables whose sum is the logarithm of the law."""
        tables = dict(self.prior)
        for columns, table in self.interactions.tables(theta).items():
            add_table(tables, columns, table)
        for target, span in self.others:
            add_table(tables, target.columns, self.over(target, theta[span]))
        return tables

    def over(self, target: Target, numbers: Table) -> Table:
        """Return the table over a target's columns that has one number for each of its answers."""
        return target.table(numbers).reshape([self.tree.shape[place] for place in target.columns])

    def joined(self, tables: Mapping[Columns, Table]) -> Table:
        """Return sums of tables over the sets as one vector: of each cell of the interactions', and of each answer."""
        parts = [tables[columns].reshape(-1) for columns in self.interactions.spans]
        return np.concatenate([*parts, *(target.answers(tables[target.columns]) for target, _ in self.others)])

    def begin(self, start: Sequence[Table], ridge: Table) -> Table:
        """Return the multipliers to begin with: those that the targets had, or what fits new ones alone."""
        theta, fresh = np.zeros(self.size), dict[Columns, tuple[Target, slice]]()
        for (target, columns, span), given in zip(self.targets, start, strict=True):
            if not given.any():
                if span.stop - span.start == target.values.size:
                    fresh.setdefault(target.columns, (target, span))
            elif target.pooled:
                table = theta[span].reshape(self.interactions.shapes[columns])
                table += spread(self.over(target, given), columns, target.columns)
            else:
                theta[span] = given
        chosen = _apart(fresh)
        if chosen:
            marginals = self.tree.calibrate(self.tables(theta)).marginals(self.sets)
            for columns, (target, span) in chosen.items():
                theta[span] += _alone(target, target.answers(marginals[columns]), float(ridge[span.start]))
        return theta

    def of_targets(self, theta: Table) -> tuple[Table, ...]:
        """Return those of each target; they are 0 for a marginal that a larger one repeats."""
        multipliers, taken = list[Table](), set[int]()
        for target, _, span in self.targets:
            first = span.start not in taken and span.stop - span.start == target.values.size
            multipliers.append(theta[span] if first else np.zeros(target.values.size))
            taken.update([span.start] if first else [])
        return tuple(multipliers)


def _apart(fresh: Mapping[Columns, tuple[Target, slice]]) -> dict[Columns, tuple[Target, slice]]:
    """Return those of fresh tables no two of which share more than a column: each begins where it would end alone."""
    chosen: dict[Columns, tuple[Target, slice]] = {}
    for columns, placed in fresh.items():
        if all(len(set(columns) & set(other)) <= 1 for other in chosen):
            chosen[columns] = placed
    return chosen


def _alone(target: Target, answers: Table, ridge: float) -> Table:
    """Return what to add to the multipliers of one target to fit it, if all others are left as they are."""
    if answers.min() <= 0 or answers.size == 1:
        return np.zeros(answers.size)
    return solve_multipliers(np.log(answers), target.values, ridge, max(0.0, 1.0 - float(answers.sum())))[0]


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
    places = dual.places
    reached = minimise(
        dual.look, places.begin(start, dual.ridge), steps=steps, tolerance=tolerance, tables=len(places.sets)
    )
    return Fit(places.of_targets(reached.theta), reached.last.law, reached.last.gap, reached.steps)


@dataclass(frozen=True, slots=True, eq=False)
class _Dual:
    """The function to minimise.

    A table over columns m is the sum over subsets S of m of its interactions. Those of S are orthogonal to all others,
    and have |columns of m outside S| cells each, so that Σ_m |answers_m - observed_m|²/(2·r_m) is Σ_S w_S·|interaction
    of answers - pooled one|²/2 up to a constant, with w_S = Σ_m 1/(r_m·cells of m outside S). The dual of that has
    1/w_S as the ridge of the interaction of all tables.
    """

    places: Multipliers
    values: Table
    """Of the largest marginals, as all targets together say; and of what is not pooled."""
    ridge: Table
    """How the penalty curves along each multiplier."""

    @classmethod
    def of(cls, tree: JunctionTree, targets: Sequence[Target], prior: Mapping[Columns, Table], anchor: float) -> Self:
        """Return the dual of a fit to targets whose values sum to 1, where they are marginals."""
        weights, sums = dict[Columns, float](), dict[Columns, Table]()
        pooled = [target for target in targets if target.pooled]
        for target in pooled:
            table = target.values.reshape([tree.shape[place] for place in target.columns])
            for inner in subsets(target.columns):
                part = centered(sum_onto(table, target.columns, inner))
                weight = 1.0 / (anchor * target.deviation * (table.size // part.size))
                weights[inner] = weights.get(inner, 0.0) + weight
                add_table(sums, inner, weight * part)
        interactions = Interactions.of(tree.shape, (target.columns for target in pooled), weights.__getitem__)
        values = []
        for columns, span in interactions.spans.items():
            table = np.full(interactions.shapes[columns], 1.0 / (span.stop - span.start))
            for inner in subsets(columns):
                table += spread(sums[inner] / (weights[inner] * interactions.outside(columns, inner)), columns, inner)
            values.append(table.reshape(-1))
        places = Multipliers.of(tree, prior, targets, interactions)
        others = [target for target, _ in places.others]
        ridges = [np.full(target.values.size, anchor * target.deviation) for target in others]
        return cls(
            places,
            np.concatenate([*values, *(target.values for target in others)]),
            np.concatenate([interactions.ridges(), *ridges]),
        )

    def look(self, theta: Table) -> Look:
        """Return the dual at some multipliers.

        The curvature along a multiplier is about its answer, or the answer that it is heading for.
        """
        places = self.places
        law = places.tree.calibrate(places.tables(theta))
        answers = places.joined(law.marginals(places.sets))
        penalty, pooled_push = places.interactions.penalty(theta)
        first = places.interactions.size
        push = np.concatenate([pooled_push, self.ridge[first:] * theta[first:]])
        value = law.log_total - dot(theta, self.values) + penalty + 0.5 * dot(push[first:], theta[first:])
        gradient = answers - self.values + push
        curvature = np.maximum(answers, np.maximum(self.values, 0.0)) + self.ridge
        return Look(value, gradient, lambda vector: vector / curvature, self._gap(gradient), law)

    def _gap(self, gradient: Table) -> float:
        """Return the gradient, summed to each target and in deviations of its noise: the root of its mean square."""
        squares, tables = 0.0, self.places.interactions.tables(gradient)
        for target, columns, span in self.places.targets:
            off = sum_onto(tables[columns], columns, target.columns) if target.pooled else gradient[span]
            flat = off.reshape(-1) / target.deviation
            squares += dot(flat, flat)
        return math.sqrt(squares / sum(target.values.size for target, _, _ in self.places.targets))
