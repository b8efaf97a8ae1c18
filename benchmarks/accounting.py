"""The speed and the tightness of accounting: filter decisions beside OpenDP's, exact plans, and known values."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from benchmarks import clock
from benchmarks.peer import filter_decision
from benchmarks.report import Row
from dodona.accounting.composition import part
from dodona.accounting.conversion import renyi_epsilon
from dodona.accounting.event import Event, GaussianEvent, Kind, LaplaceEvent, PureEvent, Together
from dodona.accounting.filter import Accountant, Filter, Spent, budget_filter
from dodona.accounting.normal import normal_epsilon
from dodona.accounting.optimal import grouped_epsilon
from dodona.accounting.order import renyi_limit, zcdp_limit
from dodona.accounting.plan import Plan
from dodona.domain.neighbours import Neighbours

NOTE = (
    "All figures are CPU time. OpenDP's decisions are those after 200 and 2,000 queries, and include drawing the noise "
    "of a count."
)
DELTA = Fraction(1, 10**6)
_COUNTS = 10_000
_DECISIONS = 2_000


def measure(say: Callable[[str], None]) -> dict[str, object]:
    """Return all figures."""
    say("decisions")
    figures: dict[str, object] = {"decision_us": {name: _decision_us(events) for name, events in _BEFORE.items()}}
    say("decisions of OpenDP")
    figures["opendp_decision_us"] = filter_decision(earlier=(200, 2_000))
    say("a plan of 10,000 mechanisms")
    figures["plan_1e4_s"] = clock.once(lambda: Plan(((_response("1/100"), _COUNTS),)).epsilon(DELTA))
    mixed = Plan(tuple((_response(Fraction(size, 1000)), 1_000) for size in range(1, 11)))
    figures["plan_1e4_in_ten_groups_s"] = clock.once(lambda: mixed.epsilon(DELTA))
    figures["count_std"] = {"renyi": _count_std()}
    say("known values")
    figures["values"] = {
        name: {"ours": ours, "reference": reference, "relative_difference": (ours - reference) / reference}
        for name, (ours, reference) in _values().items()
    }
    return figures


def rows(figures: dict[str, object]) -> list[Row]:
    """Return the figures as rows of a table."""
    ours, peer, values = figures["decision_us"], figures["opendp_decision_us"], figures["values"]
    found = [
        Row(f"decision after {name} events", "µs", ours[name], peer[other], "less")  # type: ignore[index]
        for name, other in zip(_BEFORE, peer, strict=True)  # type: ignore[call-overload]
    ]
    plans = ("plan_1e4_s", "plan_1e4_in_ten_groups_s")
    found += [Row(name, "s", float(str(figures[name])), None, "less") for name in plans]
    found.append(Row("10,000 Gaussian counts in (1, 1e-6)", "std", _count_std(), None, "less"))
    differences = [abs(value["relative_difference"]) for value in values.values()]  # type: ignore[attr-defined]
    found.append(
        Row(
            f"largest difference to {len(differences)} known values", "billionths", max(differences) * 1e9, None, "less"
        )
    )
    return found


_BEFORE = {"1e3": 10**3, "1e6": 10**6}


def _response(epsilon: str | Fraction) -> PureEvent:
    return PureEvent(Kind.RANDOMIZED_RESPONSE, Fraction(epsilon), Neighbours.REPLACE)


def _gaussian(variance: int) -> GaussianEvent:
    return GaussianEvent(1, Fraction(variance), Neighbours.REPLACE)


def _decision_us(earlier: int) -> float:
    """Return the CPU microseconds of a decision after so many events, averaged over a menu of prices."""
    budget = budget_filter(Accountant.RENYI, Fraction(1), DELTA)
    menu = [_gaussian(10**10 + index) for index in range(50)]
    spent = budget.charged(Spent(), _gaussian(10**9), times=earlier)

    def decide() -> None:
        total: Spent = spent
        for index in range(_DECISIONS):
            total = budget.after(total, menu[index % len(menu)]) or total

    return clock.best(decide) / _DECISIONS * 1e6


def _count_std() -> float:
    """Return the least scale, to a thousandth, at which the filter admits 10,000 Gaussian counts in (1, 1e-6)."""
    budget = budget_filter(Accountant.RENYI, Fraction(1), DELTA)
    low, high = 400_000, 500_000
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _admits(budget, Fraction(middle, 1000)) else (middle, high)
    return high / 1000


def _admits(budget: Filter, scale: Fraction) -> bool:
    return budget.after(Spent(), GaussianEvent(1, scale**2, Neighbours.REPLACE), times=_COUNTS) is not None


def _values() -> dict[str, tuple[float, float]]:
    """Return what is known from the literature, and ours."""
    nine = Fraction(1, 10**9)
    mixture = ((_response("1/50"), 50), (_response("1/20"), 50), (_response("1/10"), 20))
    return {
        "rho of (1, 1e-6)": (float(zcdp_limit(Fraction(1), DELTA)), 0.02435597),
        "rho of (1, 1e-9)": (float(zcdp_limit(Fraction(1), nine)), 0.01497306),
        "rho of (4, 1e-6)": (float(zcdp_limit(Fraction(4), DELTA)), 0.31106495),
        "limit of (1, 1e-6) at 22": (float(renyi_limit(Fraction(1), DELTA, Fraction(22))), 0.5358310582),
        "limit of (1, 1e-9) at 34.875": (float(renyi_limit(Fraction(1), nine, Fraction(279, 8))), 0.5221853417),
        "limit of (4, 1e-6) at 7.1875": (float(renyi_limit(Fraction(4), DELTA, Fraction(115, 16))), 2.2357650617),
        "count at .1, 100 times, Rényi": (_renyi(((_count(10), 100),)), 5.073106),
        "count at .1, 100 times, plan": (Plan(((_count(10), 100),)).epsilon(DELTA), 4.774568),
        "count at .01, 10,000 times, Rényi": (_renyi(((_count(100), 10_000),)), 5.220083),
        "count at .01, 10,000 times, plan": (Plan(((_count(100), 10_000),)).epsilon(DELTA), 4.885516),
        "pure mixture, Rényi": (_renyi(mixture), 2.751962),
        "pure mixture, plan": (
            grouped_epsilon([part(event.epsilon, times=times) for event, times in mixture], delta=DELTA),
            2.594131,
        ),
        "continuous Gaussian, mu = 1": (normal_epsilon(1, delta=DELTA), 4.88655412),
    }


def _count(scale: int) -> LaplaceEvent:
    return LaplaceEvent(1, Fraction(scale), Neighbours.REPLACE)


def _renyi(parts: tuple[tuple[Event, int], ...]) -> float:
    """Return ε at 1e-6 by Rényi composition with the best order."""
    return renyi_epsilon(Together(parts).renyi, delta=DELTA)
