"""Designs of private multiplicative weights: every parameter, fixed before the data are touched.

The best design has the smallest guaranteed error for its price. Independent noise and a synthetic table are computed
for comparison.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from dodona.errors import InvalidArgument, InvalidRequest, Refused
from dodona.numbers import Exact, largest_number, minimize_unimodal, smallest_integer
from dodona.privacy import additive_noise
from dodona.privacy.accuracy import to_failure_probability, validate_count
from dodona.privacy.conversion import validate_noise_delta, zcdp_limit
from dodona.privacy.events import Event
from dodona.privacy.gaussian_privacy import gaussian_limit
from dodona.privacy.sparse_vector import EstimateChecker, SparseVector
from dodona.schema.schema import Neighbours, Unit

# --- Errors of multiplicative weights. ---


class UpdatesUsed(Refused):
    """The last update was made, and another would be needed."""

    code = "updates-used"

    def __init__(self, updates: int) -> None:
        """State how many updates there were."""
        super().__init__(
            f"These weights were opened for {updates} updates and have made them all. Open new ones; what these have "
            "learned is in their hypothesis, without a guarantee."
        )


class UniverseTooLarge(InvalidRequest):
    """More cells than can be stored individually."""

    code = "universe-too-large"

    def __init__(self, cells: int, most: int) -> None:
        """State the number of cells and its limit."""
        super().__init__(
            f"These columns have {cells} cells together, and weights are kept for {most} at most. Name fewer columns, "
            "or ask the curator, which measures each question."
        )


class NoUsefulGuarantee(Refused):
    """So few rows, or so small a price, that there is no useful guarantee."""

    code = "hopeless"

    def __init__(self, within: float, *, independent: float = math.inf, table: float = math.inf) -> None:
        """State the possible guarantee, and which mechanism has a better one."""
        best = min(independent, table)
        way = "ask for one table of all cells by GROUP BY" if table <= independent else "ask them all with ask_many"
        better = f" At the same price within {best:.3g} is promised if you {way}." if best < 1 else ""
        super().__init__(
            f"For so few rows at this price an answer could be off by {within:.3g} of all rows: no promise.{better} "
            "Raise epsilon, ask fewer questions or name fewer columns."
        )


# --- The effect of noise on an estimate checker. ---


_REACH = 60.0  # scales of the threshold noise that are integrated over; beyond, failure is assumed
_PARTS = 3000
_GRID = np.linspace(0, _REACH, _PARTS + 1)


def verdict_failure_probability(test: SparseVector, off: int, *, questions: int) -> float:
    """Return a bound on P(some verdict is off by more than `off`), for questions chosen adaptively from the verdicts.

    With τ* the largest absolute noise of all thresholds, it is E[min(1, k·P(ν > off - τ*))], bounded by an upper sum.
    A verdict can be wrong on one side only, as the distance is fixed before its noise is drawn.

    Theorem: weights-accuracy
    """
    begun = min(test.positives, questions)
    threshold, question = float(test.threshold_scale), float(test.question_scale)
    ends = np.floor(_GRID * threshold)
    # P(|τ| ≤ t) = 1 - 2r^{t+1}/(1+r), r = e^{-1/b}; for the maximum of independent ones, its power.
    outside = 2 * np.exp(-(ends + 1) / threshold) / (1 + math.exp(-1 / threshold))
    inside = np.exp(begun * np.log1p(-np.minimum(outside, 1 - 1e-16)))
    mass = np.diff(inside, prepend=0.0)
    tolerance = np.maximum(off - ends, -1)
    wrong = np.minimum(1, questions * np.exp(-(tolerance + 1) / question) / (1 + math.exp(-1 / question)))
    return float(mass @ wrong) + float(-math.expm1(begun * math.log1p(-min(outside[-1], 0.5))))


def verdict_error_bound(test: SparseVector, *, questions: int, failing: float) -> int:
    """Return the least integer error that no verdict exceeds, except with probability `failing`.

    Theorem: weights-accuracy
    """

    def enough(error: int) -> bool:
        return verdict_failure_probability(test, error, questions=questions) <= failing

    low, high = -1, 1
    while not enough(high):
        low, high = high, 2 * high
    return smallest_integer(enough, low, high)


# --- A design: all parameters of private multiplicative weights, fixed before the data are touched. ---


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsDesign:
    """A checker, a step size, and their guarantee: all answers are within α, at the confidence.

    Theorem: weights-accuracy
    """

    rows: int
    universe: int
    """How many cells there are."""
    questions: int
    """For how many questions the promise holds; they may depend on earlier answers."""
    step: float
    """η: by e^{±η} the weights of a question's cells change in an update."""
    checker: EstimateChecker
    within: float
    """α: how far an answer may be off, as a share of all rows."""
    confidence: float

    @property
    def empty(self) -> bool:
        """Whether the guarantee is void: every answer is between no rows and all of them anyway."""
        return self.within >= 1

    def __str__(self) -> str:
        answers, at = f"All of {self.questions:,} answers", f"at {self.confidence:.15g}"
        said = f"{answers} within {self.within:.3g} of {self.rows:,} rows, {at}"
        if not self.empty:
            return f"{said}."
        return f"{said}: that promises nothing. Take more rows, a larger epsilon, or noise on each question by itself."

    @property
    def updates(self) -> int:
        """The maximum number of updates; any further one is refused."""
        return self.checker.updates

    def event(self, unit: Unit) -> Event:
        """Return its full cost, charged when it is opened."""
        return self.checker.event(unit)


