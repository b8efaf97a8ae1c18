"""The page: a few files, kept in memory. No script or style is inline, so that the security policy can forbid it."""

from importlib import resources

from fastapi import APIRouter, Request, Response

from dodona.server.relay import note_of

router = APIRouter(include_in_schema=False)
_FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
}


def _serve(path: str, name: str, media_type: str) -> None:
    content = resources.files("dodona.server").joinpath("page", name).read_bytes()

    async def file(request: Request) -> Response:
        note_of(request, "page")
        return Response(content, media_type=media_type)

    router.add_api_route(path, file, methods=["GET"], name=name)


for _path, (_name, _media_type) in _FILES.items():
    _serve(_path, _name, _media_type)


@router.get("/favicon.ico")
async def no_icon(request: Request) -> Response:
    """Say that there is no icon, without a line about an error in every log."""
    note_of(request, "page")
    return Response(status_code=204)
