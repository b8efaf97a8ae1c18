"""The filter of a ledger: chosen once at creation, written down, and raised at the same order."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import assert_never

from dodona.accounting import units
from dodona.accounting.filter import Accountant, Filter, Spent
from dodona.accounting.order import renyi_limit, zcdp_limit
from dodona.errors import InvalidArgument
from dodona.exact import Exact
from dodona.policy import Budget

_CLOSE = Fraction(1, 10**6)


def kept_filter(budget: Budget, order: Fraction | None, limit: int) -> Filter:
    """Return the filter that a ledger wrote down, having seen that it belongs to the budget.

    The zCDP limit was searched for in floating point, so another machine may find one that differs in the last digits;
    the one that was written down stands. At a given Rényi order there is nothing to search.
    """
    epsilon, delta = budget.epsilon - budget.plans[0], budget.delta - budget.plans[1]
    found = Filter(budget.accountant, epsilon, delta, order, limit)
    expected = _limit(found)
    slack = int(expected * _CLOSE) if budget.accountant is Accountant.ZCDP else 0
    if abs(limit - expected) > slack:
        raise InvalidArgument("limit", limit, f"the budget gives {expected}")
    return found


def raised_budget(budget: Budget, epsilon: Exact, delta: Exact) -> Budget:
    """Return the budget with a larger pair: neither number may fall."""
    raised = Budget(epsilon, delta, budget.accountant, budget.plans)
    if raised.epsilon < budget.epsilon or raised.delta < budget.delta:
        accepted = f"a budget is only ever raised; write at least ({budget.epsilon}, {budget.delta})"
        raise InvalidArgument("epsilon, delta", f"({epsilon}, {delta})", accepted)
    return raised


def raised_limit(before: Filter, budget: Budget) -> int:
    """Return the limit of a raised budget at the order of the first one.

    What was spent was counted at that order, so another would need every event counted anew under a choice that came
    after the answers.
    """
    epsilon, delta = budget.epsilon - budget.plans[0], budget.delta - budget.plans[1]
    return max(before.limit, _limit(replace(before, epsilon=epsilon, delta=delta)))


def everything(whole: Filter, spent: Spent) -> Spent:
    """Return the total that counts all of a budget as spent, and no less than was."""
    pure = None if spent.pure is None else max(spent.pure, whole.epsilon)
    return Spent(pure, max(spent.units, whole.limit), spent.events)


def _limit(of: Filter) -> int:
    match of.accountant:
        case Accountant.PURE:
            return 0
        case Accountant.ZCDP:
            return units.limit(zcdp_limit(of.epsilon, of.delta))
        case Accountant.RENYI | Accountant.EITHER:
            if of.order is None:
                raise InvalidArgument("order", of.order, "this accountant counts at an order")
            return units.limit(renyi_limit(of.epsilon, of.delta, of.order))
        case _:
            assert_never(of.accountant)
