"""Versions of the data: changed bytes under an old version are refused, as old answers would seem to be about new rows.

The digests of the data stand in a file beside the ledger. They depend on the data, so that file is the owner's alone.
"""

from __future__ import annotations

import json
import os
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from dodona.domain.schema import Schema
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
            "the budget goes on, and answers about the older rows are not told again. Where people are protected, a "
            "column that was added needs a new version too, as it changes which of their rows count."
        )


def hold_version(file: DatasetFile, key: bytes) -> bool:
    """Compare the files of a dataset with what this version first was; return whether this is the first time."""
    from dodona.backends.duckdb_opening import partitions
    from dodona.backends.files import found_files, pattern_base
    from dodona.backends.fingerprint import fingerprint

    files, further = found_files(file.rows), file.form.digest
    folders = {name: partitions(name, pattern_base(file.rows)) for name in files} if file.kind == "parquet" else {}
    if any(folders.values()):  # what a folder is called is a value of its rows
        further = json.dumps(sorted((own, fingerprint(name)) for name, own in folders.items()))
    return _hold(_kept(file), file.schema, file.version, fingerprint(files, further=further), key)


def hold_source(file: DatasetFile, source: Fingerprinted, key: bytes) -> bool:
    """Compare the rows of a table that an engine holds, likewise."""
    return _hold(_kept(file), file.schema, file.version, source.fingerprint(), key)


def hold_frame(ledger: Path, schema: Schema, source: DuckDBSource, key: bytes) -> bool:
    """Compare a frame with what its version was when it was first opened over this ledger, likewise."""
    kept = ledger.parent / f".{ledger.name}.{schema.table}{_SUFFIX}"
    return _hold(kept, schema, source.version, source.fingerprint(), key)


def _hold(kept: Path, schema: Schema, version: str, found: str, key: bytes) -> bool:
    """Compare the rows of a version, and where people are protected all else that decides which rows count.

    These change with a column that is added, and with the key: so a version belongs to one schema and to one ledger.
    Which rows counted under a version that an earlier version of this program opened is not known.
    """
    if schema.unit.id is None:
        return hold_digest(kept, version, found)
    if version in _known(kept):
        raise VersionChanged(version)
    slot = f"{version} {sha256(b'cap' + key).hexdigest()[:16]}"
    return hold_digest(kept, slot, sha256(f"{found} {schema.digest}".encode("ascii")).hexdigest(), version=version)


def hold_digest(kept: Path, slot: str, found: str, *, version: str | None = None) -> bool:
    """Compare a digest with the one that a version has in a file; write it there if it is new, and return whether."""
    known = _known(kept)
    if known.get(slot) == found:
        return False
    if slot in known:
        raise VersionChanged(slot if version is None else version)
    _write(kept, {**known, slot: found})
    return True


def _known(kept: Path) -> dict[str, str]:
    """Return the digests of a file; none where there is no file yet."""
    try:
        known = json.loads(kept.read_bytes())
        if isinstance(known, dict) and all(isinstance(text, str) for text in known.values()):
            return known
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError):
        pass
    raise InvalidRequest(
        f"{kept} cannot be read, or is torn: it says which data each version had. Restore it from a backup; or, if the "
        "data did not change since they were last opened, take it away."
    )


def _kept(file: DatasetFile) -> Path:
    return file.path.parent / f".{file.dataset}{_SUFFIX}"


def _write(path: Path, versions: dict[str, str]) -> None:
    """Replace the file in one step; only its owner may read it."""
    new = path.with_name(f"{path.name}.new")
    try:
        new.unlink(missing_ok=True)  # left by a crash, or put there by somebody: a link would be followed
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            json.dump(versions, file)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as fault:
        raise InvalidRequest(
            f"{path} cannot be written: {fault.strerror}. It says which data each version had. Let the owner open the "
            "dataset first, in a folder that may be written to."
        ) from None
