"""Each row is read once, and which rows are read depends on no value: on Parquet, CSV, databases, PostgreSQL, Spark."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dodona.engines.answers import fingerprint_files
from dodona.engines.cells import SourceUnfit
from dodona.engines.duckdb import DuckDBInspection, DuckDBSource, only_table
from dodona.engines.files import list_files, list_folder_files, require_same_files
from dodona.engines.postgres import PostgresSource
from dodona.engines.render import GroupedSql, sum_statement
from dodona.query.predicate import among
from dodona.query.query import ONE, Query
from dodona.schema.attributes import Boolean, Date, Integer, Number
from dodona.schema.encoding import LONGEST_TEXT
from dodona.schema.schema import Schema
from tests.engines.scene import BACKENDS, OPENED, Made, by_hand, values
from tests.engines.server import held, owner
from tests.engines.spark import MARKS, engine
from tests.ledger.scene import shared_server

AGE = Schema.of("stays", Integer("age", 0, 110), size=100)
GROUP = 2_048


def written(path: Path, ages: list[int], **options: Any) -> None:  # noqa: ANN401  of the writer
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pq.write_table(pa.table({"age": pa.array(ages, pa.int32())}), path, **options)
    else:
        path.write_text("age\n" + "".join(f"{age}\n" for age in ages), encoding="utf-8")


def spark_source(schema: Schema, path: Path) -> Any:  # noqa: ANN401  imported late: it needs pyspark
    from dodona.engines.spark import SparkSource

    source = SparkSource.parquet(schema, path, session=engine())
    OPENED.append(source)
    return source


OF_FILES = [
    pytest.param(DuckDBSource.parquet, ".parquet", id="parquet"),
    pytest.param(DuckDBSource.csv, ".csv", id="csv"),
    pytest.param(spark_source, ".parquet", id="spark", marks=MARKS),
]
FILES = pytest.mark.parametrize(("opened", "suffix"), OF_FILES)
COUNT = Query.count(AGE.domain)


@FILES
def test_a_link_to_a_file_of_the_pattern_is_not_read_again(opened, suffix: str, tmp_path: Path) -> None:
    written(tmp_path / f"a{suffix}", [30] * 100)
    before = fingerprint_files(tmp_path / f"*{suffix}")
    (tmp_path / f"latest{suffix}").symlink_to(tmp_path / f"a{suffix}")
    os.link(tmp_path / f"a{suffix}", tmp_path / f"copy{suffix}")
    assert values(opened(AGE, tmp_path / f"*{suffix}"), COUNT) == [100]
    assert fingerprint_files(tmp_path / f"*{suffix}") == before


@FILES
def test_a_linked_folder_is_not_read_again(opened, suffix: str, tmp_path: Path) -> None:
    written(tmp_path / "rows" / "2026" / f"a{suffix}", [30] * 10)
    (tmp_path / "rows" / "latest").symlink_to(tmp_path / "rows" / "2026")
    (tmp_path / "rows" / "2026" / "up").symlink_to(tmp_path / "rows")
    pattern = tmp_path / "rows" / "**" / f"*{suffix}"
    assert values(opened(AGE, pattern), COUNT) == [10]
    if opened is spark_source:
        assert values(opened(AGE, tmp_path / "rows"), COUNT) == [10]


@FILES
@pytest.mark.parametrize("name", ["export[1]", "export?", "export*"])
def test_a_file_whose_name_is_a_pattern_is_refused(opened, suffix: str, name: str, tmp_path: Path) -> None:
    written(tmp_path / f"export1{suffix}", [30] * 10)
    written(tmp_path / f"{name}{suffix}", [60] * 7)
    for path in (tmp_path / f"{name}{suffix}", tmp_path / f"e*{suffix}", tmp_path / f"export[[]1]{suffix}"):
        if path.is_file() or "[[]" not in path.name or "[1]" in name:
            with pytest.raises(SourceUnfit, match="Rename"):
                opened(AGE, path)
    folder = tmp_path / name
    written(folder / f"a{suffix}", [60] * 7)
    with pytest.raises(SourceUnfit, match="Rename"):
        opened(AGE, folder / f"a{suffix}")


@FILES
@pytest.mark.parametrize("name", ["a{1,2}", "a\\1", "a b", "a%20b", "ä", "a'b", "~a", "a#1", "a;b"])
def test_any_other_name_is_read_as_it_is(opened, suffix: str, name: str, tmp_path: Path) -> None:
    written(tmp_path / f"a1{suffix}", [30] * 10)
    written(tmp_path / f"{name}{suffix}", [60] * 7)
    assert values(opened(AGE, tmp_path / f"{name}{suffix}"), COUNT) == [7]


def test_a_pattern_goes_on_meaning_its_files(tmp_path: Path) -> None:
    for name in ("export1", "export2", "export3"):
        written(tmp_path / "sub" / ".." / f"{name}.parquet", [30])
    assert values(DuckDBSource.parquet(AGE, tmp_path / "export[12].parquet"), COUNT) == [2]
    assert values(DuckDBSource.parquet(AGE, tmp_path / "sub" / ".." / "*.parquet"), COUNT) == [3]


def test_names_that_are_not_utf8_are_refused(tmp_path: Path) -> None:
    written(tmp_path / "a.csv", [1])
    os.rename(os.fsencode(tmp_path / "a.csv"), os.fsencode(tmp_path) + b"/\xff.csv")  # noqa: PTH104  of bytes
    with pytest.raises(SourceUnfit, match="UTF-8"):
        list_files(tmp_path / "*.csv")


def test_another_list_of_the_engine_is_refused(tmp_path: Path) -> None:
    require_same_files(["/a", "/b"], ["/b", "/a"])
    for other in (["/a"], ["/a", "/b", "/c"], ["/a", "/b", "/b"]):
        with pytest.raises(SourceUnfit, match="other files"):
            require_same_files(["/a", "/b"], other)
    written(tmp_path / "_hidden.parquet", [1])
    with pytest.raises(SourceUnfit, match="No file"):
        list_folder_files(tmp_path)


# What an engine reads


def scanned(source: DuckDBSource, asked: GroupedSql) -> tuple[int, int]:
    """The rows and the groups of rows that DuckDB read for a statement."""
    ((_, text),) = source._connection.execute(f"EXPLAIN (ANALYZE, FORMAT json) {asked.sql}").fetchall()
    profile = json.loads(text)["query"]
    return profile["total_rows_scanned"], profile["total_row_groups_scanned"]


def in_database(schema: Schema, path: Path) -> DuckDBSource:
    place = path.with_suffix(".duckdb")
    with duckdb.connect(str(place)) as connection:
        connection.execute(f"CREATE TABLE stays AS FROM '{path}'")
    return DuckDBSource.table(schema, place)


def in_frame(schema: Schema, path: Path) -> DuckDBSource:
    return DuckDBSource.frame(schema, pq.read_table(path))


def asked_of(table: Any) -> list[GroupedSql]:  # noqa: ANN401  of any engine
    age = AGE.domain["age"]
    old, young = among(age, range(105, 111)), among(age, range(40))
    return [sum_statement(table, where, (), [ONE]) for where in (old, young, among(age, [age.size]))]


@pytest.mark.parametrize("opened", [DuckDBSource.parquet, in_database, in_frame])
def test_duckdb_reads_as_many_rows_with_one_that_is_asked_about_as_without(
    opened: Callable[..., DuckDBSource], tmp_path: Path
) -> None:
    scans = list[list[tuple[int, int]]]()
    for last in (104, 105):
        path = tmp_path / str(last) / "rows.parquet"
        written(path, [50 + place % 40 for place in range(4 * GROUP - 1)] + [last], row_group_size=GROUP)
        source = opened(AGE, path)
        scans.append([scanned(source, asked) for asked in asked_of(source._table)])
        source.close()
    assert scans[0] == scans[1]
    assert {rows for rows, _ in scans[0]} == {4 * GROUP}


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.filterwarnings(
    "ignore:unclosed <socket:ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)
def test_spark_reads_as_many_rows_with_one_that_is_asked_about_as_without(tmp_path: Path) -> None:
    scans = list[list[int]]()
    for last in (104, 105):
        path = tmp_path / str(last) / "rows.parquet"
        written(path, [50 + place % 40 for place in range(4 * GROUP - 1)] + [last], row_group_size=GROUP)
        source = spark_source(AGE, path)
        rows = list[int]()
        for asked in asked_of(source._table):
            frame = source._session.sql(asked.sql)
            frame.collect()
            leaves = frame._jdf.queryExecution().executedPlan().collectLeaves()
            metrics = [leaves.apply(place).metrics() for place in range(leaves.size())]
            rows.append(sum(metric.apply("numOutputRows").value() for metric in metrics))
        scans.append(rows)
    assert scans[0] == scans[1]
    assert set(scans[0]) == {4 * GROUP}


@pytest.mark.parametrize("index", ["btree", "brin"])
def test_postgres_reads_all_rows_whatever_indexes_there_are(index: str) -> None:
    name = held("stays", {"age": [place % 100 for place in range(5_000)]}, {"age": "integer"})
    with owner() as connection:
        connection.execute(f"CREATE INDEX ON {name} USING {index} (age)")
        connection.execute(f"VACUUM ANALYZE {name}")
    source = PostgresSource(AGE, shared_server().address, table=name)
    OPENED.append(source)
    for asked in asked_of(source._table):
        plan = source._session.run(
            lambda connection, sql=asked.sql: connection.execute(f"EXPLAIN (FORMAT json) {sql}").fetchall()
        )
        assert "Seq Scan" in str(plan)
        assert "Index" not in str(plan)


@pytest.mark.parametrize("backend", BACKENDS.values(), ids=BACKENDS.keys())
def test_a_text_that_is_too_long_is_outside(backend, tmp_path: Path) -> None:
    """Patterns are matched against short texts alone: a text of many megabytes would show in the time of an answer."""
    attributes = [Integer("i", 0, 9), Number("n", 0, 9, "0.5"), Boolean("b"), Date("d", *map(_day, (1, 9)))]
    schema = Schema.of("t", *attributes, size=9)
    texts = {
        "i": ["7".rjust(LONGEST_TEXT - place, "0") for place in (1, 0, -1)] + ["ü" * LONGEST_TEXT],
        "n": ["7".rjust(LONGEST_TEXT - place, "0") for place in (1, 0, -1)] + ["7" * 100_000],
        "b": [" " * (LONGEST_TEXT - place) + "1" for place in (2, 1, 0)] + [" " * 100_000],
        "d": [" " * (LONGEST_TEXT - 10 - place) + "2024-01-07" for place in (1, 0, -1)] + ["2" * 100_000],
    }
    source, rows = backend(Made(schema, texts, dict.fromkeys(texts, pa.string())), tmp_path)
    for attribute in schema.domain:
        query = Query.histogram(schema.domain, [attribute.name])
        counts = values(source, query)
        assert counts == by_hand(rows, query)
        assert counts[-1] == 2


def _day(number: int) -> Any:  # noqa: ANN401
    import datetime as dt

    return dt.date(2024, 1, number)


# Databases that are hostile, or not whole


@pytest.mark.parametrize("text", ["read_csv('{0}')", "read_text('{0}')", "(SELECT * FROM '{0}')"])
def test_a_view_over_other_files_is_refused_before_it_is_read(text: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret.csv"
    written(secret, [30, 40])
    place = tmp_path / "hostile.duckdb"
    with duckdb.connect(str(place)) as connection:
        connection.execute(f"CREATE VIEW stays AS SELECT * FROM {text.format(secret)}")  # noqa: S608
    for opened in (lambda: DuckDBSource.table(AGE, place), lambda: DuckDBInspection.held(place, table="stays")):
        with pytest.raises(SourceUnfit, match="outside of its database"):
            opened()
    assert only_table(place) == "stays"


def test_a_view_of_tables_of_the_same_database_is_read(tmp_path: Path) -> None:
    place = tmp_path / "held.duckdb"
    with duckdb.connect(str(place)) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 30 AS years")
        connection.execute("CREATE VIEW stays AS SELECT years AS age FROM kept")
    assert values(DuckDBSource.table(AGE, place), COUNT) == [1]


def test_rows_in_a_write_ahead_log_are_refused(tmp_path: Path) -> None:
    place, copy = tmp_path / "held.duckdb", tmp_path / "copy.duckdb"
    with duckdb.connect(str(place)) as connection:
        connection.execute("SET wal_autocheckpoint = '1GB'")
        connection.execute("CREATE TABLE stays AS SELECT 30 AS age")
        connection.execute("CHECKPOINT")
        connection.execute("INSERT INTO stays VALUES (30), (30), (30)")
        copy.write_bytes(place.read_bytes())
        Path(f"{copy}.wal").write_bytes(Path(f"{place}.wal").read_bytes())
    for opened in (lambda: DuckDBSource.table(AGE, copy), lambda: DuckDBInspection.held(copy, table="stays")):
        with pytest.raises(SourceUnfit, match="CHECKPOINT"):
            opened()
    assert values(DuckDBSource.table(AGE, place), COUNT) == [4]


def test_a_pattern_of_databases_is_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        duckdb.connect(str(tmp_path / f"{name}.duckdb")).close()
    with pytest.raises(SourceUnfit, match="2 files"):
        DuckDBSource.table(AGE, tmp_path / "*.duckdb")
