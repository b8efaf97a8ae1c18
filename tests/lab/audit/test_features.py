"""Features are exact functions of what a mechanism tells."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dodona.lab.audit import features
from dodona.lab.audit.features import (
    DIFFERENCE,
    INDEX,
    LOWEST_BIT,
    PATTERN,
    PATTERN_AND_ANSWER,
    VALUE,
    comparison,
    pair,
    tally,
)

RUNS = np.array(
    [
        [[0, 0, 0], [1, 4, 9], [-1, 0, 0]],
        [[1, 2, 7], [1, 4, 9], [-1, 0, 0]],
        [[0, 0, 0], [0, 0, 0], [0, 0, 0]],
        [[0, 0, 0], [1, 4, 8], [-1, 0, 0]],
    ]
)
"""Four runs of a sparse vector with three questions: (above, gap, answer)."""


@given(st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=False).filter(bool))
def test_the_lowest_bit_of_a_double_is_found(value: float):
    numerator, denominator = value.as_integer_ratio()
    expected = (numerator & -numerator).bit_length() - denominator.bit_length()
    assert LOWEST_BIT.of(np.array([value]))[0] - LOWEST_BIT.of(np.array([1.0]))[0] == expected


def test_zero_has_no_lowest_bit():
    codes = LOWEST_BIT.of(np.array([0, 1, 2, 4, 12]))
    assert np.diff(codes[1:4]).tolist() == [1, 1]
    assert codes[3] == codes[4]
    assert codes[0] not in codes[1:]


def test_a_value_is_itself_and_a_double_is_rounded_down():
    assert VALUE.of(np.array([-3, 2])).tolist() == [-3, 2]
    assert VALUE.of(np.array([-2.5, 2.5])).tolist() == [-3, 2]
    assert VALUE.of(np.array([True, False])).tolist() == [1, 0]


@given(st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), min_size=1, unique=True))
def test_different_pairs_have_different_codes(rows: list[tuple[int, int]]):
    assert np.unique(pair(9).of(np.array(rows))).size == len(rows)


def test_what_is_beyond_reach_is_taken_as_the_edge():
    codes = pair(3).of(np.array([[3, -3], [100, -100], [3, -2]]))
    assert codes[0] == codes[1] != codes[2]


def test_pairs_are_compared_and_subtracted():
    rows = np.array([[5, 6], [4, 6], [5, 5]])
    assert DIFFERENCE.of(rows).tolist() == [-1, -2, 0]
    assert INDEX.of(rows).tolist() == [5, 4, 5]
    assert comparison(5, 6).of(rows).tolist() == [3, 2, 1]


def test_patterns_tell_verdicts_and_where_it_halted():
    codes = PATTERN.of(RUNS)
    assert codes[0] == codes[3]
    assert np.unique(codes).size == 3


def test_patterns_with_a_number_tell_the_last_positive_one():
    codes = PATTERN_AND_ANSWER.of(RUNS)
    assert np.unique(codes).size == 4
    assert codes[0] - codes[3] == 1


def test_a_tally_counts_positives_of_two_groups():
    codes = tally((True, False, False)).of(RUNS)
    assert codes[0] == codes[3]
    assert np.unique(codes).size == 3


@pytest.mark.parametrize("feature", [value for value in vars(features).values() if isinstance(value, features.Feature)])
def test_codes_are_integers(feature: features.Feature):
    outputs = RUNS if feature.name.startswith("pattern") else RUNS[:, 0, :2]
    assert feature.of(outputs).dtype == np.int64
