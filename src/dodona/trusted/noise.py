"""Noise of a mechanism: the one way from Laplace and Gaussian to integers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, assert_never

import numpy as np

from dodona.mechanisms.gaussian import Gaussian
from dodona.mechanisms.laplace import Laplace
from dodona.mechanisms.measurement import Noise
from dodona.trusted.entropy import SYSTEM
from dodona.trusted.samplers import Ahead, draw, fastest
from dodona.trusted.samplers import law as laws

if TYPE_CHECKING:
    from numpy.typing import NDArray


def one(mechanism: Noise) -> int:
    """Return one value, drawn ahead."""
    return _ahead(mechanism).one()


def several(mechanism: Noise, count: int) -> NDArray[np.int64]:
    """Return `count` independent values."""
    if count == 1:
        return np.array([one(mechanism)], dtype=np.int64)
    return draw(law_of(mechanism), count, SYSTEM, kernel=fastest(count))


def in_runs(runs: Sequence[tuple[Noise, int]]) -> NDArray[np.int64]:
    """Return independent values in the order of the runs, so many of each noise; those of one noise are drawn at once.

    Residuals have thousands of short runs of a few noises.
    """
    totals: defaultdict[Noise, int] = defaultdict(int)
    starts = []
    for mechanism, count in runs:
        starts.append(totals[mechanism])
        totals[mechanism] += count
    drawn = {mechanism: several(mechanism, count) for mechanism, count in totals.items()}
    parts = [drawn[own][start : start + count] for (own, count), start in zip(runs, starts, strict=True)]
    return np.concatenate(parts)


def law_of(mechanism: Noise) -> laws.Law:
    """Return the law that the mechanism's noise is drawn from."""
    match mechanism:
        case Laplace(scale=scale):
            return laws.laplace(scale)
        case Gaussian(scale=scale):
            return laws.gaussian(scale**2)
        case _:
            assert_never(mechanism)


@lru_cache(maxsize=1024)
def _ahead(mechanism: Noise) -> Ahead:
    return Ahead(law_of(mechanism), SYSTEM)
