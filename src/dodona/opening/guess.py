"""Guesses: from the figures of a column to a draft of its declaration.

A guess is a proposal to the owner. Whatever in it came from values, and not from names and types, is marked `told`.
The reasons for leaving a column out stand in the file, which analysts may read: they hold no figure. `private` does,
and is for the owner's screen.
"""

from __future__ import annotations

import json
import re
import unicodedata
from dataclasses import dataclass, replace
from fractions import Fraction

from dodona.backends.inspection import Inspection
from dodona.backends.profile import CODES, Days, Numbers, Profile, texts
from dodona.domain.attribute import MOST_VALUES
from dodona.domain.declaration import label_faults
from dodona.domain.naming import is_name
from dodona.domain.plain import plain
from dodona.opening.csv_guess import SURELY_NOTHING, mixed_dates
from dodona.opening.rounding import outward, round_step, whole_years
from dodona.sql.render_column import Form

MOST_LABELS = 50
_ROWS_A_LABEL = 3
"""A column where most rows have a text of their own is no category, however few rows there are."""
_RARE = 10
_FAR = 2
_SAMPLE = 500
_LONGEST_SOURCE = 200
_NAMED = 5
_LONG = 50
_MOST_OF_THEM = Fraction(9, 10)  # of the texts must be numbers, or days, for a column to be one of them
_CAMEL = re.compile(r"[a-z](?:Id|ID)$")
_ID_WORD = re.compile(r"(?:^|[_\-. ])(?:id|uuid|guid|ssn|mrn|email)$", re.IGNORECASE)
_PERSON = re.compile(
    r"(?i)(patient|person|people|user|customer|client|member|subject|respondent|employee|student|citizen|resident)"
)
_PERSON_ID = re.compile(rf"{_PERSON.pattern}(?:_?(?:id|no|nr|number|key))?$")


