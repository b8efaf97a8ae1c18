"""Fingerprints: whether the rows are still those that a version was given to.

A fingerprint is a function of the rows. It is for the owner's opener to compare, never for an analyst to see.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from dodona.backends.files import found_files

_AT_ONCE = 2**20


def fingerprint(paths: str | Path | Iterable[str | Path], *, further: str = "") -> str:
    """Return a digest of the contents of files, given by paths or patterns; their names and order do not matter.

    Whatever else decides what is read from them is `further`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "a").write_bytes(b"1"), Path(folder, "b").write_bytes(b"2")
    ...     fingerprint([Path(folder, "a"), Path(folder, "b")]) == fingerprint([Path(folder, "b"), Path(folder, "a")])
    True
    """
    listed = [paths] if isinstance(paths, str | Path) else list(paths)
    files = {name for path in listed for name in found_files(path)}
    digests = "".join(sorted(_digest(Path(name)) for name in files))
    return hashlib.sha256(f"{digests}{further}".encode()).hexdigest()


def _digest(path: Path) -> str:
    found = hashlib.sha256()
    with path.open("rb") as file:
        while part := file.read(_AT_ONCE):
            found.update(part)
    return found.hexdigest()
