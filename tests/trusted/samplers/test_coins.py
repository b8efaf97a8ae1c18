"""Coins and dice in bulk: every digit of a chance is compared, and nothing but a uniform number decides."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, cast

import numpy as np
import pytest
from scipy.stats import chi2

from dodona.errors import InvalidArgument
from dodona.lab import direct
from dodona.lab.sampling import roll_dice, toss_coins
from dodona.trusted.entropy import Keystream

if TYPE_CHECKING:
    from numpy.typing import NDArray

ALARM = 1e-9
ALL = 2**64 - 1


class Every:
    """A stream that gives coin number i the binary digits of i: each of 2^digits numbers comes exactly once."""

    def __init__(self, chance: Fraction, digits: int) -> None:
        self.numbers = self.open = np.arange(1 << digits).reshape(-1, 64)
        self.chance, self.digits, self.asked = chance, digits, 0

    def words(self, count: int) -> NDArray[np.uint64]:
        """The next digit of every coin in the words that are still open."""
        if count < self.open.shape[0]:
            prefix = math.floor(self.chance * 2**self.asked)  # what all digits so far must be
            self.open = self.numbers[(self.numbers >> (self.digits - self.asked) == prefix).any(axis=1)]
        assert self.open.shape[0] == count
        self.asked += 1
        assert self.asked <= self.digits
        digit = self.open >> (self.digits - self.asked) & 1
        return np.packbits(digit.astype(np.uint8), axis=1, bitorder="little").view("<u8").ravel().astype(np.uint64)


@pytest.mark.parametrize("digits", [6, 8, 12])
@pytest.mark.parametrize("layout", ["high", "low"])
def test_of_all_numbers_with_so_many_digits_exactly_those_below_the_chance_are_one(digits: int, layout: str):
    """Neighbouring numbers share a word, or are spread over all words."""
    below = range(1 << digits) if digits < 12 else [0, 1, 2, 63, 64, 65, 1365, 2047, 2048, 2049, 4032, 4094, 4095]
    for number in below:
        stream = Every(Fraction(number, 1 << digits), digits)
        if layout == "low":
            stream.numbers = stream.open = np.ascontiguousarray(np.arange(1 << digits).reshape(64, -1).T)
        coins = toss_coins(stream.chance, stream.numbers.shape[0], stream=cast("Keystream", stream))
        bits = np.unpackbits(coins.view(np.uint8), bitorder="little").reshape(stream.numbers.shape)
        assert (bits == (stream.numbers < number)).all()


def test_a_sure_coin_draws_nothing_and_a_fair_one_a_single_digit():
    stream = Every(Fraction(1, 2), 6)
    assert toss_coins(Fraction(0), 1, stream=cast("Keystream", stream)).tolist() == [0]
    assert toss_coins(Fraction(1), 1, stream=cast("Keystream", stream)).tolist() == [ALL]
    assert stream.asked == 0
    toss_coins(Fraction(1, 2), 1, stream=cast("Keystream", stream))
    assert stream.asked == 1


CHANCES = [Fraction(1, 3), Fraction(2689, 10_000), Fraction(999, 1000), Fraction(1, 2**40 + 1), 1 - Fraction(1, 77)]


@pytest.mark.distribution
@pytest.mark.parametrize("chance", CHANCES, ids=str)
def test_coins_show_one_as_often_as_the_chance_says_in_every_place_of_a_word(chance: Fraction):
    """6,400,000 coins, 64 places: chi-square at 10^-9; a chance that is a hundredth off is refused where it can be."""
    count = 100_000
    tossed = np.unpackbits(toss_coins(chance, count).view(np.uint8), bitorder="little").reshape(count, 64)
    ones = tossed.sum(axis=0, dtype=np.int64)

    def surprise(p: float) -> float:
        return float(chi2.sf(np.sum((ones - count * p) ** 2) / (count * p * (1 - p)), 64))

    if chance < Fraction(1, 10**9):
        assert ones.sum() == 0  # false alarm 6·10^-6
        return
    assert surprise(float(chance)) > ALARM
    assert surprise(float(chance) * 0.99) < ALARM


@pytest.mark.distribution
def test_neighbouring_coins_and_words_are_independent():
    """6,400,000 coins of 1/3: the joint law of a coin with the next one and with the next word's, at 10^-9."""
    tossed = np.unpackbits(toss_coins(Fraction(1, 3), 100_000).view(np.uint8), bitorder="little").reshape(-1, 64)
    for first, second in ((tossed[:, ::2], tossed[:, 1::2]), (tossed[:-1:2], tossed[1::2])):
        seen = np.bincount((2 * first + second).ravel(), minlength=4)
        wanted = seen.sum() * np.array([4, 2, 2, 1]) / 9
        assert chi2.sf(np.sum((seen - wanted) ** 2 / wanted), 3) > ALARM


class Listed:
    """A stream of these words."""

    def __init__(self, *words: int) -> None:
        self.left = list(words)

    def words(self, count: int) -> NDArray[np.uint64]:
        given, self.left = self.left[:count], self.left[count:]
        return np.array(given, dtype=np.uint64)


def test_a_word_beyond_the_last_whole_round_of_faces_is_thrown_again():
    last = 2**64 // 3 * 3 - 1
    thrown = roll_dice(3, 4, stream=cast("Keystream", Listed(last, last + 1, 0, 7, last + 1, 5)))
    assert thrown.tolist() == [2, 5 % 3, 0, 1]
    assert roll_dice(1 << 63, 2, stream=cast("Keystream", Listed(ALL, 5))).tolist() == [2**63 - 1, 5]
    assert roll_dice(1, 3).tolist() == [0, 0, 0]


@pytest.mark.distribution
@pytest.mark.parametrize("faces", [2, 3, 7, 1000, 2**31 - 1, 3 * 2**61])
def test_faces_come_alike(faces: int):
    """1,000,000 throws in at most 1,000 bins: chi-square at 10^-9; many faces are put in bins of exact shares."""
    thrown = roll_dice(faces, 1_000_000)
    bins = min(faces, 1000)
    edges = [-(-faces * number // bins) for number in range(bins + 1)]
    seen = np.histogram(thrown.astype(np.float64), bins=np.array(edges, dtype=np.float64))[0]
    wanted = 1_000_000 * np.diff(np.array(edges, dtype=np.float64)) / faces
    assert seen.sum() == 1_000_000
    assert chi2.sf(np.sum((seen - wanted) ** 2 / wanted), bins - 1) > ALARM


@pytest.mark.parametrize(
    "wrong",
    [lambda: direct.coins(-1, 1), lambda: direct.coins("3/2", 1), lambda: direct.coins(0.5, -1),
     lambda: direct.dice(0, 1), lambda: direct.dice(2**63 + 1, 1), lambda: direct.dice(6, 2.5)],
    ids=["below-nought", "above-one", "negative-count", "no-face", "too-many-faces", "half-a-throw"],
)  # fmt: skip
def test_what_is_no_coin_and_no_die_is_refused(wrong):
    with pytest.raises(InvalidArgument):
        wrong()
