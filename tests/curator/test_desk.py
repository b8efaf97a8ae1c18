"""Nothing is spent by surprise: what one call may take of the budget, wherever it spends."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dodona
from dodona import Budget, Number, Schema, Unit, Workload
from dodona.curator.curator import Curator
from dodona.curator.desk import PriceAboveMaximum
from dodona.curator.planner import count_share, default_accuracy, default_tolerance
from dodona.curator.request import DEFAULT_MAX_PRICE, Request
from dodona.errors import InvalidArgument, Refused
from dodona.ledger.errors import BudgetExhausted
from dodona.numbers import format_percent
from dodona.schema.schema import Neighbours
from dodona.synth.synthesize import synthesize
from tests.curator import scene

OLD = "SELECT count(*) FROM stays WHERE age >= 65"
BY_SEX = "SELECT sex, count(*) FROM stays GROUP BY sex"
ONE = Budget(1, "1e-6", "renyi")


def capped(budget: Budget = ONE, most: Fraction = DEFAULT_MAX_PRICE, after="refuse") -> Curator:
    dataset = scene.curator(kept=scene.ledger(budget))._dataset
    default = Request(within="1%", epsilon=None, confidence=0.95, max_price=most)
    return Curator(replace(dataset, default=default, after=after))


SPENDING = {
    "ask": lambda stays, **most: stays.ask(OLD, within=5, **most),
    "ask for a price": lambda stays, **most: stays.ask(OLD, epsilon="0.5", **most),
    "ask for an average": lambda stays, **most: stays.ask("SELECT avg(stay) FROM stays", within=1, **most),
    "ask_many": lambda stays, **most: stays.ask_many([OLD, BY_SEX], within=12, **most)[0],
    "prepare": lambda stays, **most: stays.prepare([OLD, BY_SEX], within=12, **most),
    "choose": lambda stays, **most: stays.choose(BY_SEX, epsilon="0.5", **most),
    "above": lambda stays, **most: stays.above(100, epsilon="0.5", **most),
    "weights": lambda stays, **most: stays.weights(questions=3, epsilon="0.5", columns=["sex"], **most),
    "release": lambda stays, **most: synthesize(
        stays, Workload.marginals(stays.schema.domain, [("sex",), ("emergency",)]), epsilon="0.5", **most
    ),
}


@pytest.mark.parametrize("call", SPENDING.values(), ids=SPENDING)
def test_every_call_that_spends_is_refused_above_its_highest_price_and_charged_below(call):
    stays = capped()
    with pytest.raises(PriceAboveMaximum) as refused:
        call(stays)
    message = str(refused.value)
    assert isinstance(refused.value, Refused)
    assert refused.value.price > refused.value.most == DEFAULT_MAX_PRICE
    assert "One call may take 2% here (max_price)" in message
    assert message.endswith("Nothing was charged.")
    assert (stays.budget.charges, stays.budget.spent) == (0, 0)
    allowed = refused.value.alternatives[-1]["max_price"]
    assert f'max_price="{allowed}"' in message
    if refused.value.price <= 1:
        call(stays, max_price=allowed)
        assert DEFAULT_MAX_PRICE < stays.budget.spent <= Fraction(allowed[:-1]) / 100


@pytest.mark.parametrize("call", [SPENDING[name] for name in ("ask", "ask for an average", "ask_many", "choose")])
@pytest.mark.parametrize("budget", [ONE, Budget(1, 0, "pure"), Budget(1, "1e-6", "either")], ids=str)
def test_what_a_refusal_proposes_fits_and_comes_near_the_highest_price(call, budget):
    stays = capped(budget)
    with pytest.raises(PriceAboveMaximum) as refused:
        call(stays)
    cheaper = dict(refused.value.alternatives[0])
    assert f"would cost {cheaper.pop('price')}." in str(refused.value)
    ((argument, value),) = cheaper.items()
    assert argument in {"within", "epsilon"}
    again = {argument: value if "%" in value or argument == "epsilon" else float(value)}
    match call:
        case _ if call is SPENDING["ask"]:
            stays.ask(OLD, **again)
        case _ if call is SPENDING["ask for an average"]:
            stays.ask("SELECT avg(stay) FROM stays", **again)
        case _ if call is SPENDING["ask_many"]:
            stays.ask_many([OLD, BY_SEX], **again)
        case _:
            stays.choose(BY_SEX, **again)
    assert Fraction("0.9") * DEFAULT_MAX_PRICE <= stays.budget.spent <= DEFAULT_MAX_PRICE


def test_of_two_laws_for_an_epsilon_the_one_that_fits_is_quoted_and_asked():
    stays = capped(Budget(1, "1e-6", "zcdp"), most=Fraction(1))
    offer = stays.quote(OLD, epsilon="0.9")
    assert offer.affordable
    assert offer.price.share < 1
    answer = stays.ask(OLD, epsilon="0.9")
    assert answer.price.share == offer.price.share == stays.budget.spent
    with pytest.raises(PriceAboveMaximum, match=f"{format_percent(offer.price.share)} of the budget"):
        capped(Budget(1, "1e-6", "zcdp")).ask(OLD, epsilon="0.9")


def test_the_price_of_a_call_holds_before_that_of_the_dataset_both_ways():
    stays = capped(most=Fraction(1))
    with pytest.raises(PriceAboveMaximum, match=r"One call may take 0\.1% here"):
        stays.ask(OLD, within=50, max_price="0.1%")
    assert stays.ask(OLD, within=50).price.share > Fraction(1, 1000)


def test_what_is_free_is_answered_at_a_price_of_nothing():
    stays = capped()
    first = stays.ask(OLD, within=80, max_price=1)
    assert first.price.share > 0
    assert stays.ask(OLD, within=80, max_price=0).source == "replayed"
    with pytest.raises(PriceAboveMaximum, match="One call may take 0% here"):
        stays.ask(BY_SEX, within=80, max_price=0)


def test_a_quote_says_what_the_call_would_do():
    stays = capped()
    offer = stays.quote(OLD, within=5)
    assert not offer.affordable
    assert "so it is refused. within=" in offer.explanation
    assert 'write max_price="' in offer.explanation
    offer = stays.quote(OLD, within=5, max_price=1)
    assert offer.affordable
    assert "refused" not in offer.explanation
    assert stays.ask(OLD, within=5, max_price=offer.price.share).price == offer.price


def test_a_bundle_is_bought_only_within_the_highest_price():
    """Thirty counts of two columns: without a bound the ladder buys a bundle; with one, no call passes it."""
    asked = [f"SELECT count(*) FROM stays WHERE age >= {age} AND sex = 'female'" for age in range(5, 95, 3)]  # noqa: S608
    free, bound = capped(Budget(10, "1e-6", "renyi"), Fraction(1)), capped(Budget(10, "1e-6", "renyi"))
    prices = [free.ask(sql, within=20).price.share for sql in asked]
    most = Fraction(max(prices)) * Fraction(9, 10)
    assert max(prices) > prices[0]
    for sql in asked:
        assert bound.ask(sql, within=20, max_price=most).price.share <= most


def test_more_than_is_left_is_refused_as_that_and_may_be_guessed():
    stays = capped(Budget("0.01", 0, "pure"))
    with pytest.raises(BudgetExhausted, match="The best that is left is within"):
        stays.ask(OLD, within=5)
    guessing = capped(Budget("0.1", 0, "pure"), after="model")
    guessing.ask(BY_SEX, epsilon="0.09", max_price=1)
    assert guessing.ask(OLD, within=5).source == "model"


LARGE = [(ONE, "at one Rényi order"), (Budget(1, "1e-6", "zcdp"), "by its zCDP price")]


@pytest.mark.parametrize(("budget", "cause"), LARGE, ids=["renyi", "zcdp"])
def test_a_large_question_that_costs_more_than_its_epsilon_suggests_is_explained(budget, cause):
    """Laplace noise at an ε of a fifth takes more than a fifth; a watch at nine tenths takes more than the budget."""
    stays = capped(budget, Fraction(1))
    offer = stays.quote(OLD, epsilon="0.2")
    assert Fraction("0.2") < offer.price.share <= 1
    with pytest.raises(BudgetExhausted) as refused:
        stays.above(100, epsilon="0.9")
    with pytest.raises(PriceAboveMaximum) as bounded:
        stays.above(100, epsilon="0.2", max_price="1%")
    for message, epsilon, part in (
        (offer.explanation, "0.2", "20%"),
        (str(refused.value), "0.9", "90%"),
        (str(bounded.value), "0.2", "20%"),
    ):
        assert f"Its epsilon alone, {epsilon}, would be {part} of the budget; but this budget counts every" in message
        assert f"every question {cause}" in message
        assert (
            'Ask smaller questions, or let the owner create the ledger with accountant "either" or "pure".' in message
        )
    assert stays.budget.charges == 0


def test_a_refusal_of_the_ledger_itself_is_explained_too():
    """The price fits the call and the whole budget, but no longer what is left."""
    stays = capped(ONE, Fraction(1))
    stays.ask(BY_SEX, epsilon="0.4")
    with pytest.raises(
        BudgetExhausted, match=r"Its epsilon alone, 0\.5, would be 50% of the budget; .*is left is epsilon"
    ):
        stays.ask(OLD, epsilon="0.5", fresh=True)


@pytest.mark.parametrize("accountant", ["either", "pure", "renyi"])
def test_nothing_is_explained_where_the_share_is_no_more_than_epsilon_suggests(accountant):
    stays = capped(Budget(1, 0 if accountant == "pure" else "1e-6", accountant), Fraction(1))
    large = stays.quote(OLD, epsilon="0.01" if accountant == "renyi" else "0.9")
    assert large.price.share <= Fraction(large.price.epsilon)
    assert "Its epsilon alone" not in large.explanation


def test_after_one_question_the_budget_reads_what_it_costs_alone():
    stays = capped(ONE, Fraction(1))
    price = stays.ask(OLD, within=30).price
    assert price.epsilon <= stays.budget.epsilon_spent <= 1.025 * price.epsilon
    assert f"(epsilon so far, whenever you stop: {stays.budget.epsilon_spent:.3g})" in str(stays.budget)
    assert str(price).endswith("; add shares, not epsilons)")


def test_what_was_paid_for_under_a_key_is_fetched_whatever_it_may_cost():
    stays = capped()
    first = stays.ask(OLD, within=5, max_price=1, key="k")
    assert stays.ask(OLD, within=5, max_price=0, key="k").value == first.value


@pytest.mark.parametrize(
    "wrong", ["2", 2, -0.1, "200%", "-1%", "%", "two", True, None.__class__, math.nan, "1e-99999%"]
)
def test_what_is_no_part_of_a_budget_is_refused(wrong):
    with pytest.raises(InvalidArgument, match="write a percentage such as '2%', or a number from 0 to 1"):
        capped().ask(OLD, max_price=wrong)


@pytest.mark.parametrize("rows", [None, 1, 20])
@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize("budget", [ONE, Budget(4, 0, "pure"), Budget("0.1", "1e-7", "zcdp")], ids=str)
def test_the_usual_tolerance_is_the_smallest_round_one_at_which_a_count_is_ordinary(budget, neighbours, rows):
    ordinary = Fraction(1, 500)
    for size in (1, 50, 1_000, 30_000, 10**6, 10**8):
        person = {} if rows is None else {"id": "patient", "rows": rows}
        unit = Unit(neighbours=Neighbours(neighbours), size=size, **person)
        tolerance = default_tolerance(unit, budget)
        part = Fraction(tolerance[:-1])
        share = count_share(unit, budget, float(part / 100 * size), 0.95)
        assert share <= ordinary or tolerance == "50%"
        finer = {1: Fraction(1, 2), 2: Fraction(1, 2), 3: Fraction(2, 3), 5: Fraction(3, 5)}[
            int(tolerance.strip("0.%")[0])
        ]
        assert count_share(unit, budget, float(finer * part / 100 * size), 0.95) > ordinary


@pytest.mark.parametrize("accountant", ["renyi", "zcdp", "gaussian", "pure"])
@pytest.mark.parametrize(
    "text",
    [
        "SELECT avg(age) FROM stays",
        "SELECT sex, stddev(age) FROM stays GROUP BY sex",
        "SELECT median(age) FROM stays",
        "SELECT avg(CASE WHEN age >= 65 THEN 1 ELSE 0 END), count(*) FROM stays",
    ],
)
def test_what_is_more_than_counts_takes_a_five_hundredth_where_nothing_says_how_accurate(accountant, text):
    """No tolerance in percent fits all of them: with one a median takes most of the budget, and a spread nothing."""
    budget = Budget(1, 0 if accountant == "pure" else "1e-6", accountant)
    stays = capped(budget)
    default = Request(within=default_accuracy(stays.schema.unit, budget), epsilon=None, confidence=0.95)
    stays = Curator(replace(stays._dataset, default=default))
    quoted = stays.quote(text).price.share
    assert Fraction(995, 1000) / 500 <= quoted <= Fraction(1, 500)
    assert stays.ask(text).price.share == quoted
    assert stays.ask(text).source == "replayed"
    assert stays.describe().default.price == Fraction(1, 500)


@pytest.mark.filterwarnings("ignore:The ledger is in memory")
def test_a_spread_that_would_need_more_noise_than_is_drawn_is_answered_with_the_most_that_is():
    """Squares of 20,000 steps, of fifty rows a person: a five-hundredth of the budget would buy a scale above 10^12."""
    frame = pd.DataFrame({"customer": np.arange(2_000) // 4, "price": np.arange(2_000) / 10})
    schema = Schema.of("sales", Number("price", 0, 200, step="0.01"), size=2_000, id="customer", rows=50)
    sales = dodona.open(frame, schema=schema, budget=Budget(1, "1e-6"))
    offer = sales.quote("SELECT stddev(price) FROM sales")
    assert Fraction(1, 500) < offer.price.share < DEFAULT_MAX_PRICE
    answer = sales.ask("SELECT stddev(price) FROM sales")
    assert answer.price.share == offer.price.share == sales.budget.spent
    assert answer.value.low <= frame["price"].std() <= answer.value.high


def test_people_are_counted_as_accurately_as_their_own_price_allows():
    unit = Unit(neighbours=Neighbours.ADD_REMOVE, size=6_000, id="patient", rows=15)
    accuracy = default_accuracy(unit, ONE)
    single = Unit(neighbours=Neighbours.ADD_REMOVE, size=6_000, id="patient", rows=1)
    assert (accuracy.rows, accuracy.people) == (default_tolerance(unit, ONE), default_tolerance(single, ONE))
    assert float(accuracy.people[:-1]) < float(accuracy.rows[:-1])


@pytest.mark.parametrize("question", [OLD, BY_SEX, "SELECT avg(stay) FROM stays"])
def test_a_confidence_that_is_nearly_1_is_priced(question):
    assert capped().quote(question, within=100, confidence=0.9999999999999999).price.share > 0
