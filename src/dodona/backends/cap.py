"""The cap on rows: which rows of a person count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dodona.backends.faults import SourceUnfit
from dodona.domain.schema import Schema
from dodona.domain.value import is_missing

if TYPE_CHECKING:
    from numpy.typing import NDArray


def kept_rows(
    schema: Schema, codes: Mapping[str, NDArray[np.int64]], people: Sequence[object] | NDArray[Any]
) -> NDArray[np.bool_]:
    """Return which rows count: of each person the first ones, by the codes of all declared columns in their order.

    Rows that are of nobody do not count: a NULL, or a NaN, might stand for anybody. Which of two rows with the same
    codes counts makes no difference to any answer, so the order of the rows does not either.
    """
    number = numbered(people)
    columns = [codes[name] for name in schema.domain.names]
    order = np.lexsort((*reversed(columns), number))
    ranked = number[order]
    first = np.flatnonzero(np.r_[True, ranked[1:] != ranked[:-1]]) if len(ranked) else np.zeros(0, dtype=np.int64)
    place = np.arange(len(ranked)) - np.repeat(first, np.diff(np.r_[first, len(ranked)]))
    kept = np.zeros(len(ranked), dtype=np.bool_)
    kept[order] = place < schema.unit.rows
    return kept & (number >= 0)


def numbered(people: Sequence[object] | NDArray[Any]) -> NDArray[np.int64]:
    """Return a number for each different person; -1 for nobody."""
    seen: dict[object, int] = {}
    listed = people.tolist() if isinstance(people, np.ndarray) else list(people)
    try:
        numbers = [-1 if is_missing(who) else seen.setdefault(who, len(seen)) for who in listed]
    except TypeError:
        numbers = None
    if numbers is None:
        raise SourceUnfit(
            "The column of people holds values that cannot be told apart, such as lists. Take one of numbers or texts."
        )
    return np.array(numbers, dtype=np.int64)
