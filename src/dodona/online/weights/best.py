"""The best explicit design: the smallest error that is promised for a price."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

from dodona.accounting.order import zcdp_limit
from dodona.accuracy import failure, number_of
from dodona.domain.neighbours import Neighbours
from dodona.domain.unit import Unit
from dodona.errors import InvalidArgument
from dodona.exact import Exact
from dodona.mechanisms.estimate_checker import EstimateChecker
from dodona.mechanisms.scale import delta_of, epsilon_of, rounded_scale_up
from dodona.mechanisms.sparse_vector import SparseVector
from dodona.online.weights.currency import Concentrated, Currency, Pure
from dodona.online.weights.design import Design
from dodona.online.weights.faults import Hopeless
from dodona.online.weights.noise import farthest

_MOST_UPDATES = 10**6 - 1
_MOST_ROWS = 10**11  # noise of more rows is not drawn
_DIRECTIONS = 1e-3  # the part of β for the signs of updates: precise answers are cheap beside the tests
_POTENTIAL = 1 + 1e-9  # what rounding may add to the potential over all updates
_NEAR = 1e-6
_GOLDEN = (math.sqrt(5) - 1) / 2


def guarantee(  # noqa: PLR0913  the sides of the promise
    rows: int, *, universe: int, questions: int, epsilon: Exact, delta: Exact, confidence: float = 0.95
) -> float:
    """Return α: all answers are within this share of the rows, at this price, with the confidence.

    A number from 1 up promises nothing.

    >>> round(guarantee(10**6, universe=1024, questions=10**6, epsilon=1, delta="1e-6"), 3)
    0.072

    Theorem: weights-accuracy
    """
    try:
        design = best(rows, universe=universe, questions=questions, epsilon=epsilon, delta=delta, confidence=confidence)
    except Hopeless:
        return math.inf
    return design.within


def best(  # noqa: PLR0913  the sides of the promise
    rows: int,
    *,
    universe: int,
    questions: int,
    epsilon: Exact,
    delta: Exact,
    confidence: float = 0.95,
    together: int = 1,
) -> Design:
    """Return the design with the smallest promised error: η = 4γ, at most ln|X|/(2γ²) updates.

    Answers are Gaussian and prices zCDP; for δ = 0 answers are Laplace and losses pure. `together` is how many rows
    one person has at most, which move a count together.

    Theorem: weights-accuracy
    """
    loss = epsilon_of(epsilon)
    cells = number_of(universe, argument="universe", upper=1 << 500)
    if cells == 1:
        raise InvalidArgument("universe", universe, "write at least 2 cells: one cell holds all rows")
    return _best(
        number_of(rows, argument="rows", upper=_MOST_ROWS),
        cells,
        number_of(questions, argument="questions"),
        Pure(loss) if delta == 0 else Concentrated(zcdp_limit(loss, delta_of(delta))),
        failure(confidence),
        number_of(together, argument="together"),
    )


@lru_cache(maxsize=256)
def _best(  # noqa: PLR0913, PLR0917  the sides of the promise
    rows: int, universe: int, questions: int, paid: Currency, failing: float, together: int
) -> Design:
    potential = math.log(universe) * _POTENTIAL
    currency = paid.parted(together)

    def promised(position: float) -> float:
        updates = round(math.exp(position))
        gap, told = _gap(potential, updates), min(updates, questions)
        answer = currency.answer(gap * rows, answers=told, failing=failing * _DIRECTIONS)
        return gap + 2 * _split(questions, told, failing, currency, currency.left(answer, told))[1] / rows

    # Past one update a question nothing more is paid for, so that there may be a second valley.
    last = math.log(_MOST_UPDATES)
    middle = min(math.log(questions), last)
    found = [_lowest(promised, 0.0, middle, near=1e-4), _lowest(promised, middle, last, near=1e-4)]
    updates = round(math.exp(min(found, key=promised)))
    unit = Unit(neighbours=Neighbours.REPLACE, size=rows, id=None if together == 1 else "person", rows=together)

    def admitted(checker: EstimateChecker) -> bool:
        return paid.admits(checker.event(unit))

    return _designed(rows, universe, questions, updates, _gap(potential, updates), currency, failing, admitted)


def _designed(  # noqa: PLR0913, PLR0917  all that was chosen
    rows: int,
    universe: int,
    questions: int,
    updates: int,
    gap: float,
    currency: Currency,
    failing: float,
    admitted: Callable[[EstimateChecker], bool],
) -> Design:
    """Return the design in whole rows, with scales that are surely within the limit."""
    told = min(updates, questions)
    answer = currency.answer(gap * rows, answers=told, failing=failing * _DIRECTIONS)
    room = currency.left(answer, told)
    share, error = _split(questions, told, failing, currency, room)
    if not error < _MOST_ROWS:
        raise Hopeless(math.inf)
    question = (2 + 1 / share) / currency.loss(room / (told + 1))
    while True:
        test = SparseVector(
            threshold_scale=rounded_scale_up(share * question),
            question_scale=rounded_scale_up(question),
            positives=told + 1,
        )
        if admitted(EstimateChecker(test, answer, threshold=1)):
            break
        question *= 1 + _NEAR
    off = farthest(test, questions=questions, failing=failing * (1 - _DIRECTIONS))
    # One step of the grid on either side: the estimate, and a count of fractions, are rounded to whole rows.
    threshold = math.ceil(gap * rows) + off + 1
    return Design(
        rows=rows,
        universe=universe,
        questions=questions,
        step=4 * (threshold - off - 1) / rows,
        checker=EstimateChecker(test, answer, threshold),
        within=(threshold + off) / rows,
        confidence=1 - failing,
    )


def _gap(potential: float, updates: int) -> float:
    """Return γ such that one update more than these would use up more than the potential, at 2γ² each."""
    return math.sqrt(potential / (2 * (updates + 1))) * (1 + 1e-12)


def _split(questions: int, updates: int, failing: float, currency: Currency, room: float) -> tuple[float, float]:
    """Return the threshold's scale as a share θ of the questions', and about the error in rows.

    It is (2 + 1/θ)(ln(k/2β) + θ·ln(c+1) + ln Γ(1-θ))/ε: e^{τ*/b} is averaged over the largest of c + 1 thresholds.
    """
    if room <= 0:
        return 0.5, math.inf
    asked, begun = math.log(questions / (2 * failing)), math.log(min(updates + 1, questions))

    def error(share: float) -> float:
        return (2 + 1 / share) * (asked + share * begun + math.lgamma(1 - share))

    share = _lowest(error, 0.05, 0.95, near=1e-3)
    return share, max(error(share), 1.0) / currency.loss(room / (updates + 1))


def _lowest(function: Callable[[float], float], low: float, high: float, *, near: float) -> float:
    """Return about where a function with one valley is lowest, by golden section."""
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = function(left), function(right)
    while high - low > near:
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = function(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = function(right)
    return (low + high) / 2
