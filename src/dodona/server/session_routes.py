"""Logging in to the page and out of it: by password, or at an OpenID Connect provider."""

import asyncio

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from dodona.server import models
from dodona.server.describing import replies
from dodona.server.doorkeeper import address_of, is_secure, session_text
from dodona.server.oidc import LANDING_PAGE, LOGIN_SECONDS, Provider
from dodona.server.problems import UnknownAddress
from dodona.server.relay import note_of
from dodona.server.sessions import (
    Logins,
    NewSession,
    Sessions,
    cookie_name,
    ended_cookie,
    login_cookie,
    read_cookie,
    require_same_origin,
    session_cookie,
)

router = APIRouter(tags=["open"])


@router.post("/session", status_code=201, responses=replies({"account": "ada"}, status=201))
async def log_in(request: Request, body: models.LoginBody) -> Response:
    """Log in to the page with a name and a password; the reply sets the session's cookie. Programs send a token."""
    note = note_of(request, "log_in")
    _require_page(request)
    logins: Logins = request.app.state.logins
    address = address_of(request.scope)
    begun = await asyncio.to_thread(logins.log_in, body.name, body.password, address=address)
    note.account = begun.identity.account
    return session_reply(JSONResponse({"account": begun.identity.account}, 201), begun, secure=is_secure(request.scope))


@router.delete("/session", status_code=204, responses=replies(None, status=204))
async def log_out(request: Request) -> Response:
    """End the page's session."""
    note_of(request, "log_out")
    _require_page(request)
    sessions: Sessions = request.app.state.sessions
    await asyncio.to_thread(sessions.end, session_text(request.scope))
    reply = Response(status_code=204)
    reply.headers["set-cookie"] = ended_cookie(secure=is_secure(request.scope))
    return reply


@router.get("/login", status_code=303, responses={303: {"description": "Go to the provider."}})
async def begin_login(request: Request) -> Response:
    """Log in to the page at the OpenID Connect provider of the server, if it has one."""
    note_of(request, "begin_login")
    start = await _provider(request).begin()
    reply = Response(status_code=303, headers={"location": start.url})
    secure = is_secure(request.scope)
    reply.headers["set-cookie"] = login_cookie(start.cookie, secure=secure, seconds=LOGIN_SECONDS)
    return reply


@router.get(
    "/login/callback",
    responses={
        200: {
            "description": "A page that goes on to the server's page.",
            "content": {"text/html": {"schema": {"type": "string"}}},
        }
    },
)
async def finish_login(request: Request) -> Response:
    """Complete a login: the provider sends the browser here."""
    note = note_of(request, "finish_login")
    secure = is_secure(request.scope)
    cookie = read_cookie(request.headers.get("cookie"), cookie_name(secure=secure, purpose="login"))
    identity = await _provider(request).finish(dict(request.query_params), cookie=cookie)
    sessions: Sessions = request.app.state.sessions
    begun = await asyncio.to_thread(sessions.begin, identity.account)
    note.account = identity.account
    reply = session_reply(Response(LANDING_PAGE, media_type="text/html"), begun, secure=secure)
    reply.headers.append("set-cookie", login_cookie("", secure=secure, seconds=0))
    return reply


def _provider(request: Request) -> Provider:
    provider: Provider | None = request.app.state.provider
    if provider is None:
        raise UnknownAddress
    return provider


def session_reply(reply: Response, begun: NewSession, *, secure: bool) -> Response:
    """Return a reply with the cookie of a session that has begun."""
    reply.headers["set-cookie"] = session_cookie(begun.text, secure=secure, seconds=begun.seconds)
    return reply


def _require_page(request: Request) -> None:
    """Refuse a login that another site's page sends: it would log a person in under a stranger's name."""
    headers = {name: request.headers.get(name, "") for name in ("sec-fetch-site", "origin") if name in request.headers}
    host = request.headers.get("host", "")
    require_same_origin(request.method, headers, host=host, secure=is_secure(request.scope))
