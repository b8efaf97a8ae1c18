"""`dodona check`: exact counts for the owner, which leave no trace."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dodona.cli.main import app
from tests.dataset.awkward import write_parquet
from tests.dataset.scene import TOML, written

WIDE = {"COLUMNS": "250", "TERM": "dumb"}
PEOPLE = """
id = "who"
rows = 2
"""


def run(*arguments: str | Path):
    return CliRunner().invoke(app, list(map(str, arguments)), env=WIDE)


@pytest.fixture
def people(tmp_path: Path) -> Path:
    """Ten rows of three people and two of nobody."""
    path = written(tmp_path, TOML.replace('protects = "row"', f'protects = "person"{PEOPLE}'))
    lines = [f"female,{20 + place},{who}" for place, who in enumerate("aaaaabbc")] + ["male,120,", "x,-1,", ",,a"]
    (tmp_path / "stays.csv").write_text("\n".join(["sex,age,who", *lines]) + "\n", encoding="utf-8")
    return path


def test_people_rows_of_nobody_and_cut_rows_are_told(people: Path):
    report = json.loads(run("check", people, "--json").stdout)
    assert (report["rows"], report["nobody"], report["people"]) == (11, 2, 3)
    assert (report["cut"], report["counting"]) == (4, 5)
    assert report["private"].startswith("PRIVATE")
    shown = run("check", people).stdout
    assert shown.startswith("PRIVATE: exact counts of the data; for the owner alone.")
    for part in ("11 rows", "2 of nobody (18.2%): no who", "3 people", "4 rows cut", "5 rows count"):
        assert part in shown


def test_each_column_has_its_figures_and_a_hint(people: Path):
    report = json.loads(run("check", people, "--json").stdout)
    sex, age = report["columns"]
    assert (sex["missing"], sex["outside"]) == (1, 1)
    assert (age["missing"], age["below"], age["above"]) == (1, 1, 1)
    hints = " ".join(report["hints"])
    assert "9.09% of age are above 99: raise `upper` before the first charge, or accept clamping." in hints
    assert "9.09% of sex are none of the labels: they land in <outside>." in hints
    assert "unit.size = 1_000 is far" in hints


def test_a_draft_can_be_checked_and_nothing_is_written(tmp_path: Path):
    output = tmp_path / "stays.toml"
    assert run("init", write_parquet(tmp_path), "--output", output).exit_code == 0
    before = sorted(path.name for path in tmp_path.iterdir())
    done = run("check", output)
    assert done.exit_code == 0, done.output
    assert "This is a draft" in done.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_what_counts_as_another_value_is_told(tmp_path: Path):
    text = TOML.replace("upper = 99", "upper = 99\notherwise = 50").replace("size = 1_000", "size = 2")
    path = written(tmp_path, text.replace('"add-remove"', '"replace"'))
    (tmp_path / "stays.csv").write_text("sex,age\nmale,\nmale,old\nmale,3\n", encoding="utf-8")
    hints = " ".join(json.loads(run("check", path, "--json").stdout)["hints"])
    assert "33.3% of age are no numbers: they count as 50." in hints
    assert "33.3% of age are missing: they count as 50." in hints
    assert "write size = 3" in hints


@pytest.mark.parametrize("rows", ["0", "-1", '"many"'])
def test_a_cap_that_is_none_is_refused(tmp_path: Path, rows: str):
    unit = f'protects = "person"\nid = "who"\nrows = {rows}'
    done = run("check", written(tmp_path, TOML.replace('protects = "row"', unit)))
    assert done.exit_code == 2
    assert "unit.rows" in done.stderr


def test_a_table_that_is_not_what_is_declared_is_refused(tmp_path: Path):
    done = run("check", written(tmp_path, TOML + '[columns.gone]\nkind = "boolean"\n'))
    assert (done.exit_code, done.stderr[:13]) == (2, "source-unfit:")
