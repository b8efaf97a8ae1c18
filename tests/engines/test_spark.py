"""A table behind Spark: real Spark on Java, never skipped."""

from __future__ import annotations

import datetime as dt
import json
import shutil
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import dodona
from dodona.dataset.opening import VersionChanged
from dodona.engines.answers import answer_query
from dodona.engines.cells import SourceUnfit
from dodona.engines.memory import MemorySource
from dodona.engines.spark import SparkSource
from dodona.errors import InvalidRequest
from dodona.query.predicate import among
from dodona.query.query import Query
from dodona.schema.attributes import Attribute, Boolean, Category, Date, Integer, Number
from dodona.schema.schema import Schema
from dodona.trusted.source import SourceFailed
from tests.dataset.scene import TOML
from tests.engines.questions import block
from tests.engines.scene import by_hand, made_up, values
from tests.engines.spark import MARKS, connect_server, engine, source_of
from tests.engines.test_otherwise import blocks, one_of_each
from tests.house.tree import ROOT

pytestmark = MARKS
AGE = Schema.of("t", Integer("age", 0, 3), size=9)
TABLE = TOML.replace('kind = "csv"\npath = "stays.csv"', 'kind = "spark"\npath = "stays"')


def histogram(schema: Schema) -> Query:
    return Query.histogram(schema.domain, schema.domain.names)


@pytest.mark.share(3)
@pytest.mark.parametrize("seed", [5, 12, 18, 29, 33, 40])
def test_it_says_what_the_weights_over_the_histogram_say_of_many_tables(seed: int, tmp_path: Path) -> None:
    made = made_up(seed)
    source = source_of(made.schema, made.arrow(), tmp_path)
    generator = np.random.default_rng([seed, 1])
    for turn in range(3):
        query = Query(made.schema.domain, tuple(block(made.schema.domain, generator) for _ in range(1 + turn)))
        assert values(source, query) == by_hand(made, query), query
    source.close()


def test_every_storage_type_has_the_meaning_of_the_encoding(tmp_path: Path) -> None:
    made = one_of_each(3)
    source = source_of(made.schema, made.arrow(), tmp_path)
    for attribute in made.schema.domain:
        query = Query(made.schema.domain, tuple(blocks(attribute)))
        assert values(source, query) == by_hand(made, query), attribute
    source.close()


DAY = Date("x", dt.date(2024, 1, 1), dt.date(2024, 1, 3))
OLD = Date("x", dt.date(1, 1, 1), dt.date(1, 1, 3))
CASES: list[tuple[Attribute, str, str, list[int]]] = [
    (Integer("x", -2, 1), "DECIMAL(38, 0)", f"-2, 1, {10**38 - 1}, -{10**38 - 1}, NULL", [2, 0, 0, 2, 1, 0]),
    (Integer("x", -128, -126), "TINYINT", "-128, -127, 127, 0, NULL", [1, 1, 2, 1, 0]),
    (Number("x", 0, 1, "0.5"), "DECIMAL(38, 10)", "0.499999, 0.5, 9999999999, -1, NULL", [2, 1, 1, 1, 0]),
    (Number("x", 0, 1, "0.5"), "FLOAT", "'NaN', '-0.0', 'Infinity', '-Infinity', NULL", [2, 0, 1, 2, 0]),
    (Number("x", 0, 1, "0.5"), "STRING", "'-nan', '+NaN', '1d', '-inf', ' 1e400\t', '0x1p3'", [1, 0, 1, 2, 2]),
    (Boolean("x"), "DECIMAL(3, 1)", "0, 1, 1.5, NULL", [1, 1, 1, 1]),
    (Category("x", ["b", "a"]), "STRING COLLATE UNICODE_CI", "'a', 'B', 'A', 'b', NULL", [1, 1, 1, 2]),
    (DAY, "DATE", "'2024-01-01', '2024-01-03', '2023-12-31', '9999-12-31', NULL", [1, 0, 1, 1, 2]),
    (DAY, "TIMESTAMP_NTZ", "'2024-01-01 00:00:00', '2024-01-03 23:59:59.999999', '2024-01-04', NULL", [1, 0, 1, 1, 1]),
    (
        DAY,
        "TIMESTAMP",
        "'2024-01-01 00:30:00+01:00', '2024-01-03 23:30:00-01:00', '2024-01-02 12:00:00Z'",
        [0, 1, 0, 0, 2],
    ),
    (OLD, "TIMESTAMP", "'0001-01-01 00:00:00Z', '0001-01-03 23:59:59Z', '0001-01-04 00:00:00Z'", [1, 0, 1, 0, 1]),
    (OLD, "DATE", "'0001-01-01', '0001-01-03', '0000-12-31', '-0044-03-15'", [1, 0, 1, 0, 2]),
]


