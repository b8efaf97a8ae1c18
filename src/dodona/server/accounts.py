"""Accounts: who may ask, in which role, and the tokens and passwords that prove it.

The name of an account is the name of the analyst in the ledger; no request can give another one. A role holds for one
dataset, or for all of them ("*"); an owner of all manages the accounts.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Literal, Self

from dodona.errors import InvalidArgument
from dodona.numbers import to_share
from dodona.server import secrets
from dodona.server.account_store import (
    AccountStore,
    AccountsUnavailable,
    Execute,
    create_store,
    open_store,
    open_store_late,
)
from dodona.server.identity import (
    MOST_TOKENS,
    ROLES,
    AccountExists,
    AccountMissing,
    AccountStopped,
    Clock,
    Identity,
    TokenMissing,
    TooManyTokens,
)
from dodona.server.secrets import ScramVerifier

__all__ = [
    "MOST_TOKENS", "ROLES", "Account", "AccountExists", "AccountMissing", "AccountStopped",
    "Accounts", "Clock", "Identity", "IssuedToken", "TokenInfo", "TokenMissing",
    "TooManyTokens",
]  # fmt: skip

DEFAULT_LIFETIME = timedelta(days=90)
USE_EVERY = 60
"""How many seconds lie between two notes of a token's last use."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,99}", re.ASCII)
_EMAIL = re.compile(r"[^\s@]+@[^\s@]+", re.ASCII)
_LONGEST_TEXT = 100
_LONGEST_LIFETIME = timedelta(days=3660)
_CACHED = 10_000
_NO_GRANTS: Mapping[str, str] = MappingProxyType({})
_USES = {
    "token": "UPDATE dodona_tokens SET last_use = ? WHERE id = ? AND (last_use IS NULL OR last_use <= ?)",
    "session": "UPDATE dodona_sessions SET last_use = ? WHERE digest = ? AND last_use <= ?",
}


# --- What is known of an account and of a token. ---


@dataclass(frozen=True, slots=True)
class Account:
    """An account, without its secrets."""

    name: str
    grants: Mapping[str, str]
    email: str | None
    has_password: bool
    has_login: bool
    """Whether it is tied to a subject of an OpenID Connect provider."""
    created: datetime
    stopped: datetime | None


@dataclass(frozen=True, slots=True)
class TokenInfo:
    """A token, without its secret."""

    id: str
    account: str
    name: str
    datasets: frozenset[str] | None
    max_price: str | None
    created: datetime
    expires: datetime | None
    last_use: datetime | None
    ended: datetime | None
    """When it was revoked, or seen to have expired."""


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """A new token; its text is shown once."""

    info: TokenInfo
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class _Known:
    """A token as it was read at a revision."""

    revision: int
    digest: str = field(repr=False)
    expires: int | None
    last_use: int
    identity: Identity


# --- The accounts. ---


