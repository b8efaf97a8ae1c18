"""The grid of answers: values from 0 to 1 become integer steps, so sums and noise are exact integers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dodona.query.sensitivity import Sensitivity
from dodona.schema.schema import Neighbours

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FINEST = 20
_WIDEST = 10**12  # steps in a sum; noise of a tenth of that is still drawn


def resolution(rows: int) -> int:
    """Return the number of steps between 0 and 1: 2^20, or fewer for more than a million rows.

    >>> resolution(1000), resolution(10**9)
    (1048576, 512)
    """
    return 1 << min(_FINEST, math.floor(math.log2(_WIDEST / rows)))


def sum_sensitivity(steps: int) -> Sensitivity:
    """Return the sensitivity of a sum of values on the grid when one row is replaced.

    Theorem: statistical-query-oracle
    """
    return Sensitivity(l1=steps, l2_squared=steps**2, linf=steps, neighbours=Neighbours.REPLACE)


def grid_sum(values: NDArray[np.float64] | NDArray[np.bool_], steps: int) -> int:
    """Return the sum of the values, each rounded to the grid, in steps.

    Theorem: statistical-query-oracle
    """
    if values.dtype.kind == "b":
        return int(np.count_nonzero(values)) * steps
    return int(np.rint(values * steps).astype(np.int64).sum())


def round_to_level(total: int, whole: int, *, levels: int) -> float:
    """Return the midpoint of the level that contains total/whole, among levels of equal width.

    >>> round_to_level(3, 10, levels=5), round_to_level(10, 10, levels=5)
    (0.3, 0.9)

    Theorem: description-length
    """
    level = min(total * levels // whole, levels - 1)
    return (2 * level + 1) / (2 * levels)


def rounding_error(steps: int) -> float:
    """Return how far rounding to the grid may move a mean."""
    return 0.5 / steps


def rounded_normal_distance(scale: float, *, answers: int) -> float:
    """Return k/(16σ²): the total variation between k discrete Gaussian answers and k rounded normal ones.

    Theorem: rounded-normal
    """
    return answers / (16 * scale**2)
