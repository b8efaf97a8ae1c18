"""The winner of a contest is the true arg-max of score + draw, however near the tie."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import exp

import numpy as np
import pytest

from dodona.errors import InvalidArgument
from dodona.lab import sampling
from dodona.trusted.entropy import Keystream
from dodona.trusted.samplers.contest import ContestLaw, contest_winners
from tests.trusted.samplers.adversary import ALL, Replay, Tape
from tests.trusted.samplers.oracle import best, rational, real

GAPS = (Fraction(0), Fraction(1, 10**12), Fraction(1, 7), Fraction(1), Fraction(5, 2), Fraction(30), Fraction(10**6))


def matching(word: int, gap: Fraction, other: Fraction, *, gumbel: bool) -> int:
    """The word with which a candidate of gap `other` ties with one of this word and gap, in 64 bits."""
    uniform = real.ldexp(real.mpf(2 * word + 1), -65)
    factor = real.exp(rational(gap - other))  # -ln U - gap: U scales; Gumbel: -ln(1 - U) scales
    tied = -real.expm1(real.log1p(-uniform) * factor) if gumbel else uniform * factor
    return min(int(real.floor(real.ldexp(tied, 64))), ALL)


def near_ties(rng: np.random.Generator, gumbel: bool) -> tuple[list[Fraction], list[int], list[int]]:  # noqa: FBT001
    """Gaps, words and continuations such that two or more candidates all but tie for the lead."""
    gaps = [GAPS[int(i)] for i in rng.integers(0, len(GAPS), size=int(rng.integers(2, 5)))]
    gaps[0] = Fraction(0)
    places = [0, 1, 2, 3, 1 << 10, 1 << 30, 1 << 53, (1 << 54) - 1, 1 << 54, 1 << 63]
    places += [ALL - place for place in places] + rng.integers(0, ALL, size=4, dtype=np.uint64).tolist()
    first = int(places[int(rng.integers(len(places)))])
    words = [first]
    for gap in gaps[1:]:
        near = matching(first, Fraction(0), gap, gumbel=gumbel) + int(rng.choice([-5000, -2, -1, 0, 0, 0, 1, 2, 5000]))
        words.append(min(max(near, 0), ALL))
    plan = [int(rng.choice(np.array([0, 1, ALL - 1, ALL, 1 << 63], dtype=np.uint64))) for _ in range(len(gaps))]
    return gaps, words, plan


def agree(rng: np.random.Generator, rounds: int) -> tuple[int, int]:
    """Compare that many contests of each law; return how many asked for more bits, and how many words they got."""
    deep = given = 0
    for index in range(rounds):
        gumbel = index % 2 == 0
        gaps, words, plan = near_ties(rng, gumbel)
        tape = Tape(rng)
        tape.load(plan)
        wanted = best(gaps, words, tape.more, gumbel=gumbel)
        law = ContestLaw.GUMBEL if gumbel else ContestLaw.EXPONENTIAL
        replay = Replay(tape.given)
        doubles = np.array([float(gap) for gap in gaps])
        drawn = np.array([words], dtype=np.uint64)
        winner = contest_winners(doubles, gaps.__getitem__, drawn, replay.more, draw=law)[0]
        assert winner == wanted, (gaps, words, tape.given, gumbel)
        assert replay.left == [], (gaps, words, tape.given, gumbel)
        deep += bool(tape.given)
        given += len(tape.given)
    return deep, given


def test_contests_with_near_ties_are_won_by_the_true_arg_max():
    deep, given = agree(np.random.default_rng(21), 300)
    assert deep >= 50
    assert given >= 2 * deep


@pytest.mark.soak
def test_many_more_contests_with_near_ties_are_won_by_the_true_arg_max():
    deep, _ = agree(np.random.default_rng(22), 6_000)
    assert deep >= 1_000


@pytest.mark.parametrize("draw", list(ContestLaw))
def test_words_that_stay_equal_are_read_on_until_one_is_ahead(draw: ContestLaw):
    words = np.full(3, 12345, dtype=np.uint64)
    following = [5, 5, 5, 60, 70, 5]
    replay = Replay(following)
    gaps = np.zeros(3)
    assert contest_winners(gaps, lambda _: Fraction(0), words[np.newaxis], replay.more, draw=draw)[0] == 2
    assert replay.left == []


@pytest.mark.parametrize("draw", list(ContestLaw))
@pytest.mark.parametrize("word", [0, ALL])
def test_the_ends_of_the_unit_interval_are_decided_by_what_follows(draw: ContestLaw, word: int):
    words = np.array([word, word], dtype=np.uint64)
    for following, wanted in (([3, 9], 0), ([9, 3], 1)):
        replay = Replay(following)
        assert (
            contest_winners(np.zeros(2), lambda _: Fraction(0), words[np.newaxis], replay.more, draw=draw)[0] == wanted
        )


def test_scores_as_far_apart_as_they_may_be_keep_their_order():
    """The best candidate leads by 2^63 units; the other wins with probability e^-(2^63)."""
    far = np.array([1 << 62, -(1 << 62)])
    assert sampling.choose(far) == 0
    assert sampling.choose(far[::-1].copy()) == 1
    assert sampling.permute_and_flip(far) == 0
    assert sampling.noisy_max(far, 1) == 0


class Script:
    """A cipher that writes chosen words, then words that rise by one."""

    def __init__(self, words: list[int]) -> None:
        self.words = words[::-1]

    def update_into(self, data: memoryview, buf: memoryview) -> int:
        count = len(data) // 8
        chosen = [self.words.pop() if self.words else 1 + index for index in range(count)]
        buf[:] = np.array(chosen, dtype=np.uint64).view(np.uint8).data
        return len(data)


def scripted(*words: int) -> Keystream:
    return Keystream(cipher=lambda _key, _nonce: Script(list(words)))


HALF = 1 << 63
"""A first word that means noise 0 at scale 1/1000."""


@pytest.mark.parametrize(
    "words",
    [(5, 9, 7), (ALL, 0, 0), (ALL, ALL, ALL), (0, ALL, 0)],
)
def test_noisy_max_never_reports_a_candidate_that_does_not_lead(words: tuple[int, ...]):
    """Whatever the words that order the candidates: noise 0, so the second leads alone."""
    stream = scripted(HALF, HALF, HALF, 1, *words, 1)
    assert sampling.noisy_max([0, 10, 0], "1/1000", stream=stream) == 1


def test_leaders_with_equal_words_stand_in_the_order_of_the_list():
    """Equal words, one pair in 2^64: an order that were drawn again would depend on who leads."""
    for following in range(64):
        stream = scripted(HALF, HALF, 77, 77, following << 58, HALF, HALF - following, 5)
        won, gap = sampling.noisy_maxima([10, 10], "1/1000", 1, stream=stream)[0].tolist()
        assert (won, gap) == (0, 0)


def test_a_tie_in_noisy_max_is_broken_by_the_next_word():
    """At scale 1/1000 the noise is zero but for a chance of e^-1000, so equal scores tie: each of three wins."""
    won = {sampling.noisy_max([4, 7, 7, 7, -1], "1/1000") for _ in range(200)}
    assert won == {1, 2, 3}  # false alarm 3·(2/3)^200 < 10^-34


@pytest.mark.parametrize("choice", [sampling.choose, sampling.permute_and_flip])
@pytest.mark.parametrize("scores", [[1], [Fraction(-3, 7)], np.array([5]), ["0.25"], [10**12]])
def test_a_single_candidate_wins(choice: type[sampling.choose], scores: Sequence[int]):
    assert choice(scores) == 0


@pytest.mark.parametrize("choice", [sampling.choose, sampling.permute_and_flip])
def test_a_hopeless_candidate_does_not_win(choice: type[sampling.choose]):
    assert choice([0, 10**6, 0]) == 1  # false alarm e^-1000000
    assert choice(np.array([0, 1000]), unit=10) == 1  # false alarm e^-10000


def test_the_matching_word_is_a_near_tie():
    rng = np.random.default_rng(23)
    for gumbel in (True, False):
        word = int(rng.integers(1 << 60, 1 << 61))
        other = matching(word, Fraction(0), Fraction(1, 3), gumbel=gumbel)
        assert other < word
        assert best([Fraction(0), Fraction(1, 3)], [word, other + 2], Replay([]).more, gumbel=gumbel) == 0
        assert best([Fraction(0), Fraction(1, 3)], [word, other - 2], Replay([]).more, gumbel=gumbel) == 1
    assert exp(-1 / 3) < 1


@pytest.mark.parametrize("choice", [sampling.choose, sampling.permute_and_flip])
def test_a_unit_outside_its_range_is_refused(choice: type[sampling.choose]):
    for unit in (0, -1, "1e-13", 10**13, float("nan"), None):
        with pytest.raises(InvalidArgument, match=r"^unit = "):
            choice([1, 2], unit=unit)
