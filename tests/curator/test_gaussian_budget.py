"""The whole surface under the Gaussian accountant: what is bought is rounded normal noise, at its exact price."""

from __future__ import annotations

from fractions import Fraction

import pytest

import dodona
from dodona import Budget, Category, Integer, Schema
from dodona.curator.weights_design import best_design
from dodona.ledger import memory
from dodona.ledger.opening import LedgerTerms
from dodona.privacy.accountants import NoGaussianPrice
from dodona.privacy.additive_noise import RoundedGaussian, normal_noise
from dodona.privacy.events import ComposedEvent, GaussianEvent, RoundedGaussianEvent
from dodona.privacy.gaussian_privacy import gaussian_limit
from dodona.schema.schema import Neighbours, Unit

SIZE = 4_000
ROWS = {
    "age": [number % 80 for number in range(SIZE)],
    "ward": ["abcd"[number % 7 % 4] for number in range(SIZE)],
    "sex": ["fm"[number % 2] for number in range(SIZE)],
}


def opened(neighbours: str, accountant: str = "gaussian"):
    import pandas as pd

    schema = Schema.of(
        "stays",
        Integer("age", 0, 99),
        Category("ward", tuple("abcd")),
        Category("sex", ("f", "m")),
        size=SIZE,
        neighbours=neighbours,
    )
    with pytest.warns(UserWarning, match="memory"):
        return dodona.open(pd.DataFrame(ROWS), schema=schema, budget=Budget(4, "1e-6", accountant))


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_every_kind_of_question_is_answered_with_rounded_noise(neighbours: str):
    stays = opened(neighbours)
    count = stays.ask("SELECT count(*) FROM stays WHERE age > 30", within=60)
    assert (count.mechanism, count.theorem) == (
        "rounded normal noise of scale 30.8679 on one value",
        "rounded-gaussian",
    )
    assert "rounded normal" in stays.ask("SELECT sex, avg(age) FROM stays GROUP BY sex", within=3, fresh=True).mechanism
    assert "rounded normal" in stays.ask("SELECT median(age) FROM stays", within=8, fresh=True).mechanism
    singles = [f"SELECT count(*) FROM stays WHERE age = {age}" for age in range(20)]  # noqa: S608  numbers
    many = stays.ask_many(singles, within=90)
    assert all(answer.value.low <= SIZE for answer in many)
    prepared = stays.prepare(
        ["SELECT ward, sex, count(*) FROM stays GROUP BY ward, sex", "SELECT ward, count(*) FROM stays GROUP BY ward"],
        within=120,
    )
    assert prepared.price.share > 0
    derived = stays.ask("SELECT count(*) FROM stays WHERE ward = 'a'", within=120)
    assert derived.source in {"derived", "replayed"}
    assert stays.choose("SELECT ward, count(*) FROM stays GROUP BY ward", epsilon="0.3", max_price=1)
    assert stays.above(500, epsilon="0.3", max_price=1).ask("SELECT count(*) FROM stays WHERE sex = 'm'") is not None
    model = dodona.synthesize(stays, "1-way", share="1/20")
    assert model is not None
    assert 0 < stays.budget.spent < 1
    assert stays.budget.epsilon_spent <= 4


def test_a_count_costs_an_eighth_less_than_at_a_renyi_order():
    text = "SELECT count(*) FROM stays WHERE age > 30"
    shares = [opened("replace", accountant).quote(text, within=60).price.share for accountant in ("gaussian", "renyi")]
    assert 0.85 < shares[0] / shares[1] < 0.9


def test_the_epsilon_of_a_question_alone_is_that_of_the_exact_curve():
    stays = opened("replace")
    answer = stays.ask("SELECT count(*) FROM stays WHERE age > 30", epsilon="0.1", max_price="3%")
    assert answer.price.epsilon == pytest.approx(0.1, rel=1e-5)
    assert answer.price.epsilon <= 0.1 * (1 + 1e-9)


def test_a_ledger_refuses_discrete_gaussian_noise_and_charges_nothing():
    ledger = memory.create_memory_ledger(
        LedgerTerms(datasets={"stays": "digest"}, neighbours=Neighbours.REPLACE, budget=Budget(1, "1e-6", "gaussian"))
    )
    for event in (
        GaussianEvent(1, Fraction(10**8), Neighbours.REPLACE),
        ComposedEvent(((GaussianEvent(1, Fraction(10**8), Neighbours.REPLACE), 2),)),
    ):
        with pytest.raises(NoGaussianPrice):
            ledger.share(event)
    assert ledger.share(RoundedGaussianEvent(Fraction(1, 10**8), Neighbours.REPLACE)) > 0
    assert normal_noise(ledger.budget) is RoundedGaussian


def test_weights_are_designed_within_the_gaussian_price():
    """The checks and the answers of a design together cost the limit of (1, 10^-6), to a percent and never more."""
    limit = gaussian_limit(Fraction(1), Fraction(1, 10**6))
    design = best_design(10**7, universe=1024, questions=10**5, epsilon=1, delta="1e-6", law=RoundedGaussian)
    price = design.event(Unit.each_row(Neighbours.REPLACE)).mu_squared()
    assert price is not None
    assert 0.98 < price / limit <= 1