@pytest.mark.parametrize(("attribute", "kind", "listed", "expected"), CASES, ids=[f"{c[1]} {c[0].kind}" for c in CASES])
def test_each_value_is_in_its_cell_by_key_and_by_condition(attribute, kind, listed, expected) -> None:
    rows = " UNION ALL ".join(f"SELECT CAST({value} AS {kind}) AS x" for value in listed.split(", "))
    engine().sql(rows).createOrReplaceTempView("listed")
    schema = Schema.of("t", attribute, size=9)
    source = SparkSource.table(schema, engine(), "listed")
    conditions = [Query.count(schema.domain, among(attribute, [code])) for code in range(len(expected))]
    assert values(source, histogram(schema).stacked(*conditions)) == expected * 2
    source.close()


def test_labels_are_taken_as_they_stand_and_the_settings_of_a_session_are_left_alone() -> None:
    """A session may read SQL in other ways; and names in a table may be those that statements use."""
    labels = ["${spark.app.name}", "back\\slash'", "it''s", "\\u0041", "%\\%", ":a ?", "-- a"]
    session = engine().newSession()
    known = _ours(session)
    before = {
        "spark.sql.ansi.enabled": "true",
        "spark.sql.session.timeZone": "America/New_York",
        "spark.sql.parser.escapedStringLiterals": "true",
        "spark.sql.caseSensitive": "true",
    }
    for name, value in before.items():
        session.conf.set(name, value)
    moments = [dt.datetime(2024, 1, 2, 1, 30, tzinfo=dt.UTC)] * len(labels)
    frame = session.createDataFrame(list(zip(labels, moments, strict=True)), "k0 string, `g h``i` timestamp")
    frame.createOrReplaceTempView("order")
    schema = Schema.of("order", Category("k0", labels), size=9)
    source = SparkSource.table(schema, session)
    assert values(source, histogram(schema)) == [1] * len(labels) + [0, 0]
    dated = SparkSource.table(Schema.of("t", Date("at", DAY.lower, DAY.upper), size=9), session, _view(session))
    assert values(dated, Query.histogram(dated._schema.domain, ["at"])) == [0, len(labels), 0, 0, 0]
    views = {row.viewName for row in session.sql("SHOW VIEWS").collect() if row.isTemporary}
    source.close()
    dated.close()
    assert {name: session.conf.get(name) for name in before} == before
    assert views == {"order", "dated"}
    assert _ours(session) <= known


def _ours(session) -> set[str]:
    """The views of sources that are open: those of other tests may be among them."""
    views = session.sql("SHOW VIEWS IN global_temp LIKE 'dodona*'").filter("namespace = 'global_temp'").collect()
    return {row.viewName for row in views}


def _view(session) -> str:
    session.sql("SELECT `g h``i` AS at FROM order").createOrReplaceTempView("dated")
    return "dated"


