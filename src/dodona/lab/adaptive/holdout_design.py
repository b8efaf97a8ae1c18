"""The design of a reusable holdout: its parameters and its guarantee, fixed before any row is read."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from functools import lru_cache

from dodona.lab.adaptive.averaged import averaged_gaussian, averaged_laplace, averaged_verdicts, largest_verdict
from dodona.lab.adaptive.certificate import validate_probability, validate_queries, validate_rows
from dodona.lab.adaptive.faults import UnreachableAccuracy
from dodona.lab.adaptive.grid import resolution, rounding_error, sum_sensitivity
from dodona.lab.adaptive.noiseless import log_sparse_transcripts, union_bound_within
from dodona.lab.adaptive.transfer import concentrated_transfer, pure_transfer
from dodona.numbers import minimize_unimodal
from dodona.privacy.accuracy import to_failure_probability
from dodona.privacy.additive_noise import Gaussian, Laplace, round_scale_up
from dodona.privacy.events import Event
from dodona.privacy.sparse_vector import SparseVector
from dodona.query.sensitivity import Sensitivity
from dodona.schema.schema import Neighbours

_WIDEST = 0.999


class HoldoutMethod(Enum):
    """How a holdout prevents overfitting to its rows."""

    ROUNDING = "rounding"
    """No noise: corrections are few and rounded, so that a union bound covers every query that may be asked."""
    NOISE = "noise"
    """Thresholdout: a sparse vector detects overfitting, and corrections carry fresh noise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldoutParameters:
    """The public parameters of a holdout."""

    rows: int
    queries: int
    overfits: int
    failing: float

    @property
    def steps(self) -> int:
        """Number of steps between 0 and 1."""
        return resolution(self.rows)

    @property
    def whole(self) -> int:
        """The largest sum over all rows, in steps."""
        return self.rows * self.steps


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldoutDesign:
    """All answers are simultaneously within `within` of the population at `confidence`."""

    method: HoldoutMethod
    rows: int
    queries: int
    overfits: int
    """Number of queries answered from the holdout; after the last one it is closed."""
    within: float
    corrected: float
    """The error of corrections, which may be smaller than `within`."""
    confidence: float
    threshold: int
    """In steps of the sum: the training answer is returned unless the holdout's is, or seems, this far from it."""
    tolerates: float
    """Gaps up to this size never count as overfitting; with noise, at the confidence."""
    resolution: int
    levels: int | None = None
    """Number of possible corrections, for the design that rounds."""
    test: SparseVector | None = None
    answer: Gaussian | Laplace | None = None

    def __str__(self) -> str:
        return (
            f"±{self.within:.4g} for {self.queries} questions of which {self.overfits} overfit at "
            f"{self.confidence:.4g}, by {self.method.value}"
        )


Designer = Callable[[HoldoutParameters, float], HoldoutDesign | None]
"""Returns the design for an error that tolerates the largest gap; None if the error is out of reach."""


@lru_cache(maxsize=64)
def choose_design(  # noqa: PLR0913  all that is fixed beforehand
    designers: tuple[Designer, ...],
    *,
    rows: int,
    training_rows: int,
    queries: int,
    overfits: int,
    within: float | None,
    confidence: float,
) -> HoldoutDesign:
    """Return the design that tolerates most for an error; without one, the least error that tolerates honest queries.

    Queries that were fixed beforehand differ by at most √(ln(2k/β)·(1/n + 1/m)/2) between the two samples.

    Theorem: reusable-holdout
    """
    case = HoldoutParameters(
        rows=validate_rows(rows),
        queries=validate_queries(queries),
        overfits=validate_queries(overfits),
        failing=to_failure_probability(confidence),
    )
    honest = math.sqrt(
        math.log(2 * case.queries / case.failing) / 2 * (1 / case.rows + 1 / validate_rows(training_rows))
    )
    if within is None:
        design = _nearest(designers, case, honest)
    else:
        wanted = validate_probability(within, argument="within")
        design = _best(designers, case, wanted)
    if design is not None:
        return design
    nearest = None if within is None else _nearest(designers, case, honest)
    raise UnreachableAccuracy(
        rows=case.rows,
        asked=f"{case.queries} questions and correct {case.overfits}",
        within=_WIDEST if within is None else within,
        best="no design promises anything" if nearest is None else f"{nearest.within:.4g} can be promised",
        instead="Hold out more rows, or declare fewer questions or overfits.",
    )