# --- The currencies of a design: zCDP or Gaussian prices with normal answers, or pure loss with Laplace answers. ---


@dataclass(frozen=True, slots=True)
class ZcdpLimit:
    """A limit on the total zCDP."""

    limit: Decimal

    def parted(self, rows: int) -> ZcdpLimit:
        """Return the limit per row, if this many rows move together."""
        return ZcdpLimit(self.limit / rows**2)

    def answer(self, gap: float, *, answers: int, failing: float) -> additive_noise.Gaussian:
        """Return noise that stays below the gap in all answers: P(|x| ≥ m) ≤ e^{-(m-1)²/2σ²}."""
        return additive_noise.Gaussian(
            scale=_rounded_scale(max(gap - 2, 0.5) / math.sqrt(2 * math.log(answers / failing)))
        )

    def left(self, answer: additive_noise.Noise, answers: int) -> float:
        """Return what the answers leave for tests."""
        return float(self.limit) - answers / (2 * float(answer.scale) ** 2)

    def loss(self, price: float) -> float:
        """Return approximately the ε with ε·tanh(ε/2) equal to a price."""
        least = math.sqrt(2 * price)
        return largest_number(lambda loss: loss * math.tanh(loss / 2) < price, least, least + 2 * price, near=1e-8)

    def admits(self, event: Event) -> bool:
        """Return whether the event is within the limit."""
        return event.rho() <= self.limit


@dataclass(frozen=True, slots=True)
class GaussianLimit:
    """A limit on the total squared Gaussian price."""

    limit: Decimal

    def parted(self, rows: int) -> GaussianLimit:
        """Return the limit per row, if this many rows move together."""
        return GaussianLimit(self.limit / rows**2)

    def answer(self, gap: float, *, answers: int, failing: float) -> additive_noise.RoundedGaussian:
        """Return noise that stays below the gap in all answers: P(|x| ≥ m) ≤ e^{-(m-1/2)²/2σ²}."""
        scale = max(gap - 2, 0.5) / math.sqrt(2 * math.log(answers / failing))
        return additive_noise.RoundedGaussian(scale=_rounded_scale(scale))

    def left(self, answer: additive_noise.Noise, answers: int) -> float:
        """Return what the answers leave for tests."""
        return float(self.limit) - answers / float(answer.scale) ** 2

    def loss(self, price: float) -> float:
        """Return approximately the ε whose squared Gaussian price this is."""
        half = NormalDist().cdf(-math.sqrt(max(price, 0.0)) / 2)
        return math.log((1 - half) / half)

    def admits(self, event: Event) -> bool:
        """Return whether the event is within the limit."""
        price = event.mu_squared()
        return price is not None and price <= self.limit


@dataclass(frozen=True, slots=True)
class PureLimit:
    """A limit on the total pure loss."""

    limit: Fraction

    def parted(self, rows: int) -> PureLimit:
        """Return the limit per row, if this many rows move together."""
        return PureLimit(self.limit / rows)

    def answer(self, gap: float, *, answers: int, failing: float) -> additive_noise.Laplace:
        """Return noise that stays below the gap in all answers: P(|x| ≥ m) ≤ e^{-(m-1)/b}."""
        return additive_noise.Laplace(scale=_rounded_scale(max(gap - 2, 0.5) / math.log(answers / failing)))

    def left(self, answer: additive_noise.Noise, answers: int) -> float:
        """Return what the answers leave for tests."""
        return float(self.limit) - answers / float(answer.scale)

    def loss(self, price: float) -> float:
        """Return the price, which already is a loss."""
        return price

    def admits(self, event: Event) -> bool:
        """Return whether the event is within the limit."""
        return event.epsilon is not None and event.epsilon <= self.limit


LossLimit = ZcdpLimit | GaussianLimit | PureLimit


