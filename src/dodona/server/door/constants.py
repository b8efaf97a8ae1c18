"""The parts of a question that no row changes: parameters, casts, dates of today. PostgreSQL computes them first.

So a question reaches the core with plain constants, whatever a client binds and in whatever format, and PostgreSQL
alone decides what `$1`, `'65'::int`, `to_date(...)` or `current_date - interval '30 days'` mean.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from dodona.server.door.lexer import Token
from dodona.server.door.shape import Range, Shape

_BOUNDARIES = frozenset({
    "and", "or", "not", "in", "is", "like", "ilike", "similar", "between", "symmetric", "case", "when", "then",
    "else", "end", "where", "from", "as", "distinct", "all", "any", "some", "select", "order", "by", "group",
    "filter", "within", "asc", "desc", "nulls", "first", "last", "on", "using", "join", "inner", "left", "right",
    "full", "cross", "over", "partition", "escape",
    ",", "=", "<>", "!=", "<", "<=", ">", ">=", "~~", "~~*", "!~~", "!~~*",
})  # fmt: skip
_CONSTANTS = frozenset({
    "current_date", "current_timestamp", "current_time", "localtimestamp", "localtime", "true", "false", "null",
    "array", "with", "to",
})  # fmt: skip
_TYPE_WORDS = frozenset({
    "interval", "date", "time", "timestamp", "timestamptz", "timetz", "without", "zone", "at", "int", "int2", "int4",
    "int8", "integer", "smallint", "bigint", "numeric", "decimal", "real", "float", "float4", "float8", "double",
    "precision", "text", "varchar", "character", "varying", "char", "bool", "boolean", "pg_catalog", "name", "bpchar",
})  # fmt: skip
"""Words of types. Like units of time they are no keywords to PostgreSQL: columns have these names too."""
_UNITS = frozenset({"year", "month", "day", "hour", "minute", "second"})
_MIDNIGHT = re.compile(r"(\d{4}-\d\d-\d\d)T00:00:00(?:\.0+)?(?:[+-]\d\d(?::\d\d)?|Z)?")


def find_constants(shape: Shape, part: Range) -> Iterator[Range]:
    """Yield the largest ranges of tokens that no row changes, and that are more than plain constants."""
    first = part[0]
    place = part[0]
    while place <= part[1]:
        if place == part[1] or shape.tokens[place].says(*_BOUNDARIES):
            if first < place and not shape.tokens[first - 1].says("as"):  # what follows AS is a type or a name
                yield from _of_operand(shape, (first, place))
            first = place + 1
        elif place in shape.closing:
            place = shape.closing[place]
        place += 1


def _of_operand(shape: Shape, part: Range) -> Iterator[Range]:
    tokens = shape.tokens
    start, end = part
    bracketed = tokens[start].says("(") and shape.closing[start] == end - 1
    if not bracketed and all(_constant(shape, place) for place in range(start, end)):
        if any(_computed(shape, place) for place in range(start, end)):
            yield part
        return
    place = start
    while place < end:
        if place in shape.closing:
            yield from find_constants(shape, (place + 1, shape.closing[place]))
            place = shape.closing[place]
        elif tokens[place].kind == "parameter" or (tokens[place].kind == "text" and tokens[place].text[0] != "'"):
            last = place + 1
            while last + 1 < end and tokens[last].says("::") and tokens[last + 1].names:
                last += 2
            yield place, last
            place = last - 1
        place += 1


def _constant(shape: Shape, place: int) -> bool:
    """Return whether a token may be part of a constant: no column, no aggregate, no query."""
    token = shape.tokens[place]
    if not token.names:
        return True
    if place + 1 < len(shape.tokens) and shape.tokens[place + 1].says("("):
        if shape.tokens[place - 1].says("from", "join", "lateral"):
            return False  # a table
        return token.word not in shape.catalog.aggregates and token.word not in {"select", "exists"}
    return token.kind == "name" and (token.word in _CONSTANTS or _names_type(shape, place))


def _names_type(shape: Shape, place: int) -> bool:
    """Return whether a word names a type or a unit of time where it stands, and so is no column.

    A type follows `::` or stands before a text, with all words of its name; a unit follows the text of an interval.
    """
    token, before = shape.tokens[place], shape.tokens[place - 1]
    if token.word in _UNITS:
        return before.kind == "text" or before.says("to")
    if token.word not in _TYPE_WORDS:
        return False
    after = shape.tokens[place + 1] if place + 1 < len(shape.tokens) else None
    if after is not None and (after.kind == "text" or after.says("with", "without")):
        return True
    return token.says("at") or before.says("::", ".", "with", *_TYPE_WORDS)


def _computed(shape: Shape, place: int) -> bool:
    """Return whether a token makes a constant more than a plain one."""
    token = shape.tokens[place]
    if token.kind == "parameter" or token.says("::"):
        return True
    if token.kind == "text":
        return token.text[0] != "'"
    return token.kind == "name" and token.word not in {"true", "false", "null"}


def literal(value: object) -> str:
    """Return a value that PostgreSQL computed as a constant of SQL; a list as its members.

    >>> literal(["it's", 3, True, None, "2025-01-31T00:00:00"])
    "'it''s', 3, TRUE, NULL, '2025-01-31'"
    """
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case int() | float():
            return repr(value)
        case list():
            return ", ".join(map(literal, value))
        case _:
            text = value if isinstance(value, str) else json.dumps(value)
            midnight = _MIDNIGHT.fullmatch(text)
            return quote(text if midnight is None else midnight[1])


def identifier(name: str) -> str:
    """Return a name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def quote(text: str) -> str:
    """Return a text as a constant of SQL, the same with and without standard strings."""
    doubled = text.replace("'", "''")
    return f"'{doubled}'" if "\\" not in doubled else " E'" + doubled.replace("\\", "\\\\") + "'"


def is_name(token: Token) -> bool:
    """Return whether a token may name a column: no keyword between operands."""
    return token.kind == "quoted" or (token.kind == "name" and token.word not in _BOUNDARIES)
