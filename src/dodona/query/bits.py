"""Bits: sets of codes as whole numbers, and which codes of an attribute a set of combinations tells apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MOST_KEPT = 1 << 12  # larger sets would fill the memory if they were kept
_PAIR = 2


def bits(codes: int, number: int) -> NDArray[np.bool_]:
    """Return the bits as an array, lowest first. It cannot be written to."""
    return _kept_bits(codes, number) if number <= _MOST_KEPT else _unpacked(codes, number)


def packed(members: NDArray[np.bool_]) -> int:
    """Return the whole number whose bits are these, lowest first; of a table, in row-major order.

    >>> packed(np.array([[True, False], [False, True]]))
    9
    """
    return int.from_bytes(np.packbits(members, axis=None, bitorder="little").tobytes(), "little")


@lru_cache(maxsize=1 << 7)
def told_apart(shape: tuple[int, ...], codes: int) -> tuple[tuple[int, ...], ...]:
    """Return for each axis of a table of bits the class of each place: equal slices are one class.

    Classes are numbered in the order of their first places.

    >>> told_apart((2, 3), 0b101_000)
    ((0, 1), (0, 1, 0))
    """
    number = math.prod(shape)
    found: list[tuple[int, ...]] = []
    for axis, size in enumerate(shape):
        stride = math.prod(shape[axis + 1 :])
        if size == _PAIR:  # far faster on whole numbers than on arrays
            lower = _lower_halves(number, stride)
            found.append((0, 0) if codes & lower == codes >> stride & lower else (0, 1))
        else:
            slices = np.moveaxis(bits(codes, number).reshape(-1, size, stride), 1, 0).reshape(size, -1)
            seen: dict[bytes, int] = {}
            found.append(tuple([seen.setdefault(own.tobytes(), len(seen)) for own in slices]))
    return tuple(found)


@lru_cache(maxsize=1 << 10)
def splitting(classes: tuple[int, ...]) -> tuple[int, ...]:
    """Return few sets of places, as bits, that tell just those places apart that are in different classes.

    >>> [bin(one) for one in splitting((0, 1, 0, 2))]
    ['0b10', '0b1000']
    """
    found = np.array(classes, dtype=np.int64)
    return tuple(packed(found >> digit & 1 == 1) for digit in range(max(classes).bit_length()))


def without(shape: tuple[int, ...], codes: int, kept: Sequence[int]) -> int:
    """Return the bits of a table without the axes that are not kept, on which nothing hangs."""
    chosen = tuple(slice(None) if axis in kept else 0 for axis in range(len(shape)))
    return packed(bits(codes, math.prod(shape)).reshape(shape)[chosen])


def marginal(shape: tuple[int, ...], codes: int, axis: int) -> int:
    """Return the places of one axis that some bit of a table is set for."""
    slices = bits(codes, math.prod(shape)).reshape(math.prod(shape[:axis]), shape[axis], -1)
    return packed(np.asarray(slices.any(axis=(0, 2))))


@lru_cache(maxsize=1 << 7)
def _lower_halves(number: int, stride: int) -> int:
    """Return the bits of the first half of each pair of slices that are `stride` long."""
    found, width = (1 << stride) - 1, 2 * stride
    while width < number:
        found |= found << width
        width *= 2
    return found & ((1 << number) - 1)


@lru_cache(maxsize=1 << 12)
def _kept_bits(codes: int, number: int) -> NDArray[np.bool_]:
    return _unpacked(codes, number)


def _unpacked(codes: int, number: int) -> NDArray[np.bool_]:
    raw = np.frombuffer(codes.to_bytes(-(-number // 8), "little"), dtype=np.uint8)
    found = np.unpackbits(raw, bitorder="little", count=number).view(np.bool_)
    found.flags.writeable = False
    return found
