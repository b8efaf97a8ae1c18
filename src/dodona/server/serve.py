"""`dodona serve`: starts the core, the analysts' front and the owners' front, and starts again what dies.

The supervisor opens the listening sockets and hands them on, so that a front that is started again goes on with the
connections that were waiting, and so that only the supervisor needs the right to low ports.
"""

import asyncio
import ctypes
import dataclasses
import http.client
import json
import os
import pwd
import resource
import signal
import sys
import time
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from dodona.errors import InvalidArgument, InvalidRequest, Unavailable
from dodona.server import logs
from dodona.server.admission import WorkerLimits
from dodona.server.agents.spending import AgentCaps
from dodona.server.door.sidecar import Sidecar, environment, make_sidecar
from dodona.server.places import StateFolder, Users, create_accounts
from dodona.server.settings import CLIENT_SECONDS, DoorSettings, FrontSettings, listen

ANALYSTS_PORT, OWNERS_PORT, OPERATIONS_PORT, SQL_OPERATIONS_PORT = 8700, 8701, 8702, 8703
_FIRST_PAUSE, _LONGEST_PAUSE, _STABLE_SECONDS = 0.2, 5.0, 30.0
_START_SECONDS, _STOP_SECONDS = 60.0, 15.0
_MOST_STARTS = 4
"""How often a part is started again before the server has answered once."""
_LONGEST_SOCKET_PATH = 107
_LIMIT_TYPES: dict[str, tuple[type, ...]] = {"int": (int,), "float": (int, float), "Mapping": (dict,)}
_SETTINGS_ARE_WRONG = 2
"""The exit code of a child that cannot start as it was told to: starting it again does not help."""


class DidNotStart(Unavailable):
    """A part of the server ended before the server was ready."""

    code = "did-not-start"

    def __init__(self, part: str) -> None:
        """Name the part."""
        super().__init__(f"The {part} did not start. The lines above say why.")


@dataclass(frozen=True, slots=True)
class Address:
    """A host and a port."""

    host: str
    port: int

    @property
    def on_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False


