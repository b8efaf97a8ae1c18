"""Columns without `<missing>` and `<outside>`: what is no declared value counts as the one that `otherwise` names."""

from __future__ import annotations

import dataclasses
import datetime as dt
import pickle
from fractions import Fraction

import numpy as np
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
from dodona.schema.file import load_schema
from dodona.schema.partition import Partition, group_label
from dodona.schema.schema import Domain, Schema
from dodona.schema.toml import TomlTable
from tests.engines.columns import completed
from tests.schema.mistakes import STAYS
from tests.schema.test_encoding import AGE, ANYTHING, DAY, EACH, EMERGENCY, NOTHING, SEX, STAY

FIRST, LAST = dt.date(2020, 1, 1), dt.date(2020, 1, 31)
COMPLETE: tuple[Attribute, ...] = (
    Category("sex", ["female", "male", "other"], otherwise="other"),
    Integer("age", 18, 110, [18, 65, 110], otherwise=18),
    Number("stay", 0, 365, "0.25", otherwise="7.5"),
    Date("admitted", FIRST, LAST, otherwise=LAST),
    Boolean("urgent", otherwise=False),
)


def two_readings(attribute: Attribute, code: int, codes: np.ndarray) -> list[int]:
    """The codes of the same column with `<missing>` and `<outside>`, with these two put into one cell by hand."""
    return [code if cell >= attribute.size else cell for cell in codes.tolist()]


@settings(deadline=None)
@given(st.sampled_from(EACH), st.data(), st.lists(ANYTHING | st.sampled_from(NOTHING), max_size=20))
def test_whatever_is_no_value_counts_as_the_named_one_and_values_as_themselves(attribute, data, values) -> None:
    code = data.draw(st.integers(0, attribute.size - 1))
    complete = completed(attribute, code)
    expected = two_readings(attribute, code, encode(attribute, values))
    assert encode(complete, values).tolist() == expected
    assert [encode_value(complete, value) for value in values] == expected
    assert all(0 <= number < complete.cells for number in expected)


@settings(deadline=None)
@given(
    st.data(),
    st.sampled_from(
        ["?", "i1", "u1", "i8", "u8", "f2", "f4", "f8", "g", "M8[D]", "M8[ns]", "M8[Y]", "m8[s]", "U5", "S5", "c16"]
    ),
)
def test_an_array_of_one_type_counts_the_same_way(data, dtype: str) -> None:
    from hypothesis.extra.numpy import arrays

    column = data.draw(arrays(np.dtype(dtype), st.integers(0, 30)))
    hidden = data.draw(arrays(np.bool_, len(column)))
    for attribute in EACH:
        code = data.draw(st.integers(0, attribute.size - 1))
        complete = completed(attribute, code)
        masked = np.ma.masked_array(column, mask=hidden)
        assert encode(complete, column).tolist() == two_readings(attribute, code, encode(attribute, column))
        assert encode(complete, masked).tolist() == two_readings(attribute, code, encode(attribute, masked))


@pytest.mark.parametrize("attribute", COMPLETE)
def test_nothing_counts_as_the_named_value_in_every_attribute(attribute: Attribute) -> None:
    assert encode(attribute, NOTHING).tolist() == [attribute.landing] * len(NOTHING)


@pytest.mark.parametrize("attribute", COMPLETE)
def test_there_are_as_many_cells_as_values_and_no_others(attribute: Attribute) -> None:
    assert attribute.cells == attribute.size
    assert (attribute.cells - attribute.size, attribute.missing_code, attribute.outside_code) == (0, None, None)
    assert code_label(attribute, attribute.landing) == attribute.otherwise
    with pytest.raises(InvalidArgument, match=f"from 0 to {attribute.size - 1}"):
        code_label(attribute, attribute.size)
    assert Domain((attribute,)).shape == (attribute.size,)


def test_the_named_value_is_kept_in_the_type_of_the_column() -> None:
    values = [attribute.otherwise for attribute in COMPLETE]
    assert values == ["other", 18, Fraction(15, 2), LAST, False]
    assert [type(value) for value in values] == [str, int, Fraction, dt.date, bool]
    assert [pickle.loads(pickle.dumps(attribute)) for attribute in COMPLETE] == list(COMPLETE)  # noqa: S301


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: Category("sex", ["a", "b"], otherwise="c"), "write one of the labels: 'a', 'b'"),
        (lambda: Category("sex", ["a", "b"], otherwise=1), "write one of the labels"),  # type: ignore[arg-type]
        (lambda: Category("sex", ["a", "b"], otherwise="<missing>"), "write one of the labels"),
        (lambda: Category("sex", ["a"], otherwise="a"), "write two labels or more"),
        (lambda: Category("sex", [f"l{i}" for i in range(12)], otherwise="x"), "'l9' and 2 more"),
        (lambda: Integer("age", 0, 110, otherwise=111), "write a whole number from 0 to 110"),
        (lambda: Integer("age", 0, 110, otherwise=-1), "write a whole number from 0 to 110"),
        (lambda: Integer("age", 0, 110, otherwise=2.5), "write a whole number from 0 to 110"),  # type: ignore[arg-type]
        (lambda: Integer("age", 0, 110, otherwise=True), "write a whole number from 0 to 110"),
        (lambda: Integer("age", 0, 110, otherwise="old"), "write a whole number"),  # type: ignore[arg-type]
        (lambda: Number("stay", 0, 2, "0.25", otherwise=0.3), "write a number from 0 to 2 in steps of 0.25"),
        (lambda: Number("stay", 0, 2, "0.25", otherwise=float("nan")), "write a number from 0 to 2 in steps of 0.25"),
        (lambda: Number("stay", 0, 20, "5", otherwise="21"), "write a whole number from 0 to 20 in steps of 5"),
        (lambda: Date("day", FIRST, LAST, otherwise=dt.date(2020, 2, 1)), "write a day from 2020-01-01 to 2020-01-31"),
        (lambda: Date("day", FIRST, LAST, otherwise=dt.datetime(2020, 1, 2)), "write a day"),  # noqa: DTZ001
        (lambda: Date("day", FIRST, LAST, otherwise="2020-01-02"), "write a day"),  # type: ignore[arg-type]
        (lambda: Boolean("urgent", otherwise=0), "write true or false"),  # type: ignore[arg-type]
        (lambda: Boolean("urgent", otherwise="no"), "write true or false"),  # type: ignore[arg-type]
    ],
)
def test_a_value_that_the_column_does_not_have_is_refused_with_what_to_write(build, words: str) -> None:
    with pytest.raises(InvalidArgument, match=words) as caught:
        build()
    assert caught.value.argument == "otherwise"


