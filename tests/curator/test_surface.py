"""What people see of a curator when they print it or hand it the wrong thing."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import dodona
from dodona.errors import InvalidArgument, InvalidRequest
from dodona.privacy.budget import Budget
from tests.curator.scene import curator, ledger


def test_a_text_is_not_taken_for_a_list_of_letters():
    with pytest.raises(InvalidRequest, match=r"are a list: write \[question\]"):
        curator().ask_many("SELECT count(*) FROM stays")


@pytest.mark.parametrize("questions", [[], ()])
def test_a_quote_of_nothing_is_refused(questions):
    with pytest.raises(InvalidRequest, match="no question to quote"):
        curator().quote(questions)


def test_a_quote_of_what_is_no_question_is_refused():
    with pytest.raises(InvalidRequest, match="are a list"):
        curator().quote(None)


def test_a_budget_prints_in_one_line():
    asked = curator(kept=ledger(Budget(1, "1e-6", "renyi")))
    assert str(asked.budget) == (
        "Budget: epsilon 1, delta 1e-06, renyi. Spent: 0% (epsilon so far, whenever you stop: 0). Left: 100%."
    )
    asked.ask("SELECT count(*) FROM stays", within=100)
    assert "Left: 99.2" in str(asked.budget)  # scale 51 against a budget of about 1/40 at order 22


def test_a_long_batch_is_cut_off_in_the_history_that_is_printed():
    asked = curator()
    texts = [f"SELECT count(*) FROM stays WHERE age = {age}" for age in range(50)]  # noqa: S608
    asked.ask_many(texts, within=100)
    (line,) = str(asked.history).splitlines()
    assert line.endswith("…")
    assert len(line) < 160
    assert asked.history[0].text == "; ".join(texts)


def test_a_count_that_is_out_of_range_is_told_to_be_whole():
    with pytest.raises(InvalidArgument, match="write a whole number from 1 to 4"):
        curator().choose("SELECT sex, count(*) FROM stays GROUP BY sex", epsilon="0.1", count=9)


@pytest.mark.parametrize("kind", [np.int64, np.uint8, np.float32, np.float64, Fraction, Decimal])
def test_numbers_of_every_library_are_taken(kind):
    asked = curator()
    for settings in ({"within": kind(100)}, {"epsilon": kind(1)}):
        offer, plain = (
            asked.quote("SELECT count(*) FROM stays WHERE age > 40", **given)
            for given in (settings, {name: int(number) for name, number in settings.items()})
        )
        assert offer.price == plain.price
    choice = asked.choose("SELECT sex, count(*) FROM stays GROUP BY sex", epsilon=kind(1), count=kind(1))
    assert len(choice.names) == 1
    assert asked.above(kind(100), epsilon=kind(1), alerts=kind(1), questions=kind(10)).left == 1


@pytest.mark.parametrize(
    "within",
    [
        True,
        np.True_,
        None.__class__,
        [],
        [[50]],
        {},
        float("nan"),
        np.float64("inf"),
        np.int64(0),
        1e-300,
        5e-324,
        10**400,
    ],
)
def test_a_tolerance_that_is_no_number_above_0_is_refused(within):
    with pytest.raises(InvalidArgument, match=r"^within"):
        curator().quote("SELECT count(*) FROM stays WHERE age > 40", within=within)


def test_a_star_import_leaves_open_alone():
    assert "open" not in dodona.__all__
    assert dodona.open is not open


def test_a_curator_shows_itself():
    asked = curator()
    assert repr(asked).startswith("<Curator of stays")
    assert "100% of the budget left; describe() tells more>" in repr(asked)
    shown = str(asked.describe())
    for name in asked.schema.domain.names:
        assert f"\n{name} " in shown
    assert asked._repr_html_() == asked.describe()._repr_html_()
    assert "<table" in asked._repr_html_()
    assert asked.budget.charges == 0
    asked.close()
    assert repr(asked).endswith("closed>")
    assert "closed" in asked._repr_html_()
