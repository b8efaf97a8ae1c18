"""`dodona synthesize`: quote, run, take up again, and refuse, from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import dodona
from dodona.cli.main import app
from tests.synth.scene import DATASET

WORKLOAD = """format = 1
dataset = "stays.toml"
share = "1/2"
[[workload]]
ways = 2
[output]
path = "made-up.parquet"
report = "report.html"
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    chance = np.random.default_rng(4)
    rows = [
        f"{'male' if chance.random() < 0.3 else 'female'},{'true' if days > 4 else 'false'},{days}"
        for days in chance.integers(0, 10, 2000)
    ]
    (tmp_path / "stays.csv").write_text("sex,emergency,days\n" + "\n".join(rows) + "\n", encoding="utf-8")
    (tmp_path / "stays.toml").write_text(DATASET, encoding="utf-8")
    (tmp_path / "workload.toml").write_text(WORKLOAD, encoding="utf-8")
    dodona.create_ledger(tmp_path / "stays.toml")
    return tmp_path


def run(place: Path, *options: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["synthesize", str(place / "workload.toml"), *options])
    return result.exit_code, result.output


def test_a_quote_costs_nothing_and_a_release_writes_rows_and_a_report(place: Path):
    code, output = run(place, "--quote", "--json")
    assert code == 0
    assert float(eval(json.loads(output)["share"])) == pytest.approx(0.5, rel=1e-6)  # noqa: S307  a fraction
    assert not (place / "made-up.parquet").exists()
    code, output = run(place, "--json")
    figures = json.loads(output.strip().splitlines()[-1])
    assert code == 0
    assert figures["rows"] == 2000
    assert figures["paid"] == figures["charges"] >= 1
    table = pq.read_table(place / "made-up.parquet")
    assert set(table.column("sex").to_pylist()) <= {"female", "male"}
    assert 400 < sum(sex == "male" for sex in table.column("sex").to_pylist()) < 800
    assert "Error against noise floor" in (place / "report.html").read_text(encoding="utf-8")
    code, output = run(place, "--json")
    again = json.loads(output.strip().splitlines()[-1])
    assert (code, again["paid"]) == (0, 0)


def test_the_owners_page_is_made_only_where_both_options_are_given(place: Path):
    code, output = run(place, "--owner-report", str(place / "owner.html"))
    assert code == 2
    assert "go together" in output
    code, output = run(place, "--compare", str(place / "stays.csv"), "--owner-report", str(place / "owner.html"))
    assert code == 0, output
    assert "OWNER ONLY" in (place / "owner.html").read_text(encoding="utf-8")
    assert "OWNER ONLY" not in (place / "report.html").read_text(encoding="utf-8")
    assert pc.read_csv(place / "stays.csv").num_rows == 2000


def test_a_release_past_the_budget_is_refused_and_nothing_is_charged(place: Path):
    text = WORKLOAD.replace('share = "1/2"', 'epsilon = "5"')
    (place / "workload.toml").write_text(text, encoding="utf-8")
    code, output = run(place)
    assert code == 3
    assert "release-too-dear" in output
    assert "Nothing was charged" in output
    with dodona.open(place / "stays.toml") as stays:
        assert stays.budget.charges == 0


def test_words_are_for_people(place: Path):
    code, output = run(place, "--quote")
    assert code == 0
    assert "Method annealed: takes 50% of the budget" in output
    code, output = run(place)
    assert code == 0
    assert "A model of sex, emergency, days" in output
    assert "2,000 rounded rows" in output