def test_only_groups_come_back_however_many_rows_there_are(tmp_path: Path) -> None:
    schema = Schema.of("t", Integer("age", 0, 9), Category("sex", ["f", "m"]), size=200_000, id="who", rows=3)
    generator = np.random.default_rng(1)
    rows = pa.table(
        {
            "age": generator.integers(0, 10, 20_000),
            "sex": generator.choice(["f", "m"], 20_000),
            "who": np.where(np.arange(20_000) < 10_000, 0.5, generator.integers(1, 3_000, 20_000)),
        }
    )
    source = source_of(schema, rows, tmp_path)
    fetched = list[int]()

    def counted(asked):
        columns = source._fetch_columns(asked)
        fetched.append(len(columns[0]))
        return columns

    query = histogram(schema).stacked(Query.sum(schema.domain, "age"), Query.people(schema.domain, "sex"))
    sealed = answer_query(query, source._table, rows=200_000, fetch=counted)
    assert repr(sealed) == "<sealed>"
    assert sum(fetched) <= query.values
    assert values(source, Query.count(schema.domain, among(schema.domain["age"], range(12)))) == [_kept(rows)]
    source.close()


def _kept(rows: pa.Table) -> int:
    _, times = np.unique(rows["who"].to_numpy(), return_counts=True)
    return int(np.minimum(times, 3).sum())


def test_people_are_told_apart_by_doubles_and_a_nan_is_nobody(tmp_path: Path) -> None:
    schema = Schema.of("t", Integer("age", 0, 3), size=9, id="who", rows=1)
    who = [0.0, -0.0, float("nan"), float("nan"), None, 2.5]
    source = source_of(schema, pa.table({"age": [1, 0, 3, 3, 3, 2], "who": who}), tmp_path)
    expected = values(
        MemorySource(schema, {"age": [1, 0, 3, 3, 3, 2], "who": who}, key=bytes(range(32))), histogram(schema)
    )
    assert sum(expected) == 2
    assert values(source, histogram(schema)) == expected
    source.close()


def test_a_fingerprint_is_of_the_rows_in_any_order(tmp_path: Path) -> None:
    fingerprints = []
    for place, ages in enumerate(([1, 2, 3, 77], [3, 2, 99, 1], [1, 2, 2, 77], [1, 2, 3], [1, 2, 3, None])):
        (tmp_path / str(place)).mkdir()
        source = source_of(AGE, pa.table({"age": pa.array(ages, pa.int16())}), tmp_path / str(place))
        fingerprints.append(source.fingerprint())
        source.close()
    assert fingerprints[0] == fingerprints[1]
    assert len(set(fingerprints)) == 4


def test_it_answers_many_threads_at_once(tmp_path: Path) -> None:
    source = source_of(AGE, pa.table({"age": [0, 1, 2, 3, 3]}), tmp_path)
    counts = dict[int, list[int]]()

    def ask(code: int) -> None:
        counts[code] = values(source, Query.count(AGE.domain, among(AGE.domain["age"], [code])))

    threads = [threading.Thread(target=ask, args=(code,)) for code in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == {0: [1], 1: [1], 2: [1], 3: [2]}
    source.close()


def unfit(schema: Schema, folder: Path, **columns: pa.Array) -> str:
    """What is said of columns that are not what a schema declares."""
    folder.mkdir(exist_ok=True)
    pa.parquet.write_table(pa.table(columns), folder / "rows.parquet", version="2.6")
    with pytest.raises(SourceUnfit) as caught:
        SparkSource.parquet(schema, folder, session=engine())
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    return str(caught.value)


def test_what_cannot_be_opened_is_told_in_our_own_words(tmp_path: Path) -> None:
    assert "does not have it" in unfit(AGE, tmp_path / "a", years=pa.array([1]))
    assert "It has AGE" in unfit(AGE, tmp_path / "b", AGE=pa.array([1]))
    assert "the table holds binary" in unfit(AGE, tmp_path / "c", age=pa.array([b"1"]))
    assert "the table holds date" in unfit(AGE, tmp_path / "d", age=pa.array([dt.date(2024, 1, 1)]))
    fine = pa.array([1], pa.timestamp("ns"))
    assert "microseconds" in unfit(Schema.of("t", DAY, size=9), tmp_path / "e", x=fine)
    beyond = pa.array([2**62], pa.int64()).cast(pa.timestamp("ms"))
    assert "times out of range" in unfit(Schema.of("t", DAY, size=9), tmp_path / "f", x=beyond)
    with pytest.raises(SourceUnfit, match="No file is at"):
        SparkSource.parquet(AGE, tmp_path / "nowhere", session=engine())
    with pytest.raises(SourceUnfit, match="cannot be opened"):
        SparkSource.table(AGE, engine(), "nowhere.at_all")
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceUnfit, match="No file is at"):
        SparkSource.parquet(AGE, tmp_path / "empty", session=engine())
    with pytest.raises(SourceUnfit, match="does not answer"):
        SparkSource.remote(AGE, "not an address")


