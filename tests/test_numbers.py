"""A number has one exact meaning, or it is refused."""

from __future__ import annotations

import math
import sys
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dodona.errors import InvalidArgument
from dodona.numbers import format_fraction, to_fraction, to_integer
from tests.house.shares import examples

FAR = Fraction(10**300)


def meant(value: object) -> Fraction:
    return to_fraction(value, argument="scale", lower=-FAR, upper=FAR)


@settings(max_examples=examples(1_000), deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e100, max_value=1e100))
def test_a_float_means_its_shortest_decimal(value: float):
    assume(value == 0 or abs(value) >= 1e-100)
    assert meant(value) == Fraction(Decimal(repr(value)))
    assert float(meant(value)) == value
    assert meant(np.float64(value)) == meant(value)


def test_decimals_and_ratios_mean_what_they_say():
    assert meant(0.1) == meant("0.1") == meant(Decimal("0.1")) == meant("1/10") == meant(" .1 ") == Fraction(1, 10)
    assert meant("+1e3") == meant(1000) == meant(np.int32(1000)) == meant("1000.") == 1000
    assert meant("-7/3") == Fraction(-7, 3)
    assert meant(-0.0) == 0


@settings(max_examples=examples(500), deadline=None)
@given(st.fractions(min_value=-(10**20), max_value=10**20, max_denominator=10**20))
def test_a_fraction_is_kept_in_every_writing(value: Fraction):
    assert meant(value) == meant(str(value)) == value
    assert meant(value.numerator) == value.numerator


@settings(max_examples=examples(500), deadline=None)
@given(st.decimals(allow_nan=False, allow_infinity=False, places=12, min_value=-(10**12), max_value=10**12))
def test_a_decimal_is_kept(value: Decimal):
    assert meant(value) == meant(str(value)) == Fraction(value)


@settings(max_examples=examples(1_000), deadline=None)
@given(st.text(max_size=30))
def test_text_that_is_no_number_is_refused(text: str):
    try:
        wanted = Fraction(text.strip())
    except (ValueError, ZeroDivisionError):
        with pytest.raises(InvalidArgument, match=r"^scale = "):
            meant(text)
    else:
        try:
            number = meant(text)
        except InvalidArgument:
            assert not text.isascii() or "_" in text or " " in text.strip() or wanted > FAR
        else:
            assert number == wanted


@pytest.mark.parametrize(
    "value",
    [
        True, False, np.True_, None, [1], (1,), {1: 2}, b"1", 1j, object, np.array(1.0), np.array([1]), float("nan"),
        math.inf, -math.inf, sys.float_info.min / 2, 5e-324, "nan", "inf", "", " ", "one", "1/0", "0/0", "1e99999",
        "1__0", "1_0", "0x10", "1,5", "1 / 2", "١", "1/2/3", "1e", "e1", ".", "-", "1" * 201, Decimal("NaN"),
        Decimal("sNaN"), Decimal("-Infinity"), Decimal("1E+9999999"), Decimal("1E-9999999"), np.float64("nan"),
        np.float64("inf"), Fraction(1, 2**513), Fraction(2**513 + 1, 2**513),
    ],
    ids=repr,
)  # fmt: skip
def test_what_has_no_exact_meaning_is_refused(value: object):
    with pytest.raises(
        InvalidArgument, match=r"^scale = .* is not accepted: .*Nothing was drawn\. Nothing was charged\.$"
    ):
        meant(value)


@pytest.mark.parametrize("value", [10**5000, -(10**5000), Fraction(1, 10**5000), Fraction(10**5000, 7)], ids=range(4))
def test_a_number_too_long_to_be_written_is_refused_like_any_other(value: object):
    with pytest.raises(InvalidArgument, match=r"^scale = "):
        to_fraction(value, argument="scale", lower=Fraction(1, 1000), upper=Fraction(10**12))


def test_the_limits_belong_to_the_range():
    limits = {"argument": "scale", "lower": Fraction(1, 3), "upper": Fraction(5)}
    assert to_fraction("1/3", **limits) == Fraction(1, 3)
    assert to_fraction(5, **limits) == 5
    for value in ("0.3333333333333333", "5.0000000000001", 0, -1):
        with pytest.raises(InvalidArgument, match="from 1/3 to 5"):
            to_fraction(value, **limits)


def test_a_whole_number_is_an_integer_in_any_writing():
    assert [to_integer(v, argument="count", lower=0, upper=10) for v in (3, 3.0, "3", np.int8(3), "6/2")] == [3] * 5
    for value in (-1, 11, 2.5, "1/2", None, True):
        with pytest.raises(InvalidArgument, match=r"^count = "):
            to_integer(value, argument="count", lower=0, upper=10)


@pytest.mark.parametrize(
    ("number", "text"),
    [(Fraction(10**12), "10^12"), (Fraction(1, 1000), "1/1000"), (Fraction(2**62), "2^62"), (Fraction(7, 3), "7/3")],
)
def test_numbers_are_shown_as_people_write_them(number: Fraction, text: str):
    assert format_fraction(number) == text


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_a_float_of_numpy_means_its_own_shortest_decimal(kind: type):
    assert to_fraction(kind(0.1), argument="scale", lower=Fraction(0), upper=Fraction(1)) == Fraction(1, 10)
    for value in (kind("nan"), kind("inf")):
        with pytest.raises(InvalidArgument, match=r"^scale = "):
            to_fraction(value, argument="scale", lower=Fraction(0), upper=Fraction(1))
