"""One hundred random settings: every promise equals a brute force that knows nothing of the planner."""

import math

import numpy as np
import pytest

from dodona.lab.plan import Setting, promise_for
from dodona.schema.schema import Neighbours
from tests.lab.plan import brute

POINTS = 100
QUICK = 6
"""So many of them are in the quick check."""
SOAK = 30
"""Those from here on are left to the soak."""


def settings() -> list[Setting]:
    generator = np.random.default_rng(20)
    return [
        Setting(
            rows=int(10 ** generator.uniform(3, 8)),
            questions=max(2, int(10 ** generator.uniform(0, 3.3))),
            cells=int(2 ** generator.uniform(1, 30)),
            epsilon=float(f"{10 ** generator.uniform(-1, 0.7):.4g}"),
            delta=0 if number % 4 == 0 else float(f"{10 ** generator.uniform(-9, -4):.3g}"),
            confidence=float(f"{1 - 10 ** generator.uniform(-3, -0.7):.4f}"),
            neighbours=Neighbours.ADD_REMOVE if number % 3 == 0 else Neighbours.REPLACE,
            positives=1 + number % 2,
        )
        for number in range(POINTS)
    ]


def _marks(number: int) -> list[pytest.MarkDecorator]:
    return [pytest.mark.slow] * (number >= QUICK) + [pytest.mark.soak] * (number >= SOAK)


POINT = pytest.mark.parametrize(
    "setting",
    [pytest.param(setting, id=str(number), marks=_marks(number)) for number, setting in enumerate(settings())],
)


def near(found: float, known: float, *, steps: float, rows: int, relative: float = 2e-3) -> bool:
    """Return whether two shares agree, up to steps of the integer grid."""
    return abs(found - known) <= relative * known + steps / rows


@POINT
def test_independent_noise_promises_what_brute_force_finds(setting):
    epsilon, delta, beta, rows, adaptivity = _sides(setting)

    def holds(name: str, error: float, steps: float = 1.01) -> None:
        assert near(promise_for(setting, name).within, error / rows, steps=steps, rows=rows), name

    holds("laplace-basic", brute.laplace(epsilon / adaptivity, adaptivity, beta))
    if delta > 0:
        price = brute.rho(epsilon, delta)
        holds("laplace-zcdp", brute.laplace(brute.tanh_loss(price / adaptivity), adaptivity, beta))
        holds("laplace-advanced", brute.laplace(brute.advanced(epsilon, delta, adaptivity), adaptivity, beta))
        holds("laplace-exact", brute.laplace(brute.optimal(epsilon, delta, adaptivity), adaptivity, beta))
        holds("gaussian-zcdp", brute.gaussian(math.sqrt(adaptivity / (2 * price)), adaptivity, beta))
        # The discrete law may need a little more noise than the continuous one.
        holds(
            "gaussian-exact",
            brute.gaussian(math.sqrt(adaptivity) / brute.normal_ratio(epsilon, delta), adaptivity, beta),
            2,
        )
    if setting.neighbours is Neighbours.REPLACE:
        loss = epsilon / adaptivity if delta == 0 else brute.optimal(epsilon, delta, adaptivity)
        clarity = (math.exp(loss) - 1) / (math.exp(loss) + 1)
        error = math.sqrt(math.log(2 * adaptivity / beta) / (2 * rows)) / clarity
        assert promise_for(setting, "randomized-response").within == pytest.approx(error, rel=2e-3)


@POINT
def test_mechanisms_that_learn_the_table_promise_what_brute_force_finds(setting):
    epsilon, delta, beta, rows, adaptivity = _sides(setting)
    universe = setting.universe
    blr = brute.blr(rows, universe, adaptivity, epsilon, beta)
    assert promise_for(setting, "blr").within == pytest.approx(blr, rel=2e-3)
    losses = [lambda rounds: epsilon / rounds]
    if delta > 0:
        price = brute.rho(epsilon, delta)
        losses.append(lambda rounds: np.sqrt(8 * price / rounds))
        weights = brute.pmw(rows, universe, adaptivity, price, beta)
        assert promise_for(setting, "pmw").within <= 1.01 * weights or weights > 1
    every, mean = brute.mwem(rows, universe, adaptivity, losses, beta)
    assert promise_for(setting, "mwem").within == pytest.approx(every, rel=1e-3)
    assert promise_for(setting, "mwem-mean").within == pytest.approx(mean, rel=1e-3)


@POINT
def test_selections_and_thresholds_promise_what_brute_force_finds(setting):
    epsilon, delta, beta, rows, adaptivity = _sides(setting)
    positives, sides = setting.positives, 1 if setting.neighbours is Neighbours.ADD_REMOVE else 2
    chosen = sides / epsilon * math.log(adaptivity / beta)
    assert promise_for(setting, "exponential").within == pytest.approx(chosen / rows, rel=1e-9)
    noisy = sides / epsilon * (math.log(1 / beta) + math.log(max(adaptivity - 1, 1) / beta))
    assert promise_for(setting, "noisy-max").within == pytest.approx((noisy + 2) / rows, rel=1e-9)
    logs = math.log(adaptivity) + math.log(2 * positives / beta)
    factor = 8 * positives if delta == 0 else math.sqrt(512 * positives * math.log(1 / delta))
    assert promise_for(setting, "sparse-textbook").within == pytest.approx(logs * factor / epsilon / rows, rel=1e-9)
    single = brute.sparse(epsilon, adaptivity, 1, positives, sides, beta)
    errors = [single, brute.sparse(epsilon / positives, adaptivity, positives, 1, sides, beta)]
    if delta > 0:
        price = brute.rho(epsilon, delta)
        errors += [
            brute.sparse(brute.tanh_loss(price), adaptivity, 1, positives, sides, beta),
            brute.sparse(brute.tanh_loss(price / positives), adaptivity, positives, 1, sides, beta),
        ]
    assert near(promise_for(setting, "sparse").within, (min(errors) + 2) / rows, steps=0, rows=rows)


def _sides(setting: Setting) -> tuple[float, float, float, int, int]:
    return float(setting.epsilon), float(setting.delta), 1 - setting.confidence, setting.rows, setting.questions
