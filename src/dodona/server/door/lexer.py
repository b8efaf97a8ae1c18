"""The tokens of PostgreSQL's SQL, each with its place, so that a text can be spliced and is never regenerated."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from dodona.errors import InvalidRequest

Kind = Literal["name", "quoted", "text", "number", "parameter", "operator", "mark"]

_SPACE = re.compile(r"(?:\s+|--[^\n\r]*)+")
_TOKEN = re.compile(
    r"""(?P<text>[eE]'(?:[^'\\]|\\.|'')*' | [bBxXnN]?'(?:[^']|'')*' | [uU]&'(?:[^']|'')*')
      | (?P<dollar>\$(?P<tag>(?:[A-Za-z_\x80-\U0010ffff][\w]*)?)\$)
      | (?P<parameter>\$\d+)
      | (?P<quoted>(?:[uU]&)?"(?:[^"]|"")*")
      | (?P<number>(?:\d[\d_]*(?:\.(?!\.)[\d_]*)?|\.\d[\d_]*)(?:[eE][+-]?\d+)?)
      | (?P<name>[A-Za-z_\x80-\U0010ffff][\w$]*)
      | (?P<mark>::|[()\[\],;.:])
      | (?P<operator>[-+*/<>=~!@\#%^&|`?]+)""",
    re.VERBOSE | re.DOTALL,
)
_OPENING = {"(": ")", "[": "]"}
_RESERVED = frozenset({
    "all", "analyse", "analyze", "and", "any", "array", "as", "asc", "asymmetric", "both", "case", "cast", "check",
    "collate", "column", "constraint", "create", "current_date", "current_time", "current_timestamp",
    "current_user", "default", "deferrable", "desc", "distinct", "do", "else", "end", "except", "false", "fetch",
    "for", "foreign", "from", "grant", "group", "having", "in", "initially", "intersect", "into", "lateral",
    "leading", "limit", "localtime", "localtimestamp", "not", "null", "offset", "on", "only", "or", "order",
    "placing", "primary", "references", "returning", "select", "session_user", "some", "symmetric", "table",
    "then", "to", "trailing", "true", "union", "unique", "user", "using", "variadic", "when", "where", "window",
    "with",
})  # fmt: skip
"""PostgreSQL's reserved words: a column with such a name is always quoted."""


class Unreadable(InvalidRequest):
    """A statement that cannot be cut into tokens: PostgreSQL itself says what is wrong with it."""

    code = "unreadable-statement"


@dataclass(frozen=True, slots=True)
class Token:
    """A token and its place in the text."""

    kind: Kind
    text: str
    start: int
    end: int

    @property
    def word(self) -> str:
        """What it says, folded as PostgreSQL folds it: keywords and names in lower case, quotation marks taken off."""
        if self.kind == "name":
            return self.text.lower()
        return self.text[1:-1].replace('""', '"') if self.kind == "quoted" else self.text

    def says(self, *words: str) -> bool:
        """Return whether it is one of these keywords or marks; a quoted name is never a keyword."""
        return self.kind not in {"quoted", "text"} and self.text.lower() in words

    @property
    def names(self) -> bool:
        """Whether it may be a name."""
        return self.kind in {"name", "quoted"}

    @property
    def reserved(self) -> bool:
        """Whether it is a keyword that names nothing: ORDER, but not "order"."""
        return self.kind == "name" and self.text.lower() in _RESERVED


def tokens_of(text: str) -> tuple[Token, ...]:
    """Return the tokens of a text without spaces and comments; raises Unreadable where a text or comment has no end."""
    return tuple(_scan(text))


def _scan(text: str) -> Iterator[Token]:
    place, length = 0, len(text)
    while place < length:
        space = _SPACE.match(text, place)
        if space is not None:
            place = space.end()
            continue
        if text.startswith("/*", place):
            place = _after_comment(text, place)
            continue
        lexeme = _TOKEN.match(text, place)
        if lexeme is None:
            raise Unreadable("The statement cannot be read: a text, a name or a comment in it has no end.")
        kind, end = lexeme.lastgroup, lexeme.end()
        if lexeme["dollar"] is not None:
            end = text.find(lexeme["dollar"], end)
            if end < 0:
                raise Unreadable("The statement cannot be read: a text in it has no end.")
            kind, end = "text", end + len(lexeme["dollar"])
        elif kind == "operator":
            end = _end_of_operator(lexeme[0], place)
        yield Token(kind, text[place:end], place, end)  # type: ignore[arg-type]  # the groups are the kinds
        place = end


def _after_comment(text: str, start: int) -> int:
    """Return the place after a comment; PostgreSQL's may be nested."""
    depth, place = 1, start + 2
    while depth:
        opening, closing = text.find("/*", place), text.find("*/", place)
        if closing < 0:
            raise Unreadable("The statement cannot be read: a comment in it has no end.")
        if 0 <= opening < closing:
            depth, place = depth + 1, opening + 2
        else:
            depth, place = depth - 1, closing + 2
    return place


def _end_of_operator(operator: str, start: int) -> int:
    """Return the end of an operator: a comment may follow it at once, and a sign is no part of a comparison."""
    for mark in ("--", "/*"):
        cut = operator.find(mark)
        if cut > 0:
            operator = operator[:cut]
    while len(operator) > 1 and operator[-1] in "+-" and not set(operator) & set("~!@#%^&|`?"):
        operator = operator[:-1]
    return start + len(operator)


def closings(tokens: Sequence[Token]) -> dict[int, int]:
    """Return for each opening bracket the number of the token that closes it; raises Unreadable if one has none."""
    pairs: dict[int, int] = {}
    waiting: list[int] = []
    for number, token in enumerate(tokens):
        if token.kind != "mark":
            continue
        if token.text in _OPENING:
            waiting.append(number)
        elif token.text in ")]":
            if not waiting or _OPENING[tokens[waiting[-1]].text] != token.text:
                raise Unreadable("The statement cannot be read: its brackets do not match.")
            pairs[waiting.pop()] = number
    if waiting:
        raise Unreadable("The statement cannot be read: its brackets do not match.")
    return pairs


def split_statements(tokens: Sequence[Token]) -> list[tuple[int, int]]:
    """Return the ranges of tokens of the statements of a text, without semicolons and empty statements."""
    statements, first = [], 0
    for number, token in enumerate(tokens):
        if token.says(";"):
            statements.append((first, number))
            first = number + 1
    statements.append((first, len(tokens)))
    return [(start, end) for start, end in statements if start < end]
