"""The numba kernel for weights: sums and scales regions at memory speed. Needs the `fast` extra."""

import numba
import numpy as np
from numpy.typing import NDArray

from dodona.knowledge.region import Region

_FREE = {"reassoc", "nsz"}  # additions may be reordered, so that a row is summed in many SIMD lanes at once


def inside(weights: NDArray[np.float64], region: Region) -> float:
    """Return the weight of a region."""
    if region.mask is None:
        return float(_sum(weights, region.starts(), region.width))
    return float(_sum_masked(weights, region.starts(), region.mask))


def scale(weights: NDArray[np.float64], region: Region, factor: float) -> None:
    """Multiply the weights of a region by a factor."""
    if region.mask is None:
        _scale(weights, region.starts(), region.width, factor)
    else:
        _scale_masked(weights, region.starts(), region.mask, factor)


@numba.njit(nogil=True, fastmath=_FREE)
def _sum(weights, starts, width):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    total = 0.0
    for place in range(starts.size):
        row = weights[starts[place] : starts[place] + width]  # indices into a slice cannot wrap around
        row_total = 0.0
        for cell in range(row.size):
            row_total += row[cell]
        total += row_total
    return total


@numba.njit(nogil=True, fastmath=_FREE)
def _sum_masked(weights, starts, mask):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    total = 0.0
    for place in range(starts.size):
        row = weights[starts[place] : starts[place] + mask.size]
        row_total = 0.0
        for cell in range(mask.size):
            row_total += row[cell] if mask[cell] else 0.0  # a select instead of a branch, so that the loop vectorises
        total += row_total
    return total


@numba.njit(nogil=True)
def _scale(weights, starts, width, factor):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    for place in range(starts.size):
        row = weights[starts[place] : starts[place] + width]
        for cell in range(row.size):
            row[cell] *= factor


@numba.njit(nogil=True)
def _scale_masked(weights, starts, mask, factor):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    for place in range(starts.size):
        row = weights[starts[place] : starts[place] + mask.size]
        for cell in range(mask.size):
            row[cell] *= factor if mask[cell] else 1.0