def _rounded_scale(value: float) -> Fraction:
    return additive_noise.round_scale_down(
        min(max(value, float(additive_noise.SMALLEST_SCALE)), float(additive_noise.LARGEST_SCALE))
    )


# --- The best explicit design: the smallest guaranteed error for a price. ---


_MOST_UPDATES = 10**6 - 1
_MAX_DESIGN_ROWS = 10**11  # noise for more rows cannot be drawn
_DIRECTIONS = 1e-3  # the part of β for the signs of updates: accurate answers are cheap compared to the tests
_POTENTIAL = 1 + 1e-9  # what rounding may add to the potential over all updates
_SCALE_MARGIN = 1e-6


def guarantee(  # noqa: PLR0913  the sides of the promise
    rows: int, *, universe: int, questions: int, epsilon: Exact, delta: Exact, confidence: float = 0.95
) -> float:
    """Return α: all answers are within this share of the rows, at this price, with the confidence.

    A value of 1 or more guarantees nothing.

    >>> round(guarantee(10**6, universe=1024, questions=10**6, epsilon=1, delta="1e-6"), 3)
    0.072

    Theorem: weights-accuracy
    """
    try:
        design = best_design(
            rows, universe=universe, questions=questions, epsilon=epsilon, delta=delta, confidence=confidence
        )
    except NoUsefulGuarantee:
        return math.inf
    return design.within


def best_design(  # noqa: PLR0913  the sides of the promise
    rows: int,
    *,
    universe: int,
    questions: int,
    epsilon: Exact,
    delta: Exact,
    confidence: float = 0.95,
    together: int = 1,
    law: type[additive_noise.NormalNoise] = additive_noise.Gaussian,
) -> WeightsDesign:
    """Return the design with the smallest guaranteed error: η = 4γ, at most ln|X|/(2γ²) updates.

    Answers have normal noise of this law and prices are zCDP, or Gaussian if it is rounded; for δ = 0 answers are
    Laplace and losses pure. `together` is the largest number of rows of one person, which move a count together.

    Theorem: weights-accuracy
    """
    loss = additive_noise.validate_noise_epsilon(epsilon)
    cells = validate_count(universe, argument="universe", upper=1 << 500)
    if cells == 1:
        raise InvalidArgument("universe", universe, "write at least 2 cells: one cell holds all rows")
    return _search_design(
        validate_count(rows, argument="rows", upper=_MAX_DESIGN_ROWS),
        cells,
        validate_count(questions, argument="questions"),
        PureLimit(loss) if delta == 0 else _normal_limit(loss, validate_noise_delta(delta), law),
        to_failure_probability(confidence),
        validate_count(together, argument="together"),
    )


def _normal_limit(
    epsilon: Fraction, delta: Fraction, law: type[additive_noise.NormalNoise]
) -> ZcdpLimit | GaussianLimit:
    if law is additive_noise.RoundedGaussian:
        return GaussianLimit(gaussian_limit(epsilon, delta))
    return ZcdpLimit(zcdp_limit(epsilon, delta))


@lru_cache(maxsize=256)
def _search_design(  # noqa: PLR0913, PLR0917  the sides of the promise
    rows: int, universe: int, questions: int, paid: LossLimit, failing: float, together: int
) -> WeightsDesign:
    potential = math.log(universe) * _POTENTIAL
    currency = paid.parted(together)

    def promised(position: float) -> float:
        updates = round(math.exp(position))
        gap, answered = _gap(potential, updates), min(updates, questions)
        answer = currency.answer(gap * rows, answers=answered, failing=failing * _DIRECTIONS)
        return gap + 2 * _split_scale(questions, answered, failing, currency, currency.left(answer, answered))[1] / rows

    # Beyond one update per question nothing more is paid, so there may be a second local minimum.
    last = math.log(_MOST_UPDATES)
    middle = min(math.log(questions), last)
    minima = [
        minimize_unimodal(promised, 0.0, middle, near=1e-4),
        minimize_unimodal(promised, middle, last, near=1e-4),
    ]
    updates = round(math.exp(min(minima, key=promised)))
    unit = Unit(neighbours=Neighbours.REPLACE, size=rows, id=None if together == 1 else "person", rows=together)

    def admitted(checker: EstimateChecker) -> bool:
        return paid.admits(checker.event(unit))

    return _make_design(rows, universe, questions, updates, _gap(potential, updates), currency, failing, admitted)


