"""The three-way checker of the notes: exact, noisy, with fresh answers; claim 1; and that the side costs nothing."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dodona.errors import Halted, InvalidArgument
from dodona.lab import direct
from dodona.lab.composition import homogeneous_delta, mechanism_group, product_sharp
from dodona.lab.mechanisms import Laplace, SparseVector
from dodona.lab.sparse_vector import EstimateVerdict, claim_one, exact_verdict
from dodona.lab.weights import interactive_approximate, interactive_design
from dodona.privacy.sparse_vector import EstimateChecker
from dodona.schema.schema import Neighbours, Unit
from tests.privacy import laws

CORRECT, HIGH, LOW = EstimateVerdict


def test_the_exact_checker_knows_three_cases():
    assert exact_verdict(10, 12, tolerance=2) is CORRECT
    assert exact_verdict(10, 13, tolerance=2) is HIGH
    assert exact_verdict(10, 7, tolerance=2) is LOW


@pytest.mark.parametrize(("alpha", "epsilon"), [(0.1, 0.02), (0.2, 0.2), (0.05, 0.1)])
def test_claim_1_bounds_the_exact_probability_of_each_wrong_verdict(alpha, epsilon):
    """Noise of scale εn on the count and none on the threshold, at the worst distance that each case allows."""
    rows = 1000
    scale, at = epsilon * rows, 3 * alpha * rows
    bound, rounding = claim_one(alpha, epsilon=epsilon), math.exp(1 / scale)
    content = 2 * alpha * rows
    # The estimate is 2αn too high, which the exact checker accepts.
    too_high = float(laws.laplace_below(np.float64(math.ceil(content - at) - 1), scale))
    too_low = float(laws.laplace_above(np.float64(math.floor(content + at)), scale))
    assert too_high + too_low <= bound.incorrect * rounding
    assert too_high >= bound.incorrect / 2 / rounding**2
    # The estimate is more than 2αn too low, and is called too high: the noise passes 5αn. And the other way round.
    opposite = float(laws.laplace_below(np.float64(-math.floor(content) - 1 - math.floor(at) - 1), scale))
    assert opposite <= bound.too_high * rounding
    assert opposite >= bound.too_high / rounding**4
    assert bound.too_low == bound.too_high


def verdict_law(checker: EstimateChecker, counts: tuple[int, ...], estimates: tuple[int, ...]) -> laws.Law:
    """The exact law of all verdicts up to the first that is not "correct": each side is a question of its own."""
    values = [distance for count, estimate in zip(counts, estimates, strict=True)
              for distance in (estimate - count, count - estimate)]  # fmt: skip
    alone = SparseVector(
        threshold_scale=checker.test.threshold_scale, question_scale=checker.test.question_scale, positives=1
    )
    return laws.sparse_law(alone, values, [checker.threshold] * len(values), gaps=0)


def test_the_side_of_a_verdict_costs_nothing_more():
    """All moves of three counts by one: no verdict, with its side, tells more than a round of the test costs."""
    checker = EstimateChecker(SparseVector(threshold_scale=1, question_scale=2, positives=2), Laplace(scale=2), 3)
    unit = Unit.each_row(Neighbours.REPLACE)
    paid = checker.test.event(checker_sensitivity()).epsilon / checker.test.positives
    estimates = (4, 4, 9)
    worst = 0.0
    for moves in itertools.product((-1, 0, 1), repeat=3):
        first, second = (3, 6, 6), tuple(count + move for count, move in zip((3, 6, 6), moves, strict=True))
        worst = max(
            worst, laws.largest_loss(verdict_law(checker, first, estimates), verdict_law(checker, second, estimates))
        )
    assert worst <= float(paid) * (1 + 1e-9)
    assert worst >= 0.5 * float(paid)
    assert checker.event(unit).epsilon == 2 * paid + checker.answer.event(count_sensitivity()).epsilon


def count_sensitivity():
    from dodona.query.sensitivity import row_count_sensitivity

    return row_count_sensitivity(Unit.each_row(Neighbours.REPLACE))


def checker_sensitivity():
    from dodona.query.sensitivity import score_sensitivity

    return score_sensitivity(Unit.each_row(Neighbours.REPLACE))


def test_the_open_mechanism_answers_at_most_as_often_as_it_may():
    checker = interactive_design(0.2, rows=10**6, universe=2**4, questions=100).checker
    opened = direct.interactive(checker)
    assert opened.ask(300_000, 300_000) == (CORRECT, None)
    for number in range(checker.updates):
        verdict, answer = opened.ask(900_000, 0) if number % 2 else opened.ask(0, 900_000)
        assert verdict is (LOW if number % 2 else HIGH)
        assert abs(answer - (900_000 if number % 2 else 0)) < 200_000 * 10
    with pytest.raises(Halted):
        opened.ask(900_000, 0)
    with pytest.raises(Halted):
        opened.ask(300_000, 300_000)


def test_noisy_verdicts_agree_with_exact_ones_as_often_as_claim_1_says():
    """3,000 checks at a margin of α beyond each side: wrong in at most 4/3·e^{-α/ε} = .0133 of them.

    More than 90 have probability below 10^-9.
    """
    rows, questions, alpha = 10**5, 10, 0.1
    checker = interactive_design(alpha, rows=rows, universe=2**3, questions=questions).checker
    wrong = 0
    for number in range(3000):
        estimate = 50_000 + int((number % 3 - 1) * 4 * alpha * rows)
        verdict, _ = direct.interactive(checker).ask(50_000, estimate)
        wrong += verdict is not exact_verdict(50_000, estimate, tolerance=int(2 * alpha * rows))
    assert wrong <= 90


@pytest.mark.parametrize("rows", [10**5, 3 * 10**5])
def test_the_approximate_price_of_the_interactive_mechanism_holds_and_has_its_order(rows):
    """δ at ε by the exact composition of as many rounds is below e^-t; ε falls with the square of the rows."""
    sides = {"universe": 2**10, "questions": 10**3}
    pair = interactive_approximate(0.1, rows=rows, **sides)
    checker = interactive_design(0.1, rows=rows, **sides).checker
    scale = checker.answer.scale
    assert pair == product_sharp(5 / scale, times=checker.test.positives)
    exact = homogeneous_delta(mechanism_group(5 / scale, times=checker.test.positives), epsilon=pair.epsilon)
    assert float(exact) <= float(pair.delta)
    order = math.log(10**3) ** 2 * math.log(2**10) / (0.1**4 * rows**2)
    assert float(pair.epsilon) == pytest.approx(300 * order, rel=0.01)
    assert -math.log(float(pair.delta)) == pytest.approx(25 / 24 * float(pair.epsilon), rel=1e-6)


def test_what_is_no_claim_is_refused():
    with pytest.raises(InvalidArgument, match="alpha"):
        claim_one(2, epsilon=1)
    with pytest.raises(InvalidArgument, match="epsilon"):
        claim_one(Fraction(1, 10), epsilon=0)
