import datetime as dt
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dodona.errors import InvalidArgument
from dodona.numbers import format_decimal
from dodona.schema.attributes import (
    MISSING,
    OUTSIDE,
    Attribute,
    Boolean,
    Category,
    Date,
    Integer,
    Number,
    code_label,
    numeric_grid,
)

FIRST, LAST = dt.date(2024, 2, 28), dt.date(2024, 3, 1)
EACH: tuple[Attribute, ...] = (
    Category("sex", ["female", "male"]),
    Integer("age", -2, 2),
    Number("stay", "-0.5", 1, "0.5"),
    Date("admitted", FIRST, LAST),
    Boolean("emergency"),
)


@pytest.mark.parametrize(
    ("attribute", "values"),
    [
        (EACH[0], ["female", "male"]),
        (EACH[1], [-2, -1, 0, 1, 2]),
        (EACH[2], [Fraction(-1, 2), 0, Fraction(1, 2), 1]),
        (EACH[3], [FIRST, dt.date(2024, 2, 29), LAST]),
        (EACH[4], [False, True]),
    ],
)
def test_codes_stand_for_the_values_in_order_then_for_missing_and_outside(attribute: Attribute, values) -> None:
    assert [code_label(attribute, code) for code in range(attribute.cells)] == [*values, MISSING, OUTSIDE]
    assert code_label(attribute, attribute.missing_code) == MISSING
    assert code_label(attribute, attribute.outside_code) == OUTSIDE
    for code in (-1, attribute.cells):
        with pytest.raises(InvalidArgument, match="write a code"):
            code_label(attribute, code)


@pytest.mark.parametrize("attribute", EACH)
def test_the_grid_gives_the_value_of_each_code(attribute: Attribute) -> None:
    grid = numeric_grid(attribute)
    if isinstance(attribute, Category | Date):
        assert grid is None
    else:
        assert grid is not None
        values = [grid[0] + code * grid[1] for code in range(attribute.size)]
        assert values == [code_label(attribute, code) for code in range(attribute.size)]


@pytest.mark.parametrize(
    ("build", "argument"),
    [
        (lambda: Category("a", []), "labels"),
        (lambda: Category("a", "abc"), "labels"),
        (lambda: Category("a", ["x", ""]), "labels[1]"),
        (lambda: Category("a", ["x", "y", "x"]), "labels[2]"),
        (lambda: Category("a", [MISSING]), "labels[0]"),
        (lambda: Category("a", [3]), "labels[0]"),
        (lambda: Category("a", ["x\u200b"]), "labels[0]"),
        (lambda: Category("a b", ["x"]), "name"),
        (lambda: Boolean(""), "name"),
        (lambda: Boolean("\ufb01sh"), "name"),
        (lambda: Boolean(None), "name"),
        (lambda: Integer("a", 0, 0), "upper"),
        (lambda: Integer("a", 0, 2**24), "upper"),
        (lambda: Integer("a", 0.5, 3), "lower"),
        (lambda: Integer("a", True, 3), "lower"),  # noqa: FBT003
        (lambda: Integer("a", 2**53, 2**53 + 1), "upper"),
        (lambda: Integer("a", 0, 5, []), "bins"),
        (lambda: Integer("a", 0, 5, [1]), "bins"),
        (lambda: Integer("a", 0, 5, [0, 6]), "bins[1]"),
        (lambda: Integer("a", 0, 5, [0, 3, 3]), "bins[2]"),
        (lambda: Number("a", 0, 1, 0), "step"),
        (lambda: Number("a", 0, 1, "0.3"), "upper"),
        (lambda: Number("a", 1, 1, 1), "upper"),
        (lambda: Number("a", math.nan, 1, 1), "lower"),
        (lambda: Number("a", 0, 1, "1e-8"), "step"),
        (lambda: Number("a", 10**12, 10**12 + 1, "0.01"), "step"),
        (lambda: Date("a", LAST, FIRST), "upper"),
        (lambda: Date("a", dt.datetime(2024, 1, 1), LAST), "lower"),  # noqa: DTZ001
        (lambda: Date("a", FIRST, "2024-03-01"), "upper"),
    ],
)
def test_an_attribute_is_valid_or_not_at_all(build, argument: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        build()
    assert caught.value.argument == argument


def test_the_largest_attributes_are_taken() -> None:
    assert Integer("a", 0, 2**24 - 1).size == 2**24
    assert Number("a", 0, 2**24 - 1, 1).size == 2**24
    assert Date("a", dt.date.min, dt.date.max).size == dt.date.max.toordinal()


def test_the_finest_step_that_is_told_is_taken() -> None:
    with pytest.raises(InvalidArgument) as caught:
        Number("a", 0, 1, "1e-8")
    assert "5.96e-08 or more" in caught.value.accepted


@given(st.fractions())
def test_a_plain_number_means_the_number(number: Fraction) -> None:
    text = format_decimal(number)
    assert Fraction(text) == number
    assert "." not in text or not text.endswith("0")


@given(st.integers(-(10**9), 10**9), st.integers(0, 12))
def test_a_decimal_that_ends_is_written_as_one(digits: int, places: int) -> None:
    assert "/" not in format_decimal(Fraction(digits, 10**places))


def test_numbers_truths_and_days_of_numpy_mean_those_of_python() -> None:
    assert Integer("a", np.int64(0), np.int8(9), np.array([0, 5, 9])) == Integer("a", 0, 9, [0, 5, 9])
    narrow = Number("a", np.float32(0), np.float64(3), np.float32(0.1), otherwise=np.float32(0.2))
    assert narrow == Number("a", 0, 3, "0.1", otherwise="0.2")
    assert Boolean("a", otherwise=np.bool_(True)) == Boolean("a", otherwise=True)  # noqa: FBT003
    first, last = np.datetime64("2024-01-01"), np.datetime64("2024-12-31")
    numpys = Date("a", first, last, [first, np.datetime64("2024-07-01"), last], otherwise=first)
    days = (dt.date(2024, 1, 1), dt.date(2024, 12, 31))
    assert numpys == Date("a", *days, [days[0], dt.date(2024, 7, 1), days[1]], otherwise=days[0])
    assert {type(numpys.lower), type(numpys.otherwise)} == {dt.date}


def test_bins_are_kept_as_they_were_meant() -> None:
    assert Integer("age", 0, 110, [0, 18, 110]).bins == (0, 18, 110)
    assert Number("stay", 0, 5, "0.5", ["0", 1.5, 5]).bins == (0, Fraction(3, 2), 5)
    year = (dt.date(2024, 1, 1), dt.date(2024, 12, 31))
    assert Date("day", *year, "quarter").bins == "quarter"
    assert (Date("day", *year, "day").bins, Date("day", *year).bins) == (None, None)
    quarters = [year[0], dt.date(2024, 4, 1), dt.date(2024, 7, 1), dt.date(2024, 10, 1), year[1]]
    assert Date("day", *year, quarters) == Date("day", *year, "quarter")
