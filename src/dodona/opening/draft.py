"""Drafts: a dataset file proposed from a table, for its owner to correct and to confirm.

To look at the rows is the owner's own act. All that came from them is marked, and listed under `[review]`: while that
list is not empty, nothing is served. Bounds are rounded outward, labels stand in the order of the alphabet, and no
comment holds a figure, as analysts may read the file once it is confirmed.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from dodona.backends.profile import Profile, counted, crowds, profiled
from dodona.domain.naming import is_name
from dodona.domain.neighbours import Neighbours
from dodona.domain.plain import plain
from dodona.domain.unit import MOST_ROWS
from dodona.errors import InvalidArgument, InvalidRequest
from dodona.exact import whole
from dodona.opening.file import DatasetFile, drafts_fit
from dodona.opening.guess import Declared, Guess, Key, LeftOut, guessed, is_id, is_person, quoted
from dodona.opening.rounding import CAP_EPSILON, CAP_SCALE, CAPS, about, cap_scores
from dodona.opening.secret import VARIABLE
from dodona.policy import Budget
from dodona.trusted.choice import draft_choice

if TYPE_CHECKING:
    from dodona.backends.inspection import Inspection
    from dodona.opening.place import Place

_LARGEST_DELTA = Fraction(1, 10**6)
_ONE_ROW_EACH = Fraction(101, 100)
_UNIT = "it tells people apart; that is never answered"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What an owner says beforehand; None where the draft is to propose it."""

    id: str | None = None
    rows: int | None = None
    protects: str | None = None
    epsilon: str = "1"
    delta: str | None = None
    neighbours: str = Neighbours.ADD_REMOVE.value

    def __post_init__(self) -> None:
        """Refuse what contradicts itself, before any row is read."""
        if self.neighbours not in {relation.value for relation in Neighbours}:
            raise InvalidArgument("neighbours", self.neighbours, "write add-remove or replace")
        if self.protects not in {None, "row", "person"}:
            raise InvalidArgument("protects", self.protects, "write row or person")
        if self.protects == "row" and (self.id is not None or self.rows is not None):
            raise InvalidArgument("protects", self.protects, "an id and a cap on rows are for person")
        if self.protects == "person" and self.id is None:
            raise InvalidArgument("id", None, "name the column that tells people apart")
        if self.rows is not None:
            whole(self.rows, argument="rows", lower=1, upper=MOST_ROWS)
            if self.id is None:
                raise InvalidArgument("rows", self.rows, "name the column that tells people apart too, as id")


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A dataset file that is proposed."""

    place: Place
    unit: tuple[Key, ...]
    budget: tuple[Key, ...]
    drafted: tuple[Fraction, ...]
    """The ε of each private choice that this draft, and earlier ones of the same rows, took."""
    columns: tuple[Guess, ...]
    rows: int
    """Exactly how many there are: for the owner's screen."""

    @property
    def declared(self) -> tuple[Declared, ...]:
        """The columns that are proposed."""
        return tuple(column for column in self.columns if isinstance(column, Declared))

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """The columns that are not."""
        return tuple(column for column in self.columns if isinstance(column, LeftOut))


def drafted(table: Inspection, place: Place, wishes: Wishes, *, earlier: tuple[Fraction, ...] = ()) -> Draft:
    """Return a draft for a table; `earlier` is what drafts of the same rows took before."""
    if wishes.id is not None and wishes.id not in table.columns:
        named = ", ".join(name for name in table.columns if is_id(name)) or "none that looks like it"
        raise InvalidArgument("id", wishes.id, f"write a column of the table; it has {named}")
    rows = counted(table)
    profiles = [profiled(table, name) for name in table.columns]
    person = wishes.id if wishes.id is not None or wishes.protects == "row" else _person(profiles)
    columns = _distinct([_guess(table, profile, person) for profile in profiles])
    if not any(isinstance(column, Declared) for column in columns):
        raise InvalidRequest(
            "No column of the table holds anything that a draft could declare. Write the file by hand."
        )
    size = rows if wishes.neighbours == Neighbours.REPLACE.value else about(rows)
    delta = wishes.delta or _delta(size)
    spent = (*earlier, CAP_EPSILON) if person is not None and wishes.rows is None else earlier
    if spent:  # before anything is chosen
        _hold_budget(Budget(wishes.epsilon, delta), spent)
    listed = ", ".join(quoted(plain(epsilon)) for epsilon in spent)
    return Draft(
        place=place,
        unit=_unit(table, person, wishes, max(1, size)),
        budget=(
            Key("epsilon", quoted(wishes.epsilon)),
            Key("delta", quoted(delta)),
            *((Key("drafted", f"[{listed}]"),) if spent else ()),
        ),
        drafted=spent,
        columns=columns,
        rows=rows,
    )