@dataclass(frozen=True, slots=True)
class Key:
    """One line of a draft: a key, its value as TOML, and whether the value came from the rows."""

    name: str
    text: str
    told: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """A column that a draft declares."""

    name: str
    kind: str
    keys: tuple[Key, ...]
    private: str

    @property
    def renamed(self) -> bool:
        """Whether the data have another name for it."""
        return any(key.name == "source" for key in self.keys)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A column that a draft leaves out, and why, in words that may be read by anybody."""

    name: str
    reason: str
    private: str = ""


Guess = Declared | LeftOut


def guessed(table: Inspection, profile: Profile) -> Guess:
    """Return a proposal for one column, under a name that questions can use."""
    reason = _unfit(profile)
    if reason is not None:
        return LeftOut(name=profile.name, reason=reason)
    found = _guessed(table, profile)
    if isinstance(found, LeftOut) or is_name(profile.name):
        return found
    kind, *rest = found.keys
    return replace(found, name=plain_name(profile.name), keys=(kind, Key("source", quoted(profile.name)), *rest))


def plain_name(text: str) -> str:
    """Return a name for questions that is like a text.

    >>> plain_name("hours-per-week"), plain_name("income >50K"), plain_name("2024"), plain_name("%")
    ('hours_per_week', 'income_50K', 'c_2024', 'c')
    """
    kept = re.sub(r"\W+", "_", unicodedata.normalize("NFKC", text)).strip("_")
    kept = kept if kept[:1].isidentifier() else f"c_{kept}".strip("_")
    while not is_name(kept):  # too long, or with letters that become others
        kept = kept[:-1] or "c"
    return kept


def _guessed(table: Inspection, profile: Profile) -> Guess:
    if profile.held.form is Form.TRUTH:
        return _boolean(profile, "true and false", told=False)
    if profile.days is not None and profile.days.count >= _MOST_OF_THEM * profile.present:
        return _date(profile, profile.days)
    if profile.held.form is Form.TEXT and sum(profile.truths) == profile.present and min(profile.truths) > 0:
        return _boolean(profile, "texts that read as true and false", told=True)
    if profile.numbers is not None and profile.numbers.count >= _MOST_OF_THEM * profile.present:
        return _numeric(profile, profile.numbers)
    return _category(table, profile)


def _unfit(profile: Profile) -> str | None:
    """Return why a column is left out before its values are looked at; None where it is not."""
    if not profile.name.isprintable() or not 0 < len(profile.name) <= _LONGEST_SOURCE:
        return "its name is empty, too long, or has signs that cannot be printed; rename it in the data"
    if profile.held.form is None:
        return f"no kind of column is read from the type {_word(profile.held.type)}"
    if profile.held.form is not Form.TRUTH and profile.present == 0:
        return "it holds nothing that could be looked at; declare it by hand"
    if is_id(profile.name) and (is_person(profile.name) or profile.different > MOST_LABELS):
        return "it seems to tell people or rows apart; that is never answered"
    return None


def is_id(name: str) -> bool:
    """Whether a column seems, by its name, to tell people or rows apart.

    >>> [is_id(name) for name in ("patient_id", "userId", "id", "paid", "valid", "customer")]
    [True, True, True, False, False, True]
    """
    return any(pattern.search(name) for pattern in (_ID_WORD, _CAMEL)) or _PERSON_ID.fullmatch(name) is not None


def is_person(name: str) -> bool:
    """Whether the name of a column speaks of people."""
    return _PERSON.search(name) is not None


def quoted(text: str) -> str:
    r"""Return a text as TOML, in quotes, whatever is in it.

    >>> print(quoted('the "old" ward'))
    "the \"old\" ward"
    """
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _boolean(profile: Profile, private: str, *, told: bool) -> Declared:
    return Declared(name=profile.name, kind="boolean", keys=(Key("kind", '"boolean"', told=told),), private=private)


def _date(profile: Profile, days: Days) -> Declared:
    lower, upper = whole_years(days.first, days.last)
    told = profile.held.form is Form.TEXT
    word = "month" if upper.year - lower.year < _LONG else "year"
    keys = (
        Key("kind", '"date"', told=told),
        Key("lower", str(lower), told=True),
        Key("upper", str(upper), told=True),
        Key("bins", f'"{word}"'),
    )
    return Declared(name=profile.name, kind="date", keys=keys, private=f"{days.first} to {days.last}")


def _numeric(profile: Profile, numbers: Numbers) -> Declared:
    """Return an integer where all numbers are whole and there are not too many of them, else a number on a grid."""
    private = f"{plain(numbers.least)} to {plain(numbers.most)}"
    told, whole = profile.held.form is Form.TEXT, numbers.whole == numbers.count
    if whole and numbers.least == 0 and numbers.most == 1 and profile.held.form is not Form.TEXT:
        return _boolean(profile, "the numbers 0 and 1", told=True)
    least, most = numbers.least, numbers.most
    codes = _codes(numbers) if whole else ()
    if codes and numbers.inner is not None:
        least = numbers.inner[0] if least in codes else least
        most = numbers.inner[1] if most in codes else most
        listed = " and ".join(plain(code) for code in codes)
        private += (
            f"; {listed} may stand for no answer, and would count as the nearest bound: take them out of the data"
        )
    lower, upper = outward(least, most, whole=whole)
    if whole and upper - lower < MOST_VALUES:
        points = (
            Key("kind", '"integer"', told=told or profile.held.form is not Form.WHOLE),
            Key("lower", str(lower), told=True),
            Key("upper", str(upper), told=True),
        )
        return Declared(name=profile.name, kind="integer", keys=points, private=private)
    keys = (
        Key("kind", '"number"', told=told),
        Key("lower", f'"{plain(lower)}"', told=True),
        Key("upper", f'"{plain(upper)}"', told=True),
        Key("step", f'"{plain(round_step(lower, upper))}"', told=True),
    )
    return Declared(name=profile.name, kind="number", keys=keys, private=private)


def _codes(numbers: Numbers) -> tuple[Fraction, ...]:
    """Return the least and the most of whole numbers where they look like codes for no answer, far from all others."""
    if numbers.inner is None:
        return ()
    first, last = numbers.inner
    low = numbers.least < 0 <= first and numbers.least in CODES
    high = numbers.most > _FAR * last and numbers.most > _FAR and numbers.most in CODES
    return (*((numbers.least,) if low else ()), *((numbers.most,) if high else ()))


def _category(table: Inspection, profile: Profile) -> Guess:
    if profile.held.form is not Form.TEXT:
        return LeftOut(name=profile.name, reason="none of its values can be declared; look at it by hand")
    if profile.different > MOST_LABELS or profile.different * _ROWS_A_LABEL > profile.present:
        private = f"{profile.different:,} different texts"
        return LeftOut(name=profile.name, reason=_why_no_category(table, profile), private=private)
    found = texts(table, profile.name, most=MOST_LABELS + 1)
    wrong = {place for place, _ in label_faults(text for text, _ in found)}
    nothing = {place for place, (text, _) in enumerate(found) if text.strip().lower() in SURELY_NOTHING}
    if len(wrong | nothing) < len(found):
        wrong |= nothing
    labels = [text for place, (text, _) in enumerate(found) if place not in wrong]
    if not labels:
        return LeftOut(name=profile.name, reason="none of its texts may be a label")
    keys = (
        Key("kind", '"category"'),
        Key("labels", f"[{', '.join(map(quoted, labels))}]", told=True),
    )
    rare = [text for place, (text, times) in enumerate(found) if times < _RARE and place not in wrong]
    parts = [f"{len(labels)} label{'s' * (len(labels) != 1)}"]
    if wrong:
        words = ", ".join(repr(found[place][0]) for place in sorted(nothing & wrong)[:_NAMED])
        parts.append(f"{len(wrong)} that may not be labels were left out{f', such as {words}' if words else ''}")
    if rare:
        more = f" and {len(rare) - _NAMED} more" if len(rare) > _NAMED else ""
        parts.append(f"in fewer than {_RARE} rows: {', '.join(rare[:_NAMED])}{more}")
    return Declared(name=profile.name, kind="category", keys=keys, private="; ".join(parts))


def _why_no_category(table: Inspection, profile: Profile) -> str:
    """Return why a column of texts is left out, without a figure."""
    some = [text for text, _ in texts(table, profile.name, most=_SAMPLE)]
    if mixed_dates(some):
        return "its texts look like days, in several orders or with years of two digits; write them as 2024-01-31"
    if profile.numbers is not None and profile.numbers.count * 2 >= profile.present:
        return "many of its texts are numbers and many are not; write numbers in one way"
    return "it has too many different texts for a category"


def _word(kind: str) -> str:
    """Return the first word of a type: what follows may be long."""
    return "list" if kind.endswith("]") else kind.partition("(")[0]
