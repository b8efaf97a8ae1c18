"""What analysts may ask for over HTTP. Each address is one act of the core; spending acts need a key."""

from http import HTTPStatus
from typing import Annotated
from urllib.parse import quote as quote_text

from fastapi import APIRouter, Query, Request, Response

from dodona.server import models
from dodona.server.describing import Dataset, Key, PathKey, ViewQuery, replies
from dodona.server.identity import EVERY_DATASET, Identity
from dodona.server.relay import ARROW, CSV, EVENTS, JSON, PARQUET, TABLES, Relay

router = APIRouter()

_ANSWER = {
    "question": "SELECT sex, count(*) FROM stays WHERE age >= 65 GROUP BY sex",
    "columns": ["sex", "count"],
    "rows": [["female", {"value": 12044, "low": 11944, "high": 12144}]],
    "source": "measured",
    "price": {"share": "61/5000", "epsilon": 0.0958},
}
_OFFER = {"price": {"share": "61/5000", "epsilon": 0.0958}, "source": "measured"}


def _relay(request: Request) -> Relay:
    relay: Relay = request.app.state.relay
    return relay


def visible(request: Request) -> list[str] | None:
    """Return the names of the datasets that the caller has a role for; None for all."""
    identity: Identity = request.scope["note"].identity
    named = set(identity.grants) - {EVERY_DATASET}
    if EVERY_DATASET in identity.grants:
        return None if identity.datasets is None else sorted(identity.datasets)
    return sorted(named if identity.datasets is None else named & identity.datasets)


# --- Asking: the busiest address comes first, as addresses are tried in order. ---


@router.post("/datasets/{dataset}/answers", tags=["asking"], responses=replies(_ANSWER, kinds=TABLES))
async def ask(request: Request, dataset: Dataset, body: models.AskBody, key: Key) -> Response:
    """Answer a question: free if it was answered before or follows from earlier answers, otherwise charged."""
    return await _relay(request).call(request, "ask", dataset, body.arguments() | {"key": key}, offered=TABLES)


# --- What there is. ---


@router.get("/datasets", tags=["datasets"], responses=replies({"datasets": [{"dataset": "hospital-stays"}]}))
async def datasets(request: Request) -> Response:
    """List the datasets that the caller has a role for."""
    return await _relay(request).call(request, "datasets", None, {"only": visible(request)})


@router.get("/datasets/{dataset}", tags=["datasets"], responses=replies({"dataset": "hospital-stays", "columns": []}))
async def describe(request: Request, dataset: Dataset) -> Response:
    """Describe a dataset: columns with labels, bounds and meanings, who is protected, the defaults and the limits."""
    return await _relay(request).call(request, "describe", dataset, {})


@router.get(
    "/datasets/{dataset}/preview",
    tags=["datasets"],
    responses=replies({"made_up": True, "rows": [{"sex": "female", "age": 37, "admitted": "2025-03-01"}]}),
)
async def preview(request: Request, dataset: Dataset) -> Response:
    """Show made-up rows, where the owner allows it: they follow from the schema alone."""
    return await _relay(request).call(request, "preview", dataset, {})


@router.get(
    "/datasets/{dataset}/budget", tags=["datasets"], responses=replies({"spent": "61/5000", "left": "4939/5000"})
)
async def budget(request: Request, dataset: Dataset) -> Response:
    """Show what was spent, what is left, and what is left for the caller."""
    return await _relay(request).call(request, "budget", dataset, {})


@router.get("/datasets/{dataset}/history", tags=["datasets"], responses=replies({"charges": []}))
async def history(
    request: Request,
    dataset: Dataset,
    after: Annotated[int, Query(ge=0, le=2**53, description="Show charges after this one.")] = 0,
    limit: Annotated[int, Query(ge=1, le=1000, description="How many charges to show.")] = 100,
) -> Response:
    """Show what was charged. An analyst sees the texts of the account's charges, and time and share of all others."""
    return await _relay(request).call(request, "history", dataset, {"after": after, "limit": limit})


