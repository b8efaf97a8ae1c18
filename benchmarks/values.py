"""What other hands have computed, and ours beside it: limits of budgets, how many fit them, and ε of compositions.

Continuous Laplace noise is here for comparison alone: integers get discrete noise, which costs more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from statistics import NormalDist

from dodona.lab.composition import (
    MechanismGroup,
    advanced,
    advanced_sharp,
    basic,
    grouped_epsilon,
    homogeneous_delta,
    mechanism_group,
)
from dodona.lab.conversion import (
    bun_steinke_epsilon,
    bun_steinke_limit,
    continuous_laplace_renyi,
    float_below,
    zcdp_epsilon,
)
from dodona.lab.convolution import DeclaredPlan
from dodona.lab.gaussian_composition import compose_mu, gdp_epsilon, gdp_limit
from dodona.privacy.accountants import Accountant, budget_filter
from dodona.privacy.conversion import renyi_epsilon, renyi_limit, zcdp_limit
from dodona.privacy.events import (
    ComposedEvent,
    Event,
    ExponentialEvent,
    GaussianEvent,
    LaplaceEvent,
    PureEvent,
    PureMechanism,
)
from dodona.schema.schema import Neighbours
from tests.privacy.reference import REFERENCES

DELTA = Fraction(1, 10**6)
Values = dict[str, Callable[[], float]]
Mixture = tuple[tuple[Event, int], ...]

_ORDERS = {
    ("0.1", "1e-6"): "165.5",
    ("0.5", "1e-6"): "40",
    ("1", "1e-6"): "22",
    ("1", "1e-9"): "34.875",
    ("2", "1e-6"): "12.375",
    ("4", "1e-6"): "7.1875",
    ("8", "1e-6"): "4.4375",
    ("10", "1e-5"): "3.375",
}
_REPEATED = (("0.1", 100), ("0.01", 100), ("0.1", 10_000), ("0.01", 10_000))
_GAUSSIANS = ((1, 1), (2, 1), (5, 1), (10, 1), (10, 100), (100, 10_000), (20, 1_000), (50, 100), (50, 10_000))


def values() -> dict[str, dict[str, float]]:
    """Return ours, the reference and the relative difference of every value that there is a reference for."""
    computations = ours()
    return {name: _beside(computations[name](), float(reference.value)) for name, reference in REFERENCES.items()}


def ours() -> Values:
    """Return what computes each of our values, by name."""
    computations: Values = {}
    for (epsilon, delta), order in _ORDERS.items():
        computations |= _limits(Fraction(epsilon), Fraction(delta), Fraction(order), f"({epsilon}, {delta})", order)
    computations |= _within("1", ("0.01", "0.05", "0.1"), deviations=(50, 100))
    computations |= _within("4", ("0.01", "0.1"), deviations=(50,))
    for epsilon, times in _REPEATED:
        computations |= _repeated(Fraction(epsilon), times, f"{times} of {epsilon}")
    for deviation, times in _GAUSSIANS:
        computations |= _gaussians(Fraction(1, deviation), times, f"{times} Gaussian of {deviation}")
    return computations | _pure_mixture() | _mixture()


def _beside(value: float, reference: float) -> dict[str, float]:
    return {"ours": value, "reference": reference, "relative_difference": (value - reference) / reference}


def _limits(epsilon: Fraction, delta: Fraction, order: Fraction, pair: str, shown: str) -> Values:
    return {
        f"rho of {pair}": lambda: float_below(Fraction(zcdp_limit(epsilon, delta))),
        f"textbook rho of {pair}": lambda: float_below(Fraction(bun_steinke_limit(epsilon, delta))),
        f"limit of {pair} at {shown}": lambda: float_below(Fraction(renyi_limit(epsilon, delta, order))),
        f"mu of {pair}": lambda: gdp_limit(epsilon, delta=delta),
    }


def _within(budget: str, sizes: tuple[str, ...], *, deviations: tuple[int, ...]) -> Values:
    """Return how many mechanisms fit (budget, 1e-6) by each filter, and how many at most if all is fixed beforehand."""
    total = Fraction(budget)
    zcdp, renyi = (budget_filter(accountant, total, DELTA) for accountant in (Accountant.ZCDP, Accountant.RENYI))
    order, rho = renyi.order or Fraction(0), Fraction(zcdp_limit(total, DELTA))
    textbook, limit = Fraction(bun_steinke_limit(total, DELTA)), Fraction(renyi_limit(total, DELTA, order))
    squared = Fraction(gdp_limit(total, delta=DELTA)) ** 2
    computations: Values = {}
    for size in sizes:
        each = Fraction(size)
        pure, choice = _response(each), ExponentialEvent(each, Neighbours.REPLACE)
        smooth_rho = Fraction(_continuous_rho(each))
        smooth = Fraction(continuous_laplace_renyi(each, order=order))
        ratio = Fraction(_pure_ratio(each)) ** 2
        counts = {
            f"pure of {size}, basic": total // each,
            f"pure of {size}, advanced": textbook // (each**2 / 2),
            f"pure of {size}, half the square": rho // (each**2 / 2),
            f"pure of {size}, zCDP": zcdp.limit // zcdp.cost(pure),
            f"pure of {size}, Rényi": renyi.limit // renyi.cost(pure),
            f"pure of {size}, Gaussian": squared // ratio,
            f"pure of {size}, fixed beforehand": _most(total, each),
            f"continuous Laplace of {size}, zCDP": rho // smooth_rho,
            f"continuous Laplace of {size}, Rényi": limit // smooth,
            f"exponential of {size}, zCDP": zcdp.limit // zcdp.cost(choice),
            f"exponential of {size}, Rényi": renyi.limit // renyi.cost(choice),
        }
        computations |= {f"{name}, in ({budget}, 1e-6)": _constant(count) for name, count in counts.items()}
    for deviation in deviations:
        event = GaussianEvent(1, Fraction(deviation**2), Neighbours.REPLACE)
        counts = {
            f"Gaussian of {deviation}, zCDP": zcdp.limit // zcdp.cost(event),
            f"Gaussian of {deviation}, Rényi": renyi.limit // renyi.cost(event),
            f"continuous Gaussian of {deviation}": squared * deviation**2 // 1,
        }
        computations |= {f"{name}, in ({budget}, 1e-6)": _constant(count) for name, count in counts.items()}
    return computations


def _repeated(epsilon: Fraction, times: int, shown: str) -> Values:
    parts, half = [MechanismGroup(epsilon, times=times)], times * epsilon**2 / 2
    rho = times * Fraction(_response(epsilon).rho())
    steps = 1_000 if times == 100 else 200  # noqa: PLR2004  the finest grids that a plan keeps
    return {
        f"{shown}, basic": lambda: float(basic(parts).epsilon),
        f"{shown}, advanced": lambda: float(advanced(parts, slack=DELTA).epsilon),
        f"{shown}, sharp advanced": lambda: float(advanced_sharp(parts, slack=DELTA).epsilon),
        f"{shown}, textbook zCDP": lambda: bun_steinke_epsilon(half, delta=DELTA),
        f"{shown}, half the square": lambda: zcdp_epsilon(half, delta=DELTA),
        f"{shown}, zCDP": lambda: zcdp_epsilon(rho, delta=DELTA),
        f"{shown}, Rényi": lambda: _renyi(((_count(1, 1 / epsilon), times),)),
        f"{shown}, plan": lambda: DeclaredPlan(((_count(1, 1 / epsilon), times),)).epsilon(DELTA),
        f"{shown}, continuous Laplace, zCDP": lambda: zcdp_epsilon(
            times * Fraction(_continuous_rho(epsilon)), delta=DELTA
        ),
        f"{shown}, continuous Laplace, Rényi": lambda: renyi_epsilon(
            lambda order: times * Decimal(continuous_laplace_renyi(epsilon, order=order)), delta=DELTA
        ),
        f"{shown}, continuous Laplace, plan": lambda: DeclaredPlan(((_count(steps, steps / epsilon), times),)).epsilon(
            DELTA
        ),
    }


def _gaussians(ratio: Fraction, times: int, shown: str) -> Values:
    rho = times * ratio**2 / 2
    return {
        f"{shown}, continuous": lambda: gdp_epsilon(compose_mu([ratio] * times), delta=DELTA),
        f"{shown}, zCDP": lambda: zcdp_epsilon(rho, delta=DELTA),
        f"{shown}, textbook zCDP": lambda: bun_steinke_epsilon(rho, delta=DELTA),
    }


def _pure_mixture() -> Values:
    parts = [mechanism_group("0.02", times=50), mechanism_group("0.05", times=50), mechanism_group("0.1", times=20)]
    events: Mixture = tuple((_response(each.epsilon), each.times) for each in parts)
    half = sum((each.times * each.epsilon**2 / 2 for each in parts), Fraction(0))
    return {
        "pure mixture, basic": lambda: float(basic(parts).epsilon),
        "pure mixture, advanced": lambda: float(advanced(parts, slack=DELTA).epsilon),
        "pure mixture, textbook zCDP": lambda: bun_steinke_epsilon(half, delta=DELTA),
        "pure mixture, half the square": lambda: zcdp_epsilon(half, delta=DELTA),
        "pure mixture, zCDP": lambda: zcdp_epsilon(Fraction(ComposedEvent(events).rho()), delta=DELTA),
        "pure mixture, Rényi": lambda: _renyi(events),
        "pure mixture, plan": lambda: grouped_epsilon(parts, delta=DELTA),
    }


def _mixture() -> Values:
    """Return the mixture of four kinds as it is charged, and with continuous Laplace noise in place of discrete."""
    twentieth = Fraction(1, 20)
    charged: Mixture = (
        (_count(1, Fraction(20)), 100),
        (GaussianEvent(1, Fraction(400), Neighbours.REPLACE), 100),
        (PureEvent(PureMechanism.SPARSE_VECTOR, Fraction(1, 5), Neighbours.REPLACE), 5),
        (ExponentialEvent(Fraction(1, 10), Neighbours.REPLACE), 10),
    )
    rest = ComposedEvent(charged[1:])
    smooth = Fraction(rest.rho()) + 100 * Fraction(_continuous_rho(twentieth))
    eighth = smooth - 10 * Fraction(charged[3][0].rho()) + Fraction(10, 800)
    half = 100 * twentieth**2 / 2 + Fraction(1, 8) + 5 * Fraction(1, 50) + 10 * Fraction(1, 200)

    def curve(order: Fraction) -> Decimal:
        return rest.renyi(order) + 100 * Decimal(continuous_laplace_renyi(twentieth, order=order))

    return {
        "mixture, basic": lambda: 7 + 100 * gdp_epsilon(twentieth, delta=DELTA / 200),
        "mixture, half the square": lambda: zcdp_epsilon(half, delta=DELTA),
        "mixture, zCDP": lambda: zcdp_epsilon(Fraction(ComposedEvent(charged).rho()), delta=DELTA),
        "mixture, Rényi": lambda: _renyi(charged),
        "mixture, continuous Laplace, an eighth of the square": lambda: zcdp_epsilon(eighth, delta=DELTA),
        "mixture, continuous Laplace, zCDP": lambda: zcdp_epsilon(smooth, delta=DELTA),
        "mixture, continuous Laplace, Rényi": lambda: renyi_epsilon(curve, delta=DELTA),
        "mixture, continuous Laplace, plan": lambda: DeclaredPlan(
            ((_count(100, Fraction(2000)), 100), *charged[1:])
        ).epsilon(DELTA),
    }


def _most(total: Fraction, each: Fraction) -> int:
    """Return how many pure mechanisms there may be at most, if that is fixed beforehand: optimal composition."""
    low, high = 1, 10**4
    while high - low > 1:
        middle = (low + high) // 2
        fits = middle * each <= total or homogeneous_delta(MechanismGroup(each, times=middle), epsilon=total) <= DELTA
        low, high = (middle, high) if fits else (low, middle)
    return low


def _constant(count: Fraction | int) -> Callable[[], float]:
    return lambda: float(count)


def _continuous_rho(epsilon: Fraction) -> float:
    """Return ε + e^-ε - 1, the zCDP price of continuous Laplace noise."""
    return float(epsilon) + math.expm1(-float(epsilon))


def _pure_ratio(epsilon: Fraction) -> float:
    """Return the ratio whose Gaussian trade-off touches randomized response: 2Φ⁻¹(e^ε/(1 + e^ε))."""
    return 2 * NormalDist().inv_cdf(1 / (1 + math.exp(-epsilon)))


def _response(epsilon: Fraction) -> PureEvent:
    return PureEvent(PureMechanism.RANDOMIZED_RESPONSE, epsilon, Neighbours.REPLACE)


def _count(distance: int, scale: Fraction) -> LaplaceEvent:
    return LaplaceEvent(distance, scale, Neighbours.REPLACE)


def _renyi(parts: Mixture) -> float:
    return renyi_epsilon(ComposedEvent(parts).renyi, delta=DELTA)
