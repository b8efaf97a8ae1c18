"""People behind a dataset file: the key that chooses their rows, and what belongs to a version."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import dodona
from dodona.cli.main import app
from dodona.curator.desk import PriceAboveMaximum
from dodona.dataset.check import publish
from dodona.dataset.opening import VersionChanged, open_dataset_ledger
from dodona.engines.duckdb import DuckDBInspection
from dodona.engines.inspection import LeftOutSource, left_out_query
from dodona.errors import InvalidRequest
from dodona.ledger import memory
from dodona.ledger.entries import entry_from_json
from dodona.ledger.errors import BudgetExhausted, NotPermitted
from dodona.ledger.opening import LedgerTerms
from dodona.query.sensitivity import unit_sensitivity
from dodona.schema.attributes import Boolean, Integer
from dodona.schema.schema import Schema, Unit
from dodona.trusted.gate import unseal
from tests.dataset.scene import TOML, written

PERSON = 'protects = "person"\nid = "patient"\nrows = 2'
COUNT = "SELECT count(*) FROM stays"
MORE = '[columns.ward]\nkind = "category"\nlabels = ["a", "b"]\n'


def people(folder: Path) -> Path:
    """A dataset file of people, three rows of each, with a column that is not declared."""
    path = written(folder, TOML.replace('protects = "row"', PERSON))
    lines = [f"{'female' if row % 3 else 'male'},{row % 100},{row // 3},{'ab'[row % 2]}" for row in range(900)]
    (folder / "stays.csv").write_text("\n".join(["sex,age,patient,ward", *lines]) + "\n", encoding="utf-8")
    dodona.create_ledger(path)
    return path


def key_of(path: Path) -> bytes:
    with open_dataset_ledger(path) as ledger:
        return ledger.cap_key


def test_the_key_is_made_with_the_ledger_and_stays(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    path, other = people(tmp_path), people(tmp_path / "other")
    assert len(key_of(path)) == 32
    assert key_of(path) == key_of(path)
    assert key_of(path) != key_of(other)
    with dodona.open(path, analyst="ada") as stays:
        stays.ask(COUNT)
    assert key_of(path).hex() in (tmp_path / "stays.ledger").read_bytes().decode("latin-1")


def test_the_key_is_never_shown(tmp_path: Path) -> None:
    path = people(tmp_path)
    place, key = tmp_path / "stays.ledger", key_of(path)
    with dodona.open(path, analyst="ada") as stays:
        answer = stays.ask(COUNT)
        source, ledger = stays._dataset.source, stays._dataset.ledger
        first = ledger.lines()[0]
        entry = entry_from_json(first.text, number=0)
        assert key.hex() in first.text
        shown = [answer, answer.to_json(), stays.quote(COUNT), stays.history, stays.budget, stays, source, ledger]
        shown += [stays._dataset, first, entry, source._table, list(ledger.lines())]
    terms = LedgerTerms(datasets=dict(entry.datasets), neighbours=entry.neighbours, budget=entry.budget, cap_key=key)
    shown += [terms, memory.create_memory_ledger(terms)]
    commands = [["ledger", "show", place], ["ledger", "show", place, "--json"], ["ledger", "export", place]]
    commands += [["ledger", "verify", place], ["ask", path, COUNT, "--json"], ["check", path]]
    for command in commands:
        done = CliRunner().invoke(app, list(map(str, command)), env={"DODONA_ANALYST": "ada"})
        assert done.exit_code == 0, done.output
        shown.append(done.output)
    for item in shown:
        for text in (repr(item), str(item)):
            assert key.hex() not in text
            assert repr(key) not in text


def test_an_export_still_holds_every_other_word_of_the_ledger(tmp_path: Path) -> None:
    path = people(tmp_path)
    done = CliRunner().invoke(app, ["ledger", "export", str(tmp_path / "stays.ledger")])
    (line,) = map(json.loads, done.stdout.splitlines())
    with open_dataset_ledger(path) as ledger:
        stored = json.loads(ledger.lines()[0].text)
    assert set(stored) - set(line) == {"cap_key"}


def test_a_ledger_of_an_earlier_version_has_a_key_that_follows_from_its_first_line() -> None:
    schema = Schema.of("t", Integer("i", 0, 3), size=9, id="who", rows=1)
    budget = dodona.Budget(1, "1e-6", "renyi")
    terms = LedgerTerms(datasets={"t": schema.digest}, neighbours=schema.unit.neighbours, budget=budget)
    ledger = memory.create_memory_ledger(terms)
    assert "cap_key" not in ledger.lines()[0].text
    assert len(ledger.cap_key) == 32
    assert ledger.cap_key == ledger.cap_key != memory.create_memory_ledger(terms).cap_key


def test_a_column_that_is_added_needs_a_new_version_where_people_are_protected(tmp_path: Path) -> None:
    path = people(tmp_path)
    with dodona.open(path, analyst="ada") as stays:
        stays.ask(COUNT)
    path.write_text(path.read_text(encoding="utf-8") + MORE, encoding="utf-8")
    done = CliRunner().invoke(app, ["ledger", "declare", str(path)])
    assert done.exit_code == 0, done.output
    with pytest.raises(VersionChanged, match="a column that was added needs a new version"):
        dodona.open(path, analyst="ada")
    path.write_text(path.read_text(encoding="utf-8").replace("2026-10", "2026-11"), encoding="utf-8")
    with dodona.open(path, analyst="ada") as stays:
        assert stays.ask(COUNT).source == "measured"
        assert stays.budget.charges == 2


def test_a_new_ledger_may_begin_with_an_old_version(tmp_path: Path) -> None:
    path = people(tmp_path)
    dodona.open(path, analyst="ada").close()
    for name in ("stays.ledger", "stays.ledger.head"):
        (tmp_path / name).unlink()
    dodona.create_ledger(path)
    dodona.open(path, analyst="ada").close()


@pytest.mark.parametrize("changed", ["merged", "swapped"])
def test_changed_ids_under_an_old_version_of_a_frame_are_refused(changed: str, tmp_path: Path) -> None:
    schema = Schema.of("stays", Boolean("b"), Integer("age", 0, 9), size=1_000, id="who", rows=2)
    place, budget = tmp_path / "stays.ledger", dodona.Budget(1, "1e-6", "renyi")
    numbers = np.arange(1_000)
    frame = pd.DataFrame({"b": numbers % 2 == 0, "age": numbers % 10, "who": numbers})
    dodona.create_ledger(place, schema=schema, budget=budget)
    dodona.open(frame, schema=schema, budget=budget, ledger=place).close()
    who = numbers // 2 if changed == "merged" else np.roll(numbers, 1)
    other = frame.assign(who=who)
    with pytest.raises(VersionChanged):
        dodona.open(other, schema=schema, budget=budget, ledger=place)
    dodona.open(frame.sample(frac=1, random_state=1), schema=schema, budget=budget, ledger=place).close()
    dodona.open(other, schema=schema, budget=budget, ledger=place, version="2").close()


def test_offers_and_answers_say_that_not_all_rows_count(tmp_path: Path) -> None:
    path = people(tmp_path)
    about = "Of each person at most 2 rows count."
    with dodona.open(path, analyst="ada") as stays:
        offer, answer = stays.quote(COUNT), stays.ask(COUNT)
        choice = stays.choose("SELECT sex, count(*) FROM stays GROUP BY sex", epsilon="0.01")
        watch = stays.above(100, epsilon="0.1", max_price="20%")
    assert (offer.about, answer.about, answer.simultaneous().about, choice.about) == (about,) * 4
    assert watch.about == about
    assert str(watch).endswith(f" {about}")
    assert str(watch).startswith("Which counts are above 100 (")
    assert json.loads(answer.to_json())["about"] == about
    assert about in str(offer)
    assert about in str(choice)
    assert f"Each interval holds the exact value over the rows that count with probability 0.9 or more. {about}" in (
        str(answer)
    )
    done = CliRunner().invoke(app, ["quote", str(path), COUNT, "--json"], env={"DODONA_ANALYST": "ada"})
    assert json.loads(done.stdout)["about"] == about


@pytest.mark.parametrize(("person", "about"), [("who", "Of each person at most 2 rows count."), (None, "")])
def test_watches_and_weights_say_what_they_are_about(person: str | None, about: str) -> None:
    rows = 1 if person is None else 2
    schema = Schema.of("stays", Boolean("b"), size=100_000, id=person, rows=rows)
    frame = pd.DataFrame({"b": [True, False], "who": [1, 2]})
    with pytest.warns(UserWarning, match="in memory"):
        stays = dodona.open(frame, schema=schema, budget=dodona.Budget(10, "1e-6"), max_price=1)
    weights, watch = stays.weights(questions=2, epsilon=1), stays.above(10, epsilon="0.1", alerts=2)
    assert (weights.about, watch.about) == (about, about)
    assert str(weights).startswith("Weights over b (")
    assert str(weights).endswith(f". {about}" if about else ".")
    assert str(watch).endswith(about or ".")


def test_answers_about_rows_are_about_all_of_them(tmp_path: Path) -> None:
    path = written(tmp_path)
    dodona.create_ledger(path)
    with dodona.open(path, analyst="ada") as stays:
        answer = stays.ask(COUNT)
    assert answer.about == ""
    assert "Each interval holds the exact value with probability 0.9 or more." in str(answer)


def test_how_many_rows_the_cap_leaves_out_is_published_once_and_charged(tmp_path: Path) -> None:
    path = people(tmp_path)
    dear = ["check", str(path), "--publish", "0.2", "--max-price", "50%", "--analyst", "ada", "--json"]
    result = CliRunner().invoke(app, dear)
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert Fraction(report["share"]) > 0
    words = report["words"]
    with dodona.open(path, analyst="ada") as stays:
        assert stays.budget.charges == 1
        offer, answer = stays.quote(COUNT), stays.ask(COUNT)
        assert words in str(stays.describe())
        assert stays.ask("SELECT sex, count(*) FROM stays GROUP BY sex").source in {"measured", "derived"}
        assert "rows that the cap leaves out" in str(stays.history)
        charges = stays.budget.charges
    assert offer.about == answer.about == f"Of each person at most 2 rows count. {words}"
    again = CliRunner().invoke(app, ["check", str(path), "--publish", "0.2", "--analyst", "ada", "--json"])
    assert json.loads(again.stdout) == {"words": words, "share": "0"}
    with dodona.open(path, analyst="ada") as stays:
        assert stays.budget.charges == charges


def test_what_is_published_holds_the_number_and_one_person_moves_it_by_ten_caps_at_most(tmp_path: Path) -> None:
    schema = Schema.of("t", Integer("i", 0, 3), size=100, id="who", rows=2)
    query = left_out_query(schema)
    assert unit_sensitivity(query, Unit.each_row("add-remove")).l1 == 20
    counts = []
    for busy in (0, 1, 3, 22, 23, 5_000):
        who = [1, 1, 1, 2, 3, 3, 3, 3, None, *[9] * busy]
        (tmp_path / "rows.csv").write_text(
            "i,who\n" + "".join(f"1,{person or ''}\n" for person in who), encoding="utf-8"
        )
        source = LeftOutSource(schema, DuckDBInspection.csv(str(tmp_path / "rows.csv")), version="1")
        counts.append(int(unseal(source.exact(query))[0]))
        source.close()
    assert counts == [3, 3, 4, 23, 23, 23]


def test_nothing_is_published_where_rows_are_protected_or_the_budget_is_too_small(tmp_path: Path) -> None:
    path = people(tmp_path)
    with pytest.raises(BudgetExhausted):
        publish(path, epsilon=50, analyst="ada", max_price=1)
    with pytest.raises(NotPermitted):
        publish(path, epsilon="0.1")
    (tmp_path / "rows").mkdir()
    rows = written(tmp_path / "rows")
    with pytest.raises(InvalidRequest, match="where people are protected"):
        publish(rows, epsilon="0.1", analyst="ada")


def test_a_figure_above_the_highest_price_of_a_call_is_refused_and_what_fits_is_proposed(tmp_path: Path) -> None:
    path = people(tmp_path)
    path.write_text(path.read_text().replace('max_price = "100%"', 'max_price = "2%"'))
    with pytest.raises(PriceAboveMaximum, match=r'epsilon="0\.\d+" would cost .*max_price') as refused:
        publish(path, epsilon="0.2", analyst="ada", key="cut")
    result = CliRunner().invoke(app, ["check", str(path), "--publish", "0.2", "--analyst", "ada"])
    assert "price-above-maximum" in result.stderr
    with open_dataset_ledger(path) as ledger:
        assert ledger.state().charges == 0
    named = re.findall(r'epsilon="([\d.]+)" would', str(refused.value))[0]
    published = publish(path, epsilon=named, analyst="ada", key="cut")
    assert 0 < published.price <= refused.value.most
    assert publish(path, epsilon="0.2", analyst="ada").price == 0  # told again
