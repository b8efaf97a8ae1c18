"""Sessions of the page: cookies, requests of other sites, logins by password, and how failed ones slow down."""

import hashlib
import math
import threading
from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import IPv6Address, ip_address, ip_network
from urllib.parse import urlsplit

from dodona.errors import Refused
from dodona.server import secrets
from dodona.server.account_store import Execute
from dodona.server.accounts import Accounts
from dodona.server.identity import Identity, NotAuthenticated

# --- Cookies. A session's cookie goes to this host alone, never to a script, and never along with a link elsewhere. ---


_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}


def cookie_name(*, secure: bool, purpose: str = "session") -> str:
    """Return the name of a cookie; over TLS its prefix makes browsers refuse one that another host has set."""
    return f"__Host-dodona-{purpose}" if secure else f"dodona-{purpose}"


def session_cookie(text: str, *, secure: bool, seconds: int) -> str:
    """Return the `Set-Cookie` header of a new session."""
    return _cookie(cookie_name(secure=secure), text, secure=secure, seconds=seconds, same_site="Strict")


def ended_cookie(*, secure: bool) -> str:
    """Return the `Set-Cookie` header that removes the session from the browser."""
    return session_cookie("", secure=secure, seconds=0)


def login_cookie(text: str, *, secure: bool, seconds: int) -> str:
    """Return the `Set-Cookie` header of a login at a provider that has begun; empty with 0 seconds, to remove it.

    The browser comes back from another site, and must send it then: this one alone is Lax.
    """
    name = cookie_name(secure=secure, purpose="login")
    return _cookie(name, text, secure=secure, seconds=seconds, same_site="Lax")


def read_cookie(header: str | None, name: str) -> str | None:
    """Return the value of a cookie in a `Cookie` header; None if it is not there, or there twice."""
    pairs = (part.strip().partition("=") for part in (header or "").split(";"))
    values = [value for key, _, value in pairs if key == name]
    return values[0] if len(values) == 1 else None


def _cookie(name: str, text: str, *, secure: bool, seconds: int, same_site: str) -> str:
    parts = [f"{name}={text}", "Path=/", f"Max-Age={seconds}", "HttpOnly", f"SameSite={same_site}"]
    return "; ".join([*parts, "Secure"] if secure else parts)


# --- Requests of other sites. ---


class CrossSite(Refused):
    """A request with the page's cookie does not come from the page."""

    code = "cross-site"

    def __init__(self) -> None:
        """Say what a program should do."""
        super().__init__(
            "This request does not come from the server's page. Programs send a token instead of a cookie."
        )


def require_same_origin(method: str, headers: Mapping[str, str], *, host: str, secure: bool) -> None:
    """Refuse a request that changes something and comes from another site; for callers with a cookie.

    `headers` has names in lower case; `host` is the name and port that browsers use for this server.
    """
    if method.upper() in _SAFE_METHODS:
        return
    site = headers.get("sec-fetch-site")
    if site is not None:  # set by the browser itself; no script can
        if site != "same-origin":
            raise CrossSite
        return
    if not _is_origin(headers.get("origin", ""), host=host, secure=secure):
        raise CrossSite


def _is_origin(origin: str, *, host: str, secure: bool) -> bool:
    try:
        url = urlsplit(origin)
    except ValueError:
        return False
    if url.scheme not in ({"https"} if secure else {"http", "https"}) or not host:
        return False
    port = _DEFAULT_PORTS[url.scheme]
    plain = f"{url.scheme}://{url.netloc}" == origin
    return plain and url.netloc.lower().removesuffix(port) == host.lower().removesuffix(port)


# --- Failed logins slow down. ---


class Throttled(Refused):
    """Too many logins failed for this account or from this address; wait before the next."""

    code = "throttled"
    http_status = 429
    sqlstate = "28000"

    def __init__(self, retry_after: int) -> None:
        """State how many seconds to wait, which also is the `Retry-After` header."""
        self.retry_after = retry_after
        super().__init__(f"Too many logins have failed. Try again in {retry_after} second{'s' * (retry_after > 1)}.")


