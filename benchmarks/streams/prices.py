"""What the simple ways cost: noise on each question, on the whole histogram, on residuals; and multiplicative weights.

Each is as cheap as (α, β) allows, for the questions that it has to answer and with all that is public.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import product
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.streams.certified import DELTA
from benchmarks.streams.stream import Products, Stream
from dodona.curator.weights_design import WeightsDesign, best_design
from dodona.knowledge.residuals import Factor, Product, VarianceTarget, allot_variances
from dodona.privacy.accuracy import Accuracy
from dodona.privacy.additive_noise import Gaussian, Laplace, Noise, round_scale_down
from dodona.privacy.events import Event, UnevenGaussianEvent
from dodona.privacy.measurement import ResidualVariance, worst_ratio
from dodona.query.residual import Classes
from dodona.query.sensitivity import Sensitivity
from dodona.schema.schema import Neighbours, Unit

if TYPE_CHECKING:
    from numpy.typing import NDArray

Law = type[Laplace | Gaussian]
COUNT = Sensitivity.count(Neighbours.REPLACE)
HISTOGRAM = Sensitivity.histogram(Neighbours.REPLACE)
_ROWS = Unit.each_row(Neighbours.REPLACE)
_NEAR = 1e-5
_WIDE = 64
_NEIGHBOURING = 4
_LARGEST_EPSILON = 1e4


def single(law: Law, *, within: float, failing: float) -> Noise:
    """Return the most noise with which one count is within the error."""
    return law.for_accuracy(Accuracy(within=within, confidence=1 - failing))


def histogram(law: Law, *, cells: int, within: float, failing: float) -> Noise:
    """Return the most noise on each cell with which every sum of cells is within the error.

    The number of rows is public, so what the noisy cells add up to beyond it is taken off again, from each cell alike.
    The farthest off is the sum of half of the cells: its noise is half the difference of two halves.
    """
    guess = 2 * deviation(within=within, failing=failing) / math.sqrt(cells * _variance(law, 1.0))
    low, high = guess / 2, guess * 2  # a sum of many is nearly normal
    while high > low * (1 + _NEAR):
        middle = math.sqrt(low * high)
        kept = beyond(law, middle, cells=cells, within=within) <= failing
        low, high = (middle, high) if kept else (low, middle)
    return law(scale=round_scale_down(low))


def beyond(law: Law, scale: float, *, cells: int, within: float) -> float:
    """Return how likely half the sum of the noise of so many cells is farther off than this.

    The law of the sum is found from its characteristic function on a circle that is far wider than the sum.
    """
    wide = _WIDE * math.sqrt(cells * _variance(law, scale))
    size = 1 << math.ceil(math.log2(max(wide, 4 * within + 4, 256)))
    angles = np.arange(size // 2 + 1, dtype=np.float64) * (2 * math.pi / size)
    masses = np.fft.irfft(_characteristic(law, scale, angles) ** cells, size)
    inside = math.floor(2 * within)
    return float(1 - masses[0] - 2 * masses[1 : inside + 1].sum())


def _variance(law: Law, scale: float) -> float:
    """Return the variance of noise, or a little more."""
    return scale**2 * (2 if law is Laplace else 1)


def _characteristic(law: Law, scale: float, angles: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return E cos(angle·x), of integer noise."""
    if law is Laplace:
        ratio = math.exp(-1 / scale)
        values: NDArray[np.float64] = (1 - ratio) ** 2 / (1 - 2 * ratio * np.cos(angles) + ratio**2)
        return values
    turns = 2 * math.pi * np.arange(-_NEIGHBOURING, _NEIGHBOURING + 1)  # Poisson's sum: a normal law around each turn
    bells: NDArray[np.float64] = np.exp(-((angles[:, None] + turns) ** 2) * scale**2 / 2).sum(axis=1)
    normed: NDArray[np.float64] = bells / bells[0]
    return normed


def deviation(*, within: float, failing: float) -> float:
    """Return the standard deviation that an estimate of Gaussian noise may have."""
    return within / NormalDist().inv_cdf(1 - failing / 2)


def classes(stream: Stream) -> tuple[Classes, ...]:
    """Return each attribute of a stream, a class a cell."""
    return tuple(Classes.of(attribute) for attribute in stream.schema.domain)


def residuals(stream: Stream, numbers: Iterable[int] | None = None) -> tuple[ResidualVariance, ...]:
    """Return the residuals that some questions need, each with its variance, at the least price together."""
    questions = stream.questions
    if not isinstance(questions, Products):
        raise TypeError(stream.name)
    chosen = range(len(questions)) if numbers is None else numbers
    variance = Fraction(deviation(within=stream.within, failing=stream.failing) ** 2).limit_denominator(10**6)
    known = classes(stream)
    targets = [VarianceTarget(_product(known, places), variance) for places in _worst(questions, chosen)]
    return allot_variances(targets, _ROWS)


def residual_event(parts: Sequence[ResidualVariance]) -> Event:
    """Return what residuals cost together, where rows are replaced."""
    return UnevenGaussianEvent(worst_ratio(parts, _ROWS), Neighbours.REPLACE)


def _worst(questions: Products, numbers: Iterable[int]) -> list[tuple[tuple[int, int], ...]]:
    """Return places and sizes of sets that no others are worse than: by them alone a variance is decided."""
    by_scope: dict[tuple[int, ...], set[tuple[int, ...]]] = {}
    for number in numbers:
        sets = questions.narrowed(questions.listed[number])
        sizes = tuple(codes.bit_count() for _, codes in sets)
        by_scope.setdefault(tuple(place for place, _ in sets), set()).add(sizes)
    by_scope.pop((), None)  # the number of rows is public
    return [
        tuple(zip(scope, sizes, strict=True))
        for scope, kinds in by_scope.items()
        for sizes in _undominated([questions.shape[place] for place in scope], sorted(kinds))
    ]


def _undominated(shape: Sequence[int], kinds: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Return the sizes of sets whose shares of the residuals' variances are not all below those of another."""
    sizes, full = np.array(kinds, dtype=np.float64), np.array(shape, dtype=np.float64)
    means, spreads = (sizes / full) ** 2, sizes * (1 - sizes / full)
    shares = np.stack(
        [np.where(np.array(inside), spreads, means).prod(axis=1) for inside in product((False, True), repeat=len(full))]
    ).T
    shares = shares[:, 1:]  # without attributes it is the number of rows
    kept = []
    for place, share in enumerate(shares):
        above = (shares >= share).all(axis=1) & (shares > share).any(axis=1)
        if not above.any():
            kept.append(kinds[place])
    return kept


def _product(known: Sequence[Classes], places: tuple[tuple[int, int], ...]) -> Product:
    return tuple(Factor(known[place], (1,) * size + (0,) * (known[place].number - size)) for place, size in places)


@lru_cache(maxsize=32)
def weights(  # noqa: PLR0913  the sides of the promise
    *, rows: int, universe: int, questions: int, share: float, failing: float, budget: str
) -> WeightsDesign | None:
    """Return the cheapest design of multiplicative weights whose promise is the error; None where there is none."""
    delta = 0 if budget == "pure" else DELTA

    def design(epsilon: float) -> WeightsDesign:
        return best_design(
            rows, universe=universe, questions=questions, epsilon=epsilon, delta=delta, confidence=1 - failing
        )

    low, high = 1e-3, _LARGEST_EPSILON
    if design(high).within > share:
        return None
    while high > low * (1 + 1e-3):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if design(middle).within <= share else (middle, high)
    return design(high)
