"""When chance fails after a charge: whoever draws does not know that it was paid for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dodona.errors import EntropyFailed


@contextmanager
def paid() -> Iterator[None]:
    """Say of a failure of randomness that the charge stands."""
    try:
        yield
    except EntropyFailed as fault:
        fault.__traceback__ = None  # it stays the context, and its frames hold exact values
        raise EntropyFailed(charged=True) from None
