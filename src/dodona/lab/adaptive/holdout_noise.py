"""Thresholdout with numbers: a sparse vector finds overfitting, and corrections carry fresh noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from dodona.lab.adaptive.averaged import averaged_gaussian, averaged_laplace, averaged_verdicts, largest_verdict
from dodona.lab.adaptive.grid import moved, rough
from dodona.lab.adaptive.holdout_design import HoldoutCase, HoldoutDesign, Method
from dodona.lab.adaptive.transfer import concentrated_transfer, pure_transfer
from dodona.privacy.additive_noise import Gaussian, Laplace, round_scale_up
from dodona.privacy.bounds import minimize_unimodal
from dodona.privacy.events import Event
from dodona.privacy.sparse_vector import SparseVector
from dodona.query.sensitivity import Sensitivity
from dodona.schema.schema import Neighbours

_LOSSES = (1e-5, 10.0)
_LOOKS = 24


def noise_design(case: HoldoutCase, within: float) -> HoldoutDesign | None:
    """Return the Thresholdout design for an error that tolerates the largest gap; None if the error is out of reach.

    With t the transfer bound, a training answer is within T + E[τ - ν | π] + t of the population, and a correction
    within E[Z | π] + t. Corrections get as much noise as the error allows; T takes what comparisons leave.

    Theorem: reusable-holdout
    """
    found = [design for law in (_CONCENTRATED, _PURE) if (design := _widest(case, within, law)) is not None]
    return max(found, key=lambda design: design.tolerates) if found else None


@dataclass(frozen=True, slots=True)
class _Currency:
    """How privacy is accounted for, and how the failure probability is split."""

    law: type[Gaussian | Laplace]
    transfer: float
    verdicts: float
    answers: float

    def gap(self, test: Event, answer: Event, case: HoldoutCase) -> float:
        """Return the transfer bound for all tests and corrections together.

        Theorem: reusable-holdout
        """
        times = case.overfits
        if self.law is Laplace:
            return pure_transfer(float(times * (_pure(test) + _pure(answer))))
        # The event of the test covers all instances.
        price = float(test.rho() + times * answer.rho())
        return concentrated_transfer(price * (1 + 1e-12), failing=case.failing * self.transfer)

    def unit(self, case: HoldoutCase) -> float:
        """Return the error of corrections for noise of scale 1."""
        often = case.failing * self.answers
        if self.law is Laplace:
            return averaged_laplace(scale=1.0, answers=case.overfits, failing=often)
        return averaged_gaussian(scale=1.0, answers=case.overfits, failing=often)


_CONCENTRATED = _Currency(Gaussian, 0.6, 0.2, 0.2)
_PURE = _Currency(Laplace, 0.0, 0.5, 0.5)


def _pure(event: Event) -> Fraction:
    assert event.epsilon is not None  # noqa: S101  narrows the type: Laplace noise has a pure price
    return event.epsilon


def _widest(case: HoldoutCase, within: float, currency: _Currency) -> HoldoutDesign | None:
    def refused(position: float) -> float:
        found = _at(case, within, currency, math.exp(position))
        return math.inf if found is None else -found.tolerates

    # No design fits at either end of the range, so a coarse search comes first.
    low, high = (math.log(each) for each in _LOSSES)
    step = (high - low) / _LOOKS
    start = min((low + index * step for index in range(_LOOKS + 1)), key=refused)
    if refused(start) == math.inf:
        return None
    return _at(case, within, currency, math.exp(minimize_unimodal(refused, start - step, start + step, near=1e-2)))


def _at(case: HoldoutCase, within: float, currency: _Currency, loss: float) -> HoldoutDesign | None:
    """Return the design whose tests each have this privacy loss; None if the error is out of reach."""
    test = _test(case, loss)
    if test is None:
        return None
    answer, gap = _settled(case, within, currency, test)
    if answer is None:
        return None
    threshold, question = float(test.threshold_scale) / case.whole, float(test.question_scale) / case.whole
    verdicts = averaged_verdicts(
        threshold=threshold,
        question=question,
        thresholds=case.overfits,
        questions=case.queries,
        failing=case.failing * currency.verdicts,
    )
    alarm = largest_verdict(
        threshold=threshold,
        question=question,
        thresholds=case.overfits,
        questions=case.queries,
        failing=case.failing,
    )
    # Discrete noise adds two steps; the query and its training answer are both rounded to the grid.
    room = math.floor((within - gap - verdicts - 2 * rough(case.steps)) * case.whole) - 2
    if room < 1:
        return None
    return HoldoutDesign(
        method=Method.NOISE,
        rows=case.rows,
        queries=case.queries,
        overfits=case.overfits,
        within=within,
        corrected=within,
        confidence=1 - case.failing,
        threshold=room,
        tolerates=(room - 3) / case.whole - alarm - 2 * rough(case.steps),
        resolution=case.steps,
        test=test,
        answer=answer,
    )


def _test(case: HoldoutCase, loss: float) -> SparseVector | None:
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


def _settled(
    case: HoldoutCase, within: float, currency: _Currency, test: SparseVector
) -> tuple[Gaussian | Laplace | None, float]:
    """Return the largest noise on corrections that keeps the error, and the transfer bound it gives."""
    instance = test.event(Sensitivity.scores(case.steps, Neighbours.REPLACE))
    if currency.law is Laplace:
        instance = _single(test).event(Sensitivity.scores(case.steps, Neighbours.REPLACE))
    gap, unit = 0.0, currency.unit(case)
    for _ in range(100):
        scale = ((within - gap - rough(case.steps)) * case.whole - 1) / unit * (1 - 1e-6)
        if not 1 <= scale <= 10**12:
            break
        answer = currency.law(scale=round_scale_up(scale))
        needed = currency.gap(instance, answer.event(moved(case.steps)), case)
        if needed <= gap:
            return answer, gap
        gap = needed * (1 + 1e-4)  # from below, to about the least that is enough
        if gap >= within:
            break
    return None, 1.0


def _single(test: SparseVector) -> SparseVector:
    """Return a single instance of the test."""
    return SparseVector(threshold_scale=test.threshold_scale, question_scale=test.question_scale, positives=1)
