"""One mechanism on a given value, without a ledger: for teaching, tests, audits and the local model.

Nothing is charged here and nothing is remembered; `dodona.open` is the way to put a table behind a budget.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, assert_never, overload

import numpy as np

from dodona.errors import InvalidArgument
from dodona.mechanisms import Gaussian, Laplace
from dodona.trusted import samplers
from dodona.trusted.entropy import SYSTEM
from dodona.trusted.samplers import law as laws

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Vector = Sequence[int] | NDArray[np.integer]

Noise = Laplace | Gaussian


@overload
def run(mechanism: Noise, value: int, /) -> int: ...
@overload
def run(mechanism: Noise, value: Vector, /) -> NDArray[np.int64]: ...
def run(mechanism: Noise, value: int | Vector, /) -> int | NDArray[np.int64]:
    """Return the value, or each of the values, with fresh noise.

    >>> from dodona.mechanisms import Laplace
    >>> noisy = run(Laplace(scale=2), 42)
    >>> type(noisy)
    <class 'int'>
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value + _ahead(mechanism).one()
    if np.ndim(value) == 0:
        accepted = "write an integer, or a flat list of integers; put other numbers on a grid of your choice first"
        raise InvalidArgument("value", value, accepted)
    values = samplers.integers(value, argument="value")  # type: ignore[arg-type]  # a scalar has been dealt with
    return values + samplers.draw(_law(mechanism), values.size, SYSTEM, kernel=samplers.fastest(values.size))


@lru_cache(maxsize=1024)
def _ahead(mechanism: Noise) -> samplers.Ahead:
    return samplers.Ahead(_law(mechanism), SYSTEM)


def _law(mechanism: Noise) -> laws.Law:
    """Return the law that the mechanism's noise is drawn from."""
    match mechanism:
        case Laplace(scale=scale):
            return laws.laplace(scale)
        case Gaussian(scale=scale):
            return laws.gaussian(scale**2)
        case _:
            assert_never(mechanism)
