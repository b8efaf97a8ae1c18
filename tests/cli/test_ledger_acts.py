"""The owner's acts on the command line: each says the new state, and each refusal that nothing was charged."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest
from typer.testing import CliRunner

import dodona
from dodona.cli.main import app
from dodona.ledger import opening
from dodona.ledger.errors import LedgerBusy
from tests.dataset.scene import TOML, written

COUNT = "SELECT count(*) FROM stays"
WARD = '\n[columns.ward]\nkind = "boolean"\notherwise = false\n'


def run(*arguments: str | Path, typed: str = ""):
    return CliRunner().invoke(app, list(map(str, arguments)), input=typed, env={"DODONA_ANALYST": "ada"})


def state(dataset: Path) -> dict[str, object]:
    document: dict[str, object] = json.loads(run("ledger", "show", dataset.with_suffix(".ledger"), "--json").stdout)
    return document


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    path = written(tmp_path)
    assert run("ledger", "create", path).exit_code == 0
    return path


@pytest.fixture
def charged(dataset: Path) -> Path:
    assert run("ask", dataset, COUNT).exit_code == 0
    return dataset


def test_a_raise_says_what_is_left(charged: Path):
    before = Fraction(str(state(charged)["spent"]))
    done = run("ledger", "raise", charged, "--epsilon", "2")
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("raised: from ε = 1, δ = 1e-06\nBudget: epsilon 2, delta 1e-06, renyi. Spent: ")
    assert (state(charged)["epsilon"], state(charged)["delta"]) == ("2", "1/1000000")
    assert 0 < Fraction(str(state(charged)["spent"])) < before


def test_a_close_asks_first_and_is_for_ever(charged: Path):
    assert run("ledger", "close", charged, typed="n\n").exit_code == 1
    assert state(charged)["closed"] is False
    done = run("ledger", "close", charged, "--yes")
    assert done.stdout.startswith("closed, for ever\n")
    assert "It is closed." in done.stdout
    assert run("ask", charged, COUNT).exit_code == 0  # told again
    refused = run("ask", charged, "SELECT sex, count(*) FROM stays GROUP BY sex")
    assert (refused.exit_code, refused.stderr[:14]) == (3, "not-permitted:")


def test_an_analyst_is_let_in_and_stopped(dataset: Path):
    done = run("ledger", "admit", dataset, "bob", "--share", "1/4")
    assert done.stdout.startswith("admitted: bob, 1/4 of the budget, 0% of it spent\nBudget: ")
    assert run("ask", dataset, COUNT, "--analyst", "bob").exit_code == 0
    done = run("ledger", "stop", dataset, "bob")
    assert done.stdout.startswith("stopped: bob, 1/4 of the budget, ")
    assert run("ask", dataset, "SELECT avg(age) FROM stays", "--analyst", "bob").exit_code == 3


def test_the_first_analyst_ends_asking_without_a_name(tmp_path: Path):
    path = written(tmp_path, TOML.replace('[[analysts]]\nname = "ada"\nshare = "1/2"\n', ""))
    assert run("ledger", "create", path).exit_code == 0
    assert "only analysts who were let in" in run("ledger", "admit", path, "bob").stdout
    assert "only analysts" not in run("ledger", "admit", path, "eve").stdout
    for command in (("ask", path, COUNT), ("quote", path, COUNT), ("history", path)):
        refused = CliRunner().invoke(app, [*map(str, command)], env={"DODONA_ANALYST": None})
        assert (refused.exit_code, "Give your name" in refused.stderr) == (3, True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("raise", "{}", "--epsilon", "1/2"), "a budget is only ever raised"),
        (("raise", "{}", "--epsilon", "1"), "write more than there is"),
        (("raise", "{}", "--epsilon", "x"), "epsilon = 'x'"),
        (("raise", "{}"), "--epsilon, --delta or both"),
        (("stop", "{}", "eve"), "analyst of this ledger"),
        (("admit", "{}", "bob", "--share", "2"), "share"),
        (("admit", "{}", " "), "name"),
    ],
)
def test_a_refused_act_says_that_nothing_was_charged(dataset: Path, arguments: tuple[str, ...], said: str):
    head = state(dataset)["head"]
    done = run("ledger", *(part.format(dataset) for part in arguments))
    assert done.exit_code == 2, done.output
    assert said in done.stderr
    assert "Nothing was charged." in done.stderr
    assert state(dataset)["head"] == head


@pytest.mark.parametrize(
    "arguments",
    [("raise", "--epsilon", "2"), ("admit", "bob"), ("stop", "ada"), ("close", "--yes"), ("declare",)],
)
def test_nothing_is_done_to_a_closed_ledger(charged: Path, arguments: tuple[str, ...]):
    assert run("ledger", "close", charged, "--yes").exit_code == 0
    if arguments == ("declare",):
        charged.write_text(TOML + WARD, encoding="utf-8")
    head = state(charged)["head"]
    done = run("ledger", arguments[0], charged, *arguments[1:])
    assert (done.exit_code, done.stderr[:14]) == (3, "not-permitted:")
    assert "Nothing was charged." in done.stderr
    assert state(charged)["head"] == head


def test_columns_added_at_the_end_are_declared_and_the_budget_goes_on(charged: Path):
    (charged.parent / "stays.csv").write_text("sex,age,ward\nmale,3,true\n", encoding="utf-8")
    text = (TOML + WARD).replace("2026-10", "2026-11")
    charged.write_text(text, encoding="utf-8")
    refused = run("ask", charged, COUNT)
    assert refused.exit_code == 2
    assert "dodona ledger declare" in refused.stderr
    spent = state(charged)["spent"]
    done = run("ledger", "declare", charged)
    assert done.stdout == "declared: columns were added: ward\n"
    assert state(charged)["spent"] == spent
    assert run("ledger", "declare", charged).stdout.endswith("already\n")
    assert run("ask", charged, "SELECT ward, count(*) FROM stays GROUP BY ward", "--within", "100").exit_code == 0
    charged.write_text(text + '\n[columns.late]\nkind = "boolean"\n', encoding="utf-8")
    assert run("ledger", "declare", charged).stdout == "declared: columns were added: late\n"
    charged.write_text(text, encoding="utf-8")
    assert "columns were taken away" in run("ledger", "declare", charged).stderr


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("upper = 99", "upper = 98"),
        ("upper = 99", "upper = 99\nbins = [0, 50, 99]"),
        ("upper = 99", "upper = 99\notherwise = 0"),
        ('["female", "male"]', '["female", "male", "other"]'),
        ('["female", "male"]', '["male", "female"]'),
        ("size = 1_000", "size = 2_000"),
        ('table = "stays"', 'table = "visits"'),
        ('[columns.sex]\nkind = "category"\nlabels = ["female", "male"]\n', ""),
        ("[columns.sex]", '[columns.first]\nkind = "boolean"\n[columns.sex]'),
    ],
)
def test_any_other_change_is_refused_after_the_first_charge_and_allowed_before(dataset: Path, old: str, new: str):
    changed = TOML.replace(old, new) + WARD
    dataset.write_text(changed, encoding="utf-8")
    assert run("ledger", "declare", dataset).stdout.startswith("declared: the schema changed before anything was")
    dataset.write_text(TOML, encoding="utf-8")
    assert run("ledger", "declare", dataset).exit_code == 0
    assert run("ask", dataset, COUNT).exit_code == 0
    dataset.write_text(changed, encoding="utf-8")
    head = state(dataset)["head"]
    done = run("ledger", "declare", dataset)
    assert (done.exit_code, done.stderr[:19]) == (2, "schema-contradicts:")
    assert "Nothing was charged." in done.stderr
    assert state(dataset)["head"] == head


def test_the_relation_never_changes(dataset: Path):
    dataset.write_text(TOML.replace("add-remove", "replace"), encoding="utf-8")
    done = run("ledger", "declare", dataset)
    assert "add-remove" in done.stderr
    assert done.exit_code == 2


def test_a_further_table_of_the_same_people_shares_the_budget(charged: Path):
    other = charged.with_name("visits.toml")
    other.write_text(TOML.replace("hospital-stays", "visits").replace("2026-10", "1"), encoding="utf-8")
    refused = run("ledger", "declare", other)
    assert refused.exit_code == 2
    assert "--same-people" in refused.stderr
    assert "beside hospital-stays" in run("ledger", "declare", other, "--same-people").stdout
    with dodona.open(other, analyst="ada") as visits:
        before = visits.budget.left
        assert before < 1
        visits.ask(COUNT)
        assert visits.budget.left < before


PEOPLE = """
format = 1
dataset = "clinic"
[source]
kind = "csv"
path = "visits.csv"
table = "visits"
version = "1"
[unit]
protects = "person"
id = "who"
rows = 3
neighbours = "add-remove"
size = 1_000
[budget]
epsilon = "40"
delta = "1e-6"
[ledger]
path = "clinic.ledger"
[[analysts]]
name = "ada"
[columns.urgent]
kind = "boolean"
"""
PATIENTS = """
[tables.patients]
path = "patients.csv"
[tables.patients.columns.old]
kind = "boolean"
"""
TESTS = """
[tables.tests]
path = "tests.csv"
rows = 2
[tables.tests.columns.positive]
kind = "boolean"
"""


@pytest.fixture
def clinic(tmp_path: Path) -> Path:
    (tmp_path / "visits.csv").write_text(
        "who,urgent,late\n1,true,false\n1,false,false\n2,true,true\n", encoding="utf-8"
    )
    (tmp_path / "patients.csv").write_text("who,old\n1,true\n2,false\n", encoding="utf-8")
    (tmp_path / "tests.csv").write_text("who,positive\n1,true\n1,false\n", encoding="utf-8")
    path = tmp_path / "clinic.toml"
    path.write_text(PEOPLE, encoding="utf-8")
    assert run("ledger", "create", path).exit_code == 0
    assert run("ask", path, "SELECT count(*) FROM visits", "--within", "100").exit_code == 0
    return path


def test_a_linked_table_is_added_with_a_new_version_and_the_budget_goes_on(clinic: Path):
    spent = state(clinic)["spent"]
    clinic.write_text(PEOPLE + PATIENTS, encoding="utf-8")
    refused = run("ledger", "declare", clinic)
    assert (refused.exit_code, refused.stderr[:19]) == (2, "schema-contradicts:")
    assert "Raise the version" in refused.stderr
    newer = PEOPLE.replace('version = "1"', 'version = "2"')
    clinic.write_text(newer + PATIENTS, encoding="utf-8")
    assert run("ledger", "declare", clinic).stdout == "declared: tables or columns were added: patients\n"
    assert state(clinic)["spent"] == spent
    with dodona.open(clinic, analyst="ada") as opened:
        single = opened.quote("SELECT count(*) FROM patients", epsilon="0.1").accuracy[0]
        three = opened.quote("SELECT count(*) FROM visits", epsilon="0.1").accuracy[0]
        assert 2.5 * single.within < three.within < 3.5 * single.within  # a visit has the cap of visits, as before
        joined = opened.ask("SELECT count(*) FROM visits JOIN patients USING (who) WHERE old", within=100)
        assert joined.source == "measured"
        assert opened.ask("SELECT count(*) FROM visits", within=100).source == "measured"  # of the newer version
    clinic.write_text(newer.replace('"2"', '"3"') + PATIENTS + TESTS, encoding="utf-8")
    assert run("ledger", "declare", clinic).stdout == "declared: tables or columns were added: tests\n"
    assert run("ask", clinic, "SELECT count(*) FROM tests", "--within", "100").exit_code == 0


@pytest.mark.parametrize(
    "changed",
    [
        TESTS + PATIENTS,
        PATIENTS.replace('path = "patients.csv"', 'path = "patients.csv"\nrows = 2') + TESTS,
        PATIENTS.replace("columns.old", "columns.older") + TESTS,
        TESTS,
    ],
    ids=["before", "cap", "column", "without"],
)
def test_a_table_that_changes_older_ones_is_refused(clinic: Path, changed: str):
    clinic.write_text(PEOPLE.replace('version = "1"', 'version = "2"') + PATIENTS, encoding="utf-8")
    assert run("ledger", "declare", clinic).exit_code == 0
    clinic.write_text(PEOPLE.replace('version = "1"', 'version = "3"') + changed, encoding="utf-8")
    refused = run("ledger", "declare", clinic)
    assert (refused.exit_code, refused.stderr[:19]) == (2, "schema-contradicts:")
    assert "Nothing was charged." in refused.stderr


def test_a_declaration_that_was_overtaken_is_refused(charged: Path):
    with opening.open_ledger(charged.with_suffix(".ledger")) as ledger:
        head = ledger.head
        ledger.stop("ada")
        with pytest.raises(LedgerBusy):
            ledger.declare("hospital-stays", "another digest", head=head)
        assert "another digest" not in ledger.datasets().values()


def test_a_ledger_is_recovered_by_the_name_of_its_dataset(charged: Path):
    assert run("ledger", "recover", charged, "--yes").exit_code == 0
    assert state(charged)["left"] == "0"
