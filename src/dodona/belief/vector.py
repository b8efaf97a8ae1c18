"""The NumPy kernel: sums and scales regions of a vector of weights, in place, without numba."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dodona.belief.region import Region

if TYPE_CHECKING:
    from numpy.typing import NDArray

_CHUNK = 1 << 13  # cells that stay in the fastest memory


def inside(weights: NDArray[np.float64], region: Region) -> float:
    """Return the weight of a region."""
    view = _view(weights, region)
    if region.mask is None:
        return float(view.sum())
    if view.size <= region.width:  # one row
        flat, total = view.reshape(-1), 0.0
        for start in range(0, region.width, _CHUNK):
            part = slice(start, start + _CHUNK)
            total += float((flat[part] * region.mask[part]).sum())
        return total
    return float(np.einsum("...i,i->...", view, region.mask.astype(np.float64)).sum())


def scale(weights: NDArray[np.float64], region: Region, factor: float) -> None:
    """Multiply the weights of a region by a factor."""
    index = region.slices()
    if index is None:
        rows = weights.reshape(-1, region.pitch)
        places = region.starts() // region.pitch
        columns = slice(region.first, region.first + region.width)
        for start in range(0, len(places), max(1, _CHUNK // region.width)):
            some = places[start : start + max(1, _CHUNK // region.width)]
            rows[some, columns] *= _factors(region.mask, factor)
        return
    view = _view(weights, region)
    if region.mask is not None and view.size <= region.width:
        flat = view.reshape(-1)
        for start in range(0, region.width, _CHUNK):
            part = slice(start, start + _CHUNK)
            flat[part] *= _factors(region.mask[part], factor)
        return
    view *= _factors(region.mask, factor)


def _view(weights: NDArray[np.float64], region: Region) -> NDArray[np.float64]:
    """Return the rows that are meant: a view, or a copy where they are no slices."""
    columns = slice(region.first, region.first + region.width)
    index = region.slices()
    if index is None:
        return weights.reshape(-1, region.pitch)[region.starts() // region.pitch, columns]
    return weights.reshape(*region.lengths, region.pitch)[(*index, columns)]


def _factors(mask: NDArray[np.bool_] | None, factor: float) -> NDArray[np.float64] | float:
    return factor if mask is None else np.where(mask, factor, 1.0)
