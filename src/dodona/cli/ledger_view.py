"""A ledger as people and programs read it: tables, and one JSON object."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from fractions import Fraction

from rich.markup import escape
from rich.table import Table

from dodona.accounting.record import to_json
from dodona.errors import printable
from dodona.exact import percent
from dodona.ledger.pot import OpenedPlan, in_words
from dodona.ledger.state import BudgetState, PotState

_LAST = 8
_LONGEST_KEY = 40


def figures(state: BudgetState) -> dict[str, object]:
    """Return the state as one JSON object."""
    return {
        "epsilon": str(state.total.epsilon),
        "delta": str(state.total.delta),
        "accountant": state.total.accountant.value,
        "plans": [str(part) for part in state.total.plans],
        "plans_taken": [str(state.pot.taken.epsilon), str(state.pot.taken.delta)],
        "plans_left": [str(state.pot.left.epsilon), str(state.pot.left.delta)],
        "open_plans": [_plan_figures(plan) for plan in state.pot.plans],
        "spent": str(state.spent),
        "left": str(state.left),
        "epsilon_spent": state.epsilon_spent,
        "charges": state.charges,
        "releases": state.releases,
        "analysts": [
            {"name": one.name, "share": str(one.share), "spent": str(one.spent), "left": str(one.left)}
            | {"plans": [str(one.plans.epsilon), str(one.plans.delta)], "stopped": one.stopped}
            for one in state.analysts
        ],
        "closed": state.closed,
        "recovered": state.recovered,
        "head": state.head,
    }


def _plan_figures(plan: OpenedPlan) -> dict[str, object]:
    return {
        "id": plan.id,
        "analyst": plan.analyst,
        "key": plan.key,
        "epsilon": str(plan.cost.epsilon),
        "delta": str(plan.cost.delta),
        "left": [[json.loads(to_json(event)), times] for event, times in plan.left],
    }


def tables(state: BudgetState, texts: list[str]) -> Iterator[Table]:
    """Yield the state and the last of the lines as tables."""
    total = state.total
    budget = Table(title="Budget", title_justify="left", show_header=False)
    budget.add_row("total", f"ε = {total.epsilon}, δ = {float(total.delta):g}, {total.accountant.value}")
    if any(total.plans):
        pot = state.pot
        shown = [_shown(pair.epsilon, pair.delta) for pair in (pot.total, pot.taken, pot.left)]
        budget.add_row("for plans", "{} of it; taken {}; left {}".format(*shown))
    budget.add_row("spent", f"{percent(state.spent)}; ε so far, whenever you stop: {state.epsilon_spent:.3g}")
    budget.add_row("left", percent(state.left))
    budget.add_row("charges, releases", f"{state.charges:,}, {state.releases:,}")
    if state.closed or state.recovered:
        budget.add_row("state", " and ".join(["closed"] * state.closed + ["recovered"] * state.recovered))
    budget.add_row("head", state.head)
    yield budget
    if state.analysts:
        analysts = Table("analyst", "share", "spent of it", "left of it", "", title="Analysts", title_justify="left")
        for one in state.analysts:
            stopped = "stopped" if one.stopped else ""
            analysts.add_row(_clean(one.name), str(one.share), percent(one.spent), percent(one.left), stopped)
        yield analysts
    if state.pot.plans:
        yield _plans(state.pot)
    if not texts:
        return
    entries = Table("line", "time", "entry", "what", title=f"Last of {len(texts):,} lines", title_justify="left")
    for text in texts[-_LAST:]:
        fields = json.loads(text)
        what = _WHAT[fields["entry"]](fields) if fields["entry"] in _WHAT else ""
        entries.add_row(*map(_clean, (str(fields["number"]), fields["time"][:19], fields["entry"], what)))
    yield entries


def _plans(pot: PotState) -> Table:
    plans = Table("plan", "analyst", "key", "price", "left of it", title="Open plans", title_justify="left")
    for plan in pot.plans:
        price = _shown(plan.cost.epsilon, plan.cost.delta)
        plans.add_row(f"{plan.id[:12]}…", _clean(plan.analyst or "anyone"), _key(plan.key), price, in_words(plan.left))
    return plans


_WHAT: dict[str, Callable[[dict[str, object]], str]] = {
    "created": lambda fields: _earlier(fields.get("earlier")),
    "charged": lambda fields: (
        f"{fields['analyst'] or 'anyone'} on {fields['dataset']}, {_event(fields['event'])}{_served(fields)}"
    ),
    "opened": lambda fields: f"{fields['analyst'] or 'anyone'}, {_shown(*map(Fraction, _price(fields)))}",
    "unanswered": lambda fields: f"receipt {str(fields['receipt'])[:12]}…, to be used again",
    "armed": lambda fields: f"receipt {str(fields['receipt'])[:12]}…, for one more alert",
    "redeemed": lambda fields: f"receipt {str(fields['receipt'])[:12]}…",
    "released": lambda fields: f"receipt {str(fields['receipt'])[:12]}…, {fields['mechanism']}",
    "raised": lambda fields: f"ε = {fields['epsilon']}, δ = {fields['delta']}",
    "recovered": lambda fields: f"ε = {fields['epsilon']}, δ = {fields['delta']}",
    "admitted": lambda fields: f"{fields['analyst']}, {fields['share']}",
    "stopped": lambda fields: str(fields["analyst"]),
    "declared": lambda fields: str(fields["dataset"]),
}


def _earlier(listed: object) -> str:
    """Return what was spent before there was a ledger."""
    if not isinstance(listed, list):
        return ""
    return "spent before: " + "; ".join(f"{purpose}, {_event(event)}" for purpose, event in listed)


def _event(fields: object) -> str:
    """Return an event in a few words: its kind, and its numbers without the relation."""
    if not isinstance(fields, dict):
        return ""
    numbers = [f"{name} {value}" for name, value in fields.items() if name not in {"event", "neighbours", "parts"}]
    return " ".join([str(fields["event"]), *numbers])


def _served(fields: dict[str, object]) -> str:
    return f", plan {str(fields['plan'])[:12]}…" if "plan" in fields else ""


def _price(fields: dict[str, object]) -> tuple[str, str]:
    return str(fields["epsilon"]), str(fields["delta"])


def _shown(epsilon: Fraction, delta: Fraction) -> str:
    return f"ε = {float(epsilon):.4g}, δ = {float(delta):.4g}"


def _key(key: str | None) -> str:
    """Return a key as it can be shown: analysts may write anything there."""
    if key is None:
        return ""
    text = printable(key)
    return escape(text if len(text) <= _LONGEST_KEY else f"{text[: _LONGEST_KEY - 1]}…")


def _clean(text: str) -> str:
    """Return a text of others as a table can show it."""
    return escape(printable(text))
