"""Versions of the data: changed bytes under an old version are refused, as old answers would seem to be about new rows.

The digests of the data stand in a file beside the ledger. They depend on the data, so that file is the owner's alone.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from dodona.errors import InvalidRequest
from dodona.opening.file import DatasetFile

if TYPE_CHECKING:
    from dodona.backends.duckdb import DuckDBSource

_SUFFIX = ".versions"


class Fingerprinted(Protocol):
    """A source that can tell whether its rows changed."""

    def fingerprint(self) -> str:
        """Return a digest of all that an answer can depend on."""


class VersionChanged(InvalidRequest):
    """The bytes of the data are not those that this version had before."""

    code = "version-changed"

    def __init__(self, version: str) -> None:
        """Name the version."""
        super().__init__(
            f"The data changed, and they are still called version {version!r}. Write a new version: "
            "the budget goes on, and answers about the older rows are not told again."
        )


def hold_version(file: DatasetFile) -> None:
    """Compare the files of a dataset with what this version was when it was first opened."""
    from dodona.backends.files import found_files
    from dodona.backends.fingerprint import fingerprint

    hold_digest(_kept(file), file.version, fingerprint(found_files(file.rows)))


def hold_source(file: DatasetFile, source: Fingerprinted) -> None:
    """Compare the rows of a table that an engine holds with what this version was when it was first opened."""
    hold_digest(_kept(file), file.version, source.fingerprint())


def hold_frame(ledger: Path, table: str, source: DuckDBSource) -> None:
    """Compare a frame with what its version was when it was first opened over this ledger."""
    hold_digest(ledger.parent / f".{ledger.name}.{table}{_SUFFIX}", source.version, source.fingerprint())


def hold_digest(kept: Path, version: str, found: str) -> None:
    """Compare a digest with the one that a version has in a file, and write it there if it is new."""
    known = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
    if known.get(version) == found:
        return
    if version in known:
        raise VersionChanged(version)
    _write(kept, {**known, version: found})


def _kept(file: DatasetFile) -> Path:
    return file.path.parent / f".{file.dataset}{_SUFFIX}"


def _write(path: Path, versions: dict[str, str]) -> None:
    """Replace the file in one step; only its owner may read it."""
    new = path.with_name(f"{path.name}.new")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        json.dump(versions, file)
    new.replace(path)
