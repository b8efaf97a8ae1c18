"""Extras: heavy libraries that are installed only where they are used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dodona.errors import InvalidRequest


@contextmanager
def extra(what: str, library: str, name: str) -> Iterator[None]:
    """Say which extra to install where an import in this block fails."""
    missing = False
    try:
        yield
    except ImportError:
        missing = True
    if missing:
        raise InvalidRequest(f"A source in {what} needs {library}. Run: pip install 'dodona[{name}]'.")
