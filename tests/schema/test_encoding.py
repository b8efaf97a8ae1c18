import datetime as dt
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dodona.errors import InvalidArgument
from dodona.schema.attributes import (
    Attribute,
    Boolean,
    Category,
    Date,
    Integer,
    Number,
    code_label,
)
from dodona.schema.encoding import encode, encode_value

SEX = Category("sex", ["female", "male", "1"])
AGE = Integer("age", -10, 110)
STAY = Number("stay", "-1", "10", "0.25")
TENTHS = Number("tenths", "0.1", "1.1", "0.1")
DAY = Date("admitted", dt.date(2020, 1, 1), dt.date(2020, 12, 31))
EMERGENCY = Boolean("emergency")
EACH: tuple[Attribute, ...] = (SEX, AGE, STAY, TENTHS, DAY, EMERGENCY)
ZONE = dt.timezone(dt.timedelta(hours=5))
HUGE = 10**400
NOTHING = (
    None,
    math.nan,
    -math.nan,
    np.float32("nan"),
    Decimal("nan"),
    Decimal("sNaN"),
    np.datetime64("NaT"),
    pd.NaT,
    pd.NA,
)
M, O = "missing", "outside"  # noqa: E741

MEANINGS: tuple[tuple[Attribute, object, object], ...] = (
    (SEX, "male", "male"),
    (SEX, "Male", O),
    (SEX, " male", O),
    (SEX, "", O),
    (SEX, "<missing>", O),
    (SEX, "<outside>", O),
    (SEX, "nan", O),
    (SEX, "1", "1"),
    (SEX, 1, O),
    (SEX, True, O),
    (SEX, b"male", O),
    (SEX, np.str_("male"), "male"),
    (SEX, ["male"], O),
    (AGE, 65, 65),
    (AGE, -11, -10),
    (AGE, 111, 110),
    (AGE, 2.5, 2),
    (AGE, -2.5, -3),
    (AGE, -0.0, 0),
    (AGE, -1e-300, -1),
    (AGE, math.inf, 110),
    (AGE, -math.inf, -10),
    (AGE, HUGE, 110),
    (AGE, -HUGE, -10),
    (AGE, True, 1),
    (AGE, np.bool_(1), 1),
    (AGE, np.uint8(7), 7),
    (AGE, np.uint64(2**64 - 1), 110),
    (AGE, np.float16(7.5), 7),
    (AGE, Decimal("7.9"), 7),
    (AGE, Decimal("-1e999"), -10),
    (AGE, Decimal("4.99999999999999999999"), 5),
    (AGE, Fraction(15, 2), 7),
    (AGE, "65", 65),
    (AGE, " 65\t", 65),
    (AGE, "6.5e1", 65),
    (AGE, "2.5", 2),
    (AGE, "-.5", -1),
    (AGE, "1.", 1),
    (AGE, "1e999", 110),
    (AGE, "-Infinity", -10),
    (AGE, "NaN", M),
    (AGE, "", O),
    (AGE, "1_0", O),
    (AGE, "0x10", O),
    (AGE, "1,5", O),
    (AGE, "\u0661", O),
    (AGE, "\xa01", O),
    (AGE, "old", O),
    (AGE, "1\x00", O),
    (AGE, dt.date(2020, 1, 1), O),
    (AGE, 1j, O),
    (AGE, b"1", O),
    (STAY, 0.25, Fraction(1, 4)),
    (STAY, 0.249999, 0),
    (STAY, 0.2499999, Fraction(1, 4)),
    (STAY, -0.0, 0),
    (STAY, -1e-300, 0),  # lost in the subtraction of lower: the doubles -1e-300 + 1 and 1 are the same
    (STAY, -0.1, Fraction(-1, 4)),
    (STAY, 1e308, 10),
    (STAY, -math.inf, -1),
    (STAY, HUGE, 10),
    (STAY, 3, 3),
    (STAY, Decimal("0.75"), Fraction(3, 4)),
    (STAY, "0.75", Fraction(3, 4)),
    (STAY, "inf", 10),
    (STAY, "nan", M),
    (STAY, "three", O),
    (TENTHS, 0.5, Fraction(1, 2)),
    (TENTHS, 0.7, Fraction(7, 10)),  # although in doubles (0.7 - 0.1)/0.1 is below 6
    (DAY, dt.date(2020, 2, 29), dt.date(2020, 2, 29)),
    (DAY, dt.date(2019, 12, 31), O),
    (DAY, dt.date(2021, 1, 1), O),
    (DAY, dt.datetime(2020, 12, 31, 23, 59, 59, 999999), dt.date(2020, 12, 31)),  # noqa: DTZ001
    (DAY, dt.datetime(2020, 3, 1, 2, tzinfo=ZONE), dt.date(2020, 2, 29)),
    (DAY, dt.datetime(1, 1, 1, tzinfo=ZONE), O),
    (DAY, pd.Timestamp("2020-03-01T23:00"), dt.date(2020, 3, 1)),
    (DAY, np.datetime64("2020-03-01T23:59:59.999999999"), dt.date(2020, 3, 1)),
    (DAY, np.datetime64("2020-03"), dt.date(2020, 3, 1)),
    (DAY, np.datetime64(2**60, "Y"), O),
    (DAY, "2020-02-29", dt.date(2020, 2, 29)),
    (DAY, " 2020-02-29 ", dt.date(2020, 2, 29)),
    (DAY, "2020-02-29T23:59:59.5Z", dt.date(2020, 2, 29)),
    (DAY, "2020-02-29 10:00", dt.date(2020, 2, 29)),
    (DAY, "2020-02-30", O),
    (DAY, "2020-2-3", O),
    (DAY, "0000-01-01", O),
    (DAY, "20200203", O),
    (DAY, "2020-02-29T24:00", O),
    (DAY, "2020-02-29T10:00+05:00", O),
    (DAY, "2019-12-31", O),
    (DAY, 18262, O),
    (DAY, True, O),
    (EMERGENCY, True, True),
    (EMERGENCY, np.bool_(0), False),
    (EMERGENCY, 1, True),
    (EMERGENCY, -0.0, False),
    (EMERGENCY, 2, O),
    (EMERGENCY, 0.5, O),
    (EMERGENCY, math.inf, O),
    (EMERGENCY, HUGE, O),
    (EMERGENCY, Decimal("1.0"), True),
    *((EMERGENCY, text, True) for text in ("true", "TRUE", "tRuE", "t", "T", "yes", "Y", "1", " true ")),
    *((EMERGENCY, text, False) for text in ("false", "False", "f", "no", "N", "0", "0\n")),
    *((EMERGENCY, text, O) for text in ("", "on", "off", "2", "1.0", "01", "nan", "ye\u017f", "tru")),
    (EMERGENCY, dt.date(2020, 1, 1), O),
)


