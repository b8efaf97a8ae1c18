"""Connections that do not wait for ever: uvicorn's HTTP protocol with limits on headers, idleness and number."""

import asyncio
import socket
import sys
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from dodona.errors import DodonaError, InvalidRequest
from dodona.server import problems
from dodona.server.guard import ClientLimits
from dodona.server.metrics import Metrics


class Connection(HttpToolsProtocol):
    """A connection of one client."""

    limits = ClientLimits()
    metrics: Metrics | None = None

    def __init__(self, *arguments: Any, **named: Any) -> None:  # noqa: ANN401  uvicorn's arguments pass through
        super().__init__(*arguments, **named)
        self._waiting: asyncio.TimerHandle | None = None
        self._header_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn's own narrowing
        """Wait for the first request for a limited time; close at once where there are too many connections."""
        super().connection_made(transport)
        if len(self.connections) > self.limits.connections:
            self._count("too-many")
            transport.abort()
            return
        if self.metrics is not None:
            self.metrics.connections.set(len(self.connections))
        _end_unread(transport.get_extra_info("socket"), self.limits.client_seconds)
        self._await_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timer."""
        self._stop_waiting()
        super().connection_lost(exc)
        if self.metrics is not None:
            self.metrics.connections.set(len(self.connections))

    def data_received(self, data: bytes) -> None:
        """Count the bytes of headers, and pass them on."""
        if self._waiting is not None:
            self._header_bytes += len(data)
        super().data_received(data)
        if self._waiting is not None and self._header_bytes > self.limits.header_bytes:
            self._count("headers")
            self._turn_away(problems.HeadersTooLarge(self.limits.header_bytes))
        elif self._waiting is None and self.timeout_keep_alive_task is None and self._idle():
            self._await_headers()

    def on_message_begin(self) -> None:
        """A request begins: its headers have to come soon."""
        super().on_message_begin()
        if self._waiting is None:
            self._await_headers()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header without the blanks after its value, which are not part of it (RFC 9110, 5.5)."""
        super().on_header(name, value.rstrip(b" \t"))

    def on_headers_complete(self) -> None:
        """The headers are complete; the body has a time of its own."""
        self._stop_waiting()
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP as every other error."""
        del msg
        self._count("malformed")
        self._turn_away(InvalidRequest("This is not a valid HTTP request."))

    def _idle(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle  # None before the first request
        return (cycle is None or cycle.response_complete) and not self.transport.is_closing()

    def _await_headers(self) -> None:
        self._header_bytes = 0
        self._waiting = self.loop.call_later(self.limits.client_seconds, self._give_up)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _give_up(self) -> None:
        self._waiting = None
        if self.transport.is_closing():
            return
        if not self._idle():  # an earlier request on this connection is still being answered
            self._await_headers()
            return
        self._count("slow")
        self._turn_away(problems.RequestTooSlow(self.limits.client_seconds))

    def _turn_away(self, fault: DodonaError) -> None:
        self._stop_waiting()
        body = problems.problem(fault)
        head = (
            f"content-type: {problems.MEDIA_TYPE}\r\ncontent-length: {len(body)}\r\n"
            "cache-control: no-store\r\nx-content-type-options: nosniff\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(STATUS_LINE[fault.http_status] + head.encode() + body)
        self.transport.close()

    def _count(self, reason: str) -> None:
        if self.metrics is not None:
            self.metrics.turned_away.labels(reason).inc()


def _end_unread(connection: socket.socket, seconds: float) -> None:
    """Let the system end a connection whose client has read nothing for so long, also one that we have closed."""
    if sys.platform == "linux":
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(1000 * seconds))


def limited(limits: ClientLimits, metrics: Metrics) -> type[Connection]:
    """Return the class of connections with these limits, for `uvicorn.Config(http=...)`."""
    return type("LimitedConnection", (Connection,), {"limits": limits, "metrics": metrics})
