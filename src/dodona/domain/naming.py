"""Names of tables and columns: what may be one."""

from __future__ import annotations

import unicodedata
from typing import TypeGuard

from dodona.errors import InvalidArgument

LONGEST_NAME = 63
"""In bytes. PostgreSQL cuts longer names off (its manual, section 4.1.1), and two of them could become one."""
NAME_RULE = (
    f"write letters, digits and underscores, no digit first, at most {LONGEST_NAME} bytes; "
    "where the data have another name for a column, write it as source"
)
_LONGEST_SOURCE = 200


def is_name(value: object) -> TypeGuard[str]:
    """Whether a value may name a column.

    >>> is_name("length_of_stay"), is_name("length of stay")
    (True, False)
    """
    return (
        isinstance(value, str)
        and value.isidentifier()
        and unicodedata.normalize("NFKC", value) == value
        and len(value.encode()) <= LONGEST_NAME
    )


def checked_name(value: object, *, argument: str) -> str:
    """Return a name of a column."""
    if not is_name(value):
        raise InvalidArgument(argument, value, NAME_RULE)
    return value


def checked_source(value: object, *, name: str) -> str | None:
    """Return the name of a column in the data, which may be any printable text; None where it is the column's own."""
    if value is None or value == name:
        return None
    if not isinstance(value, str) or not value.isprintable() or not 0 < len(value) <= _LONGEST_SOURCE:
        raise InvalidArgument(
            "source", value, "write the column's name in the data: a printable text, such as 'Age (y)'"
        )
    return value


def checked_table(value: object, *, argument: str) -> str:
    """Return a name of a table: a name, or `schema.name`.

    >>> checked_table("public.stays", argument="table")
    'public.stays'
    """
    if not isinstance(value, str) or value.count(".") > 1 or not all(map(is_name, value.split("."))):
        raise InvalidArgument(argument, value, f"for each part of the name, {NAME_RULE}")
    return value
