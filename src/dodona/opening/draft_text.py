"""The text of a draft: TOML with a mark on every line that came from the data, and the same lines listed for review."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from dodona.domain.written import Written, dotted
from dodona.errors import InvalidRequest
from dodona.opening.draft import Draft
from dodona.opening.file import draft_from
from dodona.opening.guess import Key, quoted
from dodona.opening.secret import VARIABLE

MARK = "# from the data"
"""Stands behind each value that came from the rows."""
WARNING = """\
# A draft, for the owner's eyes until it is confirmed. What is marked "from the data" tells about the rows: correct each
# to what is known without them (people are 0 to 110 years old, whoever is in the table), then run `dodona confirm`.
"""
"""The first lines of a draft."""
_PERSON = """\
# Of each person this many rows count: noise grows with it, and rows beyond it are left out. See `dodona check`.
"""
_MAX_PRICE = """\
# What one question may take of the budget; --max-price or max_price= allows one call more. How accurate answers are
# where a question does not say is chosen so that a count takes little; within = "1%" would fix it.
"""
_DRAFTED = """\
# What was spent on choosing the cap on rows, one number for each draft of these rows: the ledger begins with it. If you
# make another draft elsewhere, add its number here; if you set the cap by what is known without the data, take it out.
"""
_SIZE = """\
# About how many rows there are: public, the 100% of a tolerance in percent.
"""


class FileExists(InvalidRequest):
    """A draft never overwrites."""

    code = "file-exists"

    def __init__(self, path: str) -> None:
        """Name the file."""
        super().__init__(f"There is something at {path} already, and a draft never overwrites. Write another --output.")


def written(draft: Draft, path: Path) -> str:
    """Return the text of a dataset file that is to stand at a path."""
    place = draft.place
    told = list[str]()
    where = "url" if place.path.startswith(VARIABLE) else "path"
    source = [Key("kind", quoted(place.kind)), Key(where, quoted(place.below(path.parent)))]
    source.append(Key("table", quoted(place.table)))
    if place.source_table is not None and place.source_table != place.table:
        source.append(Key("source_table", quoted(place.source_table)))
    source += [Key(key, _toml(getattr(place.form, key)), told=True) for key in place.guessed]
    source.append(Key("version", '"1"'))
    parts = [
        WARNING,
        f"format = 1\ndataset = {quoted(path.stem)}\n",
        _table(("source",), source, told),
        _table(("unit",), draft.unit, told, remarks={"rows": _PERSON, "size": _SIZE}),
        _table(("budget",), draft.budget, told, remarks={"drafted": _DRAFTED}),
        _table(("ledger",), [Key("path", quoted(f"{path.stem}.ledger"))], told),
        _table(("defaults",), [Key("max_price", '"2%"')], told, remarks={"max_price": _MAX_PRICE}),
        *(_table(("columns", column.name), column.keys, told) for column in draft.declared),
    ]
    if draft.left_out:
        lines = (f"#   {_shown(column.name)}: {column.reason}" for column in draft.left_out)
        parts.append("\n".join(["# Left out:", *lines]) + "\n")
    listed = "".join(f"    {quoted(name)},\n" for name in told)
    parts.append(f'[review]\nfrom_data = [\n{listed}]\nconfirmed_by = ""\n')
    return "\n".join(parts)


def write(draft: Draft, path: Path) -> None:
    """Write a draft where there is no file yet; until it is confirmed only its owner may read it."""
    text = written(draft, path)
    draft_from(Written.parse(text, file=str(path)), path)  # what the owner wished may be wrong: told before writing
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise FileExists(str(path)) from None
    except OSError as fault:
        raise InvalidRequest(f"{path} cannot be written: {fault.strerror}. Write another --output.") from None
    with os.fdopen(file, "w", encoding="utf-8", newline="\n") as opened:
        opened.write(text)


def _table(
    path: tuple[str, ...], keys: Iterable[Key], told: list[str], *, remarks: Mapping[str, str] = MappingProxyType({})
) -> str:
    lines = [f"[{dotted(path)}]\n"]
    for key in keys:
        lines.append(remarks.get(key.name, ""))
        lines.append(f"{key.name} = {key.text}{f'  {MARK}' if key.told else ''}\n")
        if key.told:
            told.append(dotted((*path, key.name)))
    return "".join(lines)


def _toml(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(quoted, value))}]"
    return str(value).lower() if isinstance(value, bool) else quoted(str(value))


def _shown(name: str) -> str:
    """Return a name as it can stand in a comment, whatever is in it."""
    return name if name.isidentifier() else quoted(name)
