"""A workload of marginals: each by itself, or all of them from shared residuals that are measured once."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from itertools import combinations

from dodona.knowledge.residuals import Factor, VarianceTarget, allot_variances
from dodona.lab.plan import shares
from dodona.lab.plan.marginals import Marginals
from dodona.lab.plan.promise import Adaptivity, FormulaResult, PlannedMechanism, Task, Unsuitable
from dodona.lab.plan.setting import Setting
from dodona.privacy.additive_noise import LARGEST_SCALE, SMALLEST_SCALE, Gaussian, Laplace, round_scale_up
from dodona.privacy.measurement import worst_ratio
from dodona.query.residual import Classes
from dodona.schema.schema import Neighbours, Unit

MOST_RESIDUALS = 6000
"""The most residuals that are allotted together, which takes some seconds."""
_WIDEST = 4096  # values of a column that are written out


def residuals(setting: Setting) -> FormulaResult:
    """Return the guarantee of residuals for all cells of all marginals, allotted at the least price.

    Theorem: workload-accuracy
    """
    workload = _workload(setting)
    price = shares.rho_of(setting)
    variance = float(_ratio(workload, setting.neighbours)) / (2 * price)
    error = math.sqrt(2 * variance * math.log(2 * setting.questions / setting.failing))
    law = f"{_number(workload):,} residuals; standard deviation {math.sqrt(variance):,.4g} a count"
    return FormulaResult(error / setting.rows * (1 + 1e-9), law, runs=math.sqrt(variance) < LARGEST_SCALE)


def marginals(setting: Setting) -> FormulaResult:
    """Return the guarantee of noise on every cell of every marginal: the better of Gaussian and Laplace noise.

    A row is in one cell of each marginal, so M marginals have l1 sensitivity M, or 2M under replacement.

    Theorem: workload-accuracy
    """
    moved = _workload(setting).number * (2 if setting.neighbours is Neighbours.REPLACE else 1)
    laplace = max(moved / setting.epsilon, SMALLEST_SCALE)
    guarantees = []
    if laplace <= LARGEST_SCALE:
        guarantees.append(_cellwise(setting, Laplace(scale=laplace)))
    if setting.delta > 0:
        scale = max(math.sqrt(moved / (2 * shares.rho_of(setting))), float(SMALLEST_SCALE))
        if scale < LARGEST_SCALE:
            guarantees.append(_cellwise(setting, Gaussian(scale=round_scale_up(scale))))
    return min(
        guarantees,
        key=lambda guarantee: guarantee.within,
        default=FormulaResult(math.inf, "noise too large to draw", runs=False),
    )


def _cellwise(setting: Setting, noise: Laplace | Gaussian) -> FormulaResult:
    name = "Laplace" if isinstance(noise, Laplace) else "Gaussian"
    within = noise.accuracy(setting.confidence, answers=setting.questions).within / setting.rows
    return FormulaResult(within, f"{name} noise of scale {float(noise.scale):,.4g} on every cell")


@lru_cache(maxsize=64)
def _ratio(workload: Marginals, neighbours: Neighbours) -> Fraction:
    """Return twice the zCDP price at which no cell has a variance above 1.

    Theorem: residual-allotment
    """
    if _number(workload) > MOST_RESIDUALS or max(workload.columns) > _WIDEST:
        accepted = f"{MOST_RESIDUALS:,} residuals, of columns with at most {_WIDEST:,} values"
        raise Unsuitable(f"these marginals need more than {accepted}: take fewer columns, or fewer ways")
    classes = [
        Classes(f"{place:03}", values, tuple(1 << code for code in range(values)))
        for place, values in enumerate(workload.columns)
    ]
    # All cells of a marginal have the variance of the first.
    firsts = [Factor(classing, (1, *[0] * (classing.number - 1))) for classing in classes]
    targets = [VarianceTarget(chosen, Fraction(1)) for chosen in combinations(firsts, workload.ways)]
    unit = Unit.each_row(neighbours)
    return worst_ratio(allot_variances(targets, unit), unit)


def _number(workload: Marginals) -> int:
    """Return the number of residuals below the marginals."""
    return sum(math.comb(len(workload.columns), size) for size in range(workload.ways + 1))


def _workload(setting: Setting) -> Marginals:
    if setting.workload is None:
        raise Unsuitable("it is for marginals: write the columns and ways of a workload")
    return setting.workload


METHODS = (
    PlannedMechanism(
        name="residuals",
        title="residuals below the marginals",
        short="the residual basis",
        task=Task.ANSWERS,
        adaptivity=Adaptivity.TOGETHER,
        theorem="workload-accuracy",
        formula=residuals,
    ),
    PlannedMechanism(
        name="marginals",
        title="noise on every marginal",
        task=Task.ANSWERS,
        adaptivity=Adaptivity.TOGETHER,
        theorem="workload-accuracy",
        formula=marginals,
    ),
)
