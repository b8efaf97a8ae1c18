"""How the addresses are described in OpenAPI: parameters, replies with examples, errors, and how to authenticate."""

from typing import Annotated, Any

from fastapi import FastAPI, Header, Path, Query
from fastapi.openapi.utils import get_openapi

from dodona.server import problems
from dodona.server.models import View
from dodona.server.relay import ARROW, CSV, EVENTS, JSON, PARQUET

Dataset = Annotated[
    str, Path(min_length=1, max_length=200, description="The dataset's name.", examples=["hospital-stays"])
]
Person = Annotated[str, Path(min_length=1, max_length=200, description="The account's name.", examples=["ada"])]
PathKey = Annotated[
    str, Path(min_length=1, max_length=200, description="The key of the request that paid.", examples=["stays-1"])
]
Identifier = Annotated[str, Path(min_length=1, max_length=200, description="An id from the list.", examples=["1"])]
Key = Annotated[
    str,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=200,
        pattern=r"^[\x20-\x7e]+$",
        description="A name for this request, 1 to 200 printable characters. A repetition under the same key is "
        "answered again and charged once.",
        examples=["stays-1"],
    ),
]
ViewQuery = Annotated[View, Query(description="Which intervals the reply shows.")]

_SAMPLES: dict[str, Any] = {
    CSV: "sex,count,count_low,count_high\nfemale,12044,11944,12144\n",
    EVENTS: 'event: progress\ndata: {"done": 1, "of": 2}\n\nevent: answers\ndata: {"answers": []}\n\n',
}
_BINARY = {"schema": {"type": "string", "format": "binary"}}
_PROBLEM = {
    "type": "object",
    "required": ["type", "title", "status", "detail", "charged"],
    "properties": {
        "type": {"type": "string", "description": "/errors/ and the code of the error."},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "charged": {
            "type": ["boolean", "null"],
            "description": "Whether a charge stands. Null: not known here; asking again with the key tells.",
        },
    },
}
_ERRORS = {
    400: "The request is wrong, and the detail says what to write instead.",
    401: "There is no valid token.",
    403: "The policy, the budget or the account's role forbids it.",
    404: "There is nothing at this address.",
    405: "The address does not take this method.",
    406: "The header Accept excludes all that can be sent.",
    408: "The request did not arrive in time.",
    409: "It contradicts what there is already.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    429: "Too many requests at once, or too many failed attempts.",
    500: "A bug of the server.",
    503: "A failure on the server's side. Ask again with the same key.",
}


def replies(example: object, *, status: int = 200, kinds: tuple[str, ...] = (JSON,)) -> dict[int | str, dict[str, Any]]:
    """Return the description of what an address replies."""
    content: dict[str, Any] = {}
    for kind in kinds:
        if kind == JSON:
            content[kind] = {"schema": {"type": ["object", "array"]}, "example": example}
        elif kind in {ARROW, PARQUET}:
            content[kind] = dict(_BINARY)
        else:
            content[kind] = {"schema": {"type": "string"}, "example": _SAMPLES[kind]}
    if status == 204:  # noqa: PLR2004  no content
        return {204: {"description": "Done."}}
    return {status: {"description": "The reply.", "content": content}}


def describe(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document of an application: with our errors, and with the two ways to authenticate."""
    document = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes, openapi_version="3.1.0"
    )
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    schemas["Problem"] = _PROBLEM
    document["components"]["securitySchemes"] = {
        "token": {"type": "http", "scheme": "bearer", "description": "A token of an account."},
        "session": {"type": "apiKey", "in": "cookie", "name": "__Host-dodona", "description": "The page's session."},
    }
    for path in document["paths"].values():
        for operation in path.values():
            _finish(operation)
    return document


def _finish(operation: dict[str, Any]) -> None:
    responses = operation["responses"]
    responses.pop("422", None)
    for reply in responses.values():  # the framework says JSON of any form wherever it was told of no other JSON
        if reply.get("content", {}).get(JSON) == {"schema": {}}:
            del reply["content"][JSON]
    for status, meaning in _ERRORS.items():
        content = {problems.MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
        responses.setdefault(str(status), {"description": meaning, "content": content})
    operation["responses"] = dict(sorted(responses.items()))
    if "open" not in operation.get("tags", ()):
        operation["security"] = [{"token": []}, {"session": []}]
