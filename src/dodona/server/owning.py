"""Acts of owners: the budget, the analysts, drafts and exact checks. They are taken on the owners' socket alone."""

import dataclasses
from typing import cast

from dodona.errors import InvalidArgument
from dodona.numbers import Exact
from dodona.privacy.budget import Analyst
from dodona.server.asking import allowed_price, capped, expect
from dodona.server.calls import ActCall
from dodona.server.link import Reply
from dodona.server.reading import json_reply


def raise_budget(call: ActCall) -> Reply:
    """Allow a larger total; what is left out stays as it is."""
    arguments = expect(call, "epsilon", "delta")
    ledger = call.opened.dataset.ledger
    before = ledger.state().total
    epsilon, delta = arguments.get("epsilon"), arguments.get("delta")
    if epsilon is None and delta is None:
        raise InvalidArgument("epsilon", None, "write epsilon, delta or both")
    ledger.raise_budget(before.epsilon if epsilon is None else epsilon, before.delta if delta is None else delta)
    return json_reply(ledger.state().to_json())


def close(call: ActCall) -> Reply:
    """End the account for ever; earlier answers can still be asked again."""
    expect(call)
    ledger = call.opened.dataset.ledger
    ledger.end()
    return json_reply(ledger.state().to_json())


def admit(call: ActCall) -> Reply:
    """Let an analyst in, or back in, or change their share."""
    arguments = expect(call, "analyst", "share")
    ledger = call.opened.dataset.ledger
    ledger.admit(
        Analyst(_name(arguments.get("analyst")), "1" if arguments.get("share") is None else arguments["share"])
    )
    return json_reply(ledger.state().to_json())


def stop(call: ActCall) -> Reply:
    """Let an analyst spend no more."""
    arguments = expect(call, "analyst")
    ledger = call.opened.dataset.ledger
    ledger.stop(_name(arguments.get("analyst")))
    return json_reply(ledger.state().to_json())


def confirm(call: ActCall) -> Reply:
    """Confirm what a draft took from the data, in the name of the caller; it is served from then on."""
    from dodona.dataset.changes import confirm as confirm_draft
    from dodona.dataset.changes import pending_review

    expect(call)
    path = call.datasets.path(call.dataset)
    items = pending_review(path)
    if items:
        confirm_draft(path, by=call.caller.name)
    return json_reply({"confirmed": [{"name": item.name, "value": item.value} for item in items]})


def check(call: ActCall) -> Reply:
    """Return exact counts of the rows, with advice. For owners alone: this is not private."""
    from dodona.dataset.check import check as check_rows
    from dodona.dataset.check import hints

    expect(call)
    file, counts = check_rows(call.datasets.path(call.dataset))
    figures = dataclasses.asdict(counts) | {"cut": counts.cut}
    private = "PRIVATE: exact counts of the data; for the owner alone."
    return json_reply({"private": private} | figures | {"hints": list(hints(file, counts))})


def publish(call: ActCall) -> Reply:
    """Release a noisy count of the rows that the cap leaves out, charged to the caller; answers then mention it."""
    from dodona.dataset.check import publish as publish_left_out

    arguments = expect(call, "epsilon", "max_price")
    if "epsilon" not in arguments:
        raise InvalidArgument("epsilon", None, "say what the figure may cost alone, such as 0.1")
    with capped(call):
        published = publish_left_out(
            call.datasets.path(call.dataset),
            epsilon=cast("Exact", arguments["epsilon"]),
            analyst=call.caller.name,
            max_price=allowed_price(call),
            key=call.key,
        )
    call.datasets.reopen(call.dataset)
    return json_reply({"left_out": published.words, "price": {"share": str(published.price)}})


def _name(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidArgument("analyst", value, "write the name of an analyst")
    return value
