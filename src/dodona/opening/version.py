"""Versions of the data: changed bytes under an old version are refused, as old answers would seem to be about new rows.

The digests of the files stand in a file beside the ledger. They depend on the data, so that file is the owner's alone.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from dodona.errors import InvalidRequest
from dodona.opening.file import DatasetFile

_SUFFIX = ".versions"


class VersionChanged(InvalidRequest):
    """The bytes of the data are not those that this version had before."""

    code = "version-changed"

    def __init__(self, version: str) -> None:
        """Name the version."""
        super().__init__(
            f"The data changed, and they are still called version {version!r}. Write a new version in [source]: "
            "the budget goes on, and answers about the older rows are not told again."
        )


def hold_version(file: DatasetFile) -> None:
    """Compare the data with what this version was when it was first opened."""
    from dodona.backends.files import found_files
    from dodona.backends.fingerprint import fingerprint

    kept = file.path.parent / f".{file.dataset}{_SUFFIX}"
    known = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
    found = fingerprint(found_files(file.rows))
    if known.get(file.version) == found:
        return
    if file.version in known:
        raise VersionChanged(file.version)
    _write(kept, {**known, file.version: found})


def _write(path: Path, versions: dict[str, str]) -> None:
    """Replace the file in one step; only its owner may read it."""
    new = path.with_name(f"{path.name}.new")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        json.dump(versions, file)
    new.replace(path)
