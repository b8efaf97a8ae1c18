"""Backup and restore of datasets: their files, ledgers and version digests in one archive. Rows are not part of it.

A restored ledger must not spend twice. Only its head, kept elsewhere, can prove that nothing was charged after the
backup; without that proof everything unspent counts as spent.
"""

import io
import json
import os
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from dodona.dataset.file import DatasetFile
from dodona.dataset.opening import open_dataset_ledger, versions_path
from dodona.errors import InvalidRequest
from dodona.ledger.entries import Line
from dodona.ledger.errors import HeadMissing
from dodona.ledger.head import Mark
from dodona.ledger.opening import default_head_path, locate_head, recover_ledger, restore_ledger

_FORMAT = 1
_CONTENTS = "contents.json"
_LARGEST = 1 << 32


class BackupUnreadable(InvalidRequest):
    """The archive is damaged, or no backup of this version."""

    code = "backup-unreadable"

    def __init__(self, path: Path, reason: str) -> None:
        """Name the archive and the reason."""
        super().__init__(f"{path} cannot be restored: {reason}. Take another backup.")


@dataclass(frozen=True, slots=True)
class RestoredDataset:
    """A dataset that was restored, and whether everything unspent counts as spent."""

    dataset: str
    file: Path
    charges: int
    exhausted: bool


def backup(place: str | Path, target: str | Path, /) -> tuple[str, ...]:
    """Write the dataset files of a folder, or one of them, with their ledgers into an archive; return their names.

    Questions may be asked meanwhile: each ledger is read in one moment. The archive holds the keys that select rows, so
    only its owner may read it.
    """
    target = Path(target)
    if target.exists():
        raise InvalidRequest(f"{target} exists already, and a backup never overwrites. Write another name.")
    files = dataset_files(Path(place))
    members: dict[str, bytes] = {}
    for file in files:
        with open_dataset_ledger(file.path) as ledger:
            lines = ledger.lines()
        members[file.path.name] = file.path.read_bytes()
        members[f"{file.path.name}.ledger"] = _pack(lines)
        if versions_path(file).is_file():
            members[f"{file.path.name}.versions"] = versions_path(file).read_bytes()
    digests = {name: sha256(content).hexdigest() for name, content in members.items()}
    contents = {"format": _FORMAT, "datasets": [file.path.name for file in files], "digests": digests}
    with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
        with tarfile.open(fileobj=out, mode="w:gz") as archive:
            for name, content in {_CONTENTS: json.dumps(contents).encode(), **members}.items():
                header = tarfile.TarInfo(name)
                header.size, header.mode = len(content), 0o600
                archive.addfile(header, io.BytesIO(content))
        out.flush()
        os.fsync(out.fileno())
    return tuple(file.dataset for file in files)


def restore(archive: str | Path, folder: str | Path, /) -> tuple[RestoredDataset, ...]:
    """Restore an archive into a folder that has none of its files, and return what became of each dataset.

    If the head of a ledger is kept elsewhere and names the last line of the backup, nothing was charged since, and the
    account goes on. Otherwise everything unspent counts as spent.
    """
    archive, folder = Path(archive), Path(folder)
    members, names = _read(archive)
    folder.mkdir(parents=True, exist_ok=True)
    taken = sorted(name for name in names if (folder / name).exists())
    if taken:
        raise InvalidRequest(f"{folder} has {', '.join(taken)} already, and a restore never overwrites.")
    return tuple(_restore(archive, folder, name, members) for name in names)


def dataset_files(place: Path) -> tuple[DatasetFile, ...]:
    """Return the dataset files in a folder, by name, or the one at this path."""
    paths = sorted(place.glob("*.toml")) if place.is_dir() else [place]
    if not paths:
        raise InvalidRequest(f"{place} has no dataset file: their names end in .toml.")
    return tuple(map(DatasetFile.read, paths))


def _restore(archive: Path, folder: Path, name: str, members: dict[str, bytes]) -> RestoredDataset:
    path = folder / name
    _write(path, members[name])
    file = DatasetFile.read(path)
    if f"{name}.versions" in members:
        _write(versions_path(file), members[f"{name}.versions"])
    lines = tuple(_unpack(archive, members[f"{name}.ledger"]))
    last = Mark(lines[-1].number, lines[-1].hash)
    proven = _read_distant_head(file) == last
    head = file.head_place
    restore_ledger(file.place, lines, head=head)
    if not proven:
        recover_ledger(file.place, head=head)
    with open_dataset_ledger(path) as ledger:
        return RestoredDataset(file.dataset, path, ledger.verify().charges, exhausted=not proven)


def _read_distant_head(file: DatasetFile) -> Mark | None:
    """Return the head if it is kept elsewhere; beside the ledger it may be as old as the backup, and proves nothing."""
    place = file.head_place
    if place is None or place == (default_head_path(file.place) if isinstance(file.place, Path) else None):
        return None
    try:
        with closing(locate_head(place)) as head:
            return head.read()
    except HeadMissing:
        return None


def _pack(lines: Sequence[Line]) -> bytes:
    rows = (json.dumps([line.number, line.previous, line.hash, line.text]) for line in lines)
    return "\n".join(rows).encode()


def _unpack(archive: Path, content: bytes) -> Iterator[Line]:
    try:
        for row in content.decode().split("\n"):
            yield Line(*json.loads(row))
    except (ValueError, TypeError) as fault:
        raise BackupUnreadable(archive, "a ledger in it is damaged") from fault


def _read(path: Path) -> tuple[dict[str, bytes], list[str]]:
    """Return the members of an archive, verified, and the names of its dataset files."""
    members: dict[str, bytes] = {}
    try:
        with tarfile.open(path, "r:gz") as archive:
            for header in archive:
                stream = archive.extractfile(header)
                if stream is None or header.size > _LARGEST or Path(header.name).name != header.name:
                    raise BackupUnreadable(path, "it holds something else than a backup does")
                members[header.name] = stream.read()
        contents = json.loads(members.pop(_CONTENTS))
        sound = contents["format"] == _FORMAT and contents["digests"] == {
            name: sha256(content).hexdigest() for name, content in members.items()
        }
        names = [str(name) for name in contents["datasets"]]
    except FileNotFoundError:
        raise InvalidRequest(f"There is no backup at {path}.") from None
    except (OSError, EOFError, tarfile.TarError, LookupError, ValueError, TypeError) as fault:
        raise BackupUnreadable(path, "it is no backup, or is damaged") from fault
    if not sound or any(f"{name}.ledger" not in members or name not in members for name in names):
        raise BackupUnreadable(path, "its contents are not what it says")
    return members, names


def _write(path: Path, content: bytes) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
