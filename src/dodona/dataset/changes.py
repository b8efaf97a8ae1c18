"""Changes to a dataset file: confirming a draft, and declaring added columns and tables.

A ledger is bound to a digest of the schema; only columns and linked tables added at the end are accepted.
"""

import json
import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dodona.dataset.draft import MARK, WARNING
from dodona.dataset.file import DatasetFile, parse_draft
from dodona.dataset.guess import quote_toml, toml_text
from dodona.errors import InvalidArgument, InvalidRequest
from dodona.ledger import opening
from dodona.ledger.entries import Line
from dodona.ledger.errors import LedgerOfAnother
from dodona.ledger.ledger import Ledger
from dodona.schema.schema import Domain, Neighbours, Schema
from dodona.schema.toml import TomlTable, format_toml_path, toml_lines

# --- Confirming a draft: the owner has reviewed what came from the data, and the file records it. ---


@dataclass(frozen=True, slots=True)
class ReviewItem:
    """One entry of the review: its name, the value in the file, and its line."""

    name: str
    value: str | None
    """None if the file no longer has this key."""
    line: int


def pending_review(path: Path) -> tuple[ReviewItem, ...]:
    """Return the entries awaiting review in a dataset file without other mistakes."""
    file = DatasetFile.draft(path)
    root = TomlTable.read(path)
    values = {format_toml_path(key_path): (value, key_path) for key_path, value in _leaves(root.content)}
    items = list[ReviewItem]()
    for name in file.waiting:
        value, key_path = values.get(name, (None, ()))
        items.append(ReviewItem(name, None if value is None else toml_text(value), root.notes.lines.get(key_path, 0)))
    return tuple(items)


def confirm(path: Path, *, by: str) -> None:
    """Empty the review list and record the reviewer; nothing else in the file changes its meaning.

    The marks behind the values are removed too. Until now only the owner could read the file; from now on it has the
    permissions of any new file.
    """
    if not by.strip() or not by.isprintable():
        raise InvalidRequest("--by is empty or not printable. Write the name of who looked at the values.")
    before = path.read_text(encoding="utf-8-sig")
    after = _confirm_text(before, by=by)
    parse_draft(TomlTable.parse(after, file=str(path)), path)
    new = path.with_name(f".{path.name}.new")
    new.write_text(after, encoding="utf-8", newline="\n")
    os.replace(new, path)  # noqa: PTH105  in one step


def amend(path: Path, values: Mapping[str, str]) -> None:
    """Replace values that await review, each written as the file would have it; nothing else in the file changes."""
    waiting = DatasetFile.draft(path).waiting
    text = path.read_text(encoding="utf-8-sig").replace("\r\n", "\n")
    expected = tomllib.loads(text)
    for name, value in values.items():
        if name not in waiting:
            raise InvalidArgument("values", name, "name a value that awaits review")
        read = _read(f"value = {value}")
        if read is None or set(read) != {"value"} or isinstance(read["value"], Mapping):
            raise InvalidArgument(name, value, 'write it as in the dataset file: 110, "0.5", 2020-01-01 or ["a", "b"]')
        text = _amend_text(text, name, toml_text(read["value"]))
        key_path = next(place for place in toml_lines(text) if format_toml_path(place) == name)
        table: Any = expected
        for key in key_path[:-1]:
            table = table[key]
        table[key_path[-1]] = read["value"]
    if _read(text) != expected:
        raise InvalidRequest("This file is written in a way that cannot be changed for you. Edit it, and look again.")
    parse_draft(TomlTable.parse(text, file=str(path)), path)
    new = path.with_name(f".{path.name}.new")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(new, path)  # noqa: PTH105  in one step


def _amend_text(text: str, name: str, value: str) -> str:
    """Return the text with another value behind a key; its mark stays, as the value still awaits review."""
    start = next((line for key_path, line in toml_lines(text).items() if format_toml_path(key_path) == name), None)
    if start is None:
        raise InvalidArgument("values", name, "the file no longer has it")
    lines = text.split("\n")
    end = _end_line(lines, start - 1)
    return "\n".join([*lines[: start - 1], f"{lines[start - 1].partition('=')[0]}= {value}  {MARK}", *lines[end:]])