def _make_design(  # noqa: PLR0913, PLR0917  all that was chosen
    rows: int,
    universe: int,
    questions: int,
    updates: int,
    gap: float,
    currency: LossLimit,
    failing: float,
    admitted: Callable[[EstimateChecker], bool],
) -> WeightsDesign:
    """Return the design in whole rows, with scales that are certainly within the limit."""
    answered = min(updates, questions)
    answer = currency.answer(gap * rows, answers=answered, failing=failing * _DIRECTIONS)
    tolerance = currency.left(answer, answered)
    share, error = _split_scale(questions, answered, failing, currency, tolerance)
    if not error < _MAX_DESIGN_ROWS:
        raise NoUsefulGuarantee(math.inf)
    question = (2 + 1 / share) / currency.loss(tolerance / (answered + 1))
    while True:
        test = SparseVector(
            threshold_scale=additive_noise.round_scale_up(share * question),
            question_scale=additive_noise.round_scale_up(question),
            positives=answered + 1,
        )
        if admitted(EstimateChecker(test, answer, threshold=1)):
            break
        question *= 1 + _SCALE_MARGIN
    off = verdict_error_bound(test, questions=questions, failing=failing * (1 - _DIRECTIONS))
    # One grid step on either side: the estimate and a fractional count are rounded to whole rows.
    threshold = math.ceil(gap * rows) + off + 1
    return WeightsDesign(
        rows=rows,
        universe=universe,
        questions=questions,
        step=4 * (threshold - off - 1) / rows,
        checker=EstimateChecker(test, answer, threshold),
        within=(threshold + off) / rows,
        confidence=1 - failing,
    )


def _gap(potential: float, updates: int) -> float:
    """Return γ such that one more update than these would exceed the potential, at 2γ² each."""
    return math.sqrt(potential / (2 * (updates + 1))) * (1 + 1e-12)


def _split_scale(
    questions: int, updates: int, failing: float, currency: LossLimit, tolerance: float
) -> tuple[float, float]:
    """Return the threshold's scale as a share θ of the questions' scale, and the approximate error in rows.

    It is (2 + 1/θ)(ln(k/2β) + θ·ln(c+1) + ln Γ(1-θ))/ε: e^{τ*/b} is averaged over the largest of c + 1 thresholds.
    """
    if tolerance <= 0:
        return 0.5, math.inf
    asked, begun = math.log(questions / (2 * failing)), math.log(min(updates + 1, questions))

    def error(share: float) -> float:
        return (2 + 1 / share) * (asked + share * begun + math.lgamma(1 - share))

    share = minimize_unimodal(error, 0.05, 0.95, near=1e-3)
    return share, max(error(share), 1.0) / currency.loss(tolerance / (updates + 1))


# --- Guarantees of other mechanisms for the same questions: independent noise, and a synthetic table. ---


def laplace_noise(*, questions: int, epsilon: Exact) -> additive_noise.Laplace:
    """Return the noise of each of k counts for a total of pure ε: Lap(k/ε).

    Theorem: laplace-privacy
    """
    return additive_noise.Laplace(
        scale=validate_count(questions, argument="questions") / additive_noise.validate_noise_epsilon(epsilon)
    )


def gaussian_noise(
    *,
    questions: int,
    epsilon: Exact,
    delta: Exact,
    law: type[additive_noise.NormalNoise] = additive_noise.Gaussian,
) -> additive_noise.NormalNoise:
    """Return the noise of each of k counts for a total of (ε, δ): σ = √(k/2ρ) by zCDP, √k/μ by Gaussian privacy.

    Theorem: gaussian-rho, rounded-gaussian
    """
    loss, failing = additive_noise.validate_noise_epsilon(epsilon), validate_noise_delta(delta)
    paid = _normal_limit(loss, failing, law)
    each = float(paid.limit) * (2 if isinstance(paid, ZcdpLimit) else 1)
    return law(scale=additive_noise.round_scale_up(math.sqrt(validate_count(questions, argument="questions") / each)))


def laplace_guarantee(rows: int, *, questions: int, epsilon: Exact, confidence: float = 0.95) -> float:
    """Return the largest error of k Laplace counts as a share of the rows, about k·ln(k/β)/(nε).

    Theorem: laplace-accuracy
    """
    return laplace_noise(questions=questions, epsilon=epsilon).accuracy(confidence, answers=questions).within / rows


def gaussian_guarantee(  # noqa: PLR0913  the sides of the promise
    rows: int,
    *,
    questions: int,
    epsilon: Exact,
    delta: Exact,
    confidence: float = 0.95,
    law: type[additive_noise.NormalNoise] = additive_noise.Gaussian,
) -> float:
    """Return the largest error of k counts with normal noise as a share of the rows.

    Theorem: gaussian-accuracy, rounded-gaussian
    """
    noise = gaussian_noise(questions=questions, epsilon=epsilon, delta=delta, law=law)
    return noise.accuracy(confidence, answers=questions).within / rows
