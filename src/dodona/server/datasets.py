"""The datasets that a worker serves: the files of a folder, each opened once, with one curator for each caller."""

import threading
import time
import tomllib
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from dodona.curator.curator import Curator
from dodona.curator.description import HistoryReader
from dodona.curator.request import Dataset
from dodona.curator.shared import SharedKnowledge
from dodona.curator.watch import Watch
from dodona.dataset.file import DatasetFile
from dodona.dataset.opening import open_for_serving, rehearse
from dodona.errors import DodonaError
from dodona.ledger.errors import LedgerUnavailable
from dodona.server.acts import DatasetUnknown

SUFFIX = ".toml"
_LOOK_AGAIN = 1.0  # seconds
_MOST_CURATORS = 1024
_MOST_WATCHES = 1024
_MOST_REHEARSED = 500  # questions of one rehearsal
_Stamp = tuple[int, int, int, int]


@dataclass(slots=True)
class Opened:
    """An open dataset: one source and one ledger for all callers, and what was learned from its releases."""

    file: DatasetFile
    dataset: Dataset
    shared: SharedKnowledge
    history: HistoryReader
    stamp: _Stamp
    watches: OrderedDict[tuple[str, str], Watch] = field(default_factory=OrderedDict)
    """By caller and key."""
    users: set[int] = field(default_factory=set)
    """The threads whose calls use it: it is not closed before they are done."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    _curators: OrderedDict[str, Curator] = field(default_factory=OrderedDict)

    def curator(self, analyst: str) -> Curator:
        """Return the curator of an analyst; raises NotPermitted for one whom the owner did not let in."""
        with self.lock:
            curator = self._curators.get(analyst)
            if curator is None:
                curator = self._curators[analyst] = Curator(self.dataset, analyst=analyst, shared=self.shared)
                if len(self._curators) > _MOST_CURATORS:
                    self._curators.popitem(last=False)
            else:
                self._curators.move_to_end(analyst)
            return curator

    def close(self) -> None:
        """Close the rows and the ledger."""
        self.dataset.source.close()
        self.dataset.ledger.close()

    def keep_watch(self, analyst: str, key: str, watch: Watch) -> None:
        """Hold an open watch; the one that was not asked for longest gives way to too many."""
        with self.lock:
            self.watches[analyst, key] = watch
            if len(self.watches) > _MOST_WATCHES:
                self.watches.popitem(last=False)


class Datasets:
    """The dataset files of a folder, opened when they are first asked for, and again after their file changed."""

    def __init__(self, folder: Path, state: Path, *, lazily: bool, patience: float, most: int) -> None:
        """Take the folders, and how many datasets to keep open. With `lazily`, rows are opened when they are read."""
        self.folder, self.state = folder, state
        self._lazily, self._patience, self._most = lazily, patience, most
        self._lock = threading.Lock()
        self._looked = -_LOOK_AGAIN
        self._paths: dict[str, tuple[Path, _Stamp]] = {}
        self._opened: OrderedDict[str, Opened] = OrderedDict()  # the one that was not asked for longest comes first
        self._retired: list[Opened] = []  # replaced or to be closed, and still used by calls
        self._rehearsals: dict[str, tuple[Curator, int]] = {}
        self._opening: dict[str, threading.Lock] = {}

    def names(self) -> Mapping[str, Path]:
        """Return the path of each dataset file, by the dataset's name."""
        return {name: path for name, (path, _) in sorted(self._look().items())}

    def path(self, name: str) -> Path:
        """Return the path of a dataset's file; raises DatasetUnknown."""
        entry = self._look().get(name)
        if entry is None:
            raise DatasetUnknown
        return entry[0]

    def open(self, name: str) -> Opened:
        """Return a dataset, opened by whichever call comes first."""
        entry = self._look().get(name)
        if entry is None:
            raise DatasetUnknown
        path, stamp = entry
        with self._lock:
            known = self._use(name, stamp)
            opening = self._opening.setdefault(name, threading.Lock())
        if known is not None:
            return known
        with opening:
            with self._lock:
                known = self._use(name, stamp)
            if known is not None:
                return known
            file = DatasetFile.read(path)
            dataset = open_for_serving(file, patience=self._patience, lazily=self._lazily)
            history = HistoryReader(dataset.ledger, dataset=dataset.name)
            opened = Opened(file, dataset, SharedKnowledge(dataset), history, stamp)
            opened.users.add(threading.get_ident())
            with self._lock:
                self._retire(name)
                self._opened[name] = opened
            return opened

    def reopen(self, name: str) -> None:
        """Let all workers open a dataset again: something that is read when it is opened changed."""
        note = self._note(self.path(name))
        note.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        note.write_text(str(time.time_ns()), encoding="ascii")
        self._looked = -_LOOK_AGAIN

    def _note(self, path: Path) -> Path:
        return self.state / "reopened" / path.name

    def done(self) -> None:
        """Say that this thread's call is over: datasets beyond the most that may be open are closed, oldest first.

        One with open watches is closed last, as a watch that is opened again has used up an alert.
        """
        thread = threading.get_ident()
        with self._lock:
            for opened in (*self._opened.values(), *self._retired):
                opened.users.discard(thread)
            idle = sorted(
                (name for name, opened in self._opened.items() if not opened.users),
                key=lambda name: bool(self._opened[name].watches),
            )
            for name in idle[: max(0, len(self._opened) - self._most)]:
                self._retire(name)
            closing = [retired for retired in self._retired if not retired.users]
            self._retired = [retired for retired in self._retired if retired.users]
        for retired in closing:
            with suppress(Exception):  # a server that went away: there is nothing left to close
                retired.close()

    def _use(self, name: str, stamp: _Stamp) -> Opened | None:
        """Return a dataset that is open and whose file did not change, as used by this thread."""
        opened = self._opened.get(name)
        if opened is None or opened.stamp != stamp:
            return None
        opened.users.add(threading.get_ident())
        self._opened.move_to_end(name)
        return opened

    def _retire(self, name: str) -> None:
        """Let no further call use a dataset."""
        opened = self._opened.pop(name, None)
        if opened is not None:
            self._retired.append(opened)

    def rehearsal(self, name: str) -> Curator:
        """Return a curator of made-up rows, a new one from time to time, as it remembers all it answered."""
        path = self.path(name)
        with self._lock:
            curator, left = self._rehearsals.get(name, (None, 0))
            if curator is None or left == 0:
                curator, left = rehearse(path), _MOST_REHEARSED
            self._rehearsals[name] = (curator, left - 1)
            return curator

    def forget_if_lost(self, name: str, fault: DodonaError) -> bool:
        """Open a dataset again at its next call if its ledger was lost; return whether it was."""
        lost = isinstance(fault, LedgerUnavailable)
        if lost:
            with self._lock:
                self._retire(name)
        return lost

    def look_again(self) -> None:
        """Notice at the next call what has changed in the folder, however soon that is."""
        self._looked = -_LOOK_AGAIN

    def _look(self) -> dict[str, tuple[Path, _Stamp]]:
        """Return the files by name, read again at most once a second."""
        now = time.monotonic()
        if now - self._looked < _LOOK_AGAIN:
            return self._paths
        with self._lock:
            known = {path: (name, stamp) for name, (path, stamp) in self._paths.items()}
            files: dict[str, tuple[Path, _Stamp]] = {}
            for path in sorted(self.folder.glob(f"*{SUFFIX}")):
                if path.is_symlink() or not path.is_file():
                    continue
                stat, noted = path.stat(), self._note(path)
                changed = noted.stat().st_mtime_ns if noted.exists() else 0
                stamp = (stat.st_mtime_ns, stat.st_size, stat.st_ino, changed)
                name, before = known.get(path, ("", None))
                if before != stamp:
                    name = _dataset_name(path)
                if name:
                    files.setdefault(name, (path, stamp))
            self._paths, self._looked = files, now
            return files


def _dataset_name(path: Path) -> str:
    """Return the name in a dataset file; empty if it is none."""
    try:
        name = tomllib.loads(path.read_text(encoding="utf-8-sig")).get("dataset", "")
    except (OSError, ValueError):
        return ""
    return name if isinstance(name, str) else ""
