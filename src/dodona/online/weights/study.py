"""Private multiplicative weights on a plain histogram, for study: no ledger keeps account of what is spent."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from dodona.errors import InvalidArgument
from dodona.mechanisms.laplace import Laplace
from dodona.mechanisms.measurement import Noise
from dodona.online.weights.design import Design
from dodona.online.weights.distribution import Distribution, counted, histogram, weights_of
from dodona.online.weights.private import PrivateMultiplicativeWeights
from dodona.trusted.threshold import Watch

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

Draw = Callable[[Noise], int]
"""Draws one value of a noise: `lambda law: direct.run(law, 0)`."""


def studied(design: Design, counts: ArrayLike, *, draw: Draw) -> PrivateMultiplicativeWeights[ArrayLike]:
    """Return private multiplicative weights on a histogram; questions are lists of numbers from 0 to 1, one a cell."""
    data = histogram(counts)
    if (data.size, int(data.sum())) != (design.universe, design.rows):
        accepted = f"write {design.universe} counts that sum to {design.rows}, as the design says"
        raise InvalidArgument("counts", f"{data.size} counts, {int(data.sum())} rows", accepted)
    laplace = cache(lambda scale: Laplace(scale=scale))
    watch = Watch(design.checker.test, lambda scale: draw(laplace(scale)))

    def weigh(query: ArrayLike) -> NDArray[np.float64]:
        return weights_of(query, data.size)

    def check(query: ArrayLike, estimate: int) -> int | None:
        return design.checker.fresh(counted(weigh(query), data), estimate, watch=watch, draw=draw)

    return PrivateMultiplicativeWeights(design, check, weigh=weigh, hypothesis=Distribution.uniform(data.size))