def test_a_folder_may_have_any_name_and_parts_in_folders_of_its_own(tmp_path: Path) -> None:
    place = tmp_path / "a {b} ü \\c" / "year=2024"
    place.mkdir(parents=True)
    pa.parquet.write_table(pa.table({"age": [1, 2, 2]}), place / "rows.parquet")
    schema = Schema.of("t", Integer("age", 0, 3), Integer("year", 2023, 2025), size=9)
    source = SparkSource.parquet(schema, place.parent, session=engine())
    assert values(source, Query.histogram(schema.domain, ["year"])) == [0, 3, 0, 0, 0]
    source.close()


def dataset(folder: Path, text: str = TABLE) -> Path:
    (folder / "stays").mkdir()
    rows = pa.table({"sex": ["female", "male"] * 500, "age": [row % 100 for row in range(1000)]})
    pa.parquet.write_table(rows, folder / "stays" / "rows.parquet")
    path = folder / "stays.toml"
    path.write_text(text, encoding="utf-8")
    engine()
    return path


def test_a_dataset_file_opens_a_folder_and_notices_that_it_changed(tmp_path: Path) -> None:
    path = dataset(tmp_path)
    dodona.create_ledger(path)
    for _ in range(2):
        with dodona.open(path, analyst="ada") as stays:
            answer = stays.ask("SELECT count(*) FROM stays WHERE sex = 'male'", epsilon="1/4")
            assert abs(answer.value.value - 500) < 100
    pa.parquet.write_table(pa.table({"sex": ["male"], "age": [1]}), tmp_path / "stays" / "more.parquet")
    with pytest.raises(VersionChanged):
        dodona.open(path, analyst="ada")
    path.write_text(TABLE.replace("2026-10", "2026-11"), encoding="utf-8")
    dodona.open(path, analyst="ada").close()


def test_a_dataset_file_may_name_a_table_of_the_running_session_but_no_address(tmp_path: Path) -> None:
    path = dataset(tmp_path, TABLE.replace('path = "stays"', 'source_table = "held"'))
    engine().read.parquet(str(tmp_path / "stays")).createOrReplaceTempView("held")
    dodona.create_ledger(path)
    with dodona.open(path, analyst="ada") as stays:
        assert stays.ask("SELECT count(*) FROM stays", epsilon="1/4").value.value > 0
    path.write_text(TABLE.replace('path = "stays"', 'url = "sc://me:secret@host"'), encoding="utf-8")
    with pytest.raises(InvalidRequest, match="may hold a password or a token") as caught:
        dodona.open(path)
    assert "secret" not in str(caught.value)


def test_a_table_that_goes_away_after_the_charge_fails_in_constant_words_and_the_charge_stands(tmp_path: Path) -> None:
    path = dataset(tmp_path)
    dodona.create_ledger(path)
    with dodona.open(path, analyst="ada") as stays:
        shutil.rmtree(tmp_path / "stays")
        with pytest.raises(SourceFailed) as caught:
            stays.ask("SELECT count(*) FROM stays", epsilon="1/4")
        assert stays.budget.spent > 0
    assert str(caught.value) == str(SourceFailed())
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def alone(folder: Path, code: str) -> tuple[dict[str, object], str]:
    """Run code in a process with an engine of its own; return what it found, and what it wrote to stderr."""
    script = folder / "alone.py"
    script.write_text(code, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(script), str(folder)], cwd=ROOT, capture_output=True, text=True, check=False, timeout=900
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


