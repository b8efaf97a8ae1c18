"""Candidates that stand for fewer copies: contests are decided exactly, however near the tie, and by the right law."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from mpmath import mp

from dodona.errors import InvalidArgument
from dodona.trusted.samplers import contest
from dodona.trusted.samplers.contest import ContestLaw, contest_winners

ALL = 2**64 - 1
RARITIES = (Fraction(1), Fraction(3), Fraction(7, 2), Fraction(20), Fraction(10**9, 7), Fraction(10) ** 60)


def tied(word: int, rarity: Fraction) -> int:
    """The word with which a candidate of this rarity ties with a common one of that word: E/r = E'."""
    with mp.workprec(400):
        uniform = mp.ldexp(mp.mpf(2 * word + 1), -65)
        tie = -mp.expm1(mp.log1p(-uniform) * rarity.denominator / rarity.numerator)
        return min(int(mp.floor(mp.ldexp(tie, 64))), ALL)


def leader(words: list[int], rare: list[Fraction], bits: int) -> int:
    """The smallest of -ln(1 - U)·rarity, with 600 bits."""
    with mp.workprec(600):
        keys = [
            -mp.log1p(-mp.ldexp(mp.mpf(2 * word + 1), -bits - 1)) * rarity.numerator / rarity.denominator
            for word, rarity in zip(words, rare, strict=True)
        ]
        return keys.index(min(keys))


def test_near_ties_of_rare_and_common_candidates_are_decided_by_all_bits():
    """500 contests; more than a fifth of them cannot be decided by the first 64 bits."""
    chance = np.random.default_rng(8)
    deep = 0
    for _ in range(500):
        common = int(chance.integers(1 << 40, ALL, dtype=np.uint64))
        rarity = RARITIES[int(chance.integers(len(RARITIES)))]
        near = min(max(tied(common, rarity) + int(chance.integers(-1, 2)), 0), ALL)
        further = [int(number) for number in chance.integers(0, ALL, size=8, dtype=np.uint64)]
        asked: list[int] = []

        def more(left: list[int] = further, seen: list[int] = asked) -> int:
            seen.append(left[len(seen)])
            return seen[-1]

        rare = [Fraction(1), rarity]
        gaps = np.log(np.array(rare, dtype=np.float64))
        words = np.array([[common, near]], dtype=np.uint64)
        winner = contest_winners(gaps, lambda _: Fraction(0), words, more, draw=ContestLaw.GUMBEL, rare=rare)[0]
        extended = [common, near]
        for first, second in zip(asked[::2], asked[1::2], strict=True):
            extended = [extended[0] << 64 | first, extended[1] << 64 | second]
        assert winner == leader(extended, rare, 64 * (1 + len(asked) // 2))
        deep += bool(asked)
    assert deep > 100


def test_rare_candidates_win_as_often_as_their_copies_would():
    """10^5 contests of weights 1, 2 and 6 at equal scores: off by more than 6 deviations once in 10^8 runs."""
    won = contest.contests(
        [0, 0, 0], 100_000, unit=1, draw=ContestLaw.GUMBEL, rare=[Fraction(6), Fraction(3), Fraction(1)]
    )
    shares = np.bincount(won, minlength=3) / 100_000
    assert np.abs(shares - np.array([1, 2, 6]) / 9).max() < 6 * np.sqrt(0.25 / 100_000)


def test_as_many_numbers_as_candidates_are_needed():
    with pytest.raises((InvalidArgument, ValueError)):
        contest.contests([0, 0, 0], 5, unit=1, draw=ContestLaw.GUMBEL, rare=[Fraction(2), Fraction(1)])
