"""Counts of the Adult census table, given as a file: products of random halves of the values of eight columns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.streams.stream import Product, Products, Stream
from dodona.errors import InvalidRequest
from dodona.schema.attributes import Category
from dodona.schema.schema import Schema

if TYPE_CHECKING:
    from numpy.typing import NDArray

TURNS = 50_000
SEED = 3
COLUMNS = {
    "workclass": 9,
    "education-num": 16,
    "marital-status": 7,
    "occupation": 15,
    "relationship": 6,
    "race": 5,
    "sex": 2,
    "income>50K": 2,
}
"""How many codes each column has, from 0."""
_NAMES = ("a_workclass", "b_education", "c_marital", "d_occupation", "e_relationship", "f_race", "g_sex", "h_income")
"""In the order of the alphabet, as conditions are written in that order."""
_WAYS = 3


def products(path: Path, *, turns: int = TURNS, epsilon: dict[str, str]) -> Stream:
    """Return 50,000 questions of one, two or three columns, each with a random half of its values."""
    codes = read(path)
    shape = tuple(COLUMNS.values())
    listed, asked = _distinct(drawn(shape, turns=turns))
    labels = [tuple(str(code) for code in range(size)) for size in shape]
    declared = [Category(name, values, otherwise=values[0]) for name, values in zip(_NAMES, labels, strict=True)]
    return Stream(
        name="adult-3",
        schema=Schema.of("adult", *declared, size=len(codes), neighbours="replace"),
        columns={name: np.array(labels[place])[codes[:, place]] for place, name in enumerate(_NAMES)},
        cells=np.bincount(np.ravel_multi_index(tuple(codes.T), shape), minlength=int(np.prod(shape))).reshape(shape),
        questions=Products(shape, listed),
        asked=asked,
        share=0.02,
        failing=0.05,
        epsilon=epsilon,
    )


def read(path: Path) -> NDArray[np.int64]:
    """Return the codes of the eight columns of a CSV or Parquet file, a row each."""
    from pyarrow import csv, parquet

    try:
        table = parquet.read_table(path) if path.suffix == ".parquet" else csv.read_csv(path)
        codes = np.stack([table.column(name).to_numpy().astype(np.int64) for name in COLUMNS], axis=1)
    except (KeyError, OSError, ValueError) as fault:
        raise InvalidRequest(
            f"The file {path} is not read as the Adult table: {fault}. Give a CSV or Parquet file with whole codes in "
            f"the columns {', '.join(COLUMNS)}."
        ) from fault
    for place, (name, size) in enumerate(COLUMNS.items()):
        if codes[:, place].min() < 0 or codes[:, place].max() >= size:
            raise InvalidRequest(f"The column {name} has codes outside 0 to {size - 1}. Give the table as codes.")
    return codes


def drawn(shape: tuple[int, ...], *, turns: int, seed: int = SEED) -> list[Product]:
    """Return questions: how many columns (1 to 3 alike), which ones, and each value with probability one half.

    A set is drawn again while it is empty or has all values.
    """
    generator = np.random.default_rng(seed)
    questions = []
    for _ in range(turns):
        size = int(generator.integers(1, _WAYS + 1))
        places = sorted(generator.choice(len(shape), size, replace=False).tolist())
        questions.append(Product(tuple((place, _half(generator, shape[place])) for place in places)))
    return questions


def _half(generator: np.random.Generator, size: int) -> int:
    while True:
        kept = generator.random(size) < 0.5  # noqa: PLR2004
        if kept.any() and not kept.all():
            return sum(1 << code for code in np.flatnonzero(kept).tolist())


def _distinct(products: list[Product]) -> tuple[list[Product], NDArray[np.int64]]:
    numbers: dict[Product, int] = {}
    asked = np.array([numbers.setdefault(product, len(numbers)) for product in products], dtype=np.int64)
    return list(numbers), asked
