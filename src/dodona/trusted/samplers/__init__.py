"""Exact samplers over a cryptographic keystream: rational parameters, integer samples, and exactly the stated law.

Every function validates its arguments before anything is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, cast

import numpy as np

from dodona.errors import InvalidArgument
from dodona.numbers import Exact, to_fraction, to_integer
from dodona.privacy.additive_noise import LARGEST_SCALE
from dodona.trusted.entropy import SYSTEM, Keystream
from dodona.trusted.samplers.contest import ContestLaw, contest_winners
from dodona.trusted.samplers.draw import BufferedDraws, SamplingKernel, draw_values, fastest_sampling_kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Scores = Sequence[Exact] | NDArray[np.integer]

__all__ = [
    "BufferedDraws", "ContestLaw", "SamplingKernel", "contests", "draw_values", "fastest_sampling_kernel",
]  # fmt: skip

LARGEST_VALUE = 1 << 62
"""Integers in arrays stay within this bound, so that adding noise cannot overflow."""
LARGEST_COUNT = 1 << 40
_CONTEST_WORDS = 1 << 18  # words in memory at a time for many contests


def contests(  # noqa: PLR0913  the law, the number of draws, and the source
    scores: Scores,
    times: int,
    *,
    unit: Exact,
    draw: ContestLaw,
    rare: Sequence[Fraction] = (),
    stream: Keystream = SYSTEM,
) -> NDArray[np.int64]:
    """Return the winners of `times` independent contests, where a gap is unit·(best score - score).

    A rarity r ≥ 1 adds ln r to a candidate's gap: under Gumbel draws it is chosen with probability
    ∝ exp(unit·score)/r. If `rare` is given, it has one number below 2^1000 for each candidate.
    """
    factor = to_fraction(unit, argument="unit", lower=Fraction(1, 10**12), upper=LARGEST_SCALE)
    gaps, gap = _gaps(scores, factor)
    gaps = gaps + np.log(np.array(rare, dtype=np.float64)) if rare else gaps
    won = np.empty(validate_draws(times), dtype=np.int64)
    rows = max(1, _CONTEST_WORDS // gaps.size)
    for start in range(0, won.size, rows):
        block = won[start : start + rows]
        words = stream.words(block.size * gaps.size).reshape(block.size, gaps.size)
        block[:] = contest_winners(gaps, gap, words, stream.word, draw=draw, rare=rare)
        words.fill(0)
    return won


def integers(values: Scores, *, argument: str) -> NDArray[np.int64]:
    """Return the values as a non-empty array of integers that cannot overflow when noise is added."""
    accepted = "write a non-empty flat list of integers from -2^62 to 2^62"
    try:
        found = np.asarray(values)
    except ValueError:  # rows of different lengths
        raise InvalidArgument(argument, values, accepted) from None
    if found.ndim != 1 or found.size == 0 or found.dtype.kind not in "iu":
        raise InvalidArgument(argument, values, accepted)
    if int(found.max()) > LARGEST_VALUE or int(found.min()) < -LARGEST_VALUE:
        raise InvalidArgument(argument, values, accepted)
    return found.astype(np.int64)


def _gaps(scores: object, factor: Fraction) -> tuple[NDArray[np.float64], Callable[[int], Fraction]]:
    """Return the gap of each candidate to the best: as doubles, and as an exact function of the index."""
    if isinstance(scores, np.ndarray) and scores.dtype.kind in "iu":
        values = integers(scores, argument="scores").astype(np.uint64)
        lags = np.uint64(int(np.asarray(scores).max()) % 2**64) - values  # unsigned, so that 2^63 does not overflow
        return lags.astype(np.float64) * float(factor), lambda index: int(lags[index]) * factor
    listed = scores.ndim == 1 if isinstance(scores, np.ndarray) else isinstance(scores, Sequence)
    candidates = cast("Sequence[Exact]", scores) if listed and not isinstance(scores, str | bytes) else ()
    if len(candidates) == 0:
        raise InvalidArgument("scores", scores, "write a flat list with the score of each candidate")
    rationals = [
        to_fraction(score, argument=f"scores[{index}]", lower=-LARGEST_SCALE, upper=LARGEST_SCALE)
        for index, score in enumerate(candidates)
    ]
    best = max(rationals)
    gaps = [(best - score) * factor for score in rationals]
    return np.array(gaps, dtype=np.float64), gaps.__getitem__


def validate_draws(count: int) -> int:
    """Return a validated number of draws."""
    return to_integer(count, argument="count", lower=0, upper=LARGEST_COUNT)
