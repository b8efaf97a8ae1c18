"""The process of the SQL door: connections, TLS, logging in, cancelling, and the end of sessions whose token ended.

It is started as `python -m dodona.server.door.door SETTINGS`, where the settings are JSON without secrets.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import ssl
import struct
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from dodona.errors import DodonaError
from dodona.server import logs, secrets
from dodona.server.accounts import Accounts
from dodona.server.door import scram, wire
from dodona.server.door.asking import Asker, Problem
from dodona.server.door.backend import StepFailed
from dodona.server.door.mirrors import Mirrors, prepare_when_ready
from dodona.server.door.session import Ended, Session
from dodona.server.door.wire import Broken, Stream, message
from dodona.server.identity import Identity
from dodona.server.link import CoreLink
from dodona.server.metrics import Metrics
from dodona.server.operations import Operations
from dodona.server.places import open_accounts
from dodona.server.settings import DoorSettings, set_process_limits

_SSL, _GSS, _CANCEL, _VERSION = 80877103, 80877104, 80877102, 3
_HANDSHAKE = 0x16
_START_HEAD, _LONGEST_START = 8, 10_000
_LOGIN_SECONDS = 15.0
_IDLE_SECONDS = 12 * 3600.0
_WATCH_SECONDS = 1.0
MOST_SESSIONS = 250
MOST_OF_AN_ACCOUNT = 100
_KEPT = frozenset({"user", "database", "replication"})
_LOST = (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError, OSError, TimeoutError)


@dataclass(slots=True)
class Door:
    """Takes connections of PostgreSQL's clients."""

    accounts: Accounts
    link: CoreLink
    mirrors: Mirrors
    tls: ssl.SSLContext | None
    certificate: bytes | None
    counts: Metrics
    sessions: dict[bytes, tuple[Session, str]] = field(default_factory=dict)
    """By the key that cancels, with the id of the token."""
    running: set[asyncio.Task[object]] = field(default_factory=set)
    clients: set[asyncio.Task[None]] = field(default_factory=set)
    _decoy: bytes = field(default_factory=lambda: secrets.random_bytes(secrets.SECRET_BYTES))

    async def serve(self, listening: socket.socket) -> None:
        """Take connections until the task is cancelled."""
        loop = asyncio.get_running_loop()
        listening.setblocking(False)  # noqa: FBT003  its only argument
        while True:
            try:
                connection, _ = await loop.sock_accept(listening)
            except OSError:  # such as too many open files: others must go first
                await asyncio.sleep(0.1)
                continue
            task = asyncio.create_task(self._client(connection))
            self.clients.add(task)
            task.add_done_callback(self.clients.discard)

    async def _client(self, connection: socket.socket) -> None:
        writer: asyncio.StreamWriter | None = None
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            async with asyncio.timeout(_LOGIN_SECONDS):
                direct = await _begins_with_handshake(connection)
                if direct and self.tls is None:
                    return
                reader, writer = await _open(connection, self.tls if direct else None)
                login = await self._log_in(reader, writer, encrypted=direct)
            if login is not None:
                await self._session(*login)
        except Ended:
            pass
        except _LOST:
            pass
        except Exception as fault:  # noqa: BLE001  one client must not end the door
            logs.write_fault("fault", fault, door="sql")
        finally:
            if writer is None:
                connection.close()
            else:
                writer.close()

    # --- Logging in. ---

    async def _log_in(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, encrypted: bool
    ) -> tuple[Stream, Identity, dict[str, str], str] | None:
        """Return the client, who it is, its parameters and the id of its token; None if it only cancelled."""
        while True:
            code, body = await _read_start(reader)
            if code == _SSL and self.tls is not None and not encrypted:
                if reader._buffer:  # type: ignore[attr-defined]  # noqa: SLF001  bytes sent before TLS
                    raise Broken
                writer.write(b"S")
                await writer.drain()
                await writer.start_tls(self.tls)
                encrypted = True
            elif code in {_SSL, _GSS}:
                writer.write(b"N")
                await writer.drain()
            elif code == _CANCEL:
                await self._cancel(body)
                return None
            else:
                break
        client = Stream(reader, writer)
        if code >> 16 != _VERSION:
            await _refuse(client, "0A000", "The door speaks version 3 of PostgreSQL's protocol.")
        if self.tls is not None and not encrypted:
            await _refuse(client, "28000", "Connect with TLS: sslmode=require, or better verify-full.")
        parameters = _read_parameters(client, code, body)
        name = parameters.get("user", "")
        try:
            token = await self._prove(client, name, encrypted=encrypted)
        except scram.WrongProof:
            logs.write("login", door="sql", status="refused")
            self.counts.turned_away.labels("login").inc()
            await _refuse(client, "28P01", f'password authentication failed for user "{name}"')
        identity = await asyncio.to_thread(self.accounts.token_identity, token)
        if identity is None:
            await _refuse(client, "28P01", f'password authentication failed for user "{name}"')
        return client, identity, parameters, token

    async def _prove(self, client: Stream, name: str, *, encrypted: bool) -> str:
        """Return the id of the token that a client proves to know."""
        certificate = self.certificate if encrypted else None
        verifiers = await asyncio.to_thread(self.accounts.verifiers, name)
        offered = ([scram.PLUS] if certificate is not None else []) + [scram.PLAIN]
        client.put(message(b"R", struct.pack("!I", 10) + b"".join(wire.text_of(offer) for offer in offered) + b"\0"))
        await client.flush()
        kind, body = await client.next()
        mechanism, _, rest = body.partition(b"\0")
        if kind != b"p" or len(rest) < 4:  # noqa: PLR2004  a length
            raise scram.WrongProof
        first = verifiers[0][1] if verifiers else scram.decoy(name, self._decoy)
        try:
            challenge = scram.challenge(mechanism.decode(), rest[4:].decode(), first, certificate)
            client.put(message(b"R", struct.pack("!I", 11) + challenge.text.encode()))
            await client.flush()
            kind, body = await client.next()
            token, last = challenge.accept(body.decode() if kind == b"p" else "", verifiers)
        except UnicodeDecodeError:
            raise scram.WrongProof from None
        client.put(message(b"R", struct.pack("!I", 12) + last))
        return token

    # --- Sessions. ---

    async def _session(self, client: Stream, identity: Identity, parameters: dict[str, str], token: str) -> None:
        """Connect a client to the sidecar, and serve it."""
        open_now = [session for session, _ in self.sessions.values()]
        of_account = sum(session.identity.account == identity.account for session in open_now)
        if len(open_now) >= MOST_SESSIONS or of_account >= MOST_OF_AN_ACCOUNT:
            self.counts.turned_away.labels("too many").inc()
            await _refuse(client, "53300", "There are too many connections. Close some of them.")
        try:
            wanted = parameters.get("database") or identity.account
            dataset, knowledge = await self.mirrors.open(wanted, identity)
            kept = {name: value for name, value in parameters.items() if name not in _KEPT}
            backend, said = await self.mirrors.connect(identity, dataset, kept)
        except StepFailed as failed:
            client.put(message(b"E", failed.body))
            await client.flush()
            return
        except (Problem, DodonaError) as problem:
            await _refuse(client, problem.sqlstate, str(problem))
        key = secrets.random_bytes(8)
        asker = Asker(self.link, dataset, self.counts)
        session = Session(client, backend, identity, asker, knowledge, self.running, _IDLE_SECONDS)
        for kind, body in said:
            client.put(message(kind, key if kind == b"K" else body))
        self.sessions[key] = (session, token)
        self.counts.connections.inc()
        logs.write("connected", door="sql", account=identity.account, dataset=dataset)
        try:
            await session.run()
        except _LOST:
            with suppress(*_LOST, Ended):
                await backend.cancel()
                text = (
                    "The statement took too long, or the sidecar was restarted. What was charged is free to ask again."
                )
                await session.end("57P01", text)
        except Ended:
            raise
        except Exception as fault:  # noqa: BLE001  a bug must not end the door, nor hang a client
            logs.write_fault("fault", fault, door="sql")
            await session.end("XX000", "The door made a mistake. What was charged is free to ask again.")
        finally:
            del self.sessions[key]
            self.counts.connections.dec()
            backend.close()
            logs.write("disconnected", door="sql", account=identity.account, dataset=dataset)

    async def _cancel(self, key: bytes) -> None:
        entry = self.sessions.get(key)
        if entry is None:
            return
        session = entry[0]
        session.cancelled.set()
        if not session.asking:
            await session.backend.cancel()

    async def watch(self) -> None:
        """End the sessions whose token was revoked, or whose account was stopped, within about a second."""
        while True:
            await asyncio.sleep(_WATCH_SECONDS)
            tokens = {token for _, token in self.sessions.values()}
            try:
                identities = {token: await asyncio.to_thread(self.accounts.token_identity, token) for token in tokens}
            except DodonaError:
                continue
            for session, token in tuple(self.sessions.values()):
                identity = identities.get(token, session.identity)
                if identity is None or identity.role(session.asker.dataset) is None:
                    session.client.writer.write(
                        wire.notice("FATAL", "57P01", "The token of this session has ended, or its role.", kind=b"E")
                    )
                    session.client.close()
                    session.backend.close()
                else:
                    session.identity = identity

    async def close(self, seconds: float) -> None:
        """Let statements under way finish, then close all connections."""
        waiting = {task for task in self.running if not task.done()}
        if waiting:
            await asyncio.wait(waiting, timeout=seconds)
        for session, _ in tuple(self.sessions.values()):
            session.client.writer.write(wire.notice("FATAL", "57P01", "The server is being stopped.", kind=b"E"))
        for task in tuple(self.clients):
            task.cancel()
        await asyncio.gather(*self.clients, return_exceptions=True)


