"""Comparisons with literals, code by code."""

import datetime as dt
import operator
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dodona.errors import InvalidArgument, InvalidRequest
from dodona.query.column import OPERATORS, Column, LiteralValue, columns, comparison_mask, null_comparison_mask
from dodona.query.predicate import EVERYTHING, NOTHING, Among, among_mask, complement, conjunction, disjunction
from dodona.schema.attributes import (
    Attribute,
    Boolean,
    Category,
    Date,
    Integer,
    Number,
    code_label,
)
from dodona.schema.schema import Domain

AGE = Integer("age", -3, 12)
STAY = Number("stay", Fraction(-1), Fraction(2), Fraction(1, 4))
SEX = Category("sex", ["female", "male", "other"])
ADMITTED = Date("admitted", dt.date(2024, 2, 27), dt.date(2024, 3, 3))
EMERGENCY = Boolean("emergency")
PYTHON: dict[str, Callable[[object, object], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def one_by_one(attribute: Attribute, sign: str, value: object) -> int:
    """The values for which Python says that the comparison is true."""
    return sum(1 << code for code in range(attribute.size) if PYTHON[sign](code_label(attribute, code), value))


@given(sign=st.sampled_from(OPERATORS), value=st.fractions(min_value=-3, max_value=4, max_denominator=8))
def test_numbers_are_compared_as_exact_fractions_on_the_grid(sign: str, value: Fraction) -> None:
    if sign in {"=", "<>"} and (value * 4 % 1 != 0 or not -1 <= value <= 2):
        with pytest.raises(InvalidArgument):
            comparison_mask(STAY, sign, value)
    else:
        assert comparison_mask(STAY, sign, value) == one_by_one(STAY, sign, value)


@given(sign=st.sampled_from(OPERATORS), value=st.integers(-3, 12))
def test_whole_numbers_are_compared_by_value(sign: str, value: int) -> None:
    assert comparison_mask(AGE, sign, value) == one_by_one(AGE, sign, value)
    assert (
        comparison_mask(AGE, sign, Fraction(value))
        == comparison_mask(AGE, sign, float(value))
        == comparison_mask(AGE, sign, Decimal(value))
    )


@given(sign=st.sampled_from(OPERATORS[2:]), value=st.integers(-50, 50))
def test_whole_numbers_beyond_the_bounds_have_an_order_too(sign: str, value: int) -> None:
    assert comparison_mask(AGE, sign, value) == one_by_one(AGE, sign, value)


@given(sign=st.sampled_from(OPERATORS), value=st.dates(dt.date(2024, 2, 27), dt.date(2024, 3, 3)))
def test_days_are_compared_as_days_or_as_texts(sign: str, value: dt.date) -> None:
    assert comparison_mask(ADMITTED, sign, value) == one_by_one(ADMITTED, sign, value)
    assert comparison_mask(ADMITTED, sign, value.isoformat()) == one_by_one(ADMITTED, sign, value)


def test_days_beyond_the_bounds_have_an_order_and_equal_none() -> None:
    assert comparison_mask(ADMITTED, ">", "2023-01-01") == (1 << ADMITTED.size) - 1
    assert comparison_mask(ADMITTED, "<", dt.date(1, 1, 1)) == 0
    with pytest.raises(InvalidArgument, match="from 2024-02-27 to 2024-03-03"):
        comparison_mask(ADMITTED, "=", "2023-01-01")


@pytest.mark.parametrize("sign", OPERATORS)
@pytest.mark.parametrize("value", [False, True])
def test_false_is_before_true(sign: str, value: bool) -> None:  # noqa: FBT001  the value itself
    assert comparison_mask(EMERGENCY, sign, value) == one_by_one(EMERGENCY, sign, value)


@pytest.mark.parametrize("place", range(3))
def test_a_category_is_one_label_or_another_and_outside_is_another(place: int) -> None:
    text = SEX.labels[place]
    assert comparison_mask(SEX, "=", text) == 1 << place
    assert comparison_mask(SEX, "<>", text) == (0b111 ^ 1 << place) | 1 << SEX.outside_code


def test_the_two_further_cells_of_a_category_can_be_named() -> None:
    assert comparison_mask(SEX, "=", "<missing>") == 1 << SEX.missing_code
    assert comparison_mask(SEX, "=", "<outside>") == 1 << SEX.outside_code
    assert comparison_mask(SEX, "<>", "<outside>") == 0b111
    assert comparison_mask(SEX, "<>", "<missing>") == 0b111 | 1 << SEX.outside_code


@pytest.mark.parametrize("attribute", [AGE, STAY, ADMITTED, EMERGENCY])
def test_no_comparison_is_known_of_rows_without_a_value(attribute: Attribute) -> None:
    assert null_comparison_mask(attribute) == 0b11 << attribute.size
    assert null_comparison_mask(SEX) == 1 << SEX.missing_code


@pytest.mark.parametrize(
    ("attribute", "sign", "value", "words"),
    [
        (SEX, "=", "femal", "did you mean 'female'.*'female', 'male', 'other'"),
        (SEX, "=", "MALE ", "did you mean 'male'"),
        (SEX, "=", "xyz", "The labels of sex are 'female'"),
        (SEX, "<", "male", "no order"),
        (SEX, "=", 1, "holds texts"),
        (SEX, "=", True, "holds texts"),
        (Category("ward", [f"ward {number}" for number in range(30)]), "=", "x", "'ward 9' and 20 more"),
        (AGE, "=", Fraction(5, 2), "nearest on its grid are 2 and 3"),
        (AGE, "<>", 2.5, "nearest on its grid are 2 and 3"),
        (AGE, "=", 13, "from -3 to 12; what is beyond counts as the bound"),
        (AGE, "=", "12", "whole numbers from -3 to 12; write a number, without quotes"),
        (AGE, "=", True, "holds whole numbers"),
        (AGE, "<", dt.date(2024, 1, 1), "holds whole numbers"),
        (AGE, "<", float("nan"), "exact number"),
        (AGE, "<", float("inf"), "exact number"),
        (STAY, "=", Fraction(1, 3), "nearest on its grid are 0.25 and 0.5"),
        (STAY, "<", "1", "numbers in steps of 0.25 from -1 to 2"),
        (ADMITTED, "=", "27.2.2024", "holds days; write one such as '2024-02-27'"),
        (ADMITTED, "=", 20240227, "holds days"),
        (ADMITTED, "=", dt.datetime(2024, 2, 27, tzinfo=dt.UTC), "holds days"),
        (EMERGENCY, "=", 1, "holds true and false"),
        (EMERGENCY, "=", "yes", "holds true and false"),
        (AGE, "==", 1, "write one of = <> < <= > >="),
    ],
)
def test_a_comparison_that_means_nothing_teaches(
    attribute: Attribute, sign: str, value: LiteralValue, words: str
) -> None:
    with pytest.raises(InvalidArgument, match=words):
        comparison_mask(attribute, sign, value)


def test_columns_compare_as_sql_does() -> None:
    age = Column(AGE)
    for made, sign in (
        (age == 4, "="),
        (age != 4, "<>"),
        (age < 4, "<"),
        (age <= 4, "<="),
        (age > 4, ">"),
        (age >= 4, ">="),
    ):
        assert made == Among("age", AGE.cells, comparison_mask(AGE, sign, 4))
    assert age.between(2, 4) == conjunction(age >= 2, age <= 4)
    assert age.between(4, 2) == NOTHING
    assert age.isin([2, 4]) == disjunction(age == 2, age == 4)
    assert age.isin([]) == NOTHING
    assert age.is_missing() == among_mask(AGE, 1 << AGE.missing_code)
    assert age.is_outside() == among_mask(AGE, 1 << AGE.outside_code)


def test_predicates_are_joined_by_signs() -> None:
    age, sex = Column(AGE) > 4, Column(SEX) == "male"
    assert age & sex == conjunction(age, sex)
    assert age | sex == disjunction(age, sex)
    assert ~(age & sex) == complement(conjunction(age, sex))
    assert ~age == disjunction(Column(AGE) <= 4, Column(AGE).is_missing(), Column(AGE).is_outside())
    assert EVERYTHING & age == age
    assert ~NOTHING == EVERYTHING


def test_a_predicate_is_not_true_by_itself() -> None:
    """Otherwise `a and b`, and `2 < age < 4`, would silently mean b alone."""
    age = Column(AGE)
    with pytest.raises(InvalidRequest, match="Write & for and"):
        _ = (age > 2) and (age < 4)
    with pytest.raises(InvalidRequest, match="between"):
        _ = 2 < age < 4


def test_none_and_single_texts_are_refused_with_what_to_write() -> None:
    with pytest.raises(InvalidArgument, match="is_missing"):
        _ = Column(SEX) == None  # type: ignore[operator]  # noqa: E711
    with pytest.raises(InvalidArgument, match=r"\['male'\]"):
        Column(SEX).isin("male")


def test_the_columns_of_a_domain_are_found_by_name() -> None:
    c = columns(Domain((AGE, SEX)))
    assert (c.age >= 3) == (c["age"] >= 3)
    assert dir(c) == ["age", "sex"]
    assert repr(c) == "Columns(age, sex)"
    assert repr(c.sex) == "Column(sex)"
    with pytest.raises(AttributeError, match="the columns are age, sex"):
        _ = c.size
    with pytest.raises(InvalidArgument, match="age, sex"):
        _ = c["size"]
