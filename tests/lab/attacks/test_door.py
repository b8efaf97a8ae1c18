"""Dodona through its public door: nothing that is recovered is more than the budget allows.

What is recovered of N secrets is compared with the binomial tail of the theory page `recovered-secrets`; a test that
compares has a false-alarm rate of one in a million, whatever the attack.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dodona import Budget
from dodona.errors import InvalidArgument, Refused
from dodona.lab.attacks import averaging, exponential, linear_program, linkage, published, tracing
from dodona.lab.attacks.bound import luck
from dodona.lab.attacks.door import DodonaTarget, open_table
from dodona.lab.attacks.target import guess_bits, random_secrets, seeded_generator

ERROR = 1e-6
PURE = Budget(1, 0, "pure")
RENYI = Budget(1, "1e-10", "renyi")  # of which 300 secrets take 8e-9 of the allowed false alarms
BUDGETS = pytest.mark.parametrize("budget", [PURE, RENYI], ids=["pure", "renyi"])

SETS = {
    "exponential": (6, lambda target, _: exponential.attack(target)),
    "linear": (100, lambda target, generator: linear_program.attack(target, generator=generator)),
    "averaging": (100, lambda target, _: averaging.averaging_attack(target, times=6)),
    "differencing": (
        40,
        lambda target, generator: averaging.differencing_attack(target, number=3, generator=generator),
    ),
}


def within(guess: np.ndarray, secrets: np.ndarray, budget: Budget, values: int = 2) -> bool:
    right = int(np.sum(guess == secrets))
    generator = luck(right, secrets.size, epsilon=float(budget.epsilon), delta=float(budget.delta), values=values)
    return generator >= ERROR


@pytest.mark.share(2)
@BUDGETS
@pytest.mark.parametrize("name", [pytest.param("exponential", marks=pytest.mark.slow), *list(SETS)[1:]])
def test_an_attack_with_sets_stays_within_the_bound(name: str, budget: Budget):
    """100 secrets or more, so that recovering 95 of 100 would be an alarm."""
    people, attack = SETS[name]
    generator = seeded_generator(1)
    guesses, secrets = [], []
    for _ in range(-(-100 // people)):
        secrets.append(random_secrets(people, generator))
        with DodonaTarget(secrets[-1], budget) as target:
            guesses.append(attack(target, generator))
    everything = np.concatenate(secrets)
    assert everything.size >= 100
    assert within(np.concatenate(guesses), everything, budget)
    assert not within(everything, everything, budget)  # the comparison can fail


@BUDGETS
def test_tracing_stays_within_the_bound(budget: Budget):
    """60 pairs, 100 marks, so that finding all 60 would be an alarm."""
    study = tracing.random_study(60, marks=100, generator=seeded_generator(2))
    assert within(tracing.attack(study, published.marks(budget)), study.member, budget)
    assert not within(study.member, study.member, budget)


@BUDGETS
def test_linkage_stays_within_the_bound(budget: Budget):
    """100 people and 20 diagnoses, so that 33 right guesses would be an alarm."""
    ward = linkage.random_ward(100, generator=seeded_generator(3))
    guess = linkage.link(published.ward(ward, budget)(ward.traits))
    assert within(guess, ward.secrets, budget, values=linkage.VALUES)
    third = np.where(np.arange(100) < 33, ward.secrets, -1)
    assert not within(third, ward.secrets, budget, values=linkage.VALUES)


def test_the_same_question_in_other_words_is_told_again_and_buys_nothing():
    with DodonaTarget(random_secrets(50, seeded_generator(4)), PURE) as target:
        first = target.individual_counts()
        assert target.left == 0
        answers = [first]
        for _ in range(7):
            try:
                answers.append(target.individual_counts())
            except Refused:
                continue
        assert len(answers) > 4
        assert all((answer == first).all() for answer in answers)


def test_the_whole_budget_is_spent_and_then_no_more_is_told():
    with DodonaTarget(random_secrets(20, seeded_generator(5)), RENYI) as target:
        target.counts(np.ones((1, 20), dtype=np.bool_))
        assert 0 <= target.left < Fraction(1, 20)
        with pytest.raises(Refused):
            target.counts(np.eye(20, dtype=np.bool_))


def test_sets_of_other_people_are_refused():
    with (
        DodonaTarget(random_secrets(4, seeded_generator(6)), PURE) as target,
        pytest.raises(InvalidArgument, match="4 columns"),
    ):
        target.counts(np.ones((1, 5), dtype=np.bool_))


@pytest.mark.slow
@pytest.mark.parametrize("tables", [100, pytest.param(300, marks=pytest.mark.soak)])
def test_one_person_for_the_whole_budget_comes_as_near_as_the_theorem_allows(tables: int):
    """So many tables, one person each: 0.731 is the bound, and what a count with discrete Laplace noise gives away.

    Each of the two comparisons has a false-alarm rate of one in a million.
    """
    from scipy.stats import binom

    generator, right, only = seeded_generator(7), 0, np.eye(1, 5, dtype=np.bool_)
    for _ in range(tables):
        secrets = random_secrets(5, generator)
        with DodonaTarget(secrets, PURE) as target:
            right += int(guess_bits(target.counts(only))[0] == secrets[0])
    assert luck(right, tables, epsilon=1) >= ERROR
    assert binom.cdf(right, tables, np.e / (1 + np.e)) >= ERROR


def test_asking_under_new_keys_is_free_only_where_nothing_new_is_told():
    """Ten questions at a tenth of the budget each, 150 people: averaged they stay within the bound, at 1e-6."""
    import pyarrow as pa

    from dodona import Boolean, Integer, Schema

    secrets = random_secrets(150, seeded_generator(8))
    schema = Schema.of("people", Integer("id", 0, 149), Boolean("secret"), size=150, neighbours="replace")
    frame = pa.table({"id": np.arange(150), "secret": secrets.astype(np.bool_)})
    answers = []
    with open_table(frame, schema, PURE) as curator:
        for number in range(10):
            answer = curator.ask(
                "SELECT id, count(*) FROM people WHERE secret GROUP BY id", epsilon="1/10", key=str(number)
            )
            answers.append(tuple(float(row.estimates[0].value) for row in answer.rows[:150]))
            spent = 1 - curator.budget.left
            assert spent >= len(set(answers)) * Fraction(1, 10) - Fraction(1, 10**5)
    assert within(guess_bits(np.mean(answers, axis=0)), secrets, PURE)
