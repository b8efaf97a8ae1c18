"""The cap on rows that a draft proposes: a private choice among public caps."""

from __future__ import annotations

import itertools
import math
from collections import Counter

from dodona.opening.rounding import CAP_EPSILON, CAP_SCALE, CAPS, cap_scores
from dodona.trusted.choice import draft_choice


def scores(people: tuple[int, ...]) -> list[int]:
    """Scores of people by how many rows each has."""
    return cap_scores(sorted(Counter(people).items()))


def test_one_person_moves_no_score_by_more_than_is_paid_for() -> None:
    room = CAP_SCALE * CAP_EPSILON / 2
    assert room == 20
    for number in range(4):
        for people in itertools.combinations_with_replacement((1, 3, 9, 40, 500), number):
            before = scores(people)
            for own in (1, 2, 9, 50, 10**6):
                for other in (before, scores((*people, 2)), scores((*people, 10**6))):
                    after = scores((*people, own))
                    assert all(abs(a - b) <= room for a, b in zip(after, other, strict=True))


def test_the_cap_is_chosen_by_the_exponential_mechanism() -> None:
    """False alarm: below 1e-6, by a bound of 6 standard errors on each of 13 chances. Sample: 4,000 choices."""
    times, found = 4_000, scores((1,) * 800 + (4,) * 150 + (30,) * 50)
    chances = [math.exp(score / CAP_SCALE) / size for score, size in zip(found, CAPS, strict=True)]
    drawn = Counter(draft_choice(found, CAPS, scale=CAP_SCALE) for _ in range(times))
    for place, chance in enumerate(chances):
        expected = chance / sum(chances)
        assert abs(drawn[place] / times - expected) < 6 * math.sqrt(expected * (1 - expected) / times) + 1 / times


def test_of_many_people_nearly_all_have_all_of_their_rows_counted() -> None:
    """False alarm: below 1e-8 for each of 50 choices, as the next best cap is 20,000 / 400 = 50 nats away."""
    found = scores((1,) * 60_000 + (5,) * 36_000 + (70,) * 4_000)
    assert {CAPS[draft_choice(found, CAPS, scale=CAP_SCALE)] for _ in range(50)} <= {5, 6, 8, 10, 15, 20, 30, 50}