@dataclass(frozen=True, slots=True)
class ServeSettings:
    """What the operator chose."""

    folder: Path
    state: Path
    analysts: Address = field(default_factory=lambda: Address("127.0.0.1", ANALYSTS_PORT))
    owners: Address = field(default_factory=lambda: Address("127.0.0.1", OWNERS_PORT))
    operations: Address = field(default_factory=lambda: Address("127.0.0.1", OPERATIONS_PORT))
    sql: Address | None = None
    """Where PostgreSQL's clients connect; None for no SQL door."""
    sql_operations: Address = field(default_factory=lambda: Address("127.0.0.1", SQL_OPERATIONS_PORT))
    """Where operators ask after the SQL door."""
    sql_user: str | None = None
    """The user of the sidecar; None for one that the system has."""
    accounts: str | None = None
    """A path, or `env:NAME` for the address of a database; None for a file in the state folder."""
    tls_cert: Path | None = None
    tls_key: Path | None = None
    behind_proxy: bool = False
    proxy_address: str = "127.0.0.1"
    login: Path | None = None
    users: Users = field(default_factory=Users)
    limits: Path | None = None
    """A file with the core's limits: workers, threads, seconds, memory and the time grid."""
    share_group: bool = False
    """Whether fronts of the core's group, which other units start, may reach its sockets."""
    log_texts: bool = False
    client_seconds: float = CLIENT_SECONDS
    drain_seconds: float = 30.0
    demo: bool = False
    """Whether the data are made up."""
    agents: AgentCaps = field(default_factory=AgentCaps)
    """What agents may spend."""

    def __post_init__(self) -> None:
        """Refuse what would send tokens over a network in plain text, and what cannot work."""
        if not self.folder.is_dir():
            raise InvalidArgument("FOLDER", str(self.folder), "write a folder with dataset files, such as stays.toml")
        if len(os.fsencode(self.places.analysts_socket)) > _LONGEST_SOCKET_PATH:
            raise InvalidArgument("--state", str(self.state), "choose a shorter path: it will hold sockets")
        self._check_transport()
        self._check_users()

    def _check_transport(self) -> None:
        if (self.tls_cert is None) != (self.tls_key is None):
            raise InvalidRequest("TLS needs both files: --tls-cert and --tls-key.")
        for argument, path in (("--tls-cert", self.tls_cert), ("--tls-key", self.tls_key), ("--login", self.login)):
            if path is not None and not path.is_file():
                raise InvalidArgument(argument, str(path), "write the path of a file")
        for argument, address in (("--host", self.analysts), ("--owners-host", self.owners), ("--sql-host", self.sql)):
            if address is not None and not address.on_loopback and self.tls_cert is None and not self.behind_proxy:
                accepted = (
                    "others on the network would read tokens: give --tls-cert and --tls-key, or --behind-proxy if a "
                    "proxy in front ends TLS"
                )
                raise InvalidArgument(argument, address.host, accepted)

    def _check_users(self) -> None:
        users = self.users
        if any((users.core, users.front, users.owners)) and os.geteuid() != 0:
            raise InvalidRequest("Only root can start the parts as other users: --core-user and --front-user.")
        if (users.core is None) != (users.front is None):
            raise InvalidRequest("Name both users, --core-user and --front-user, or neither.")

    @property
    def places(self) -> StateFolder:
        """Where the sockets and the accounts are."""
        return StateFolder(self.state)

    def front(self, door: str, *, fd: int, operations_fd: int | None) -> FrontSettings:
        """Return the settings of the front of a door."""
        socket_path = self.places.analysts_socket if door == "analysts" else self.places.owners_socket
        return FrontSettings(
            door="analysts" if door == "analysts" else "owners",
            core=str(socket_path),
            accounts=self.accounts or str(self.places.accounts),
            fd=fd,
            operations_fd=operations_fd,
            tls_cert=None if self.tls_cert is None else str(self.tls_cert),
            tls_key=None if self.tls_key is None else str(self.tls_key),
            proxy_address=self.proxy_address if self.behind_proxy else None,
            log_texts=self.log_texts,
            client_seconds=self.client_seconds,
            drain_seconds=self.drain_seconds,
            login=None if self.login is None else str(self.login),
            demo=self.demo,
            agents=self.agents.to_json() if door == "analysts" else None,
        )

    def door(self, sidecar: Sidecar, *, fd: int, operations_fd: int) -> DoorSettings:
        """Return the settings of the SQL door."""
        return DoorSettings(
            core=str(self.places.analysts_socket),
            accounts=self.accounts or str(self.places.accounts),
            sidecar=str(sidecar.socket),
            fd=fd,
            operations_fd=operations_fd,
            tls_cert=None if self.tls_cert is None else str(self.tls_cert),
            tls_key=None if self.tls_key is None else str(self.tls_key),
            drain_seconds=self.drain_seconds,
        )

    def core(self) -> str:
        """Return the settings of the core, as its process reads them."""
        limits = {} if self.limits is None else read_limits(self.limits)
        limits |= {"socket_mode": 0o660 if self.share_group else 0o600}
        if self.users.front is not None:
            fronts = [self.users.entry(name) for name in (self.users.front, self.users.owners)]
            limits |= {"socket_mode": 0o660, "peers": [user.pw_uid for user in fronts if user is not None]}
        places = self.places
        settings = {
            "folder": str(self.folder.resolve()),
            "analysts": str(places.analysts_socket),
            "owners": str(places.owners_socket),
            "state": str(places.core),
            "limits": limits,
        }
        return json.dumps(settings)


