"""Draws of one mechanism, how well they fit its law, and how fast they came."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import chi2

from benchmarks import clock, peer
from dodona import direct
from dodona.mechanisms import Gaussian, Laplace

if TYPE_CHECKING:
    from numpy.typing import NDArray

LEAST_EXPECTED = 10
"""Values that are expected fewer times than this are pooled with the rest of their tail."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A mechanism, its name, and its counterpart at the peer."""

    name: str
    mechanism: Laplace | Gaussian
    peer: peer.Noise


@dataclass(frozen=True, slots=True, eq=False)
class Draws:
    """How often each value came up, beside its exact probability."""

    subject: Subject
    count: int
    values: NDArray[np.int64]
    """Every integer up to the farthest that was drawn, or that had a chance to be."""
    observed: NDArray[np.int64]
    exact: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Fit:
    """Pearson's chi-square test of draws against their law."""

    statistic: float
    freedom: int
    p_value: float


@dataclass(frozen=True, slots=True)
class Speed:
    """Samples per CPU-second: ours through `direct.run`, and the peer's."""

    ours: float
    peer: float


def drawn(subject: Subject, count: int) -> Draws:
    """Add noise to a vector of zeros, so that what comes out is the noise itself."""
    noise = direct.run(subject.mechanism, np.zeros(count, dtype=np.int64))
    reach = int(np.abs(noise).max())
    while subject.mechanism.probability(reach) * count > 1 / LEAST_EXPECTED:
        reach += 1
    values = np.arange(-reach, reach + 1)
    observed = np.bincount(noise + reach, minlength=values.size)
    exact = np.array([subject.mechanism.probability(value) for value in values.tolist()])
    return Draws(subject, count, values, observed, exact)


def fit(draws: Draws) -> Fit:
    """Return the chi-square test, with each tail pooled into one cell."""
    body = draws.exact * draws.count >= LEAST_EXPECTED
    lower, upper = draws.values < draws.values[body].min(), draws.values > draws.values[body].max()
    tail = (1 - draws.exact[body].sum()) / 2  # the laws are symmetric
    expected = draws.count * np.array([tail, *draws.exact[body], tail])
    observed = np.array([draws.observed[lower].sum(), *draws.observed[body], draws.observed[upper].sum()])
    statistic = float(((observed - expected) ** 2 / expected).sum())
    freedom = expected.size - 1
    return Fit(statistic, freedom, float(chi2.sf(statistic, freedom)))


def speed(subject: Subject, *, count: int, peer_count: int) -> Speed:
    """Time both, each at a size that suits it, after one round to warm up."""
    zeros, peer_zeros = np.zeros(count, dtype=np.int64), peer.zeros(peer_count)
    release = peer.vector(subject.peer, float(subject.mechanism.scale))
    ours = clock.best(lambda: direct.run(subject.mechanism, zeros))
    theirs = clock.best(lambda: release(peer_zeros))
    return Speed(count / ours, peer_count / theirs)
