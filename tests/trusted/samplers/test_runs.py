"""Noise of many scales from one table: equal words mean what exact arithmetic says, and every scale has its own law.

There are 5 comparisons of 4·10^5 draws at least, each with a false-alarm rate of 10^-9.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from dodona.privacy.additive_noise import Gaussian, Laplace
from dodona.trusted.entropy import SYSTEM
from dodona.trusted.samplers.draw import TOPS, UnevenLaws, decide_uneven, draw_runs, draw_uneven, uneven_values
from dodona.trusted.samplers.law import REJECTED, gaussian_law, power_floor
from tests.trusted.samplers.fit import ALARM, MISS, bins_of, miss, p_value
from tests.trusted.samplers.oracle import Noise

SCALES = [Fraction(33), Fraction(64), Fraction(65), Fraction(1000), Fraction(65536, 3), Fraction(10**12)]
DIGITS = 90


@cache
def tops():
    """Return P(top ≤ k) for k = 0, 1, …, in decimals."""
    with localcontext() as context:
        context.prec = DIGITS
        weights = [(Decimal(-k * k) / 2048).exp() for k in range(700)]
        total, sums = sum(weights), []
        for weight in weights:
            sums.append((sums[-1] if sums else 0) + weight / total)
        return sums


def meant(scale, first, second, more):
    """Return what two words mean, from decimals alone; further digits of both uniform numbers are those of `more`."""
    with localcontext() as context:
        context.prec = DIGITS
        tail = Decimal(more) / Decimal(1 << 64)
        uniform = (Decimal(first >> 1) + tail) / (1 << 63)
        top = sum(1 for edge in tops() if edge <= uniform)
        shift = gaussian_law(scale**2).shift
        offset, fraction = second >> 64 - shift, second & ((1 << 64 - shift) - 1)
        magnitude = (top << shift) + offset
        excess = Fraction(magnitude**2) / (2 * scale**2) - Fraction(top**2, 2048)
        kept = (Decimal(fraction) + tail) / (1 << 64 - shift)
        if kept >= (Decimal(-excess.numerator) / Decimal(excess.denominator)).exp():
            return REJECTED
        return (-magnitude if magnitude else REJECTED) if first & 1 else magnitude


def bad_words(scale, number, rng):
    """Yield words whose fractions are near what decides, and words at thresholds of the table."""
    shift = gaussian_law(scale**2).shift
    bits = 64 - shift
    bounds = [int(edge * (1 << 63)) for edge in tops()[:40]]
    for _ in range(number):
        first = int(rng.integers(0, 1 << 64, dtype=np.uint64)) if rng.random() < 0.7 else 0
        if not first:
            first = (int(rng.choice(bounds)) + int(rng.integers(-1, 2))) << 1 | int(rng.integers(2))
        top = sum(1 for bound in bounds if bound <= first >> 1) if first >> 1 < bounds[-1] else 40
        offset = int(rng.integers(0, 1 << shift)) if rng.random() < 0.8 else 0
        magnitude = (top << shift) + offset
        excess = Fraction(magnitude**2) / (2 * scale**2) - Fraction(top**2, 2048)
        near = power_floor(excess, bits) + int(rng.integers(-2, 3))
        yield first, offset << bits | min(max(near, 0), (1 << bits) - 1)


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_doubles_and_integers_agree_with_decimals_on_words_chosen_badly(scale):
    rng = np.random.default_rng(5)
    laws = [gaussian_law(sigma**2) for sigma in SCALES]
    cases = list(bad_words(scale, 300, rng))
    words = np.array(cases, dtype=np.uint64).T.copy()
    which = np.full(len(cases), SCALES.index(scale))
    ready, more = UnevenLaws.of(laws), int(rng.integers(1, 1 << 63))
    values = decide_uneven(ready, which, words, lambda: more)
    assert uneven_values(ready, which, words)[1].size >= 100  # so many were left to integers
    wanted = [meant(scale, first, second, more) for first, second in cases]
    assert values.tolist() == wanted


def test_no_scale_is_wider_than_the_table():
    for law in (
        gaussian_law(Fraction(sigma) ** 2) for sigma in ("32.001", "33", "47.3", "63.999", "64", "64.001", "1e12")
    ):
        assert law.shift > 0
        assert law.quadratic * 4**law.shift >= TOPS.quadratic


@pytest.mark.distribution
def test_each_of_many_scales_follows_its_law_and_not_one_two_percent_off():
    scales = [Fraction(33), Fraction(57), Fraction(65), Fraction(1000), Fraction(10**9, 7)]
    draws = 400_000
    drawn = draw_uneven([gaussian_law(sigma**2) for sigma in scales], [draws] * len(scales), SYSTEM)
    for scale, values in zip(scales, drawn.reshape(len(scales), -1), strict=True):
        noise = Noise("gaussian", scale)
        bins = bins_of(noise, draws)
        counts, truth = bins.counts(values), bins.chances(noise)
        assert p_value(counts, truth) > ALARM
        for wrong in (scale * Fraction(102, 100), scale / Fraction(102, 100)):
            chances = bins.chances(replace(noise, scale=wrong))
            assert miss(draws, truth, chances) < MISS
            assert p_value(counts, chances) < ALARM


def test_runs_come_in_their_order_whatever_their_scale_and_law():
    """Noise above 10 scales has a probability below 10^-20, and two values below 10^-6 of a scale one of 10^-12."""
    noises = [Gaussian(scale=Fraction(10) ** (2 * power - 3)) for power in range(8)] + [
        Laplace(scale=Fraction(10) ** 11)
    ]
    runs = [(noise, count) for count in (1, 3, 2) for noise in noises]
    values = draw_runs(runs)
    assert len(values) == 6 * len(noises)
    start = 0
    for noise, count in runs:
        magnitudes = np.abs(values[start : start + count])
        assert (magnitudes <= 10 * float(noise.scale)).all() or isinstance(noise, Laplace)
        assert count == 1 or noise.scale < 100 or magnitudes.max() > float(noise.scale) / 1e6
        start += count


def test_many_scales_below_one_step_are_drawn_one_by_one():
    """Noise of scale 1/100 is 0 but for a probability below e^-5000."""
    noises = [Gaussian(scale=Fraction(1, 100 + number)) for number in range(12)]
    assert draw_runs([(noise, 2) for noise in noises]).tolist() == [0] * 24
