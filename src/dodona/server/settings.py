"""What the process of a door has to know, and its listening sockets. Light: the supervisor loads no HTTP."""

import json
import resource
import socket
from dataclasses import asdict, dataclass
from typing import Literal

from dodona.errors import InvalidArgument

DoorName = Literal["analysts", "owners"]
CLIENT_SECONDS = 20.0
"""How long a client may take to send the headers, to send the body, and to read a reply."""
BACKLOG = 1024
_MOST_FILES = 1 << 16


@dataclass(frozen=True, slots=True)
class FrontSettings:
    """What the process of a door has to know. `fd` and `operations_fd` are sockets that listen already."""

    door: DoorName
    core: str
    accounts: str
    fd: int
    operations_fd: int | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    proxy_address: str | None = None
    log_texts: bool = False
    client_seconds: float = CLIENT_SECONDS
    drain_seconds: float = 30.0
    login: str | None = None
    """The file that says which OpenID Connect provider people log in with."""
    demo: bool = False
    """Whether the data are made up: then the page offers a tour that shows the truth."""
    agents: dict[str, str] | None = None
    """What agents may spend; None where they are not served."""

    def to_json(self) -> str:
        """Return the settings as the process reads them."""
        return json.dumps(asdict(self))


@dataclass(frozen=True, slots=True)
class DoorSettings:
    """What the process of the SQL door has to know. `fd` and `operations_fd` are sockets that listen already."""

    core: str
    accounts: str
    sidecar: str
    """The socket of the sidecar."""
    fd: int
    operations_fd: int
    tls_cert: str | None = None
    tls_key: str | None = None
    drain_seconds: float = 30.0

    def to_json(self) -> str:
        """Return the settings as the process reads them."""
        return json.dumps(asdict(self))


def set_process_limits() -> int:
    """Let this process dump no core, which would hold tokens, and open as many files as the system allows it.

    Return how many files: each connection is one.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _, allowed = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST_FILES if allowed == resource.RLIM_INFINITY else allowed
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, allowed))
    return most


def listen(host: str, port: int, *, argument: str) -> socket.socket:
    """Return a socket that listens, and that a child process may inherit."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as fault:
        listener.close()
        reason = f"the system says: {fault.strerror}. Choose another host or port"
        raise InvalidArgument(argument, f"{host}:{port}", reason) from None
    listener.set_inheritable(True)
    return listener
