import re
import warnings
from decimal import Decimal

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dodona
from dodona.dataset.opening import VersionChanged
from dodona.engines.cells import SourceUnfit
from dodona.engines.duckdb import DuckDBSource
from dodona.engines.memory import MemorySource
from dodona.errors import InvalidRequest
from dodona.ledger.errors import LedgerMissing, LedgerOfAnother
from dodona.query.query import Query
from dodona.schema.file import load_schema
from dodona.schema.toml import TomlTable
from tests.dataset.scene import TOML, rows, written
from tests.engines.scene import values

OLD = "SELECT count(*) FROM stays WHERE age >= 65"
SCHEMA = dodona.Schema.of("stays", dodona.Integer("age", 0, 99), size=1_000)
FRAME = pd.DataFrame({"age": [number % 100 for number in range(1_000)]})


def test_a_ledger_is_created_once_and_never_by_opening(tmp_path):
    path = written(tmp_path)
    with pytest.raises(LedgerMissing):
        dodona.open(path, analyst="ada")
    assert not (tmp_path / "stays.ledger").exists()
    assert dodona.create_ledger(path) == tmp_path / "stays.ledger"
    with dodona.open(path, analyst="ada") as stays:
        assert stays.ask(OLD).source == "measured"
    with pytest.raises(Exception, match="already"):
        dodona.create_ledger(path)


def test_an_answer_is_told_again_after_a_restart(tmp_path):
    path = written(tmp_path)
    dodona.create_ledger(path)
    with dodona.open(path, analyst="ada") as stays:
        first = stays.ask(OLD)
        spent = stays.budget.spent
    with dodona.open(path, analyst="ada") as stays:
        again = stays.ask("SELECT count(*) FROM stays WHERE NOT (age < 65)")
        assert (again.source, again.value) == ("replayed", first.value)
        assert stays.budget.spent == spent
        assert stays.history[0].text == OLD


def test_the_defaults_of_the_file_are_used(tmp_path):
    path = written(tmp_path)
    dodona.create_ledger(path)
    with dodona.open(path, analyst="ada") as stays:
        answer = stays.ask(OLD)
    assert (answer.value.within, answer.confidence) == (50, 0.9)


def test_changed_rows_under_an_old_version_are_refused(tmp_path):
    path = written(tmp_path)
    dodona.create_ledger(path)
    with dodona.open(path, analyst="ada") as stays:
        stays.ask(OLD)
    (tmp_path / "stays.csv").write_text(rows(1_001), encoding="utf-8")
    with pytest.raises(VersionChanged, match="2026-10"):
        dodona.open(path, analyst="ada")
    path.write_text(TOML.replace("2026-10", "2026-11"), encoding="utf-8")
    with dodona.open(path, analyst="ada") as stays:
        assert stays.ask(OLD).source == "measured"
        assert stays.budget.charges == 2


def test_a_schema_that_changed_is_refused(tmp_path):
    path = written(tmp_path)
    dodona.create_ledger(path)
    path.write_text(TOML.replace("upper = 99", "upper = 120"), encoding="utf-8")
    with pytest.raises(LedgerOfAnother, match="schema"):
        dodona.open(path, analyst="ada")


PERSON = 'protects = "person"\nid = "patient"\nrows = 2'


def test_people_are_protected_with_all_their_rows(tmp_path):
    """Of a person with many rows two count; a count costs what two rows cost, and people are counted once."""
    path = written(tmp_path, TOML.replace('protects = "row"', PERSON).replace('epsilon = "1"', 'epsilon = "100"'))
    lines = [f"{'female' if row % 3 else 'male'},{row % 100},{min(row, 500)}" for row in range(1_000)]
    (tmp_path / "stays.csv").write_text("\n".join(["sex,age,patient", *lines, "male,7,"]) + "\n", encoding="utf-8")
    dodona.create_ledger(path)
    with dodona.open(path, analyst="ada") as stays:
        rows = stays.ask("SELECT count(*) FROM stays", within=20).value
        assert abs(rows.value - 502) <= 60  # 500 patients with one row, and two rows of the busy one
        people = stays.ask("SELECT count(DISTINCT patient) FROM stays", within=20)
        assert abs(people.value.value - 501) <= 60
        assert rows.value != people.value.value or stays.budget.charges == 2
        cheaper = stays.quote("SELECT count(DISTINCT patient) FROM stays WHERE age < 50", within=20).price.share
        assert cheaper < stays.quote("SELECT count(*) FROM stays WHERE age < 50", within=20).price.share
        with pytest.raises(InvalidRequest, match=r"count\(DISTINCT patient\)"):
            stays.ask("SELECT count(*) FROM stays WHERE patient = '3'")
        with pytest.raises(InvalidRequest, match="not drawn independently"):
            _ = stays.ask("SELECT count(*) FROM stays WHERE age > 50").population


