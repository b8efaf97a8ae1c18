"""Functions of texts. Regular expressions are read by RE2, in time that is linear in the text; labels are public."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from dodona.sql.scalar import UNKNOWN, Constant, Mismatch, Outcome, as_whole
from dodona.sql.tables import strict

_LONGEST = 1_000
"""The longest pattern, and the longest text that is padded: as long as any label."""


def as_text(value: Constant) -> str:
    """Return a constant that is a text."""
    if isinstance(value, str):
        return value
    raise Mismatch("This takes a text.", "Write a column of labels, or CAST(... AS text).")


def write_text(value: Constant) -> str:
    """Return a value as || and concat write it."""
    match value:
        case bool():
            return str(value).lower()
        case Fraction() if value.denominator == 1:
            return str(value)
        case dt.datetime():
            return value.isoformat(" ")
        case dt.date():
            return value.isoformat()
        case _:
            return as_text(value)


def substring(value: Constant, start: Constant, length: Constant = None) -> str:
    """Return a part of a text, counted from 1; a negative start counts from the end."""
    text, first = as_text(value), as_whole(start)
    begin = len(text) + first if first < 0 else first - 1
    after = len(text) if length is None else begin + max(0, as_whole(length))
    return text[max(begin, 0) : max(after, 0)]


def left_part(value: Constant, number: Constant) -> str:
    """Return so many letters from the start; all but the last few of a negative number."""
    size = as_whole(number)
    return as_text(value)[:size]


def right_part(value: Constant, number: Constant) -> str:
    """Return so many letters from the end; all but the first few of a negative number."""
    text, size = as_text(value), as_whole(number)
    return text[max(len(text) - size, 0) :] if size >= 0 else text[-size:]


def pad(value: Constant, number: Constant, fill: Constant, *, left: bool) -> str:
    """Return a text of this length, filled up or cut."""
    text, size, other = as_text(value), as_whole(number), as_text(fill)
    if size > _LONGEST:
        raise Mismatch("This text grows too long.", "Write a smaller length.")
    more = (other * max(size - len(text), 0))[: max(size - len(text), 0)]
    return (more + text if left else text + more)[: max(size, 0)]


def split_part(value: Constant, separator: Constant, place: Constant) -> str:
    """Return a part of a text between separators, counted from 1, or from the end."""
    parts, number = as_text(value).split(as_text(separator) or "\0"), as_whole(place)
    return parts[number - 1 if number > 0 else number] if 1 <= abs(number) <= len(parts) else ""


def concatenate(*values: Outcome) -> Outcome:
    """Return all texts in a row; NULL counts as nothing."""
    return UNKNOWN if UNKNOWN in values else "".join(write_text(value) for value in values if value is not None)  # type: ignore[arg-type]


# --- Regular expressions. ---


def matches(value: Constant, pattern: Constant, flags: Constant = "") -> bool:
    """Return whether a part of a text matches; with the flag i, capitals make no difference."""
    text, regex = _matched_texts(value, pattern)
    return bool(_computed("match_substring_regex", text, regex, ignore_case=_folds(flags)))


def matches_folded(value: Constant, pattern: Constant) -> bool:
    """Return whether a part of a text matches, ignoring case."""
    return matches(value, pattern, "i")


def matches_whole(value: Constant, pattern: Constant, flags: Constant = "") -> bool:
    """Return whether a whole text matches."""
    text, regex = _matched_texts(value, pattern)
    return matches(text, f"^(?:{regex})$", flags)


def is_similar(value: Constant, pattern: Constant) -> bool:
    """Return whether a whole text is similar to a pattern, in which % and _ stand for any letters and any letter."""
    text, pattern_text = _matched_texts(value, pattern)
    return matches_whole(text, re.sub("[%_.^$]", lambda sign: _SIMILAR.get(sign[0], "\\" + sign[0]), pattern_text))


_SIMILAR = {"%": ".*", "_": "."}


def replace_matches(value: Constant, pattern: Constant, new: Constant, flags: Constant = "") -> str:
    r"""Return a text with its first match replaced, with the flag g all of them; \1 stands for the first group."""
    text, regex = _matched_texts(value, pattern)
    fresh, _ = _matched_texts(new, "")
    many = -1 if "g" in _flags(flags) else 1
    inner = f"(?i){regex}" if _folds(flags) else regex
    return str(_computed("replace_substring_regex", text, inner, replacement=fresh, max_replacements=many))


def extract_match(value: Constant, pattern: Constant, group: Constant = Fraction(0)) -> str:
    """Return the first match of a text, or one of its groups; an empty text if nothing matches."""
    text, regex = _matched_texts(value, pattern)
    wanted, groups = as_whole(group), 0

    def named(sign: re.Match[str]) -> str:
        nonlocal groups
        groups += sign[0] == "("
        return sign[0] if sign[0] != "(" else "(?P<found>" if groups == wanted else "(?:"

    inner = _GROUPS.sub(named, regex)  # the one that is read has a name, the others none
    if not 0 <= wanted <= groups:
        raise Mismatch("The pattern has no such group.", "Write the number of a group in brackets, from 1.")
    captures = _computed("extract_regex", text, inner if wanted else f"(?P<found>{inner})")
    return "" if captures is None else str(captures["found"])


_GROUPS = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\((?!\?)", re.DOTALL)
"""What is escaped, a set of letters, or the bracket that opens a group."""


def _matched_texts(value: Constant, pattern: Constant) -> tuple[str, str]:
    if not isinstance(value, str) or not isinstance(pattern, str) or len(pattern) > _LONGEST:
        raise Mismatch("A regular expression is matched with a text.", "Write a column of labels and a short pattern.")
    return value, pattern


def _flags(flags: Constant) -> str:
    if not isinstance(flags, str) or set(flags) - set("cgims"):
        raise Mismatch("These flags are not known.", "Write 'i' to ignore case, or 'g' to replace all.")
    return flags


def _folds(flags: Constant) -> bool:
    return "i" in _flags(flags)


def _computed(name: str, text: str, pattern: str, **options: Any) -> Any:  # noqa: ANN401  Arrow ships no types
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        return getattr(pc, name)(pa.array([text], pa.string()), pattern=pattern, **options)[0].as_py()
    except pa.ArrowInvalid:
        what = "This is no regular expression that can be matched."
        raise Mismatch(what, "Write one such as '^ma.*l$', without references back.") from None


# --- The functions by name, with the fewest and the most arguments, and how they are called. ---


_MANY = 64
SIGNATURES: tuple[tuple[str, Callable[..., Outcome], int, int, str], ...] = (
    ("trim", strict(lambda text, signs=" ": as_text(text).strip(as_text(signs))), 1, 2, "trim(column)"),
    (
        "ltrim",
        strict(lambda text, signs=" ": as_text(text).lstrip(as_text(signs))),
        1,
        2,
        "ltrim(column)",
    ),
    (
        "rtrim",
        strict(lambda text, signs=" ": as_text(text).rstrip(as_text(signs))),
        1,
        2,
        "rtrim(column)",
    ),
    ("substr", strict(substring), 2, 3, "substr(column, first, length)"),
    ("left", strict(left_part), 2, 2, "left(column, length)"),
    ("right", strict(right_part), 2, 2, "right(column, length)"),
    ("lpad", strict(lambda a, b, c=" ": pad(a, b, c, left=True)), 2, 3, "lpad(column, length, fill)"),
    ("rpad", strict(lambda a, b, c=" ": pad(a, b, c, left=False)), 2, 3, "rpad(column, length, fill)"),
    (
        "replace",
        strict(lambda a, b, c: as_text(a).replace(as_text(b), as_text(c))),
        3,
        3,
        "replace(column, old, new)",
    ),
    ("split_part", strict(split_part), 3, 3, "split_part(column, separator, place)"),
    (
        "starts_with",
        strict(lambda a, b: as_text(a).startswith(as_text(b))),
        2,
        2,
        "starts_with(column, text)",
    ),
    ("contains", strict(lambda a, b: as_text(b) in as_text(a)), 2, 2, "contains(column, text)"),
    (
        "strpos",
        strict(lambda a, b: Fraction(as_text(a).find(as_text(b)) + 1)),
        2,
        2,
        "strpos(column, text)",
    ),
    ("concat", concatenate, 1, _MANY, "concat(column, text)"),
    ("||", strict(lambda a, b: write_text(a) + write_text(b)), 2, 2, "column || text"),
    ("regexp_like", strict(matches), 2, 3, "regexp_like(column, pattern)"),
    ("regexp_ilike", strict(matches_folded), 2, 2, "column ~* pattern"),
    ("regexp_full_match", strict(matches_whole), 2, 3, "regexp_full_match(column, pattern)"),
    ("similar_to", strict(is_similar), 2, 2, "column SIMILAR TO pattern"),
    ("regexp_replace", strict(replace_matches), 3, 4, "regexp_replace(column, pattern, new)"),
    ("regexp_extract", strict(extract_match), 2, 3, "regexp_extract(column, pattern, group)"),
)