def test_a_mistake_in_the_file_is_told_with_its_line(place: Path):
    (place / "workload.toml").write_text(WORKLOAD.replace("ways = 2", "ways = 9"), encoding="utf-8")
    code, output = run(place)
    assert code == 2
    assert "workload.toml:5:" in output


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            'share = "1/2"',
            'share = "1/2"\nmethod = "blr"\nsettings = {rows = 20}',
            ("release-universe-too-large", "'annealed' or 'mwem'"),
        ),
        ('share = "1/2"', 'share = "1/2"\nmethod = "blr"\nsettings = {rows = 2, within = 0.1}', ("rows", "within")),
        ('share = "1/2"', 'share = "1/2"\nepsilon = "1"', ("share", "epsilon")),
        ("ways = 2", 'by = ["sex", "height"]', ("height", "workload.toml:5:")),
        ("made-up.parquet", "made-up.doc", (".parquet", ".csv")),
    ],
)
def test_what_cannot_be_released_is_refused_in_words_and_nothing_is_charged(place: Path, old, new, said):
    text = WORKLOAD.replace(old, new)
    assert text != WORKLOAD
    (place / "workload.toml").write_text(text, encoding="utf-8")
    code, output = run(place)
    assert code == 2
    assert all(words in output for words in said), output
    assert "Nothing was charged" in output
    with dodona.open(place / "stays.toml") as stays:
        assert stays.budget.charges == 0


def test_words_about_a_dataset_file_need_no_release_file(place: Path):
    options = ["--workload", "2-way", "--column", "sex", "--column", "days", "--share", "10%"]
    paths = ["--output", str(place / "rows.csv"), "--report", str(place / "page.html")]
    result = CliRunner().invoke(app, ["synthesize", str(place / "stays.toml"), *options, *paths])
    assert result.exit_code == 0, result.output
    assert pc.read_csv(place / "rows.csv").column_names == ["sex", "days"]
    assert (place / "page.html").exists()
    about = CliRunner().invoke(
        app, ["synthesize", str(place / "stays.toml"), "--target", "sex", "--epsilon", "1", "--quote"]
    )
    assert "of the budget" in about.output


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--workload", "2-way"], "one of --epsilon"),
        (["--workload", "two", "--share", "10%"], "Write one of '1-way'"),
        (["--workload", "2-way", "--share", "10%", "--output", "rows.doc"], ".parquet"),
        (["--share", "10%"], "--share belong to --workload"),
    ],
)
def test_words_that_do_not_fit_are_refused_and_nothing_is_charged(place: Path, options: list[str], said: str):
    result = CliRunner().invoke(app, ["synthesize", str(place / "stays.toml"), *options])
    assert result.exit_code == 2
    assert said in result.output
    assert "Nothing was charged" in result.output


def test_rows_have_the_types_of_a_parquet_source(place: Path):
    table = pc.read_csv(place / "stays.csv")
    small = pa.schema({"sex": pa.dictionary(pa.int32(), pa.string()), "emergency": pa.bool_(), "days": pa.int8()})
    pq.write_table(table.cast(small), place / "stays.parquet")
    text = DATASET.replace('"csv"', '"parquet"').replace("stays.csv", "stays.parquet").replace('"stays"', '"typed"', 1)
    (place / "stays.toml").write_text(text.replace("stays.ledger", "typed.ledger"), encoding="utf-8")
    dodona.create_ledger(place / "stays.toml")
    code, text = run(place)
    assert code == 0, text
    assert pq.read_schema(place / "made-up.parquet").types == small.types


def test_a_file_that_cannot_be_written_is_an_error_and_the_same_command_goes_on_without_a_charge(place: Path):
    (place / "made-up.parquet").mkdir()
    code, output = run(place)
    assert code == 2
    assert "pays for nothing twice" in output
    (place / "made-up.parquet").rmdir()
    code, output = run(place, "--json")
    assert (code, json.loads(output.strip().splitlines()[-1])["paid"]) == (0, 0)


def test_rows_that_cannot_be_written_after_a_charge_say_that_it_stands(place: Path):
    """And once more by the same command, that nothing was charged."""
    (place / "made-up.parquet").mkdir()  # a file cannot take its place
    code, output = run(place)
    assert code == 2
    assert "could not be written" in output
    assert "The charge stands." in output
    assert "Nothing was charged." not in output
    code, output = run(place)
    assert code == 2
    assert "Nothing was charged." in output
    (place / "made-up.parquet").rmdir()
    code, output = run(place, "--json")
    assert (code, json.loads(output.strip().splitlines()[-1])["paid"]) == (0, 0)
