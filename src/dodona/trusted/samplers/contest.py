"""Choosing one of many: each candidate draws a real number, and the largest score + draw wins.

Gumbel draws give the exponential mechanism, exponential draws permute-and-flip. Doubles only eliminate candidates that
have certainly lost; decimals of increasing precision decide between the rest.
"""

from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from enum import Enum
from fractions import Fraction
from typing import cast

import numpy as np
from numpy.typing import NDArray

from dodona.errors import InvalidArgument
from dodona.numbers import Exact, to_fraction, to_integer
from dodona.privacy.additive_noise import LARGEST_SCALE
from dodona.trusted.entropy import SYSTEM, Keystream
from dodona.trusted.samplers.law import WORD, NextWord, decimal_context

Scores = Sequence[Exact] | NDArray[np.integer]


class ContestLaw(Enum):
    """The law of each candidate's draw."""

    GUMBEL = "gumbel"
    """-ln(-ln(1 - U)): the exponential mechanism."""
    EXPONENTIAL = "exponential"
    """-ln U: permute-and-flip."""


# Doubles eliminate a candidate only by this relative margin: 2^13 units in the last place; libraries guarantee 4.
MARGIN = 2.0**-40
# Near the ends of the unit interval, the 64 bits and their double leave the number itself uncertain,
# by at most 2^13 over the distance to the end (page exact-contest).
_END = np.uint64(1 << 54)
_END_MARGIN = 2.0**13
Gap = tuple[Fraction, Fraction]
"""The rational part of a gap, and a number ≥ 1 whose logarithm is the rest."""


def contest_winners(  # noqa: PLR0913  the words and their continuation are arguments of every sampler
    gaps: NDArray[np.float64],
    gap: Callable[[int], Fraction],
    words: NDArray[np.uint64],
    more: NextWord,
    *,
    draw: ContestLaw,
    rare: Sequence[Fraction] = (),
) -> NDArray[np.int64]:
    """Return the index of the largest draw - gap in each of several contests between the same candidates.

    There is a row of words for each contest, and `gap(i)` is the exact value of the double `gaps[i]`. If `rare` has a
    number ≥ 1 for each candidate, its logarithm is part of the gap: included in `gaps`, but not in `gap`.

    Theorem: exact-contest
    """
    key = _contest_keys(words, gaps, gumbel=draw is ContestLaw.GUMBEL)
    margin = MARGIN * (gaps + np.abs(key) + 1)
    ends = np.nonzero((words < _END) | (words > ~_END))
    with np.errstate(divide="ignore"):
        margin[ends] += _END_MARGIN / np.minimum(words[ends], ~words[ends])
    contenders = key + margin >= (key - margin).max(axis=1, keepdims=True)
    first: NDArray[np.int64] = contenders.argmax(axis=1)
    for row in np.flatnonzero(contenders.sum(axis=1) > 1).tolist():
        places = np.flatnonzero(contenders[row]).tolist()
        entries = [(i, (gap(i), rare[i] if rare else Fraction(1)), int(words[row, i])) for i in places]
        first[row] = _decide_winner(entries, more, draw)
    return first


def _decide_winner(contenders: Sequence[tuple[int, Gap, int]], more: NextWord, draw: ContestLaw) -> int:
    """Return the winner's index, revealing 64 more bits of every contender until one is certainly ahead."""
    bits = WORD
    while True:
        context = decimal_context(2 * bits)
        edges = [_edges(word, gap, bits, context, draw) for _, gap, word in contenders]
        best = max(low for low, _ in edges)
        contenders = [entry for entry, (_, high) in zip(contenders, edges, strict=True) if high >= best]
        if len(contenders) == 1:
            return contenders[0][0]
        contenders = [(index, gap, word << WORD | more()) for index, gap, word in contenders]
        bits += WORD


def _edges(word: int, gap: Gap, bits: int, context: Context, draw: ContestLaw) -> tuple[Decimal, Decimal]:
    """Return bounds on draw - gap over all numbers with these first bits; both laws decrease in the number."""
    away = context.add(_quotient(gap[0], context), context.ln(_quotient(gap[1], context)))
    low, high = (context.subtract(_real(Fraction(edge, 1 << bits), context, draw), away) for edge in (word + 1, word))
    # With twice as many digits as bits, rounding errors stay far below this fraction of the terms (page exact-contest).
    share = Decimal((0, (1,), 8 - bits))
    slack_low, slack_high = (
        context.multiply(context.add(context.add(edge.copy_abs(), away), Decimal(1)), share) for edge in (low, high)
    )
    return context.subtract(low, slack_low), context.add(high, slack_high)


def _real(uniform: Fraction, context: Context, draw: ContestLaw) -> Decimal:
    """Return the draw for a uniform number, with its limits at 0 and 1."""
    if uniform == 0:
        return Decimal("Infinity")
    if draw is ContestLaw.EXPONENTIAL:
        return context.ln(_quotient(uniform, context)).copy_negate()
    if uniform == 1:
        return Decimal("-Infinity")
    return context.ln(context.ln(_quotient(1 - uniform, context)).copy_negate()).copy_negate()


def _quotient(number: Fraction, context: Context) -> Decimal:
    return context.divide(Decimal(number.numerator), Decimal(number.denominator))


def _contest_keys(words: NDArray[np.uint64], gaps: NDArray[np.float64], *, gumbel: bool) -> NDArray[np.float64]:
    """Return draw - gap in doubles, where the draw is -ln(-ln(1 - U)) or -ln U."""
    uniform = words.astype(np.float64)
    uniform *= 2.0**-64
    np.clip(uniform, 2.0**-64, 1 - 2.0**-53, out=uniform)
    if gumbel:
        np.negative(uniform, out=uniform)
        np.log1p(uniform, out=uniform)
        np.negative(uniform, out=uniform)
    np.log(uniform, out=uniform)
    uniform += gaps
    return np.negative(uniform, out=uniform)


# --- Contests over scores: arguments are validated before anything is drawn. ---


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
        array = np.asarray(values)
    except ValueError:  # rows of different lengths
        raise InvalidArgument(argument, values, accepted) from None
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iu":
        raise InvalidArgument(argument, values, accepted)
    if int(array.max()) > LARGEST_VALUE or int(array.min()) < -LARGEST_VALUE:
        raise InvalidArgument(argument, values, accepted)
    return array.astype(np.int64)


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
