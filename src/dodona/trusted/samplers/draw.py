"""Drawing from a discrete law: a kernel turns blocks of words into values; exact arithmetic decides the rest."""

from __future__ import annotations

import os
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray

from dodona.trusted.entropy import Keystream
from dodona.trusted.samplers import vector
from dodona.trusted.samplers.law import REJECTED, DiscreteLaw, LawTable, NextWord, prepare_table

_COLUMNS = 1 << 14  # attempts per block, to fit the caches
_AHEAD = 1 << 10  # values buffered for single draws


_WORTH_COMPILING = 1 << 24  # number of values from which starting the compiler pays off


def fastest_sampling_kernel(count: int) -> SamplingKernel:
    """Return the fastest kernel for this many values; both return the same integers for the same words."""
    if count < _WORTH_COMPILING or find_spec("numba") is None:
        return vector
    return cast("SamplingKernel", import_module("dodona.trusted.samplers.compiled"))


class SamplingKernel(Protocol):
    """The interface of the `vector` and `compiled` modules."""

    def values(self, ready: LawTable, words: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return a value for each column of words, and the undecided columns."""


def decide_values(
    law: DiscreteLaw, words: NDArray[np.uint64], more: NextWord, *, kernel: SamplingKernel = vector
) -> NDArray[np.int64]:
    """Return the value of each column of words, or REJECTED.

    Theorem: exact-samplers
    """
    found, doubtful = kernel.values(prepare_table(law), words)
    for column in doubtful.tolist():
        value = law.decide(tuple(words[:, column].tolist()), more)
        found[column] = REJECTED if value is None else value
    return found


def draw_values(
    law: DiscreteLaw, count: int, stream: Keystream, *, kernel: SamplingKernel = vector
) -> NDArray[np.int64]:
    """Return `count` independent values of the law.

    Theorem: exact-samplers
    """
    drawn = np.empty(count, dtype=np.int64)
    filled = 0
    while filled < count:
        columns = min(_COLUMNS, count - filled)
        words = stream.words(law.words * columns).reshape(law.words, columns)
        found = decide_values(law, words, stream.word, kernel=kernel)
        words.fill(0)
        if law.shift:
            found = found[found != REJECTED]
        drawn[filled : filled + found.size] = found
        filled += found.size
    return drawn


class BufferedDraws:
    """Single values of one law, buffered in blocks, so that the time of a draw does not reveal its value.

    Theorem: exact-samplers
    """

    __slots__ = ("_drawn", "_epoch", "_law", "_owner", "_stream")

    def __init__(self, law: DiscreteLaw, stream: Keystream) -> None:
        """Start with an empty buffer."""
        self._law = law
        self._stream = stream
        self._epoch = object()
        self._owner = 0
        self._drawn: list[int] = []

    def one(self) -> int:
        """Return the next value; no value is ever returned twice, in this process or a fork of it."""
        # Threads share the list, whose pop is atomic; a thread that finds it empty creates a new one.
        if self._owner == os.getpid() and self._epoch is self._stream.epoch and self._drawn:
            with suppress(IndexError):
                return self._drawn.pop()
        epoch = self._stream.epoch
        fresh: list[int] = draw_values(self._law, _AHEAD, self._stream).tolist()
        value = fresh.pop()
        self._drawn = fresh  # set before the owner, so that no thread takes an inherited list for its own
        self._epoch, self._owner = epoch, os.getpid()
        return value
