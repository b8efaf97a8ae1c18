"""Drafts: a dataset file proposed from a table, for its owner to correct and confirm.

Every line that came from the data is marked and listed under `[review]`; nothing is served until that list is empty.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from dodona.dataset import guess
from dodona.dataset.file import ENV_PREFIX, DatasetFile, drafts_fit, parse_draft
from dodona.engines.inspection import ColumnProfile, count_rows, profile_column, rows_per_person
from dodona.errors import InvalidArgument, InvalidRequest
from dodona.numbers import format_decimal, to_integer
from dodona.privacy.budget import Budget
from dodona.schema.names import is_name
from dodona.schema.schema import MOST_ROWS, Neighbours
from dodona.schema.toml import TomlTable, format_toml_path
from dodona.trusted.gate import draw_candidate

if TYPE_CHECKING:
    from dodona.dataset.place import SourcePlace
    from dodona.engines.inspection import Inspection


# --- Drafts: a dataset file proposed from a table, for its owner to correct and confirm. ---


_LARGEST_DELTA = Fraction(1, 10**6)
_ONE_ROW_EACH = Fraction(101, 100)
_ID_REASON = "it tells people apart; that is never answered"


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftOptions:
    """The owner's choices; None lets the draft propose a value."""

    id: str | None = None
    rows: int | None = None
    protects: str | None = None
    epsilon: str = "1"
    delta: str | None = None
    neighbours: str = Neighbours.ADD_REMOVE.value

    def __post_init__(self) -> None:
        """Refuse contradictory options before any row is read."""
        if self.neighbours not in {relation.value for relation in Neighbours}:
            raise InvalidArgument("neighbours", self.neighbours, "write add-remove or replace")
        if self.protects not in {None, "row", "person"}:
            raise InvalidArgument("protects", self.protects, "write row or person")
        if self.protects == "row" and (self.id is not None or self.rows is not None):
            raise InvalidArgument("protects", self.protects, "an id and a cap on rows are for person")
        if self.protects == "person" and self.id is None:
            raise InvalidArgument("id", None, "name the column that tells people apart")
        if self.rows is not None:
            to_integer(self.rows, argument="rows", lower=1, upper=MOST_ROWS)
            if self.id is None:
                raise InvalidArgument("rows", self.rows, "name the column that tells people apart too, as id")


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A proposed dataset file."""

    place: SourcePlace
    unit: tuple[guess.DraftKey, ...]
    budget: tuple[guess.DraftKey, ...]
    drafted: tuple[Fraction, ...]
    """The ε of each private selection made for this draft and for earlier drafts of the same rows."""
    columns: tuple[guess.Guess, ...]
    rows: int
    """The exact number of rows, for the owner's screen only."""

    @property
    def declared(self) -> tuple[guess.ProposedColumn, ...]:
        """The proposed columns."""
        return tuple(column for column in self.columns if isinstance(column, guess.ProposedColumn))

    @property
    def left_out(self) -> tuple[guess.OmittedColumn, ...]:
        """The omitted columns."""
        return tuple(column for column in self.columns if isinstance(column, guess.OmittedColumn))


def make_draft(
    table: Inspection, place: SourcePlace, wishes: DraftOptions, *, earlier: tuple[Fraction, ...] = ()
) -> Draft:
    """Return a draft for a table; `earlier` is the ε spent by previous drafts of the same rows."""
    if wishes.id is not None and wishes.id not in table.columns:
        named = ", ".join(name for name in table.columns if guess.is_id(name)) or "none that looks like it"
        raise InvalidArgument("id", wishes.id, f"write a column of the table; it has {named}")
    rows = count_rows(table)
    profiles = [profile_column(table, name) for name in table.columns]
    person = wishes.id if wishes.id is not None or wishes.protects == "row" else _find_person_column(profiles)
    columns = _make_names_distinct([_guess(table, profile, person) for profile in profiles])
    if not any(isinstance(column, guess.ProposedColumn) for column in columns):
        raise InvalidRequest(
            "No column of the table holds anything that a draft could declare. Write the file by hand."
        )
    size = rows if wishes.neighbours == Neighbours.REPLACE.value else guess.round_count(rows)
    delta = wishes.delta or _propose_delta(size)
    spent = (*earlier, guess.CAP_EPSILON) if person is not None and wishes.rows is None else earlier
    if spent:  # before anything is selected
        budget = Budget(wishes.epsilon, delta)
        if not drafts_fit(budget, spent):
            accepted = "drafts take more than the whole of it: write more, or name the cap with --rows"
            raise InvalidArgument("epsilon", str(budget.epsilon), accepted)
    listed = ", ".join(guess.quote_toml(format_decimal(epsilon)) for epsilon in spent)
    return Draft(
        place=place,
        unit=_propose_unit(table, person, wishes, max(1, size)),
        budget=(
            guess.DraftKey("epsilon", guess.quote_toml(wishes.epsilon)),
            guess.DraftKey("delta", guess.quote_toml(delta)),
            *((guess.DraftKey("drafted", f"[{listed}]"),) if spent else ()),
        ),
        drafted=spent,
        columns=columns,
        rows=rows,
    )


