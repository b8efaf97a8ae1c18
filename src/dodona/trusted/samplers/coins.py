"""Exact coins of rational probability and fair dice, in bulk: one random word tosses 64 coins."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dodona.trusted.entropy import SYSTEM, Keystream

if TYPE_CHECKING:
    from numpy.typing import NDArray

_WORDS = 1 << 13  # block size: fits the caches together with its random bits
_DIGITS = 8  # binary digits after which fully decided words are dropped


def toss_coins(chance: Fraction, words: int, *, stream: Keystream = SYSTEM) -> NDArray[np.uint64]:
    """Return `words` words whose bits are independent, each 1 with probability exactly `chance`.

    Theorem: exact-coins
    """
    if chance >= 1:
        return np.full(words, 2**64 - 1, dtype=np.uint64)
    tossed = np.zeros(words, dtype=np.uint64)
    for start in range(0, words, _WORDS):
        block = tossed[start : start + _WORDS]
        _toss(chance.numerator, chance.denominator, block, ~block, stream)
    return tossed


def _toss(rest: int, whole: int, tossed: NDArray[np.uint64], undecided: NDArray[np.uint64], stream: Keystream) -> None:
    """Compare a uniform number for each bit with rest/whole, one binary digit at a time, until all are decided."""
    for _ in range(_DIGITS):
        if rest == 0:  # a number that agrees with all digits of a finite expansion is not below it
            return
        rest *= 2
        drawn = stream.words(tossed.size)
        if rest >= whole:
            rest -= whole
            tossed |= undecided & ~drawn
            undecided &= drawn
        else:
            undecided &= ~drawn
    left = np.flatnonzero(undecided)
    if left.size:
        part = tossed[left]
        _toss(rest, whole, part, undecided[left], stream)
        tossed[left] = part


def roll_dice(faces: int, count: int, *, stream: Keystream = SYSTEM) -> NDArray[np.uint64]:
    """Return `count` independent uniform integers from 0 to faces - 1; there may be up to 2^63 faces.

    Theorem: exact-coins
    """
    most = np.uint64((1 << 64) // faces * faces - 1)  # larger words would favour the lower faces
    thrown = stream.words(count)
    while (again := np.flatnonzero(thrown > most)).size:
        thrown[again] = stream.words(again.size)
    return thrown % np.uint64(faces)
