"""Who sends a request: a token in the header `Authorization`, or the page's session in a cookie.

What a token was found to mean is remembered for a second, so that a busy client does not read the accounts with every
request. A token that is revoked, or whose account is stopped, is therefore refused within that time.
"""

import asyncio
import hashlib
import math
import time
from dataclasses import dataclass, field
from typing import NoReturn

from dodona.server.accounts import Accounts
from dodona.server.guard import Note, Scope
from dodona.server.identity import Identity, NotAuthenticated
from dodona.server.sessions import Sessions, Throttled, cookie_name, read_cookie, require_same_origin

REMEMBERED_SECONDS = 1.0
"""How long a token that was revoked may still be accepted."""
_MOST_REMEMBERED = 10_000
_MOST_FAILURES = 20
_FAILURE_SECONDS = 60.0
_MOST_ADDRESSES = 10_000
_LONGEST_SECRET = 500
PREFIX = "/api/v1"
CLOSED = ("/api/", "/mcp")
"""How the addresses begin that need authentication."""
OPEN = frozenset({f"{PREFIX}/openapi.json", f"{PREFIX}/session", f"{PREFIX}/login", f"{PREFIX}/login/callback"})
"""Addresses that need no authentication: the description of all addresses, and those that log in."""


@dataclass(slots=True)
class Doorkeeper:
    """Authenticates requests."""

    accounts: Accounts
    sessions: Sessions
    _remembered: dict[bytes, tuple[float, Identity]] = field(default_factory=dict)
    _failures: dict[str, tuple[int, float]] = field(default_factory=dict)

    async def __call__(self, scope: Scope, note: Note) -> None:
        """Store the identity in the note, or raise. Pages and logins need none."""
        path = scope["path"]
        if not path.startswith(CLOSED) or path in OPEN:
            return
        token, cookie = _credentials(scope)
        if token is not None:
            identity = await self._by_token(token)
        elif cookie is not None:
            identity = await self._by_session(scope, cookie)
        else:
            raise NotAuthenticated
        if identity is None:
            self._refuse(address_of(scope))
        note.identity, note.account = identity, identity.account

    async def _by_token(self, token: str) -> Identity | None:
        digest = hashlib.sha256(token.encode()).digest()
        known = self._remembered.get(digest)
        if known is not None and time.monotonic() < known[0]:
            return known[1]
        until = time.monotonic() + REMEMBERED_SECONDS  # from before the accounts are read: never longer than said
        identity = await asyncio.to_thread(self.accounts.authenticate_token, token)
        if identity is not None:
            if len(self._remembered) >= _MOST_REMEMBERED:
                self._remembered.clear()
            self._remembered[digest] = (until, identity)
        else:
            self._remembered.pop(digest, None)
        return identity

    async def _by_session(self, scope: Scope, cookie: str) -> Identity | None:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        require_same_origin(scope["method"], headers, host=headers.get("host", ""), secure=is_secure(scope))
        return await asyncio.to_thread(self.sessions.authenticate, cookie)

    def _refuse(self, address: str) -> NoReturn:
        """Count a failure; an address with many of them is told to wait. A valid token is accepted all the same."""
        now = time.monotonic()
        count, until = self._failures.get(address, (0, 0.0))
        if now >= until:
            count, until = 0, now + _FAILURE_SECONDS
        if len(self._failures) >= _MOST_ADDRESSES:
            self._failures.clear()
        self._failures[address] = (count + 1, until)
        if count >= _MOST_FAILURES:
            raise Throttled(math.ceil(until - now))
        raise NotAuthenticated


def _credentials(scope: Scope) -> tuple[str | None, str | None]:
    """Return the token and the session's cookie of a request."""
    token = cookie = None
    for name, value in scope["headers"]:
        if name == b"authorization":
            kind, _, secret = value.decode("latin-1").partition(" ")
            if kind.lower() != "bearer" or len(secret) > _LONGEST_SECRET:
                raise NotAuthenticated
            token = secret.strip()
        elif name == b"cookie":
            cookie = session_text(scope)
    return token, cookie


def session_text(scope: Scope) -> str | None:
    """Return the text of the session's cookie."""
    header = b"; ".join(value for name, value in scope["headers"] if name == b"cookie").decode("latin-1")
    return read_cookie(header, cookie_name(secure=is_secure(scope)))


def is_secure(scope: Scope) -> bool:
    """Return whether the request came over TLS, also where a proxy ended it."""
    return bool(scope.get("scheme") == "https")


def address_of(scope: Scope) -> str:
    """Return the address of the client."""
    client = scope.get("client")
    return client[0] if client else "-"