def _best(designers: tuple[Designer, ...], case: HoldoutParameters, within: float) -> HoldoutDesign | None:
    """Return the design that tolerates the largest gap; None if none tolerates any."""
    designs = [design for designer in designers if (design := designer(case, within)) is not None]
    kept = [design for design in designs if design.tolerates > 0]
    return max(kept, key=lambda design: design.tolerates) if kept else None


def _nearest(designers: tuple[Designer, ...], case: HoldoutParameters, gap: float) -> HoldoutDesign | None:
    """Return the design with the least error that tolerates a gap; None if there is none."""
    nearest: HoldoutDesign | None = None
    for designer in designers:
        low, high = gap, _WIDEST if nearest is None else nearest.within
        tried = designer(case, high)
        while tried is not None and tried.tolerates >= gap:
            nearest, high = tried, tried.within
            while high - low > 1e-3 * high:
                middle = (low + high) / 2
                tried = designer(case, middle)
                if tried is not None and tried.tolerates >= gap:
                    nearest, high = tried, middle
                    break
                low = middle
            else:
                break
    return nearest


_FINE = 10**4


def rounding_design(case: HoldoutParameters, within: float) -> HoldoutDesign | None:
    """Return the SparseValidate design for an error that tolerates the largest gap; None if the error is out of reach.

    With h the sampling error of every query that may ever be asked, a training answer is within T + h of the population
    and a correction on L levels within 1/(2L) + h. So T = τ - h, and L is the least number with 1/(2L) ≤ T.

    Theorem: reusable-holdout
    """
    levels = _FINE if case.overfits == 1 else 1  # nothing follows the only correction, so it may be fine
    while True:
        ways = log_sparse_transcripts(case.queries, positives=case.overfits, levels=levels)
        sampled = union_bound_within(case.rows, ways=ways, failing=case.failing)
        # The query and its values on the training rows are both rounded to the grid.
        room = within - sampled - 2 * rounding_error(case.steps)
        if room <= 0.5 / _FINE:
            return None
        needed = math.ceil(0.5 / room)
        if needed <= levels:
            break
        levels = needed
    threshold = math.floor(room * case.whole)
    return HoldoutDesign(
        method=HoldoutMethod.ROUNDING,
        rows=case.rows,
        queries=case.queries,
        overfits=case.overfits,
        within=within,
        corrected=min(within, sampled + 0.5 / levels + rounding_error(case.steps)),
        confidence=1 - case.failing,
        threshold=threshold,
        tolerates=(threshold - 1) / case.whole - 2 * rounding_error(case.steps),
        resolution=case.steps,
        levels=levels,
    )


_LOSSES = (1e-5, 10.0)
_LOOKS = 24


def noise_design(case: HoldoutParameters, within: float) -> HoldoutDesign | None:
    """Return the Thresholdout design for an error that tolerates the largest gap; None if the error is out of reach.

    With t the transfer bound, a training answer is within T + E[τ - ν | π] + t of the population, and a correction
    within E[Z | π] + t. Corrections get as much noise as the error allows; T takes what comparisons leave.

    Theorem: reusable-holdout
    """
    designs = [
        design for law in (_CONCENTRATED, _PURE) if (design := _best_noise_design(case, within, law)) is not None
    ]
    return max(designs, key=lambda design: design.tolerates) if designs else None


@dataclass(frozen=True, slots=True)
class _Accounting:
    """How privacy is accounted for, and how the failure probability is split."""

    law: type[Gaussian | Laplace]
    transfer: float
    verdicts: float
    answers: float

    def gap(self, test: Event, answer: Event, case: HoldoutParameters) -> float:
        """Return the transfer bound for all tests and corrections together.

        Theorem: reusable-holdout
        """
        times = case.overfits
        if self.law is Laplace:
            return pure_transfer(float(times * (_pure(test) + _pure(answer))))
        # The event of the test covers all instances.
        price = float(test.rho() + times * answer.rho())
        return concentrated_transfer(price * (1 + 1e-12), failing=case.failing * self.transfer)

    def unit(self, case: HoldoutParameters) -> float:
        """Return the error of corrections for noise of scale 1."""
        often = case.failing * self.answers
        if self.law is Laplace:
            return averaged_laplace(scale=1.0, answers=case.overfits, failing=often)
        return averaged_gaussian(scale=1.0, answers=case.overfits, failing=often)


_CONCENTRATED = _Accounting(Gaussian, 0.6, 0.2, 0.2)
_PURE = _Accounting(Laplace, 0.0, 0.5, 0.5)


