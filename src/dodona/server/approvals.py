"""Acts on the owner's limits, and on requests to approve a question above them."""

from dodona.errors import InvalidArgument
from dodona.ledger.limits import make_limits
from dodona.server.acts import ANALYST, BadCall
from dodona.server.asking import curator_of, expect, text, texts, wishes
from dodona.server.calls import ActCall
from dodona.server.link import Reply
from dodona.server.reading import json_reply, permitted

_LIMITS = ("question", "analyst_day", "dataset_day", "approvals")


def requests(call: ActCall) -> Reply:
    """Return the requests for approval, oldest first; an analyst sees their own."""
    expect(call)
    analyst = call.caller.name if call.caller.role == ANALYST else None
    listed = permitted(call).dataset.ledger.approval_requests()
    requests = [request for request in listed if request.dataset == call.dataset and analyst in {None, request.analyst}]
    return json_reply({"requests": [request.to_json() for request in requests]})


def request(call: ActCall) -> Reply:
    """Ask the owner to approve a question above a limit; the key is the one that it will be asked with."""
    arguments = expect(call, "question", "questions", "within", "confidence", "epsilon")
    if ("question" in arguments) == ("questions" in arguments):
        raise BadCall("Write either a question, or questions.")
    asked = (
        text(arguments["question"]) if "question" in arguments else texts(arguments["questions"], argument="questions")
    )
    accuracy = wishes(call, "within", "confidence", "epsilon")
    return json_reply(curator_of(call).request_approval(asked, key=call.key, **accuracy).to_json(), status=201)


def decide(call: ActCall) -> Reply:
    """Grant or decline a request, once; the owner's name is recorded."""
    arguments = expect(call, "request", "grant")
    if type(arguments.get("grant")) is not bool:
        raise InvalidArgument("grant", arguments.get("grant"), "write true or false")
    ledger = call.opened.dataset.ledger
    decided = ledger.decide(
        text(arguments.get("request"), argument="request"), granted=arguments["grant"], by=call.caller.name
    )
    return json_reply(decided.to_json())


def limits(call: ActCall) -> Reply:
    """Set other limits on spending; what is left out has no limit from now on."""
    arguments = expect(call, *_LIMITS)
    approvals = arguments.get("approvals", False)
    if type(approvals) is not bool:
        raise InvalidArgument("approvals", approvals, "write true or false")
    shares = {name: arguments.get(name) for name in _LIMITS[:-1]}
    ledger = call.opened.dataset.ledger
    ledger.set_limits(make_limits(**shares, approvals=approvals))
    return json_reply(ledger.limits.to_json())
