"""The stated probabilities of Laplace and Gaussian noise, held to sums at high precision."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dodona.errors import InvalidArgument
from dodona.lab.mechanisms import Gaussian, Laplace
from tests.house.shares import examples

real = mpmath.MPContext()
real.prec = 200
SCALES = ["1/1000", "1/4", "999/1000", "1", "7/3", "10", "33", "1000", "65536/3"]
BOTH = pytest.mark.parametrize("kind", [Laplace, Gaussian])


def total(kind: type, scale: Fraction) -> mpmath.mpf:
    """Σ of all weights, by Jacobi's theta function or the geometric series."""
    width = real.mpf(scale.numerator) / scale.denominator
    if kind is Laplace:
        return 1 / real.tanh(1 / (2 * width))
    if width > 1000:  # the theta function's other side: what is missing is below e^(-2π²·10^6)
        return width * real.sqrt(2 * real.pi)
    return real.jtheta(3, 0, real.exp(-1 / (2 * width**2)))


def weight(kind: type, scale: Fraction, noise: int) -> mpmath.mpf:
    ratio = abs(noise) * real.mpf(scale.denominator) / scale.numerator
    return real.exp(-ratio if kind is Laplace else -(ratio**2) / 2)


@BOTH
@pytest.mark.parametrize("scale", SCALES)
def test_the_probability_is_the_weight_over_the_total(kind: type, scale: str):
    mechanism, width = kind(scale=scale), Fraction(scale)
    whole = total(kind, width)
    for noise in {0, 1, -1, 2, int(width), -int(width), int(5 * width), int(20 * width)}:
        wanted = weight(kind, width, noise) / whole
        # An exponent of a few hundred is rounded to 2^-53 of itself.
        assert mechanism.probability(noise) == pytest.approx(float(wanted), rel=1e-12, abs=1e-300), noise


@BOTH
def test_probabilities_are_even_and_sum_to_one(kind: type):
    mechanism = kind(scale="7/3")
    assert mechanism.probability(4) == mechanism.probability(-4)
    assert sum(mechanism.probability(x) for x in range(-200, 201)) == pytest.approx(1, abs=1e-12)


@BOTH
def test_far_noise_has_probability_zero(kind: type):
    assert kind(scale=1).probability(10**6) == kind(scale=1).probability(-(10**6)) == 0


@pytest.mark.parametrize(
    ("kind", "noise"),
    [(Laplace, 10**400), (Laplace, -(10**400)), (Gaussian, 10**200), (Gaussian, -(10**400))],
    ids=range(4),
)
def test_noise_beyond_all_measure_has_probability_zero(kind: type, noise: int):
    assert kind(scale=1).probability(noise) == 0


@BOTH
def test_a_scale_is_exact_and_equal_scales_are_equal_mechanisms(kind: type):
    assert kind(scale=0.1).scale == Fraction(1, 10)
    assert kind(scale="1/3") == kind(scale=Fraction(1, 3))
    assert hash(kind(scale="0.5")) == hash(kind(scale=0.5))
    assert Laplace(scale=1) != Gaussian(scale=1)


@BOTH
@settings(max_examples=examples(500), deadline=None)
@given(st.one_of(st.integers(max_value=0), st.floats(max_value=0), st.none(), st.booleans(), st.text(max_size=5)))
def test_a_wrong_scale_makes_no_mechanism(kind: type, scale: object):
    try:
        mechanism = kind(scale=scale)
    except InvalidArgument as error:
        assert error.argument == "scale"  # noqa: PT017
    else:
        assert isinstance(scale, str)
        assert mechanism.scale == Fraction(scale.strip())


def test_a_mechanism_cannot_be_changed():
    with pytest.raises(AttributeError):
        Laplace(scale=1).scale = Fraction(2)
    assert Laplace(scale=np.int64(2)).scale == 2
