"""What becomes of questions that the budget cannot buy: refused with the best that is left, or guessed and marked."""

import math
import re
from collections import deque

import numpy as np
import pytest

from dodona.answer.estimate import to_float
from dodona.curator.request import Dataset
from dodona.errors import InvalidArgument
from dodona.knowledge.model import MOST_MODEL_CELLS, PredictionModel
from dodona.ledger.errors import BudgetExhausted
from dodona.privacy.budget import Budget
from dodona.query.predicate import among, conjunction
from dodona.query.query import Block, Query
from tests.curator import scene
from tests.curator.independent import table

SMALL = Budget("0.133", 0, "pure")
"""About thirty single answers to within 5% of 20,000 rows at the table's confidence."""


def exhausted(rows, kept, after):
    """Return a curator that has asked until the budget was gone, and what is left to ask."""
    curator = rows.curator(kept, rungs=frozenset(("replay", "derive")), after=after)
    for place, (query, _) in enumerate(rows.questions):
        before = kept.left(analyst=None)
        answer = curator.ask(query)
        if answer.source == "model":
            assert kept.left(analyst=None) == before
            return curator, rows.questions[place:]
    pytest.fail("the budget was never gone")
    return None


def test_past_the_budget_the_model_guesses_marked_and_for_nothing():
    rows = table(4, columns=5, turns=400)
    kept = rows.ledger(SMALL)
    curator, left = exhausted(rows, kept, "model")
    before = kept.left(analyst=None), len(curator.history)
    guessed = [(curator.ask(query), truth) for query, truth in left]
    guessed = [(answer, truth) for answer, truth in guessed if answer.source == "model"]
    assert len(guessed) > 100
    errors, widths = [], []
    for answer, truth in guessed:
        assert answer.warnings[0] in {
            "This is the model's guess; its error is not bounded.",
            "This is the model's guess; its interval is all that earlier answers leave possible.",
        }
        assert answer.price.share == 0
        assert answer.receipt is None
        assert answer.theorem == "post-processing, public-bounds"
        assert answer.mechanism == "a model's prediction, compared with nothing"
        # at a confidence of 1 - 1e-8 an estimate from few past errors can be as wide as the table: then it says so
        assert math.isinf(answer.value.within) == any("no interval" in warning for warning in answer.warnings)
        errors.append(to_float(answer.value.value) - truth)
        widths.append(answer.value.within)
    assert (kept.left(analyst=None), len(curator.history)) == before
    assert math.sqrt(np.mean(np.square(errors))) < 0.08 * 20_000  # uniform guesses are off by about a quarter
    assert np.mean(np.abs(errors) <= widths) > 0.9  # the estimate of the error is one


@pytest.mark.parametrize("tied", [False, True])
def test_what_earlier_answers_leave_possible_holds_the_truth_whatever_is_asked(tied):
    rows = table(6, columns=8, turns=120, tied=tied)
    curator, left = exhausted(rows, rows.ledger(SMALL), "model")
    bounded = 0
    for query, truth in left:
        answer = curator.ask(query)
        if answer.source == "model" and answer.warnings[0].endswith("leave possible."):
            bounded += 1
            assert to_float(answer.value.low) <= truth <= to_float(answer.value.high)
            assert answer.value.within < 10_000
    assert bounded > 0


def test_many_columns_are_guessed_from_what_was_told_of_those_that_are_asked_about():
    rows = table(4, columns=40, turns=150)
    curator, left = exhausted(rows, rows.ledger(Budget("0.267", 0, "pure")), "model")
    guessed = [(curator.ask(query), truth) for query, truth in left]
    widths = [answer.value.within for answer, _ in guessed]
    assert all(to_float(answer.value.low) <= truth <= to_float(answer.value.high) for answer, truth in guessed)
    assert all(width < 10_000 or width == math.inf for width in widths)
    assert np.isfinite(widths).any()
    untold = next(answer for answer, _ in guessed if answer.value.within == math.inf)
    assert "It has no interval where none is honest that is narrower than the whole table." in untold.warnings


def test_a_guess_says_so_when_it_is_quoted_and_what_could_still_be_bought():
    rows = table(4, columns=5, turns=400)
    curator, left = exhausted(rows, rows.ledger(SMALL), "model")
    offer = curator.quote(left[0][0])
    assert "the model would guess it, without a guarantee" in offer.explanation
    assert "The best that is left is within" in offer.explanation


def test_without_the_owners_word_a_question_is_refused_with_the_best_that_is_left():
    rows = table(4, columns=5, turns=400)
    kept = rows.ledger(SMALL)
    curator = rows.curator(kept, rungs=frozenset(("replay", "derive")))
    with pytest.raises(BudgetExhausted) as refused:
        deque(map(curator.ask, (query for query, _ in rows.questions)), maxlen=0)
    message = str(refused.value)
    assert message.endswith("Nothing was charged.")
    matched = re.search(r"The best that is left is within ([\d.]+)%", message)
    assert matched is not None
    part = float(matched[1])
    unasked = next(query for query, _ in reversed(rows.questions))
    offer = curator.quote(unasked, within=f"{part:.4g}%")
    assert offer.price.share <= kept.left(analyst=None)
    with pytest.raises(BudgetExhausted):
        curator.ask(unasked, within=f"{0.97 * part:.4g}%")
    assert curator.ask(unasked, within=f"{part:.4g}%").source == "measured"


