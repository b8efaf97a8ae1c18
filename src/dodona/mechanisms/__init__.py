"""How noise is shaped: mathematics only. Nothing here draws a number or sees data."""

from dodona.mechanisms.gaussian import Gaussian
from dodona.mechanisms.laplace import Laplace

__all__ = ["Gaussian", "Laplace"]
