"""From codes to values: Arrow columns with the declared kinds, or with the types that the source has."""

import datetime as dt
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any, assert_never

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dodona.schema import attributes
from dodona.schema.attributes import Attribute, source_column_name
from dodona.schema.moments import seconds_since_epoch
from dodona.schema.schema import Domain

SourceTypes = Mapping[str, pa.DataType]
"""Types of Arrow by the name of a column in the source."""
_EPOCH = dt.date(1970, 1, 1).toordinal()
_EXACT_SINGLES = 1 << 24
_EXACT_DOUBLES = 1 << 53


def declared_type(attribute: Attribute) -> pa.DataType:
    """Return the type of a column by its declared kind alone."""
    match attribute:
        case attributes.Category():
            return pa.string()
        case attributes.Integer():
            return pa.int64()
        case attributes.Number():
            return pa.float64()
        case attributes.Date():
            return pa.date32()
        case attributes.Timestamp():
            return pa.timestamp("s")
        case attributes.Boolean():
            return pa.bool_()
        case _:
            assert_never(attribute)


def output_types(domain: Domain, source: SourceTypes | pa.Schema | None = None) -> dict[str, pa.DataType]:
    """Return the type of each column: the source's where that can hold all declared values, else the declared kind's.

    >>> from dodona.schema.attributes import Integer, Number
    >>> domain = Domain((Integer("age", 0, 110), Number("price", 0, 100, "0.01")))
    >>> types = output_types(domain, {"age": pa.int8(), "price": pa.decimal128(9, 2)})
    >>> str(types["age"]), str(types["price"])
    ('int8', 'decimal128(9, 2)')
    """
    known = {field.name: field.type for field in source} if isinstance(source, pa.Schema) else dict(source or {})
    types = {}
    for attribute in domain:
        wanted = known.get(source_column_name(attribute))
        fits = wanted is not None and _holds(wanted, attribute)
        types[attribute.name] = wanted if fits else declared_type(attribute)
    return types


def decode(attribute: Attribute, codes: NDArray[np.int64], kind: pa.DataType | None = None) -> pa.Array:
    """Return the values of codes; missing ones are null, as are those outside, but in categories these are a text."""
    wanted = declared_type(attribute) if kind is None else kind
    hidden = codes >= attribute.size
    inside = np.where(hidden, 0, codes)
    match attribute:
        case attributes.Category(labels=labels):
            dictionary = pa.array([*labels, attributes.OUTSIDE], type=pa.string())
            outside = codes == attribute.size + 1
            places = pa.array(np.where(outside, attribute.size, inside).astype(np.int32), mask=hidden & ~outside)
            array = pa.DictionaryArray.from_arrays(places, dictionary)
            return array if wanted == array.type else array.cast(_unpacked(wanted)).cast(wanted)
        case attributes.Integer(lower=lower):
            return _cast(pa.array(inside + lower, mask=hidden), wanted)
        case attributes.Number():
            return _numbers(attribute, inside, hidden, wanted)
        case attributes.Date(lower=first):
            days = (inside + (first.toordinal() - _EPOCH)).astype(np.int32)
            return _cast(pa.array(days, mask=hidden).cast(pa.date32()), wanted)
        case attributes.Timestamp(lower=start, step=step):
            seconds = inside * step + seconds_since_epoch(start)
            return _cast(pa.array(seconds, mask=hidden).cast(pa.timestamp("s")), wanted)
        case attributes.Boolean():
            return _cast(pa.array(inside == 1, mask=hidden), wanted)
        case _:
            assert_never(attribute)


def _numbers(
    attribute: attributes.Number, codes: NDArray[np.int64], hidden: NDArray[np.bool_], kind: pa.DataType
) -> pa.Array:
    """Return numbers on the declared grid: exact decimals, or the doubles nearest to them."""
    used, places = np.unique(codes, return_inverse=True)
    exact = [attribute.lower + int(code) * attribute.step for code in used]
    if pa.types.is_decimal(kind):
        listed = pa.array([_decimal(value, kind.scale) for value in exact], type=kind)
    else:
        listed = _cast(pa.array([float(value) for value in exact], type=pa.float64()), kind)
    return listed.take(pa.array(places.reshape(-1), mask=hidden))


def _decimal(value: Fraction, scale: int) -> Decimal:
    return Decimal(int(value * 10**scale)).scaleb(-scale)


def _cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    return values if values.type == kind else values.cast(kind)


def _unpacked(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _holds(kind: pa.DataType, attribute: Attribute) -> bool:
    """Return whether a type can hold all declared values of a column, as they are."""
    match attribute:
        case attributes.Category():
            text = _unpacked(kind)
            return bool(pa.types.is_string(text) or pa.types.is_large_string(text))
        case attributes.Integer(lower=lower, upper=upper):
            return _holds_numbers(kind, Fraction(lower), Fraction(upper), Fraction(1))
        case attributes.Number(lower=lower, upper=upper, step=step):
            return _holds_numbers(kind, lower, upper, step)
        case attributes.Date(lower=first, upper=last):
            return bool(pa.types.is_date(kind)) or _holds_times(kind, dt.datetime.combine(first, dt.time()), last)
        case attributes.Timestamp(lower=first, upper=last):
            return _holds_times(kind, first, last)
        case attributes.Boolean():
            return bool(pa.types.is_boolean(kind) or pa.types.is_integer(kind))
        case _:
            assert_never(attribute)


def _holds_numbers(kind: pa.DataType, lower: Fraction, upper: Fraction, step: Fraction) -> bool:
    most, whole = max(abs(lower), abs(upper)), (lower.denominator, step.denominator) == (1, 1)
    if pa.types.is_integer(kind):
        limits: Any = np.iinfo(kind.to_pandas_dtype())
        return whole and limits.min <= lower and upper <= limits.max
    if pa.types.is_float64(kind):
        return not whole or most <= _EXACT_DOUBLES
    if pa.types.is_float32(kind):
        return whole and most <= _EXACT_SINGLES  # a decimal fraction would show its rounding
    if pa.types.is_decimal(kind):
        finest = 10**kind.scale
        on_grid = (lower * finest).denominator == (step * finest).denominator == 1
        return bool(on_grid and most * finest < 10**kind.precision)
    return False


def _holds_times(kind: pa.DataType, first: dt.datetime, last: dt.date) -> bool:
    if not pa.types.is_timestamp(kind):
        return False
    return kind.unit != "ns" or (first.year >= 1678 and last.year <= 2261)  # noqa: PLR2004  as far as 64 bits reach