def test_the_best_that_is_left_is_told_in_rows_where_rows_were_asked_for():
    kept = scene.ledger(Budget("0.01", 0, "pure"))
    with pytest.raises(BudgetExhausted, match=r"within [\d,.]+: ask for that, or for less\. Nothing was charged"):
        scene.curator(kept=kept).ask("SELECT count(*) FROM stays WHERE age < 40", within=5)


def test_where_nothing_is_left_the_refusal_says_no_more():
    kept = scene.ledger(Budget("0.01", 0, "pure"))
    curator = scene.curator(kept=kept)
    curator.ask("SELECT count(*) FROM stays WHERE age < 40", epsilon="0.01")
    with pytest.raises(BudgetExhausted, match="Ask for less") as refused:
        curator.ask("SELECT count(*) FROM stays WHERE age < 50", within=5)
    assert "The best" not in str(refused.value)


def tiny(after="model", budget="0.001"):
    kept = scene.ledger(Budget(budget, 0, "pure"))
    plain = scene.curator(kept=kept)._dataset
    return scene.Curator(
        Dataset(
            name=plain.name,
            schema=plain.schema,
            source=plain.source,
            ledger=kept,
            default=plain.default,
            after=after,
        )
    )


def test_guesses_of_unlike_bounds_are_told_as_guesses():
    curator = tiny(budget="1")
    curator.ask("SELECT sex, count(*) FROM stays GROUP BY sex", epsilon="0.5", max_price="100%")
    curator.ask("SELECT emergency, count(*) FROM stays GROUP BY emergency", epsilon="0.5", max_price="100%")
    many = curator.ask("SELECT sex, emergency, count(*) FROM stays GROUP BY sex, emergency", within=5)
    assert len({row.estimates[0].within for row in many.rows}) > 3
    assert many.mechanism == "a model's prediction, compared with nothing, for each of 16 values"


def test_groups_and_sums_are_guessed_and_averages_are_refused():
    curator = tiny()
    groups = curator.ask("SELECT sex, count(*) AS n FROM stays GROUP BY sex")
    assert groups.source == "model"
    assert len(groups.rows) == 4
    total = curator.ask("SELECT sum(stay) AS s FROM stays")
    assert total.source == "model"
    assert 0 < to_float(total.value.value) < 30_000
    assert total.value.within > 1_000
    with pytest.raises(BudgetExhausted):
        curator.ask("SELECT avg(stay) AS mean FROM stays")
    several = curator.ask_many(
        ["SELECT count(*) FROM stays WHERE age < 40", "SELECT count(*) FROM stays WHERE age < 9"]
    )
    assert [answer.source for answer in several] == ["model", "model"]


def test_how_many_rows_there_are_is_not_guessed_from_what_was_declared():
    curator = tiny()
    with pytest.raises(BudgetExhausted):
        curator.ask("SELECT count(*) FROM stays")
    with pytest.raises(BudgetExhausted):
        curator.ask("SELECT sum(2) FROM stays")


def test_a_guess_without_experience_has_no_error_bar():
    answer = tiny().ask("SELECT count(*) FROM stays WHERE age < 40")
    assert answer.source == "model"
    assert (answer.value.low, answer.value.high) == (-math.inf, math.inf)
    assert "-∞ to ∞" in str(answer)
    assert '"low": null' in answer.to_json()


def test_another_word_than_refuse_or_model_is_refused():
    with pytest.raises(InvalidArgument, match='write "refuse" or "model"'):
        tiny(after="guess")


def shares(domain, model, wheres):
    return [float(model.predict(Query(domain, (Block(where),)), 1.0)[0]) for where in wheres]


def test_the_model_is_fitted_to_what_it_takes_and_independent_elsewhere():
    domain = table(0, rows=10, turns=0).schema.domain
    first, second = among(domain["c0"], [1]), among(domain["c1"], [1])
    model = PredictionModel(domain)
    assert shares(domain, model, [first, conjunction(first, second)]) == pytest.approx([0.5, 0.25])
    model.take(Block(first), 0.2, 1e-4)
    model.take(Block(second), 0.7, 1e-4)
    assert shares(domain, model, [first, second, conjunction(first, second)]) == pytest.approx(
        [0.2, 0.7, 0.14], abs=1e-4
    )
    model.take(Block(conjunction(first, second)), 0.16, 1e-4)
    assert shares(domain, model, [first, second, conjunction(first, second)]) == pytest.approx(
        [0.2, 0.7, 0.16], abs=2e-2
    )
    assert model.known == {"c0": 2, "c1": 2}


def test_classes_that_are_told_apart_later_share_their_weight_as_before():
    domain = scene.schema().domain
    young, child = among(domain["age"], range(40)), among(domain["age"], range(10))
    model = PredictionModel(domain)
    model.take(Block(young), 0.8, 1e-4)
    assert shares(domain, model, [young, child]) == pytest.approx([0.8, 0.2], abs=1e-3)
    model.take(Block(child), 0.1, 1e-4)
    assert shares(domain, model, [young, child]) == pytest.approx([0.8, 0.1], abs=1e-3)


def test_too_many_classes_turn_the_model_off():
    rows = table(0, columns=21, rows=10, turns=0)
    model = PredictionModel(rows.schema.domain)
    sides = [among(attribute, [1]) for attribute in rows.schema.domain]
    assert 2 ** len(sides) > MOST_MODEL_CELLS
    assert model.predict(Query(rows.schema.domain, tuple(Block(side) for side in sides)), 1.0) is None
    assert model.off
    model.take(Block(sides[0]), 0.5, 0.1)
    assert model.predict(Query(rows.schema.domain, (Block(sides[0]),)), 1.0) is None