ALONE = """
import json, os, sys
from pathlib import Path
sys.path.insert(0, os.getcwd())
import pyarrow as pa, pyarrow.parquet
from dodona.engines.spark import SparkSource
from dodona.engines.spark_session import LOCAL_ENGINE
from dodona.schema.attributes import Integer
from dodona.schema.schema import Schema
from dodona.query.query import Query
from dodona.trusted.source import SourceFailed
from tests.engines.scene import values

folder = Path(sys.argv[1]) / "rows"
folder.mkdir()
pa.parquet.write_table(pa.table({"age": [1, 2, 2, 7]}), folder / "rows.parquet")
schema = Schema.of("t", Integer("age", 0, 3), size=9)
first = SparkSource.parquet(schema, folder)
second = SparkSource.parquet(schema, folder)
context = LOCAL_ENGINE.session.sparkContext
found = {name: context.getConf().get(name) for name in ("spark.driver.host", "spark.ui.enabled", "spark.local.dir")}
found["ui"] = context.uiWebUrl
names = ("spark.sql.parser.manageParserCaches", "spark.sql.parser.parserDfaCacheFlushRatio")
found["read"] = [LOCAL_ENGINE.session.conf.get(name) for name in names]
listening = {line.split()[1][:8] for line in Path("/proc/net/tcp").read_text().splitlines()[1:]}
first.close()
first.close()
query = Query.histogram(schema.domain, ["age"])
found["values"] = values(second, query)
LOCAL_ENGINE.session.stop()
try:
    second.exact(query)
except SourceFailed as fault:
    found["fault"] = [str(fault), fault.__context__, fault.__cause__]
second.close()
found["left"] = [LOCAL_ENGINE.session, Path(found["spark.local.dir"]).parent.exists()]
third = SparkSource.parquet(schema, folder)
found["again"] = values(third, query)
third.close()
print(json.dumps(found))
"""


@pytest.mark.soak  # it starts another engine
def test_an_engine_of_its_own_is_quiet_and_local_and_stops_with_its_last_source(tmp_path: Path) -> None:
    report, said = alone(tmp_path, ALONE)
    assert report["spark.driver.host"] == "127.0.0.1"
    assert report["ui"] is None
    assert report["read"] == ["true", "20"]
    assert report["values"] == report["again"] == [0, 1, 2, 1, 0, 0]
    assert report["fault"] == [str(SourceFailed()), None, None]
    assert report["left"] == [None, False]
    assert "WARN " not in said
    assert "Exception" not in said


LARGE = """
import json, os, sys
from pathlib import Path
sys.path.insert(0, os.getcwd())
import numpy as np, pyarrow as pa, pyarrow.parquet
from pyspark.sql import SparkSession
from dodona.engines.answers import answer_query
from dodona.engines.spark import SparkSource
from dodona.schema.attributes import Category, Integer, Number
from dodona.schema.schema import Schema
from dodona.query.predicate import among
from dodona.query.query import Query
from dodona.trusted.gate import unseal

folder = Path(sys.argv[1]) / "rows"
folder.mkdir()
generator = np.random.default_rng(1)
ages, total, rows, width = np.zeros(6, dtype=np.int64), 0, 100_000, 1_000
for part in range(22):
    own, cents = generator.integers(0, 4, rows), generator.random(rows)
    ages += np.bincount(own, minlength=6)
    total += int(np.minimum(np.floor(cents * 4 + 2**-20), 3).sum())  # a value just below a step counts as the step
    digits = pa.py_buffer(generator.bytes(rows * width // 2).hex().encode())
    ends = pa.py_buffer(np.arange(0, (rows + 1) * width, width, dtype=np.int32))
    texts = pa.StringArray.from_buffers(rows, ends, digits)
    columns = {"age": own, "x": cents, "text": texts}
    pa.parquet.write_table(pa.table(columns), folder / f"{part}.parquet", compression="none", use_dictionary=False)
size = sum(path.stat().st_size for path in folder.iterdir())
builder = SparkSession.builder.master("local[2]").config("spark.driver.memory", "512m")
for name, value in {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.log.level": "OFF",
    "spark.ui.enabled": "false", "spark.driver.maxResultSize": "8m", "spark.sql.shuffle.partitions": "8",
    "spark.sql.catalogImplementation": "in-memory"}.items():
    builder = builder.config(name, value)
session = builder.getOrCreate()
text = Category("text", ["a", "b"])
schema = Schema.of("t", Integer("age", 0, 3), Number("x", 0, "0.75", "0.25"), text, size=2_200_000)
source = SparkSource.parquet(schema, folder, session=session)
memory = session.sparkContext._jvm.java.lang.Runtime.getRuntime().maxMemory()
fetched = []
def counted(asked):
    columns = source._fetch_columns(asked)
    fetched.append(len(columns[0]))
    return columns
others = Query.count(schema.domain, among(schema.domain["text"], [3]))
query = Query.histogram(schema.domain, ["age"]).stacked(Query.sum(schema.domain, "x"), others)
told = unseal(answer_query(query, source._table, rows=schema.unit.size, fetch=counted))
answered, right = [int(value) for value in told], [*ages.tolist(), total, 22 * rows]
session.stop()
sizes = {"rows": sum(fetched), "cells": query.values, "size": size, "memory": memory}
print(json.dumps({"answered": answered, "right": right, **sizes}))
"""


