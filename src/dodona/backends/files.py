"""Files of a table: which they are, each of them once.

An engine is given a list of paths, and reads a path with `*`, `?` or `[` in it as a pattern. So no such path is handed
on: what an engine reads is what is listed here, what is digested, and what one row of a file is priced as.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from dodona.backends.faults import SourceUnfit

PATTERN = re.compile(r"[*?\[]")
"""What makes a pattern out of a path."""


def found_files(path: str | Path) -> list[str]:
    """Return the files of a path or a pattern, as absolute paths in a fixed order; a file with two names is there once.

    Theorem: reading-rows
    """
    place = Path(path)
    base = pattern_base(place)
    if place.is_file():
        listed = [base / place.name]
    else:
        listed = list(_matched(base, place.absolute().relative_to(_fixed(place)).parts))
    return _checked(path, listed)


def folder_files(path: str | Path) -> list[str]:
    """Return the data files of a folder and of all folders in it; names that begin with a point or `_` are none.

    Theorem: reading-rows
    """
    root = Path(path).resolve()
    return _checked(path, (own for own in _matched(root, ["**", "*"]) if _is_data(own, root)))


def one_file(path: str | Path) -> str:
    """Return the only file of a path or a pattern."""
    files = found_files(path)
    if len(files) > 1:
        raise SourceUnfit(f"{str(path)!r} names {len(files)} files, and a database is one. Write its path.")
    return files[0]


def pattern_base(path: Path) -> Path:
    """Return the folder that a path or a pattern starts from, free of links: the last one without `*`, `?` or `[`."""
    return (path.parent if path.is_file() else _fixed(path)).resolve()


def hold_same(expected: Iterable[str], read: Iterable[str]) -> None:
    """Refuse a table of which an engine would read other files than those that were listed, or one of them twice.

    Theorem: reading-rows
    """
    if sorted(expected) != sorted(read):
        raise SourceUnfit(
            "The engine would read other files than those that the path names. Write the path of the files without "
            "special characters, and let nothing change them meanwhile."
        )


def _fixed(path: Path) -> Path:
    whole = path.absolute()
    place = next((n for n, part in enumerate(whole.parts) if PATTERN.search(part)), len(whole.parts) - 1)
    return Path(*whole.parts[:place])


def _checked(path: str | Path, listed: Iterable[Path]) -> list[str]:
    different = dict[tuple[int, int], str]()
    for name in sorted(str(own) for own in listed if own.is_file()):
        status = Path(name).stat()
        different.setdefault((status.st_dev, status.st_ino), name)  # a link, hard or symbolic, is the same file again
    chosen = list(different.values())
    if not chosen:
        raise SourceUnfit(f"No file is at {str(path)!r}. Write the path of the table's files; * stands for any name.")
    for name in chosen:
        if PATTERN.search(name):
            raise SourceUnfit(
                f"The path {name!r} has *, ? or [ in it, which engines read as a pattern for other files. Rename the "
                "file, or the folder that it is in."
            )
        try:
            name.encode()
        except UnicodeEncodeError:
            raise SourceUnfit(f"The path {name!r} is not UTF-8. Rename the file, or its folder.") from None
    return chosen


def _matched(folder: Path, parts: Sequence[str]) -> Iterator[Path]:
    """Yield what a pattern matches below a folder, as `glob` does; but each folder once, however many links lead to it.

    `glob` follows two links that lead upwards 2^40 times.
    """
    if not parts:
        yield folder
        return
    first, *rest = parts
    if first == "**":
        for inner in _folders(folder, set()):
            yield from _matched(inner, rest or ["*"])
    elif PATTERN.search(first):
        for name in fnmatch.filter(_names(folder), first):
            if first.startswith(".") or not name.startswith("."):
                yield from _matched(folder / name, rest)
    else:
        yield from _matched(folder / first, rest)


def _folders(folder: Path, seen: set[tuple[int, int]]) -> Iterator[Path]:
    """Yield a folder and all folders in it, each once; those whose names begin with a point are left out."""
    status = folder.stat()
    if (status.st_dev, status.st_ino) not in seen:
        seen.add((status.st_dev, status.st_ino))
        yield folder
        for name in _names(folder):
            if not name.startswith(".") and (folder / name).is_dir():
                yield from _folders(folder / name, seen)


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208  names alone
    except OSError:
        return []


def _is_data(path: Path, root: Path) -> bool:
    """Return whether Spark takes a file below a folder for data: no part of its path may be hidden."""
    parts = path.relative_to(root).parts
    return not any(part.startswith(".") or (part.startswith("_") and "=" not in part) for part in parts)
