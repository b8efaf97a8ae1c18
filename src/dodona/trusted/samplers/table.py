"""A law made ready for drawing: its thresholds as words and a guide into them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from dodona.trusted.samplers.law import TABLE_BITS, Law, thresholds

if TYPE_CHECKING:
    from numpy.typing import NDArray

GUIDE_BITS = 12
"""The first bits of a word choose a cell of the guide."""

REJECTED = -(1 << 63)
"""Stands in a block of values for an attempt that was rejected; no law here reaches it."""

SERIES_TERMS = 16
"""Terms of the series for e^-x in the filter, where x stays below 0.7."""

# A double decides only outside this band around the truth, of which rounding can use a sixteenth (page exact-samplers).
BAND = 2.0**-45


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """What the kernels read: 63-bit thresholds, the guide, and the exponents as doubles for the certified filter."""

    law: Law
    bounds: NDArray[np.uint64]
    guide: NDArray[np.int16]
    """The outcome of every word that begins with these bits, or -1 where a threshold lies among them."""
    linear: float
    quadratic: float
    band: float


@lru_cache(maxsize=1024)
def table(law: Law) -> Table:
    """Return the law made ready, from memory where it was drawn from before."""
    bounds = np.array(thresholds(law, TABLE_BITS), dtype=np.uint64)
    inside = np.bincount((bounds >> np.uint64(TABLE_BITS - GUIDE_BITS)).astype(np.int64), minlength=1 << GUIDE_BITS)
    guide = np.where(inside == 0, np.cumsum(inside), -1).astype(np.int16)
    return Table(law, bounds, guide, float(law.linear), float(law.quadratic), BAND + 2.0 ** (law.shift - 64))
