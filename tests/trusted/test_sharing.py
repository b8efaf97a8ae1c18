"""No block of the keystream and no value drawn ahead is ever given twice: over threads, forks and fresh processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from threading import Barrier
from typing import TYPE_CHECKING

import numpy as np
import pytest

from dodona.errors import EntropyFailed, Halted
from dodona.lab import direct
from dodona.lab.mechanisms import Gaussian, Laplace, SparseVector
from dodona.trusted.entropy import SYSTEM, Keystream, aes_ctr
from dodona.trusted.samplers import law as laws
from dodona.trusted.samplers.draw import BufferedDraws
from tests.trusted.blocks import in_children, repeated

if TYPE_CHECKING:
    from numpy.typing import NDArray

WORDS = 10_000
WIDE = Fraction(10**12)
THREADS = 16


class KeepsItsKey:
    """The planted fault: a keystream that a forked child goes on with."""

    def __init__(self) -> None:
        self._encryptor = aes_ctr(os.urandom(32), os.urandom(16))

    def words(self, count: int) -> NDArray[np.uint64]:
        filled = np.zeros(count, dtype=np.uint64)
        self._encryptor.update_into(memoryview(bytes(8 * count)), filled.view(np.uint8).data)
        return filled


class KeepsItsValues:
    """The planted fault: values drawn ahead that a forked child hands out again."""

    def __init__(self) -> None:
        self._drawn = BufferedDraws(laws.laplace_law(WIDE), SYSTEM)
        self._values = [self._drawn.one() for _ in range(1000)]

    def one(self) -> int:
        return self._values.pop()


@pytest.fixture(params=[8, pytest.param(64, marks=pytest.mark.soak)])
def children(request: pytest.FixtureRequest) -> int:
    """How many are forked: each of them copies the tables of a large process."""
    return int(request.param)


def forked_words(stream: Keystream | KeepsItsKey, children: int) -> int:
    """Repeats among parent and up to 64 children of 10^4 words each; a false alarm has probability 2^-90."""
    before = stream.words(WORDS)
    drawn = in_children(children, lambda: stream.words(WORDS))
    assert [batch.size for batch in drawn] == [WORDS] * children
    return repeated([before, *drawn, stream.words(WORDS)])


def forked_values(one: Callable[[], int], children: int) -> int:
    """Repeats among pairs of values; at scale 10^12 two pairs are equal with probability below 2^-80."""
    warm = [one() for _ in range(10)]

    def draw() -> NDArray[np.int64]:
        return np.array([one() for _ in range(100)], dtype=np.int64)

    drawn = in_children(children, draw)
    assert [batch.size for batch in drawn] == [100] * children
    return repeated([np.array(warm, dtype=np.int64).view(np.uint64), *drawn, draw().view(np.uint64)])


def test_forked_children_share_no_block(children: int):
    assert forked_words(Keystream(), children) == 0
    assert forked_words(SYSTEM, children) == 0


def test_a_stream_that_keeps_its_key_over_a_fork_is_caught(children: int):
    assert forked_words(KeepsItsKey(), children) >= (children - 1) * WORDS // 2


def test_forked_children_share_no_value_drawn_ahead(children: int):
    assert forked_values(BufferedDraws(laws.laplace_law(WIDE), SYSTEM).one, children) == 0
    assert forked_values(BufferedDraws(laws.gaussian_law(WIDE**2), Keystream()).one, children) == 0


def test_values_kept_over_a_fork_are_caught(children: int):
    assert forked_values(KeepsItsValues().one, children) > children


def test_forked_children_share_no_noise_of_a_mechanism(children: int):
    assert forked_values(lambda: direct.run(Laplace(scale=WIDE), 0), children) == 0
    assert forked_values(lambda: int(direct.run(Gaussian(scale=WIDE), [0])[0]), children) == 0


def test_a_child_forked_while_the_stream_is_in_use_can_draw():
    """Another thread of the parent may hold the lock; the child, which has no such thread, must not wait for it."""
    stream = Keystream()
    epoch = stream.epoch
    with stream._lock:
        drawn = in_children(2, lambda: np.append(stream.words(WORDS), np.uint64(stream.epoch is not epoch)))
    assert [batch.size for batch in drawn] == [WORDS + 1] * 2
    assert [int(batch[-1]) for batch in drawn] == [1, 1]


def test_children_of_children_share_no_block():
    stream = Keystream()
    stream.words(WORDS)

    def draw() -> NDArray[np.uint64]:
        words = stream.words(WORDS)
        return np.concatenate([words, *in_children(3, lambda: stream.words(WORDS)), stream.words(WORDS)])

    drawn = in_children(4, draw)
    assert [batch.size for batch in drawn] == [5 * WORDS] * 4
    assert repeated([*drawn, stream.words(WORDS)]) == 0


def in_threads(draw: Callable[[], list[int]]) -> list[list[int]]:
    """What each of 16 threads drew, all let go at once."""
    start = Barrier(THREADS)

    def go(_: int) -> list[int]:
        start.wait()
        return draw()

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(go, range(THREADS)))


def test_threads_share_no_block():
    stream = Keystream(rekey_bytes=1 << 14)
    drawn = in_threads(lambda: [word for size in (2, 50, 400) * 50 for word in stream.words(size).tolist()])
    assert [len(words) for words in drawn] == [452 * 50] * THREADS
    assert repeated([np.array(words, dtype=np.uint64) for words in drawn]) == 0


FEW = 12
"""Among 80,000 values of scale 10^12, 0.0008 repeats are expected; 12 or more by chance have probability 10^-45.