@router.get("/datasets/{dataset}/ledger", tags=["datasets"], responses=replies({"head": "5f0c…", "entries": 12}))
async def ledger(request: Request, dataset: Dataset) -> Response:
    """Show the head of the ledger's hash chain and the number of its entries."""
    return await _relay(request).call(request, "ledger", dataset, {})


@router.post(
    "/datasets/{dataset}/ledger/verification", tags=["datasets"], responses=replies({"verified": True, "entries": 12})
)
async def verify(request: Request, dataset: Dataset) -> Response:
    """Verify the whole chain of the ledger, from its first entry."""
    return await _relay(request).call(request, "verify", dataset, {})


@router.get(
    "/datasets/{dataset}/ledger/entries",
    tags=["datasets"],
    responses=replies({"entries": [{"number": 0, "hash": "5f0c…", "text": None}], "total": 12, "next": None}),
)
async def entries(
    request: Request,
    dataset: Dataset,
    after: Annotated[int, Query(ge=0, le=2**53, description="Show entries from this number on.")] = 0,
    limit: Annotated[int, Query(ge=1, le=1000, description="How many entries to show.")] = 100,
) -> Response:
    """Show entries of the ledger, for auditors and owners to compute the chain again.

    A hash is the SHA-256 of the one before, a line feed and the text. The first entry is its hash alone: its text has
    the key that chooses which rows of a person count.
    """
    return await _relay(request).call(request, "entries", dataset, {"after": after, "limit": limit})


# --- Asking in other ways. ---


@router.post("/datasets/{dataset}/quotes", tags=["asking"], responses=replies(_OFFER))
async def quote(request: Request, dataset: Dataset, body: models.QuoteBody) -> Response:
    """Price a question, or several together, and predict the accuracy. Nothing is spent."""
    return await _relay(request).call(request, "quote", dataset, body.arguments())


@router.post("/datasets/{dataset}/rehearsals", tags=["asking"], responses=replies(_ANSWER, kinds=TABLES))
async def rehearse(request: Request, dataset: Dataset, body: models.RehearseBody) -> Response:
    """Answer a question on made-up rows. Nothing is spent, and the reply does not depend on the data."""
    return await _relay(request).call(request, "rehearse", dataset, body.arguments(), offered=TABLES)


@router.get("/datasets/{dataset}/answers/{key:path}", tags=["asking"], responses=replies(_ANSWER, kinds=TABLES))
async def recall(
    request: Request,
    dataset: Dataset,
    key: PathKey,
    view: ViewQuery = "single",
    confidence: Annotated[float | None, Query(gt=0, lt=1, description="The confidence of each interval.")] = None,
) -> Response:
    """Show again what the caller bought under a key. Free."""
    arguments: dict[str, object] = {"key": key, "view": view}
    if confidence is not None:
        arguments["confidence"] = confidence
    return await _relay(request).call(request, "recall", dataset, arguments, offered=TABLES)


@router.post(
    "/datasets/{dataset}/batches", tags=["asking"], responses=replies({"answers": [_ANSWER]}, kinds=(JSON, EVENTS))
)
async def batch(request: Request, dataset: Dataset, body: models.BatchBody, key: Key) -> Response:
    """Answer questions together, for one charge: all or none.

    With `Accept: text/event-stream` it sends `progress` events, then one `answers` or `problem` event.
    """
    arguments = body.arguments() | {"key": key}
    return await _relay(request).call(request, "batch", dataset, arguments, offered=(JSON, EVENTS))


@router.post("/datasets/{dataset}/workloads", tags=["asking"], responses=replies({"bought": "residuals"}))
async def prepare(request: Request, dataset: Dataset, body: models.PrepareBody, key: Key) -> Response:
    """Buy the cheapest measurement that all questions follow from; they are then free."""
    return await _relay(request).call(request, "prepare", dataset, body.arguments() | {"key": key})


