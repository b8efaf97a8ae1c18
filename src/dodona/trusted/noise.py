"""Drawing the noise of a mechanism: the only path from Laplace and Gaussian to integers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from dodona.privacy.additive_noise import Gaussian, Laplace
from dodona.privacy.measurement import Noise
from dodona.trusted.entropy import SYSTEM
from dodona.trusted.samplers import law as laws
from dodona.trusted.samplers.draw import BufferedDraws, draw_values, fastest_sampling_kernel


def draw_one(mechanism: Noise) -> int:
    """Return one value, from a buffer drawn in advance."""
    return _buffered_draws(mechanism).one()


def draw_many(mechanism: Noise, count: int) -> NDArray[np.int64]:
    """Return `count` independent values."""
    if count == 1:
        return np.array([draw_one(mechanism)], dtype=np.int64)
    return draw_values(noise_law(mechanism), count, SYSTEM, kernel=fastest_sampling_kernel(count))


def draw_runs(runs: Sequence[tuple[Noise, int]]) -> NDArray[np.int64]:
    """Return independent values in the order of the runs (noise, count); values of the same noise are drawn at once.

    Residuals have thousands of short runs with only a few distinct noises.
    """
    totals: defaultdict[Noise, int] = defaultdict(int)
    starts = []
    for mechanism, count in runs:
        starts.append(totals[mechanism])
        totals[mechanism] += count
    drawn = {mechanism: draw_many(mechanism, count) for mechanism, count in totals.items()}
    parts = [drawn[own][start : start + count] for (own, count), start in zip(runs, starts, strict=True)]
    return np.concatenate(parts)


def noise_law(mechanism: Noise) -> laws.DiscreteLaw:
    """Return the law of the mechanism's noise."""
    match mechanism:
        case Laplace(scale=scale):
            return laws.laplace_law(scale)
        case Gaussian(scale=scale):
            return laws.gaussian_law(scale**2)
        case _:
            assert_never(mechanism)


@lru_cache(maxsize=1024)
def _buffered_draws(mechanism: Noise) -> BufferedDraws:
    return BufferedDraws(noise_law(mechanism), SYSTEM)