def meaning(attribute: Attribute, code: int) -> object:
    """What a code says, told apart from labels that look alike."""
    if code >= attribute.size:
        return M if code == attribute.missing_code else O
    return code_label(attribute, code)


@pytest.mark.parametrize(
    ("attribute", "value", "expected"), MEANINGS, ids=[f"{a.name}-{v!r:.30}" for a, v, _ in MEANINGS]
)
def test_each_value_means_what_is_written_down(attribute: Attribute, value: object, expected: object) -> None:
    (code,) = encode(attribute, [value]).tolist()
    assert (meaning(attribute, code), type(meaning(attribute, code)) is bool) == (expected, type(expected) is bool)


@pytest.mark.parametrize("attribute", EACH)
def test_nothing_is_missing_in_every_attribute(attribute: Attribute) -> None:
    assert encode(attribute, NOTHING).tolist() == [attribute.missing_code] * len(NOTHING)


ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-20, 120),
    st.floats(),
    st.floats(-20, 120),
    st.floats(width=32),
    st.decimals(),
    st.fractions(),
    st.text(),
    st.from_regex(r"[+-]?[0-9._eE+ -]{1,8}", fullmatch=True),
    st.sampled_from(["female", "male", "true", "NO", "inf", "nan"]),
    st.dates(),
    st.datetimes(),
    st.datetimes(timezones=st.just(ZONE)),
    st.dates().map(str),
    st.dates(dt.date(2019, 12, 1), dt.date(2021, 2, 1)),
    st.binary(),
    st.complex_numbers(),
    st.lists(st.integers()),
    st.tuples(st.text()),
    st.timedeltas(),
)