@router.post("/datasets/{dataset}/choices", tags=["asking"], responses=replies({"names": ["childbirth"]}))
async def choose(request: Request, dataset: Dataset, body: models.ChooseBody, key: Key) -> Response:
    """Name the groups with the largest answers, without the answers."""
    return await _relay(request).call(request, "choose", dataset, body.arguments() | {"key": key})


# --- Watches, weights, synthetic releases. ---


@router.post(
    "/datasets/{dataset}/watches", tags=["watches"], status_code=201, responses=replies({"left": 2}, status=201)
)
async def watch_open(request: Request, dataset: Dataset, body: models.WatchBody, key: Key) -> Response:
    """Open a watch, charged in full here; the key is its name."""
    return await _relay(request).call(request, "watch_open", dataset, body.arguments() | {"key": key})


@router.post("/datasets/{dataset}/watches/{key:path}/questions", tags=["watches"], responses=replies({"above": True}))
async def watch_ask(request: Request, dataset: Dataset, key: PathKey, body: models.WatchQuestionBody) -> Response:
    """Compare a count with the watch's threshold."""
    return await _relay(request).call(request, "watch_ask", dataset, body.arguments() | {"key": key})


@router.get("/datasets/{dataset}/watches/{key:path}", tags=["watches"], responses=replies({"left": 2}))
async def watch(request: Request, dataset: Dataset, key: PathKey) -> Response:
    """Show how many alerts and questions a watch has left."""
    return await _relay(request).call(request, "watch", dataset, {"key": key})


@router.post("/datasets/{dataset}/weights", tags=["asking"], responses=replies({"answers": [], "within": 120.0}))
async def weights(request: Request, dataset: Dataset, body: models.WeightsBody, key: Key) -> Response:
    """Answer very many counts for one charge, by multiplicative weights over some columns."""
    return await _relay(request).call(request, "weights", dataset, body.arguments() | {"key": key})


@router.post(
    "/datasets/{dataset}/releases",
    tags=["releases"],
    status_code=202,
    responses=replies({"state": "running"}, status=202) | replies({"state": "done"}),
)
async def synthesize(request: Request, dataset: Dataset, body: models.SynthesizeBody, key: Key) -> Response:
    """Start a synthetic release. It goes on after the reply; `Location` says where to look."""
    reply = await _relay(request).call(request, "synthesize", dataset, body.arguments() | {"key": key})
    if reply.status_code in {HTTPStatus.OK, HTTPStatus.ACCEPTED}:
        reply.headers["location"] = f"{request.url.path}/{quote_text(key, safe='')}"
    return reply


@router.get(
    "/datasets/{dataset}/releases/{key:path}/rows",
    tags=["releases"],
    responses=replies({}, kinds=(CSV, PARQUET, ARROW)),
)
async def release_rows(request: Request, dataset: Dataset, key: PathKey) -> Response:
    """Fetch the made-up rows of a finished release."""
    return await _relay(request).call(request, "release_rows", dataset, {"key": key}, offered=(CSV, PARQUET, ARROW))


@router.get(
    "/datasets/{dataset}/releases/{key:path}",
    tags=["releases"],
    responses=replies({"state": "running", "progress": 0.4}),
)
async def release(request: Request, dataset: Dataset, key: PathKey) -> Response:
    """Show the progress of a release."""
    return await _relay(request).call(request, "release", dataset, {"key": key})


# --- Requests for approval. ---


@router.get("/datasets/{dataset}/requests", tags=["approvals"], responses=replies({"requests": []}))
async def requests(request: Request, dataset: Dataset) -> Response:
    """List requests for approval: an analyst's, or all of them for an owner."""
    return await _relay(request).call(request, "requests", dataset, {})


@router.post(
    "/datasets/{dataset}/requests",
    tags=["approvals"],
    status_code=201,
    responses=replies({"id": "1", "key": "stays-1", "state": "waiting"}, status=201),
)
async def request_approval(request: Request, dataset: Dataset, body: models.RequestBody, key: Key) -> Response:
    """Ask an owner to allow a question that is over a cap; the key is the one that it will be asked with."""
    return await _relay(request).call(request, "request", dataset, body.arguments() | {"key": key})
