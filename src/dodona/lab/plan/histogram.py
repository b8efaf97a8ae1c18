"""The whole histogram, released once: every count is a sum of its cells, and is free."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from dodona.answer.laws import NoiseTerm, upper_quantile
from dodona.errors import InvalidArgument
from dodona.lab.plan.promise import Adaptivity, FormulaResult, PlannedMechanism, Task, Unsuitable, format_count
from dodona.lab.plan.setting import Setting
from dodona.privacy.additive_noise import LARGEST_SCALE, SMALLEST_SCALE, Gaussian, Laplace, gaussian_normalizer
from dodona.query.sensitivity import Sensitivity
from dodona.schema.schema import Neighbours

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

Noise = Laplace | Gaussian
MOST_CELLS = 1 << 24
"""The most cells that are released at once; the formulas hold for more."""
_SUMS = 1 << 40  # sums of up to this many draws have a sharper quantile
_SUMMED = 2000.0  # up to this scale the moments of Gaussian noise above 0 are summed


def fixed_counts(setting: Setting) -> FormulaResult:
    """Return the histogram's guarantee for k counts that do not depend on its noise.

    Theorem: histogram-accuracy
    """
    return min((_fixed_counts(setting, noise) for noise in _noises(setting)), key=lambda guarantee: guarantee.within)


def all_counts(setting: Setting) -> FormulaResult:
    """Return the histogram's guarantee for all sets of cells simultaneously, hence also for adaptively chosen counts.

    Theorem: histogram-accuracy
    """
    return min((_all_counts(setting, noise) for noise in _noises(setting)), key=lambda guarantee: guarantee.within)


def _fixed_counts(setting: Setting, noise: Noise) -> FormulaResult:
    """Return a bound on k sums of cells; each of at most half the cells if the number of rows is public."""
    cells = _cells(setting)
    most = cells if setting.neighbours is Neighbours.ADD_REMOVE else max(1, cells // 2)
    distinct = setting.questions if cells > 60 else min(setting.questions, 1 << cells)  # noqa: PLR2004  2^60 sets
    failing = setting.failing / (2 * distinct)
    error = _least(noise, _log_moment, most, failing)
    if most <= _SUMS:
        error = min(error, upper_quantile((NoiseTerm.of(1.0, noise, most),), failing))
    return _result(setting, error, noise)


def _all_counts(setting: Setting, noise: Noise) -> FormulaResult:
    """Return a bound on the sum of all positive noise; negative noise has the same distribution."""
    return _result(setting, _least(noise, _log_moment_above, _cells(setting), setting.failing / 2), noise)


def _least(noise: Noise, log_moment: Callable[[Noise, Array], Array], draws: int, failing: float) -> float:
    """Return min (draws·ln M(t) + ln(1/β))/t over a grid of t: Chernoff's bound.

    At the best t the two terms are about equal, and ln M(t) is about t²·scale².
    """
    logs, scale = -math.log(failing), float(noise.scale)
    rates = np.geomspace(1e-4, 1e3, 600) * math.sqrt(logs / draws) / scale
    if isinstance(noise, Laplace):
        rates = rates[rates * scale < 1 - 1e-9]
    with np.errstate(over="ignore"):
        return float(np.min((draws * log_moment(noise, rates) + logs) / rates))


def _log_moment(noise: Noise, rates: Array) -> Array:
    """Return ln E[e^{tx}], or for Gaussian noise the bound t²σ²/2.

    Laplace: (1-q)²/((1-q·e^t)(1-q·e^{-t})) is 1/(1 - (sinh(t/2)/sinh(1/2b))²).
    """
    scale = float(noise.scale)
    if isinstance(noise, Laplace):
        return np.asarray(-np.log1p(-((np.sinh(rates / 2) / math.sinh(1 / (2 * scale))) ** 2)))
    return np.asarray((rates * scale) ** 2 / 2)


def _log_moment_above(noise: Noise, rates: Array) -> Array:
    """Return an upper bound on ln E[e^{t·max(x, 0)}]."""
    scale = float(noise.scale)
    if isinstance(noise, Laplace):
        # 1/(1+q) + (1-q)/(1+q)·r/(1-r) with r = q·e^t is 1 + ((1-q)/(1-r) - 1)/(1+q).
        risen = np.expm1(-1 / scale) / np.expm1(rates - 1 / scale)
        return np.asarray(np.log1p((risen - 1) / (1 + math.exp(-1 / scale))))
    if scale > _SUMMED:  # |x - y| < 1 for a normal y of the same scale (page sum-of-noises)
        from scipy.special import log_ndtr

        return np.asarray(np.logaddexp(math.log(0.5), (rates * scale) ** 2 / 2 + log_ndtr(rates * scale)) + rates)
    steps = np.arange(1, math.ceil(12 * scale) + 2)
    weights = np.exp(-((steps / scale) ** 2) / 2) / gaussian_normalizer(scale)
    above = np.array([float(weights @ np.expm1(np.minimum(rate * steps, 700.0))) for rate in rates])
    # The truncation at 12σ is below 10^-18 of the sum for rates up to 3/σ; faster ones are left out.
    return np.where(rates * scale < 3, np.log1p(above) * (1 + 1e-9), np.inf)  # noqa: PLR2004


def _noises(setting: Setting) -> list[Noise]:
    """Return the noise at this price: Laplace, and if δ > 0 the exact discrete Gaussian."""
    moved = Sensitivity.histogram(setting.neighbours)
    _cells(setting)
    laplace = min(max(moved.l1 / setting.epsilon, SMALLEST_SCALE), LARGEST_SCALE)
    noises: list[Noise] = [Laplace(scale=laplace)]
    if setting.delta > 0:
        try:
            noises.append(Gaussian.for_privacy(setting.epsilon, setting.delta, moved))
        except InvalidArgument:  # no scale that is drawn is enough
            noises.append(Gaussian(scale=LARGEST_SCALE))
    return noises


def _cells(setting: Setting) -> int:
    if setting.cells is None:
        raise Unsuitable("a histogram needs to know how many cells there are: write cells")
    return setting.cells


def _result(setting: Setting, error: float, noise: Noise) -> FormulaResult:
    cells = _cells(setting)
    return FormulaResult(error / setting.rows, _law(noise, cells), runs=cells <= MOST_CELLS)


def _law(noise: Noise, cells: int) -> str:
    name = "Laplace" if isinstance(noise, Laplace) else "Gaussian"
    return f"{name} noise of scale {float(noise.scale):,.4g} on {format_count(cells)} cells"


METHODS = (
    PlannedMechanism(
        name="histogram",
        title="whole histogram, questions fixed",
        task=Task.ANSWERS,
        adaptivity=Adaptivity.TOGETHER,
        theorem="histogram-accuracy",
        formula=fixed_counts,
        short="the whole histogram",
    ),
    PlannedMechanism(
        name="histogram-any",
        title="whole histogram, any questions",
        task=Task.ANSWERS,
        adaptivity=Adaptivity.IN_TURN,
        theorem="histogram-accuracy",
        formula=all_counts,
        short="the whole histogram",
    ),
)
