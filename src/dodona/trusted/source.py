"""Data sources: exact answers, sealed until noise has been added.

Only `trusted` asks a source, and only after the charge is durable. Error messages are constant and carry no data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn, Protocol, final

from dodona.errors import InvariantBroken, Unavailable
from dodona.query.query import Query
from dodona.trusted.entropy import KEY_BYTES, SYSTEM

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


# --- What `trusted` says when it fails. The text is constant: a failure must not carry data. ---


class SourceFailed(Unavailable):
    """The table could not be read: after the charge, or where something public was to be read."""

    code = "source-failed"

    def __init__(self, *, charged: bool = True) -> None:
        """Say it in constant words."""
        super().__init__("The table could not be read. The owner can find out why; ask again later.", charged=charged)


class Unpaid(InvariantBroken):
    """What is to be released is not what the receipt was written for."""

    code = "unpaid"

    def __init__(self) -> None:
        """Say it in constant words."""
        super().__init__("The receipt is for something else. Nothing was released.", charged=True)


# --- A source: where exact answers come from. They are sealed until noise has been added. ---


@final
class Sealed:
    """Exact answers that nobody can read by accident: no length, no comparison, no copy, and one word when printed."""

    __slots__ = ("_values",)

    def __init__(self, values: NDArray[np.int64] | Sequence[int]) -> None:
        """Take whole numbers of steps, in the order of the query."""
        self._values = values

    def __repr__(self) -> str:
        return "<sealed>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a sealed value is not copied")

    def __eq__(self, other: object) -> NoReturn:
        raise TypeError("a sealed value is not compared")

    __hash__ = None  # type: ignore[assignment]


class Source(Protocol):
    """A table behind its schema. Only `trusted` asks it, after the charge is durable."""

    version: str
    """Which version of the rows this is."""

    def exact(self, query: Query) -> Sealed:
        """Return all answers of a query: the same whatever the order of the rows or the number of threads."""

    def close(self) -> None:
        """Let go of the table."""


def unseal(sealed: Sealed) -> NDArray[np.int64] | Sequence[int]:
    """Return the exact answers; only `trusted` calls this."""
    return sealed._values  # noqa: SLF001


def generate_cap_key() -> bytes:
    """Return 256 random bits: what a new ledger chooses the rows of each person with."""
    return SYSTEM.words(KEY_BYTES // 8).tobytes()
