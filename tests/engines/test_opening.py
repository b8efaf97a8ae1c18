"""Opening a table: what the owner is told, what stays shut, and what a failure says."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

from dodona.engines.answers import fingerprint_files
from dodona.engines.cells import SourceUnfit
from dodona.engines.duckdb import DuckDBSource
from dodona.engines.memory import MemorySource
from dodona.errors import InvalidRequest, Unavailable
from dodona.query.predicate import among
from dodona.query.query import Query
from dodona.schema.attributes import Attribute, Boolean, Category, Date, Integer, Number
from dodona.schema.schema import Schema
from dodona.trusted.source import SourceFailed
from tests.engines.scene import values

AGE = Schema.of("t", Integer("age", 0, 9), size=10)
COUNT = Query.count(AGE.domain)


@pytest.fixture
def ages(tmp_path: Path) -> Path:
    path = tmp_path / "ages.parquet"
    pa.parquet.write_table(pa.table({"age": [1, 2, 3]}), path)
    return path


@pytest.mark.parametrize(
    ("attribute", "column"),
    [
        (Category("x", ["a"]), pa.array([1])),
        (Category("x", ["a"]), pa.array([True])),
        (Integer("x", 0, 1), pa.array([b"1"])),
        (Integer("x", 0, 1), pa.array([[1]])),
        (Number("x", 0, 1, 1), pa.array([0], pa.date32())),
        (Date("x", *(pd.Timestamp(day).date() for day in ("2024-01-01", "2024-01-02"))), pa.array([1])),
        (Boolean("x"), pa.array([0], pa.timestamp("us"))),
    ],
)
def test_a_type_that_cannot_be_meant_is_refused_when_the_table_is_opened(
    attribute: Attribute, column: pa.Array
) -> None:
    with pytest.raises(SourceUnfit, match=rf"x is declared as an? {attribute.kind}, and the table holds [A-Z]+"):
        DuckDBSource.frame(Schema.of("t", attribute, size=1), pa.table({"x": column}))


def test_a_column_that_is_not_there_is_named(ages: Path) -> None:
    schema = Schema.of("t", Integer("Age", 0, 9), size=10)
    with pytest.raises(SourceUnfit, match=r"The column Age is declared as an integer.*It has age"):
        DuckDBSource.parquet(schema, ages)
    with pytest.raises(SourceUnfit, match="The column Age is declared"):
        MemorySource(schema, {"age": [1]})
    with pytest.raises(SourceUnfit, match="the id of people"):
        DuckDBSource.parquet(Schema.of("t", Integer("age", 0, 9), size=9, id="who"), ages)


def test_nothing_where_the_path_points_is_an_invalid_request(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="No file is at"):
        DuckDBSource.parquet(AGE, tmp_path / "*.parquet")


@pytest.mark.parametrize("way", [DuckDBSource.parquet, DuckDBSource.csv, DuckDBSource.table])
def test_a_file_of_another_kind_is_refused_without_its_contents(way: Callable[..., object], tmp_path: Path) -> None:
    path = tmp_path / "rows"
    path.write_bytes(b'age\n"secret\xff\n1,2,3\n')
    with pytest.raises(SourceUnfit) as caught:
        way(AGE, path)
    assert "secret" not in "".join(traceback.format_exception(caught.value))


def test_lines_of_csv_with_more_fields_than_names_are_refused_when_opened(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("age\n1\n2,secret\n", encoding="utf-8")
    with pytest.raises(SourceUnfit, match="as many fields") as caught:
        DuckDBSource.csv(AGE, path)
    assert "secret" not in "".join(traceback.format_exception(caught.value))


def test_a_connection_reads_no_other_file_and_stays_so(ages: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.parquet"
    pa.parquet.write_table(pa.table({"age": [1]}), other)
    source = DuckDBSource.parquet(AGE, ages)
    assert values(source, COUNT) == [3]
    for sql in (
        f"SELECT * FROM read_parquet('{other}')",  # noqa: S608
        f"SELECT * FROM '{other}'",  # noqa: S608
        "SELECT * FROM read_text('/etc/hostname')",
        f"COPY (SELECT 1) TO '{tmp_path / 'out.csv'}'",
        f"ATTACH '{tmp_path / 'new.duckdb'}'",
        "INSTALL httpfs",
        "SET enable_external_access = true",
        "SET lock_configuration = false",
        "SET allowed_paths = ['/']",
    ):
        with pytest.raises(duckdb.Error):
            source._connection.execute(sql)
    assert not (tmp_path / "out.csv").exists()
    assert values(source, COUNT) == [3]


def test_a_database_is_read_only_and_its_collation_makes_no_difference(tmp_path: Path) -> None:
    path = tmp_path / "held.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute('CREATE TABLE "we ird" (sex VARCHAR COLLATE NOCASE)')
        connection.execute("INSERT INTO \"we ird\" VALUES ('Female'), ('female'), ('FEMALE'), ('male')")
    schema = Schema.of("t", Category("sex", ["female", "male"]), size=4)
    source = DuckDBSource.table(schema, path, table="we ird")
    assert values(source, Query.histogram(schema.domain, ["sex"])) == [1, 1, 0, 2]
    assert values(source, Query.count(schema.domain, among(schema.domain["sex"], [0]))) == [1]
    with pytest.raises(duckdb.Error):
        source._connection.execute('DELETE FROM held."we ird"')


def test_a_failure_of_the_engine_says_the_same_whatever_failed(ages: Path) -> None:
    source = DuckDBSource.parquet(AGE, ages)
    ages.unlink()
    with pytest.raises(SourceFailed) as caught:
        source.exact(COUNT)
    assert isinstance(caught.value, Unavailable)
    assert caught.value.charged
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    closed = DuckDBSource.frame(AGE, pa.table({"age": [1]}))
    closed.close()
    with pytest.raises(SourceFailed) as second:
        closed.exact(COUNT)
    assert str(second.value) == str(caught.value)


def test_a_frame_of_objects_is_read_by_the_rules_and_not_by_guesses() -> None:
    schema = Schema.of("t", Integer("age", 0, 9), size=10, id="who", rows=1)
    frame = pd.DataFrame({"age": [1, "2", None, b"3", "x", 2.5], "who": ["a", 1, None, 2.0, "b", "c"]}, dtype=object)
    source = DuckDBSource.frame(schema, frame, key=bytes(32))
    assert values(source, Query.histogram(schema.domain, ["age"])) == [0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 2]


def test_what_happens_to_a_frame_later_makes_no_difference() -> None:
    frame = pd.DataFrame({"age": [1, 2, 3]})
    source = DuckDBSource.frame(AGE, frame)
    frame.loc[:, "age"] = 9
    assert values(source, Query.sum(AGE.domain, "age")) == [6]


def test_frames_of_no_known_library_and_doubled_names_are_refused() -> None:
    with pytest.raises(SourceUnfit, match="no frame"):
        DuckDBSource.frame(AGE, {"age": [1]})
    with pytest.raises(SourceUnfit, match="more than once"):
        DuckDBSource.frame(AGE, pd.DataFrame([[1, 2]], columns=["age", "age"]))


def test_a_fingerprint_changes_with_the_bytes_and_with_nothing_else(ages: Path, tmp_path: Path) -> None:
    before = fingerprint_files(ages)
    copy = tmp_path / "copy.parquet"
    copy.write_bytes(ages.read_bytes())
    assert fingerprint_files([copy]) == before
    copy.write_bytes(ages.read_bytes() + b"\0")
    assert fingerprint_files(copy) != before
    assert fingerprint_files(tmp_path / "*.parquet") == fingerprint_files([copy, ages])


def test_the_fingerprint_of_a_frame_is_of_its_rows_in_any_order() -> None:
    fingerprints = {
        DuckDBSource.frame(AGE, pa.table({"age": rows})).fingerprint()
        for rows in ([1, 2, 3], [3, 1, 2], [1.5, 2.0, 3.0])
    }
    assert len(fingerprints) == 1
    for rows in ([1, 2], [1, 2, 4], [1, 2, 3, 3], [1, 2, None]):
        assert DuckDBSource.frame(AGE, pa.table({"age": rows})).fingerprint() not in fingerprints


def test_text_that_is_not_utf8_is_found_when_the_table_is_opened(tmp_path):
    path = tmp_path / "rows.parquet"
    raw = pa.array([b"female", b"\xff\xfe"], type=pa.binary())
    # Parquet's own mark of text, put upon bytes that are none
    table = pa.table({"sex": pa.Array.from_buffers(pa.string(), 2, raw.buffers())})
    pa.parquet.write_table(table, path)
    schema = Schema.of("stays", Category("sex", ("female", "male")), size=2)
    with pytest.raises(SourceUnfit, match="UTF-8"):
        DuckDBSource.parquet(schema, path)


@pytest.mark.parametrize("otherwise", [None, "l7"])
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_texts_of_very_many_labels_land_in_the_cells_that_they_would_land_in_one_by_one(kind, otherwise) -> None:
    listed = ["l5", None, "l1999", "L5", "", "l5 ", "<missing>", "l2000", "l7", "l5"]
    attribute = Category("x", [f"l{number}" for number in range(2000)], otherwise=otherwise)
    schema = Schema.of("t", attribute, Boolean("b", otherwise=False), size=10)
    chunks = pa.chunked_array([pa.array(listed[:4], kind), pa.array(listed[4:], kind)])
    frame = pa.table({"x": chunks, "b": [True] * len(listed)})
    query = Query.marginal(schema.domain, ["x"])
    source, one_by_one = (
        DuckDBSource.frame(schema, frame),
        MemorySource(schema, {"x": listed, "b": [True] * len(listed)}),
    )
    assert values(source, query) == values(one_by_one, query)
    assert sum(values(source, query)) == len(listed)