def read_limits(path: Path) -> dict[str, object]:
    """Read the core's limits from TOML; a name that there is not, or a value of another type, is refused."""
    types = {field.name: str(getattr(field.type, "__name__", field.type)) for field in dataclasses.fields(WorkerLimits)}
    known = types | {"socket_mode": "", "peers": ""}
    accepted = f"write TOML with {', '.join(name for name, kind in known.items() if kind in _LIMIT_TYPES)}"
    try:
        limits = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        raise InvalidArgument("--limits", str(path), accepted) from None
    for name, value in limits.items():
        if not isinstance(value, _LIMIT_TYPES.get(known.get(name, ""), ())) or isinstance(value, bool):
            raise InvalidArgument("--limits", name, accepted)
    return limits


# --- One part alone, for systemd. ---


def serve_one(settings: ServeSettings, part: str) -> None:
    """Run one part in this process: core, front, owners, sql or sidecar."""
    settings.places.create_alone(part, shared=settings.share_group)
    if part == "sidecar":
        sidecar = make_sidecar(settings.places.sidecar, shared=settings.share_group)
        resource.setrlimit(resource.RLIMIT_AS, (sidecar.memory, sidecar.memory))
        if sidecar.user is not None:
            os.setgroups([])
            os.setgid(sidecar.user.pw_gid)
            os.setuid(sidecar.user.pw_uid)
        os.execve(sidecar.command[0], sidecar.command, environment())  # noqa: S606  PostgreSQL's own program
    if part == "sql":
        _serve_sql(settings)
        return
    if part == "core":
        os.execv(sys.executable, [sys.executable, "-m", "dodona.server.core", settings.core()])  # noqa: S606  our own module
    door, address = ("analysts", settings.analysts) if part == "front" else ("owners", settings.owners)
    create_accounts(settings.accounts or str(settings.places.accounts))
    listening = listen(address.host, address.port, argument="--host" if part == "front" else "--owners-host")
    operations = None
    if part == "front":
        operations = listen(settings.operations.host, settings.operations.port, argument="--operations-host")
    chosen = settings.front(
        door, fd=listening.detach(), operations_fd=None if operations is None else operations.detach()
    )
    from dodona.server.front import run_front

    run_front(chosen)


def _serve_sql(settings: ServeSettings) -> None:
    """Run the SQL door in this process, in front of a sidecar that runs alone."""
    if settings.sql is None:
        raise InvalidRequest("Say where PostgreSQL's clients connect: --sql PORT.")
    create_accounts(settings.accounts or str(settings.places.accounts))
    listening = listen(settings.sql.host, settings.sql.port, argument="--sql")
    from dodona.server.door.door import run_door

    operations = listen(settings.sql_operations.host, settings.sql_operations.port, argument="--sql-operations-port")
    sidecar = Sidecar(settings.places.sidecar, Path(), None)
    run_door(settings.door(sidecar, fd=listening.detach(), operations_fd=operations.detach()))


def prepare(settings: ServeSettings) -> bool:
    """Make the state folder and empty accounts, where they are missing; return whether anybody has an account."""
    settings.places.create(settings.users)
    anybody = create_accounts(settings.accounts or str(settings.places.accounts))
    if settings.accounts is None:
        front = settings.users.entry(settings.users.front)
        for path in settings.places.accounts.parent.iterdir():
            if front is not None:
                os.chown(path, front.pw_uid, -1)
    return anybody


# --- All parts, and whoever dies is started again. ---


