"""A new dataset over HTTP, for owners of all datasets: a draft reads whatever table of the server it names."""

from fastapi import APIRouter, Request, Response

from dodona.server import models
from dodona.server.describing import Dataset, replies
from dodona.server.identity import EVERY_DATASET, Identity, NotAuthenticated, RoleMissing
from dodona.server.relay import Relay

router = APIRouter(tags=["drafts"])
_DRAFT = {
    "private": "PRIVATE: …",
    "text": "format = 1\n…",
    "review": [{"name": "columns.age.upper", "value": "110", "line": 20}],
}


async def _call(request: Request, act: str, dataset: str, arguments: dict[str, object]) -> Response:
    identity: Identity | None = request.scope["note"].identity
    if identity is None:
        raise NotAuthenticated
    if not identity.manages_accounts:
        raise RoleMissing("owner of all datasets")
    relay: Relay = request.app.state.relay
    return await relay.call(request, act, dataset, arguments)


@router.get("/drafts", responses=replies({"files": [{"name": "stays.parquet", "bytes": 120_000}], "drafts": []}))
async def drafts(request: Request) -> Response:
    """List the tables that can be drafted, and drafts that await review. For owners of all datasets."""
    return await _call(request, "drafts", EVERY_DATASET, {})


@router.post("/drafts/{dataset}", status_code=201, responses=replies(_DRAFT, status=201))
async def draft(request: Request, dataset: Dataset, body: models.DraftBody) -> Response:
    """Draft a dataset file from a table. The rows are read, for the owner alone. For owners of all datasets."""
    return await _call(request, "draft", dataset, body.arguments())


@router.get("/drafts/{dataset}", responses=replies(_DRAFT))
async def draft_show(request: Request, dataset: Dataset) -> Response:
    """Show a draft, and what in it came from the rows. For owners of all datasets."""
    return await _call(request, "draft_show", dataset, {})


@router.put("/drafts/{dataset}/values", responses=replies(_DRAFT))
async def draft_values(request: Request, dataset: Dataset, body: models.DraftValuesBody) -> Response:
    """Correct values that came from the rows, before they are confirmed. For owners of all datasets."""
    return await _call(request, "draft_values", dataset, body.arguments())


@router.post("/drafts/{dataset}/ledger", status_code=201, responses=replies({"created": "stays"}, status=201))
async def ledger_create(request: Request, dataset: Dataset) -> Response:
    """Create the ledger of a confirmed dataset. One that exists is never touched. For owners of all datasets."""
    return await _call(request, "ledger_create", dataset, {})
