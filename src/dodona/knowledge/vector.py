"""The NumPy kernel: sums and scales regions of a weight vector in place if numba is not installed."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dodona.knowledge.region import Region

_KERNEL_CHUNK = 1 << 13  # cells that stay in the fastest cache


def inside(weights: NDArray[np.float64], region: Region) -> float:
    """Return the total weight of a region."""
    view = _view(weights, region)
    mask = region.mask
    if mask is None:
        return float(view.sum())
    row = view.sum(axis=tuple(range(view.ndim - 1))) if view.ndim > 1 else view
    return sum(float((row[part] * mask[part]).sum()) for part in _parts(row.size))


def scale(weights: NDArray[np.float64], region: Region, factor: float) -> None:
    """Multiply the weights of a region by a factor."""
    mask = region.mask
    if region.index is None:
        rows, columns = weights.reshape(-1, region.pitch), slice(region.first, region.first + region.width)
        places = region.starts() // region.pitch
        for part in _parts(places.size, max(1, _KERNEL_CHUNK // region.width)):
            rows[places[part], columns] *= factor if mask is None else np.where(mask, factor, 1.0)
        return
    view = _view(weights, region)
    if mask is None:
        view *= factor
    else:
        for part in _parts(mask.size):
            view[..., part] *= np.where(mask[part], factor, 1.0)


def _view(weights: NDArray[np.float64], region: Region) -> NDArray[np.float64]:
    """Return the selected rows: a view, or a copy if they do not form slices."""
    columns = slice(region.first, region.first + region.width)
    if region.index is None:
        return weights.reshape(-1, region.pitch)[region.starts() // region.pitch, columns]
    return weights.reshape(*region.lengths, region.pitch)[(*region.index, columns)]


def _parts(size: int, chunk: int = _KERNEL_CHUNK) -> Iterator[slice]:
    return (slice(start, start + chunk) for start in range(0, size, chunk))
