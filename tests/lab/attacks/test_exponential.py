"""Reconstruction by exhaustion: the quick way to rule tables out against the slow one, and 4E from both sides."""

from __future__ import annotations

import numpy as np
import pytest

from dodona.errors import InvalidArgument
from dodona.lab.attacks.exponential import (
    MOST_PEOPLE,
    attack,
    consistent_tables,
    every_set,
    most_wrong,
    reconstruct,
    violations,
)
from dodona.lab.attacks.target import Exact, UnderNoised, bounded_noise, random_secrets, seeded_generator


@pytest.mark.parametrize("people", [1, 2, 3, 6])
def test_the_quick_way_finds_what_trying_everything_finds(people: int):
    generator = seeded_generator(people)
    answers = generator.normal(0, 3, 1 << people)
    tables = sets = every_set(people).astype(np.int64)
    slow = [np.abs(sets @ table - answers).max() for table in tables]
    assert violations(answers) == pytest.approx(slow, abs=1e-12)


@pytest.mark.parametrize("within", [0, 0.5, 1, 1.5])
def test_every_table_that_is_left_is_wrong_in_at_most_4e_places(within: float):
    """120 tables; noise of either end is the worst that stays within E."""
    generator, worst = seeded_generator(3), 0
    for number in range(120):
        secrets = random_secrets(7, generator)
        noise = (
            generator.uniform(-within, within, 1 << 7) if number % 2 else generator.choice([-within, within], 1 << 7)
        )
        left = consistent_tables(Exact(secrets).counts(every_set(7)) + noise, within=within + 1e-9)
        wrong = np.sum(left != secrets.astype(np.bool_), axis=1)
        assert wrong.size > 0
        assert wrong.min() == 0  # the truth is never ruled out
        worst = max(worst, int(wrong.max()))
    assert worst <= most_wrong(within)


@pytest.mark.parametrize("within", [1, 2])
def test_answers_half_way_between_two_tables_leave_both_4e_places_apart(within: int):
    people = 4 * within
    first = np.repeat([1, 0], 2 * within)
    sets = every_set(people)
    answers = (Exact(first).counts(sets) + Exact(1 - first).counts(sets)) / 2
    assert np.abs(answers - Exact(first).counts(sets)).max() == within
    left = consistent_tables(answers, within=within)
    assert any((table == first).all() for table in left)
    assert any((table == 1 - first).all() for table in left)
    assert most_wrong(within) == people


@pytest.mark.parametrize("people", [1, 5, 16])
def test_exact_answers_give_everything_away(people: int):
    secrets = random_secrets(people, seeded_generator(people))
    assert (attack(Exact(secrets)) == secrets).all()


def test_noise_within_one_does_not_help_sixteen_people():
    generator = seeded_generator(4)
    secrets = random_secrets(16, generator)
    guess = attack(UnderNoised(Exact(secrets), bounded_noise(1, generator)))
    assert np.sum(guess != secrets) <= most_wrong(1)
    assert (guess == secrets).all()  # noise by chance is kinder to the attacker than the worst noise


@pytest.mark.slow
def test_twenty_people_are_within_reach():
    secrets = random_secrets(MOST_PEOPLE, seeded_generator(5))
    assert (attack(Exact(secrets)) == secrets).all()


@pytest.mark.parametrize("people", [0, 21, 200])
def test_more_people_than_can_be_tried_are_refused_with_what_works(people: int):
    with pytest.raises(InvalidArgument, match="linear-programming attack"):
        every_set(people)


@pytest.mark.parametrize("answers", [np.zeros(3), np.zeros((2, 2)), np.zeros(1), np.zeros(1 << 21)])
def test_answers_of_another_number_are_refused(answers: np.ndarray):
    with pytest.raises(InvalidArgument, match="is not accepted"):
        reconstruct(answers)


@pytest.mark.parametrize("within", [-1, np.inf, np.nan])
def test_an_error_that_is_none_is_refused(within: float):
    with pytest.raises(InvalidArgument, match="within"):
        most_wrong(within)
