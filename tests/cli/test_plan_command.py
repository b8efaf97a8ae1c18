"""`dodona plan`: the table with its advice first, JSON, inverses, pictures, and refusals."""

import json

import pytest
from typer.testing import CliRunner

from dodona.cli.main import app

PLAN = ["--rows", "100000", "--questions", "100", "--cells", "256", "--epsilon", "1", "--delta", "1e-6"]


def run(*arguments: str):
    return CliRunner().invoke(app, ["plan", *arguments])


def test_the_advice_comes_first_and_the_table_is_sorted():
    done = run(*PLAN)
    assert done.exit_code == 0, done.output
    lines = [line.strip() for line in done.output.splitlines() if line.strip()]
    assert lines[0].startswith("100,000 rows, 100 questions, 256 cells, epsilon 1, delta 1e-6")
    assert lines[1].startswith("Gaussian noise: every answer is within") or lines[1].startswith("If questions may")
    shares = [
        float(word.removesuffix("%"))
        for line in lines
        if any(asked in line for asked in (" in turn ", " all known "))
        for word in line.split()
        if word.endswith("%") and word[0].isdigit()
    ]
    assert len(shares) >= 12
    assert shares == sorted(shares)
    assert "For one person" in done.output


def test_json_holds_the_same_as_the_table():
    done = run(*PLAN, "--json")
    plan = json.loads(done.output.splitlines()[-1])
    assert plan["setting"]["neighbours"] == "replace"
    assert plan["promises"][0]["within"] <= plan["promises"][1]["within"]
    assert {"laplace-basic", "gaussian-exact", "blr", "mwem", "pmw", "histogram"} <= {
        promise["mechanism"] for promise in plan["promises"]
    }


@pytest.mark.parametrize(
    ("side", "given"),
    [
        ("rows", ["--questions", "100", "--delta", "1e-6"]),
        ("epsilon", ["--rows", "100000", "--questions", "20"]),
        ("questions", ["--rows", "100000"]),
    ],
)
def test_a_wanted_error_is_turned_into_what_it_needs(side, given):
    done = run(*given, "--within", "1%", "--find", side)
    assert done.exit_code == 0, done.output
    assert "Within 1% of the rows" in done.output
    plan = json.loads(run(*given, "--within", "0.01", "--find", side, "--json").output)
    assert plan["unknown"] == side
    assert side not in plan["setting"]
    assert plan["needed"]["laplace-basic"] > 0


def test_tasks_marginals_and_conjunctions_have_their_tables():
    above = run("--rows", "10000", "--questions", "500", "--task", "above", "--positives", "3")
    assert "NumericSparse, best constants" in above.output
    assert "iterated selection" in above.output
    largest = run("--rows", "10000", "--questions", "500", "--task", "largest", "--neighbours", "add-remove")
    assert "report noisy max" in largest.output
    marginals = run("--rows", "10000", "--columns", "2,3,2", "--ways", "2", "--delta", "1e-6")
    assert "residuals below the marginals" in marginals.output
    assert "16 questions, 12 cells" in marginals.output
    example = run("--rows", "100000", "--conjunctions", "8", "--delta", "1e-6")
    assert "256 questions, 256 cells" in example.output


def test_a_picture_is_written_where_it_is_wanted(tmp_path):
    path = tmp_path / "plan.svg"
    done = run("--rows", "10000", "--questions", "20", "--plot", str(path), "--over", "epsilon")
    assert done.exit_code == 0, done.output
    assert "<svg" in path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--questions", "5"], "rows"),
        (["--rows", "5"], "questions"),
        (["--rows", "5", "--questions", "0"], "questions"),
        (["--rows", "5", "--questions", "5", "--delta", "2"], "delta"),
        (["--rows", "5", "--questions", "5", "--epsilon", "0"], "epsilon"),
        (["--rows", "5", "--columns", "2,x"], "columns"),
        (["--rows", "5", "--columns", "2,2", "--questions", "99"], "questions"),
        (["--rows", "5", "--columns", "2,2", "--ways", "3"], "ways"),
        (["--rows", "5", "--conjunctions", "4", "--questions", "3"], "conjunctions"),
        (["--rows", "5", "--conjunctions", "99"], "columns"),
        (["--rows", "5", "--questions", "5", "--within", "1%"], "within"),
        (["--rows", "5", "--questions", "5", "--within", "lots", "--find", "rows"], "within"),
        (["--rows", "5", "--questions", "5", "--within", "200%", "--find", "rows"], "within"),
        (["--rows", "5", "--questions", "5", "--plot", "nowhere/plan.png"], "plot"),
        (["--rows", "5", "--questions", "5", "--plot", "plan.doc"], "plot"),
        (["--rows", "5", "--columns", "2,2", "--within", "1%", "--find", "questions"], "workload"),
    ],
)
def test_contradictory_plans_are_refused_in_words(arguments, said):
    done = run(*arguments)
    assert done.exit_code == 2
    assert said in done.output
    assert "Nothing was charged." in done.output
