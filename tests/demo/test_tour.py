"""The demonstration: two runs differ in values and agree in charges; what it shows is true."""

import io
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from demo import questions, table
from demo.dataset import make
from demo.screen import Screen, gauge
from demo.tour import Tour, tour
from demo.truth import Judged
from dodona.answer.estimate import Estimate
from dodona.dataset.file import DatasetFile
from dodona.ledger import opening
from tests.house.tree import ROOT

ROWS = 4_000  # the declared size stays 200,000: prices follow from it


def run(folder: Path, *, seed: int = 1) -> tuple[Tour, str]:
    shown = io.StringIO()
    done = tour(table.stays(ROWS, seed=seed), folder, Screen(Console(file=shown, width=100)))
    return done, shown.getvalue()


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> tuple[tuple[Tour, str], tuple[Tour, str]]:
    return run(tmp_path_factory.mktemp("one")), run(tmp_path_factory.mktemp("two"))


def values(done: Tour) -> list[float]:
    return [float(cell.estimate) for cell in done.judged]


@pytest.mark.slow
def test_two_runs_agree_in_charges_and_differ_in_values(two) -> None:
    (first_tour, _), (other, _) = two
    assert first_tour.shares == other.shares
    assert len(first_tour.judged) == len(other.judged)  # which rows of a patient count is chosen anew with each ledger
    # Counts have noise of scale 20 and more: that half of a hundred pairs coincide has no chance.
    same = sum(first == second for first, second in zip(values(first_tour), values(other), strict=True))
    assert same < len(values(first_tour)) / 2


@pytest.mark.slow
def test_other_rows_cost_the_same(two, tmp_path: Path) -> None:
    assert run(tmp_path, seed=2)[0].shares == two[0][0].shares


@pytest.mark.slow
def test_the_charges_are_those_of_the_ledger(two) -> None:
    done = two[0][0]
    with opening.open_ledger(done.made.ledger) as ledger:
        state = ledger.verify()
    paid = [share for share in done.shares if share > 0]
    assert state.charges == len(paid)
    assert state.spent == sum(paid)


@pytest.mark.slow
def test_all_is_asked_and_three_answers_are_free(two) -> None:
    done, shown = two[0]
    assert len(done.told) == len(questions.ASKS) + 3 + len(questions.FREE)
    assert "dodona init stays.parquet --id patient" in shown
    assert f"{ROWS:,} stays of" in shown
    free = ["And all stays for cancer?", *(ask.title for ask in questions.FREE)]
    assert [question.title for question in done.told if question.share == 0] == free
    assert done.told[-2].judged[0].estimate == done.told[0].judged[0].estimate
    assert "There is no column `aeg`. Write `age`" in shown
    assert "ask for that, or for less. Nothing was charged" in " ".join(shown.split())
    assert f"{len(questions.BATCH)}/{len(questions.BATCH)}" in shown


@pytest.mark.slow
def test_intervals_hold_the_truth_nearly_always(two) -> None:
    """Of about 115 intervals at 95% fewer than 80% hold once in 10^9 runs."""
    for done, _ in two:
        assert len(done.judged) > 100
        assert sum(cell.inside for cell in done.judged) >= 0.8 * len(done.judged)


def test_a_run_begins_anew_and_leaves_the_files_of_others(tmp_path: Path) -> None:
    rows = table.stays(50, seed=1)
    (tmp_path / "notes.txt").write_text("mine")
    make(rows, tmp_path)
    made = make(rows, tmp_path)
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert DatasetFile.read(made.file).budget.epsilon == 1


def test_the_hospital_is_the_same_for_a_seed_and_on_the_declared_grid(tmp_path: Path) -> None:
    rows = table.stays(2_000, seed=3)
    assert all(np.ma.allequal(rows[name], again) for name, again in table.stays(2_000, seed=3).items())
    assert not np.array_equal(rows["patient"], table.stays(2_000, seed=4)["patient"])
    schema = DatasetFile.read(make(rows, tmp_path).file).schema
    assert set(rows["diagnosis"].tolist()) == set(schema.domain["diagnosis"].labels)
    assert all((4 * stay).is_integer() and 0 < stay <= table.LONGEST for stay in rows["stay"].tolist())
    assert all(cost is None or (cost / table.COST_STEP).is_integer() for cost in rows["cost"].tolist())
    assert rows["admitted"].min() >= np.datetime64(table.FIRST_DAY)


@pytest.mark.parametrize(
    ("truth", "drawn"),
    [
        (10.0, "├─────────◆─────────┤"),
        (15.0, "├─────────●─────────◆"),
        (4.9, "◆├─────────●─────────┤"),
        (400.0, "├─────────●─────────┤ ◆"),
    ],
)
def test_a_truth_outside_is_drawn_outside(truth: float, drawn: str) -> None:
    judged = Judged("", "count", Estimate(10, 5, 15), truth)
    assert gauge(judged).plain.strip() == drawn
    assert judged.inside == (5 <= truth <= 15)


def test_the_demonstration_runs_on_what_it_installs(tmp_path: Path) -> None:
    """`make demo` leaves these libraries out, so nothing on its way may load them."""
    made = make(table.stays(500, seed=1), tmp_path)
    asked = f"""
import sys
import demo.__main__, demo.picture, demo.tour, dodona, dodona.cli.main
with dodona.open({str(made.file)!r}, analyst="ada") as stays:
    stays.ask("SELECT age, avg(stay) FROM stays GROUP BY age", epsilon="0.1", max_price=1).to_json()
print(sorted({{"pyarrow", "pandas", "polars", "pyspark"}} & set(sys.modules)))
"""  # noqa: S608  of a path of ours
    done = subprocess.run(
        [sys.executable, "-c", asked], cwd=ROOT, capture_output=True, text=True, check=True, env=dict(os.environ)
    )
    assert done.stdout == "[]\n"
