"""The mechanisms in one place, for study. Nothing here draws a number or sees data."""

from dodona.lab.grid_laplace import GridLaplace
from dodona.lab.iterated_selection import IteratedSelection, NoisyMax
from dodona.lab.randomized_response import Coins, RandomizedResponse
from dodona.privacy.additive_noise import Calibration, Gaussian, Laplace, RoundedGaussian
from dodona.privacy.selection import Exponential, PermuteAndFlip
from dodona.privacy.sparse_vector import SparseVector

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
    "RoundedGaussian",
    "SparseVector",
]