def drafted_before(place: SourcePlace, folder: Path) -> tuple[Fraction, ...]:
    """Return the ε of earlier drafts of the same rows in a folder: the most recorded, as each includes those before."""
    epsilons = tuple[Fraction, ...]()
    for path in sorted(folder.glob("*.toml")):
        try:
            file = DatasetFile.draft(path)
        except InvalidRequest:  # an unrelated or unfinished file
            continue
        same = file.source == place.path if file.source.startswith(ENV_PREFIX) else _same(file.rows, Path(place.path))
        if same and (file.source_table or file.schema.table) == (place.source_table or place.table):
            epsilons = max(epsilons, file.drafted, key=sum)
    return epsilons


def _same(path: Path, other: Path) -> bool:
    return path.absolute().resolve() == other.absolute().resolve()


def _guess(table: Inspection, profile: ColumnProfile, person: str | None) -> guess.Guess:
    if profile.name == person:
        return guess.OmittedColumn(name=profile.name, reason=_ID_REASON)
    return guess.guess_column(table, profile)


def _make_names_distinct(columns: list[guess.Guess]) -> tuple[guess.Guess, ...]:
    """Omit columns whose names differ from an earlier one only in case; number generated names."""
    seen, guesses = set[str](), list[guess.Guess]()
    taken = {
        column.name.casefold() for column in columns if isinstance(column, guess.ProposedColumn) and not column.renamed
    }
    for column in columns:
        proposal = column
        if isinstance(column, guess.ProposedColumn) and column.renamed:
            numbered = (f"{column.name}_{number}" for number in itertools.count(2))
            names = (column.name, *itertools.islice(numbered, MOST_GROUPS))
            name = next(text for text in names if text.casefold() not in taken)
            proposal = replace(column, name=name)
            taken.add(name.casefold())
        elif isinstance(column, guess.ProposedColumn) and column.name.casefold() in seen:
            proposal = guess.OmittedColumn(
                name=column.name, reason="its name differs from another one in capitals alone"
            )
        elif isinstance(column, guess.ProposedColumn):
            seen.add(column.name.casefold())
        guesses.append(proposal)
    return tuple(guesses)


def _find_person_column(profiles: list[ColumnProfile]) -> str | None:
    """Return the column that seems to identify people, some with several rows; None if there is none.

    If each value has only one row, a row and a person are the same, and protecting rows is simpler.
    """
    named = [
        profile
        for profile in profiles
        if guess.is_id(profile.name) and profile.name.isprintable() and profile.held.form is not None
    ]
    several = [
        profile for profile in named if profile.different > 0 and profile.present > _ONE_ROW_EACH * profile.different
    ]
    likely = [profile for profile in several if guess.is_person(profile.name)]
    many = [profile for profile in several if profile.different > MOST_GROUPS]
    return max(likely or many, key=lambda profile: profile.different).name if likely or many else None


MOST_GROUPS = 1_000
"""An id with fewer distinct values may well identify places or products, unless its name refers to people."""


def _propose_unit(table: Inspection, person: str | None, wishes: DraftOptions, size: int) -> tuple[guess.DraftKey, ...]:
    neighbours = guess.DraftKey("neighbours", guess.quote_toml(wishes.neighbours))
    if person is None:
        return guess.DraftKey("protects", '"row"'), neighbours, guess.DraftKey("size", f"{size:_}", from_data=True)
    rows, crowds = wishes.rows, rows_per_person(table, person)
    if rows is None:  # the less the rows reveal, the likelier a small cap
        scores = guess.cap_scores(crowds)
        rows = guess.CAPS[draw_candidate(scores, guess.CAPS, scale=guess.CAP_SCALE)]
    if wishes.neighbours != Neighbours.REPLACE.value:  # answers are about the rows that count
        size = guess.round_count(sum(min(most, rows) * people for most, people in crowds))
    known = guess.DraftKey("size", f"{size:_}", from_data=True)
    capped = guess.DraftKey("rows", str(rows), from_data=wishes.rows is None)
    identified = guess.DraftKey("id", guess.quote_toml(person), from_data=wishes.id is None)
    return guess.DraftKey("protects", '"person"'), identified, capped, neighbours, known


