"""Equal words mean equal integers: in the NumPy kernel, in the compiled kernel and in the slow oracle."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

from dodona.trusted.samplers import compiled
from dodona.trusted.samplers.draw import decide_values, numpy_values
from dodona.trusted.samplers.law import REJECTED, DiscreteLaw, prepare_table
from tests.trusted.samplers.adversary import NAMES, SCALES, Adversary, Case, Replay, Tape, product_law, random_scale
from tests.trusted.samplers.oracle import Noise, meaning_of

KERNELS = (numpy_values, compiled.values)
NOISES = [Noise(name, scale) for name in NAMES for scale in SCALES]


@dataclass
class Count:
    """What a comparison went through."""

    sequences: int = 0
    exact: int = 0
    """Decisions that the kernels left to integers."""
    more: int = 0
    """Words asked for because the first ones did not decide."""


def compared(noise: Noise, cases: list[Case], rng: np.random.Generator, law: DiscreteLaw | None = None) -> Count:
    """Assert that both kernels and the oracle agree on every case, and on how many words they ask for."""
    law = law or product_law(noise)
    meaning, tape = meaning_of(noise), Tape(rng)
    wanted = np.empty(len(cases), dtype=np.int64)
    for index, case in enumerate(cases):
        tape.load(case.plan)
        value = meaning.value(case.words, tape.more)
        wanted[index] = REJECTED if value is None else value
    words = np.array([case.words for case in cases], dtype=np.uint64).T.copy()
    count = Count(len(cases), 0, len(tape.given))
    for kernel in KERNELS:
        replay = Replay(tape.given)
        decided = decide_values(law, words, replay.more, kernel=kernel)
        wrong = np.flatnonzero(decided != wanted)
        assert wrong.size == 0, (noise, kernel.__name__, cases[wrong[0]], decided[wrong[0]], wanted[wrong[0]])
        assert replay.left == [], (noise, kernel.__name__)
        count.exact += kernel(prepare_table(law), words)[1].size
    return count


def cases_of(noise: Noise, thresholds: int, wide: int, rng: np.random.Generator) -> list[Case]:
    return list(Adversary(meaning_of(noise), rng).cases(thresholds, wide))


@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: f"{noise.name}-{noise.scale}")
def test_kernels_and_oracle_agree_on_words_chosen_badly(noise: Noise):
    rng = np.random.default_rng(1)
    count = compared(noise, cases_of(noise, 6, 10, rng), rng)
    assert count.sequences >= 30
    assert count.exact >= 20
    assert count.more >= 10


@pytest.mark.parametrize("seed", range(6))
def test_kernels_and_oracle_agree_for_scales_drawn_at_random(seed: int):
    rng = np.random.default_rng([2, seed])
    for name in NAMES:
        noise = Noise(name, random_scale(rng))
        assert compared(noise, cases_of(noise, 4, 6, rng), rng).exact >= 20


def many(part: int, sequences: int, sizes: tuple[int, int] = (24, 60)) -> Count:
    """What so many comparisons went through, by sizes of `cases_of`; odd and even parts have every other noise."""
    rng = np.random.default_rng([3, part])
    noises = [*NOISES, *(Noise(name, random_scale(rng)) for name in NAMES for _ in range(8))]
    total = Count()
    while total.sequences < sequences:
        for noise in noises[part % 2 :: 2]:
            count = compared(noise, cases_of(noise, *sizes, rng), rng)
            total.sequences += count.sequences
            total.exact += count.exact
            total.more += count.more
    return total


@pytest.mark.slow
@pytest.mark.share(2)
@pytest.mark.parametrize("part", range(2))
def test_kernels_and_oracle_agree_on_many_word_sequences(part: int):
    """Two parts of 2,000 and more, none of them drawn blindly; the soak has 10^6."""
    total = many(part, 2_000, (6, 15))
    assert total.exact >= 1_200
    assert total.more >= 120


@pytest.mark.soak
@pytest.mark.parametrize("part", range(6))
def test_kernels_and_oracle_agree_on_a_million_word_sequences(part: int):
    """Six parts of 170,000 and more make 10^6 word sequences, none of them drawn blindly."""
    total = many(part, 170_000)
    assert total.exact >= 100_000
    assert total.more >= 10_000


@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: f"{noise.name}-{noise.scale}")
def test_ordinary_words_agree_too_and_are_seldom_left_to_integers(noise: Noise):
    """1,000 words of a seeded generator; a doubt has probability 2^-28 at the largest scale and less below."""
    rng = np.random.default_rng(4)
    law = product_law(noise)
    words = rng.integers(0, 1 << 64, size=(law.words, 1_000), dtype=np.uint64)
    cases = [Case(tuple(column)) for column in words.T.tolist()]
    assert compared(noise, cases, rng).exact <= 2


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("scale", [Fraction(7, 3), Fraction(1000)])
def test_a_law_that_is_off_by_a_trillionth_is_noticed(name: str, scale: Fraction):
    rng = np.random.default_rng(5)
    noise = Noise(name, scale)
    wrong = product_law(Noise(name, scale * (1 + Fraction(1, 10**12))))
    cases = cases_of(noise, 10, 20, rng)
    compared(noise, cases, rng)
    with pytest.raises((AssertionError, IndexError)):
        compared(noise, cases, rng, wrong)