@dataclass(frozen=True, slots=True)
class Pace:
    """How failures slow down: the first ones are free, then each doubles the wait, up to a longest one."""

    free: int
    longest: float
    forgotten: float = 3600.0
    """After so many seconds without a failure they are forgotten."""

    def wait(self, failures: int) -> float:
        """Return the seconds to wait after so many failures in a row."""
        return 0.0 if failures <= self.free else min(2.0 ** min(failures - self.free - 1, 32), self.longest)


ACCOUNT_PACE = Pace(free=5, longest=60.0)
"""At most a minute: whoever fails on purpose must not keep the account's person out for long."""
ADDRESS_PACE = Pace(free=10, longest=900.0)
"""More are free, as a whole office may have one address."""


class _Slots:
    """Failures by name, in a table of fixed size: names that share a slot share their failures, and none is dropped.

    The slot is a keyed hash of the name, so that nobody can choose names that share the slot of another.
    """

    def __init__(self, pace: Pace, *, size: int, key: bytes) -> None:
        self._pace, self._size, self._key = pace, size, key
        self._failures = array("L", bytes(size * array("L").itemsize))
        self._last = array("d", bytes(size * array("d").itemsize))
        self._until = array("d", bytes(size * array("d").itemsize))

    def find(self, name: str) -> int:
        text = name.encode("utf-8", "surrogatepass")
        return int.from_bytes(hashlib.blake2b(text, key=self._key, digest_size=8).digest()) % self._size

    def wait(self, slot: int, now: float) -> float:
        return self._until[slot] - now

    def fail(self, slot: int, now: float) -> None:
        if now - self._last[slot] > self._pace.forgotten:
            self._failures[slot] = 0
        self._failures[slot] += 1
        self._last[slot] = now
        self._until[slot] = now + self._pace.wait(self._failures[slot])

    def forgive(self, slot: int, failures: int | None) -> None:
        """Take back so many failures, or all, and the wait."""
        self._failures[slot] = 0 if failures is None else max(0, self._failures[slot] - failures)
        self._until[slot] = 0.0


class Throttle:
    """Counts failed logins of each account and of each address; its memory is fixed.

    It asks only the clock that nobody can set, and an attempt counts as failed until it has succeeded, so that many at
    once do not share one free try.
    """

    def __init__(
        self,
        steady: Callable[[], float],
        *,
        account: Pace = ACCOUNT_PACE,
        address: Pace = ADDRESS_PACE,
        size: int = 1 << 14,
    ) -> None:
        """Take the clock, in seconds that never go back."""
        self._steady = steady
        self._start = steady()
        self._lock = threading.Lock()
        self._latest = 0.0
        key = secrets.random_bytes(32)
        self._accounts = _Slots(account, size=size, key=key)
        self._addresses = _Slots(address, size=size, key=key)

    def attempt(self, account: str, address: str) -> None:
        """Count an attempt; refuse one that comes too early, whether or not its password is right."""
        with self._lock:
            # One second after the start, so that an empty slot is in the past.
            now = self._latest = max(self._latest, self._steady() - self._start + 1.0)
            whose, where = self._accounts.find(account.casefold()), self._addresses.find(network(address))
            wait = max(self._accounts.wait(whose, now), self._addresses.wait(where, now))
            if wait > 0:
                raise Throttled(math.ceil(wait))
            self._accounts.fail(whose, now)
            self._addresses.fail(where, now)

    def succeed(self, account: str, address: str) -> None:
        """Forget the failures of the account, and this attempt of the address.

        The address keeps its earlier failures: one good login must not buy guesses at other accounts.
        """
        with self._lock:
            self._accounts.forgive(self._accounts.find(account.casefold()), None)
            self._addresses.forgive(self._addresses.find(network(address)), 1)


def network(address: str) -> str:
    """Return what failures of an address are counted under: a whole /64 of IPv6, which one person usually has.

    >>> network("192.0.2.7"), network("2001:db8::1:2"), network("::ffff:192.0.2.7"), network("nonsense")
    ('192.0.2.7', '2001:db8::/64', '192.0.2.7', 'unknown')
    """
    try:
        ip = ip_address(address.partition("%")[0])
    except ValueError:
        return "unknown"
    if not isinstance(ip, IPv6Address):
        return str(ip)
    return str(ip.ipv4_mapped or ip_network((ip, 64), strict=False))


