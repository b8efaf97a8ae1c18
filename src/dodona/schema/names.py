"""Names of tables and columns, in questions and in the data."""

from __future__ import annotations

import unicodedata
from typing import TypeGuard

from dodona.errors import InvalidArgument

LONGEST_NAME = 63
"""In bytes. PostgreSQL truncates longer names (its manual, section 4.1.1), so two of them could coincide."""
NAME_RULE = (
    f"write letters, digits and underscores, no digit first, at most {LONGEST_NAME} bytes; "
    "where the data have another name for a column, write it as source"
)
_LONGEST_SOURCE = 200


def is_name(value: object) -> TypeGuard[str]:
    """Whether a value is a valid column name.

    >>> is_name("length_of_stay"), is_name("length of stay")
    (True, False)
    """
    if not isinstance(value, str) or not value.isidentifier() or len(value.encode()) > LONGEST_NAME:
        return False
    return unicodedata.normalize("NFKC", value) == value


def validate_name(value: object, *, argument: str) -> str:
    """Validate a column name."""
    if not is_name(value):
        raise InvalidArgument(argument, value, NAME_RULE)
    return value


def validate_source_name(value: object, *, name: str) -> str | None:
    """Validate a column's name in the data, which may be any printable text; None if it is the declared name."""
    if value is None or value == name:
        return None
    if not isinstance(value, str) or not value.isprintable() or not 0 < len(value) <= _LONGEST_SOURCE:
        accepted = "write the column's name in the data: a printable text, such as 'Age (y)'"
        raise InvalidArgument("source", value, accepted)
    return value


def validate_table_name(value: object, *, argument: str) -> str:
    """Validate a table name: a name, or `schema.name`.

    >>> validate_table_name("public.stays", argument="table")
    'public.stays'
    """
    if not isinstance(value, str) or value.count(".") > 1 or not all(map(is_name, value.split("."))):
        raise InvalidArgument(argument, value, f"for each part of the name, {NAME_RULE}")
    return value
