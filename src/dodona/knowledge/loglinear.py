"""The most probable log-linear law, given noisy answers: the mode of a posterior, found by L-BFGS.

What the multipliers say of a set of columns alone, its interaction, is normal a priori, with a smaller deviation for
more columns: most columns hang together in pairs, and few in threes. The mode minimises Σ_m |answers_m -
observed_m|²/(2·σ_m²) + Σ_S |interaction_S|²/(2·t_S²). So effects that multiply are what is shrunk: a cell that is
expected to be small stays small, though its noise be as large as that of others.

How strongly each set of columns really interacts is read off a first mode, and the mode is sought again: one step of
expectation maximisation for t_S. The search begins at the maximum-entropy law, whose dual is convex: from elsewhere it
may end where a cell without weight cannot grow.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from dodona.knowledge.interactions import Interactions, dot, spread, subsets, sum_onto
from dodona.knowledge.junction import Columns, JunctionTree, Table, add_table
from dodona.knowledge.maxent import Fit, Multipliers, Target
from dodona.knowledge.search import Look, Minimum, minimise

_WIDEST, _NARROWING = 4.0, 4.0
"""The deviation a priori of effects of single columns, in nats, and how many times smaller it is with each more."""
_PRIOR_CELLS = 10
"""How many cells the variance a priori counts for, where a set of columns tells its own."""
_FIRST_PART = 5
"""One in so many steps is for the variances a priori."""
_PATIENCE = 3
"""How many times as many steps there are while the gap is not negligible."""
NEGLIGIBLE = 0.25
"""A gap that, beside the noise itself, adds a thirtieth to how far answers are off."""
_FREE = 1.0
"""The least deviation a priori of multipliers of what is no marginal, in nats."""


def fit_mode(  # noqa: PLR0913  what is fitted, from where, and when it ends
    tree: JunctionTree,
    targets: Sequence[Target],
    start: Sequence[Table],
    *,
    prior: Mapping[Columns, Table],
    steps: int,
    tolerance: float,
) -> Fit:
    """Return the law after so many steps, fewer once its gap is within the tolerance, and more while it is large.

    It starts from the multipliers of a fitted law. A fifth of the steps are for the variances a priori, and the others
    for those that the first mode suggests.

    Theorem: log-linear-mode
    """
    if not targets:
        return Fit((), tree.calibrate(prior), 0.0, 0)
    first = Posterior.of(tree, targets, prior)
    reached = first.search(first.places.begin(start, first.ridge), -(-steps // _FIRST_PART), tolerance)
    last = first.adapted(reached)
    end = last.search(reached.theta, steps * (_FIRST_PART - 1) // _FIRST_PART, tolerance)
    done = reached.steps + end.steps
    if end.last.gap > NEGLIGIBLE:
        end = last.search(end.theta, _PATIENCE * steps, NEGLIGIBLE)
        done += end.steps
    return Fit(last.places.of_targets(end.theta), end.last.law, end.last.gap, done)


@dataclass(frozen=True, slots=True, eq=False)
class Posterior:
    """The negative logarithm of the posterior, up to a constant."""

    places: Multipliers
    ridge: Table
    """How the prior curves along each multiplier."""

    @classmethod
    def of(cls, tree: JunctionTree, targets: Sequence[Target], prior: Mapping[Columns, Table]) -> Self:
        """Return the posterior with the variances a priori."""
        sets = (target.columns for target in targets if target.pooled)
        interactions = Interactions.of(tree.shape, sets, lambda columns: _deviation(columns) ** 2)
        places = Multipliers.of(tree, prior, targets, interactions)
        ridges = [
            np.full(target.values.size, max(_FREE, _deviation(target.columns)) ** -2) for target, _ in places.others
        ]
        return cls(places, np.concatenate([interactions.ridges(), *ridges]))

    def search(self, theta: Table, steps: int, tolerance: float) -> Minimum:
        """Return the mode, or what is reached on the way to it."""
        return minimise(self.look, theta, steps=steps, tolerance=tolerance, tables=len(self.places.sets))

    def look(self, theta: Table) -> Look:
        """Return the posterior at some multipliers.

        Its gradient is the covariance of answers and of their distances from the observed ones, in units of the noise's
        variance: the derivative of the law as these are added to its logarithm. The curvature is what remains of it
        where answers do not depend on each other. The gap is how far one step by it moves answers.
        """
        places = self.places
        law = places.tree.calibrate(places.tables(theta))
        marginals, shapes = law.marginals(places.sets), places.interactions.shapes
        value, pulls, curvature = 0.0, dict[Columns, Table](), self.ridge.copy()
        least = np.full(theta.size, np.inf)
        for target, columns, span in places.targets:
            answers = target.answers(sum_onto(marginals[columns], columns, target.columns))
            off = (answers - target.values) / target.deviation
            value += 0.5 * dot(off, off)
            pull = spread(places.over(target, off / target.deviation), columns, target.columns)
            add_table(pulls, columns, pull if columns == target.columns else np.broadcast_to(pull, shapes[columns]))
            held = marginals[columns].reshape(-1) if target.pooled else answers
            curvature[span] += (held / target.deviation) ** 2
            least[span] = np.minimum(least[span], target.deviation)
        penalty, pooled_push = places.interactions.penalty(theta)
        first = places.interactions.size
        push = np.concatenate([pooled_push, self.ridge[first:] * theta[first:]])
        value += penalty + 0.5 * dot(push[first:], theta[first:])
        gradient = places.joined(law.derivative(pulls, places.sets)) + push
        moved = gradient / curvature * places.joined(marginals) / least
        gap = float(np.sqrt(np.mean(moved * moved)))
        return Look(value, gradient, lambda vector: vector / curvature, gap, law)

    def adapted(self, reached: Minimum) -> Self:
        """Return the posterior with the variances that the interactions of a reached law suggest.

        The variance of an interaction is the mean of its squares plus what is unknown of each, one over its curvature.
        """
        interactions, marginals = self.places.interactions, reached.last.law.marginals(self.places.sets)
        curved = {inner: np.zeros(shape) for inner, shape in interactions.shapes.items()}
        for target, columns, _ in self.places.targets:
            if target.pooled:
                squares = (sum_onto(marginals[columns], columns, target.columns) / target.deviation) ** 2
                for inner in subsets(target.columns):
                    curved[inner] += sum_onto(squares, target.columns, inner)
        variances = dict[Columns, float]()
        for inner, table in interactions.split(reached.theta).items():
            prior = interactions.variances[inner]
            unknown = 1.0 / (curved[inner] + 1.0 / prior)
            expected = float((table * table + unknown).sum())
            variances[inner] = (expected + _PRIOR_CELLS * prior) / (table.size + _PRIOR_CELLS)
        adapted = replace(interactions, variances=variances)
        ridge = np.concatenate([adapted.ridges(), self.ridge[interactions.size :]])
        return replace(self, places=replace(self.places, interactions=adapted), ridge=ridge)


def _deviation(columns: Columns) -> float:
    """Return the deviation a priori of the interaction of some columns.

    >>> [_deviation(columns) for columns in [(0,), (0, 1), (0, 1, 2)]]
    [4.0, 1.0, 0.25]
    """
    return _WIDEST / _NARROWING ** (len(columns) - 1)
