"""Rounded normal noise: both kernels and a slow oracle agree on words chosen badly, and draws follow the law.

There are 14 comparisons of 10^6 draws, each with a false-alarm rate of 10^-9: together about 10^-8 a run.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

import mpmath
import numpy as np
import pytest

from dodona.privacy.additive_noise import RoundedGaussian
from dodona.trusted.entropy import SYSTEM
from dodona.trusted.samplers import compiled
from dodona.trusted.samplers.draw import (
    decide_rounded,
    decide_values,
    draw_many,
    draw_runs,
    draw_values,
    noise_law,
    numpy_values,
)
from dodona.trusted.samplers.law import REJECTED
from dodona.trusted.samplers.rounded import RoundedNormalLaw, RoundedTable, prepare_rounded
from tests.trusted.samplers.adversary import ALL, Case, Replay, Tape, random_scale
from tests.trusted.samplers.fit import ALARM, MISS, bins_of, miss, p_value
from tests.trusted.samplers.oracle import Noise

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

KERNELS = (numpy_values, compiled.values)
SCALES = (
    Fraction(1, 1000), Fraction(1, 4), Fraction(1), Fraction(7, 3), Fraction(33), Fraction(65536, 3), Fraction(10**6),
    Fraction(10**12),
)  # fmt: skip
OFF = Fraction(102, 100)

real = mpmath.MPContext()
real.prec = 1200


@lru_cache(maxsize=8)
def coarse(bits: int) -> list[int]:
    """Return floor(2^bits · P(top ≤ k)), where P(top) ∝ exp(-top²/2048), as a sum of hundreds of digits."""
    weights = [real.exp(-real.mpf(k * k) / 2048) for k in range(2400)]
    total = real.fsum(weights)
    thresholds, reached = [], real.mpf(0)
    for weight in weights:
        reached += weight
        thresholds.append(int(real.floor(real.ldexp(reached / total, bits))))
    return thresholds


def meant(scale: Fraction, words: tuple[int, ...], more: Callable[[], int], digits: int) -> int | None:
    """Return what words mean: a normal number in an interval that shrinks until it is decided and rounded."""
    word, bits = words[0] >> 1, 63
    while True:
        bounds = coarse(bits)
        top = bisect_right(bounds, word)
        if top == 0 or bounds[top - 1] != word:
            break
        word, bits = word << 64 | more(), bits + 64
    place, chance, rest = words[1] >> 64 - digits, words[1] & (1 << 64 - digits) - 1, 64 - digits

    def kept(at: Fraction) -> mpmath.mpf:
        excess = at * (2 * top + at) / 2048
        return real.exp(-real.mpf(excess.numerator) / excess.denominator)

    while True:
        low, high = kept(Fraction(place + 1, 1 << digits)), kept(Fraction(place, 1 << digits))
        if real.ldexp(real.mpf(chance + 1), -rest) <= low:
            break
        if real.ldexp(real.mpf(chance), -rest) >= high and high < 1:
            return None
        place, digits = place << 64 | more(), digits + 64
        chance, rest = chance << 64 | more(), rest + 64
    while True:
        near = scale * (top + Fraction(place, 1 << digits)) / 32 + Fraction(1, 2)
        far = scale * (top + Fraction(place + 1, 1 << digits)) / 32 + Fraction(1, 2)
        if near // 1 == far // 1 or far == near // 1 + 1:
            return -(near // 1) if words[0] & 1 else near // 1
        place, digits = place << 64 | more(), digits + 64


def cases(law: RoundedNormalLaw, rng: np.random.Generator, number: int) -> Iterator[Case]:
    """Yield words at, just below and just above thresholds, chances of being kept, and half-integers."""
    bounds, digits = coarse(63), law.digits
    rest = 64 - digits
    for _ in range(number):
        index = int(rng.integers(0, 290))
        first = int(rng.choice([bounds[index] + side for side in (-1, 0, 1)])) << 1 | int(rng.integers(0, 2))
        if rng.random() < 0.5:
            first = int(rng.integers(0, 1 << 64, dtype=np.uint64))
        top = bisect_right(bounds, first >> 1)
        place = int(rng.integers(0, 1 << digits))
        if rng.random() < 0.6:  # next to a half-integer of the multiple
            half = law.scale * (top + Fraction(place, 1 << digits)) / 32 // 1 + Fraction(1, 2)
            edge = (half * 32 / law.scale - top) * (1 << digits)
            place = min(max(int(edge) + int(rng.integers(-1, 2)), 0), (1 << digits) - 1)
        excess = Fraction(place, 1 << digits) * (2 * top + Fraction(place, 1 << digits)) / 2048
        chance = int(real.floor(real.ldexp(real.exp(-real.mpf(excess.numerator) / excess.denominator), rest)))
        chance = min(max(chance + int(rng.integers(-2, 2)), 0), (1 << rest) - 1)
        if rng.random() < 0.4:
            chance = int(rng.integers(0, 1 << rest))
        yield Case((first, place << rest | chance), tuple(int(word) for word in rng.choice([0, ALL], size=2)))


def compared(scale: Fraction, number: int, rng: np.random.Generator) -> tuple[int, int]:
    """Assert that both kernels and the oracle agree; return how often integers and further words decided."""
    law, tape = RoundedNormalLaw(scale), Tape(rng)
    chosen, wanted = list(cases(law, rng, number)), []
    for case in chosen:
        tape.load(case.plan)
        value = meant(scale, case.words, tape.more, law.digits)
        wanted.append(REJECTED if value is None else value)
    words = np.array([case.words for case in chosen], dtype=np.uint64).T.copy()
    exact = 0
    for kernel in KERNELS:
        replay = Replay(tape.given)
        decided = decide_values(law, words, replay.more, kernel=kernel)
        wrong = np.flatnonzero(decided != np.array(wanted))
        assert wrong.size == 0, (scale, kernel.__name__, chosen[wrong[0]], decided[wrong[0]], wanted[wrong[0]])
        assert replay.left == []
        exact += kernel(prepare_rounded(law), words)[1].size
    return exact, len(tape.given)


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_kernels_and_oracle_agree_on_words_chosen_badly(scale: Fraction):
    exact, more = compared(scale, 120, np.random.default_rng(1))
    assert exact >= 40
    assert more >= 10


@pytest.mark.parametrize("number", [30, pytest.param(5_000, marks=pytest.mark.soak)])
def test_kernels_and_oracle_agree_for_scales_drawn_at_random(number: int):
    rng = np.random.default_rng(2)
    for _ in range(8):
        compared(random_scale(rng), number, rng)


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_ordinary_words_are_seldom_left_to_integers(scale: Fraction):
    """20,000 words of a seeded generator; a doubt has probability 2^-12 at the largest scale and less below."""
    words = np.random.default_rng(4).integers(0, 1 << 64, size=(2, 20_000), dtype=np.uint64)
    assert numpy_values(prepare_rounded(RoundedNormalLaw(scale)), words)[1].size <= 40


def test_the_coarse_part_and_its_chance_of_being_kept_make_a_normal_number():
    """P(top)·E[kept] over a cell is the normal probability of the cell, up to the chance of an attempt."""
    context = mpmath.MPContext()
    context.prec = 200
    attempt = None
    for top in (0, 1, 31, 100, 250):
        weight = context.exp(-context.mpf(top * top) / 2048)
        kept = context.quad(lambda u, top=top: context.exp(-u * (2 * top + u) / 2048), [0, 1])
        cell = context.ncdf(context.mpf(top + 1) / 32) - context.ncdf(context.mpf(top) / 32)
        attempt = attempt or weight * kept / cell
        assert context.almosteq(weight * kept / cell, attempt, 1e-25)


@pytest.mark.distribution
@pytest.mark.parametrize("kernel", KERNELS, ids=["vector", "compiled"])
@pytest.mark.parametrize("scale", [Fraction(1, 4), Fraction(1), Fraction(7, 3), Fraction(33), Fraction(10**6)], ids=str)
def test_draws_follow_the_law_and_not_one_two_percent_off(scale, kernel):
    draws, noise = 1_000_000, Noise("rounded", scale)
    counts = (bins := bins_of(noise, draws)).counts(draw_values(RoundedNormalLaw(scale), draws, SYSTEM, kernel=kernel))
    truth = bins.chances(noise)
    assert p_value(counts, truth) > ALARM
    for wrong in (scale * OFF, scale / OFF):
        chances = bins.chances(replace(noise, scale=wrong))
        assert miss(draws, truth, chances) < MISS
        assert p_value(counts, chances) < ALARM


@pytest.mark.distribution
@pytest.mark.parametrize("scale", [Fraction(10), Fraction(10**12)], ids=str)
def test_the_mechanism_draws_its_own_law(scale: Fraction):
    """Two comparisons on the way of a release, each with a false-alarm rate of 10^-9."""
    noise = Noise("rounded", scale)
    counts = (bins := bins_of(noise, 200_000)).counts(draw_many(RoundedGaussian(scale=scale), 200_000))
    assert p_value(counts, bins.chances(noise)) > ALARM
    assert noise_law(RoundedGaussian(scale=scale)) == RoundedNormalLaw(scale)


def test_many_scales_at_once_have_the_values_of_each_alone():
    """Words chosen badly for eight scales: what is decided together is what each law decides."""
    rng = np.random.default_rng(6)
    laws = [RoundedNormalLaw(scale) for scale in SCALES]
    chosen = [(number, case) for number, law in enumerate(laws) for case in cases(law, rng, 40)]
    words = np.array([case.words for _, case in chosen], dtype=np.uint64).T.copy()
    which = np.array([number for number, _ in chosen])
    tape = Tape(rng)
    values = decide_rounded(laws, which, words, tape.more)
    replay, doubtful = Replay(tape.given), numpy_values(RoundedTable.of(laws, which), words)[1]
    for column, (number, case) in enumerate(chosen):
        more = replay.more if column in doubtful else Replay(()).more
        value = laws[number].decide(case.words, more)
        assert values[column] == (REJECTED if value is None else value)
    assert 40 <= doubtful.size <= len(chosen) - 40


@pytest.mark.distribution
def test_runs_of_many_scales_follow_their_laws():
    """16 scales of 12,000 values each, as residuals have them; one comparison with a false-alarm rate of 10^-9."""
    noises = [RoundedGaussian(scale=20 + number) for number in range(16)]
    drawn = draw_runs([(noise, 4_000) for noise in noises * 3])
    parts = np.split(drawn, 48)
    alarms = []
    for number, noise in enumerate(noises):
        law = Noise("rounded", noise.scale)
        values = np.concatenate(parts[number::16])
        counts = (bins := bins_of(law, values.size)).counts(values)
        alarms.append(p_value(counts, bins.chances(law)))
    assert min(alarms) > ALARM / 16