def _pure(event: Event) -> Fraction:
    assert event.epsilon is not None  # noqa: S101  narrows the type: Laplace noise has a pure price
    return event.epsilon


def _best_noise_design(case: HoldoutParameters, within: float, accounting: _Accounting) -> HoldoutDesign | None:
    def objective(position: float) -> float:
        design = _design_at(case, within, accounting, math.exp(position))
        return math.inf if design is None else -design.tolerates

    # No design fits at either end of the range, so a coarse search comes first.
    low, high = (math.log(each) for each in _LOSSES)
    step = (high - low) / _LOOKS
    start = min((low + index * step for index in range(_LOOKS + 1)), key=objective)
    if objective(start) == math.inf:
        return None
    return _design_at(
        case, within, accounting, math.exp(minimize_unimodal(objective, start - step, start + step, near=1e-2))
    )


def _design_at(case: HoldoutParameters, within: float, accounting: _Accounting, loss: float) -> HoldoutDesign | None:
    """Return the design whose tests each have this privacy loss; None if the error is out of reach."""
    test = _test(case, loss)
    if test is None:
        return None
    answer, gap = _largest_answer_noise(case, within, accounting, test)
    if answer is None:
        return None
    threshold, question = float(test.threshold_scale) / case.whole, float(test.question_scale) / case.whole
    verdicts = averaged_verdicts(
        threshold=threshold,
        question=question,
        thresholds=case.overfits,
        questions=case.queries,
        failing=case.failing * accounting.verdicts,
    )
    alarm = largest_verdict(
        threshold=threshold,
        question=question,
        thresholds=case.overfits,
        questions=case.queries,
        failing=case.failing,
    )
    # Discrete noise adds two steps; the query and its training answer are both rounded to the grid.
    room = math.floor((within - gap - verdicts - 2 * rounding_error(case.steps)) * case.whole) - 2
    if room < 1:
        return None
    return HoldoutDesign(
        method=HoldoutMethod.NOISE,
        rows=case.rows,
        queries=case.queries,
        overfits=case.overfits,
        within=within,
        corrected=within,
        confidence=1 - case.failing,
        threshold=room,
        tolerates=(room - 3) / case.whole - alarm - 2 * rounding_error(case.steps),
        resolution=case.steps,
        test=test,
        answer=answer,
    )


def _test(case: HoldoutParameters, loss: float) -> SparseVector | None:
    """Return the sparse vector whose instances have this privacy loss; None if its noise cannot be drawn.

    The sum of b₁·ln(c/β) and b₂·ln(k/β) is least at ε₁ : ε₂ = √B : √(2A), where ε = 1/b₁ + 2/b₂.
    """
    first = math.sqrt(math.log(case.overfits / case.failing))
    second = math.sqrt(2 * math.log(case.queries / case.failing))
    threshold = case.steps * (first + second) / (first * loss)
    question = 2 * case.steps * (first + second) / (second * loss)
    if max(threshold, question) > 10**12:
        return None
    return SparseVector(
        threshold_scale=round_scale_up(threshold),
        question_scale=round_scale_up(question),
        positives=case.overfits,
    )


def _largest_answer_noise(
    case: HoldoutParameters, within: float, accounting: _Accounting, test: SparseVector
) -> tuple[Gaussian | Laplace | None, float]:
    """Return the largest noise on corrections that keeps the error, and the transfer bound it gives."""
    instance = test.event(Sensitivity.scores(case.steps, Neighbours.REPLACE))
    if accounting.law is Laplace:
        instance = _one_instance(test).event(Sensitivity.scores(case.steps, Neighbours.REPLACE))
    gap, unit = 0.0, accounting.unit(case)
    for _ in range(100):
        scale = ((within - gap - rounding_error(case.steps)) * case.whole - 1) / unit * (1 - 1e-6)
        if not 1 <= scale <= 10**12:
            break
        answer = accounting.law(scale=round_scale_up(scale))
        needed = accounting.gap(instance, answer.event(sum_sensitivity(case.steps)), case)
        if needed <= gap:
            return answer, gap
        gap = needed * (1 + 1e-4)  # from below, to about the least that is enough
        if gap >= within:
            break
    return None, 1.0


def _one_instance(test: SparseVector) -> SparseVector:
    """Return a single instance of the test."""
    return SparseVector(threshold_scale=test.threshold_scale, question_scale=test.question_scale, positives=1)
