"""Commands that take several questions or tell less than answers, what a dataset is, and where answers go."""

import csv
import json

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from dodona.cli.main import app
from tests.dataset.scene import TOML, written

BY_SEX = "SELECT sex, count(*) FROM stays GROUP BY sex"
AGES = [f"SELECT count(*) FROM stays WHERE age >= {age}" for age in (20, 60)]  # noqa: S608
TYPO = "SELECT count(*) FROM stays WHERE aeg > 3"


@pytest.fixture
def dataset(tmp_path):
    path = written(tmp_path, TOML.replace("size = 1_000", "size = 100_000").replace('epsilon = "1"', 'epsilon = "8"'))
    assert run("ledger", "create", str(path)).exit_code == 0
    return str(path)


def run(*arguments: str, text=None):
    return CliRunner().invoke(app, list(arguments), input=text, env={"DODONA_ANALYST": "ada"})


def charges(dataset) -> int:
    return json.loads(run("budget", dataset, "--json").stdout)["charges"]


def test_an_analyst_sees_the_schema_the_unit_the_budget_and_the_defaults(dataset):
    shown = " ".join(run("describe", dataset).stdout.split())
    assert "female, male" in shown
    assert "0 to 99" in shown
    assert "Left: 100%" in shown
    assert "By default: within" in shown
    description = json.loads(run("describe", dataset, "--json").stdout)
    assert {column["name"]: column["kind"] for column in description["columns"]}["age"] == "integer"
    assert description["budget"]["yours"] == "1/2"
    assert set(description["unit"]) == {"protects", "id", "rows", "caps", "neighbours", "size", "left_out"}
    assert charges(dataset) == 0


def test_a_choice_names_groups_and_no_counts(dataset):
    choice = json.loads(run("choose", dataset, BY_SEX, "--epsilon", "0.5", "--count", "2", "--json").stdout)
    assert len(choice["names"]) == 2
    assert "Each is within" in run("choose", dataset, BY_SEX, "--epsilon", "0.1").stdout
    assert charges(dataset) == 2


def test_alerts_are_told_until_the_last_one(dataset):
    low, high = (
        json.loads(run("above", dataset, threshold, *AGES, "--epsilon", "0.2", "--json").stdout)
        for threshold in ("100", "1000000")
    )
    assert (len(low["answers"]), low["left_out"]) == (1, 1)
    assert [answer["above"] for answer in high["answers"]] == [False, False]
    assert charges(dataset) == 2


def test_a_workload_is_planned_and_then_bought_from_a_file(dataset, tmp_path):
    (tmp_path / "ages.sql").write_text("-- a comment\n" + ";\n\n".join(AGES) + ";\n")
    options = ("prepare", dataset, "--file", str(tmp_path / "ages.sql"), "--within", "100")
    planned = json.loads(run(*options, "--dry-run", "--json").stdout)
    assert charges(dataset) == 0
    bought = json.loads(run(*options, "--json").stdout)
    assert (bought["questions"], bought["price"]) == (2, planned["price"])
    assert json.loads(run("ask", dataset, AGES[1], "--within", "100", "--json").stdout)["price"]["share"] == "0"


def test_weights_answer_counts_from_standard_input(dataset):
    answered = run("weights", dataset, "-", "--epsilon", "0.9", "--json", text="\n".join(AGES))
    release = json.loads(answered.stdout)
    assert [answer["question"] for answer in release["answers"]] == AGES
    assert release["within"] > 0


