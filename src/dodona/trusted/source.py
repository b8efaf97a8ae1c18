"""Data sources: exact answers, sealed until noise has been added.

Only `trusted` queries a source, and only after the charge is durable. Error messages are constant and carry no data.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn, Protocol, final

import numpy as np
from numpy.typing import NDArray

from dodona.errors import InvariantBroken, Unavailable
from dodona.query.query import Query
from dodona.trusted.entropy import KEY_BYTES, SYSTEM

# --- Errors of `trusted`. Their text is constant: an error must not carry data. ---


class SourceFailed(Unavailable):
    """The table could not be read, either after a charge or for a public fact."""

    code = "source-failed"
    retry_after = 5

    def __init__(self, *, charged: bool = True) -> None:
        """Set a constant message."""
        super().__init__("The table could not be read. The owner can find out why; ask again later.", charged=charged)


class Unpaid(InvariantBroken):
    """The receipt is for something other than what is to be released."""

    code = "unpaid"

    def __init__(self) -> None:
        """Set a constant message."""
        super().__init__("The receipt is for something else. Nothing was released.", charged=True)


# --- A source of exact answers, which are sealed until noise has been added. ---


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Sealed:
    """Exact answers that cannot be read or changed by accident: no length, comparison or copy, and a constant repr.

    Only the gate opens them, and few may import the gate.
    """

    _values: NDArray[np.int64] | Sequence[int]
    """Integers, in steps, in the order of the query."""

    def __repr__(self) -> str:
        return "<sealed>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a sealed value is not copied")

    def __eq__(self, other: object) -> NoReturn:
        raise TypeError("a sealed value is not compared")

    __hash__ = None  # type: ignore[assignment]


class Source(Protocol):
    """A table and its schema. Only `trusted` queries it, after the charge is durable."""

    version: str
    """The version of the rows."""

    def exact(self, query: Query) -> Sealed:
        """Return all answers of a query, independent of the order of the rows and the number of threads."""

    def close(self) -> None:
        """Close the table."""


def generate_cap_key() -> bytes:
    """Return 256 random bits: the key with which a new ledger selects the rows of each person."""
    return SYSTEM.words(KEY_BYTES // 8).tobytes()