@pytest.mark.soak  # it writes two gigabytes
def test_a_folder_four_times_the_memory_of_the_driver_is_answered_in_place(tmp_path: Path) -> None:
    try:
        report, _ = alone(tmp_path, LARGE)
    finally:
        shutil.rmtree(tmp_path / "rows", ignore_errors=True)
    assert report["answered"] == report["right"]
    assert report["rows"] <= report["cells"]
    assert report["memory"] <= 2**29
    assert report["size"] >= 4 * 2**29


@pytest.mark.soak  # it starts a server of its own
def test_spark_connect_answers_by_an_address_and_by_a_session_that_is_left_alone(tmp_path: Path) -> None:
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    pa.parquet.write_table(pa.table({"age": [1, 2, 2, 7], "who": [1, 1, 2, 3]}), tmp_path / "rows.parquet")
    name = f"parquet.`{tmp_path / 'rows.parquet'}`"
    schema = Schema.of("t", Integer("age", 0, 3), size=9, id="who", rows=1)
    server = subprocess.Popen(
        connect_server(port), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        _wait(port)
        source = SparkSource.remote(schema, f"sc://127.0.0.1:{port}", name, key=bytes(32))
        held = {"age": [1, 2, 2, 7], "who": [1, 1, 2, 3]}
        expected = values(MemorySource(schema, held, key=bytes(32)), Query.histogram(schema.domain, ["age"]))
        assert values(source, Query.histogram(schema.domain, ["age"])) == expected
        source.close()
        with pytest.raises(SourceFailed):
            source.exact(Query.histogram(schema.domain, ["age"]))

        from pyspark.sql.connect.session import SparkSession as Remote

        session = Remote.builder.remote(f"sc://127.0.0.1:{port}").create()
        session.conf.set("spark.sql.session.timeZone", "America/New_York")
        session.sql(f"SELECT age FROM {name}").createOrReplaceTempView("held")  # noqa: S608
        given = SparkSource.table(AGE, session, "held")
        assert values(given, Query.histogram(AGE.domain, ["age"])) == [0, 1, 2, 1, 0, 0]
        assert session.conf.get("spark.sql.session.timeZone") == "America/New_York"
        session.stop()
        assert values(given, Query.histogram(AGE.domain, ["age"])) == [0, 1, 2, 1, 0, 0]
    finally:
        server.terminate()
        server.wait(timeout=60)
    with pytest.raises(SourceFailed) as caught:
        given.exact(Query.histogram(AGE.domain, ["age"]))
    assert caught.value.__context__ is None
    given.close()


def _wait(port: int) -> None:
    for _ in range(240):
        with closing(socket.socket()) as door:
            if door.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.5)
    raise AssertionError("the server does not start")
