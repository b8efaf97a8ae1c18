"""Odds just below e^ε, and comparisons with e^ε that no rounding can turn."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import pytest

from dodona.errors import InvalidArgument
from dodona.lab.local.odds import is_within, local_epsilon, loss_above, odds_below

EPSILONS = [Fraction(1, 10**6), Fraction(1, 3), Fraction(1), Fraction(7, 2), Fraction(50)]


def power(epsilon: Fraction, bits: int) -> int:
    """floor(2^bits·e^ε), with three times the digits that it needs."""
    with mpmath.workprec(3 * (bits + 80)):
        scaled = mpmath.exp(mpmath.mpf(epsilon.numerator) / epsilon.denominator) * mpmath.mpf(2) ** bits
        return int(mpmath.floor(scaled))


@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
@pytest.mark.parametrize("bits", [1, 64, 300])
def test_odds_are_the_first_binary_digits_of_the_power(epsilon: Fraction, bits: int):
    assert odds_below(epsilon, bits=bits) == Fraction(power(epsilon, bits), 1 << bits)


@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
@pytest.mark.parametrize("bits", [10, 63, 64, 65, 500])
def test_a_ratio_is_told_from_the_power_however_close_it_is(epsilon: Fraction, bits: int):
    just_below = Fraction(power(epsilon, bits), 1 << bits)
    assert is_within(just_below, epsilon)
    assert not is_within(just_below + Fraction(1, 1 << bits), epsilon)


@pytest.mark.parametrize("ratio", [Fraction(1), Fraction(10**9 + 1, 10**9), Fraction(3), Fraction(10**15)], ids=str)
def test_a_loss_is_just_above_the_logarithm(ratio: Fraction):
    loss = loss_above(ratio)
    assert is_within(ratio, loss)
    assert ratio == 1 or not is_within(ratio, loss - Fraction(1, 2**38))


@pytest.mark.parametrize("wrong", [0, -1, "0", 51, "1e-7", float("nan"), None, True])
def test_a_loss_that_hides_nothing_or_tells_nothing_is_refused(wrong):
    with pytest.raises(
        InvalidArgument, match=r"epsilon = .*from 10\^-6 to 50.*Nothing was drawn\. Nothing was charged"
    ):
        local_epsilon(wrong)
