"""Observations: what releases say about the mean row, each with how far off it may be."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, assert_never

import numpy as np

from dodona.answer.measured import Measured, Noise
from dodona.belief.asked import numbers
from dodona.belief.hypothesis import Numbers
from dodona.errors import InvalidArgument
from dodona.exact import whole
from dodona.mechanisms.gaussian import Gaussian
from dodona.mechanisms.laplace import Laplace
from dodona.query.query import Query

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Observation:
    """The answers of one block for the mean row, in steps, and the standard deviation of the noise in each."""

    query: Query
    """Of one block."""
    values: NDArray[np.float64] = field(repr=False)
    deviations: NDArray[np.float64] = field(repr=False)

    @classmethod
    def of(cls, query: Query, values: Numbers, *, deviation: Numbers) -> Observation:
        """Return what was seen: one value an answer, and one deviation for all or one for each, above 0."""
        if len(query.blocks) != 1:
            raise InvalidArgument("query", f"{len(query.blocks)} blocks", "observe one block at a time")
        found = numbers(values, query.values, argument="values")
        given = np.asarray(deviation, dtype=np.float64).reshape(-1)
        spread = numbers(
            np.repeat(given, query.values) if given.size == 1 else given, query.values, argument="deviation"
        )
        if not (spread > 0).all():
            raise InvalidArgument("deviation", deviation, "write numbers above 0")
        return cls(query, found, spread)


def observations(measured: Measured, *, rows: int) -> Iterator[Observation]:
    """Yield what a measurement says about the mean row of a table of so many rows, block by block."""
    size = whole(rows, argument="rows", lower=1, upper=1 << 62)
    domain = measured.question.query.domain
    start = 0
    for block, noise in zip(measured.question.query.blocks, measured.noises, strict=True):
        steps = [int(value) / size for value in measured.values[start : start + block.values]]
        start += block.values
        yield Observation.of(Query(domain, (block,)), steps, deviation=math.sqrt(variance(noise)) / size)


def variance(noise: Noise) -> float:
    """Return the variance of integer noise: of the discrete Laplace law, and at most σ² for the discrete Gaussian.

    Inusah and Kozubowski 2006 give the first, Canonne, Kamath and Steinke 2020 the second. It only weighs observations.

    >>> round(variance(Laplace(scale=10)), 3), variance(Gaussian(scale=10))
    (199.833, 100.0)
    """
    scale = float(noise.scale)
    match noise:
        case Laplace():
            return max(1 / (2 * math.sinh(0.5 / scale) ** 2), 1e-12) if scale > 1 / 1000 else 1e-12
        case Gaussian():
            return scale**2
        case _:
            assert_never(noise)
