"""The streams of the Turbo paper's first workload: tests for a disease by sex, age and ethnicity, on 128 cells."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.streams.stream import Product, Products, Stream, distinct, drawn
from dodona.schema.attributes import Category
from dodona.schema.schema import Schema

if TYPE_CHECKING:
    from numpy.typing import NDArray

ROWS = 100_000
TURNS = 20_000
SHAPE = (2, 2, 4, 8)
_NAMES = ("a_positive", "b_gender", "c_age", "d_ethnicity")
"""In the order of the alphabet, as conditions are written in that order."""
_POSITIVE = 0.04
_NEGATIVES = (
    (0.5, 0.5),
    (0.224, 0.312, 0.312, 0.152),
    (0.002, 0.15, 0.402, 0.042, 0.004, 0.006, 0.343, 0.053),
)
_POSITIVES = (
    (0.485, 0.515),
    (0.12, 0.59, 0.19, 0.10),
    (0.003, 0.06, 0.55, 0.02, 0.006, 0.10, 0.20, 0.061),
)


def likely() -> NDArray[np.float64]:
    """Return the probability of each cell."""
    halves = [(1 - _POSITIVE) * _product(_NEGATIVES), _POSITIVE * _product(_POSITIVES)]
    return np.stack(halves)


def pool() -> list[Product]:
    """Return all products of non-empty sets of values: 3 · 3 · 15 · 255 of them."""
    return [Product(tuple(enumerate(sets))) for sets in product(*(range(1, 1 << size) for size in SHAPE))]


def products(exponent: int, *, epsilon: dict[str, str]) -> Stream:
    """Return 20,000 products, drawn from the pool in a random order by Zipf's law with this exponent."""
    every = pool()
    places, asked = distinct(drawn(len(every), turns=TURNS, exponent=float(exponent)))
    cells = np.random.default_rng(0).multinomial(ROWS, likely().reshape(-1)).reshape(SHAPE)
    codes = np.unravel_index(np.repeat(np.arange(cells.size), cells.reshape(-1)), SHAPE)
    labels = [tuple(str(code) for code in range(size)) for size in SHAPE]
    declared = [Category(name, values, otherwise=values[0]) for name, values in zip(_NAMES, labels, strict=True)]
    return Stream(
        name=f"covid-{exponent}",
        schema=Schema.of("tests", *declared, size=ROWS, neighbours="replace"),
        columns={name: np.array(values)[at] for name, values, at in zip(_NAMES, labels, codes, strict=True)},
        cells=cells,
        questions=Products(SHAPE, [every[place] for place in places]),
        asked=asked,
        share=0.05,
        failing=1e-3,
        epsilon=epsilon,
    )


def _product(laws: tuple[tuple[float, ...], ...]) -> NDArray[np.float64]:
    gender, age, ethnicity = (np.array(law) / sum(law) for law in laws)
    joint: NDArray[np.float64] = np.einsum("a,b,c->abc", gender, age, ethnicity)
    return joint
