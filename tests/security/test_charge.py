"""B1 and B8: the charge is a function of the question, and asking again costs nothing and tells nothing new."""

from __future__ import annotations

import itertools
import random

import pytest

from dodona.schema.schema import Neighbours
from dodona.trusted.source import SourceFailed
from tests.security import scene
from tests.sql import soup
from tests.sql.pairs import blocks
from tests.trusted.scene import Fixed

BOTH = pytest.mark.parametrize("neighbours", Neighbours)
COUNT = "SELECT count(*) FROM stays WHERE age >= 3 AND age <= 11 AND sex = 'female'"
PARAPHRASES = (
    COUNT,
    COUNT.lower().replace("stays", "STAYS"),
    "\n SELECT   count( * )\tFROM stays -- how many\n WHERE age>=3 AND age<=11 AND sex='female' ; ",
    "SELECT count(*) AS women FROM stays AS s WHERE s.age >= 3 AND s.age <= 11 AND s.sex = 'female'",
    "SELECT count(*) FROM stays WHERE 1=1 AND age >= 3 AND age <= 11 AND sex = 'female'",
    "SELECT count(*) FROM stays WHERE sex = 'female' AND age <= 11 AND age >= 3",
    "SELECT count(*) FROM stays WHERE sex = 'female' AND age BETWEEN 3 AND 11",
    "SELECT count(*) FROM stays WHERE NOT (sex <> 'female') AND NOT (age < 3 OR age > 11)",
    "SELECT count(*) FROM stays WHERE CAST(age AS INTEGER) >= 3 AND age < 12 AND sex IN ('female')",
    "SELECT count(1) FROM stays WHERE 'female' = sex AND 3 <= age AND 11 >= age",
    "SELECT count(*) FILTER (WHERE sex = 'female') FROM stays WHERE age > 2 AND age < 12.0",
    "SELECT count(CASE WHEN sex = 'female' AND age BETWEEN 3 AND 11 THEN 1 END) FROM stays",
    "SELECT sum(CASE WHEN sex = 'female' AND age BETWEEN 3 AND 11 THEN 1 ELSE 0 END) FROM stays",
)


@pytest.mark.parametrize("text", PARAPHRASES, ids=range(len(PARAPHRASES)))
def test_b1_a_paraphrase_is_told_the_same_answer_at_no_charge(text: str):
    asked = scene.of(scene.CROWD)
    first = asked.ask(COUNT, epsilon=1)
    again = asked.ask(text, epsilon=1)
    assert list(again.measured.values) == list(first.measured.values)
    assert (again.source, again.price.share, again.receipt) == ("replayed", 0, first.receipt)
    assert len(asked.history) == 1


def test_b1_a_thousand_times_the_same_question_is_one_charge_and_one_answer():
    asked = scene.of(scene.CROWD)
    answers = {
        tuple(asked.ask(text, epsilon="1/10").measured.values) for text in (PARAPHRASES[0], PARAPHRASES[6]) * 500
    }
    assert len(answers) == len(asked.history) == 1


def test_b1_an_answer_that_is_sharper_is_a_new_charge_and_then_told_to_those_who_ask_for_less():
    asked = scene.of(scene.CROWD)
    asked.ask(COUNT, epsilon="1/10")
    sharper = asked.ask(COUNT, epsilon=2)
    assert (sharper.source, len(asked.history)) == ("measured", 2)
    assert list(asked.ask(COUNT, epsilon="1/10").measured.values) == list(sharper.measured.values)
    assert len(asked.history) == 2


def corpus(count: int) -> list[str]:
    """All statements that the tests of SQL list, soups of tokens, and questions without end."""
    generator = random.Random(20_251_116)  # noqa: S311  made-up questions
    texts = [text for name in ("accepted.sql", "refused.sql") for text, _ in blocks(name)]
    texts += [soup.text(generator) for _ in range(count // 5)]
    texts += itertools.islice(scene.questions(generator), count)
    return generator.sample(texts, count)


def compare(neighbours: Neighbours, count: int) -> tuple[int, int]:
    """Ask on both tables of a pair, each pair in its turn; how many were charged, and how many were refused."""
    pairs = [
        [scene.of(rows, neighbours, delta=delta) for rows in scene.tables(neighbours, person)]
        for person, delta in zip(scene.PERSONS.values(), itertools.cycle(("0", "1e-6")), strict=False)
    ]
    charged = refused = 0
    for text, (curator, other) in zip(corpus(count), itertools.cycle(pairs), strict=False):
        first = scene.charge(curator, text, epsilon="1/100")
        assert first == scene.charge(other, text, epsilon="1/100"), text
        charged, refused = charged + (not isinstance(first, str)), refused + isinstance(first, str)
    for curator, other in pairs:
        assert curator.budget.spent == other.budget.spent
        assert [entry.share for entry in curator.history] == [entry.share for entry in other.history]
    return charged, refused


@BOTH
def test_b8_the_charge_of_a_question_is_the_same_on_neighbours(neighbours: Neighbours):
    charged, refused = compare(neighbours, 200)
    assert charged > 80
    assert refused > 60


@pytest.mark.soak
@BOTH
def test_b8_the_charge_of_ten_thousand_questions_is_the_same_on_neighbours(neighbours: Neighbours):
    charged, refused = compare(neighbours, 5_000)
    assert charged > 2_000
    assert refused > 1_000


@pytest.mark.slow
@BOTH
@pytest.mark.parametrize("person", scene.PERSONS.values(), ids=scene.PERSONS)
def test_b8_choices_watches_and_batches_cost_the_same_on_neighbours(neighbours: Neighbours, person: scene.Row):
    spent = set()
    for rows in scene.tables(neighbours, person):
        asked = scene.of(rows, neighbours)
        asked.choose("SELECT sex, count(*) FROM stays GROUP BY sex", epsilon=1, count=2)
        asked.above(2, epsilon=1).ask(COUNT)
        asked.ask_many([COUNT, "SELECT sum(stay) FROM stays"], epsilon=1)
        spent.add((asked.budget.spent, tuple(entry.share for entry in asked.history)))
    assert len(spent) == 1


@BOTH
def test_b8_a_table_that_fails_costs_what_one_costs_that_does_not(neighbours: Neighbours):
    right = scene.of(scene.CROWD, neighbours)
    right.ask(COUNT, epsilon=1)
    failing = scene.curator(Fixed(list), scene.ledger(neighbours), neighbours)
    with pytest.raises(SourceFailed):
        failing.ask(COUNT, epsilon=1)
    assert failing.budget.spent == right.budget.spent > 0
