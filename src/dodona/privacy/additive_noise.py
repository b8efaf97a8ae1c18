"""The discrete Laplace, discrete Gaussian and rounded normal mechanisms: scales, prices and accuracy.

A mechanism is built from a privacy loss or from an accuracy target, and states its event and error. Nothing here
draws a number or sees data.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import ClassVar, Self

import numpy as np

from dodona.errors import InvalidArgument
from dodona.numbers import (
    Exact,
    float_above,
    format_fraction,
    largest_number,
    minimize_unimodal,
    smallest_number,
    to_fraction,
)
from dodona.privacy import accuracy
from dodona.privacy.accountants import Accountant
from dodona.privacy.accuracy import Accuracy, to_failure_probability, validate_count
from dodona.privacy.budget import Budget
from dodona.privacy.conversion import validate_noise_delta
from dodona.privacy.events import GaussianEvent, LaplaceEvent, RoundedGaussianEvent
from dodona.privacy.gaussian_privacy import gaussian_limit
from dodona.query.sensitivity import Sensitivity

# --- The scale of integer noise, in units of the answer: an exact number in the range that can be sampled exactly. ---


SMALLEST_SCALE = Fraction(1, 1000)
LARGEST_SCALE = Fraction(10**12)
NEGLIGIBLE_NOISE = 10**20
"""Noise of this magnitude has probability zero in double precision."""
SMALLEST_EPSILON = Fraction(1, 10**12)
LARGEST_EPSILON = Fraction(10**4)

_DIGITS = 7


def validate_scale(value: Exact) -> Fraction:
    """Return the scale as a fraction from 1/1000 to 10^12.

    >>> validate_scale(0.1)
    Fraction(1, 10)
    """
    if type(value) is Fraction and SMALLEST_SCALE <= value <= LARGEST_SCALE:
        return value
    return to_fraction(value, argument="scale", lower=SMALLEST_SCALE, upper=LARGEST_SCALE)


def validate_noise_epsilon(value: Exact) -> Fraction:
    """Return a privacy loss as a fraction from 10^-12 to 10^4."""
    return to_fraction(value, argument="epsilon", lower=SMALLEST_EPSILON, upper=LARGEST_EPSILON)


def round_scale_down(value: float) -> Fraction:
    """Return the scale to seven digits, rounded down: less noise than requested, so the accuracy target still holds.

    >>> round_scale_down(1 / 3)
    Fraction(3333333, 10000000)
    """
    return _rounded(value, ROUND_FLOOR)


def round_scale_up(value: float) -> Fraction:
    """Return the scale to seven digits, rounded up: more noise than requested, so the privacy guarantee still holds."""
    return _rounded(value, ROUND_CEILING)


def _rounded(value: float, rounding: str) -> Fraction:
    if not SMALLEST_SCALE <= value <= LARGEST_SCALE or math.isnan(value):
        largest = format_fraction(LARGEST_SCALE)
        accepted = f"this asks for noise of scale {value:.3g}, and noise is drawn from {SMALLEST_SCALE} to {largest}"
        raise InvalidArgument("scale", value, accepted)
    return Fraction(Context(prec=_DIGITS, rounding=rounding).create_decimal(Decimal(value)))


# --- The discrete Laplace mechanism: integer noise with P(x) ∝ exp(-|x|/scale), on whole numbers or on a public grid.


@dataclass(frozen=True, slots=True, init=False)
class Laplace:
    """Independent discrete Laplace noise with an exact scale on each answer, in units of the answer.

    It is ε-differentially private with ε = l1 sensitivity / scale.

    Theorem: laplace-privacy
    """

    theorem: ClassVar[str] = "laplace-privacy"
    scale: Fraction

    def __init__(self, *, scale: Exact) -> None:
        """Validate the scale: an exact number from 1/1000 to 10^12."""
        object.__setattr__(self, "scale", validate_scale(scale))

    @classmethod
    def for_privacy(cls, epsilon: Exact, sensitivity: Sensitivity) -> Self:
        """Return the mechanism that costs exactly ε.

        >>> from dodona.schema.schema import Neighbours
        >>> Laplace.for_privacy("1/2", Sensitivity.histogram(Neighbours.REPLACE)).scale
        Fraction(4, 1)
        """
        return cls(scale=sensitivity.l1 / validate_noise_epsilon(epsilon))

    @classmethod
    def for_accuracy(cls, target: Accuracy, *, answers: int = 1) -> Self:
        """Return the mechanism with the largest scale (to seven digits) that meets the target for all answers at once.

        >>> mechanism = Laplace.for_accuracy(Accuracy(within=100, confidence=0.95))
        >>> mechanism.accuracy(0.95).within
        100.0
        """
        within, failing = accuracy.validate_table_target(target).within, to_failure_probability(target.confidence)
        return cls.widest(within, failing, answers=validate_count(answers, argument="answers"))

    @classmethod
    def widest(cls, within: float, failing: float, *, answers: int = 1) -> Self:
        """Return the same from a tolerance and a failure probability that were validated before."""
        steps = math.floor(within) + 1
        tail = _per_answer(failing, answers)

        def met(scale: float) -> bool:  # the tail beyond a fixed distance grows with the scale
            return _log_tail(steps, scale) <= math.log(tail)

        return cls(scale=round_scale_down(_largest_scale(met, _guess_scale(steps, tail), near=1e-8)))

    def event(self, sensitivity: Sensitivity) -> LaplaceEvent:
        """Return the event of one release."""
        return LaplaceEvent(sensitivity.l1, self.scale, sensitivity.neighbours)

    def accuracy(self, confidence: float = 0.95, *, answers: int = 1, sample: int | None = None) -> Accuracy:
        """Return the exact quantile of the largest error over all answers, and the expected error of one.

        With `sample`, the answers are counts over that many independent rows and are compared with the population.

        Theorem: laplace-accuracy
        """
        scale = float(self.scale)
        expected = 1 / math.sinh(1 / scale) if scale > 1 / 700 else 0.0
        return _accuracy(self, expected, confidence, answers, sample)

    def width(self, failing: float, answers: int = 1) -> float:
        """Return the least integer that no error of so many answers exceeds except with a failure probability.

        Theorem: laplace-accuracy
        """
        scale, tail = float(self.scale), math.log(_per_answer(failing, answers))
        steps = max(1, math.ceil(scale * (math.log(2 / (1 + math.exp(-1 / scale))) - tail)))
        while _log_tail(steps, scale) > tail:
            steps += 1
        while steps > 1 and _log_tail(steps - 1, scale) <= tail:
            steps -= 1
        return float(steps - 1)

    def probability(self, noise: int) -> float:
        """Return the probability of this noise: tanh(1/(2·scale))·exp(-|noise|/scale).

        >>> Laplace(scale="1/2").probability(0)
        0.7615941559557649
        """
        scale = float(self.scale)
        return math.tanh(0.5 / scale) * math.exp(-min(abs(noise), NEGLIGIBLE_NOISE) / scale)


def _largest_scale(met: Callable[[float], bool], guess: float, *, near: float) -> float:
    """Return approximately the largest scale that meets a target: just below the guess, or else by a search."""
    for distance in (0.4 * near, 1e-3):
        low, high = guess * (1 - distance), guess * (1 + distance)
        if met(low) and not met(high):
            return low if distance < near else largest_number(met, low, high, near=near, geometric=True)
    return largest_number(met, 1e-4, 1e13, near=near, geometric=True)  # at a few steps guesses are unreliable


def _log_tail(steps: int, scale: float) -> float:
    """Return ln P(|noise| ≥ steps) = ln 2 - steps/scale - ln(1 + e^(-1/scale)), for steps ≥ 1."""
    return math.log(2) - steps / scale - math.log1p(math.exp(-1 / scale))


def _guess_scale(steps: int, tail: float) -> float:
    """Return the approximate scale at which the tail beyond `steps` equals `tail`, by fixed-point iteration."""
    wanted = math.log(2 / tail)
    scale = steps / wanted
    for _ in range(40):
        before, scale = scale, steps / (wanted - math.log1p(math.exp(-1 / scale)))
        if abs(scale - before) <= 1e-12 * scale:
            break
    return scale


def _per_answer(failing: float, answers: int) -> float:
    """Return the failure probability of each independent answer, given `failing` for all of them together."""
    return -math.expm1(math.log1p(-failing) / answers)


# --- δ(ε) of Gaussian noise: the textbook calibrations, and the exact sum for the discrete law that is drawn. ---


_LARGEST_DELTA_SCALE = 10.0**5  # largest scale at which δ is summed term by term
_UP = 1 + 1e-9  # covers the rounding of sums of doubles


class Calibration(Enum):
    """A formula for σ of continuous Gaussian noise; used only as the starting point of the discrete search."""

    CLASSICAL = "classical"
    """σ = Δ₂√(2 ln(1.25/δ))/ε, for ε < 1 (theorem 3.22)."""
    ANALYTIC = "analytic"
    """The least σ for continuous noise (Balle and Wang 2018), for every ε."""


def calibrate_sigma(epsilon: float, delta: float, sensitivity: Sensitivity, calibration: Calibration) -> float:
    """Return σ by the calibration.

    Theorem: gaussian-delta
    """
    distance = math.sqrt(sensitivity.l2_squared)
    if calibration is Calibration.CLASSICAL:
        if epsilon >= 1:
            accepted = "the classical formula is proved below 1; use Calibration.ANALYTIC"
            raise InvalidArgument("epsilon", epsilon, accepted)
        return distance * math.sqrt(2 * math.log(1.25 / delta)) / epsilon

    def enough(sigma: float) -> bool:
        return continuous_gaussian_delta(epsilon, 1 / sigma) <= delta

    return distance * smallest_number(enough, 1e-9, 1e13, near=1e-12, geometric=True)


def continuous_gaussian_delta(epsilon: float, mu: float) -> float:
    """Return δ(ε) = Φ(μ/2 - ε/μ) - e^ε·Φ(-μ/2 - ε/μ) of continuous Gaussian noise, μ = Δ₂/σ."""
    below = _normal(-mu / 2 - epsilon / mu)
    # If the tail underflows, the second term is dropped. It is smaller than the first, and dropping it only raises δ.
    return _normal(mu / 2 - epsilon / mu) - (math.exp(epsilon + math.log(below)) if below > 0 else 0.0)


def _normal(quantile: float) -> float:
    """Return Φ, computed through erfc to keep precision in the lower tail."""
    return math.erfc(-quantile / math.sqrt(2)) / 2


def discrete_gaussian_delta(epsilon: float, scale: float, sensitivity: Sensitivity) -> float:
    """Return δ(ε) of discrete Gaussian noise for the worst neighbours at this sensitivity, rounded up.

    Theorem: gaussian-delta
    """
    bound = delta_from_rho(epsilon, sensitivity.l2_squared / (2 * scale**2))
    if sensitivity.l1 == sensitivity.linf:  # the worst case: one answer moves by linf
        return min(bound, _one_answer(epsilon, scale, sensitivity.linf))
    two = sensitivity.linf == 1 and sensitivity.l2_squared == 2  # noqa: PLR2004  a histogram: two cells move by one
    if two and scale <= _LARGEST_DELTA_SCALE:
        return min(bound, max(_one_answer(epsilon, scale, 1), _two_cells(epsilon, scale)))
    return bound


def _one_answer(epsilon: float, scale: float, distance: int) -> float:
    """Return Σ max(0, P(x) - e^ε·P(x + d)); δ does not decrease with the shift d, as the law is log-concave."""
    if scale > _LARGEST_DELTA_SCALE:
        # A midpoint sum of the density has an error of at most ∫|f''|/24 < 0.0404/σ² on each side.
        return continuous_gaussian_delta(epsilon, distance / scale) * _UP + (1 + math.exp(epsilon)) * 0.0404 / scale**2
    edge = math.ceil(40 * scale) + 1
    noise = np.arange(-edge, edge + 1, dtype=np.float64)
    loss = distance * (distance + 2 * noise) / (2 * scale**2)
    return _hockey_stick(epsilon, np.exp(-((noise / scale) ** 2) / 2) / gaussian_normalizer(scale), loss)


def _two_cells(epsilon: float, scale: float) -> float:
    """Return δ(ε) for two cells that move by one: the loss depends on the sum of two draws, which has a closed form.

    P(s) = e^{-s²/4σ²}·Σ_x e^{-(x - s/2)²/σ²} / total², where the sum depends only on the parity of s.
    """
    edge = math.ceil(60 * scale) + 2
    sums = np.arange(-edge, edge + 1, dtype=np.float64)
    grid = np.arange(-edge, edge + 1, dtype=np.float64)
    even, odd = (math.fsum(np.exp(-(((grid + half) / scale) ** 2)).tolist()) for half in (0.0, 0.5))
    weight = np.exp(-((sums / (2 * scale)) ** 2)) * np.where(sums % 2 == 0, even, odd) / gaussian_normalizer(scale) ** 2
    return _hockey_stick(epsilon, weight, (2 + 2 * sums) / (2 * scale**2))


def _hockey_stick(epsilon: float, weight: np.ndarray, loss: np.ndarray) -> float:
    """Return E[(1 - e^{ε - loss})₊], rounded up."""
    telling = loss > epsilon
    return float(np.sum(weight[telling] * -np.expm1(epsilon - loss[telling]))) * _UP


def delta_from_rho(epsilon: float, rho: float) -> float:
    """Return δ(ε) of any ρ-zCDP mechanism: the minimum over orders of e^{(α-1)(αρ-ε)}·(1 - 1/α)^α/(α - 1).

    Theorem: gaussian-delta
    """

    def logarithm(position: float) -> float:  # as a function of ln(α - 1), in which the exponent is convex
        order = 1 + math.exp(position)
        return (order - 1) * (order * rho - epsilon) + order * math.log1p(-1 / order) - math.log(order - 1)

    best = minimize_unimodal(logarithm, -20.0, 40.0, near=1e-9)  # far finer than needed: the optimum is flat
    return min(1.0, math.exp(logarithm(best)) * _UP)


def gaussian_normalizer(scale: float) -> float:
    """Return Σ exp(-x²/(2·scale²)) over the integers: directly, or by Poisson summation if that has fewer terms."""
    if scale < 1:
        return 1 + 2 * math.fsum(math.exp(-((x / scale) ** 2) / 2) for x in range(1, 40))
    dual = 2 * math.fsum(math.exp(-2 * (math.pi * scale * x) ** 2) for x in range(1, 4))
    return scale * math.sqrt(2 * math.pi) * (1 + dual)


# --- The discrete Gaussian mechanism: integer noise with P(x) ∝ exp(-x²/(2·scale²)). ---


_LARGEST_TAIL_SCALE = 1000.0  # tails are summed up to this scale; beyond, a bound is off by less than a step


@dataclass(frozen=True, slots=True, init=False)
class Gaussian:
    """Independent discrete Gaussian noise with an exact scale σ on each answer, in units of the answer.

    Theorem: gaussian-rho
    """

    theorem: ClassVar[str] = "gaussian-rho"
    scale: Fraction

    def __init__(self, *, scale: Exact) -> None:
        """Validate the scale: an exact number from 1/1000 to 10^12."""
        object.__setattr__(self, "scale", validate_scale(scale))

    @classmethod
    def for_privacy(
        cls, epsilon: Exact, delta: Exact, sensitivity: Sensitivity, *, calibration: Calibration = Calibration.ANALYTIC
    ) -> Self:
        """Return the mechanism for (ε, δ): the calibration's σ, increased until the discrete law satisfies δ(ε) ≤ δ.

        Theorem: gaussian-delta
        """
        loss, failing = float(validate_noise_epsilon(epsilon)), float(validate_noise_delta(delta))
        scale = calibrate_sigma(loss, failing, sensitivity, calibration)
        mechanism = cls(scale=round_scale_up(scale))
        while mechanism.delta(epsilon, sensitivity) > failing:
            scale *= 1 + 1e-4
            mechanism = cls(scale=round_scale_up(scale))
        return mechanism

    @classmethod
    def for_accuracy(cls, target: Accuracy, *, answers: int = 1) -> Self:
        """Return the mechanism with the largest scale (to about five digits) that meets the target for all answers."""
        within, failing = accuracy.validate_table_target(target).within, to_failure_probability(target.confidence)
        return cls.widest(within, failing, answers=validate_count(answers, argument="answers"))

    @classmethod
    def widest(cls, within: float, failing: float, *, answers: int = 1) -> Self:
        """Return the same from a tolerance and a failure probability that were validated before."""

        def met(scale: float) -> bool:
            return _quantile(scale, failing, answers) <= within

        return cls(
            scale=round_scale_down(_largest_scale(met, _guess_normal_scale(within, failing, answers), near=1e-5))
        )

    def event(self, sensitivity: Sensitivity) -> GaussianEvent:
        """Return the event of one release."""
        return GaussianEvent(sensitivity.l2_squared, self.scale**2, sensitivity.neighbours)

    def delta(self, epsilon: Exact, sensitivity: Sensitivity) -> float:
        """Return δ(ε) of the discrete law: exact for one answer or a histogram, through zCDP for other vectors."""
        return discrete_gaussian_delta(float(validate_noise_epsilon(epsilon)), float(self.scale), sensitivity)

    def accuracy(self, confidence: float = 0.95, *, answers: int = 1, sample: int | None = None) -> Accuracy:
        """Return a quantile of the largest error of all answers, from the discrete tail, and the expected error of one.

        With `sample`, the answers are counts over that many independent rows and are compared with the population.

        Theorem: gaussian-accuracy
        """
        return _accuracy(self, _expected(float(self.scale)), confidence, answers, sample)

    def width(self, failing: float, answers: int = 1) -> float:
        """Return an integer that no error of so many answers exceeds except with a failure probability.

        Theorem: gaussian-accuracy
        """
        return _quantile(float(self.scale), failing, answers)

    def probability(self, noise: int) -> float:
        """Return the probability of this noise.

        >>> round(Gaussian(scale=1).probability(0), 7)
        0.3989423
        """
        scale = float(self.scale)
        return math.exp(-((min(abs(noise), NEGLIGIBLE_NOISE) / scale) ** 2) / 2) / gaussian_normalizer(scale)


def _guess_normal_scale(room: float, failing: float, answers: int) -> float:
    """Return the scale whose error equals the tolerance under the normal law, allowing half a step for the grid."""
    return (math.floor(room) + 0.5) / -NormalDist().inv_cdf(_per_answer(failing, answers) / 2)


@lru_cache(maxsize=1 << 12)
def _quantile(scale: float, failing: float, answers: int) -> float:
    """Return the least m with P(|x| > m) ≤ the failure probability per answer, or a bound at most one step larger."""
    share = _per_answer(failing, answers)
    if scale > _LARGEST_TAIL_SCALE:
        # Σ_{x>m} e^{-x²/2σ²} ≤ ∫_m^∞ and the total is at least σ√(2π), so P(|x| > m) ≤ P(|N| > m/σ).
        return math.ceil(-NormalDist().inv_cdf(share / 2) * scale)
    steps = np.arange(math.ceil(40 * scale) + 1, 0, -1)
    beyond = np.cumsum(2 * np.exp(-((steps / scale) ** 2) / 2) / gaussian_normalizer(scale))  # P(|x| ≥ step)
    return float(steps.size - np.searchsorted(beyond, share, side="right"))


def _expected(scale: float) -> float:
    """Return an upper bound on E|x|: σ√(2/π) plus the contribution of the grid."""
    if scale > _LARGEST_TAIL_SCALE:
        return scale * math.sqrt(2 / math.pi)
    steps = np.arange(1, math.ceil(40 * scale) + 2)
    return float(2 * (steps * np.exp(-((steps / scale) ** 2) / 2)).sum() / gaussian_normalizer(scale))


# --- The rounded normal mechanism: integer noise round(scale · Z), Z standard normal. ---


_ROOT = math.sqrt(2)
_LARGEST_MEAN_SCALE = 32.0  # the mean of |x| is summed up to this scale; beyond, a bound is off by a part in 20,000
_LARGEST_DIFFERENCE_SCALE = 1e4  # up to this scale a probability is a difference of tails; beyond, a density


@dataclass(frozen=True, slots=True, init=False)
class RoundedGaussian:
    """Independent normal noise with an exact standard deviation on each answer, rounded to integers.

    Answers are integers, so a noisy answer is the rounded answer of the Gaussian mechanism.

    Theorem: rounded-gaussian
    """

    theorem: ClassVar[str] = "rounded-gaussian"
    scale: Fraction

    def __init__(self, *, scale: Exact) -> None:
        """Validate the scale: an exact number from 1/1000 to 10^12."""
        object.__setattr__(self, "scale", validate_scale(scale))

    @classmethod
    def for_privacy(cls, epsilon: Exact, delta: Exact, sensitivity: Sensitivity) -> Self:
        """Return the mechanism for (ε, δ): σ = Δ₂/μ for the largest μ that implies it, rounded up.

        Theorem: rounded-gaussian
        """
        loss, failing = validate_noise_epsilon(epsilon), validate_noise_delta(delta)
        squared = sensitivity.l2_squared / Fraction(gaussian_limit(loss, failing))
        return cls(scale=round_scale_up(math.sqrt(float_above(squared)) * (1 + 2.0**-50)))

    @classmethod
    def for_accuracy(cls, target: Accuracy, *, answers: int = 1) -> Self:
        """Return the mechanism with the largest scale (to seven digits) that meets the target for all answers at once.

        >>> RoundedGaussian.for_accuracy(Accuracy(within=100, confidence=0.95)).accuracy(0.95).within
        100.0
        """
        within, failing = accuracy.validate_table_target(target).within, to_failure_probability(target.confidence)
        return cls.widest(within, failing, answers=validate_count(answers, argument="answers"))

    @classmethod
    def widest(cls, within: float, failing: float, *, answers: int = 1) -> Self:
        """Return the same from a tolerance and a failure probability that were validated before."""
        steps, share = math.floor(within) + 1, _per_answer(failing, answers)
        scale = (steps - 0.5) / -NormalDist().inv_cdf(share / 2)
        while _rounded_tail(steps, scale) > share:  # by a rounding error of the quantile
            scale *= 1 - 1e-12
        return cls(scale=round_scale_down(scale))

    def event(self, sensitivity: Sensitivity) -> RoundedGaussianEvent:
        """Return the event of one release."""
        return RoundedGaussianEvent(sensitivity.l2_squared / self.scale**2, sensitivity.neighbours)

    def delta(self, epsilon: Exact, sensitivity: Sensitivity) -> float:
        """Return δ(ε) of the normal law before rounding, which rounding does not increase."""
        ratio = math.sqrt(sensitivity.l2_squared) / float(self.scale)
        return continuous_gaussian_delta(float(validate_noise_epsilon(epsilon)), ratio)

    def accuracy(self, confidence: float = 0.95, *, answers: int = 1, sample: int | None = None) -> Accuracy:
        """Return the quantile of the largest error over all answers, and a bound on the expected error of one.

        With `sample`, the answers are counts over that many independent rows and are compared with the population.

        Theorem: rounded-gaussian
        """
        return _accuracy(self, _rounded_mean(float(self.scale)), confidence, answers, sample)

    def width(self, failing: float, answers: int = 1) -> float:
        """Return the least integer that no error of so many answers exceeds except with a failure probability.

        Theorem: rounded-gaussian
        """
        scale, share = float(self.scale), _per_answer(failing, answers)
        steps = max(1, math.ceil(0.5 - NormalDist().inv_cdf(share / 2) * scale))
        while _rounded_tail(steps, scale) > share:
            steps += 1
        while steps > 1 and _rounded_tail(steps - 1, scale) <= share:
            steps -= 1
        return float(steps - 1)

    def probability(self, noise: int) -> float:
        """Return the probability of this noise.

        >>> round(RoundedGaussian(scale=1).probability(0), 7)
        0.3829249
        """
        scale, steps = float(self.scale), min(abs(noise), NEGLIGIBLE_NOISE)
        if scale > _LARGEST_DIFFERENCE_SCALE:
            return math.exp(-((steps / scale) ** 2) / 2) / (scale * math.sqrt(2 * math.pi))
        if steps == 0:
            return math.erf(0.5 / (scale * _ROOT))
        return (_rounded_tail(steps, scale) - _rounded_tail(steps + 1, scale)) / 2


def _rounded_tail(steps: int, scale: float) -> float:
    """Return P(|noise| ≥ steps) = 2Φ(-(steps - 1/2)/scale), for steps ≥ 1."""
    return math.erfc((steps - 0.5) / (scale * _ROOT))


def _rounded_mean(scale: float) -> float:
    """Return E|x| = Σ P(|x| ≥ k), or a bound: tails are convex, so their sum at midpoints is below σ√(2/π)."""
    if scale > _LARGEST_MEAN_SCALE:
        return scale * math.sqrt(2 / math.pi)
    return math.fsum(_rounded_tail(steps, scale) for steps in range(1, math.ceil(10 * scale) + 2))


Noise = Laplace | Gaussian | RoundedGaussian
"""Integer noise on a value."""
NormalNoise = Gaussian | RoundedGaussian
NoiseType = type[Noise]
NOISE_TYPES: dict[str, NoiseType] = {law.__name__: law for law in (Laplace, Gaussian, RoundedGaussian)}


@lru_cache(maxsize=1 << 13)
def widest_within(law: str, within: float, failing: float) -> Noise:
    """Return the widest noise of a law whose error is within a tolerance except with a failure probability; cached."""
    return NOISE_TYPES[law].widest(within, failing)


@lru_cache(maxsize=1 << 13)
def noise_width(noise: Noise, failing: float, answers: int = 1) -> int:
    """Return an integer that the error of no answer exceeds except with a failure probability: cached `width`."""
    return int(noise.width(failing, answers))


def _accuracy(noise: Noise, expected: float, confidence: float, answers: int, sample: int | None) -> Accuracy:
    """Return the accuracy of answers with this noise, whose expected error is known or bounded."""
    failing = to_failure_probability(confidence) / (1 if sample is None else 2)
    within = noise.width(failing, validate_count(answers, argument="answers"))
    if sample is None:
        return Accuracy(within=within, confidence=confidence, expected=expected)
    return Accuracy(
        within=within + accuracy.sampling_error(failing, answers=answers, sample=sample),
        confidence=confidence,
        expected=expected + math.sqrt(sample) / 2,
        against=accuracy.Against.POPULATION,
    )


def normal_noise(budget: Budget) -> type[NormalNoise]:
    """Return the normal noise that a budget counts most tightly."""
    return RoundedGaussian if budget.accountant is Accountant.GAUSSIAN else Gaussian


@lru_cache(maxsize=64)
def payable_noises(budget: Budget) -> tuple[type[Noise], ...]:
    """Return the noises that a budget can pay for."""
    return (Laplace, normal_noise(budget)) if budget.delta > 0 else (Laplace,)