def drafted_before(place: Place, folder: Path) -> tuple[Fraction, ...]:
    """Return what drafts of the same rows in a folder took: the most that one says, as each counts those before it."""
    found = tuple[Fraction, ...]()
    for path in sorted(folder.glob("*.toml")):
        try:
            file = DatasetFile.draft(path)
        except InvalidRequest:  # another file, or one that was not finished
            continue
        same = file.source == place.path if file.source.startswith(VARIABLE) else _same(file.rows, Path(place.path))
        if same and (file.source_table or file.schema.table) == (place.source_table or place.table):
            found = max(found, file.drafted, key=sum)
    return found


def _same(one: Path, other: Path) -> bool:
    return one.absolute().resolve() == other.absolute().resolve()


def _hold_budget(budget: Budget, spent: tuple[Fraction, ...]) -> None:
    """Refuse to choose a cap that the budget could not pay for."""
    if not drafts_fit(budget, spent):
        accepted = "drafts take more than the whole of it: write more, or name the cap with --rows"
        raise InvalidArgument("epsilon", str(budget.epsilon), accepted)


def _guess(table: Inspection, profile: Profile, person: str | None) -> Guess:
    if profile.name == person:
        return LeftOut(name=profile.name, reason=_UNIT)
    return guessed(table, profile)


def _distinct(columns: list[Guess]) -> tuple[Guess, ...]:
    """Leave out a column whose name differs from an earlier one in capitals alone; number names that were made."""
    seen, found = set[str](), list[Guess]()
    taken = {own.name.casefold() for own in columns if isinstance(own, Declared) and not own.renamed}
    for column in columns:
        own = column
        if isinstance(column, Declared) and column.renamed:
            numbered = (f"{column.name}_{number}" for number in itertools.count(2))
            name = next(
                text for text in (column.name, *itertools.islice(numbered, MOST_GROUPS)) if text.casefold() not in taken
            )
            own = replace(column, name=name)
            taken.add(name.casefold())
        elif isinstance(column, Declared) and column.name.casefold() in seen:
            own = LeftOut(name=column.name, reason="its name differs from another one in capitals alone")
        elif isinstance(column, Declared):
            seen.add(column.name.casefold())
        found.append(own)
    return tuple(found)


def _person(profiles: list[Profile]) -> str | None:
    """Return the column that seems to tell people apart and has several rows of some of them; None where none does.

    Where each value has a row of its own, a row and a person are the same, and protecting rows is simpler.
    """
    several = [
        profile
        for profile in profiles
        if is_id(profile.name)
        and profile.name.isprintable()
        and profile.held.form is not None
        and profile.different > 0
        and profile.present > _ONE_ROW_EACH * profile.different
    ]
    likely = [profile for profile in several if is_person(profile.name)]
    many = [profile for profile in several if profile.different > MOST_GROUPS]
    return max(likely or many, key=lambda profile: profile.different).name if likely or many else None


MOST_GROUPS = 1_000
"""An id of fewer different values is as likely one of places or of products, unless its name speaks of people."""


def _unit(table: Inspection, person: str | None, wishes: Wishes, size: int) -> tuple[Key, ...]:
    neighbours = Key("neighbours", quoted(wishes.neighbours))
    known = Key("size", f"{size:_}", told=True)
    if person is None:
        return Key("protects", '"row"'), neighbours, known
    rows = wishes.rows
    if rows is None:  # a small cap is the likelier, the less the rows can say
        rows = CAPS[draft_choice(cap_scores(crowds(table, person)), CAPS, scale=CAP_SCALE)]
    capped = Key("rows", str(rows), told=wishes.rows is None)
    return (
        Key("protects", '"person"'),
        Key("id", quoted(person), told=wishes.id is None),
        capped,
        neighbours,
        known,
    )


def _delta(size: int) -> str:
    """Return 1e-6, or the largest power of ten below one in `size`.

    >>> _delta(200_000), _delta(30_000_000)
    ('1e-6', '1e-8')
    """
    delta, power = _LARGEST_DELTA, 6
    while delta * size >= 1:
        delta, power = delta / 10, power + 1
    return f"1e-{power}"


def default_output(place: Place) -> Path:
    """Return where a draft goes if nothing else is said."""
    return Path(f"{place.table}.toml") if is_name(place.table) else Path("dataset.toml")
