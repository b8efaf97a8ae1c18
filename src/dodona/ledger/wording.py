"""Texts that may stand in an entry of a ledger."""

from __future__ import annotations

from dodona.errors import InvalidArgument

_LONGEST = 500


def worded(name: str, value: str, *, longest: int = _LONGEST) -> str:
    """Return a text that may stand in an entry."""
    if type(value) is not str or not 0 < len(value) <= longest:
        raise InvalidArgument(name, value, f"write a text of 1 to {longest} characters")
    return value


def worded_where_given(**texts: str | None) -> None:
    """Refuse texts that may not stand in an entry; None is no text."""
    for name, text in texts.items():
        if text is not None:
            worded(name, text)
