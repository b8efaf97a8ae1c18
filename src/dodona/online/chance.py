"""Errors after a charge: whoever raises them does not know that it was paid for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dodona.errors import DodonaError, InvalidRequest, Refused


@contextmanager
def paid() -> Iterator[None]:
    """Say of every error that the charge stands."""
    try:
        yield
    except DodonaError as fault:
        if fault.charged:
            raise
        fault.__traceback__ = None  # it stays the context, and its frames may hold exact values
        raise fault.after_charge() from None


@contextmanager
def prepaid() -> Iterator[None]:
    """Say the same of a question that was paid for when something was opened; a refusal of it takes nothing."""
    refusal: DodonaError | None = None
    with paid():
        try:
            yield
        except (InvalidRequest, Refused) as fault:
            refusal = fault
    if refusal is not None:
        raise refusal
