"""Powers of e as exact words, and the coins and thresholds made of them."""

from __future__ import annotations

from decimal import Context, Inexact, Rounded, localcontext
from fractions import Fraction

import numpy as np
import pytest

from dodona.lab import sampling
from dodona.lab.sampling import logistic_floor
from dodona.trusted.samplers.contest import ContestLaw, contest_winners
from dodona.trusted.samplers.law import law_thresholds, power_floor
from tests.trusted.samplers.adversary import ALL, NAMES, SCALES, Replay, product_law, random_scale
from tests.trusted.samplers.oracle import DEPTH, Noise, fixed, meaning_of, rational, real


def exponents(rng: np.random.Generator, count: int) -> list[Fraction]:
    """Rationals of every size from 10^-80 to 10^12, with terms of up to hundreds of bits."""
    rationals = [Fraction(n, d) for n in (1, 2, 7, 63, 64, 65, 127, 128, 700) for d in (1, 2, 3, 10**6)]
    while len(rationals) < count:
        denominator = int.from_bytes(rng.bytes(int(rng.integers(1, 40)))) + 1
        size = Fraction(10) ** int(rng.integers(-80, 12))
        rationals.append(size * Fraction(int(rng.integers(1, 1 << 60)) * denominator + 1, denominator) / (1 << 60))
    return rationals


def test_power_floor_is_the_floor_of_the_power():
    rng = np.random.default_rng(31)
    for exponent in exponents(rng, 4_000):
        bits = int(rng.choice([1, 29, 53, 63, 64, 127, 128, 300]))
        assert power_floor(exponent, bits) == fixed(real.exp(-rational(exponent)), bits), (exponent, bits)


def test_logistic_floor_is_the_floor_of_the_logistic_function():
    rng = np.random.default_rng(35)
    for epsilon in exponents(rng, 1_500):
        if epsilon <= 300:  # beyond, the oracle's own digits do not tell it from 1
            bits = int(rng.choice([1, 53, 64, 128, 300]))
            assert logistic_floor(epsilon, bits) == fixed(1 / (1 + real.exp(-rational(epsilon))), bits), (epsilon, bits)


def test_power_floor_of_zero_is_the_whole_and_of_much_is_nothing():
    for bits in (1, 63, 64, 319):
        assert power_floor(Fraction(0), bits) == 1 << bits
        for much in (bits, bits + 1, 10**6, 10**12):
            assert power_floor(Fraction(much), bits) == 0
    # The least exponents: the floor is the last word, however many digits it takes to see it.
    for digits in (30, 100, 400):
        assert power_floor(Fraction(1, 10**digits), 64) == ALL


@pytest.mark.parametrize(
    "context",
    [
        Context(prec=7, Emin=-95, Emax=96, clamp=1),
        Context(prec=1),
        Context(prec=2, traps=[Inexact, Rounded]),
        Context(prec=5, Emin=-999999, Emax=999999, traps=[Inexact]),
    ],
    ids=["decimal32", "one-digit", "traps", "trap-inexact"],
)
def test_the_decimal_context_of_the_caller_changes_nothing(context: Context):
    # InvalidOperation stays trapped, so that a fault shows as an error here and not as a loop without end.
    for bits in (64, 640, 1280):
        wanted = power_floor(Fraction(1, 3), bits)
        with localcontext(context):
            assert power_floor(Fraction(1, 3), bits) == wanted
    words = np.full(2, 77, dtype=np.uint64)
    with localcontext(context):
        replay = Replay([5] * 12 + [1, 200])
        winner = contest_winners(
            np.zeros(2), lambda _: Fraction(0), words[np.newaxis], replay.more, draw=ContestLaw.GUMBEL
        )[0]
    assert winner == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_thresholds_are_the_floors_of_the_cumulative_probabilities(name: str):
    rng = np.random.default_rng(32)
    for scale in (*SCALES, *(random_scale(rng) for _ in range(3))):
        noise = Noise(name, scale)
        law, meaning = product_law(noise), meaning_of(noise)
        assert law.shift == noise.shift
        for bits in (63, 127, 191):
            thresholds = law_thresholds(law, bits)
            last = (1 << bits) - 1
            wanted = [bound for bound in meaning.level(bits) if bound < last]
            assert list(thresholds) == [*wanted, last], (noise, bits)


def test_flips_compare_every_word_with_the_power():
    """Words at, next to and far from 2^64·e^-exponent; ties are read on, two words deep."""
    rng = np.random.default_rng(33)
    for exponent in exponents(rng, 1_500):
        power = fixed(real.exp(-rational(exponent)), DEPTH)
        first, second = power >> DEPTH - 64, power >> DEPTH - 128 & ALL
        words = [
            w for w in (first - 2, first - 1, first + 1, first + 2, 0, ALL, 1 << 63) if 0 <= w <= ALL and w != first
        ]
        third = power >> DEPTH - 192 & ALL
        plans: list[tuple[list[int], bool]] = []
        if second > 0:
            plans.append(([second - 1], True))
        if second < ALL:
            plans.append(([second + 1], False))
        if 0 < third < ALL:
            plans += [([second, third - 1], True), ([second, third + 1], False)]
        replay = Replay([word for plan, _ in plans for word in plan])
        drawn = np.array(words + [first] * len(plans), dtype=np.uint64)
        flips = sampling.flips(exponent, drawn, replay.more).tolist()
        assert flips == [word < first for word in words] + [below for _, below in plans], exponent
        assert replay.left == []


def test_an_exponent_of_zero_is_certain_and_asks_for_nothing():
    words = np.array([0, ALL, 1 << 63], dtype=np.uint64)
    assert sampling.flips(Fraction(0), words, Replay([]).more).all()


def test_a_threshold_that_is_off_by_one_unit_is_noticed():
    """The planted fault: a floor taken one too low."""
    rng = np.random.default_rng(34)
    wrong = [power_floor(e, 64) - 1 == fixed(real.exp(-rational(e)), 64) for e in exponents(rng, 100)]
    assert not any(wrong)
