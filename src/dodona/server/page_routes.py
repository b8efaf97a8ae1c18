"""The page: a few files, kept in memory. No script or style is inline, so that the security policy can forbid it."""

import gzip
import re
from importlib import resources

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from dodona import __version__
from dodona.server.doorkeeper import session_text
from dodona.server.problems import UnknownAddress
from dodona.server.relay import note_of

router = APIRouter(include_in_schema=False)
_FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
    "/page.licences.txt": ("page.licences.txt", "text/plain; charset=utf-8"),
}
_FOLDER = resources.files("dodona.server").joinpath("page")
_THEOREM = re.compile(r"[a-z0-9-]{1,60}", re.ASCII)


def _serve(path: str, name: str, media_type: str) -> None:
    content = _FOLDER.joinpath(name).read_bytes()
    packed = gzip.compress(content, 9, mtime=0)

    async def file(request: Request) -> Response:
        note_of(request, "page")
        if "gzip" not in request.headers.get("accept-encoding", ""):
            return Response(content, media_type=media_type)
        return Response(packed, media_type=media_type, headers={"content-encoding": "gzip", "vary": "accept-encoding"})

    router.add_api_route(path, file, methods=["GET"], name=name)


for _path, (_name, _media_type) in _FILES.items():
    _serve(_path, _name, _media_type)


@router.get("/page.json")
async def facts(request: Request) -> Response:
    """Say what the page has to know before anybody logs in; none of it is secret."""
    note_of(request, "page")
    state = request.app.state
    facts = {"door": state.door, "demo": state.demo, "login": state.provider is not None, "version": __version__}
    return JSONResponse(facts | {"session": session_text(request.scope) is not None})


@router.get("/theory/{name}.md")
async def theory(request: Request, name: str) -> Response:
    """Send the page of a theorem, as it is in the documentation."""
    note_of(request, "page")
    page = _FOLDER.joinpath("theory", f"{name}.md")
    if _THEOREM.fullmatch(name) is None or not page.is_file():
        raise UnknownAddress
    return Response(page.read_bytes(), media_type="text/markdown; charset=utf-8")


@router.get("/favicon.ico")
async def no_icon(request: Request) -> Response:
    """Say that there is no such icon, without a line about an error in every log."""
    note_of(request, "page")
    return Response(status_code=204)
