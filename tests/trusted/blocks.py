"""Keystream blocks gathered from many processes and threads, and the search for one that came twice."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def repeated(drawn: list[NDArray[np.uint64]]) -> int:
    """Return how many 16-byte blocks came before, in the same or another batch."""
    blocks = np.concatenate(drawn).reshape(-1, 2)
    whole = np.ascontiguousarray(blocks).view([("high", np.uint64), ("low", np.uint64)])
    return blocks.shape[0] - np.unique(whole).size


def in_children(count: int, draw: Callable[[], NDArray[np.generic]]) -> list[NDArray[np.uint64]]:
    """Fork that many children, each after the one before was started, and return what each of them drew."""
    pipes = []
    for _ in range(count):
        reading, writing = os.pipe()
        with warnings.catch_warnings():
            # From 3.12 on, a fork beside other threads warns; the child only draws, writes and leaves.
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            try:
                os.close(reading)
                with os.fdopen(writing, "wb") as pipe:
                    pipe.write(draw().tobytes())
            finally:
                os._exit(0)
        os.close(writing)
        pipes.append((child, reading))
    drawn = []
    for child, reading in pipes:
        with os.fdopen(reading, "rb") as pipe:
            drawn.append(np.frombuffer(pipe.read(), dtype=np.uint64))
        os.waitpid(child, 0)
    return drawn