def _confirm_text(text: str, *, by: str) -> str:
    """Return the text with an empty list, a name and no marks; all else must keep its meaning."""
    lines = text.replace("\r\n", "\n").split("\n")
    places = toml_lines(text)
    listed = tomllib.loads(text)["review"].get("from_data", [])
    for name in listed:  # marks first: their lines stay in place
        key_path = next((path for path in places if format_toml_path(path) == name), None)
        if key_path is not None:
            at = places[key_path] - 1
            lines[at] = lines[at].removesuffix(MARK).rstrip()
    lines = _replace_value(lines, "from_data", "[]")
    lines = _replace_value(lines, "confirmed_by", quote_toml(by))
    after = "\n".join(lines).removeprefix(WARNING).lstrip("\n")
    expected = tomllib.loads(text)
    expected["review"] = {"from_data": [], "confirmed_by": by}
    if _read(after) != expected:
        raise InvalidRequest(
            "The [review] of this file is written in a way that cannot be changed for you. Write from_data = [] and "
            "confirmed_by into it yourself."
        )
    return after


def _replace_value(lines: list[str], key: str, value: str) -> list[str]:
    """Return the lines with a new value for a review key, added below the list if absent.

    Unusual formatting may come out wrong: the caller compares what the text means.
    """
    if _read("\n".join(lines)) is None:
        return lines
    places = toml_lines("\n".join(lines))
    start = places.get(("review", key))
    if start is None:
        above = places.get(("review", "from_data"), len(lines))
        new = f"{lines[above - 1].partition('=')[0].replace('from_data', key)}= {value}"
        return [*lines[:above], new, *lines[above:]]
    new = f"{lines[start - 1].partition('=')[0]}= {value}"
    return [*lines[: start - 1], new, *lines[_end_line(lines, start - 1) :]]


def _end_line(lines: list[str], start: int) -> int:
    """Return the end line of the pair that begins on a line."""
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
    """Return every value that is not a table, with its path."""
    leaves = list[tuple[tuple[str, ...], object]]()
    for key, value in content.items():
        key_path = (*path, key)
        leaves += _leaves(value, key_path) if isinstance(value, Mapping) else [(key_path, value)]
    return leaves


# --- Schema changes after the ledger was created: what may change, and what would alter earlier answers. ---


class SchemaContradicts(InvalidRequest):
    """The new schema is not the ledger's schema with columns or tables added at the end."""

    code = "schema-contradicts"


def declare_added_columns(path: str | Path, *, same_people: bool = False) -> str:
    """Bind the ledger of a dataset file to the file's schema, and return a description of the change.

    After the first charge, columns may only be added at the end, and linked tables only with a new version of the data.
    Before it, anything but the neighbour relation may change. With `same_people`, another table of the same people
    joins the ledger's budget.
    """
    file = DatasetFile.read(path)
    with opening.open_ledger(file.place, head=file.head_place) as ledger:
        head = ledger.head  # a concurrent charge must not overtake this decision
        bound = ledger.datasets().get(file.dataset)
        if bound == file.schema.digest:
            return f"{file.dataset} is bound to this schema already"
        _same_relation(file.schema, ledger.lines())
        if bound is None:
            words = _further(file, ledger, same_people=same_people)
        elif ledger.state().charges == 0:
            words = "the schema changed before anything was charged"
        else:
            words = _check_added(file, bound, ledger.lines())
        ledger.declare(file.dataset, file.schema.digest, head=head)
        return words


