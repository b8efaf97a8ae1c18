"""CPU seconds: of a piece of work in this process, and of a fresh interpreter.

CPU time and not wall time, so that neighbours on the same machine disturb the figures less.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median


def best(work: Callable[[], object], *, repeats: int = 3) -> float:
    """Return the fewest CPU seconds that the work took, after it was done once to warm up."""
    work()
    return min(once(work) for _ in range(repeats))


def once(work: Callable[[], object]) -> float:
    """Return the CPU seconds that the work took, on all threads of this process together."""
    start = time.process_time()
    work()
    return time.process_time() - start


def loop() -> int:
    """Do a fixed piece of work in plain Python: about a millisecond on a machine of 2025."""
    total, known = 0, dict[int, int]()
    for number in range(13_400):
        total += number * number % 7
        known[number & 255] = total
    return total


def standard_ms(seconds: float) -> float:
    """Return CPU seconds as milliseconds of a machine that does `loop` in one of them; measured anew each time."""
    return seconds / min(best(loop, repeats=5) for _ in range(20))


def mean(work: Callable[[], object], *, calls: int, repeats: int = 3) -> float:
    """Return the mean CPU seconds of a call, in the best of several rounds of so many calls."""

    def round_of_calls() -> None:
        for _ in range(calls):
            work()

    return best(round_of_calls, repeats=repeats) / calls


def imports(modules: tuple[str, ...], *, repeats: int = 7) -> dict[str, float]:
    """Return the CPU seconds that importing each module adds to a bare interpreter: differences of medians."""
    codes = ("pass", *(f"import {module}" for module in modules))
    for code in codes:
        _interpreter(code)  # files are read from disk and compiled to bytecode once, before anything is timed
    # Taken in turns, so that a busy moment of the machine does not fall on one of them alone.
    rounds = [[_interpreter(code) for code in codes] for _ in range(repeats)]
    bare, *loaded = (median(column) for column in zip(*rounds, strict=True))
    return {module: seconds - bare for module, seconds in zip(modules, loaded, strict=True)}


def _interpreter(code: str) -> float:
    before = _children()
    subprocess.run([sys.executable, "-c", code], check=True)  # noqa: S603  the code is an import named above
    return _children() - before


def _children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