def test_a_rehearsal_of_people_has_people(tmp_path):
    path = written(tmp_path, TOML.replace('protects = "row"', PERSON))
    count = dodona.rehearse(path).ask("SELECT count(DISTINCT patient) FROM stays", within=30).value.value
    assert abs(count - 500) <= 100


def test_a_frame_keeps_its_ledger_in_memory_and_says_so():
    with pytest.warns(UserWarning, match="forgotten"):
        stays = dodona.open(FRAME, schema=SCHEMA, budget=dodona.Budget(1, "1e-6", "renyi"), max_price=1)
    assert stays.ask(OLD, within=30).source == "measured"


def test_a_frame_may_have_a_ledger_that_stays(tmp_path):
    place, budget = tmp_path / "stays.ledger", dodona.Budget(1, "1e-6", "renyi")
    with pytest.raises(LedgerMissing):
        dodona.open(FRAME, schema=SCHEMA, budget=budget, ledger=place)
    dodona.create_ledger(place, schema=SCHEMA, budget=budget)
    with dodona.open(FRAME, schema=SCHEMA, budget=budget, ledger=place) as stays:
        first = stays.ask(OLD, within=30, max_price=1)
    with dodona.open(FRAME, schema=SCHEMA, budget=budget, ledger=place) as stays:
        assert stays.ask(OLD, within=30, max_price=1).value == first.value


def test_another_frame_over_the_same_ledger_needs_a_new_version(tmp_path):
    place, budget = tmp_path / "stays.ledger", dodona.Budget(1, "1e-6", "renyi")
    dodona.create_ledger(place, schema=SCHEMA, budget=budget)
    with dodona.open(FRAME, schema=SCHEMA, budget=budget, ledger=place) as stays:
        stays.ask(OLD, within=30, max_price=1)
    fewer = FRAME.head(100)
    with pytest.raises(VersionChanged):
        dodona.open(fewer, schema=SCHEMA, budget=budget, ledger=place)
    with dodona.open(fewer, schema=SCHEMA, budget=budget, ledger=place, version="2") as stays:
        assert stays.ask(OLD, within=30, max_price=1).source == "measured"


@pytest.mark.parametrize("given", [{}, {"schema": SCHEMA}, {"budget": dodona.Budget(1, 0, "pure")}])
def test_a_frame_needs_a_schema_and_a_budget(given):
    with pytest.raises(InvalidRequest, match="schema= and budget="):
        dodona.open(FRAME, **given)


def test_a_dataset_file_takes_nothing_beside_it(tmp_path):
    with pytest.raises(InvalidRequest, match="says everything itself"):
        dodona.open(written(tmp_path), schema=SCHEMA)


def test_a_rehearsal_reads_the_schema_alone_and_never_runs_out(tmp_path):
    path = written(tmp_path)
    (tmp_path / "stays.csv").unlink()
    with dodona.rehearse(path) as stays:
        for _ in range(3):
            answer = stays.ask("SELECT sex, count(*) FROM stays GROUP BY sex", epsilon=5)
        assert [row.cells[0] for row in answer.rows] == ["female", "male", "<missing>", "<outside>"]
        stays.ask("SELECT count(*) FROM stays", epsilon=50)
    assert not (tmp_path / "stays.ledger").exists()


def test_a_rehearsal_of_nothing_is_refused():
    with pytest.raises(InvalidRequest, match="dataset file or a schema"):
        dodona.rehearse(FRAME)


@pytest.mark.parametrize("torn", ["", '{"2026-10": "ab', "[1]", '{"2026-10": 7}', "\udcff"])
def test_a_torn_list_of_versions_is_told_and_not_written_over(tmp_path, torn):
    path = written(tmp_path)
    dodona.create_ledger(path)
    kept = tmp_path / ".hospital-stays.versions"
    kept.write_text(torn, encoding="utf-8", errors="surrogateescape")
    with pytest.raises(InvalidRequest, match="torn"):
        dodona.open(path, analyst="ada")
    assert kept.read_bytes() == torn.encode(errors="surrogateescape")


def test_a_planted_link_is_not_followed_when_versions_are_written(tmp_path):
    path = written(tmp_path)
    dodona.create_ledger(path)
    victim = tmp_path / "victim"
    victim.write_text("mine", encoding="utf-8")
    (tmp_path / ".hospital-stays.versions.new").symlink_to(victim)
    dodona.open(path, analyst="ada").close()
    assert victim.read_text(encoding="utf-8") == "mine"
    assert not (tmp_path / ".hospital-stays.versions").is_symlink()


