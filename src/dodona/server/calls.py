"""One call of an act, as the functions that carry it out see it, and the small files that outlive a worker.

The files hold the numbers of open watches, and synthetic releases until they are fetched. All of it is public: what
callers wrote, and what was released. Only the core's user may read the folder.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dodona.errors import DodonaError
from dodona.server.acts import DatasetUnavailable
from dodona.server.link import Caller, Progress, Reply

if TYPE_CHECKING:
    from dodona.server.datasets import Datasets, Opened

_LOG = logging.getLogger("dodona.server.worker")


@dataclass(frozen=True, slots=True, kw_only=True)
class ActCall:
    """One call, as a worker sees it."""

    act: str
    dataset: str
    """Empty for acts that concern no dataset."""
    caller: Caller
    arguments: Mapping[str, object]
    accept: str
    owners: bool
    """Whether it came through the owners' socket."""
    datasets: Datasets
    progress: Progress
    only_free: bool = False
    """Whether it must return None rather than spend."""

    @property
    def opened(self) -> Opened:
        """The dataset, opened for all callers; analysts do not learn why it could not be."""
        try:
            return self.datasets.open(self.dataset)
        except DodonaError as fault:
            if self.owners or fault.http_status == 404:  # noqa: PLR2004  there is none of that name
                raise
            _LOG.error("opening a dataset failed: %s", type(fault).__name__)
            raise DatasetUnavailable from None

    @property
    def key(self) -> str:
        """The key of a call that spends."""
        return str(self.arguments["key"])


class RunLater(Exception):
    """Raised by an act that was replied to, and has a long part that the dispatcher shall have run."""

    def __init__(self, reply: Reply) -> None:
        """Take the reply."""
        super().__init__()
        self.reply = reply


def kept_path(call: ActCall, kind: str, suffix: str = ".json") -> Path:
    """Return where something of a caller is kept under its key; names are hashed, as they may hold anything."""
    folder = call.datasets.state / sha256(call.dataset.encode()).hexdigest()[:24] / kind
    named = f"{call.caller.name}\0{call.key}"
    return folder / f"{sha256(named.encode()).hexdigest()[:40]}{suffix}"


def write_kept(path: Path, document: object) -> None:
    """Replace a kept file in one step."""
    write_bytes(path, json.dumps(document).encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Replace a kept file with other content, likewise."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


def read_kept(path: Path) -> dict[str, Any] | None:
    """Return a kept file; None if there is none."""
    try:
        document = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    return document if isinstance(document, dict) else None
