"""Monotone conjunctions: for every set of boolean columns, how many rows are true in all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from dodona.curator import weights_design
from dodona.curator.weights import Distribution
from dodona.curator.weights_design import NoUsefulGuarantee, UniverseTooLarge, UpdatesUsed, WeightsDesign, best_design
from dodona.errors import Halted, InvalidArgument
from dodona.lab.theorems import blr_guarantee
from dodona.lab.weights import check_histogram
from dodona.numbers import Exact
from dodona.privacy.additive_noise import Laplace, Noise
from dodona.trusted.gate import OpenSparseVector

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

MOST_BITS = 20
CountOrShare = TypeVar("CountOrShare", np.int64, np.float64)
NoiseVectorSampler = Callable[[Noise, int], "NDArray[np.int64]"]
"""Draws several values of a noise: `lambda law, count: direct.run(law, np.zeros(count, dtype=np.int64))`."""


@dataclass(frozen=True, slots=True)
class MechanismComparison:
    """A mechanism's guarantee for all conjunctions, and its actual error."""

    mechanism: str
    within: float
    """As a share of the rows; from 1 up it guarantees nothing."""
    error: float | None
    """The largest error over all conjunctions; None if it was not run."""


def evaluate_conjunctions(values: NDArray[CountOrShare]) -> NDArray[CountOrShare]:
    """Return, for each set S of columns, the sum over the cells that contain S, in 2^d·d additions.

    The number of a cell, or of a set, has a bit for each column.

    >>> evaluate_conjunctions(np.array([5, 2, 1, 4]))
    array([12,  6,  5,  4])

    Theorem: conjunctions
    """
    bits = _bits(values.size)
    sums = values.copy()
    for bit in range(bits):
        halves = sums.reshape(-1, 2, 1 << bit)
        halves[:, 0] += halves[:, 1]
    return sums


def answer_conjunctions(
    design: WeightsDesign, counts: ArrayLike, *, draw: Callable[[Noise], int]
) -> tuple[NDArray[np.float64], int]:
    """Return all conjunctions as shares of the rows, by private multiplicative weights, and the number of updates.

    All estimates are recomputed after each update.

    Theorem: private-multiplicative-weights
    """
    data = _table(counts)
    exact = evaluate_conjunctions(data).tolist()
    laplace = cache(lambda scale: Laplace(scale=scale))
    watch = OpenSparseVector(design.checker.test, lambda scale: draw(laplace(scale)))
    hypothesis, updates = Distribution.uniform(data.size), 0
    numbers = np.arange(data.size)
    answers = np.empty(data.size)
    estimates = evaluate_conjunctions(hypothesis.values).tolist()
    for number, count in enumerate(exact):
        estimate = estimates[number]
        try:
            fresh = design.checker.fresh(count, round(design.rows * estimate), watch=watch, draw=draw)
        except Halted:
            raise UpdatesUsed(design.updates) from None
        if fresh is None:
            answers[number] = estimate
            continue
        answers[number] = fresh / design.rows
        inside = ((numbers & number) == number).astype(np.float64)
        rate = design.step if answers[number] > estimate else -design.step
        hypothesis, updates = hypothesis.tilted(inside, rate), updates + 1
        estimates = evaluate_conjunctions(hypothesis.values).tolist()
    return answers, updates


def compare_mechanisms(  # noqa: PLR0913  the sides of the promise
    counts: ArrayLike,
    *,
    epsilon: Exact,
    delta: Exact,
    draw: Callable[[Noise], int],
    draws: NoiseVectorSampler,
    confidence: float = 0.95,
) -> tuple[MechanismComparison, ...]:
    """Return the guarantees of four mechanisms for all conjunctions of a table of yes/no columns, beside their errors.

    Each is at (ε, δ); Laplace noise and the synthetic table do not use δ, and the latter is not run.
    """
    data = _table(counts)
    rows, questions = int(data.sum()), data.size
    exact = evaluate_conjunctions(data)

    def largest(noise: Noise) -> float:
        return float(np.abs(draws(noise, questions)).max()) / rows

    laplace = weights_design.laplace_noise(questions=questions, epsilon=epsilon)
    gaussian = weights_design.gaussian_noise(questions=questions, epsilon=epsilon, delta=delta)
    comparisons = [
        MechanismComparison(name, noise.accuracy(confidence, answers=questions).within / rows, largest(noise))
        for name, noise in (("Laplace", laplace), ("Gaussian", gaussian))
    ]
    blr = blr_guarantee(rows, universe=questions, questions=questions, epsilon=epsilon, confidence=confidence)
    comparisons.append(MechanismComparison("Blum, Ligett, Roth", blr, None))
    name = "multiplicative weights"
    try:
        design = best_design(
            rows, universe=questions, questions=questions, epsilon=epsilon, delta=delta, confidence=confidence
        )
    except NoUsefulGuarantee:
        return (*comparisons, MechanismComparison(name, float("inf"), None))
    answers, _ = answer_conjunctions(design, data, draw=draw)
    error = float(np.abs(answers - exact / rows).max())
    return (*comparisons, MechanismComparison(name, design.within, error))


def _table(counts: ArrayLike) -> NDArray[np.int64]:
    data = check_histogram(counts)
    _bits(data.size)
    return data


def _bits(cells: int) -> int:
    """Return the number of columns."""
    if cells & (cells - 1) or cells < 2:  # noqa: PLR2004  at least one column
        raise InvalidArgument("counts", cells, "write 2^d counts, one for each cell of d yes-no columns")
    if cells > 1 << MOST_BITS:
        raise UniverseTooLarge(cells, 1 << MOST_BITS)
    return cells.bit_length() - 1
