"""Averaging and differencing: simple attacks that succeed where noise is fresh and queries are not limited."""

from __future__ import annotations

import numpy as np

from dodona.errors import InvalidArgument, Refused
from dodona.lab.attacks.target import Secrets, Target, guessed


def attack(target: Target, *, times: int) -> Secrets:
    """Return every person's secret by averaging repeated answers to the same question.

    If an answer is refused, the earlier ones are averaged.
    """
    if type(times) is not int or times < 1:
        raise InvalidArgument("times", times, "write how often to ask, 1 or more")
    told = [target.again()]
    for _ in range(times - 1):
        try:
            told.append(target.again())
        except Refused:
            continue  # in other words it may yet be told
    return guessed(np.mean(told, axis=0))