# --- Sessions. ---


LIFETIME = timedelta(hours=12)
IDLE = timedelta(hours=2)
MOST_SESSIONS = 20
_TOLERANCE = 300


@dataclass(frozen=True, slots=True)
class NewSession:
    """A session that has begun; its text goes into the cookie, and is stored nowhere."""

    identity: Identity
    expires: datetime
    seconds: int
    text: str = field(repr=False)


class Sessions:
    """Sessions of the page, in the store of the accounts: random ids, of which a digest is kept."""

    def __init__(self, accounts: Accounts, *, lifetime: timedelta = LIFETIME, idle: timedelta = IDLE) -> None:
        """Set how long a session lasts in all, and how long without a request."""
        self._accounts = accounts
        self._lifetime, self._idle = int(lifetime.total_seconds()), int(idle.total_seconds())

    def begin(self, account: str) -> NewSession:
        """Begin a session of an account, always with a new id; the oldest ones make room."""
        identity = self._accounts.identify(account)
        if identity is None:
            raise NotAuthenticated
        text, now = secrets.new_session_id(), self._accounts.clock.earliest()
        expires = now + self._lifetime

        def work(run: Execute) -> None:
            if not run("SELECT 1 FROM dodona_accounts WHERE name = ? AND stopped IS NULL", (account,)):
                raise NotAuthenticated  # stopped since it was identified
            run("DELETE FROM dodona_sessions WHERE expires <= ?", (now,))
            rows = run("SELECT digest FROM dodona_sessions WHERE account = ? ORDER BY created DESC", (account,))
            for (old,) in rows[MOST_SESSIONS - 1 :]:
                run("DELETE FROM dodona_sessions WHERE digest = ?", (old,))
            run(
                "INSERT INTO dodona_sessions VALUES (?, ?, ?, ?, ?)", (secrets.digest(text), account, now, expires, now)
            )

        self._accounts.store.write(work)
        return NewSession(identity, datetime.fromtimestamp(expires, UTC), self._lifetime, text)

    def authenticate(self, text: str | None) -> Identity | None:
        """Return whose session it is; None if it has ended, expired or lain idle, or the account is stopped."""
        if text is None or not secrets.is_session_id(text):
            return None
        digest = secrets.digest(text)
        rows = self._accounts.store.read(
            "SELECT digest, account, expires, last_use FROM dodona_sessions WHERE digest = ?", (digest,)
        )
        if not rows:
            return None
        ((stored, account, expires, last_use),) = rows
        now = self._accounts.clock.latest()
        alive = now < expires and now - last_use < self._idle
        set_back = now < last_use - _TOLERANCE  # the clock was set back since: it must not lengthen the session
        if not secrets.equal(digest, stored) or not alive or set_back:
            return None
        self._accounts.note_use("session", digest, last_use, now)
        return self._accounts.identify(account)

    def end(self, text: str | None) -> None:
        """End a session: log out."""
        if text is not None and secrets.is_session_id(text):
            digest = secrets.digest(text)
            self._accounts.store.write(lambda run: run("DELETE FROM dodona_sessions WHERE digest = ?", (digest,)))

    def end_all(self, account: str) -> None:
        """End all sessions of an account."""
        self._accounts.store.write(lambda run: run("DELETE FROM dodona_sessions WHERE account = ?", (account,)))


class Logins:
    """Logins by name and password."""

    def __init__(self, sessions: Sessions, accounts: Accounts, *, throttle: Throttle | None = None) -> None:
        """Take the parts; one throttle serves all logins of a process."""
        self._sessions, self._accounts = sessions, accounts
        self._throttle = Throttle(accounts.clock.steady) if throttle is None else throttle

    def log_in(self, name: str, password: str, *, address: str) -> NewSession:
        """Begin a session, or raise `NotAuthenticated` or `Throttled`; it takes a tenth of a second of CPU."""
        self._throttle.attempt(name, address)
        identity = self._accounts.authenticate_password(name, password)
        if identity is None:
            raise NotAuthenticated
        self._throttle.succeed(name, address)
        return self._sessions.begin(identity.account)
