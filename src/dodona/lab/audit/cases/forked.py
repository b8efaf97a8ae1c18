"""Two answers, the second of which a forked process gives: it must not repeat the noise of the first."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np

from dodona.errors import InvariantBroken
from dodona.lab.audit.features import Outputs
from dodona.privacy.additive_noise import Noise

Sample = Callable[[Noise, tuple[int, ...], int], Outputs]


def answered_across_a_fork(sample: Sample, few: int, mechanism: Noise, row: tuple[int, ...], times: int) -> Outputs:
    """Return pairs of answers, one from this process and one from a child, with a new child for every `few` pairs."""
    return np.concatenate([_few(sample, mechanism, row, min(few, times - at)) for at in range(0, times, few)])


def _few(sample: Sample, mechanism: Noise, row: tuple[int, ...], times: int) -> Outputs:
    sample(mechanism, row[:1], 1)  # a key is drawn before the fork, so that there is something to inherit
    receiving, sending = os.pipe()
    child = os.fork()
    if child == 0:
        _tell(sample, mechanism, row[1], times, sending)
    os.close(sending)
    mine = sample(mechanism, row[:1], times)
    with os.fdopen(receiving, "rb") as pipe:
        theirs = np.frombuffer(pipe.read(), dtype=mine.dtype)
    if os.waitpid(child, 0)[1] != 0 or theirs.size != mine.size:
        raise InvariantBroken("A forked process did not answer.")
    return np.stack((mine, theirs), axis=1)


def _tell(sample: Sample, mechanism: Noise, value: int, times: int, sending: int) -> None:
    """Answer in the child and leave without running the parent's exit handlers."""
    code = 1
    try:
        with os.fdopen(sending, "wb") as pipe:
            pipe.write(sample(mechanism, (value,), times).tobytes())
        code = 0
    finally:
        os._exit(code)