def test_many_columns_are_read_with_work_in_proportion():
    """Each table asks after its own keys alone: what is looked at grows with the file, and not with its square."""
    asked = list[int]()
    for number in (200, 400):
        more = "".join(f'[columns.c{place}]\nkind = "boolean"\n' for place in range(number))
        root = TomlTable.parse(TOML + more, file="stays.toml")
        assert len(load_schema(root).domain.names) == number + 2
        asked.append(max(map(len, root.notes.asked.values())))
    assert asked[1] - asked[0] == 200  # the table of columns; every other one has a few


def test_people_whose_id_is_missing_in_any_way_are_nobody():
    import numpy as np

    schema = dodona.Schema.of("stays", dodona.Integer("age", 0, 99), size=9, id="who", rows=1)
    whose = pd.Series([pd.NA, None, float("nan"), np.datetime64("NaT"), "ada", "ada", "ben", 7], dtype=object)
    frame = pd.DataFrame({"age": range(8), "who": whose})
    source = DuckDBSource.frame(schema, frame, key=bytes(32))
    assert values(source, Query.count(schema.domain)) == [3]
    with pytest.raises(SourceUnfit, match="cannot be compared"):
        DuckDBSource.frame(schema, pd.DataFrame({"age": [1], "who": [[1, 2]]}))


def test_columns_of_types_that_duckdb_does_not_have_are_read_all_the_same():
    import numpy as np

    half = np.array([0.5, 1.5, 70.25, np.nan], dtype=np.float16)
    wide = pa.array([Decimal("0.5"), Decimal("1e50"), None, Decimal(-3)], pa.decimal256(76, 20))
    schema = dodona.Schema.of("t", dodona.Number("x", 0, 100, "0.25"), dodona.Integer("w", 0, 9), size=9)
    frame = pa.table({"x": half, "w": wide})
    memory = MemorySource(schema, {"x": half, "w": wide.to_pylist()})
    for name in ("x", "w"):
        query = Query.histogram(schema.domain, [name])
        assert values(DuckDBSource.frame(schema, frame), query) == values(memory, query)
    people = dodona.Schema.of("t", dodona.Number("x", 0, 100, "0.25"), size=9, id="w", rows=1)
    assert values(DuckDBSource.frame(people, frame, key=bytes(32)), Query.count(people.domain)) == [3]
    pandas = dodona.Schema.of("t", dodona.Number("x", 0, 100, "0.25"), size=9)
    assert values(DuckDBSource.frame(pandas, pd.DataFrame({"x": half})), Query.count(pandas.domain)) == [4]


@pytest.mark.parametrize(
    ("frame", "says"),
    [
        (pl.LazyFrame({"age": [1]}), "collect"),
        (pa.table({"age": pa.array([(1, 2, 3)], pa.month_day_nano_interval())}), "age|type"),
        (pa.table({"age": pa.array([{"a": 1}])}), "age|type"),
    ],
)
def test_a_frame_that_cannot_be_read_is_refused_in_words(frame, says):
    with pytest.raises(SourceUnfit, match=says):
        dodona.open(frame, schema=SCHEMA, budget=dodona.Budget(1, 0, "pure"))


@pytest.mark.parametrize("wrong", ["x,1\n" * 9, "x,male\n" * 9 + ",\n"])
def test_a_column_in_which_nothing_is_declared_is_told_to_an_owner_who_opens_a_version_first(tmp_path, wrong):
    nameless = re.sub(r"\[\[analysts\]\]\n(.+\n)*", "", TOML)
    path = written(tmp_path, nameless)
    (tmp_path / "stays.csv").write_text("sex,age\n" + wrong, encoding="utf-8")
    dodona.create_ledger(path)
    with pytest.warns(UserWarning, match="No row has a declared value in sex" + (", age:" if "male" in wrong else ":")):
        dodona.open(path).close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dodona.open(path).close()


def test_an_analyst_hears_nothing_that_depends_on_the_rows(tmp_path):
    path = written(tmp_path)
    (tmp_path / "stays.csv").write_text("sex,age\n" + "x,1\n" * 9, encoding="utf-8")
    dodona.create_ledger(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dodona.open(path, analyst="ada").close()


@pytest.mark.filterwarnings("ignore:The ledger is in memory")
def test_a_frame_in_which_nothing_is_declared_is_told():
    budget = dodona.Budget(1, 0, "pure")
    with pytest.warns(UserWarning, match="No row has a declared value in age"):
        dodona.open(pd.DataFrame({"age": ["old", "young"]}), schema=SCHEMA, budget=budget)
    schema = dodona.Schema.of("stays", dodona.Integer("age", 0, 110, source="Age (years)"), size=9)
    with dodona.open(pd.DataFrame({"Age (years)": ["17", "x"]}), schema=schema, budget=budget) as stays:
        assert stays.ask("SELECT count(*) FROM stays WHERE age = 17", epsilon="1/2", max_price=1).source == "measured"
