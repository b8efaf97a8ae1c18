"""`dodona ledger` as people and programs call it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dodona.cli.main import app
from dodona.ledger import opening
from tests.ledger.scene import answer, ask

WIDE = {"COLUMNS": "200", "TERM": "dumb"}


def called(*arguments: str | Path, typed: str = ""):
    return CliRunner().invoke(app, ["ledger", *map(str, arguments)], env=WIDE, input=typed)


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    path = tmp_path / "stays.ledger"
    options = ("--dataset", "stays=digest", "--epsilon", "1", "--accountant", "pure", "--analyst", "ada=1/2")
    assert called("create", path, *options).exit_code == 0
    with opening.open_ledger(path) as opened:
        answer(opened, ask(opened, "told", analyst="ada"))
    return path


def test_it_shows_what_is_left_and_who_spent_it(ledger: Path):
    shown = called("show", ledger).stdout
    for part in ("ε = 1", "10%", "90%", "ada", "20%", "released", "laplace distance 1 scale 10"):
        assert part in shown
    figures = json.loads(called("show", ledger, "--json").stdout)
    assert (figures["spent"], figures["left"], figures["analysts"][0]["spent"]) == ("1/10", "9/10", "1/5")


def test_it_verifies_and_exports_every_line(ledger: Path):
    assert called("verify", ledger).stdout.startswith("verified: 4 lines, 1 charges, head ")
    lines = [json.loads(line) for line in called("export", ledger).stdout.splitlines()]
    assert [line["entry"] for line in lines] == ["created", "charged", "redeemed", "released"]
    assert [line["previous"] for line in lines[1:]] == [line["hash"] for line in lines[:-1]]


def test_it_draws_the_burn_down(ledger: Path, tmp_path: Path):
    picture = tmp_path / "burn.png"
    assert called("chart", ledger, "--output", picture).exit_code == 0
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_recovery_asks_first_and_leaves_nothing(ledger: Path):
    assert called("recover", ledger, typed="n\n").exit_code == 1
    assert json.loads(called("show", ledger, "--json").stdout)["left"] == "9/10"
    assert called("recover", ledger, typed="y\n").exit_code == 0
    figures = json.loads(called("show", ledger, "--json").stdout)
    assert (figures["left"], figures["recovered"]) == ("0", True)


def test_an_altered_ledger_does_not_verify(ledger: Path, tmp_path: Path):
    old = shutil.copy(ledger, tmp_path / "old")
    with opening.open_ledger(ledger) as opened:
        ask(opened, analyst="ada")
    shutil.copy(old, ledger)
    done = called("verify", ledger)
    assert done.exit_code == 4
    assert done.stderr.startswith("ledger-rolled-back: ")


def test_the_place_may_be_in_the_environment(ledger: Path):
    done = CliRunner().invoke(app, ["ledger", "verify", "env:STAYS"], env=WIDE | {"STAYS": str(ledger)})
    assert done.exit_code == 0
    assert "set NONE in the environment" in called("verify", "env:NONE").stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--dataset", "stays", "--epsilon", "1"), "'='"),
        (("--dataset", "a=b", "--epsilon", "nan"), "epsilon = 'nan'"),
        (("--dataset", "a=b", "--epsilon", "1"), "delta"),
        (
            ("--dataset", "a=b", "--epsilon", "1", "--delta", "1e-6", "--accountant", "x"),
            "pure, zcdp, renyi, gaussian, either",
        ),
        (("--dataset", "a=b", "--epsilon", "1", "--delta", "1e-6", "--neighbours", "x"), "add-remove or replace"),
        (("--dataset", "a=b", "--epsilon", "1", "--delta", "1e-6", "--analyst", "ada=2"), "share"),
    ],
)
def test_a_bad_creation_makes_nothing(tmp_path: Path, options: tuple[str, ...], said: str):
    done = called("create", tmp_path / "new.ledger", *options)
    assert done.exit_code == 2
    assert said in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_ledger_is_not_created_twice_or_made_up(ledger: Path, tmp_path: Path):
    again = called("create", ledger, "--dataset", "a=b", "--epsilon", "1", "--accountant", "pure")
    assert (again.exit_code, again.stderr[:14]) == (2, "ledger-exists:")
    assert called("show", tmp_path / "none").exit_code == 4