def test_every_command_says_how_many_rows_of_a_person_count(tmp_path):
    people = (
        TOML.replace('protects = "row"', 'protects = "person"\nid = "who"\nrows = 2')
        .replace('"1"', '"8"')
        .replace("1_000", "100_000")
    )
    path = written(tmp_path, people)
    lines = (tmp_path / "stays.csv").read_text().splitlines()
    whose = ["who", *(str(row // 4) for row in range(len(lines) - 1))]
    (tmp_path / "stays.csv").write_text("".join(f"{line},{who}\n" for line, who in zip(lines, whose, strict=True)))
    assert run("ledger", "create", str(path)).exit_code == 0
    about = "Of each person at most 2 rows count."
    commands = {
        "quote": (BY_SEX,),
        "ask": (BY_SEX,),
        "choose": (BY_SEX, "--epsilon", "0.1"),
        "above": ("100", AGES[0], "--epsilon", "0.1"),
        "weights": (*AGES, "--epsilon", "0.5"),
    }
    for name, rest in commands.items():
        shown = run(name, str(path), *rest)
        assert shown.exit_code == 0, shown.stderr
        assert about in " ".join(shown.stdout.split()), name
        assert json.loads(run(name, str(path), *rest, "--json").stdout)["about"] == about, name


def test_an_offer_names_its_noise_as_the_answer_does(dataset):
    offered, answered = (json.loads(run(name, dataset, BY_SEX, "--json").stdout) for name in ("quote", "ask"))
    assert offered["mechanism"] == answered["mechanism"]
    assert answered["mechanism"].endswith("on each of 4 values")
    assert "noise of scale" in run("prepare", dataset, *AGES, "--within", "100").stdout


@pytest.mark.parametrize(
    "command",
    [
        ("choose", TYPO, "--epsilon", "0.1"),
        ("above", "10", AGES[0], TYPO, "--epsilon", "0.1"),
        ("prepare", AGES[0], TYPO, "--within", "10%"),
        ("prepare", "--within", "10%"),
        ("prepare", "--file", "nowhere.sql", "--within", "10%"),
        ("weights", AGES[0], TYPO, "--epsilon", "0.5"),
        ("weights", AGES[0], "--columns", "sex", "--epsilon", "0.5"),
        ("ask", BY_SEX, "--output", "answer.xlsx"),
        ("ask", BY_SEX, "--output", "nowhere/answer.csv"),
        ("plan", "--columns", "aeg"),
    ],
)
def test_a_mistake_is_told_before_anything_is_charged(dataset, command):
    name, *rest = command
    ended = run(name, *(("--dataset", dataset) if name == "plan" else (dataset,)), *rest)
    assert ended.exit_code == 2
    assert "Nothing was charged" in ended.stderr
    assert charges(dataset) == 0


def test_all_rows_go_to_a_file_and_the_first_ones_to_the_screen(dataset, tmp_path):
    question = "SELECT bin(age, 1) AS year, count(*) FROM stays GROUP BY 1"
    shown = run("ask", dataset, question, "--within", "30%").stdout
    assert "… and 42 more rows. Write --output FILE.csv" in shown
    assert len(shown.splitlines()) < 80
    for suffix in ("csv", "json", "parquet"):
        output = tmp_path / f"answer.{suffix}"
        ended = run("ask", dataset, question, "--within", "30%", "--output", str(output))
        assert "All 102 rows are in" in " ".join(ended.stdout.split())
        assert run("ask", dataset, question, "--output", str(output)).exit_code == 2  # nothing is written over
    with (tmp_path / "answer.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    table = pq.read_table(tmp_path / "answer.parquet")
    assert (len(rows), rows[40]["year"], list(rows[0])) == (102, "40", table.column_names)
    assert [float(row["count_low"]) for row in rows] == table["count_low"].to_pylist()
    assert len(json.loads((tmp_path / "answer.json").read_text())["rows"]) == 102


def test_columns_that_do_not_fit_are_counted(dataset):
    many = ", ".join(f"count(*) FILTER (WHERE age > {age}) AS older_than_{age}" for age in range(0, 100, 10))
    shown = run("ask", dataset, f"SELECT {many} FROM stays", "--within", "30%").stdout  # noqa: S608
    assert "more columns. Write --output" in shown
    assert all(len(line) <= 110 for line in shown.splitlines())
