"""Confirming a draft: the owner has looked at what came from the data, and the file says so from then on."""

from __future__ import annotations

import datetime as dt
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from dodona.domain.lines import toml_lines
from dodona.domain.written import Written, dotted
from dodona.errors import InvalidRequest
from dodona.opening.draft_text import MARK, WARNING
from dodona.opening.file import DatasetFile, draft_from
from dodona.opening.guess import quoted


@dataclass(frozen=True, slots=True)
class Waiting:
    """One entry of the review: what it names, what is written there, and where."""

    name: str
    value: str | None
    """None where the file has no such key any more."""
    line: int


def waiting(path: Path) -> tuple[Waiting, ...]:
    """Return what waits for the owner's eyes in a dataset file that has no other mistakes."""
    file = DatasetFile.draft(path)
    root = Written.read(path)
    values = {dotted(own): (value, own) for own, value in _leaves(root.content)}
    found = list[Waiting]()
    for name in file.waiting:
        value, own = values.get(name, (None, ()))
        found.append(Waiting(name, None if value is None else _shown(value), root.notes.lines.get(own, 0)))
    return tuple(found)


def confirm(path: Path, *, by: str) -> None:
    """Empty the list of what waits, and write down who looked; nothing else in the file changes its meaning.

    The marks behind the values go too. Until now only the owner could read the file; from now on it is as public as any
    new file is.
    """
    if not by.strip() or not by.isprintable():
        raise InvalidRequest("--by is empty or not printable. Write the name of who looked at the values.")
    before = path.read_text(encoding="utf-8-sig")
    after = _confirmed(before, by=by)
    draft_from(Written.parse(after, file=str(path)), path)
    new = path.with_name(f".{path.name}.new")
    new.write_text(after, encoding="utf-8", newline="\n")
    os.replace(new, path)  # noqa: PTH105  in one step


def _confirmed(text: str, *, by: str) -> str:
    """Return the text with an empty list, a name, and no marks; it must mean the same in all else."""
    lines = text.replace("\r\n", "\n").split("\n")
    places = toml_lines(text)
    listed = tomllib.loads(text)["review"].get("from_data", [])
    for name in listed:  # marks first: they stand on lines that stay
        own = next((path for path in places if dotted(path) == name), None)
        if own is not None:
            at = places[own] - 1
            lines[at] = lines[at].removesuffix(MARK).rstrip()
    lines = _replaced(lines, "from_data", "[]")
    lines = _replaced(lines, "confirmed_by", quoted(by))
    after = "\n".join(lines).removeprefix(WARNING).lstrip("\n")
    expected = tomllib.loads(text)
    expected["review"] = {"from_data": [], "confirmed_by": by}
    if _read(after) != expected:
        raise InvalidRequest(
            "The [review] of this file is written in a way that cannot be changed for you. Write from_data = [] and "
            "confirmed_by into it yourself."
        )
    return after


def _replaced(lines: list[str], key: str, value: str) -> list[str]:
    """Return the lines with another value for a key of the review; it is added below the list where it is not there.

    What is written in an unusual way may come out wrong: the caller compares what the text means.
    """
    if _read("\n".join(lines)) is None:
        return lines
    places = toml_lines("\n".join(lines))
    start = places.get(("review", key))
    if start is None:
        above = places.get(("review", "from_data"), len(lines))
        return [
            *lines[:above],
            f"{lines[above - 1].partition('=')[0].replace('from_data', key)}= {value}",
            *lines[above:],
        ]
    return [*lines[: start - 1], f"{lines[start - 1].partition('=')[0]}= {value}", *lines[_end(lines, start - 1) :]]


def _end(lines: list[str], start: int) -> int:
    """Return after which line the pair that begins on a line ends."""
    for end in range(start + 1, len(lines) + 1):
        if _read("\n".join(lines[start:end])) is not None:
            return end
    return start + 1


def _read(text: str) -> Mapping[str, object] | None:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None


def _leaves(content: Mapping[str, object], path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], object]]:
    """Return everything that is no table, by its path."""
    found = list[tuple[tuple[str, ...], object]]()
    for key, value in content.items():
        own = (*path, key)
        found += _leaves(value, own) if isinstance(value, Mapping) else [(own, value)]
    return found


def _shown(value: object) -> str:
    """Return a value as it stands in the file."""
    match value:
        case list():
            return f"[{', '.join(map(_shown, value))}]"
        case str():
            return quoted(value)
        case bool():
            return str(value).lower()
        case int() | Decimal() | dt.date():
            return str(value)
        case _:
            return "a table"