def added_columns(schema: Schema, bound: str) -> tuple[str, ...] | None:
    """Return the columns added at the end since the schema with a digest; None if anything else changed.

    >>> from dodona.schema.attributes import Boolean, Integer
    >>> old = Schema.of("stays", Integer("age", 0, 110), size=1000)
    >>> added_columns(Schema.of("stays", Integer("age", 0, 110), Boolean("urgent"), size=1000), old.digest)
    ('urgent',)
    """
    columns = schema.domain.attributes
    for kept in range(1, len(columns) + 1):
        older = Schema(table=schema.table, domain=Domain(columns[:kept]), unit=schema.unit)
        if older.digest == bound and schema.extends(older):
            return schema.domain.names[kept:]
    return None


def added_tables(schema: Schema, bound: str) -> tuple[str, ...] | None:
    """Return the linked tables, and the columns of the main one, added at the end since the schema with a digest.

    None if anything else changed. Rows of the older tables count as before, and what was charged for them is what a
    person can change in them, whichever tables there are now.

    Theorem: linked-tables
    """
    main = schema.own
    for tables in range(len(schema.linked) + 1):
        for kept in range(1, len(main.domain.attributes) + 1):
            alone = replace(main, domain=Domain(main.domain.attributes[:kept]))
            if alone.link(schema.linked[:tables]).digest == bound:
                return (*main.domain.names[kept:], *(table.name for table in schema.linked[tables:]))
    return None


def _check_added(file: DatasetFile, bound: str, lines: Sequence[Line]) -> str:
    added = added_columns(file.schema, bound)
    if added is not None:
        return f"columns were added: {', '.join(added)}"
    added = added_tables(file.schema, bound) if file.schema.linked else None
    if added is not None:
        if _was_seen(file, lines):
            raise SchemaContradicts(
                f"With the further table the rows of {file.dataset!r} are others than those that were asked about as "
                f"version {file.version!r}: answers of both must not be mixed. Raise the version in [source]; the "
                "budget goes on, and older answers keep their version."
            )
        return f"tables or columns were added: {', '.join(added)}"
    earlier = {str(digest) for line in lines for digest in _digests(line, file.dataset)}
    if file.schema.digest in earlier:
        raise SchemaContradicts(
            f"{file.path.name} has a schema that {file.dataset!r} had before: columns were taken away. A column that "
            "was declared stays; put it back."
        )
    raise SchemaContradicts(
        f"The schema in {file.path.name} is not the one that the ledger is bound to with columns or tables added at "
        "the end. The ledger holds only a digest, so it cannot say what differs. After the first charge columns may be "
        "added behind all others, and linked tables behind all others with a new version; the name of the table, the "
        "unit (protects, id, rows, neighbours, size), the ids and rows of older linked tables, and the order, kinds, "
        "bounds, steps, labels, bins and otherwise of older columns may not change. Put them back as they were."
    )


def _further(file: DatasetFile, ledger: Ledger, *, same_people: bool) -> str:
    names = ", ".join(ledger.datasets())
    if not same_people:
        raise LedgerOfAnother(
            f"The ledger is for {names}, not for {file.dataset!r}. If this is a further table of the same people, "
            "write --same-people: all tables then share one budget."
        )
    return f"a further table of the same people, beside {names}"


def _same_relation(schema: Schema, lines: Sequence[Line]) -> None:
    relation = Neighbours(json.loads(lines[0].text)["neighbours"])
    if schema.unit.neighbours is not relation:
        raise SchemaContradicts(
            f'The ledger counts under neighbours = "{relation.value}", and that is for ever: a guarantee under one '
            "relation says nothing under the other. Put it back."
        )


def _was_seen(file: DatasetFile, lines: Sequence[Line]) -> bool:
    """Return whether the ledger has anything on this version of the data."""
    texts = (json.loads(line.text) for line in lines)
    return any((entry.get("dataset"), entry.get("version")) == (file.dataset, file.version) for entry in texts)


def _digests(line: Line, dataset: str) -> list[object]:
    """Return the digests that a ledger line bound a dataset to."""
    fields = json.loads(line.text)
    if fields["entry"] == "created":
        return [digest for name, digest in fields["datasets"] if name == dataset]
    return [fields["schema"]] if fields["entry"] == "declared" and fields["dataset"] == dataset else []