@settings(deadline=None)
@given(st.sampled_from(EACH), st.lists(ANYTHING, max_size=20))
def test_whatever_the_data_are_each_row_lands_in_exactly_one_cell_whatever_is_beside_it(attribute, values) -> None:
    codes = encode(attribute, values)
    assert codes.dtype == np.int64
    assert codes.shape == (len(values),)
    assert all(0 <= code < attribute.cells for code in codes)
    assert codes.tolist() == [encode_value(attribute, value) for value in values]


@settings(deadline=None)
@given(
    st.data(),
    st.sampled_from(
        ["?", "i1", "u1", "i8", "u8", "f2", "f4", "f8", "g", "M8[D]", "M8[ns]", "M8[Y]", "m8[s]", "U5", "S5", "c16"]
    ),
)
def test_an_array_of_one_type_means_the_same_as_its_values_one_by_one(data, dtype: str) -> None:
    from hypothesis.extra.numpy import arrays

    column = data.draw(arrays(np.dtype(dtype), st.integers(0, 30)))
    for attribute in EACH:
        assert encode(attribute, column).tolist() == [encode_value(attribute, value) for value in column]


@settings(deadline=None)
@given(st.sampled_from(EACH), st.data())
def test_the_value_of_a_code_is_encoded_as_this_code(attribute: Attribute, data) -> None:
    code = data.draw(st.integers(0, attribute.size - 1))
    value = code_label(attribute, code)
    assert encode(attribute, [value]).tolist() == [code]
    if not isinstance(attribute, Category):
        assert encode(attribute, [str(value) if not isinstance(value, Fraction) else str(float(value))]).tolist() == [
            code
        ]


@settings(deadline=None)
@given(st.integers(-(2**53), 2**53 - 1), st.integers(1, 100), st.integers(-200, 200))
def test_whole_numbers_are_exact_up_to_the_widest_bounds_whatever_type_holds_them(lower, width, offset) -> None:
    attribute = Integer("a", lower, min(lower + width, 2**53))
    number = lower + offset
    expected = min(max(number, attribute.lower), attribute.upper) - attribute.lower
    columns = ([number], [str(number)], [Decimal(number)], np.array([number]), np.array([number], dtype=np.float64))
    assert [encode(attribute, column).tolist() for column in columns] == [[expected]] * 5


def test_frames_tables_and_masks_are_taken_as_they_are() -> None:
    age = [1, None, 3]
    expected = [11, AGE.missing_code, 13]
    for column in (
        age,
        tuple(age),
        np.ma.masked_array([1, 2, 3], mask=[0, 1, 0]),
        pd.Series([1, None, 3]),
        pd.array([1, None, 3], dtype="Int64"),
        pa.array(age),
        pa.chunked_array([age[:1], age[1:]]),
        pa.array(["1", None, "3"]),
        pd.Series(["1", None, "3"], dtype="string"),
        np.array(["1", None, "3"], dtype=object),
    ):
        assert encode(AGE, column).tolist() == expected
    assert encode(DAY, pa.array([dt.date(2020, 1, 2), None])).tolist() == [1, DAY.missing_code]
    assert encode(EMERGENCY, pa.array([True, None])).tolist() == [1, EMERGENCY.missing_code]
    assert encode(SEX, pd.Series(["male", None], dtype="category")).tolist() == [1, SEX.missing_code]
    zoned = pd.Series(pd.to_datetime(["2020-03-01T02:00+05:00"]))
    assert encode(DAY, zoned).tolist() == encode(DAY, [dt.date(2020, 2, 29)]).tolist()


def test_a_long_column_is_encoded_to_its_end() -> None:
    column = np.arange(200_000) % 90
    assert (encode(AGE, column) == column + 10).all()
    assert (encode(AGE, column.astype(str)) == column + 10).all()
    assert encode(AGE, []).tolist() == []


@pytest.mark.parametrize("values", [np.zeros((2, 2)), "12", b"12", 12])
def test_what_is_not_one_column_is_refused(values) -> None:
    with pytest.raises(InvalidArgument, match="write one column"):
        encode(AGE, values)
