"""The owner's limits through the public door: refused with what would fit, requested, approved, asked once."""

from pathlib import Path

import pandas as pd
import pytest

import dodona
from dodona.curator.desk import PriceAboveMaximum
from dodona.dataset import open_dataset_ledger
from dodona.errors import InvalidRequest
from dodona.ledger.errors import KeyReused, PriceAboveLimit

COUNT = "SELECT count(*) FROM stays WHERE age >= 65"
FILE = """
format = 1
dataset = "stays"
[source]
kind = "csv"
path = "stays.csv"
table = "stays"
[unit]
protects = "row"
neighbours = "add-remove"
size = 20_000
[budget]
epsilon = "4"
delta = "1e-6"
[ledger]
path = "stays.ledger"
[limits]
question = "1%"
analyst_day = "3%"
approvals = true
[[analysts]]
name = "ada"
[[analysts]]
name = "bob"
[columns.age]
kind = "integer"
lower = 0
upper = 110
"""


@pytest.fixture
def stays(tmp_path: Path) -> Path:
    pd.DataFrame({"age": [number % 100 for number in range(200)]}).to_csv(tmp_path / "stays.csv", index=False)
    (tmp_path / "stays.toml").write_text(FILE)
    dodona.create_ledger(tmp_path / "stays.toml")
    return tmp_path / "stays.toml"


def test_a_dear_question_is_refused_with_what_fits_whatever_max_price_says(stays: Path):
    with dodona.open(stays, analyst="ada") as curator:
        for max_price in (None, "100%"):
            with pytest.raises(PriceAboveLimit, match="the owner allows 1%") as caught:
                curator.ask(COUNT, within=5, max_price=max_price)
            assert not caught.value.charged
        assert "within=" in str(caught.value.best)
        assert "request_approval" in str(caught.value)
        assert curator.budget.spent == 0
        offer = curator.quote(COUNT, within=5)
        assert not offer.affordable
        assert "The owner allows 1% (one question)" in offer.explanation


def test_what_the_refusal_suggests_is_accepted(stays: Path):
    with dodona.open(stays, analyst="ada") as curator:
        with pytest.raises(PriceAboveLimit) as caught:
            curator.ask(COUNT, within=5)
        within = str(caught.value.best).split("within=")[1].split(" ")[0].strip('",')
        answer = curator.ask(COUNT, within=float(within))
        assert 0 < answer.price.share <= caught.value.most


def test_an_approved_question_is_asked_once_under_its_key(stays: Path):
    with dodona.open(stays, analyst="ada") as curator:
        request = curator.request_approval(COUNT, within=5, key="monthly")
        assert curator.request_approval(COUNT, within=5, key="monthly") == request
        with pytest.raises(PriceAboveLimit):
            curator.ask(COUNT, within=5, key="monthly")
        with open_dataset_ledger(stays) as ledger:
            ledger.decide(request.id, granted=True, by="olga")
        with pytest.raises(KeyReused):
            curator.ask("SELECT count(*) FROM stays", within=5, key="monthly")
        with pytest.raises(PriceAboveMaximum):  # what was approved does not undo what the caller allows
            curator.ask(COUNT, within=5, key="monthly", max_price="1%")
        assert curator.budget.spent == 0
        answer = curator.ask(COUNT, within=5, key="monthly")
        assert answer.price.share == request.share
        assert curator.ask(COUNT, within=5, key="monthly").price.share == 0
        spent = curator.budget.spent
        with pytest.raises(PriceAboveLimit):
            curator.ask("SELECT count(*) FROM stays WHERE age < 20", within=5, key="another")
        assert curator.budget.spent == spent


def test_every_way_of_spending_is_limited(stays: Path):
    with dodona.open(stays, analyst="ada") as curator:
        ages = dodona.Workload.marginals(curator.schema.domain, [("age",)])
        calls = (
            lambda: curator.ask_many([COUNT], within=5),
            lambda: curator.prepare([COUNT], within=5),
            lambda: curator.choose("SELECT age, count(*) FROM stays GROUP BY age", epsilon="0.5", max_price=1),
            lambda: curator.above(50, epsilon="0.5", max_price=1),
            lambda: curator.weights(questions=3, epsilon="0.9", columns=["age"], max_price=1),
            lambda: dodona.synthesize(curator, ages, share="50%", max_price=1),
        )
        for call in calls:
            with pytest.raises(PriceAboveLimit):
                call()
        assert curator.budget.spent == 0


def test_what_needs_no_approval_is_not_requested(stays: Path):
    with dodona.open(stays, analyst="ada") as curator, pytest.raises(InvalidRequest, match="needs no approval"):
        curator.request_approval(COUNT, within=4000, key="cheap")
    with dodona.open(stays, analyst="bob") as curator, pytest.raises(InvalidRequest, match="key"):
        curator.request_approval(COUNT, within=5, key="")