class Accounts:
    """The accounts of a server. Threads may share the object; a forked process opens its own."""

    def __init__(self, store: AccountStore, *, clock: Clock | None = None) -> None:
        """Take the store; tokens and sessions that have expired end now, whatever the clock says later."""
        self._store = store
        self.clock = Clock() if clock is None else clock
        self._revision, self._read_at = -1, float("-inf")
        self._known: dict[str, _Known] = {}
        self._noted: dict[str, int] = {}
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="dodona-accounts")
        self._pending: Future[None] | None = None
        with suppress(AccountsUnavailable):  # a full disk: then with the first use that can be noted
            self._end_expired()

    @classmethod
    def open(cls, place: str | Path, *, clock: Clock | None = None) -> Self:
        """Open the accounts in a SQLite file or a PostgreSQL database; never creates them."""
        return cls(open_store(place), clock=clock)

    @classmethod
    def open_late(cls, place: str | Path) -> Self:
        """Open accounts for a server: while they are out of reach, each use is refused, and the server goes on."""
        return cls(open_store_late(place))

    @classmethod
    def create(cls, place: str | Path, *, clock: Clock | None = None) -> Self:
        """Open the accounts at a place; where there are none, create empty ones."""
        return cls(create_store(place), clock=clock)

    def close(self) -> None:
        """Write what is still to be noted, and close the store."""
        self._writer.shutdown()
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- Authentication. ---

    def authenticate_token(self, token: str) -> Identity | None:
        """Return who a token belongs to; None if it is wrong, expired or revoked, or the account is stopped."""
        digest = secrets.token_digest(token)
        if digest is None:
            return None
        return self._use(secrets.token_id(digest), digest)

    def token_identity(self, token_id: str) -> Identity | None:
        """Return who a token belongs to that a client proved to know; None if it has ended since, as in the above."""
        return self._use(token_id, None)

    def _use(self, token_id: str, digest: str | None) -> Identity | None:
        revision = self._newest_revision()
        known = self._known.get(token_id)
        if known is None or known.revision != revision:
            known = self._read_token(token_id, revision)
        if known is None or (digest is not None and not secrets.equal(digest, known.digest)):
            return None
        now = self.clock.latest()
        if known.expires is not None and now >= known.expires:
            return None
        self.note_use("token", token_id, known.last_use, now)
        return known.identity

    def authenticate_password(self, name: str, password: str) -> Identity | None:
        """Return the account of a name and its password; None if one is wrong. Takes about a tenth of a second.

        It takes as long for a name that has no account. Attempts must be throttled: see `sessions.Logins`.
        """
        rows = self._store.read(
            "SELECT name, password FROM dodona_accounts WHERE folded = ? AND stopped IS NULL", (_fold(name),)
        )
        account, stored = rows[0] if rows else (None, None)
        if not secrets.verify_password(stored, password) or account is None or stored is None:
            return None
        if secrets.needs_rehash(stored):
            with suppress(AccountsUnavailable, secrets.PasswordRefused):
                self._rehash(account, stored, secrets.hash_password(password, name=account))
        return self.identify(account)

    def identify(self, name: str) -> Identity | None:
        """Return the identity of an account for a session of the page; None if it is stopped or missing."""
        rows = self._store.read("SELECT 1 FROM dodona_accounts WHERE name = ? AND stopped IS NULL", (name,))
        return Identity(name, self._grants(name)) if rows else None

    def verifiers(self, name: str) -> tuple[tuple[str, ScramVerifier], ...]:
        """Return the ids and SCRAM verifiers of the tokens that an account may use now.

        They have one salt, that of the account, so that a client may log in with any of them: the server sends the
        salt before it knows which one the client has.
        """
        rows = self._store.read(
            """SELECT id, salt, stored_key, server_key, iterations FROM dodona_tokens
JOIN dodona_accounts ON dodona_accounts.name = dodona_tokens.account
WHERE dodona_accounts.name = ? AND stopped IS NULL AND ended IS NULL AND (expires IS NULL OR expires > ?)""",
            (name, self.clock.latest()),
        )
        return tuple(
            (
                token,
                ScramVerifier(bytes.fromhex(salt), bytes.fromhex(stored_key), bytes.fromhex(server_key), iterations),
            )
            for token, salt, stored_key, server_key, iterations in rows
        )

    def _newest_revision(self) -> int:
        """Return the number of the last change; every act but a note of last use raises it."""
        now = self.clock.steady()
        if now - self._read_at >= self._store.believed:
            ((self._revision,),) = self._store.read("SELECT revision FROM dodona_accounts_state")
            self._read_at = now
        return self._revision

    def _read_token(self, token_id: str, revision: int) -> _Known | None:
        rows = self._store.read(
            """SELECT account, digest, datasets, max_price, expires, last_use FROM dodona_tokens
JOIN dodona_accounts ON dodona_accounts.name = dodona_tokens.account
WHERE id = ? AND ended IS NULL AND stopped IS NULL""",
            (token_id,),
        )
        if not rows:
            self._known.pop(token_id, None)
            return None
        ((account, digest, datasets, max_price, expires, last_use),) = rows
        identity = Identity(account, self._grants(account), token_id, _datasets(datasets), max_price)
        if len(self._known) >= _CACHED:
            self._known.clear()
        token = _Known(revision, digest, expires, last_use or 0, identity)
        self._known[token_id] = token
        return token

    def _grants(self, account: str) -> Mapping[str, str]:
        """Return role by dataset; what an owner granted replaces what a group of the login grants."""
        rows = self._store.read(
            "SELECT dataset, role FROM dodona_grants WHERE account = ? ORDER BY source, dataset", (account,)
        )
        return MappingProxyType(dict(rows))

    def note_use(self, kind: Literal["token", "session"], which: str, last: int, now: int) -> None:
        """Note the last use, at most once a minute, in a thread of its own: no request waits for the disk."""
        if now - max(last, self._noted.get(which, 0)) < USE_EVERY:
            return
        if len(self._noted) >= _CACHED:
            self._noted.clear()
        self._noted[which] = now
        query = _USES[kind]

        def write() -> None:
            with suppress(AccountsUnavailable):  # a full disk must not lock everybody out
                self._store.write(lambda run: run(query, (now, which, now - USE_EVERY)))
                self._end_expired()

        with suppress(RuntimeError):  # closing
            self._pending = self._writer.submit(write)

    def _end_expired(self) -> None:
        now = self.clock.earliest()
        self._store.write(lambda run: _end_expired(run, now))

    def flush(self) -> None:
        """Wait until the last uses are written."""
        if self._pending is not None:
            self._pending.result()

    def _rehash(self, account: str, before: str, after: str) -> None:
        self._store.write(
            lambda run: run(
                "UPDATE dodona_accounts SET password = ? WHERE name = ? AND password = ?", (after, account, before)
            )
        )

    # --- Acts of an owner. Each is one transaction; the next request sees it. ---

    def add(
        self,
        name: str,
        *,
        email: str | None = None,
        grants: Mapping[str, str] = _NO_GRANTS,
        password: str | None = None,
    ) -> Account:
        """Add an account with its roles and password, or nothing. Ada and ada are the same name."""
        if _NAME.fullmatch(name) is None:
            accepted = "write 1 to 100 letters, digits or . _ @ + - and begin with a letter or a digit"
            raise InvalidArgument("name", name, accepted)
        address = _validate_email(email)
        for dataset, role in grants.items():
            _validate_grant(dataset, role)
        stored = None if password is None else secrets.hash_password(password, name=name)
        salt = secrets.random_bytes(secrets.SALT_BYTES).hex()
        now = self.clock.earliest()

        def work(run: Execute) -> None:
            if run("SELECT 1 FROM dodona_accounts WHERE folded = ?", (_fold(name),)):
                raise AccountExists(name)
            if address is not None and run("SELECT 1 FROM dodona_accounts WHERE email = ?", (address,)):
                raise AccountExists(address)
            run(
                "INSERT INTO dodona_accounts (name, folded, email, password, salt, created) VALUES (?, ?, ?, ?, ?, ?)",
                (name, _fold(name), address, stored, salt, now),
            )
            for dataset, role in grants.items():
                run("INSERT INTO dodona_grants VALUES (?, ?, ?, 'owner')", (name, dataset, role))

        self.act(work)
        return self.account(name)

    def grant(self, name: str, dataset: str, role: str) -> None:
        """Give an account a role for a dataset, or for all ("*"), in place of the one it has."""
        _validate_grant(dataset, role)

        def work(run: Execute) -> None:
            account = _in_use(run, name)
            run("DELETE FROM dodona_grants WHERE account = ? AND dataset = ? AND source = 'owner'", (account, dataset))
            run("INSERT INTO dodona_grants VALUES (?, ?, ?, 'owner')", (account, dataset, role))

        self.act(work)

    def withdraw(self, name: str, dataset: str) -> None:
        """Take the role for a dataset away, also one that a group of the login gave."""
        self.act(
            lambda run: run("DELETE FROM dodona_grants WHERE account = ? AND dataset = ?", (_named(run, name), dataset))
        )

    def set_password(self, name: str, password: str) -> None:
        """Set the password of the page's login, and end the account's sessions."""
        account = self.account(name).name
        stored = secrets.hash_password(password, name=account)

        def work(run: Execute) -> None:
            run("UPDATE dodona_accounts SET password = ? WHERE name = ?", (stored, _in_use(run, account)))
            run("DELETE FROM dodona_sessions WHERE account = ?", (account,))

        self.act(work)

    def stop(self, name: str) -> None:
        """Stop an account: its tokens, sessions and password end for good. Its name stays taken."""
        now = self.clock.earliest()

        def work(run: Execute) -> None:
            account = _named(run, name)
            run(
                "UPDATE dodona_accounts SET stopped = ?, password = NULL WHERE name = ? AND stopped IS NULL",
                (now, account),
            )
            run("UPDATE dodona_tokens SET ended = ? WHERE account = ? AND ended IS NULL", (now, account))
            run("DELETE FROM dodona_sessions WHERE account = ?", (account,))

        self.act(work)

    def resume(self, name: str) -> None:
        """Let a stopped account in again, with the roles it had; it needs a new token or password."""
        self.act(lambda run: run("UPDATE dodona_accounts SET stopped = NULL WHERE name = ?", (_named(run, name),)))

    def create_token(
        self,
        account: str,
        name: str,
        *,
        lifetime: timedelta | None = DEFAULT_LIFETIME,
        datasets: Iterable[str] | None = None,
        max_price: str | None = None,
    ) -> IssuedToken:
        """Create a token; its text is in the result alone. Without a lifetime it holds until it is revoked."""
        _validate_text("token name", name)
        scope = None if datasets is None else sorted({validate_dataset(dataset) for dataset in datasets})
        if max_price is not None and to_share(max_price, argument="max_price") == 0:
            raise InvalidArgument("max_price", max_price, "write a share above 0, such as 1%")
        if lifetime is not None and not timedelta(seconds=1) <= lifetime <= _LONGEST_LIFETIME:
            raise InvalidArgument("lifetime", str(lifetime), f"write 1 to {_LONGEST_LIFETIME.days} days, or none")
        now = self.clock.earliest()
        expires = None if lifetime is None else now + int(lifetime.total_seconds())
        token = secrets.new_token()

        def work(run: Execute) -> None:
            owner = _in_use(run, account)
            ((salt,),) = run("SELECT salt FROM dodona_accounts WHERE name = ?", (owner,))
            ((count,),) = run(
                "SELECT count(*) FROM dodona_tokens WHERE account = ? AND ended IS NULL AND "
                "(expires IS NULL OR expires > ?)",
                (owner, now),
            )
            if count >= MOST_TOKENS:
                raise TooManyTokens
            verifier = ScramVerifier.of(token.text, salt=bytes.fromhex(salt))
            run(
                """INSERT INTO dodona_tokens (id, account, name, digest, iterations, stored_key, server_key, datasets,
max_price, created, expires) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
                (
                    token.id,
                    owner,
                    name,
                    token.digest,
                    verifier.iterations,
                    verifier.stored_key.hex(),
                    verifier.server_key.hex(),
                    None if scope is None else json.dumps(scope),
                    max_price,
                    now,
                    expires,
                ),
            )

        self.act(work)
        return IssuedToken(next(info for info in self.tokens(account) if info.id == token.id), token.text)

    def revoke(self, account: str, token_id: str) -> None:
        """End a token of an account."""
        now = self.clock.earliest()

        def work(run: Execute) -> None:
            mine = (_named(run, account), token_id)
            if not run("SELECT 1 FROM dodona_tokens WHERE account = ? AND id = ? AND ended IS NULL", mine):
                raise TokenMissing(token_id)
            run("UPDATE dodona_tokens SET ended = ? WHERE account = ? AND id = ?", (now, *mine))

        self.act(work)

    # --- Reading. ---

    def account(self, name: str) -> Account:
        """Return an account."""
        accounts = self._accounts("WHERE folded = ?", _fold(name))
        if not accounts:
            raise AccountMissing(name)
        return accounts[0]

    def list(self) -> tuple[Account, ...]:
        """Return all accounts, by name."""
        return self._accounts("ORDER BY folded")

    def tokens(self, name: str) -> tuple[TokenInfo, ...]:
        """Return the tokens of an account, the oldest first, also those that have ended."""
        rows = self._store.read(
            """SELECT id, account, name, datasets, max_price, created, expires, last_use, ended FROM dodona_tokens
WHERE account = ? ORDER BY created, id""",
            (self.account(name).name,),
        )
        return tuple(
            TokenInfo(token, account, label, _datasets(datasets), max_price, _moment(created), *map(_when, times))
            for token, account, label, datasets, max_price, created, *times in rows
        )

    def _accounts(self, which: str, *values: str) -> tuple[Account, ...]:
        columns = "name, email, password IS NOT NULL, subject IS NOT NULL, created, stopped"
        rows = self._store.read(f"SELECT {columns} FROM dodona_accounts {which}", values)  # noqa: S608  constants
        return tuple(
            Account(name, self._grants(name), email, bool(password), bool(subject), _moment(created), _when(stopped))
            for name, email, password, subject, created, stopped in rows
        )

    # --- For the modules that keep sessions and logins in the same store. ---

    @property
    def store(self) -> AccountStore:
        """The store that the accounts are in."""
        return self._store

    def act(self, work: Callable[[Execute], object]) -> None:
        """Do the work, and raise the revision with it, so that every server reads anew what it knows."""

        def whole(run: Execute) -> None:
            work(run)
            run("UPDATE dodona_accounts_state SET revision = revision + 1", ())

        self._store.write(whole)
        self._read_at = float("-inf")


def _end_expired(run: Execute, now: int) -> None:
    run("UPDATE dodona_tokens SET ended = ? WHERE ended IS NULL AND expires <= ?", (now, now))
    run("DELETE FROM dodona_sessions WHERE expires <= ?", (now,))


def _named(run: Execute, name: str) -> str:
    """Return the name of an account as it was written when it was added."""
    rows = run("SELECT name FROM dodona_accounts WHERE folded = ?", (_fold(name),))
    if not rows:
        raise AccountMissing(name)
    stored_name: str = rows[0][0]
    return stored_name


def _in_use(run: Execute, name: str) -> str:
    account = _named(run, name)
    if run("SELECT 1 FROM dodona_accounts WHERE name = ? AND stopped IS NOT NULL", (account,)):
        raise AccountStopped(account)
    return account


def _fold(name: str) -> str:
    """Return the form in which names are compared; other than ASCII matches none, and would not be stored."""
    return name.lower() if name.isascii() else ""


def validate_dataset(name: str) -> str:
    """Return a text that can be the name of a dataset."""
    return _validate_text("dataset", name, longest=2 * _LONGEST_TEXT)


def _validate_grant(dataset: str, role: str) -> None:
    if role not in ROLES:
        raise InvalidArgument("role", role, f"write {', '.join(ROLES)}")
    validate_dataset(dataset)


def _validate_text(argument: str, text: str, *, longest: int = _LONGEST_TEXT) -> str:
    if not 0 < len(text) <= longest or not text.isprintable():
        raise InvalidArgument(argument, text, f"write 1 to {longest} printable characters")
    return text


def _validate_email(email: str | None) -> str | None:
    if email is not None and (_EMAIL.fullmatch(email) is None or len(email) > 2 * _LONGEST_TEXT):
        raise InvalidArgument("email", email, "write an address such as ada@example.org")
    return None if email is None else email.lower()


def _datasets(text: str | None) -> frozenset[str] | None:
    return None if text is None else frozenset(json.loads(text))


def _moment(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _when(seconds: int | None) -> datetime | None:
    return None if seconds is None else _moment(seconds)
