"""The speed and the tightness of accounting: filter decisions beside OpenDP's, exact plans, and known values."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from benchmarks import clock, values
from benchmarks.peer import filter_decision
from benchmarks.report import Row
from dodona.lab.convolution import DeclaredPlan
from dodona.privacy.accountants import Accountant, PrivacyFilter, Spending, budget_filter
from dodona.privacy.additive_noise import Gaussian, RoundedGaussian
from dodona.privacy.events import GaussianEvent, PureEvent, PureMechanism
from dodona.query.sensitivity import Sensitivity
from dodona.schema.schema import Neighbours

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
    figures: dict[str, object] = {"decision_us": {name: decision_us(events) for name, events in _BEFORE.items()}}
    say("decisions of OpenDP")
    figures["opendp_decision_us"] = filter_decision(earlier=(200, 2_000))
    say("a plan of 10,000 mechanisms")
    figures["plan_1e4_s"] = clock.once(lambda: DeclaredPlan(((response("1/100"), _COUNTS),)).epsilon(DELTA))
    mixed = DeclaredPlan(tuple((response(Fraction(size, 1000)), 1_000) for size in range(1, 11)))
    figures["plan_1e4_in_ten_groups_s"] = clock.once(lambda: mixed.epsilon(DELTA))
    figures["count_std"] = {
        accountant.value: _count_std(accountant) for accountant in (Accountant.RENYI, Accountant.GAUSSIAN)
    }
    say("known values")
    figures["values"] = values.values()
    return figures


def rows(figures: dict[str, object]) -> list[Row]:
    """Return the figures as rows of a table."""
    ours, peer, known = figures["decision_us"], figures["opendp_decision_us"], figures["values"]
    rows = [
        Row(f"decision after {name} events", "µs", ours[name], peer[other], "less")  # type: ignore[index]
        for name, other in zip(_BEFORE, peer, strict=True)  # type: ignore[call-overload]
    ]
    plans = ("plan_1e4_s", "plan_1e4_in_ten_groups_s")
    rows += [Row(name, "s", float(str(figures[name])), None, "less") for name in plans]
    counts = figures["count_std"].items()  # type: ignore[attr-defined]
    rows += [Row(f"10,000 counts in (1, 1e-6), {name}", "std", std, None, "less") for name, std in counts]
    differences = [abs(value["relative_difference"]) for value in known.values()]  # type: ignore[attr-defined]
    rows.append(
        Row(
            f"largest difference to {len(differences)} known values", "billionths", max(differences) * 1e9, None, "less"
        )
    )
    return rows


_BEFORE = {"1e3": 10**3, "1e6": 10**6}


def response(epsilon: str | Fraction) -> PureEvent:
    """Return the event of randomized response."""
    return PureEvent(PureMechanism.RANDOMIZED_RESPONSE, Fraction(epsilon), Neighbours.REPLACE)


def _gaussian(variance: int) -> GaussianEvent:
    return GaussianEvent(1, Fraction(variance), Neighbours.REPLACE)


def decision_us(earlier: int) -> float:
    """Return the CPU microseconds of a decision after so many events, averaged over a menu of prices."""
    budget = budget_filter(Accountant.RENYI, Fraction(1), DELTA)
    menu = [_gaussian(10**10 + index) for index in range(50)]
    spent = budget.charged(Spending(), _gaussian(10**9), times=earlier)

    def decide() -> None:
        total: Spending = spent
        for index in range(_DECISIONS):
            total = budget.after(total, menu[index % len(menu)]) or total

    return clock.best(decide) / _DECISIONS * 1e6


def _count_std(accountant: Accountant) -> float:
    """Return the least scale, to a thousandth, at which the filter admits 10,000 counts in (1, 1e-6)."""
    budget = budget_filter(accountant, Fraction(1), DELTA)
    low, high = 400_000, 500_000
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _admits(budget, Fraction(middle, 1000)) else (middle, high)
    return high / 1000


def _admits(budget: PrivacyFilter, scale: Fraction) -> bool:
    rounded = budget.accountant is Accountant.GAUSSIAN
    event = (RoundedGaussian if rounded else Gaussian)(scale=scale).event(Sensitivity.count(Neighbours.REPLACE))
    return budget.after(Spending(), event, times=_COUNTS) is not None
