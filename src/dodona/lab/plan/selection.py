"""Which question has the largest answer: how far the selected one may be below the best."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial

from dodona.lab.iterated_selection import NoisyMax
from dodona.lab.plan import noise, shares
from dodona.lab.plan.promise import Adaptivity, FormulaResult, PlannedMechanism, Task
from dodona.lab.plan.setting import Setting
from dodona.privacy.additive_noise import LARGEST_SCALE, SMALLEST_SCALE
from dodona.privacy.selection import Exponential, PermuteAndFlip, choice_epsilon
from dodona.query.sensitivity import Sensitivity
from dodona.schema.schema import Neighbours

_Choice = type[Exponential] | type[NoisyMax] | type[PermuteAndFlip]


def selection_error(setting: Setting, choice: _Choice) -> FormulaResult:
    """Return how far the selected count may be below the largest of k counts.

    Theorem: choice-accuracy
    """
    scale = max(choice_epsilon(Fraction(1), scores(setting.neighbours)) / setting.epsilon, SMALLEST_SCALE)
    if scale > LARGEST_SCALE:
        return FormulaResult(math.inf, f"noise of scale {float(scale):.4g}, too large to draw", runs=False)
    accuracy = choice(scale=scale).accuracy(setting.confidence, candidates=setting.questions)
    return FormulaResult(accuracy.within / setting.rows, f"scale {float(scale):,.4g}; no delta is used")


def measure_all(setting: Setting, answers: Callable[[Setting], FormulaResult]) -> FormulaResult:
    """Return how far the largest noisy answer may be below the best if all are measured: twice their error."""
    guarantee = answers(setting)
    return FormulaResult(2 * guarantee.within, guarantee.law, guarantee.runs)


def scores(neighbours: Neighbours) -> Sensitivity:
    """Return the sensitivity of counts as scores: monotone under add-remove, not under replacement.

    Theorem: choice-privacy
    """
    return Sensitivity.scores(1, neighbours, monotone=neighbours is Neighbours.ADD_REMOVE)


_largest = partial(PlannedMechanism, task=Task.LARGEST, adaptivity=Adaptivity.TOGETHER)

METHODS = (
    _largest(name="noisy-max", title="report noisy max", theorem="choice-accuracy",
             formula=lambda setting: selection_error(setting, NoisyMax)),
    _largest(name="exponential", title="exponential mechanism", short="the exponential mechanism",
             theorem="choice-accuracy", formula=lambda setting: selection_error(setting, Exponential)),
    _largest(name="permute-and-flip", title="permute-and-flip", theorem="choice-accuracy",
             formula=lambda setting: selection_error(setting, PermuteAndFlip)),
    _largest(name="largest-gaussian", title="Gaussian noise on every question", short="Gaussian noise",
             theorem="gaussian-accuracy", formula=lambda setting: measure_all(setting, noise.gaussian_zcdp)),
    _largest(name="largest-laplace", title="Laplace noise on every question", short="Laplace noise",
             theorem="laplace-accuracy",
             formula=lambda setting: measure_all(setting, lambda plan: noise.laplace(plan, shares.basic(plan)))),
)  # fmt: skip
