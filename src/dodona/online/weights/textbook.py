"""The designs of the lecture notes, with their constants and a threshold that is noisy, as privacy needs it."""

from __future__ import annotations

import math
from fractions import Fraction

from dodona.accounting.bounds import Pair
from dodona.accounting.composition import product_sharp
from dodona.accounting.order import zcdp_limit
from dodona.accuracy import failure, number_of
from dodona.domain.neighbours import Neighbours
from dodona.domain.unit import Unit
from dodona.errors import InvalidArgument
from dodona.exact import Exact
from dodona.mechanisms.estimate_checker import EstimateChecker
from dodona.mechanisms.laplace import Laplace
from dodona.mechanisms.scale import delta_of, epsilon_of, rounded_scale_up
from dodona.mechanisms.sparse_vector import SparseVector
from dodona.online.weights.design import Design
from dodona.online.weights.multiplicative import most_updates
from dodona.online.weights.noise import astray, farthest, laplace_bound

_LARGEST_UNIVERSE = 1 << 500


def interactive(alpha: float, *, rows: int, universe: int, questions: int) -> Design:
    """Return the interactive mechanism of the notes for an error of 4α: noise Lap(εn), ε = α/(2 ln k), check at 3α.

    Step α, at most ln|X|/α² updates. The notes' checker has no noise on its threshold; here it has Lap(εn/2), for pure
    privacy of 4/(εn) a test beside 1/(εn) an answer. The confidence is what the noise leaves of it.

    Theorem: interactive-mechanism
    """
    asked = number_of(questions, argument="questions")
    if not 0 < alpha < 1 or asked < 2:  # noqa: PLR2004  ln 1 is no scale
        raise InvalidArgument("alpha", alpha, "write a number between 0 and 1, for 2 questions or more")
    room = math.floor(alpha * rows)
    threshold = math.ceil(3 * alpha * rows) + 1  # a step for what is rounded to whole rows
    checker = _checker(alpha / (2 * math.log(asked)) * rows, _updates(universe, alpha), threshold)
    wrong = astray(checker.test, room, questions=asked)
    missed = min(checker.updates, asked) * _outside(checker.answer.scale, room)
    return Design(
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
    design = interactive(alpha, rows=rows, universe=universe, questions=questions)
    return design.event(Unit.each_row(Neighbours.REPLACE)).epsilon or Fraction(0)


def interactive_approximate(alpha: float, *, rows: int, universe: int, questions: int) -> Pair:
    """Return the (ε, e^-t) of the interactive mechanism: theorem 4, mended, on its c + 1 rounds of 5/(εn) each.

    A round is a test, 4/(εn), and a fresh answer, 1/(εn). So ε = 3(c + 1)·(10 ln k/(αn))², which is of the order
    ln²k·ln|X|/(α⁴n²), and t = 25/24 of it: of the order of ε, where the notes have a t of the order of √(cε).

    >>> pair = interactive_approximate(0.1, rows=10**5, universe=2**10, questions=10**3)
    >>> round(float(pair.epsilon), 3), round(-math.log(pair.delta), 3)
    (0.099, 0.103)

    Theorem: interactive-mechanism
    """
    design = interactive(alpha, rows=rows, universe=universe, questions=questions)
    checker = design.checker
    test, answer = checker.test, checker.answer
    one_round = 1 / test.threshold_scale + 2 / test.question_scale + 1 / answer.scale
    return product_sharp(one_round, times=test.positives)


def cube_root(  # noqa: PLR0913  the sides of the promise
    rows: int, *, universe: int, questions: int, epsilon: Exact, delta: Exact = 0, confidence: float = 0.95
) -> Design:
    """Return algorithm 2 with the printed step η = (ln|X|/n)^{1/3}, for pure privacy: its error falls as n^{-1/3}.

    Noise of scale σn = (5c + 4)/ε, c = ⌊ln|X|/η²⌋, and τ = max(4η, 2·the noise's bound) (theorem 8). A sparse vector
    with a noisy threshold needs no ln(1/δ), so δ must be 0.

    Theorem: interactive-mechanism
    """
    if delta != 0:
        raise InvalidArgument("delta", delta, "write 0, or take the design of the square root")
    step = (_potential(universe) / number_of(rows, argument="rows")) ** (1 / 3)
    updates = _updates(universe, step)
    scale = (5 * updates + 4) / float(epsilon_of(epsilon))
    return _algorithm_two(rows, universe, questions, step, scale, failure(confidence))


def square_root(  # noqa: PLR0913  the sides of the promise
    rows: int, *, universe: int, questions: int, epsilon: Exact, delta: Exact, confidence: float = 0.95
) -> Design:
    """Return algorithm 2 with its parameters adjusted for (ε, δ): its error falls as n^{-1/2} (theorem 9).

    The noise of c updates costs about 8.5c/(σn)² in zCDP; η is where 4η meets twice the noise's bound.

    Theorem: interactive-mechanism
    """
    limit = float(zcdp_limit(epsilon_of(epsilon), delta_of(delta)))
    failing = failure(confidence)
    number_of(rows, argument="rows")

    def scale(step: float) -> float:
        """Return σn: 8 for a test at ε = 4/(σn), priced ε²/2, and a half and a little for an answer."""
        updates = _updates(universe, step)
        return math.sqrt((8 * (updates + 1) + 0.51 * updates) / limit) + 1

    low, high = 1.001 * math.sqrt(_potential(universe) / 10**6), 1.0
    while high / low > 1 + 1e-4:
        step = math.sqrt(low * high)
        design = _algorithm_two(rows, universe, questions, step, scale(step), failing)
        low, high = (step, high) if design.checker.threshold > math.ceil(4 * step * rows) else (low, step)
    return _algorithm_two(rows, universe, questions, high, scale(high), failing)


def _algorithm_two(  # noqa: PLR0913, PLR0917  all that was chosen
    rows: int, universe: int, questions: int, step: float, scale: float, failing: float
) -> Design:
    """Return the design with this step and noise, and τ so large that no noise passes τ/2."""
    draft = _checker(scale, _updates(universe, step), 1)
    told = min(draft.updates, number_of(questions, argument="questions"))
    off = farthest(draft.test, questions=questions, failing=failing / 2)
    missed = laplace_bound(draft.answer.scale, answers=told, failing=failing / 2)
    noise = max(off, missed) + 1  # a step for what is rounded to whole rows
    threshold = max(math.ceil(4 * step * rows), 2 * noise)
    return Design(
        rows=rows,
        universe=universe,
        questions=questions,
        step=step,
        checker=EstimateChecker(draft.test, draft.answer, threshold),
        within=(threshold + noise) / rows,
        confidence=1 - failing,
    )


def _checker(scale: float, updates: int, threshold: int) -> EstimateChecker:
    """Return noise Lap(scale) on questions and answers and Lap(scale/2) on thresholds."""
    rounded = rounded_scale_up(scale)
    test = SparseVector(threshold_scale=rounded / 2, question_scale=rounded, positives=updates + 1)
    return EstimateChecker(test, Laplace(scale=rounded), threshold)


def _outside(scale: Fraction, room: int) -> float:
    """Return P(|x| > room)."""
    ratio = math.exp(-1 / float(scale))
    return 2 * math.exp(-(room + 1) / float(scale)) / (1 + ratio)


def _updates(universe: int, step: float) -> int:
    """Return the cap; more than a million updates are refused by the sparse vector."""
    _potential(universe)
    return most_updates(universe=universe, step=step)


def _potential(universe: int) -> float:
    return math.log(number_of(universe, argument="universe", upper=_LARGEST_UNIVERSE))
