import dataclasses
import datetime as dt
import json

import pytest

from dodona.errors import InvalidArgument
from dodona.schema.attributes import Boolean, Category, Date, Integer, Number, source_column_name
from dodona.schema.file import load_schema
from dodona.schema.schema import Domain, Schema, Unit
from dodona.schema.toml import InvalidFile, TomlTable

COLUMNS = (
    Category("sex", ["female", "männlich"]),
    Integer("age", -1, 110, [-1, 18, 110]),
    Number("stay", "0.1", 365, "1/10"),
    Date("admitted", dt.date(2020, 1, 1), dt.date(2020, 12, 31)),
    Boolean("emergency"),
)
STAYS = Schema.of("stays", *COLUMNS, size=200_000, neighbours="replace", id="patient_id", rows=4)


def test_the_digest_is_of_one_permanent_spelling() -> None:
    assert STAYS.canonical() == (
        '{"columns":[{"kind":"category","labels":["female","m\\u00e4nnlich"],"name":"sex"},'
        '{"cuts":[0,19],"kind":"integer","lower":-1,"name":"age","upper":110},'
        '{"cuts":null,"kind":"number","lower":"1/10","name":"stay","step":"1/10","upper":"365"},'
        '{"cuts":null,"kind":"date","lower":"2020-01-01","name":"admitted","upper":"2020-12-31"},'
        '{"kind":"boolean","name":"emergency"}],"format":1,"table":"stays",'
        '"unit":{"id":"patient_id","neighbours":"replace","rows":4,"size":200000}}'
    )
    assert STAYS.digest == "f6b53428434ac350f52d431caab9f6c594eda0dfe9263c77df0fbb146621db69"


def test_any_other_declaration_has_another_digest() -> None:
    unit = {"neighbours": "replace", "size": 200_000, "id": "patient_id", "rows": 4}
    variants = [
        STAYS,
        dataclasses.replace(STAYS, table="visits"),
        *(
            dataclasses.replace(STAYS, unit=Unit(**(unit | change)))
            for change in ({"neighbours": "add-remove"}, {"size": 1}, {"id": "person"}, {"rows": 5})
        ),
        *(
            dataclasses.replace(STAYS, domain=Domain((changed, *COLUMNS[1:])))
            for changed in (
                Category("sex", ["männlich", "female"]),
                Category("gender", ["female", "männlich"]),
                Boolean("sex"),
                Integer("sex", 0, 1),
                Number("sex", 0, 1, 1),
                Integer("sex", 0, 1, [0, 1]),
            )
        ),
        dataclasses.replace(STAYS, domain=Domain(COLUMNS[::-1])),
        dataclasses.replace(STAYS, domain=Domain(COLUMNS[:-1])),
    ]
    assert len({variant.digest for variant in variants}) == len(variants)


def test_the_spelling_is_json_that_says_everything() -> None:
    assert [column["name"] for column in json.loads(STAYS.canonical())["columns"]] == list(STAYS.domain.names)


def test_a_schema_extends_another_where_columns_were_only_added_at_the_end() -> None:
    older = dataclasses.replace(STAYS, domain=Domain(COLUMNS[:3]))
    assert STAYS.extends(older)
    assert STAYS.extends(STAYS)
    assert not older.extends(STAYS)
    assert not STAYS.extends(dataclasses.replace(older, domain=Domain(COLUMNS[1:])))
    assert not STAYS.extends(dataclasses.replace(older, table="visits"))
    assert not STAYS.extends(dataclasses.replace(older, unit=Unit(neighbours="replace", size=1)))


def test_the_column_of_people_is_never_one_to_ask_about() -> None:
    with pytest.raises(InvalidArgument, match="never answered"):
        Schema.of("stays", Integer("Patient", 0, 9), size=10, id="patient")


@pytest.mark.parametrize("table", ["", "a b", "a.b.c", ".a", "1a", 3, "x" * 64])
def test_a_table_has_a_name(table: str) -> None:
    with pytest.raises(InvalidArgument, match="table"):
        Schema.of(table, Boolean("a"), size=10)


@pytest.mark.parametrize(
    ("changes", "argument"),
    [
        ({"neighbours": "swap"}, "neighbours"),
        ({"size": 0}, "size"),
        ({"size": 1.5}, "size"),
        ({"rows": 0}, "rows"),
        ({"rows": 2}, "rows"),
        ({"id": "", "rows": 2}, "id"),
        ({"id": "a\n", "rows": 2}, "id"),
        ({"id": 3, "rows": 2}, "id"),
    ],
)
def test_a_unit_is_valid_or_not_at_all(changes, argument: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        Unit(**({"neighbours": "replace", "size": 10} | changes))
    assert caught.value.argument == argument


def test_names_differ_not_only_in_capitals() -> None:
    with pytest.raises(InvalidArgument, match="capitals make no difference"):
        Domain((Boolean("a"), Boolean("A")))


def test_the_algebra_of_domains_keeps_order_and_refuses_contradictions() -> None:
    domain = STAYS.domain
    assert domain.shape == (4, 114, 3652, 368, 4)
    assert domain.size == 4 * 114 * 3652 * 368 * 4
    assert domain.project(["emergency", "sex"]).names == ("sex", "emergency")
    assert domain.project([]).size == 1
    assert domain.project(["age", "sex"]).merge(domain.project(["emergency", "sex"])).names == (
        "sex",
        "age",
        "emergency",
    )
    assert "age" in domain
    assert "Age" not in domain
    assert list(domain) == list(COLUMNS)
    with pytest.raises(InvalidArgument, match="declare it differently"):
        domain.merge(Domain((Boolean("sex"),)))
    with pytest.raises(InvalidArgument, match="write one of sex, age"):
        domain["weight"]


def test_the_name_in_the_data_is_a_part_of_the_schema_where_there_is_another_one():
    plain = Schema.of("t", Integer("age", 0, 9), size=9)
    assert Schema.of("t", Integer("age", 0, 9, source="age"), size=9).digest == plain.digest
    assert Schema.of("t", Integer("age", 0, 9, source="Age"), size=9).digest != plain.digest
    for wrong in ("", "a\nb", "a\0b", "x" * 201, 7):
        with pytest.raises(InvalidArgument, match="source"):
            Integer("age", 0, 9, source=wrong)


def test_no_column_is_read_from_the_one_that_tells_people_apart():
    with pytest.raises(InvalidArgument, match="never answered"):
        Schema.of("t", Integer("age", 0, 9, source="Patient"), size=9, id="patient", rows=2)
    with pytest.raises(InvalidFile, match="never answered"):
        load_schema(
            TomlTable.parse(
                """
                source.table = "stays"
                unit = {protects = "person", id = "who", rows = 2, neighbours = "add-remove", size = 200_000}
                columns.age = {kind = "integer", lower = 0, upper = 110, source = "who"}
                """,
                file="stays.toml",
            )
        )


def test_a_dataset_file_names_the_column_in_the_data():
    text = """
    source.table = "stays"
    unit = {protects = "row", neighbours = "add-remove", size = 200_000}
    columns.hours = {kind = "integer", lower = 0, upper = 110, source = "hours-per-week"}
    columns.sex = {kind = "category", labels = ["f"], source = ">50K"}
    columns.b = {kind = "boolean", source = "b c"}
    """
    schema = load_schema(TomlTable.parse(text, file="stays.toml"))
    assert [source_column_name(attribute) for attribute in schema.domain] == ["hours-per-week", ">50K", "b c"]
    with pytest.raises(InvalidFile, match="source is a whole number"):
        load_schema(TomlTable.parse(text.replace('"b c"', "7"), file="stays.toml"))
