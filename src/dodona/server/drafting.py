"""Acts of owners that make a new dataset: list tables, draft, correct what came from the rows, create the ledger.

A draft reads the rows for the owner alone, and nothing is served from it. Only files in the served folder can be
drafted, and databases whose address the operator put into the environment of the core.
"""

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from dodona.errors import InvalidArgument, InvalidRequest
from dodona.server.asking import expect, text
from dodona.server.calls import ActCall
from dodona.server.link import Reply
from dodona.server.reading import json_reply

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,59}", re.ASCII)
_VARIABLE: Final = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]{0,99}", re.ASCII)
_TABLES: Final = (".parquet", ".csv", ".csv.gz", ".tsv", ".duckdb")
_MOST_FILES: Final = 500
_DEPTH: Final = 3
_CHOICES: Final = ("id", "rows", "protects", "neighbours", "epsilon", "delta")


class DatasetExists(InvalidRequest):
    """There is a dataset, a draft or a file of this name already."""

    code = "dataset-exists"
    http_status = 409

    def __init__(self) -> None:
        """Set a constant message."""
        super().__init__("There is a dataset of this name already, and a draft never overwrites. Choose another name.")


def drafts(call: ActCall) -> Reply:
    """Return the tables that can be drafted, and the drafts that await review."""
    expect(call)
    folder = call.datasets.folder
    files = [
        {"name": str(path.relative_to(folder)), "bytes": path.stat().st_size}
        for path in islice(_tables(folder, folder.resolve()), _MOST_FILES)
    ]
    return json_reply(
        {"files": files, "drafts": [name for name, path in call.datasets.names().items() if _waits(path)]}
    )


def draft(call: ActCall) -> Reply:
    """Draft a dataset file from a table, in the served folder; nothing is served before it is confirmed."""
    from dodona.dataset.draft import DraftOptions, drafted_before, make_draft, write_draft
    from dodona.dataset.place import find_place, inspect_place

    arguments = expect(call, "source", "table", *_CHOICES)
    name, folder = call.dataset, call.datasets.folder
    if _NAME.fullmatch(name) is None:
        accepted = "write 1 to 60 small letters, digits, - or _, and begin with a letter or a digit"
        raise InvalidArgument("dataset", name, accepted)
    path = folder / f"{name}.toml"
    if name in call.datasets.names() or path.exists():
        raise DatasetExists
    choices = {key: arguments[key] for key in _CHOICES if arguments.get(key) is not None}
    wishes = DraftOptions(**choices)
    place = find_place(_source(folder, text(arguments.get("source"), argument="source")), table=arguments.get("table"))
    opened = inspect_place(place)
    try:
        made = make_draft(opened, place, wishes, earlier=drafted_before(place, folder))
    finally:
        opened.close()
    write_draft(made, path)
    call.datasets.look_again()
    return json_reply(_show(path), status=201)


def draft_show(call: ActCall) -> Reply:
    """Return the text of a draft, and what in it came from the rows. For the owner alone."""
    expect(call)
    return json_reply(_show(call.datasets.path(call.dataset)))


def draft_values(call: ActCall) -> Reply:
    """Correct values that came from the rows; they still await confirmation."""
    from dodona.dataset.changes import amend

    values = expect(call, "values").get("values")
    if not isinstance(values, dict) or not all(isinstance(part, str) for pair in values.items() for part in pair):
        raise InvalidArgument("values", type(values).__name__, "write a text for each name of the review")
    path = call.datasets.path(call.dataset)
    amend(path, values)
    return json_reply(_show(path))


def ledger_create(call: ActCall) -> Reply:
    """Create the ledger of a confirmed dataset; one that exists is never touched."""
    from dodona.dataset.opening import create_ledger

    expect(call)
    create_ledger(call.datasets.path(call.dataset))
    return json_reply({"created": call.dataset}, status=201)


def _show(path: Path) -> dict[str, object]:
    from dodona.dataset.changes import pending_review

    review = [{"name": item.name, "value": item.value, "line": item.line} for item in pending_review(path)]
    private = "PRIVATE: what awaits review was read off the rows; for the owner alone."
    return {"private": private, "text": path.read_text(encoding="utf-8-sig"), "review": review}


def _waits(path: Path) -> bool:
    from dodona.dataset.file import DatasetFile

    try:
        return bool(DatasetFile.draft(path).waiting)
    except InvalidRequest:
        return False


def _source(folder: Path, source: str) -> str:
    """Return a table that an owner may name from afar: one of the list, or a variable of the core's environment."""
    if _VARIABLE.fullmatch(source) is not None:
        return source
    listed = {str(path.relative_to(folder)): path for path in islice(_tables(folder, folder.resolve()), _MOST_FILES)}
    if source not in listed:
        raise InvalidArgument("source", source, "name a file of the list, or env:NAME of a database's address")
    return str(listed[source])


def _tables(folder: Path, root: Path, depth: int = _DEPTH) -> Iterator[Path]:
    """Yield the tables of a folder; links that lead out of it are left out, and so is what begins with a dot."""
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or not path.resolve().is_relative_to(root):
            continue
        if path.is_dir() and depth > 1:
            yield from _tables(path, root, depth - 1)
        elif path.is_file() and path.name.lower().endswith(_TABLES):
            yield path
