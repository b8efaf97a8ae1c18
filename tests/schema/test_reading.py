import datetime as dt
from fractions import Fraction

import pytest

from dodona.errors import InvalidRequest
from dodona.schema.attributes import Boolean, Category, Date, Integer, Number
from dodona.schema.file import load_schema
from dodona.schema.schema import Domain, Neighbours, Schema, Unit
from dodona.schema.toml import InvalidFile, TomlTable
from tests.schema.mistakes import MISTAKES, STAYS


def read(text: str) -> Schema:
    return load_schema(TomlTable.parse(text, file="stays.toml"))


def refusal(text: str) -> InvalidFile:
    with pytest.raises(InvalidFile) as caught:
        read(text)
    return caught.value


def test_a_dataset_file_is_read_as_it_is_written() -> None:
    assert read(STAYS) == Schema(
        table="stays",
        domain=Domain(
            (
                Category("sex", ("female", "male")),
                Integer("age", 0, 110, (0, 18, 65, 110)),
                Number("stay", Fraction(0), Fraction(365), Fraction(1, 4), (0, 1, "3.5", 365)),
                Date("admitted", dt.date(2020, 1, 1), dt.date(2026, 12, 31), "month"),
                Boolean("emergency"),
            )
        ),
        unit=Unit(neighbours=Neighbours.ADD_REMOVE, size=200_000, id="patient_id", rows=4),
    )


def test_each_row_can_be_protected_by_itself() -> None:
    text = STAYS.replace('protects = "person"\nid = "patient_id"\nrows = 4\n', 'protects = "row"\n')
    unit = read(text).unit
    assert (unit.id, unit.rows) == (None, 1)


def test_a_file_read_from_disk_may_begin_with_a_byte_order_mark_and_end_its_lines_as_windows_does(tmp_path) -> None:
    path = tmp_path / "stays.toml"
    path.write_bytes(b"\xef\xbb\xbf" + STAYS.replace("\n", "\r\n").encode())
    assert load_schema(TomlTable.read(path)) == read(STAYS)


@pytest.mark.parametrize(("old", "new", "line", "words"), MISTAKES, ids=[words[-40:] for *_, words in MISTAKES])
def test_a_mistake_is_told_with_its_line_and_what_to_write(old: str, new: str, line: int, words: str) -> None:
    assert STAYS.count(old) >= 1
    fault = refusal(STAYS.replace(old, new, 1))
    matching = [mistake for mistake in fault.mistakes if words in mistake.message]
    assert [mistake.line for mistake in matching] == [line], str(fault)
    assert f"stays.toml:{line}: " in str(fault)
    assert str(fault).endswith("Nothing was charged.")


def test_there_are_many_mistakes_to_learn_from() -> None:
    assert len(MISTAKES) == len(set(MISTAKES)) >= 60


def test_all_mistakes_of_a_file_are_told_together_in_the_order_of_their_lines() -> None:
    text = STAYS
    expected = [
        ('table = "stays"', "table = 1", 5, "source.table"),
        ("rows = 4", "rows = 0", 9, "unit.rows"),
        ("size = 200_000", 'size = "many"', 11, "unit.size"),
        ('  "female"', "  3", 15, "columns.sex.labels[0]"),
        ('  "male"', "  4", 16, "columns.sex.labels[1]"),
        ("upper = 110", "uper = 110", 18, "columns.age.upper"),
        ("", "", 21, "columns.age.uper"),
        ("step = 0.25", "step = []", 27, "columns.stay.step"),
        ('bins = "month"', 'bins = "moon"', 33, "columns.admitted.bins"),
        ('kind = "boolean"', 'kind = "truth"', 35, "columns.emergency.kind"),
    ]
    for old, new, _, _ in expected:
        text = text.replace(old, new, 1)
    fault = refusal(text)
    assert [(mistake.line, mistake.key) for mistake in fault.mistakes] == [(line, key) for *_, line, key in expected]
    assert (fault.file, fault.line, fault.key) == ("stays.toml", 5, "source.table")
    assert str(fault).startswith("stays.toml has 10 mistakes.\nstays.toml:5: source.table is a whole number")
    assert isinstance(fault, InvalidRequest)


def test_a_unit_of_rows_has_no_column_of_people() -> None:
    fault = refusal(STAYS.replace('"person"', '"row"'))
    assert [(mistake.line, mistake.key) for mistake in fault.mistakes] == [(8, "unit.id"), (9, "unit.rows")]
    assert 'take it away, or write protects = "person"' in str(fault)


@pytest.mark.parametrize("columns", ["", "[columns]\n"])
def test_a_file_without_columns_is_refused(columns: str) -> None:
    text = STAYS[: STAYS.index("[columns.sex]")] + columns
    assert "write" in str(refusal(text))
    assert refusal(text).key == "columns"


def test_keys_of_the_root_and_the_source_are_left_to_their_readers() -> None:
    assert read(STAYS.replace('kind = "parquet"', 'kind = "parquet"\nlater = 1') + "[budget]\nepsilon = 1\n") == read(
        STAYS
    )
