"""Exact laws in bins, and the chi-square test that holds counts to them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr
from scipy.stats import chi2, ncx2

from tests.trusted.samplers.oracle import Noise

if TYPE_CHECKING:
    from numpy.typing import NDArray

ALARM = 1e-9
"""A right sampler fails one comparison with this probability, up to the error of the chi-square approximation."""
MISS = 1e-6
"""A law that is two percent off passes with at most this probability; tests assert it of their own bins."""
FEWEST = 200
"""Draws expected in a bin at least; a law that is somewhat off still expects 50."""
_DIRECT = 2000  # largest scale at which a Gaussian is summed directly


def cumulative(noise: Noise, edges: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return P(x ≤ edge) for each edge."""
    scale = float(noise.scale)
    x = edges.astype(np.float64)
    if noise.name == "geometric":
        return np.where(x < 0, 0.0, -np.expm1(-(x + 1) / scale))
    if noise.name == "laplace":
        ratio = math.exp(-1 / scale)
        low = np.exp(np.minimum(x, -1) / scale) / (1 + ratio)
        high = 1 - np.exp(-(np.maximum(x, 0) + 1) / scale) / (1 + ratio)
        return np.where(x < 0, low, high)
    if noise.name == "rounded":
        return ndtr((x + 0.5) / scale)
    return _gaussian_sums(scale, edges) if scale <= _DIRECT else _gaussian_by_parts(scale, x)


def _gaussian_sums(scale: float, edges: NDArray[np.int64]) -> NDArray[np.float64]:
    reach = math.ceil(12 * scale) + 2
    weights = np.exp(-((np.arange(-reach, reach + 1) / scale) ** 2) / 2)
    sums = np.concatenate([[0.0], np.cumsum(weights)])
    return sums[np.clip(edges + reach + 1, 0, weights.size)] / sums[-1]


def _gaussian_by_parts(scale: float, x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Euler and Maclaurin's midpoint formula with its first correction; the next is below scale^-4."""
    z = (x + 0.5) / scale
    slope = -z * np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi) / scale**2
    return ndtr(z) - slope / 24


@dataclass(frozen=True)
class Bins:
    """Half-open bins of integers: up to and with edges[0], … , beyond edges[-1]."""

    edges: NDArray[np.int64]

    def counts(self, drawn: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.bincount(np.searchsorted(self.edges, drawn, side="left"), minlength=self.edges.size + 1)

    def chances(self, noise: Noise) -> NDArray[np.float64]:
        return np.diff(np.concatenate([[0.0], cumulative(noise, self.edges), [1.0]]))


def bins_of(noise: Noise, draws: int) -> Bins:
    """Single integers where the law is narrow, else 64 bins of about equal chance; 200 draws expected in each."""
    scale = noise.scale
    if scale <= 10:
        reach = math.ceil(30 * scale) + 2
        candidates = np.arange(-reach, reach + 1, dtype=np.int64)
        least = FEWEST / draws
    else:
        reach = math.ceil(12 * float(scale))
        candidates = np.unique(np.linspace(-reach, reach, 200_001).astype(np.int64))
        least = 1 / 64
    edges, before = [], 0.0
    for edge, reached in zip(candidates.tolist(), cumulative(noise, candidates).tolist(), strict=True):
        if reached - before >= least and 1 - reached >= least:
            edges.append(edge)
            before = reached
    return Bins(np.array(edges, dtype=np.int64))


def p_value(counts: NDArray[np.int64], chances: NDArray[np.float64]) -> float:
    """Return the chance of counts this far from these chances."""
    expected = counts.sum() * chances
    assert expected.min() >= FEWEST / 4, expected.min()
    return float(chi2.sf(((counts - expected) ** 2 / expected).sum(), counts.size - 1))


def miss(draws: int, truth: NDArray[np.float64], wrong: NDArray[np.float64]) -> float:
    """Return about the probability that draws of the truth pass for the wrong law."""
    degrees = truth.size - 1
    distance = draws * ((truth - wrong) ** 2 / wrong).sum()
    return float(ncx2.cdf(chi2.isf(ALARM, degrees), degrees, distance))
