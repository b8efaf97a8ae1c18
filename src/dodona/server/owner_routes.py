"""What owners may do over HTTP, on a port of its own: the analysts' port does not have these addresses."""

from fastapi import APIRouter, Request, Response

from dodona.server import models
from dodona.server.describing import Dataset, Identifier, Key, Person, replies
from dodona.server.relay import Relay

router = APIRouter(tags=["owner"])
_STATE = {
    "epsilon": "2",
    "delta": "1/1000000",
    "spent": "61/5000",
    "left": "4939/5000",
    "analysts": [],
    "closed": False,
}


def _relay(request: Request) -> Relay:
    relay: Relay = request.app.state.relay
    return relay


@router.post("/datasets/{dataset}/budget", responses=replies(_STATE))
async def raise_budget(request: Request, dataset: Dataset, body: models.BudgetBody) -> Response:
    """Raise the budget. It is never lowered."""
    return await _relay(request).call(request, "raise", dataset, body.arguments())


@router.post("/datasets/{dataset}/close", responses=replies(_STATE))
async def close(request: Request, dataset: Dataset) -> Response:
    """Close the dataset for ever: nothing can be charged afterwards; what was released stays free."""
    return await _relay(request).call(request, "close", dataset, {})


@router.put("/datasets/{dataset}/analysts/{name}", responses=replies(_STATE))
async def admit(request: Request, dataset: Dataset, name: Person, body: models.AdmitBody) -> Response:
    """Admit an analyst, or change the share."""
    return await _relay(request).call(request, "admit", dataset, body.arguments() | {"analyst": name})


@router.delete("/datasets/{dataset}/analysts/{name}", responses=replies(_STATE))
async def stop(request: Request, dataset: Dataset, name: Person) -> Response:
    """Stop an analyst: no further charges in this name."""
    return await _relay(request).call(request, "stop", dataset, {"analyst": name})


@router.post(
    "/datasets/{dataset}/confirmation",
    responses=replies({"confirmed": [{"name": "columns.stay.upper", "value": "365"}]}),
)
async def confirm(request: Request, dataset: Dataset) -> Response:
    """Confirm a draft: all that was taken from the rows was reviewed."""
    return await _relay(request).call(request, "confirm", dataset, {})


@router.post("/datasets/{dataset}/checks", responses=replies({"rows": 200_000, "cut": 1200}))
async def check(request: Request, dataset: Dataset) -> Response:
    """Count how the declarations affect the rows. Exact, and for the owner alone."""
    return await _relay(request).call(request, "check", dataset, {})


@router.post(
    "/datasets/{dataset}/publications",
    responses=replies({"left_out": "The cap leaves out about 1,200 rows (±90).", "price": {"share": "1/50"}}),
)
async def publish(request: Request, dataset: Dataset, body: models.PublishBody, key: Key) -> Response:
    """Buy and publish a noisy count of the rows that the cap leaves out; answers mention it. The owner is charged."""
    return await _relay(request).call(request, "publish", dataset, body.arguments() | {"key": key})


@router.put("/datasets/{dataset}/limits", responses=replies({"question": "5%", "approvals": True}))
async def limits(request: Request, dataset: Dataset, body: models.LimitsBody) -> Response:
    """Set caps on spending. Caps that are not given are removed."""
    return await _relay(request).call(request, "limits", dataset, body.arguments())


@router.post("/datasets/{dataset}/requests/{identifier}/decision", responses=replies({"state": "granted"}))
async def decide(request: Request, dataset: Dataset, identifier: Identifier, body: models.DecisionBody) -> Response:
    """Grant or decline a request for approval, once."""
    return await _relay(request).call(request, "decide", dataset, body.arguments() | {"request": identifier})
