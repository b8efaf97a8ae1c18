"""A ledger and a source that say in which order they were called."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from dodona.lab.audit.cases.scene import ledger_of, schema_of, source_of
from dodona.lab.audit.cases.served import CROWD
from dodona.ledger.entries import Receipt
from dodona.ledger.ledger import Ledger
from dodona.query.query import Query
from dodona.schema.schema import Neighbours
from dodona.trusted.source import Sealed, Source

if TYPE_CHECKING:
    from numpy.typing import NDArray

TOLD = {"reserve", "redeem", "arm", "record", "exact"}


class Recording:
    """Whatever is behind it, with the names of the methods of the path written down."""

    def __init__(self, behind: object, calls: list[str], *, fails: str | None = None) -> None:
        self._behind, self._calls, self._fails = behind, calls, fails

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  whatever is behind it
        method, step = getattr(self._behind, name), name.removesuffix("_once")
        if step not in TOLD:
            return method

        def told(*arguments: object, **named: object) -> object:
            self._calls.append(step)
            if step == self._fails:
                raise OSError(step)
            return method(*arguments, **named)

        return told


class Fixed:
    """A source of these exact values, or of what it raises."""

    version = "1"

    def __init__(self, values: NDArray[Any] | Sequence[Any] | Callable[[], Any]) -> None:
        self._values = values

    def exact(self, _: Query) -> Sealed:
        return Sealed(self._values() if callable(self._values) else self._values)

    def close(self) -> None:
        pass


def scene(
    neighbours: Neighbours = Neighbours.ADD_REMOVE, *, fails: str | None = None, source: Source | None = None
) -> tuple[Ledger, Source, list[str]]:
    """A ledger, a source and their calls so far."""
    schema, calls = schema_of(neighbours), list[str]()
    behind = source_of(schema, CROWD) if source is None else source
    ledger = cast("Ledger", Recording(ledger_of(schema), calls, fails=fails))
    return ledger, cast("Source", Recording(behind, calls)), calls


def wide(number: int) -> NDArray[np.int64]:
    """One value of 64 bits."""
    return np.array([number], dtype=np.int64)


def paid(ledger: Ledger, event: object, purpose: str, *, version: str = "1") -> Receipt:
    """A receipt for this event."""
    return ledger.reserve(cast("Any", event), analyst=None, key=None, purpose=purpose, version=version)
