"""Independent noise on each answer: randomized response, Laplace and Gaussian noise, by every composition theorem."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from dodona.lab.plan import shares
from dodona.lab.plan.promise import Adaptivity, FormulaResult, PlannedMechanism, Task, Unsuitable
from dodona.lab.plan.setting import Setting
from dodona.lab.randomized_response import RandomizedResponse
from dodona.privacy.additive_noise import (
    LARGEST_SCALE,
    SMALLEST_EPSILON,
    SMALLEST_SCALE,
    Gaussian,
    Laplace,
    round_scale_up,
)
from dodona.schema.schema import Neighbours

_LARGEST_RESPONSE = 700.0


def response(setting: Setting) -> FormulaResult:
    """Return the guarantee of k randomized answers per person, each with its share of ε.

    Theorem: randomized-response-accuracy
    """
    if setting.neighbours is not Neighbours.REPLACE:
        raise Unsuitable("the number of respondents is public in randomized response: plan it with replace")
    loss = shares.best(setting)
    if loss < SMALLEST_EPSILON:
        return FormulaResult(math.inf, f"a loss of {loss:.4g} per answer, which is too small to run", runs=False)
    mechanism = RandomizedResponse(epsilon=Fraction(min(loss, _LARGEST_RESPONSE)))
    # All k estimates hold simultaneously if each fails with probability at most β/k (Hoeffding, √(ln(2k/β)/2n)).
    width = math.sqrt(math.log(2 * setting.questions / setting.failing) / (2 * setting.rows))
    return FormulaResult(
        width / math.tanh(float(mechanism.epsilon) / 2), f"the truth with probability {mechanism.honesty:.4g}"
    )


def laplace(setting: Setting, loss: Fraction | float) -> FormulaResult:
    """Return the guarantee of discrete Laplace noise at a given ε per answer.

    Theorem: laplace-accuracy
    """
    if 1 / loss > LARGEST_SCALE:
        return FormulaResult(math.inf, f"Laplace noise of scale {float(1 / loss):.4g}, too large to draw", runs=False)
    exact = 1 / loss if isinstance(loss, Fraction) else round_scale_up(max(1 / loss, float(SMALLEST_SCALE)))
    noise = Laplace(scale=max(exact, SMALLEST_SCALE))
    return FormulaResult(_error(setting, noise), f"Laplace noise of scale {float(noise.scale):,.4g}")


def gaussian(setting: Setting, scale: Fraction | float) -> FormulaResult:
    """Return the guarantee of discrete Gaussian noise of a scale.

    Theorem: gaussian-accuracy
    """
    if scale > LARGEST_SCALE:
        return FormulaResult(math.inf, f"Gaussian noise of scale {float(scale):.4g}, too large to draw", runs=False)
    noise = Gaussian(scale=scale if isinstance(scale, Fraction) else round_scale_up(max(scale, float(SMALLEST_SCALE))))
    return FormulaResult(_error(setting, noise), f"Gaussian noise of scale {float(noise.scale):,.4g}")


def gaussian_zcdp(setting: Setting) -> FormulaResult:
    """Return the guarantee of Gaussian noise with σ = √(k/2ρ), as a curator charges it.

    Theorem: gaussian-rho, gaussian-accuracy
    """
    return gaussian(setting, math.sqrt(setting.questions / (2 * shares.rho_of(setting))))


def _error(setting: Setting, noise: Laplace | Gaussian) -> float:
    return noise.accuracy(setting.confidence, answers=setting.questions).within / setting.rows


def _method(
    name: str, title: str, theorem: str, formula: Callable[[Setting], FormulaResult], short: str = ""
) -> PlannedMechanism:
    return PlannedMechanism(
        name=name,
        title=title,
        task=Task.ANSWERS,
        adaptivity=Adaptivity.IN_TURN,
        theorem=theorem,
        formula=formula,
        short=short,
    )


METHODS = (
    _method("randomized-response", "randomized response, no curator", "randomized-response-accuracy", response,
            "randomized response"),
    _method("laplace-basic", "Laplace noise, basic composition", "laplace-accuracy",
            lambda setting: laplace(setting, shares.basic(setting)), "Laplace noise"),
    _method("laplace-advanced", "Laplace noise, advanced composition", "laplace-accuracy",
            lambda setting: laplace(setting, shares.advanced(setting)), "Laplace noise"),
    _method("laplace-zcdp", "Laplace noise, zCDP", "laplace-accuracy",
            lambda setting: laplace(setting, shares.zcdp(setting)), "Laplace noise"),
    _method("laplace-exact", "Laplace noise, exact composition", "laplace-accuracy",
            lambda setting: laplace(setting, shares.optimal(setting)), "Laplace noise"),
    _method("gaussian-zcdp", "Gaussian noise, zCDP", "gaussian-accuracy", gaussian_zcdp, "Gaussian noise"),
    _method("gaussian-exact", "Gaussian noise, exact composition", "gaussian-accuracy",
            lambda setting: gaussian(setting, shares.normal_scale(setting)), "Gaussian noise"),
)  # fmt: skip
