"""Multiplicative weights as in the lecture notes, without privacy and with it, for study.

No ledger charges what is spent here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from dodona.curator.weights import Distribution, PrivateMultiplicativeWeights
from dodona.curator.weights_design import WeightsDesign, verdict_error_bound, verdict_failure_probability
from dodona.errors import InvalidArgument
from dodona.lab.composition import product_sharp
from dodona.lab.conversion import EpsilonDelta
from dodona.numbers import Exact, smallest_number
from dodona.privacy.accuracy import to_failure_probability, validate_count
from dodona.privacy.additive_noise import Laplace, Noise, round_scale_up, validate_noise_epsilon
from dodona.privacy.conversion import validate_noise_delta, zcdp_limit
from dodona.privacy.sparse_vector import EstimateChecker, SparseVector
from dodona.schema.schema import Neighbours, Unit
from dodona.trusted.gate import OpenSparseVector

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


# --- Histograms and queries as lists of numbers. ---


_GRID = 1 << 20
"""Weights of queries are multiples of one over this, so that counts are exact."""


def check_histogram(counts: ArrayLike) -> NDArray[np.int64]:
    """Return a histogram as integers: the number of rows in each cell of the universe."""
    histogram = np.asarray(counts)
    if histogram.ndim != 1 or histogram.size == 0 or not np.issubdtype(histogram.dtype, np.integer):
        raise InvalidArgument("counts", counts, "write a flat list of whole numbers, one for each cell")
    if (histogram < 0).any() or not 0 < histogram.sum(dtype=np.float64) < 2**40:
        raise InvalidArgument("counts", counts, "write numbers from 0 up, with 1 to 2^40 rows in all")
    return histogram.astype(np.int64)


def check_query_weights(query: ArrayLike, cells: int) -> NDArray[np.float64]:
    """Return the weight of each cell, a number from 0 to 1, rounded to multiples of 2^-20."""
    weights = np.asarray(query)
    if weights.shape != (cells,) or weights.dtype.kind not in "biuf":
        raise InvalidArgument("query", query, f"write one number for each of {cells} cells")
    if weights.dtype.kind == "b":
        return weights.astype(np.float64)
    if not ((weights >= 0) & (weights <= 1)).all():  # also rejects NaN
        raise InvalidArgument("query", query, "write numbers from 0 to 1")
    return np.rint(weights * float(_GRID)) / _GRID


def count_weighted_rows(query: NDArray[np.float64], counts: NDArray[np.int64]) -> int:
    """Return the number of rows a query counts, rounded to an integer: one row still changes it by at most one.

    Sums of multiples of 2^-20 up to 2^40 rows are exact in integers; rounding is monotone and commutes with adding 1.
    """
    steps = int(np.dot((query * _GRID).astype(np.int64), counts))
    return (steps + _GRID // 2) // _GRID


# --- Multiplicative weights without privacy, as in the lecture notes: algorithm 1, with its potential. ---


@dataclass(frozen=True, slots=True)
class Round:
    """The effect of one query."""

    truth: float
    estimate: float
    """Before the update."""
    updated: bool
    potential: float
    """RE(D‖D_t) after the round."""
    drop: float
    """The decrease of the potential; 0 without an update."""

    @property
    def answer(self) -> float:
        """The estimate if it was close enough, else the truth."""
        return self.truth if self.updated else self.estimate


class MultiplicativeWeights:
    """Answers queries from a distribution that is moved towards the data whenever it is more than 2η off.

    >>> weights = MultiplicativeWeights([90, 10, 0, 0], step=0.2)
    >>> [weights.ask([1, 1, 0, 0]).updated for _ in range(4)]
    [True, True, True, False]

    Theorem: multiplicative-weights
    """

    def __init__(self, counts: ArrayLike, *, step: float) -> None:
        """Validate a histogram and η, from 0 to 1."""
        if not 0 < step <= 1:
            raise InvalidArgument("step", step, "write a number above 0 and up to 1")
        self.step = step
        self.threshold = 2 * step
        self.data = Distribution.of(check_histogram(counts))
        self.hypothesis = Distribution.uniform(self.data.values.size)
        self.rounds: list[Round] = []
        self._potential = self.data.divergence(self.hypothesis)

    @property
    def updates(self) -> int:
        """The number of rounds that moved the distribution."""
        return sum(outcome.updated for outcome in self.rounds)

    def ask(self, query: ArrayLike) -> Round:
        """Return the effect of the query; the potential is recomputed after an update."""
        weights = check_query_weights(query, self.data.values.size)
        estimate, truth = self.hypothesis.expect(weights), self.data.expect(weights)
        before = self._potential
        updated = abs(estimate - truth) > self.threshold
        if updated:
            # Too low: raise the cells of the query. The notes print "< τ" for "< -τ" (errata, row 6).
            rate = self.step if estimate - truth < -self.threshold else -self.step
            self.hypothesis = self.hypothesis.tilted(weights, rate)
            self._potential = self.data.divergence(self.hypothesis)
        outcome = Round(truth, estimate, updated, self._potential, before - self._potential)
        self.rounds.append(outcome)
        return outcome


def least_drop(*, step: float, gap: float) -> float:
    """Return η·gap - η²: the least decrease of the potential in an update (lemma 6 of the notes).

    Theorem: multiplicative-weights
    """
    return step * gap - step**2


def sharp_drop(*, step: float, gap: float) -> float:
    """Return η·gap - η²/8, by Hoeffding's lemma; with η = 4·gap it is 2·gap².

    Theorem: multiplicative-weights
    """
    return step * gap - step**2 / 8


def most_updates(*, universe: int, step: float) -> int:
    """Return ⌊ln|X|/η²⌋: the largest number of updates of algorithm 1 (corollary 7 of the notes).

    >>> most_updates(universe=1024, step=0.1)
    693

    Theorem: multiplicative-weights
    """
    return math.floor(math.log(universe) / step**2)


def sharp_updates(*, universe: int, gap: float) -> int:
    """Return ⌊ln|X|/(2γ²)⌋: the largest number of updates if each is at a gap of γ or more and η = 4γ.

    >>> sharp_updates(universe=1024, gap=0.1)
    346

    Theorem: multiplicative-weights
    """
    return math.floor(math.log(universe) / (2 * gap**2))


# --- The designs of the lecture notes, with their constants and a noisy threshold, which privacy requires. ---


_LARGEST_UNIVERSE = 1 << 500


def interactive_design(alpha: float, *, rows: int, universe: int, questions: int) -> WeightsDesign:
    """Return the interactive mechanism of the notes for an error of 4α: noise Lap(εn), ε = α/(2 ln k), check at 3α.

    Step α, at most ln|X|/α² updates. The notes' checker has no noise on its threshold; here it has Lap(εn/2), for pure
    privacy of 4/(εn) per test and 1/(εn) per answer. The confidence follows from the noise.

    Theorem: interactive-mechanism
    """
    asked = validate_count(questions, argument="questions")
    if not 0 < alpha < 1 or asked < 2:  # noqa: PLR2004  ln 1 is no scale
        raise InvalidArgument("alpha", alpha, "write a number between 0 and 1, for 2 questions or more")
    room = math.floor(alpha * rows)
    threshold = math.ceil(3 * alpha * rows) + 1  # a step for what is rounded to whole rows
    checker = _checker(alpha / (2 * math.log(asked)) * rows, _updates(universe, alpha), threshold)
    wrong = verdict_failure_probability(checker.test, room, questions=asked)
    missed = min(checker.updates, asked) * _laplace_tail(checker.answer.scale, room)
    return WeightsDesign(
        rows=rows,
        universe=universe,
        questions=asked,
        step=alpha,
        checker=checker,
        within=(threshold + room) / rows,
        confidence=max(0.0, 1 - wrong - missed),
    )


def interactive_epsilon(alpha: float, *, rows: int, universe: int, questions: int) -> Fraction:
    """Return the pure price of the interactive mechanism: (5c + 4)·2 ln k/(αn), c = ⌊ln|X|/α²⌋ (theorem 2).

    Theorem: interactive-mechanism
    """
    design = interactive_design(alpha, rows=rows, universe=universe, questions=questions)
    return design.event(Unit.each_row(Neighbours.REPLACE)).epsilon or Fraction(0)


def interactive_approximate(alpha: float, *, rows: int, universe: int, questions: int) -> EpsilonDelta:
    """Return the (ε, e^-t) of the interactive mechanism: theorem 4, corrected, on its c + 1 rounds of 5/(εn) each.

    A round is a test, 4/(εn), and a fresh answer, 1/(εn). So ε = 3(c + 1)·(10 ln k/(αn))², which is of the order
    ln²k·ln|X|/(α⁴n²), and t = 25/24 of it: of the order of ε, where the notes have a t of the order of √(cε).

    >>> pair = interactive_approximate(0.1, rows=10**5, universe=2**10, questions=10**3)
    >>> round(float(pair.epsilon), 3), round(-math.log(pair.delta), 3)
    (0.099, 0.103)

    Theorem: interactive-mechanism
    """
    design = interactive_design(alpha, rows=rows, universe=universe, questions=questions)
    checker = design.checker
    test, answer = checker.test, checker.answer
    one_round = 1 / test.threshold_scale + 2 / test.question_scale + 1 / answer.scale
    return product_sharp(one_round, times=test.positives)


def cube_root(  # noqa: PLR0913  the sides of the promise
    rows: int, *, universe: int, questions: int, epsilon: Exact, delta: Exact = 0, confidence: float = 0.95
) -> WeightsDesign:
    """Return algorithm 2 with the printed step η = (ln|X|/n)^{1/3}, for pure privacy: its error falls as n^{-1/3}.

    Noise of scale σn = (5c + 4)/ε, c = ⌊ln|X|/η²⌋, and τ = max(4η, 2·the noise's bound) (theorem 8). A sparse vector
    with a noisy threshold needs no ln(1/δ), so δ must be 0.

    Theorem: interactive-mechanism
    """
    if delta != 0:
        raise InvalidArgument("delta", delta, "write 0, or take the design of the square root")
    step = (_potential(universe) / validate_count(rows, argument="rows")) ** (1 / 3)
    updates = _updates(universe, step)
    scale = (5 * updates + 4) / float(validate_noise_epsilon(epsilon))
    return _algorithm_two(rows, universe, questions, step, scale, to_failure_probability(confidence))


def square_root(  # noqa: PLR0913  the sides of the promise
    rows: int, *, universe: int, questions: int, epsilon: Exact, delta: Exact, confidence: float = 0.95
) -> WeightsDesign:
    """Return algorithm 2 with its parameters adjusted for (ε, δ): its error falls as n^{-1/2} (theorem 9).

    The noise of c updates costs about 8.5c/(σn)² in zCDP; η is where 4η meets twice the noise bound.

    Theorem: interactive-mechanism
    """
    limit = float(zcdp_limit(validate_noise_epsilon(epsilon), validate_noise_delta(delta)))
    failing = to_failure_probability(confidence)
    validate_count(rows, argument="rows")

    def scale(step: float) -> float:
        """Return σn: 8 for a test at ε = 4/(σn), priced ε²/2, and slightly over 1/2 for an answer."""
        updates = _updates(universe, step)
        return math.sqrt((8 * (updates + 1) + 0.51 * updates) / limit) + 1

    def design(step: float) -> WeightsDesign:
        return _algorithm_two(rows, universe, questions, step, scale(step), failing)

    def fits(step: float) -> bool:
        return design(step).checker.threshold <= math.ceil(4 * step * rows)

    low = 1.001 * math.sqrt(_potential(universe) / 10**6)
    return design(smallest_number(fits, low, 1.0, near=1e-4, geometric=True))


def laplace_bound(scale: Fraction, *, answers: int, failing: float) -> int:
    """Return the least m with answers·P(|x| > m) ≤ β: P(|x| > m) = 2q^{m+1}/(1+q), q = e^{-1/b}.

    Theorem: laplace-accuracy
    """
    if answers == 0:
        return 0
    width = float(scale)
    ratio = math.exp(-1 / width)
    return max(0, math.ceil(width * math.log(2 * answers / (failing * (1 + ratio)))) - 1)


def _algorithm_two(  # noqa: PLR0913, PLR0917  all that was chosen
    rows: int, universe: int, questions: int, step: float, scale: float, failing: float
) -> WeightsDesign:
    """Return the design with this step and noise, and τ so large that no noise exceeds τ/2."""
    draft = _checker(scale, _updates(universe, step), 1)
    answers = min(draft.updates, validate_count(questions, argument="questions"))
    off = verdict_error_bound(draft.test, questions=questions, failing=failing / 2)
    missed = laplace_bound(draft.answer.scale, answers=answers, failing=failing / 2)
    noise = max(off, missed) + 1  # a step for what is rounded to whole rows
    threshold = max(math.ceil(4 * step * rows), 2 * noise)
    return WeightsDesign(
        rows=rows,
        universe=universe,
        questions=questions,
        step=step,
        checker=EstimateChecker(draft.test, draft.answer, threshold),
        within=(threshold + noise) / rows,
        confidence=1 - failing,
    )


def _checker(scale: float, updates: int, threshold: int) -> EstimateChecker:
    """Return noise Lap(scale) on queries and answers and Lap(scale/2) on thresholds."""
    rounded = round_scale_up(scale)
    test = SparseVector(threshold_scale=rounded / 2, question_scale=rounded, positives=updates + 1)
    return EstimateChecker(test, Laplace(scale=rounded), threshold)


def _laplace_tail(scale: Fraction, room: int) -> float:
    """Return P(|x| > room)."""
    ratio = math.exp(-1 / float(scale))
    return 2 * math.exp(-(room + 1) / float(scale)) / (1 + ratio)


def _updates(universe: int, step: float) -> int:
    """Return the cap; the sparse vector refuses more than a million updates."""
    _potential(universe)
    return most_updates(universe=universe, step=step)


def _potential(universe: int) -> float:
    return math.log(validate_count(universe, argument="universe", upper=_LARGEST_UNIVERSE))


# --- Private multiplicative weights on a plain histogram, for study: no ledger charges what is spent. ---


NoiseSampler = Callable[[Noise], int]
"""Draws one value of a noise: `lambda law: direct.run(law, 0)`."""


def study_weights(
    design: WeightsDesign, counts: ArrayLike, *, draw: NoiseSampler
) -> PrivateMultiplicativeWeights[ArrayLike]:
    """Return private multiplicative weights on a histogram; a query has a number from 0 to 1 for each cell."""
    data = check_histogram(counts)
    if (data.size, int(data.sum())) != (design.universe, design.rows):
        accepted = f"write {design.universe} counts that sum to {design.rows}, as the design says"
        raise InvalidArgument("counts", f"{data.size} counts, {int(data.sum())} rows", accepted)
    laplace = cache(lambda scale: Laplace(scale=scale))
    watch = OpenSparseVector(design.checker.test, lambda scale: draw(laplace(scale)))

    def weigh(query: ArrayLike) -> NDArray[np.float64]:
        return check_query_weights(query, data.size)

    def check(query: ArrayLike, estimate: int) -> int | None:
        return design.checker.fresh(count_weighted_rows(weigh(query), data), estimate, watch=watch, draw=draw)

    return PrivateMultiplicativeWeights(design, check, weigh=weigh, hypothesis=Distribution.uniform(data.size))
