"""OpenDP's counterparts of what is measured, set up the way that is fastest for it.

Vectors go in as NumPy arrays of 64-bit integers, which OpenDP takes over whole where it walks through a list.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from typing import Any, Literal

import numpy as np

NAME = f"OpenDP {version('opendp')}"

Release = Callable[[object], object]
Noise = Literal["laplace", "gaussian"]
Selection = Literal["permute_and_flip", "exponential"]

_INTEGER = "i64"
_TIMED = 50


@cache
def _opendp() -> Any:  # noqa: ANN401  a library without types
    """Return the library, loaded when it is measured: it brings scikit-learn, which takes two seconds."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    return dp


def vector(noise: Noise, scale: float) -> Release:
    """Return OpenDP's release of a vector of integers with discrete noise."""
    dp = _opendp()
    metrics = {"laplace": dp.l1_distance(T=_INTEGER), "gaussian": dp.l2_distance(T=float)}
    measurement: Release = _measurement(noise, dp.vector_domain(dp.atom_domain(T=_INTEGER)), metrics[noise], scale)
    return measurement


def scalar(noise: Noise, scale: float) -> Release:
    """Return OpenDP's release of one integer with discrete noise."""
    dp = _opendp()
    metrics = {"laplace": dp.absolute_distance(T=_INTEGER), "gaussian": dp.absolute_distance(T=float)}
    measurement: Release = _measurement(noise, dp.atom_domain(T=_INTEGER), metrics[noise], scale)
    return measurement


def noisy_max(selection: Selection, scale: float) -> Release:
    """Return OpenDP's choice among candidates.

    Its noisy max has two laws: under pure differential privacy it is permute-and-flip, under zero-concentrated
    differential privacy it adds Gumbel noise, which is the exponential mechanism.
    """
    dp = _opendp()
    measures = {"permute_and_flip": dp.max_divergence(), "exponential": dp.zero_concentrated_divergence()}
    domain = dp.vector_domain(dp.atom_domain(T=_INTEGER))
    measurement: Release = dp.m.make_noisy_max(domain, dp.linf_distance(T=_INTEGER), measures[selection], scale=scale)
    return measurement


def filter_decision(*, earlier: tuple[int, ...]) -> dict[str, float]:
    """Return the CPU microseconds of a query through OpenDP's privacy filter after so many earlier ones.

    A query is a Gaussian count; its noise, a few tens of microseconds, is part of the figure.
    """
    dp = _opendp()
    domain, metric = dp.atom_domain(T=_INTEGER), dp.absolute_distance(T=float)
    odometer = dp.c.make_fully_adaptive_composition(domain, metric, dp.zero_concentrated_divergence())
    filtered = dp.c.make_privacy_filter(odometer, d_in=1.0, d_out=1.0)(42)
    count = dp.m.make_gaussian(domain, metric, scale=10.0**4)
    microseconds, asked = {}, 0
    for wanted in earlier:
        for _ in range(wanted - asked):
            filtered(count)
        asked = wanted + _TIMED
        start = time.process_time()
        for _ in range(_TIMED):
            filtered(count)
        microseconds[f"{wanted}"] = (time.process_time() - start) / _TIMED * 1e6
    return microseconds


def zeros(count: int) -> object:
    """Return what a vector measurement is given."""
    return np.zeros(count, dtype=np.int64)


def _measurement(noise: Noise, domain: object, metric: object, scale: float) -> Release:
    dp = _opendp()
    make = {"laplace": dp.m.make_laplace, "gaussian": dp.m.make_gaussian}[noise]
    measurement: Release = make(domain, metric, scale=scale)
    return measurement
