"""A search returns an end at which its condition holds, whatever rounding does."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dodona.lab.adaptive.answerable import largest_integer
from dodona.numbers import largest_number, minimize_unimodal, smallest_integer, smallest_number


@given(low=st.integers(-50, 50), length=st.integers(1, 100), place=st.integers(-60, 160))
def test_integers_are_found_exactly_and_ends_are_not_tried(low, length, place):
    high, tried = low + length, []

    def holds(number: int) -> bool:
        tried.append(number)
        return number >= place

    assert smallest_integer(holds, low, high) == min(max(place, low + 1), high)
    assert all(low < number < high for number in tried)
    tried.clear()
    assert largest_integer(lambda number: not holds(number), low, high) == min(max(place - 1, low), high)
    assert all(low < number <= high for number in tried)


def test_large_numbers_are_only_tried_where_the_result_is_large():
    tried = []
    assert largest_integer(lambda number: tried.append(number) or number <= 5, 0, 10**12) == 5
    assert max(tried) <= 16


@given(root=st.floats(1e-6, 1e6), near=st.sampled_from([1e-2, 1e-9, 1e-15]), geometric=st.booleans())
def test_the_number_returned_is_on_the_safe_side_and_near(root, near, geometric):
    low, high = (1e-9, 1e9) if geometric else (0.0, 1e9)
    above = smallest_number(lambda number: number >= root, low, high, near=near, geometric=geometric)
    below = largest_number(lambda number: number <= root, low, high, near=near, geometric=geometric)
    assert below <= root <= above
    slack = 1.02 * near * max(root, near) + math.ulp(root)
    assert above - root <= slack
    assert root - below <= slack


def test_where_the_condition_changes_nowhere_an_end_is_returned():
    assert smallest_number(lambda _: False, 0.0, 3.0, near=1e-9) == 3.0
    assert largest_number(lambda _: False, 2.0, 3.0, near=1e-9) == 2.0
    assert smallest_number(lambda _: True, 0.0, 3.0, near=1e-9) <= 1e-17
    assert smallest_number(lambda _: True, 2.0, 3.0, near=0.0) == math.nextafter(2.0, 3.0)


@given(place=st.floats(-5.0, 5.0))
def test_the_least_value_is_found_at_a_place_that_was_tried(place):
    tried = {}

    def valley(number: float) -> float:
        tried[number] = abs(number - place)
        return tried[number]

    least = minimize_unimodal(valley, -5.0, 5.0, near=1e-6)
    assert least in tried
    assert tried[least] == min(tried.values())
    assert least == pytest.approx(place, abs=1e-6)
