"""Wrong arguments are refused before anything is drawn, with the argument, the value and what may be written."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dodona.errors import InvalidArgument
from dodona.lab import sampling
from dodona.trusted.entropy import Keystream
from tests.house.shares import examples


class Untouched:
    """A keystream whose source must not be asked."""

    def __init__(self) -> None:
        self.calls = 0
        self.stream = Keystream(source=self._source)

    def _source(self, size: int) -> bytes:
        self.calls += 1
        raise AssertionError(size)


def refused(call: Callable[[Keystream], object], argument: str) -> None:
    """Assert that a call is refused with a message that names the argument, and that nothing was drawn."""
    untouched = Untouched()
    with pytest.raises(InvalidArgument) as caught:
        call(untouched.stream)
    message = str(caught.value)
    assert message.startswith(f"{argument} = "), message
    assert "is not accepted: write" in message
    assert message.endswith("Nothing was drawn. Nothing was charged.")
    assert untouched.calls == 0


bad_scales = st.one_of(
    st.integers(max_value=0),
    st.integers(min_value=10**12 + 1, max_value=10**4000),
    st.floats(max_value=0.000999),
    st.floats(min_value=1.1e12),
    st.sampled_from([math.nan, math.inf, -math.inf, 5e-324, 1e-310, 1e308, 0.0, -0.0]),
    st.booleans(),
    st.none(),
    st.lists(st.integers(), max_size=3),
    st.sampled_from(["", "x", "1/0", "1e400", "-1", "nan", "inf", "1" * 5000, "1e-400", "0", "1.2.3", "1e13", "½"]),
    st.sampled_from([Decimal("NaN"), Decimal("Infinity"), Decimal("1E+9999999"), Decimal("1E-9999999"), Decimal(-1)]),
    st.fractions(max_value=Fraction(1, 1001)),
    st.builds(Fraction, st.just(1), st.integers(min_value=1001, max_value=10**4000)),
    st.sampled_from([np.float64("nan"), np.int64(0), np.int64(-5), np.bool_(1), np.array([1, 2]), np.float32(0)]),
    st.complex_numbers(),
    st.binary(max_size=4),
    st.dictionaries(st.integers(), st.integers(), max_size=2),
)


@settings(max_examples=examples(1_500), deadline=None)
@given(bad_scales, st.sampled_from([sampling.laplace, sampling.gaussian, sampling.geometric]))
def test_a_wrong_scale_is_refused(scale: object, sampler: Callable[..., object]):
    refused(lambda stream: sampler(scale, 5, stream=stream), "scale")


@settings(max_examples=examples(500), deadline=None)
@given(bad_scales)
def test_noisy_max_refuses_a_wrong_scale(scale: object):
    refused(lambda stream: sampling.noisy_max([1, 2], scale, stream=stream), "scale")


@settings(max_examples=examples(500), deadline=None)
@given(
    st.one_of(st.integers(max_value=-1), st.integers(min_value=2**40 + 1, max_value=2**4000), st.just(0.5), st.none())
)
def test_a_wrong_count_is_refused(count: object):
    for sampler in (sampling.laplace, sampling.gaussian, sampling.geometric, sampling.bernoulli):
        refused(lambda stream, sampler=sampler: sampler(1, count, stream=stream), "count")


@pytest.mark.parametrize("exponent", [-1, "-1/2", 10**13, math.nan, None, True, "x"], ids=repr)
def test_a_wrong_exponent_is_refused(exponent: object):
    refused(lambda stream: sampling.bernoulli(exponent, 5, stream=stream), "exponent")


CHOICES = pytest.mark.parametrize("choice", [sampling.choose, sampling.permute_and_flip], ids=["choose", "flip"])


@CHOICES
@pytest.mark.parametrize("scores", [[], (), np.array([]), np.array([], dtype=np.int64)], ids=repr)
def test_no_candidates_are_refused(choice: Callable[..., int], scores: object):
    refused(lambda stream: choice(scores, stream=stream), "scores")


@CHOICES
@pytest.mark.parametrize("score", [math.nan, math.inf, None, "x", [1], True, 10**13, 1j, Decimal("NaN")], ids=repr)
def test_a_wrong_score_is_refused_by_its_place(choice: Callable[..., int], score: object):
    refused(lambda stream: choice([1, score, 2], stream=stream), "scores[1]")


@CHOICES
def test_arrays_with_a_wrong_score_or_shape_are_refused(choice: Callable[..., int]):
    refused(lambda stream: choice(np.array([1.0, math.nan]), stream=stream), "scores[1]")
    refused(lambda stream: choice(np.array([[1, 2], [3, 4]]), stream=stream), "scores")
    refused(lambda stream: choice(np.array([[1.0, 2.0]]), stream=stream), "scores")
    refused(lambda stream: choice(np.array([True, False]), stream=stream), "scores[0]")
    refused(lambda stream: choice(np.array([2**62 + 1, 0]), stream=stream), "scores")
    refused(lambda stream: choice(np.array([2**63], dtype=np.uint64), stream=stream), "scores")
    refused(lambda stream: choice(np.array(3), stream=stream), "scores")


@CHOICES
@pytest.mark.parametrize("scores", [5, None, np.array(3.0), "123", {1: 2}, {1, 2}, 2.5], ids=repr)
def test_what_is_no_list_of_scores_is_refused(choice: Callable[..., int], scores: object):
    refused(lambda stream: choice(scores, stream=stream), "scores")


@pytest.mark.parametrize(
    "scores",
    [
        [], [1.0, 2.0], [True, False], ["1"], [None], [[1, 2]], [2**62 + 1], [-(2**62) - 1], [2**70], [2**63, -1],
        np.array(1), np.array([1.0]), 5, None, "12", [1, math.nan],
        [[1], [1, 2]],
    ],
    ids=repr,
)  # fmt: skip
def test_noisy_max_takes_a_flat_list_of_integers(scores: object):
    refused(lambda stream: sampling.noisy_max(scores, 1, stream=stream), "scores")


def test_the_limits_of_scores_and_scales_are_accepted():
    assert sampling.laplace("1/1000", 3).tolist() == [0, 0, 0]  # false alarm 6·e^-1000
    assert sampling.geometric(10**12, 3).min() >= 0
    assert sampling.gaussian(10**12, 0).size == 0
    assert sampling.noisy_max([2**62, -(2**62)], 10**12) == 0
    assert sampling.choose([Fraction(-(10**12)), 10**12]) == 1


def test_many_reports_of_a_count_in_any_writing_have_that_many_rows():
    for times in (3, 3.0, "3", np.int64(3)):
        assert sampling.noisy_maxima([1, 2], 1, times).shape == (3, 2)
