"""Rows of any kind: an array, a frame, a table, a list, or a tuple of parts such as (X, y)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dodona.errors import InvalidArgument
from dodona.lab.adaptive.certificate import Values
from dodona.lab.adaptive.faults import QueryFault

Query = Callable[..., Any]
"""Takes the rows, one argument for each part, and returns a number from 0 to 1 for each row.

The value of a row may depend on that row and on earlier answers, but on no other row. A query must not modify the rows,
because later queries use the same ones.
"""

RowValues = NDArray[np.float64] | NDArray[np.bool_]
"""The values that a query assigns to rows: numbers from 0 to 1, or booleans."""

_INSTEAD = "Return an array with one number from 0 to 1 for each row: divide by the largest value, or clip"


class Rows:
    """A sample whose contents are never displayed."""

    def __init__(self, data: object, *, name: str) -> None:
        """Accept anything that has a length and can be indexed."""
        self._parts: tuple[Any, ...] = data if isinstance(data, tuple) else (data,)
        sizes = {_length(part, name) for part in self._parts}
        if len(sizes) != 1:
            raise InvalidArgument(name, f"parts of {sorted(sizes)} rows", "write parts that have equally many rows")
        self.size = sizes.pop()
        self.name = name

    def __repr__(self) -> str:
        return f"<{self.size} rows>"

    def take(self, numbers: NDArray[np.int64]) -> Rows:
        """Return the rows with these numbers."""
        picked = tuple(_take(part, numbers) for part in self._parts)
        return Rows(picked if len(picked) > 1 else picked[0], name=self.name)

    def values(self, query: Query, kind: Values, *, answers: int | None = None) -> RowValues:
        """Return a query's values: one number for each row, or one column for each answer.

        QueryFault says what is wrong without quoting a value.
        """
        where = f"the {self.name} rows"
        try:
            given = query(*self._parts)
            values = np.asarray(given)
        except (Exception, SystemExit) as error:
            raise QueryFault(where, f"it raised {type(error).__name__}", "Mend the query") from error
        if isinstance(given, np.ma.MaskedArray):
            raise QueryFault(where, "it returned a masked array", "Say in the query what a masked value counts for")
        shape = (self.size,) if answers is None else (self.size, answers)
        if values.shape != shape:
            raise QueryFault(where, f"it returned the shape {values.shape}, not {shape}", _INSTEAD)
        if values.dtype.kind not in "biuf":
            raise QueryFault(where, f"it returned {values.dtype}", _INSTEAD)
        return values if values.dtype.kind == "b" else _validate_values(values.astype(np.float64), kind, where)


def _validate_values(values: NDArray[np.float64], kind: Values, where: str) -> NDArray[np.float64]:
    if np.isnan(values).any():
        raise QueryFault(where, "it returned NaN", "Say in the query what a missing value counts for")
    if not ((values >= 0) & (values <= 1)).all():
        raise QueryFault(where, "it returned a value outside 0 to 1", _INSTEAD)
    if kind is Values.YES_NO and not ((values == 0) | (values == 1)).all():
        raise QueryFault(where, "it returned a value between 0 and 1", "Return 0 or 1, or declare Values.SHARES")
    return values


def _length(part: Any, name: str) -> int:  # noqa: ANN401  anything may come
    with suppress(TypeError):
        if not isinstance(part, Mapping | AbstractSet | str | bytes):  # their length is no number of rows
            return len(part)
    raise InvalidArgument(
        name, type(part), "write an array, a frame, a list of rows, or a tuple of them such as (X, y)"
    )


def _take(part: Any, numbers: NDArray[np.int64]) -> Any:  # noqa: ANN401  what comes is what goes
    """Return rows by number: `iloc` (pandas), `take` (Arrow), one by one (sequences), or an index (arrays, polars)."""
    if hasattr(part, "iloc"):
        return part.iloc[numbers]
    if hasattr(part, "schema") and hasattr(part, "take"):
        return part.take(numbers)
    if isinstance(part, Sequence):
        return [part[number] for number in numbers]
    return part[numbers]
