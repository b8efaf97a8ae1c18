"""The databases of the sidecar: one for each dataset, and in it a role for each account that has logged in.

Roles have names that say nothing, as PostgreSQL shows the name of every role to everyone.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any

from dodona.server import secrets
from dodona.server.door.asking import Problem
from dodona.server.door.backend import Backend, SidecarUnreachable, StepFailed
from dodona.server.door.constants import identifier, quote
from dodona.server.door.mirror import ADMINISTRATOR, Mirror, template
from dodona.server.door.session import StatementCache
from dodona.server.identity import Identity
from dodona.server.link import Caller, CoreLink

_DOOR = Caller("sql-door", "auditor")
"""Who asks the core for what is public. Nothing can be spent in this name."""
_LOOK_AGAIN = 5.0
_LOCK_SECONDS = 5
"""Others wait to log in while a mirror is made."""
_DEFAULT_NAMES = frozenset({"postgres", "dodona", "template1"})
_OWN_DATABASES = frozenset({"postgres", "template0", "template1"})


@dataclass(slots=True)
class Mirrors:
    """Makes databases and roles when they are first needed."""

    socket: Path
    link: CoreLink
    key: bytes = field(default_factory=lambda: secrets.random_bytes(secrets.SECRET_BYTES))
    known: dict[str, tuple[Mirror, StatementCache, float]] = field(default_factory=dict)
    """By dataset: what is declared, what was learned, and when it was last looked at."""
    roles: set[tuple[str, str]] = field(default_factory=set)
    _aggregates: frozenset[str] = frozenset()
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def prepare(self) -> None:
        """Turn the template of a new sidecar into one for mirrors; a sidecar that was only restarted has it already."""
        backend = await self._administrate("template1")
        try:
            ((made,),) = await backend.run("SELECT count(*) FROM pg_namespace WHERE nspname = 'dodona'")
            if made == "0":
                await backend.run(template())
            rows = await backend.run("SELECT DISTINCT proname FROM pg_proc WHERE prokind = 'a'")
        finally:
            backend.close()
        self._aggregates = frozenset(str(name) for (name,) in rows)
        self.known.clear()
        self.roles.clear()

    async def _administrate(self, database: str) -> Backend:
        backend, _ = await Backend.connect(self.socket, {"user": ADMINISTRATOR, "database": database})
        await backend.run("SET statement_timeout = 0", f"SET lock_timeout = '{_LOCK_SECONDS}s'")
        return backend

    # --- Datasets. ---

    async def open(self, wanted: str, identity: Identity) -> tuple[str, StatementCache]:
        """Return the dataset that a client means by a database's name, with a mirror; raises Problem if there is none.

        psql names the database after the user unless it is told otherwise: with one dataset, that one is meant.
        """
        listed = await self._listed(identity)
        name = wanted
        if name not in listed and (name == identity.account or name in _DEFAULT_NAMES) and len(listed) == 1:
            (name,) = listed
        if name not in listed:
            shown = ", ".join(identifier(dataset) for dataset in listed) or "none"
            text = f"There is no dataset {identifier(wanted)} for this account. Databases are datasets: {shown}."
            raise Problem("3D000", text)
        async with self._lock:
            return name, await self._current(name)

    async def _listed(self, identity: Identity) -> list[str]:
        reply = await self._call("datasets", None, {})
        served = [dataset["dataset"] for dataset in reply["datasets"] if dataset["served"]]
        return [name for name in served if identity.role(name) is not None]

    async def _current(self, name: str) -> StatementCache:
        known = self.known.get(name)
        if known is not None and time.monotonic() - known[2] < _LOOK_AGAIN:
            return known[1]
        mirror = Mirror.of(await self._call("describe", name, {}), self._aggregates)
        knowledge = known[1] if known is not None and known[0] == mirror else StatementCache(mirror.catalog)
        if known is None or known[0] != mirror:
            await self._make(mirror)
        self.known[name] = (mirror, knowledge, time.monotonic())
        return knowledge

    async def _make(self, mirror: Mirror) -> None:
        if mirror.dataset in _OWN_DATABASES or len(mirror.dataset.encode()) > 63:  # noqa: PLR2004  the longest name
            raise Problem(
                "3D000", "A dataset of this name cannot be a database of PostgreSQL. Its owner can rename it."
            )
        name = identifier(mirror.dataset)
        backend = await self._administrate("postgres")
        try:
            rows = await backend.run(f"SELECT 1 FROM pg_database WHERE datname = {quote(mirror.dataset)}")  # noqa: S608
            if not rows:
                await backend.run(f"CREATE DATABASE {name}", f"REVOKE ALL ON DATABASE {name} FROM PUBLIC")
        finally:
            backend.close()
        backend = await self._administrate(mirror.dataset)
        try:
            await backend.run("BEGIN", *mirror.statements(), "COMMIT")
        finally:
            backend.close()

    # --- Accounts. ---

    def role_of(self, account: str) -> str:
        """Return the name of an account's role: the same while the door runs, and without the account's name in it."""
        return f"analyst_{hmac.digest(self.key, account.encode(), 'sha256').hex()[:16]}"

    async def admit(self, identity: Identity, dataset: str) -> str:
        """Return the role of an account, which may connect to the database of a dataset."""
        role = self.role_of(identity.account)
        async with self._lock:
            if (role, dataset) in self.roles:
                return role
            backend = await self._administrate("postgres")
            try:
                rows = await backend.run(f"SELECT 1 FROM pg_authid WHERE rolname = {quote(role)}")  # noqa: S608
                if not rows:
                    await backend.run(f"CREATE ROLE {role} LOGIN")
                await backend.run(f"GRANT CONNECT ON DATABASE {identifier(dataset)} TO {role}")
            finally:
                backend.close()
            self.roles.add((role, dataset))
        return role

    async def connect(
        self, identity: Identity, dataset: str, parameters: Mapping[str, str]
    ) -> tuple[Backend, list[tuple[bytes, bytes]]]:
        """Return a connection of an account to the database of a dataset; a sidecar that was made anew is prepared."""
        try:
            return await self._connect(identity, dataset, parameters)
        except StepFailed:
            if await self._is_there(dataset):
                raise
        await self.prepare()
        async with self._lock:
            await self._current(dataset)
        return await self._connect(identity, dataset, parameters)

    async def _connect(
        self, identity: Identity, dataset: str, parameters: Mapping[str, str]
    ) -> tuple[Backend, list[tuple[bytes, bytes]]]:
        role = await self.admit(identity, dataset)
        return await Backend.connect(self.socket, {**parameters, "user": role, "database": dataset})

    async def _is_there(self, dataset: str) -> bool:
        backend = await self._administrate("postgres")
        try:
            return bool(await backend.run(f"SELECT 1 FROM pg_database WHERE datname = {quote(dataset)}"))  # noqa: S608
        finally:
            backend.close()

    async def _call(self, act: str, dataset: str | None, arguments: Mapping[str, object]) -> dict[str, Any]:
        reply = await self.link.call(act, dataset=dataset, caller=_DOOR, arguments=arguments)
        document: dict[str, Any] = json.loads(reply.body)
        if reply.status >= HTTPStatus.BAD_REQUEST:
            raise Problem(
                str(document.get("sqlstate", "XX000")), str(document["detail"]), code=str(document.get("code", ""))
            )
        return document


async def prepare_when_ready(mirrors: Mirrors, *, seconds: float = 60.0) -> None:
    """Prepare the sidecar as soon as it answers."""
    until = time.monotonic() + seconds
    while True:
        try:
            return await mirrors.prepare()
        except (SidecarUnreachable, StepFailed):
            if time.monotonic() > until:
                raise
            await asyncio.sleep(0.1)
