"""Made-up rows of a schema, for rehearsals: every cell of every column occurs, and nothing in them is anybody's."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from dodona.domain.attribute import Attribute, Category, cells, column_of, label
from dodona.domain.schema import Schema

_STEPS = 2654435761  # Knuth's multiplicative constant: neighbouring rows land far apart
_MOST = 10_000


def made_up(schema: Schema) -> dict[str, Sequence[object]]:
    """Return columns of invented values, the same every time; at most ten thousand rows."""
    rows = np.arange(min(_MOST, max(1, schema.unit.size)), dtype=np.uint64)
    found: dict[str, Sequence[object]] = {
        column_of(attribute): [_value(attribute, int(code)) for code in _codes(attribute, rows, place)]
        for place, attribute in enumerate(schema.domain, start=1)
    }
    if schema.unit.id is not None:  # everybody has as many rows as count
        found[schema.unit.id] = (rows // np.uint64(schema.unit.rows)).tolist()
    return found


def _codes(attribute: Attribute, rows: np.ndarray, place: int) -> np.ndarray:
    """Return codes that wander over all cells, more slowly for later columns, so that columns differ."""
    mixed = (rows * np.uint64(_STEPS * place) + (rows >> np.uint64(place % 7))) % np.uint64(2**32)
    return (mixed * np.uint64(cells(attribute)) >> np.uint64(32)).astype(np.int64)


def _value(attribute: Attribute, code: int) -> object:
    if code == attribute.size:
        return None
    if code > attribute.size:
        return "?" if isinstance(attribute, Category) else None
    value = label(attribute, code)
    return float(value) if isinstance(value, Fraction) else value
