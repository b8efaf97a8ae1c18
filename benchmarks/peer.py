"""OpenDP's counterparts of what is measured, set up the way that is fastest for it.

Vectors go in as NumPy arrays of 64-bit integers, which OpenDP takes over whole where it walks through a list.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from typing import Literal

import numpy as np
import opendp.prelude as dp

dp.enable_features("contrib")

NAME = f"OpenDP {version('opendp')}"

Release = Callable[[object], object]
Noise = Literal["laplace", "gaussian"]
Selection = Literal["permute_and_flip", "exponential"]

_INTEGER = "i64"


def vector(noise: Noise, scale: float) -> Release:
    """Return OpenDP's release of a vector of integers with discrete noise."""
    metrics = {"laplace": dp.l1_distance(T=_INTEGER), "gaussian": dp.l2_distance(T=float)}
    measurement: Release = _measurement(noise, dp.vector_domain(dp.atom_domain(T=_INTEGER)), metrics[noise], scale)
    return measurement


def scalar(noise: Noise, scale: float) -> Release:
    """Return OpenDP's release of one integer with discrete noise."""
    metrics = {"laplace": dp.absolute_distance(T=_INTEGER), "gaussian": dp.absolute_distance(T=float)}
    measurement: Release = _measurement(noise, dp.atom_domain(T=_INTEGER), metrics[noise], scale)
    return measurement


def noisy_max(selection: Selection, scale: float) -> Release:
    """Return OpenDP's choice among candidates.

    Its noisy max has two laws: under pure differential privacy it is permute-and-flip, under zero-concentrated
    differential privacy it adds Gumbel noise, which is the exponential mechanism.
    """
    measures = {"permute_and_flip": dp.max_divergence(), "exponential": dp.zero_concentrated_divergence()}
    domain = dp.vector_domain(dp.atom_domain(T=_INTEGER))
    measurement: Release = dp.m.make_noisy_max(domain, dp.linf_distance(T=_INTEGER), measures[selection], scale=scale)
    return measurement


def zeros(count: int) -> object:
    """Return what a vector measurement is given."""
    return np.zeros(count, dtype=np.int64)


def _measurement(noise: Noise, domain: object, metric: object, scale: float) -> Release:
    make = {"laplace": dp.m.make_laplace, "gaussian": dp.m.make_gaussian}[noise]
    measurement: Release = make(domain, metric, scale=scale)
    return measurement
