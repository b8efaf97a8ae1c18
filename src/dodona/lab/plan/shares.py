"""The price of each of k answers, so that all of them together cost at most (ε, δ)."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

from dodona.curator.weights_design import ZcdpLimit
from dodona.errors import InvalidArgument
from dodona.lab.composition import MechanismGroup, calibrate_epsilon, homogeneous_delta
from dodona.lab.conversion import MOST_TIMES
from dodona.lab.convolution import DeclaredPlan
from dodona.lab.gaussian_composition import gdp_limit
from dodona.lab.plan.promise import Unsuitable
from dodona.lab.plan.setting import Setting
from dodona.privacy.additive_noise import LARGEST_SCALE, SMALLEST_EPSILON, SMALLEST_SCALE, round_scale_up
from dodona.privacy.conversion import zcdp_limit
from dodona.privacy.events import GaussianEvent
from dodona.schema.schema import Neighbours

_NEAR = 1e-6
_NEEDS_DELTA = "it needs a delta above 0, such as 1e-6; with none, add Laplace noise by basic composition"


def rho_of(setting: Setting) -> float:
    """Return the zCDP price that (ε, δ) allows.

    Theorem: renyi-conversion
    """
    return _rho(setting.epsilon, positive_delta(setting))


def positive_delta(setting: Setting) -> Fraction:
    """Return δ, which must be above 0."""
    if setting.delta == 0:
        raise Unsuitable(_NEEDS_DELTA)
    return setting.delta


@lru_cache(maxsize=4096)
def _rho(epsilon: Fraction, delta: Fraction) -> float:
    try:
        return float(zcdp_limit(epsilon, delta)) * (1 - 1e-12)
    except InvalidArgument:
        raise Unsuitable("this epsilon and delta are too small for zCDP: raise one of them") from None


def basic(setting: Setting) -> Fraction:
    """Return ε/k.

    Theorem: basic-composition
    """
    return setting.epsilon / setting.questions


def advanced(setting: Setting) -> float:
    """Return the largest ε per answer that advanced composition allows, with all of δ as its slack.

    Theorem: advanced-composition
    """
    return float(calibrate_epsilon(setting.epsilon, slack=positive_delta(setting), times=_validate_times(setting)))


def zcdp(setting: Setting) -> float:
    """Return the ε per answer with k·ε·tanh(ε/2) = ρ: the price of a count with discrete Laplace noise.

    Theorem: zcdp-composition, laplace-rho
    """
    return pure_loss(rho_of(setting) / setting.questions)


def pure_loss(price: float) -> float:
    """Return the pure ε whose zCDP price ε·tanh(ε/2) is this one.

    Theorem: pure-rho
    """
    return ZcdpLimit(Decimal(0)).loss(price)


def optimal(setting: Setting) -> float:
    """Return the largest ε per answer that optimal composition allows, to six digits.

    Theorem: optimal-composition
    """
    return _optimal(_validate_times(setting), setting.epsilon, positive_delta(setting))


def best(setting: Setting) -> float:
    """Return the largest ε per answer that any composition allows, for pure mechanisms of this ε.

    Theorem: optimal-composition, zcdp-composition
    """
    epsilons = [float(basic(setting))]
    if setting.delta > 0:
        for composed in (zcdp, optimal):
            with suppress(Unsuitable):
                epsilons.append(composed(setting))
    return max(epsilons)


@lru_cache(maxsize=4096)
def _optimal(times: int, epsilon: Fraction, delta: Fraction) -> float:
    def excess(loss: float) -> float:
        """Return ln(δ(ε)/δ): above 0 if the answers cost too much."""
        composed_delta = homogeneous_delta(MechanismGroup(Fraction(loss), times=times), epsilon=epsilon)
        return math.log(max(composed_delta, 1e-300)) - math.log(delta)

    # Basic composition always fits, apart from rounding; for many answers the normal approximation is a good guess.
    low = float(epsilon) / times * (1 - 1e-12)
    try:
        guess = gdp_limit(epsilon, delta=delta) / math.sqrt(times)
    except InvalidArgument:
        guess = low
    if guess > low:
        nearer = next((share * guess for share in (0.999, 0.97, 0.9) if excess(share * guess) <= 0), low)
        low = max(low, nearer)
    step = 1.003
    while excess(step * low) <= 0:
        low, step = step * low, step**2
    return _root(excess, low, step * low)


def _root(excess: Callable[[float], float], low: float, high: float) -> float:
    """Return nearly the largest number at which an increasing function is at most 0, by regula falsi (Illinois)."""
    at_low, at_high = excess(low), excess(high)
    while high - low > _NEAR * low:
        middle = high - at_high * (high - low) / (at_high - at_low)
        if not low + 0.1 * _NEAR * low < middle < high - 0.1 * _NEAR * low:  # too near an end: look just inside it
            middle = low + 0.5 * _NEAR * low if middle - low < high - middle else high - 0.5 * _NEAR * low
        value = excess(middle)
        if value <= 0:
            low, at_low, at_high = middle, value, at_high / 2
        else:
            high, at_high, at_low = middle, value, at_low / 2
    return low


def normal_scale(setting: Setting) -> Fraction:
    """Return σ of k counts as a declared plan: from the exact curve, raised until the discrete noise is within (ε, δ).

    Theorem: declared-plan, dominating-losses
    """
    return _normal(_validate_times(setting), setting.epsilon, positive_delta(setting))


@lru_cache(maxsize=4096)
def _normal(times: int, epsilon: Fraction, delta: Fraction) -> Fraction:
    try:
        mu = gdp_limit(epsilon, delta=delta)
    except InvalidArgument as fault:
        raise Unsuitable("this epsilon and delta are too small for Gaussian noise: raise one of them") from fault
    slope = max(1.0, (float(epsilon) / mu) ** 2)  # about how fast ln δ falls with ln σ
    scale = math.sqrt(times) / mu
    while True:
        tried = round_scale_up(min(max(scale, float(SMALLEST_SCALE)), float(LARGEST_SCALE)))
        event = GaussianEvent(1, tried * tried, Neighbours.REPLACE)
        over = DeclaredPlan(((event, times),)).delta(epsilon) / float(delta)
        if over <= 1:
            return tried
        scale = float(tried) * (1 + 1.02 * math.log(over) / slope + 1e-7)


def _validate_times(setting: Setting) -> int:
    """Return the number of questions, if it can be composed exactly."""
    if setting.questions > MOST_TIMES:
        raise Unsuitable(f"this composition is computed for at most {MOST_TIMES:,} questions; for more, take zCDP")
    if basic(setting) < 2 * SMALLEST_EPSILON:
        raise Unsuitable("so small a loss per answer is not composed exactly: raise epsilon, or ask fewer questions")
    return setting.questions