def _propose_delta(size: int) -> str:
    """Return 1e-6, or the largest power of ten below one in `size`.

    >>> _propose_delta(200_000), _propose_delta(30_000_000)
    ('1e-6', '1e-8')
    """
    delta, power = _LARGEST_DELTA, 6
    while delta * size >= 1:
        delta, power = delta / 10, power + 1
    return f"1e-{power}"


def default_output(place: SourcePlace) -> Path:
    """Return the default path of a draft."""
    return Path(f"{place.table}.toml") if is_name(place.table) else Path("dataset.toml")


# --- The text of a draft: TOML with a mark on every line that came from the data, also listed for review. ---


MARK = "# from the data"
"""Follows each value that came from the rows."""
WARNING = """\
# A draft, for the owner's eyes until it is confirmed. What is marked "from the data" tells about the rows: correct each
# to what is known without them (people are 0 to 110 years old in any table), then run `dodona confirm`.
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
# About how many rows count: public, the 100% of a tolerance in percent.
"""


class FileExists(InvalidRequest):
    """A draft never overwrites."""

    code = "file-exists"

    def __init__(self, path: str) -> None:
        """Name the file."""
        super().__init__(f"There is something at {path} already, and a draft never overwrites. Write another --output.")


def draft_to_toml(draft: Draft, path: Path) -> str:
    """Return the text of a dataset file for a given path."""
    place = draft.place
    from_data = list[str]()
    where = "url" if place.path.startswith(ENV_PREFIX) else "path"
    known = {"kind": place.kind, where: place.below(path.parent), "table": place.table}
    if place.source_table is not None and place.source_table != place.table:
        known["source_table"] = place.source_table
    source = [guess.DraftKey(key, guess.quote_toml(text)) for key, text in known.items()]
    source += [guess.DraftKey(key, guess.toml_text(getattr(place.form, key)), from_data=True) for key in place.guessed]
    source.append(guess.DraftKey("version", '"1"'))
    parts = [
        WARNING,
        f"format = 1\ndataset = {guess.quote_toml(path.stem)}\n",
        _table(("source",), source, from_data),
        _table(("unit",), draft.unit, from_data, remarks={"rows": _PERSON, "size": _SIZE}),
        _table(("budget",), draft.budget, from_data, remarks={"drafted": _DRAFTED}),
        _table(("ledger",), [guess.DraftKey("path", guess.quote_toml(f"{path.stem}.ledger"))], from_data),
        _table(("defaults",), [guess.DraftKey("max_price", '"2%"')], from_data, remarks={"max_price": _MAX_PRICE}),
        *(_table(("columns", column.name), column.keys, from_data) for column in draft.declared),
    ]
    if draft.left_out:
        lines = (f"#   {_comment_name(column.name)}: {column.reason}" for column in draft.left_out)
        parts.append("\n".join(["# Left out:", *lines]) + "\n")
    listed = "".join(f"    {guess.quote_toml(name)},\n" for name in from_data)
    parts.append(f'[review]\nfrom_data = [\n{listed}]\nconfirmed_by = ""\n')
    return "\n".join(parts)


def write_draft(draft: Draft, path: Path) -> None:
    """Write a draft to a new file, readable only by its owner until it is confirmed."""
    text = draft_to_toml(draft, path)
    parse_draft(TomlTable.parse(text, file=str(path)), path)  # options may be invalid: refuse before writing
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise FileExists(str(path)) from None
    except OSError as fault:
        raise InvalidRequest(f"{path} cannot be written: {fault.strerror}. Write another --output.") from None
    with os.fdopen(file, "w", encoding="utf-8", newline="\n") as opened:
        opened.write(text)


def _table(
    path: tuple[str, ...],
    keys: Iterable[guess.DraftKey],
    from_data: list[str],
    *,
    remarks: Mapping[str, str] = MappingProxyType({}),
) -> str:
    lines = [f"[{format_toml_path(path)}]\n"]
    for key in keys:
        lines.append(remarks.get(key.name, ""))
        lines.append(f"{key.name} = {key.text}{f'  {MARK}' if key.from_data else ''}\n")
        if key.from_data:
            from_data.append(format_toml_path((*path, key.name)))
    return "".join(lines)


def _comment_name(name: str) -> str:
    """Return a name made safe for a comment."""
    return name if name.isidentifier() else guess.quote_toml(name)
