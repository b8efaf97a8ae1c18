"""One mechanism on a given value: exact integers, lists and arrays, and nothing else."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dodona.errors import DodonaError, InvalidArgument
from dodona.lab import direct
from dodona.lab.mechanisms import Gaussian, Laplace
from tests.house.shares import examples
from tests.trusted.samplers.fit import ALARM, bins_of, p_value
from tests.trusted.samplers.oracle import Noise

MECHANISMS = pytest.mark.parametrize("mechanism", [Laplace(scale=3), Gaussian(scale=3)], ids=["laplace", "gaussian"])
SILENT = Laplace(scale="1/1000")
"""Its noise is 0 but with probability 2·e^-1000."""


@settings(max_examples=examples(1_000), deadline=None)
@given(st.integers(min_value=-(10**4000), max_value=10**4000))
def test_an_integer_of_any_size_is_kept_exactly(value: int):
    assert direct.run(SILENT, value) == value
    noisy = direct.run(Laplace(scale=3), value)
    assert type(noisy) is int
    assert abs(noisy - value) < 1000  # false alarm e^-333 an example


@pytest.mark.parametrize("kind", [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint64], ids=lambda k: k.__name__)
def test_a_numpy_integer_is_an_integer(kind: type[np.integer]):
    top = np.iinfo(kind).max
    released = direct.run(SILENT, kind(top))
    assert type(released) is int
    assert released == int(top)


@settings(max_examples=examples(500), deadline=None)
@given(st.lists(st.integers(min_value=-(2**62), max_value=2**62), min_size=1, max_size=50))
def test_lists_tuples_and_arrays_keep_their_order(values: list[int]):
    for given_as in (values, tuple(values), np.array(values)):
        released = direct.run(SILENT, given_as)
        assert released.dtype == np.int64
        assert released.tolist() == values


def test_what_is_given_is_not_changed():
    values = np.arange(1000)
    direct.run(Laplace(scale=1000), values)
    assert (values == np.arange(1000)).all()


@MECHANISMS
@pytest.mark.parametrize(
    "value",
    [
        1.0, math.nan, None, "1", b"1", True, False, np.bool_(1), np.float64(1), Fraction(1), 1j, {}, {1, 2}, {1: 2},
        [], (), np.array([]), np.array([], dtype=int), np.array(5.0), np.array(1), [1.0], [1, 2.5], [True], ["1"],
        [None], [[1, 2]], np.ones((2, 2), dtype=int), [2**62 + 1], [-(2**62) - 1], [2**200], [2**63, -1], object,
        np.array([2**63], dtype=np.uint64), [math.nan], [Fraction(1)], [[]],
        [[1], [1, 2]],
    ],
    ids=repr,
)  # fmt: skip
def test_other_values_are_refused(mechanism: Laplace | Gaussian, value: object):
    with pytest.raises(InvalidArgument, match=r"(?s)^value = .*Nothing was drawn\. Nothing was charged\.$"):
        direct.run(mechanism, value)


@pytest.mark.parametrize("mechanism", ["laplace", None, 3, Laplace], ids=repr)
def test_what_is_no_mechanism_is_refused(mechanism: object):
    with pytest.raises(DodonaError):
        direct.run(mechanism, 5)


@pytest.mark.distribution
@pytest.mark.parametrize("name", ["laplace", "gaussian"])
@pytest.mark.parametrize("scale", [Fraction(7, 3), Fraction(1000)])
def test_noise_follows_the_law_one_by_one_and_in_vectors(name: str, scale: Fraction):
    """200,000 draws each way, 8 comparisons at 10^-9; a scale 10% off is refused."""
    mechanism = {"laplace": Laplace, "gaussian": Gaussian}[name](scale=scale)
    noise = Noise(name, scale)
    singles = np.array([direct.run(mechanism, 10**6) for _ in range(200_000)]) - 10**6
    vector = direct.run(mechanism, np.arange(200_000)) - np.arange(200_000)
    bins = bins_of(noise, 200_000)
    for drawn in (singles, vector):
        assert p_value(bins.counts(drawn), bins.chances(noise)) > ALARM
        assert p_value(bins.counts(drawn), bins.chances(Noise(name, scale * Fraction(11, 10)))) < ALARM
