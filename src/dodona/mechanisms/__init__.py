"""How noise is shaped: mathematics only. Nothing here draws a number or sees data."""

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