@pytest.mark.parametrize("attribute", COMPLETE)
def test_groups_are_those_of_the_values_alone(attribute: Attribute) -> None:
    for partition in (Partition.of(attribute), Partition.every(attribute, 2), Partition.every(attribute, 1)):
        assert partition.groups == len(partition.cuts)
        assert len(partition.table()) == partition.cells == attribute.size
        names = [group_label(partition, attribute, group) for group in range(partition.groups)]
        assert not {"<missing>", "<outside>"} & set(map(str, names))
        assert partition.span(partition.groups - 1)[1] == attribute.size
        with pytest.raises(InvalidArgument, match="group"):
            partition.span(partition.groups)


def test_a_partition_has_both_further_groups_or_neither() -> None:
    with pytest.raises(InvalidArgument, match="further"):
        Partition("age", 5, (0,), 1)


def test_bins_leave_the_named_value_as_it_is() -> None:
    assert Integer("age", -10, 110, [-10, 0, 110], otherwise=-7).otherwise == -7
    assert Number("stay", -1, 10, "0.25", ["-1", "0", "10"], otherwise="-0.25").otherwise == Fraction(-1, 4)
    assert Date("day", FIRST, LAST, "month", otherwise=dt.date(2020, 1, 4)).otherwise == dt.date(2020, 1, 4)


def test_a_schema_with_named_values_has_its_own_permanent_spelling() -> None:
    schema = Schema.of("stays", *COMPLETE, size=10)
    assert schema.canonical() == (
        '{"columns":[{"kind":"category","labels":["female","male","other"],"name":"sex","otherwise":"other"},'
        '{"cuts":[0,47],"kind":"integer","lower":18,"name":"age","otherwise":18,"upper":110},'
        '{"cuts":null,"kind":"number","lower":"0","name":"stay","otherwise":"15/2","step":"1/4","upper":"365"},'
        '{"cuts":null,"kind":"date","lower":"2020-01-01","name":"admitted","otherwise":"2020-01-31",'
        '"upper":"2020-01-31"},{"kind":"boolean","name":"urgent","otherwise":false}],"format":1,"table":"stays",'
        '"unit":{"id":null,"neighbours":"add-remove","rows":1,"size":10}}'
    )
    assert schema.digest == "cd51c70154379cfd8352668247b923a827fb25688ba3a387d4f5f5f31124d440"


@pytest.mark.parametrize("attribute", [SEX, AGE, STAY, DAY, EMERGENCY])
def test_to_name_a_value_or_another_one_makes_another_schema(attribute: Attribute) -> None:
    ways = (attribute, completed(attribute, 0), completed(attribute, 1))
    schemas = [Schema.of("stays", way, size=10) for way in ways]
    assert len({schema.digest for schema in schemas}) == 3
    for shorter in schemas:
        longer = Schema.of("stays", *shorter.domain, Boolean("late", otherwise=True), size=10)
        assert [longer.extends(other) for other in schemas] == [other is shorter for other in schemas]
    with pytest.raises(InvalidArgument, match="declare it differently"):
        schemas[0].domain.merge(schemas[1].domain)


OTHERWISE = (
    ('  "male",\n]\n', '  "male",\n]\notherwise = "male"\n', "sex", "male"),
    ("bins = [0, 18, 65, 110]\n", "bins = [0, 18, 65, 110]\notherwise = 0\n", "age", 0),
    ("step = 0.25\n", 'step = 0.25\notherwise = "2.5"\n', "stay", Fraction(5, 2)),
    ("step = 0.25\n", "step = 0.25\notherwise = 2.5\n", "stay", Fraction(5, 2)),
    ('bins = "month"\n', 'bins = "month"\notherwise = 2020-01-01\n', "admitted", dt.date(2020, 1, 1)),
    ('kind = "boolean"\n', 'kind = "boolean"\notherwise = false\n', "emergency", False),
)


@pytest.mark.parametrize(("old", "new", "name", "value"), OTHERWISE)
def test_a_dataset_file_names_the_value_in_its_column(old: str, new: str, name: str, value: object) -> None:
    plain = load_schema(TomlTable.parse(STAYS, file="stays.toml"))
    schema = load_schema(TomlTable.parse(STAYS.replace(old, new, 1), file="stays.toml"))
    assert schema.domain[name] == dataclasses.replace(plain.domain[name], otherwise=value)
    assert schema.domain[name] != plain.domain[name]
    assert [attribute for attribute in schema.domain if attribute.name != name] == [
        attribute for attribute in plain.domain if attribute.name != name
    ]
