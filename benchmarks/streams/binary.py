"""Streams over tables of yes and no: conjunctions, and halves of all cells."""

from __future__ import annotations

from itertools import combinations, product
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.streams.stream import Product, Products, Stream, Subsets, distinct, drawn
from dodona.schema.attributes import Boolean
from dodona.schema.schema import Schema

if TYPE_CHECKING:
    from numpy.typing import NDArray

ROWS = 100_000
TURNS = 5_000
_CLUSTERS = 8
_WAYS = (1, 2, 3)
_FIRST_SEED = 10_000


def mixture(attributes: int, *, rows: int = ROWS, seed: int = 0) -> NDArray[np.bool_]:
    """Return rows of yes and no from eight clusters, each with its own probability of yes for each attribute."""
    generator = np.random.default_rng(seed)
    weights = generator.dirichlet(np.ones(_CLUSTERS))
    likely = generator.beta(0.5, 0.5, (_CLUSTERS, attributes))
    cluster = generator.choice(_CLUSTERS, rows, p=weights)
    bits: NDArray[np.bool_] = generator.random((rows, attributes)) < likely[cluster]
    return bits


def pool(attributes: int) -> list[Product]:
    """Return every conjunction of one, two or three attributes: by size, then by attributes, then by values."""
    return [
        Product(tuple((place, 1 << value) for place, value in zip(places, values, strict=True)))
        for size in _WAYS
        for places in combinations(range(attributes), size)
        for values in product((0, 1), repeat=size)
    ]


def conjunctions(attributes: int, *, epsilon: dict[str, str]) -> Stream:
    """Return 5,000 conjunctions, drawn evenly from the pool in a random order."""
    every = pool(attributes)
    places, asked = distinct(drawn(len(every), turns=TURNS, exponent=0.0))
    questions = Products((2,) * attributes, [every[place] for place in places])
    return _stream(f"conj-{attributes}", attributes, questions, asked, epsilon)


def halves(attributes: int, *, epsilon: dict[str, str]) -> Stream:
    """Return 5,000 sets of cells; each cell is in a set with probability one half."""
    questions = Subsets((2,) * attributes, _masks(1 << attributes))
    return _stream(f"half-{attributes}", attributes, questions, np.arange(TURNS), epsilon)


def _masks(cells: int) -> NDArray[np.bool_]:
    return np.array([np.random.default_rng(_FIRST_SEED + turn).random(cells) < 0.5 for turn in range(TURNS)])  # noqa: PLR2004


def _numbered(bits: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the number of each row's cell; the first attribute is its highest bit."""
    numbers: NDArray[np.int64] = bits @ (1 << np.arange(bits.shape[1], dtype=np.int64)[::-1])
    return numbers


def _stream(
    name: str, attributes: int, questions: Products | Subsets, asked: NDArray[np.int64], epsilon: dict[str, str]
) -> Stream:
    """Return questions over the mixture."""
    bits = mixture(attributes)
    declared = [Boolean(f"b{place:02}", otherwise=False) for place in range(attributes)]
    return Stream(
        name=name,
        schema=Schema.of("mixture", *declared, size=ROWS, neighbours="replace"),
        columns={attribute.name: bits[:, place] for place, attribute in enumerate(declared)},
        cells=np.bincount(_numbered(bits), minlength=1 << attributes).reshape((2,) * attributes),
        questions=questions,
        asked=asked,
        share=0.05,
        failing=1e-3,
        epsilon=epsilon,
    )
