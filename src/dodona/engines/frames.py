"""Frames as tables: pandas, polars and Arrow, converted to one form.

This module loads pyarrow, which questions about files do not need.
"""

from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa

from dodona.engines.cap import id_texts, number_people
from dodona.engines.cells import SourceUnfit
from dodona.schema.attributes import Attribute, Category, source_column_name
from dodona.schema.encoding import encode, fallback_codes
from dodona.schema.schema import Schema


def arrow_table(schema: Schema, frame: Any, *, plain_id: bool = False) -> tuple[pa.Table, frozenset[str]]:  # noqa: ANN401  of three libraries
    """Return the columns that a schema needs, under their declared names, and which of them already hold codes.

    A column of Python objects has no type, and none is guessed from its values: they are encoded here. With `plain_id`
    the column of people must hold texts or typed values, as people are looked up in other tables by it.
    """
    library = type(frame).__module__.partition(".")[0]
    person = schema.unit.id
    needed = {attribute.name: source_column_name(attribute) for attribute in schema.domain} | (
        {} if person is None else {person: person}
    )
    coded = set[str]()
    columns = dict[str, Any]()
    for name, own_name in needed.items():
        column = _column(frame, library, own_name)
        if library == "pandas" and str(column.dtype) == "object":
            known = name == person
            if known and plain_id:
                columns[name] = _text_ids(column.tolist())
                continue
            columns[name] = (
                _id_column(column.tolist()) if known else pa.array(encode(schema.domain[name], column.to_numpy()))
            )
            coded.add(name)
            continue
        array = _with_type(column, library)
        if pa.types.is_decimal256(array.type) and name != person:  # wider than DuckDB's decimals
            array = pa.array(encode(schema.domain[name], array.to_pylist()))
            coded.add(name)
        elif name != person and _has_many_labels(schema.domain[name]) and _is_text(array.type):
            array = _label_codes(schema.domain[name], array)
            coded.add(name)
        columns[name] = array.cast(pa.string()) if pa.types.is_decimal256(array.type) else array
    return pa.table(columns), frozenset(coded)


_MANY = 1 << 10
"""Labels of a column: with more of them they are looked up here, as a statement that lists them takes long to plan."""


def _has_many_labels(attribute: Attribute) -> bool:
    return isinstance(attribute, Category) and attribute.size > _MANY


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _label_codes(attribute: Attribute, texts: Any) -> pa.ChunkedArray:  # noqa: ANN401  an array, perhaps in chunks
    """Return the codes of texts: as `encode` does, but without a Python object for each."""
    import pyarrow.compute as pc

    missing, outside = fallback_codes(attribute)
    labels = pa.array(attribute.labels if isinstance(attribute, Category) else (), pa.large_string())
    places = pc.index_in(texts.cast(pa.large_string()), value_set=labels).cast(pa.int64())
    known = pc.fill_null(places, outside)
    return pc.if_else(pc.is_null(texts), pa.scalar(missing, pa.int64()), known)


def _text_ids(listed: list[object]) -> pa.Array:
    """Return ids that are all texts."""
    if all(who is None or isinstance(who, str) or who != who for who in listed):  # noqa: PLR0124  NaN is missing
        return pa.array([who if isinstance(who, str) else None for who in listed], pa.string())
    raise SourceUnfit("The column that identifies people holds values of several types. Use whole numbers or texts.")


def _id_column(listed: list[object]) -> pa.StructArray:
    """Return ids of any Python type: a number that identifies each, and the text that is hashed.

    The number depends on the order of the rows, so it may be used only to test equality.
    """
    numbers = number_people(listed)
    texts = id_texts(numbers, listed, np.flatnonzero(numbers >= 0))
    with suppress(pa.ArrowException, ValueError):
        text = pa.array([texts.get(number) for number in numbers.tolist()], pa.string())
        return pa.StructArray.from_arrays([pa.array(numbers), text], ["number", "text"], mask=pa.array(numbers < 0))
    raise SourceUnfit("The column that identifies people holds text that is not UTF-8. Use numbers or texts.")


def _column(frame: Any, library: str, name: str) -> Any:  # noqa: ANN401  of three libraries
    if library == "polars" and not hasattr(frame, "get_column"):
        raise SourceUnfit("The data are a lazy frame, which has no rows yet. Give frame.collect().")
    names = {"pandas": "columns", "polars": "columns", "pyarrow": "column_names"}.get(library)
    if names is None:
        raise SourceUnfit("The data are no frame. Give a table of pandas, polars or Arrow.")
    match list(getattr(frame, names)).count(name):
        case 0:
            raise SourceUnfit(f"The column {name} is declared, and the table does not have it. Add it to the table.")
        case 1:
            return frame.column(name) if library == "pyarrow" else frame[name]
        case _:
            raise SourceUnfit(f"The table has the column {name} more than once. Give each column its own name.")


def _with_type(column: Any, library: str) -> Any:  # noqa: ANN401  of three libraries
    with suppress(pa.ArrowException, ValueError, TypeError):
        match library:
            case "pandas":
                array = pa.chunked_array([pa.Array.from_pandas(column)])
            case "polars":
                array = column.to_arrow()
            case _:
                array = column
        if pa.types.is_dictionary(array.type):
            array = array.cast(array.type.value_type)
        if pa.types.is_float16(array.type):  # DuckDB has no such type; all of its values are floats
            array = array.cast(pa.float32())
        if pa.types.is_timestamp(array.type) and array.type.unit == "ns":
            array = array.cast(pa.timestamp("ns"))  # in UTC; with a zone, DuckDB would round to microseconds
        return array
    raise SourceUnfit("A column of the frame cannot be read. Use columns of numbers, texts, days or truths.")
