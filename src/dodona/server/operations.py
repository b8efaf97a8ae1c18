"""The operators' port: whether the process lives, whether it can answer, and its counts for Prometheus."""

import asyncio
import json
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import uvicorn

from dodona.errors import DodonaError
from dodona.server import metrics, problems
from dodona.server.guard import Receive, Scope, Send
from dodona.server.link import Caller, CoreLink

_PATIENCE = 2.0
_CALLER = Caller(name="operations", role="auditor")
PLAIN: dict[str, Any] = {
    "log_config": None, "access_log": False, "ws": "none", "lifespan": "off", "server_header": False,
    "proxy_headers": False,
}  # fmt: skip
"""How uvicorn serves every port: without its own log, and without what is not needed."""


class Server(uvicorn.Server):
    """A server that leaves signals to the process: it runs several servers."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Capture none."""
        yield


class Operations:
    """An application of three addresses: /health, /ready and /metrics."""

    def __init__(self, link: CoreLink, counts: metrics.Metrics) -> None:
        self._link = link
        self._counts = counts
        self.draining = False

    def server(self) -> Server:
        """Return what serves the addresses, on a socket that it is given."""
        return Server(uvicorn.Config(self, http="httptools", **PLAIN))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        del receive
        if scope["type"] != "http":
            return
        match scope["method"], scope["path"]:
            case "GET", "/health":
                await _reply(send, 200, {"health": "alive"})
            case "GET", "/ready":
                ready, facts = await self._ready()
                await _reply(send, 200 if ready else 503, facts)
            case "GET", "/metrics":
                await _send(send, 200, metrics.CONTENT_TYPE, self._counts.text() + await self._of_core())
            case _:
                fault = problems.UnknownAddress()
                await _send(send, fault.http_status, problems.MEDIA_TYPE, problems.problem(fault))

    async def _ready(self) -> tuple[bool, dict[str, object]]:
        """Return whether questions are answered now: the core replies, and the front is not about to stop."""
        if self.draining:
            return False, {"ready": False, "reason": "stopping"}
        status = await self._status()
        ready = status is not None and status.get("ready") is True
        return ready, {"ready": ready} | ({} if ready else {"reason": "core-not-ready"})

    async def _status(self) -> dict[str, Any] | None:
        try:
            async with asyncio.timeout(_PATIENCE):
                reply = await self._link.call("status", dataset=None, caller=_CALLER, arguments={})
        except (DodonaError, TimeoutError):
            return None
        return dict(json.loads(reply.body)) if reply.status == 200 else None  # noqa: PLR2004  HTTP

    async def _of_core(self) -> bytes:
        """Return the core's numbers: what its pools do, and how many calls were refused or lost by code."""
        status = await self._status()
        lines = ["# TYPE dodona_core_up gauge", f"dodona_core_up {int(status is not None)}"]
        if status is not None:
            for name in ("under_way", "broken"):
                lines += [f"# TYPE dodona_core_{name} gauge", f"dodona_core_{name} {status[name]}"]
            for name in ("workers", "running", "waiting"):
                lines.append(f"# TYPE dodona_core_{name} gauge")
                lines += [
                    f'dodona_core_{name}{{pool="{pool["pool"]}",number="{pool["number"]}"}} {pool[name]}'
                    for pool in status["pools"]
                ]
            lines.append("# TYPE dodona_core_events_total counter")
            lines += [f'dodona_core_events_total{{kind="{kind}"}} {count}' for kind, count in status["counts"].items()]
        return ("\n".join(lines) + "\n").encode()


async def _reply(send: Send, status: int, document: dict[str, object]) -> None:
    await _send(send, status, "application/json", json.dumps(document).encode())


async def _send(send: Send, status: int, media_type: str, body: bytes) -> None:
    headers = [
        (b"content-type", media_type.encode()),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
        (b"x-content-type-options", b"nosniff"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
