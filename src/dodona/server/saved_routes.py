"""What a person keeps on the page, over HTTP: for its person alone, whatever their role."""

import asyncio
from collections.abc import Callable
from typing import Annotated, TypeVar

from fastapi import APIRouter, Path, Request, Response
from fastapi.responses import JSONResponse

from dodona.server import models
from dodona.server.describing import Dataset, replies
from dodona.server.identity import NotAuthenticated, RoleMissing
from dodona.server.relay import note_of
from dodona.server.saved import LONGEST_NAME, SavedItems, SavedKind

router = APIRouter(tags=["saved"])
Result = TypeVar("Result")
Kind = Annotated[SavedKind, Path(description="notes, dashboards or asked.", examples=["notes"])]
SavedName = Annotated[
    str, Path(min_length=1, max_length=LONGEST_NAME, description="What it is saved under.", examples=["report"])
]
_SAVED = {"name": "report", "content": {"text": "for the yearly report"}, "changed": "2026-11-17T12:00:00+00:00"}


async def _with(
    request: Request, act: str, dataset: str, kind: SavedKind, work: Callable[[SavedItems], Result]
) -> Result:
    """Work on what the caller saved, without holding up other requests; it needs a role for the dataset."""
    identity = note_of(request, act, dataset).identity
    if identity is None:
        raise NotAuthenticated
    if identity.role(dataset) is None:
        raise RoleMissing("owner", "analyst", "auditor")
    items = SavedItems(request.app.state.accounts, identity.account, dataset, kind)
    return await asyncio.to_thread(work, items)


@router.get("/datasets/{dataset}/saved/{kind}", responses=replies({"saved": [_SAVED]}))
async def saved_list(request: Request, dataset: Dataset, kind: Kind) -> Response:
    """List the caller's notes, dashboards, or questions as they were asked."""
    entries = await _with(request, "saved_list", dataset, kind, lambda items: items.list())
    return JSONResponse({"saved": [entry.to_json() for entry in entries]})


@router.get("/datasets/{dataset}/saved/{kind}/{name}", responses=replies(_SAVED))
async def saved(request: Request, dataset: Dataset, kind: Kind, name: SavedName) -> Response:
    """Show one of them."""
    return JSONResponse((await _with(request, "saved", dataset, kind, lambda items: items.get(name))).to_json())


@router.put("/datasets/{dataset}/saved/{kind}/{name}", responses=replies(_SAVED))
async def save(request: Request, dataset: Dataset, kind: Kind, name: SavedName, body: models.SavedBody) -> Response:
    """Save one, in place of what was there. Nobody else can read it."""
    work = await _with(request, "save", dataset, kind, lambda items: items.put(name, dict(body.content)))
    return JSONResponse(work.to_json())


@router.delete("/datasets/{dataset}/saved/{kind}/{name}", status_code=204, responses=replies(None, status=204))
async def forget(request: Request, dataset: Dataset, kind: Kind, name: SavedName) -> Response:
    """Remove one."""
    await _with(request, "forget", dataset, kind, lambda items: items.delete(name))
    return Response(status_code=204)
