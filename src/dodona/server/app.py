"""The HTTP application of a door: its addresses, its errors and its description."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from pydantic.fields import FieldInfo
from starlette.exceptions import HTTPException
from starlette.routing import Route

from dodona import __version__
from dodona.errors import DodonaError, InvalidRequest
from dodona.server import (
    account_routes,
    analyst_routes,
    draft_routes,
    owner_routes,
    page_routes,
    problems,
    saved_routes,
    session_routes,
)
from dodona.server.accounts import Accounts
from dodona.server.agents.http import PATH, AgentsDoor
from dodona.server.agents.spending import AgentCaps
from dodona.server.describing import describe
from dodona.server.doorkeeper import PREFIX, Doorkeeper
from dodona.server.guard import App, ClientLimits, Guard
from dodona.server.link import CoreLink, KeyMissing
from dodona.server.metrics import Metrics
from dodona.server.oidc import Provider, ProviderSettings
from dodona.server.relay import Relay, note_of
from dodona.server.sessions import Logins, Sessions
from dodona.server.settings import DoorName

_ABOUT = {
    "analysts": "Ask questions of datasets that only the server holds. Answers are noisy, with honest error bars, and "
    "every call that spends takes an idempotency key: repeated, it is charged once.",
    "owners": "What owners do with their datasets and accounts. This port has the analysts' addresses too.",
}
# FastAPI records spans with bodies and messages of exceptions where a telemetry library is set up: not here.
_NO_TELEMETRY = {
    "tracing": False, "metrics": False, "logs": False, "operation_spans": False, "auto_configure": False,
}  # fmt: skip


def make_application(door: DoorName) -> FastAPI:
    """Return the addresses of a door, without anything behind them; enough to describe them."""
    app = FastAPI(
        title="Dodona" if door == "analysts" else "Dodona, owners' door",
        version=__version__,
        description=_ABOUT[door],
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        telemetry=_NO_TELEMETRY,  # type: ignore[arg-type]  # all fields are optional
    )
    app.include_router(analyst_routes.router, prefix=PREFIX)
    if door == "owners":
        app.include_router(owner_routes.router, prefix=PREFIX)
        app.include_router(draft_routes.router, prefix=PREFIX)
        app.include_router(account_routes.everyone, prefix=PREFIX)
    app.include_router(saved_routes.router, prefix=PREFIX)
    app.include_router(account_routes.me, prefix=PREFIX)
    app.include_router(session_routes.router, prefix=PREFIX)

    @cache
    def description() -> dict[str, Any]:
        return describe(app)

    @app.get(f"{PREFIX}/openapi.json", include_in_schema=False)
    async def openapi(request: Request) -> Response:
        note_of(request, "openapi")
        return JSONResponse(description())

    app.include_router(page_routes.router)
    app.add_exception_handler(DodonaError, _answer_error)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _other)
    app.add_exception_handler(Exception, _answer_bug)
    return app


def make_door(  # noqa: PLR0913  what a door consists of
    door: DoorName,
    *,
    link: CoreLink,
    accounts: Accounts,
    limits: ClientLimits,
    metrics: Metrics,
    provider: ProviderSettings | None = None,
    log_texts: bool = False,
    demo: bool = False,
    agents: AgentCaps | None = None,
) -> App:
    """Return a door that answers: its addresses with the core and the accounts behind them, and the guard in front."""
    app = make_application(door)
    app.state.relay = Relay(link)
    if agents is not None:
        app.router.routes.append(Route(PATH, AgentsDoor(app.state.relay, agents), methods=["POST", "DELETE"]))
    app.state.accounts = accounts
    app.state.door, app.state.demo = door, demo
    sessions = Sessions(accounts)
    app.state.sessions = sessions
    app.state.logins = Logins(sessions, accounts)
    app.state.provider = None if provider is None else Provider(provider, accounts)
    keeper = Doorkeeper(accounts, sessions)
    return Guard(app, keeper, limits, metrics, door, log_texts)


# --- Errors. ---


async def _answer_error(request: Request, fault: Exception) -> Response:
    if not isinstance(fault, DodonaError):
        raise fault
    request.scope["note"].code = fault.code
    return Response(problems.problem(fault), fault.http_status, problems.headers(fault), problems.MEDIA_TYPE)


async def _invalid(request: Request, fault: Exception) -> Response:
    """Answer a body, a header or an address that does not fit, without repeating what was sent."""
    if not isinstance(fault, RequestValidationError):
        raise fault
    listed = fault.errors()
    if any(error["loc"][:2] == ("header", "Idempotency-Key") for error in listed):
        return await _answer_error(request, KeyMissing())
    route = request.scope.get("route")
    body = route.body_field.field_info.annotation if isinstance(route, APIRoute) and route.body_field else None
    return await _answer_error(
        request, InvalidRequest(" ".join(_mistakes(listed, getattr(body, "model_fields", {}))[:5]))
    )


def _mistakes(errors: Sequence[Any], fields: Mapping[str, FieldInfo]) -> list[str]:
    """Return a sentence for each mistake; a field that may have one of several forms is told once, by what it is."""
    mistakes: dict[str, list[str]] = defaultdict(list)
    for error in errors:
        where = [str(part) for part in error["loc"]]
        form = where[0] == "body" and len(where) > 2 and isinstance(error["loc"][2], str)  # noqa: PLR2004  of a field
        mistakes[".".join(where[:2] if form else where)].append(f"{error['msg']}.")
    return [
        f"{name}: {sentences[0] if len(sentences) == 1 or field is None else field.description or sentences[0]}"
        for name, sentences in mistakes.items()
        for field in (fields.get(name.removeprefix("body.")),)
    ]


async def _answer_bug(request: Request, fault: Exception) -> Response:
    """Answer a bug; the guard writes where it was raised into the log."""
    del fault
    return await _answer_error(request, problems.InternalFault())


async def _other(request: Request, fault: Exception) -> Response:
    """Answer what the router itself refuses."""
    if not isinstance(fault, HTTPException):
        raise fault
    match fault.status_code:
        case 404:
            reply = await _answer_error(request, problems.UnknownAddress())
        case 405:
            reply = await _answer_error(request, problems.MethodNotAllowed())
        case _:
            reply = await _answer_error(request, InvalidRequest("The body cannot be read as JSON."))
    reply.headers.update(fault.headers or {})
    return reply
