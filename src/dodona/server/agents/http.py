"""The address `/mcp` of a front: streamable HTTP, with the tokens of all other addresses.

The guard has authenticated a request before it comes here. What stands behind is loaded with the first of them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from dodona.errors import DodonaError, Unavailable
from dodona.server import logs
from dodona.server.agents.spending import AgentCaps, Document, Purse
from dodona.server.analyst_routes import visible
from dodona.server.guard import Note, Receive, Scope, Send
from dodona.server.identity import NotAuthenticated, RoleMissing
from dodona.server.relay import Relay

if TYPE_CHECKING:
    from starlette.requests import Request

PATH = "/mcp"
_PAGE = 200
_IDLE_SECONDS = 600.0
_MOST_SESSIONS = 1000


class AgentsMissing(Unavailable):
    """The server was installed without what agents need."""

    code = "agents-missing"

    def __init__(self) -> None:
        """Use a constant message."""
        super().__init__("Agents cannot be served here: the operator has to install dodona[mcp].")


@dataclass(frozen=True, slots=True)
class CoreOracle:
    """Asks the core in the name of whoever sent a request."""

    relay: Relay
    request: Request
    act: str
    """What the log calls it: the tool, where there is one."""

    @property
    def caller(self) -> str:
        """The account."""
        name: str = self._note.identity.account
        return name

    async def datasets(self) -> list[Document]:
        """Return the datasets that the caller has a role for."""
        datasets: list[Document] = (await self._call("datasets", None, {"only": visible(self.request)}))["datasets"]
        return datasets

    async def describe(self, dataset: str) -> Document:
        """Return the public facts of a dataset."""
        return await self._call("describe", dataset, {})

    async def left(self, dataset: str) -> Fraction:
        """Return the share of the budget that is left for the caller."""
        budget = await self._call("budget", dataset, {})
        return Fraction(budget.get("yours", budget["left"]))

    async def quote(self, dataset: str, request: Document) -> Document:
        """Return the price of a question; nothing is spent."""
        return await self._call("quote", dataset, request)

    async def ask(self, dataset: str, request: Document, key: str) -> Document:
        """Return the answer to a question; a key is charged once."""
        return await self._call("ask", dataset, {**request, "key": key})

    async def charges(self, dataset: str) -> AsyncIterator[Document]:
        """Yield the account's own charges, the newest first."""
        if self._note.identity.role(dataset) != "analyst":  # others would be shown the questions of everyone
            raise RoleMissing("analyst")
        after = (await self._call("history", dataset, {"after": 0, "limit": 1}))["total"]
        while after > 0:
            limit = min(_PAGE, after)
            after -= limit
            page = (await self._call("history", dataset, {"after": after, "limit": limit}))["charges"]
            for charge in reversed(page):
                if charge.get("analyst") == self.caller:
                    yield charge

    @property
    def _note(self) -> Note:
        note: Note = self.request.scope["note"]
        return note

    async def _call(self, act: str, dataset: str | None, arguments: Mapping[str, object]) -> Document:
        reply = await self.relay.call(self.request, act, dataset, arguments)
        self._note.act = self.act
        document: Document = json.loads(bytes(reply.body))
        if reply.status_code >= HTTPStatus.BAD_REQUEST:
            raise core_problem(document)
        return document


def core_problem(document: Mapping[str, Any]) -> DodonaError:
    """Return an error that the core replied: its words, its code, and whether a charge stands."""
    fault = DodonaError(str(document["detail"]), charged=document["charged"])
    vars(fault).update(code=str(document["code"]), http_status=document["status"])
    return fault


@dataclass(slots=True)
class AgentsDoor:
    """An ASGI application that is made ready by the first request."""

    relay: Relay
    caps: AgentCaps
    _ready: asyncio.Task[Any] | None = None
    _running: set[asyncio.Task[None]] = field(default_factory=set)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; who sent it is in its note."""
        note: Note = scope["note"]
        note.act, note.max_day = "mcp", str(self.caps.day)
        if note.identity is None or note.identity.token is None:  # a browser's cookie is no agent
            raise NotAuthenticated
        if self._ready is None or (self._ready.done() and self._ready.exception() is not None):
            self._ready = asyncio.create_task(self._start())
        handle = await asyncio.shield(self._ready)
        await handle(scope, receive, send)

    async def _start(self) -> Any:  # noqa: ANN401  an ASGI application
        """Load the SDK, without holding up other requests, and start what keeps the sessions."""
        try:
            return await self._serve(await asyncio.to_thread(_load))
        except ModuleNotFoundError as missing:
            if (missing.name or "").startswith("dodona"):
                raise
            raise AgentsMissing from None

    async def _serve(self, tools: Any) -> Any:  # noqa: ANN401  the module, and an ASGI application
        from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
        from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
        from mcp.server.auth.provider import AccessToken

        door = tools.ToolContext(
            Purse(self.caps), lambda context: CoreOracle(self.relay, context.request, _act(context)), _write_fault
        )
        server = tools.make_server(door)
        server.streamable_http_app(
            streamable_http_path=PATH, session_idle_timeout=_IDLE_SECONDS, max_sessions=_MOST_SESSIONS
        )
        manager, started = server.session_manager, asyncio.Event()

        async def keep() -> None:
            async with manager.run():
                started.set()
                await asyncio.Event().wait()  # until the process ends

        task = asyncio.create_task(keep())
        self._running.add(task)
        await started.wait()
        inner = AuthContextMiddleware(manager.handle_request)

        async def handle(scope: Scope, receive: Receive, send: Send) -> None:
            identity = scope["note"].identity
            # Sessions, and what people agreed to, are bound to this account and this token.
            who = AccessToken(token="-", client_id=identity.account, subject=identity.token, scopes=[])  # noqa: S106
            scope["user"] = AuthenticatedUser(who)
            await inner(scope, receive, send)

        return handle


def _load() -> Any:  # noqa: ANN401  a module
    from dodona.server.agents import tools

    return tools


def _act(context: Any) -> str:  # noqa: ANN401  the SDK's
    return f"mcp-{(context.params or {}).get('name')}" if context.method == "tools/call" else "mcp"


def _write_fault(fault: BaseException) -> None:
    logs.write_fault("fault", fault, act="mcp")