A list that two threads gave out would repeat hundreds.
"""


def test_threads_share_no_value_drawn_ahead():
    ahead = BufferedDraws(laws.laplace_law(WIDE), Keystream())
    drawn = in_threads(lambda: [ahead.one() for _ in range(5_000)])
    assert [len(values) for values in drawn] == [5_000] * THREADS
    values = np.array(drawn).ravel()
    assert values.size - np.unique(values).size < FEW


def test_threads_that_run_a_mechanism_get_values_of_their_own():
    mechanism = Laplace(scale=WIDE)
    drawn = np.array(in_threads(lambda: [direct.run(mechanism, 0) for _ in range(2_000)])).ravel()
    assert drawn.size - np.unique(drawn).size < FEW


def test_values_drawn_ahead_are_dropped_with_the_key():
    asked: list[int] = []

    def source(size: int) -> bytes:
        asked.append(size)
        return os.urandom(size)

    stream = Keystream(source=source)
    ahead = BufferedDraws(laws.laplace_law(WIDE), stream)
    ahead.one()
    ahead.one()
    assert len(asked) == 1
    stream.forget()
    ahead.one()
    assert len(asked) == 2


def test_a_failed_refill_gives_no_value_and_the_next_one_does():
    works = False
    ahead = BufferedDraws(laws.laplace_law(WIDE), Keystream(source=lambda size: os.urandom(size) if works else b""))
    for _ in range(2):
        with pytest.raises(EntropyFailed):
            ahead.one()
    works = True
    assert isinstance(ahead.one(), int)


PRINTS = "from dodona.trusted.entropy import SYSTEM; print(*SYSTEM.words(16).tolist())"


@pytest.mark.slow
def test_fresh_processes_share_no_block():
    """20 interpreters with every seed that Python knows held constant."""
    outside = {**os.environ, "PYTHONHASHSEED": "0"}
    commands = [
        subprocess.Popen([sys.executable, "-c", PRINTS], env=outside, stdout=subprocess.PIPE, text=True)
        for _ in range(20)
    ]
    drawn = [
        np.array([int(word) for word in command.communicate()[0].split()], dtype=np.uint64) for command in commands
    ]
    assert [batch.size for batch in drawn] == [16] * 20
    assert repeated(drawn) == 0


def test_a_forked_child_has_none_of_the_positives_of_an_open_threshold():
    """The charge was for one run: with the same noise in two processes, twice as much would be told."""
    opened = direct.watch(SparseVector(threshold_scale=1, question_scale=1, positives=3))

    def asked() -> NDArray[np.int64]:
        try:
            return np.array([opened.positives_left, opened.ask(1_000, threshold=0).above], dtype=np.int64)
        except Halted:
            return np.array([opened.positives_left, -1], dtype=np.int64)

    assert [child.view(np.int64).tolist() for child in in_children(2, asked)] == [[0, -1]] * 2
    assert asked().tolist() == [3, 1]
    assert opened.positives_left == 2
