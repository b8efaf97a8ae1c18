"""One run of one way to answer a stream: what it cost, how far off it was, and where answers came from."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.streams.certified import Cost

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from benchmarks.streams.stream import Stream

Trail = Sequence[tuple[int, float]]
"""Turns, from 1, and the ε that is certified for all that was spent until then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What one run came to."""

    cost: Cost
    max_error: float | None
    """The largest error of a distinct question, as a part of the rows; None where nothing was run."""
    beyond: float | None
    """The share of distinct questions that were told farther off than α."""
    coverage: float | None
    """The share of answers whose own interval holds the exact count."""
    rungs: Mapping[str, int]
    """How many answers came from where; what was refused is told too."""
    microseconds: float | None = None
    """The median CPU time of an answer that cost nothing."""
    trail: Trail = field(default_factory=list, repr=False)

    def told(self) -> dict[str, object]:
        """Return it as the figures of one run."""
        return {
            "certified_epsilon": rounded(self.cost.certified),
            "zcdp_epsilon": rounded(self.cost.zcdp),
            "pure_epsilon": rounded(self.cost.pure),
            "max_error": rounded(self.max_error),
            "beyond_alpha": rounded(self.beyond),
            "coverage": rounded(self.coverage),
            "rungs": dict(self.rungs),
            "us_per_free_answer": rounded(self.microseconds),
        }


def judged(stream: Stream, errors: NDArray[np.float64]) -> dict[str, float]:
    """Return how errors of all distinct questions look; what is promised of each answer is α."""
    off = np.abs(errors) > stream.within
    return {
        "max_error": float(np.abs(errors).max()) / stream.rows,
        "beyond": float(off.mean()),
        "coverage": 1 - float(off[stream.asked].mean()),
    }


def summary(stream: Stream, runs: Sequence[Run]) -> dict[str, object]:
    """Return the figures of all runs together: losses one by one, errors at worst, shares and counts on average."""
    named = {name for run in runs for name in run.rungs}
    return {
        "certified_epsilon": [rounded(run.cost.certified) for run in runs],
        "zcdp_epsilon": [rounded(run.cost.zcdp) for run in runs],
        "pure_epsilon": [rounded(run.cost.pure) for run in runs],
        "max_error": _of(max, [run.max_error for run in runs]),
        "beyond_alpha": _of(fmean, [run.beyond for run in runs]),
        "coverage": _of(fmean, [run.coverage for run in runs]),
        "questions": len(stream.asked),
        "distinct": len(stream.questions),
        "rungs": {name: fmean(run.rungs.get(name, 0) for run in runs) for name in sorted(named)},
        "us_per_free_answer": _of(median, [run.microseconds for run in runs]),
    }


def rounded(value: float | None) -> float | None:
    """Return six digits that matter; None for what is not there and what has no end."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.6g}")


def _of(how: object, values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return rounded(how(known)) if known and callable(how) else None
