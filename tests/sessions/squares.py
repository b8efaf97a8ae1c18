"""Least squares over all cells of a small table: the best that follows from what a ledger released, found densely.

It shares with the product how questions and releases are read, and none of the ways in which answers are derived. No
unbiased combination has less variance than the best one, and of any other with variance v the difference to it has
variance v - v*: a derived answer is held to both.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dodona.answer.laws import DerivedValues, ErrorLaw, GaussianSumBound, NoiseSum
from dodona.errors import InvalidRequest
from dodona.privacy.additive_noise import Laplace, Noise, RoundedGaussian
from dodona.privacy.measurement import noises_from_text, residuals_from_text
from dodona.query.query import PeopleWeight, Query, block_weights, group_numbers, product_axes, product_shape
from dodona.query.spelling import from_json
from dodona.trusted.gate import read_public_rows

if TYPE_CHECKING:
    from dodona.curator.curator import Curator

Matrix = np.ndarray[Any, np.dtype[np.float64]]
MOST_CELLS, MOST_NUMBERS = 200, 400
_FAR = 20.0  # deviations: of Laplace noise rarer than e^-28
_LOOSE = 1e-6


@dataclass(frozen=True, slots=True)
class Evidence:
    """Numbers that were told, each a vector over cells, and the variance of each; and the number of rows, if public."""

    vectors: Matrix
    numbers: Matrix
    variances: Matrix
    rows: int | None

    def best(self, asked: Matrix) -> tuple[float, float] | None:
        """Return the best linear unbiased estimate and its variance; None where nothing follows."""
        vectors, numbers, value = self.vectors, self.numbers, 0.0
        if self.rows is not None:  # what all cells together hold is known exactly
            each = self.rows / len(asked)
            numbers = numbers - vectors.sum(axis=1) * each
            vectors = vectors - vectors.mean(axis=1, keepdims=True)
            value, asked = float(asked.sum()) * each, asked - asked.mean()
        scales = np.sqrt(self.variances)
        left, sizes, right = np.linalg.svd(vectors / scales[:, None], full_matrices=False)
        kept = sizes > _LOOSE**2 * max(sizes.max(initial=0.0), 1e-300)
        along = right[kept] @ asked
        if np.abs(asked - along @ right[kept]).max() > _LOOSE * max(1.0, np.abs(asked).max()):
            return None
        weights = along / sizes[kept]
        return value + float(weights @ (left[:, kept].T @ (numbers / scales))), float(weights @ weights)


def matrix(query: Query) -> Matrix:
    """Return a query as one row over all cells for each of its answers."""
    names, domain = query.domain.names, query.domain
    axes, shape = product_axes(domain, names), product_shape(domain, names)
    parts = []
    for block in query.blocks:
        rows = np.zeros((block.values, math.prod(shape)))
        groups = np.broadcast_to(group_numbers(block.keys, axes), shape).reshape(-1)
        rows[groups, np.arange(rows.shape[1])] = np.broadcast_to(block_weights(block, axes), shape).reshape(-1)
        parts.append(rows)
    return np.concatenate(parts)


def evidence(curator: Curator) -> Evidence | None:
    """Return all that was told of the rows of now; None where there is much of it, or nothing."""
    dataset, domain = curator.desk.dataset, curator.schema.domain
    if math.prod(product_shape(domain, domain.names)) > MOST_CELLS:
        return None
    vectors, numbers, variances = [], [], []
    for receipt, release in dataset.ledger.releases():
        if receipt.version != dataset.source.version or release.question is None:
            continue
        try:
            query = from_json(release.question, domain)
            residuals = residuals_from_text(release.mechanism, query)
            noises = noises_from_text(release.mechanism) if residuals is None else residuals.noises
        except InvalidRequest:
            continue  # a choice
        values = [float(value) for value in release.values]
        kept = [place for place, block in enumerate(query.blocks) if not isinstance(block.weight, PeopleWeight)]
        if not kept or any(block.table is not None for block in query.blocks):
            continue  # people are counted by tables of their own
        if len(kept) < len(query.blocks):  # people are no sum over cells
            starts = np.cumsum([0, *(block.values for block in query.blocks)])
            values = [value for place in kept for value in values[starts[place] : starts[place + 1]]]
            noises = tuple(noises[place] for place in kept)
            query = replace(query, blocks=tuple(query.blocks[place] for place in kept))
        if sum(map(len, numbers)) + len(values) > MOST_NUMBERS:
            return None
        coefficients = matrix(query)
        vectors.append(
            coefficients
            if residuals is None
            else np.stack([residuals.turned(cell) for cell in coefficients.T.astype(int)], 1)
        )
        times = [block.values for block in query.blocks] if residuals is None else 1
        variances.append(np.repeat([variance(noise) for noise in noises], times))
        numbers.append(values)
    if not vectors:
        return None
    rows = read_public_rows(dataset.source, domain, curator.schema.unit)
    return Evidence(np.concatenate(vectors).astype(float), np.concatenate(numbers), np.concatenate(variances), rows)


def variance(noise: Noise) -> float:
    """Return the variance of discrete noise, summed where that matters."""
    scale = float(noise.scale)
    if isinstance(noise, Laplace):
        return 0.5 / math.sinh(0.5 / scale) ** 2
    steps = np.arange(1, min(40 * scale + 2, 4000))
    if isinstance(noise, RoundedGaussian):
        tails = np.array([math.erfc((step - 0.5) / (scale * math.sqrt(2))) for step in steps])
        return scale**2 + 1 / 12 if scale > 50 else float((2 * steps - 1) @ tails)
    weights = np.exp(-((steps / scale) ** 2) / 2)
    return scale**2 if scale > 50 else float(2 * (steps**2 @ weights) / (1 + 2 * weights.sum()))


def faults(known: Evidence, derived: DerivedValues) -> Iterator[str]:
    """Yield what is wrong with a derived answer."""
    if any(isinstance(block.weight, PeopleWeight) for block in derived.question.query.blocks):
        return
    vectors = iter(matrix(derived.question.query))
    for part, laws in zip(derived.parts, derived.laws, strict=True):
        for place, number in enumerate(part):
            stated, best = _variance(laws[place if len(laws) > 1 else 0]), known.best(next(vectors))
            if stated is None:
                continue
            if best is None:
                yield f"{number} does not follow from what was told"
                continue
            value, least = best
            if stated < least * (1 - _LOOSE) - _LOOSE**2:
                yield f"variance {stated}, and the best has {least}"
            away = _FAR * math.sqrt(max(stated - least, 0.0)) + _LOOSE * (1 + abs(number) + math.sqrt(stated)) * 100
            if abs(number - value) > away:
                yield f"{number}, and the best is {value}: more than {away} off"


def _variance(law: ErrorLaw) -> float | None:
    """Return the variance that a law states; None of what a model claims."""
    if isinstance(law, NoiseSum | GaussianSumBound):
        return law.variance
    return variance(law) if isinstance(law, Noise) else None
