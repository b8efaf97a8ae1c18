"""Releases as linear measurements: what was told, how noisy it is, and which numbers of a table it is about.

A table is known by the counts of its cells. A block adds up weights over cells, so it is a vector over them. It is
written in functions that hang on few attributes: a product of conditions "the class is k", one for each attribute that
is looked at, where one class, that of the last code, is left out. These are linearly independent, whatever other
attributes there are, so two vectors are the same just if they are the same question about every table.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, assert_never

import numpy as np

from dodona.domain.attribute import cells
from dodona.domain.domain import Domain
from dodona.errors import InvalidArgument
from dodona.mechanisms.gaussian import Gaussian
from dodona.mechanisms.laplace import Laplace
from dodona.mechanisms.measurement import Noise
from dodona.query.atoms import labels, spread, traits
from dodona.query.query import Block, block_weights, group_of
from dodona.query.stack import Codes, Stack
from dodona.query.weight import extremes

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_ENTRIES = 1 << 22
"""Blocks whose groups times cells are more than this are not written out."""
_LARGEST = 1 << 40  # sums of weights up to this stay far from 2^63
_LEAST = 1e-300  # of noise that is as good as none
_SUMMED = 4.0  # from this scale on the variance of a discrete Gaussian is σ² to every digit of a double

Column = tuple[tuple[str, int], ...]
"""Attributes with one class each; without any, the number of rows."""
Vector = dict[Column, int]
"""A linear question, by its coefficients that are not 0."""


@dataclass(frozen=True, slots=True)
class Released:
    """The noisy integers of one block, in steps, and the noise that is in each of them."""

    block: Block
    values: tuple[int, ...]
    noise: Noise
    origin: str | None = None
    """The receipt that it was told under, where that is known: what comes twice under one is one release."""

    def __post_init__(self) -> None:
        """Refuse values of another block, and numbers that no release has."""
        if len(self.values) != self.block.values:
            raise InvalidArgument("values", len(self.values), f"the block has {self.block.values}")
        for value in self.values:
            if type(value) is not int:
                raise InvalidArgument("values", value, "write whole numbers, as they were released")


@lru_cache(maxsize=4096)
def variance_of(noise: Noise) -> float:
    """Return the variance of the discrete law itself.

    >>> round(variance_of(Laplace(scale=10)), 6), variance_of(Gaussian(scale=10))
    (199.833417, 100.0)
    """
    scale = float(noise.scale)
    match noise:
        case Laplace():
            half = math.exp(-0.5 / scale)  # 2q/(1 - q)² with q its square
            return max(2 * (half / -math.expm1(-1 / scale)) ** 2, _LEAST)
        case Gaussian():
            if scale >= _SUMMED:
                return scale**2
            steps = np.arange(1, math.ceil(40 * scale) + 2)
            weights = np.exp(-((steps / scale) ** 2) / 2)
            return max(float(2 * (steps**2 * weights).sum() / (1 + 2 * weights.sum())), _LEAST)
        case _:
            assert_never(noise)


@dataclass(frozen=True, slots=True)
class Ground:
    """Classes of codes that nothing told apart so far, by attribute: what vectors are written over."""

    domain: Domain
    classes: Mapping[str, NDArray[np.int64]]
    """For each attribute that was looked at, the class of each code."""

    @classmethod
    def of(cls, domain: Domain, blocks: Iterable[Block]) -> Ground:
        """Return the coarsest classes that no block tells apart."""
        seen = traits(Stack((), tuple(blocks)))
        return cls(domain, {name: labels(cells(domain[name]), trait) for name, trait in seen.items()})

    def vectors(self, block: Block) -> list[Vector] | None:
        """Return the questions of a block, one for each group; None where it tells a class apart or is too large."""
        seen = traits(Stack((), (block,)))
        codes, known = {}, {}
        for name, trait in seen.items():
            own = labels(cells(self.domain[name]), trait)
            classes = self.classes.get(name, np.zeros_like(own))
            _, firsts = np.unique(own + (own.max() + 1) * classes, return_index=True)
            codes[name] = firsts = np.sort(firsts).astype(np.int64)
            known[name] = classes[firsts]
        if math.prod(map(len, codes.values())) * block.values > MOST_ENTRIES:
            return None
        table = _tabled(block, codes)
        corners = {}
        for axis, (name, classes) in enumerate(known.items(), 1):
            _, firsts, same = np.unique(classes, return_index=True, return_inverse=True)
            fewer = np.take(table, firsts, axis=axis)
            if len(firsts) < len(classes) and (np.take(fewer, same, axis=axis) != table).any():
                return None  # it looks at more than was ever told
            table, corners[name] = fewer, int(self.classes[name][-1]) if name in self.classes else 0
        return _written(table, corners)


def _tabled(block: Block, codes: Codes) -> NDArray[Any]:
    """Return what each cell of a product of codes counts for, in each group."""
    axes, shape = spread(codes), tuple(map(len, codes.values()))
    small = max(map(abs, extremes(block.weight))) << len(codes) <= _LARGEST
    weights = np.broadcast_to(block_weights(block, axes), shape).reshape(-1)
    groups = np.broadcast_to(group_of(block.keys, axes), shape).reshape(-1)
    table = np.zeros((block.values, len(weights)), dtype=np.int64 if small else object)
    table[groups, np.arange(len(weights))] = weights
    return table.reshape(block.values, *shape)


def _written(table: NDArray[Any], corners: Mapping[str, int]) -> list[Vector]:
    """Return the vectors of the groups, given what each class counts for and the class that is left out."""
    for axis, corner in enumerate(corners.values(), 1):  # that class is everything less all others
        base = np.take(table, [corner], axis=axis)
        table = table - base
        place = [slice(None)] * table.ndim
        place[axis] = slice(corner, corner + 1)
        table[tuple(place)] = base
    found: list[Vector] = [{} for _ in table]
    for (group, *index), value in zip(np.argwhere(table).tolist(), table[table != 0].tolist(), strict=True):
        named = zip(corners.items(), index, strict=True)
        found[group][tuple((name, own) for (name, corner), own in named if own != corner)] = value
    return found
