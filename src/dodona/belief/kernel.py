"""The kernel: who passes over the weights. NumPy always can; numba is faster on large vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, cast

from dodona.belief import vector
from dodona.belief.region import Region

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_WORTH_COMPILING = 1 << 18  # cells: below, NumPy takes microseconds, and compiling takes seconds


class Kernel(Protocol):
    """Passes over the cells of a region of a contiguous vector of weights."""

    def inside(self, weights: NDArray[np.float64], region: Region) -> float:
        """Return the weight of a region."""

    def scale(self, weights: NDArray[np.float64], region: Region, factor: float) -> None:
        """Multiply the weights of a region by a factor."""


def fastest(cells: int) -> Kernel:
    """Return the kernel that is fastest for so many cells: numba's where it is installed and pays, else NumPy's."""
    if cells >= _WORTH_COMPILING:
        try:
            from dodona.belief import compiled
        except ImportError:  # the `fast` extra is not installed: the other kernel gives the same weights
            return cast("Kernel", vector)
        return cast("Kernel", compiled)
    return cast("Kernel", vector)
