"""Synthetic rows of several tables: linked by made-up ids, within the caps, and tied as the real ones are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import dodona
from dodona.cli.main import app
from dodona.errors import InvalidRequest
from dodona.knowledge.constraints import compile_constraints
from dodona.query.query import Query
from dodona.schema.attributes import Boolean, Category, Integer
from dodona.schema.schema import ROW_OF, Domain, LinkedTable, Schema
from dodona.synth.linked import split_tables
from dodona.synth.table import SyntheticRows
from dodona.synth.workload import Workload

PEOPLE = 3000
DATASET = """format = 1
dataset = "care"
[source]
kind = "parquet"
path = "visits.parquet"
table = "visits"
[unit]
protects = "person"
id = "patient_id"
rows = 2
neighbours = "add-remove"
size = 3600
[budget]
epsilon = "10"
delta = "1e-6"
[ledger]
path = "care.ledger"
[columns.ward]
kind = "category"
labels = ["old", "young"]
[tables.patients]
path = "patients.parquet"
rows = 1
size = 3000
[tables.patients.columns.age]
kind = "integer"
lower = 0
upper = 5
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, chance = tmp_path_factory.mktemp("care"), np.random.default_rng(1)
    age = chance.integers(0, 6, PEOPLE)
    owner = np.repeat(np.arange(PEOPLE), chance.choice([0, 1, 2], PEOPLE, p=[0.2, 0.4, 0.4]))
    ward = np.where(age[owner] > 2, "old", "young")
    pd.DataFrame({"patient_id": owner, "ward": ward}).to_parquet(folder / "visits.parquet")
    pd.DataFrame({"patient_id": np.arange(PEOPLE), "age": age}).to_parquet(folder / "patients.parquet")
    (folder / "care.toml").write_text(DATASET)
    dodona.create_ledger(folder / "care.toml")
    return folder


def test_tables_are_linked_by_made_up_ids_and_tied_as_the_real_ones_are(place: Path):
    with dodona.open(place / "care.toml") as curator:
        model = dodona.synthesize(curator, "2-way", share="1/2")
    tables = {name: rows.to_pandas() for name, rows in model.tables().items()}
    visits, patients = tables["visits"], tables["patients"]
    assert list(visits.columns) == ["patient_id", "ward"]
    assert list(patients.columns) == ["patient_id", "age"]
    assert abs(len(visits) - 3600) < 200
    assert abs(len(patients) - 3000) < 200
    assert patients.patient_id.is_unique
    assert visits.groupby("patient_id").size().max() <= 2
    joined = visits.merge(patients, on="patient_id").dropna()
    assert len(joined) > 3000
    assert ((joined.ward == "old") == (joined.age > 2)).mean() > 0.9
    assert {name: rows.to_pandas().equals(tables[name]) for name, rows in model.tables().items()} == {
        "visits": True,
        "patients": True,
    }
    with pytest.raises(InvalidRequest, match="tables"):
        model.rounded(people=100)


def test_the_command_writes_a_file_for_each_table(place: Path):
    options = ["--workload", "2-way", "--share", "1/4", "--output", str(place / "made-up.parquet")]
    result = CliRunner().invoke(app, ["synthesize", str(place / "care.toml"), *options])
    assert result.exit_code == 0, result.output
    assert "Rows of 2 tables: made-up-visits, made-up-patients" in result.output
    kinds = pq.read_schema(place / "made-up-patients.parquet")
    assert [str(kind) for kind in kinds.types] == ["int64", "int64"]


def test_real_rows_meet_what_is_known_of_several_tables(place: Path):
    """With little noise, no count of rows that have a value of a table that they are not joined to is far from 0."""
    with dodona.open(place / "care.toml") as curator:
        schema = curator.desk.dataset.schema
        blocks = [Query.count(schema.domain, constraint.forbidden) for constraint in compile_constraints(schema)]
        assert len(blocks) == 2
        for query in blocks:
            assert abs(float(curator.ask(query, epsilon="0.2", max_price=1).value.value)) < 300  # of 3,000 and more


def made_up(labels: list[str], ages: list[int]) -> tuple[Schema, SyntheticRows]:
    domain = Domain((Integer("age", 0, 5),))
    declared = Schema.of(
        "visits", Boolean("urgent"), size=10, id="who", rows=2, linked=[LinkedTable("patients", domain, "person")]
    )
    row_of = declared.domain[ROW_OF]
    assert isinstance(row_of, Category)
    codes = {
        "urgent": np.zeros(len(labels), dtype=np.int64),
        ROW_OF: np.array([row_of.labels.index(label) for label in labels]),
        "age": np.array(ages),
    }
    return declared, SyntheticRows(declared.domain, codes)


def test_a_row_goes_to_a_person_with_the_same_values_as_long_as_there_is_room():
    labels = ["patients", "patients", *["visits+patients"] * 5, "visits"]
    declared, rows = made_up(labels, [1, 4, 1, 1, 1, 4, 5, 6])
    tables = split_tables(declared, rows, np.random.default_rng(1))
    assert tables["patients"].id == "person"
    owners = tables["visits"].people
    assert owners is not None
    assert (owners[:3] == 0).sum() == 2  # the third visit of age 1 has no room there
    assert owners[3] == 1
    assert np.bincount(owners)[:2].tolist() == [2, 2]
    assert (owners >= 2).sum() == 2  # one without room anywhere, and one of nobody in the other table
    assert np.bincount(owners).max() <= 2


def test_what_is_not_of_several_tables_is_refused():
    declared, rows = made_up(["patients"], [1])
    with pytest.raises(InvalidRequest, match="one table here"):
        split_tables(declared.own, rows, np.random.default_rng(1))
    without = SyntheticRows(declared.domain.project(["age"]), {"age": rows.codes["age"]})
    with pytest.raises(InvalidRequest, match="which table a row is of"):
        split_tables(declared, without, np.random.default_rng(1))
    names = {frozenset(block.attributes) for block in Workload.ways(declared.domain, 1).query.blocks}
    assert frozenset({ROW_OF}) in names
