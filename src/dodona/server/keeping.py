"""Small files that outlive a worker: the numbers of open watches, and synthetic releases until they are fetched.

All of it is public: what callers wrote, and what was released. Only the core's user may read the folder.
"""

from __future__ import annotations

import json
import os
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dodona.server.calls import ActCall


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
        found = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    return found if isinstance(found, dict) else None