@dataclass(slots=True)
class _Part:
    """A child process that is started again when it ends."""

    name: str
    command: list[str]
    fds: tuple[int, ...] = ()
    user: pwd.struct_passwd | None = None
    log: Any = None
    memory: int | None = None
    """Bytes of address space that each of its processes may have."""
    environment: dict[str, str] | None = None
    process: asyncio.subprocess.Process | None = None
    restarts: int = 0
    began: float = 0.0

    async def start(self) -> asyncio.subprocess.Process:
        rights: dict[str, Any] = {}
        if self.user is not None:
            rights = {"user": self.user.pw_uid, "group": self.user.pw_gid, "extra_groups": []}
        self.began = time.monotonic()
        self.process = await asyncio.create_subprocess_exec(
            *self.command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=self.log,
            pass_fds=self.fds,
            start_new_session=True,  # an interrupt from the keyboard is the supervisor's to hand on
            preexec_fn=partial(_end_with_parent, os.getpid(), self.memory),
            env=self.environment,
            **rights,
        )
        return self.process

    async def stop(self, seconds: float) -> None:
        """Ask the process to end, and end it if it does not."""
        process = self.process
        if process is None or process.returncode is not None:
            return
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), seconds)
        except TimeoutError:
            process.kill()
            await process.wait()


_SET_PARENT_DEATH_SIGNAL = 1  # of prctl
_LIBC = ctypes.CDLL(None)


def _end_with_parent(parent: int, memory: int | None) -> None:
    """Ask the system to end a part whose supervisor was killed: nobody would stop or restart it otherwise."""
    if memory is not None:
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    if sys.platform == "linux":
        _LIBC.prctl(_SET_PARENT_DEATH_SIGNAL, int(signal.SIGTERM))
    if os.getppid() != parent:  # it was killed before the system was asked
        os._exit(1)