async def _read_start(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Return the code and the body of one of the messages that a connection begins with."""
    length, code = struct.unpack("!II", await reader.readexactly(_START_HEAD))
    if not _START_HEAD <= length <= _LONGEST_START:
        raise Broken
    return code, await reader.readexactly(length - _START_HEAD)


def _read_parameters(client: Stream, code: int, body: bytes) -> dict[str, str]:
    """Return what a client asks for when it connects; newer versions of the protocol are answered with this one."""
    parts = body.split(b"\0")
    try:
        parameters = {
            name.decode(): value.decode() for name, value in zip(parts[::2], parts[1::2], strict=False) if name
        }
    except UnicodeDecodeError:
        raise Broken from None
    unknown = [name for name in parameters if name.startswith("_pq_.")]
    if code & 0xFFFF or unknown:
        listed = b"".join(wire.text_of(name) for name in unknown)
        client.put(message(b"v", struct.pack("!II", _VERSION << 16, len(unknown)) + listed))
    return {name: value for name, value in parameters.items() if name not in unknown}


async def _refuse(client: Stream, sqlstate: str, text: str) -> NoReturn:
    client.put(wire.notice("FATAL", sqlstate, text, kind=b"E"))
    await client.flush()
    raise Ended


async def _begins_with_handshake(connection: socket.socket) -> bool:
    """Return whether a client begins TLS at once (sslnegotiation=direct); nothing is taken off the connection."""
    connection.setblocking(False)  # noqa: FBT003  its only argument
    loop, arrived = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(connection.fileno(), arrived.set)
    try:
        await arrived.wait()
        return connection.recv(1, socket.MSG_PEEK)[:1] == bytes([_HANDSHAKE])
    finally:
        loop.remove_reader(connection.fileno())


async def _open(
    connection: socket.socket, tls: ssl.SSLContext | None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    loop = asyncio.get_running_loop()
    streams: asyncio.Future[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = loop.create_future()
    protocol = asyncio.StreamReaderProtocol(asyncio.StreamReader(), lambda *both: streams.set_result(both))
    await loop.connect_accepted_socket(lambda: protocol, connection, ssl=tls)
    return await streams


def make_tls(certificate: str, key: str) -> ssl.SSLContext:
    """Return how TLS is spoken: version 1.2 at least, and PostgreSQL's name for clients that begin with it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate, key)
    context.set_alpn_protocols(["postgresql"])
    return context


async def serve(settings: DoorSettings) -> None:
    """Serve until the process is asked to stop."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    link = CoreLink(Path(settings.core))
    link.lose(None)  # opens it in the background: the core may start after the door
    accounts = open_accounts(settings.accounts)
    mirrors = Mirrors(Path(settings.sidecar), link)
    tls = certificate = None
    if settings.tls_cert is not None and settings.tls_key is not None:
        tls = make_tls(settings.tls_cert, settings.tls_key)
        certificate = scram.certificate_digest(Path(settings.tls_cert))
    counts = Metrics("sql")
    operations = Operations(link, counts)
    asked = operations.server()
    answering = asyncio.create_task(asked.serve([socket.socket(fileno=settings.operations_fd)]))
    await prepare_when_ready(mirrors)
    door = Door(accounts, link, mirrors, tls, certificate, counts)
    listening = socket.socket(fileno=settings.fd)
    tasks = [asyncio.create_task(door.serve(listening)), asyncio.create_task(door.watch())]
    logs.write("listening", door="sql", pid=os.getpid())
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait((stopped, *tasks), return_when=asyncio.FIRST_COMPLETED)
    logs.write("stopping", door="sql")
    operations.draining = True
    for task in (stopped, *tasks):
        task.cancel()
    await door.close(settings.drain_seconds)
    asked.should_exit = True
    await answering
    await link.close()
    accounts.close()
    logs.write("stopped", door="sql")


def run_door(settings: DoorSettings) -> None:
    """Serve the SQL door in this process, until it is asked to stop."""
    import uvloop

    logs.set_up()
    set_process_limits()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve(settings))
    except DodonaError as fault:
        logs.write("failed", door="sql", code=fault.code, detail=fault.message)
        sys.exit(fault.exit_code)


if __name__ == "__main__":
    run_door(DoorSettings(**json.loads(sys.argv[1])))
