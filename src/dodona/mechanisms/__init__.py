"""How noise is shaped: mathematics only. Nothing here draws a number or sees data."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dodona.mechanisms.exponential import Exponential
    from dodona.mechanisms.gaussian import Gaussian
    from dodona.mechanisms.gaussian_delta import Calibration
    from dodona.mechanisms.iterated import IteratedSelection
    from dodona.mechanisms.laplace import GridLaplace, Laplace
    from dodona.mechanisms.noisy_max import NoisyMax
    from dodona.mechanisms.permute_and_flip import PermuteAndFlip
    from dodona.mechanisms.randomized_response import Coins, RandomizedResponse
    from dodona.mechanisms.sparse_vector import SparseVector

__all__ = [
    "Calibration",
    "Coins",
    "Exponential",
    "Gaussian",
    "GridLaplace",
    "IteratedSelection",
    "Laplace",
    "NoisyMax",
    "PermuteAndFlip",
    "RandomizedResponse",
    "SparseVector",
]
_PLACES = {
    "Calibration": "gaussian_delta",
    "Coins": "randomized_response",
    "Exponential": "exponential",
    "Gaussian": "gaussian",
    "GridLaplace": "laplace",
    "IteratedSelection": "iterated",
    "Laplace": "laplace",
    "NoisyMax": "noisy_max",
    "PermuteAndFlip": "permute_and_flip",
    "RandomizedResponse": "randomized_response",
    "SparseVector": "sparse_vector",
}


def __getattr__(name: str) -> object:
    """Return a mechanism; it is imported when it is first used, as most questions need two of them."""
    if name not in _PLACES:
        raise AttributeError(f"module 'dodona.mechanisms' has no attribute {name!r}")
    return getattr(import_module(f"dodona.mechanisms.{_PLACES[name]}"), name)