class Supervisor:
    """Runs all parts until it is asked to stop."""

    def __init__(self, settings: ServeSettings, *, log: Any = None) -> None:  # noqa: ANN401  a file or a number of one
        """Open the sockets; `log` is where the parts write their lines instead of standard error."""
        self.settings = settings
        self._stop = asyncio.Event()
        self._answered = False
        self._sockets = {
            "analysts": listen(settings.analysts.host, settings.analysts.port, argument="--host"),
            "owners": listen(settings.owners.host, settings.owners.port, argument="--owners-host"),
            "operations": listen(settings.operations.host, settings.operations.port, argument="--operations-host"),
        }
        if settings.sql is not None:
            self._sockets["sql"] = listen(settings.sql.host, settings.sql.port, argument="--sql")
            counts = settings.sql_operations
            self._sockets["sql-operations"] = listen(counts.host, counts.port, argument="--sql-operations-port")
        self._log = log
        self._sidecar: Sidecar | None = None
        self._sql: tuple[_Part, ...] = ()
        users = settings.users
        core, front, owners = (users.entry(name) for name in (users.core, users.front, users.owners or users.front))
        fds = {name: listener.fileno() for name, listener in self._sockets.items()}
        program = [sys.executable, "-m"]
        analysts = settings.front("analysts", fd=fds["analysts"], operations_fd=fds["operations"])
        of_owners = settings.front("owners", fd=fds["owners"], operations_fd=None)
        self._core = _Part("core", [*program, "dodona.server.core", settings.core()], user=core, log=log)
        self._fronts = (
            _Part(
                "front",
                [*program, "dodona.server.front", analysts.to_json()],
                (fds["analysts"], fds["operations"]),
                front,
                log,
            ),
            _Part("owners", [*program, "dodona.server.front", of_owners.to_json()], (fds["owners"],), owners, log),
        )

    def url(self, door: str) -> str:
        """Return the address of a door, as clients write it."""
        listening = self._sockets[door]
        host, port = listening.getsockname()[:2]
        scheme = "https" if self.settings.tls_cert is not None and not door.endswith("operations") else "http"
        scheme = "postgresql" if door == "sql" else scheme
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"

    async def run(self, ready: Callable[[], None]) -> None:
        """Start all parts, call `ready` when questions are answered, and keep them running until a signal."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        # The owners' front starts last: its socket listens already, and analysts should not wait for it.
        first, last = (self._core, self._fronts[0]), self._fronts[1]
        keepers = [asyncio.create_task(self._keep(part)) for part in first]
        asked = asyncio.create_task(self._stop.wait())
        waiting = asyncio.create_task(self._until_ready())
        try:
            if self.settings.sql is not None:  # while the core starts
                self._sql = await asyncio.to_thread(self._make_door)
                keepers += [asyncio.create_task(self._keep(part)) for part in self._sql]
            await asyncio.wait((asked, waiting, *keepers), return_when=asyncio.FIRST_COMPLETED)
            self._raise_failures(keepers)
            if waiting.done():
                waiting.result()
                self._answered = True
                keepers.append(asyncio.create_task(self._keep(last)))
                ready()
                await asyncio.wait((asked, *keepers), return_when=asyncio.FIRST_COMPLETED)
                self._raise_failures(keepers)
        finally:
            for task in (asked, waiting, *keepers):
                task.cancel()
            # Fronts first: they finish what was asked, for which they need the core.
            patience = self.settings.drain_seconds + _STOP_SECONDS
            await asyncio.gather(*(part.stop(patience) for part in (*self._fronts, *self._sql[1:])))
            await asyncio.gather(*(part.stop(patience) for part in (self._core, *self._sql[:1])))
            if self._sidecar is not None:
                self._sidecar.remove()
            for listening in self._sockets.values():
                listening.close()

    def _make_door(self) -> tuple[_Part, _Part]:
        """Return the sidecar and the SQL door in front of it."""
        settings = self.settings
        front = settings.users.entry(settings.users.front)
        self._sidecar = sidecar = make_sidecar(user=settings.sql_user, door=front)
        fds = self._sockets["sql"].fileno(), self._sockets["sql-operations"].fileno()
        door = settings.door(sidecar, fd=fds[0], operations_fd=fds[1])
        command = [sys.executable, "-m", "dodona.server.door.door", door.to_json()]
        return (
            _Part("sidecar", sidecar.command, (), sidecar.user, self._log, sidecar.memory, environment()),
            _Part("sql", command, fds, front, self._log),
        )

    @staticmethod
    def _raise_failures(keepers: Sequence[asyncio.Task[None]]) -> None:
        for task in keepers:
            if task.done():
                task.result()

    async def _keep(self, part: _Part) -> None:
        """Start a part, and start it again whenever it ends; later each time, if it ends at once."""
        pause = _FIRST_PAUSE
        while True:
            try:
                process = await part.start()
            except OSError as fault:  # such as a user who may not run this Python
                logs.write_fault("fault", fault, part=part.name)
                raise DidNotStart(part.name) from None
            code = await process.wait()
            if code == _SETTINGS_ARE_WRONG or (part.restarts >= _MOST_STARTS and not self._answered):
                raise DidNotStart(part.name)
            pause = _FIRST_PAUSE if time.monotonic() - part.began > _STABLE_SECONDS else pause
            part.restarts += 1
            logs.write("restart", part=part.name, exit=code, after=round(time.monotonic() - part.began, 1))
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _until_ready(self) -> None:
        host, port = self._sockets["operations"].getsockname()[:2]
        until = time.monotonic() + _START_SECONDS
        while not await asyncio.to_thread(_is_ready, host, port):
            if time.monotonic() > until:
                raise DidNotStart("server")
            await asyncio.sleep(0.05)


def _is_ready(host: str, port: int) -> bool:
    asking = http.client.HTTPConnection(host, port, timeout=5)
    try:
        asking.request("GET", "/ready")
        return asking.getresponse().status == HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        asking.close()


def serve_all(settings: ServeSettings, ready: Callable[[Supervisor, bool], None], *, log: Any = None) -> None:  # noqa: ANN401
    """Run the whole server until a signal; `ready` is called when it answers, and told whether anybody may ask."""
    anybody = prepare(settings)

    async def run() -> None:
        supervisor = Supervisor(settings, log=log)
        await supervisor.run(lambda: ready(supervisor, anybody))

    asyncio.run(run())
