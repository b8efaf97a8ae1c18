"""What is not accepted is refused with words that help, before anything is drawn."""

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dodona.errors import Halted, InvalidArgument
from dodona.lab import direct, theorems
from dodona.lab.mechanisms import (
    Coins,
    Exponential,
    Gaussian,
    Laplace,
    NoisyMax,
    PermuteAndFlip,
    RandomizedResponse,
    SparseVector,
)
from dodona.lab.sparse_vector import above_threshold, numeric_sparse, sparse
from dodona.privacy.accuracy import Accuracy
from dodona.query.sensitivity import Sensitivity
from dodona.schema.schema import Neighbours
from dodona.trusted.entropy import SYSTEM

COUNT = Sensitivity.count(Neighbours.ADD_REMOVE)
SCALED = [Laplace, Gaussian, Exponential, PermuteAndFlip, NoisyMax]

junk = st.one_of(
    st.none(),
    st.booleans(),
    st.text(max_size=8).filter(lambda text: not any(letter in text for letter in "0123456789")),  # may be a number
    st.just(math.nan),
    st.just(math.inf),
    st.just(Decimal("NaN")),
    st.binary(max_size=3),
    st.complex_numbers(allow_nan=False),
    st.lists(st.integers(), max_size=2),
)
not_positive = st.one_of(junk, st.fractions(max_value=0), st.floats(max_value=0), st.integers(max_value=0))
not_whole = st.one_of(junk, st.integers(max_value=0), st.fractions(1, 9).filter(lambda number: number.denominator > 1))


def refused(call: Callable[[], object], argument: str) -> InvalidArgument:
    """The error of a call, which names the argument, the value and what may be written, and draws nothing."""
    before = SYSTEM._left
    with pytest.raises(InvalidArgument) as caught:
        call()
    assert SYSTEM._left == before
    error = caught.value
    assert error.argument == argument
    assert str(error).startswith(f"{argument} = ")
    assert "is not accepted: " in str(error)
    assert len(error.accepted) > 10
    assert str(error).endswith("Nothing was drawn. Nothing was charged.")
    return error


@given(st.sampled_from(SCALED), not_positive)
def test_a_scale_is_an_exact_number_above_nought(kind: Any, scale: Any) -> None:  # noqa: ANN401
    refused(lambda: kind(scale=scale), "scale")


@given(st.sampled_from([Laplace, Exponential, PermuteAndFlip, NoisyMax]), not_positive)
def test_a_loss_is_an_exact_number_above_nought(kind: Any, epsilon: Any) -> None:  # noqa: ANN401
    refused(lambda: kind.for_privacy(epsilon, COUNT), "epsilon")
    refused(lambda: RandomizedResponse(epsilon=epsilon), "epsilon")
    refused(lambda: Gaussian.for_privacy(epsilon, "1e-6", COUNT), "epsilon")
    refused(lambda: SparseVector.for_privacy(epsilon, COUNT, questions=3), "epsilon")
    refused(lambda: above_threshold(epsilon, COUNT), "epsilon")
    refused(lambda: numeric_sparse(epsilon, COUNT, positives=1), "epsilon")
    refused(lambda: theorems.laplace_error(1, epsilon=epsilon), "epsilon")
    refused(lambda: theorems.sparse_error(epsilon=epsilon, delta=0, questions=1, positives=1), "epsilon")


@given(st.one_of(not_positive, st.fractions(min_value=1), st.integers(min_value=1)))
def test_a_failure_of_privacy_is_between_nought_and_one(delta: Any) -> None:  # noqa: ANN401
    refused(lambda: Gaussian.for_privacy(1, delta, COUNT), "delta")
    if delta is not None:
        refused(lambda: sparse(1, COUNT, positives=2, delta=delta), "delta")
        refused(lambda: numeric_sparse(1, COUNT, positives=2, delta=delta), "delta")
    if delta != 0:
        refused(lambda: theorems.numeric_sparse_error(epsilon=1, delta=delta, questions=1, positives=1), "delta")


@given(st.one_of(not_whole, st.integers(min_value=10**6 + 1)))
def test_a_number_of_positives_is_whole_and_at_least_one(positives: Any) -> None:  # noqa: ANN401
    refused(lambda: SparseVector(threshold_scale=1, question_scale=2, positives=positives), "positives")
    refused(lambda: sparse(1, COUNT, positives=positives), "positives")
    refused(lambda: sparse(1, COUNT, positives=positives, delta="1e-6"), "positives")
    refused(lambda: numeric_sparse(1, COUNT, positives=positives), "positives")
    refused(lambda: SparseVector.for_privacy(1, COUNT, questions=5, positives=positives), "positives")
    target = Accuracy(within=100)
    refused(lambda: SparseVector.for_accuracy(target, COUNT, questions=5, positives=positives), "positives")


@given(not_whole)
def test_what_is_counted_is_whole_and_at_least_one(number: Any) -> None:  # noqa: ANN401
    watch = SparseVector(threshold_scale=1, question_scale=2)
    refused(lambda: watch.accuracy(questions=number), "questions")
    refused(lambda: SparseVector.for_privacy(1, COUNT, questions=number), "questions")
    refused(lambda: theorems.above_threshold_error(epsilon=1, questions=number), "questions")
    refused(lambda: Laplace(scale=1).accuracy(answers=number), "answers")
    refused(lambda: Gaussian(scale=1).accuracy(answers=number), "answers")
    if number is not None:
        refused(lambda: Laplace(scale=1).accuracy(sample=number), "sample")
    refused(lambda: Exponential(scale=1).accuracy(candidates=number), "candidates")
    refused(lambda: Exponential(scale=1).accuracy(candidates=9, best=number), "best")
    refused(lambda: NoisyMax(scale=1).accuracy(candidates=number), "candidates")
    refused(lambda: RandomizedResponse(epsilon=1).accuracy(respondents=number), "respondents")
    refused(lambda: RandomizedResponse(epsilon=1).share(0, number), "respondents")
    refused(lambda: Coins().share(0, number), "respondents")


@pytest.mark.parametrize("yes", [-1, 11, 2.5, "some", None, True])
def test_no_more_say_yes_than_were_asked(yes: Any) -> None:  # noqa: ANN401
    refused(lambda: RandomizedResponse(epsilon=1).share(yes, 10), "yes")
    refused(lambda: RandomizedResponse(epsilon=1).interval(yes, 10), "yes")
    refused(lambda: Coins().share(yes, 10), "yes")


def test_more_best_candidates_than_candidates_are_refused() -> None:
    refused(lambda: Exponential(scale=1).accuracy(candidates=3, best=4), "best")


@pytest.mark.parametrize("restarts", [None, 1, "yes"])
def test_restarts_is_said_plainly(restarts: Any) -> None:  # noqa: ANN401
    refused(lambda: SparseVector(threshold_scale=1, question_scale=1, restarts=restarts), "restarts")


@pytest.mark.parametrize("value", [1.5, "1", None, True, [1.5], [], [[1]], [True], ["a"], [2**62 + 1], np.array([0.5])])
def test_noise_is_added_to_integers_alone(value: Any) -> None:  # noqa: ANN401
    refused(lambda: direct.run(Laplace(scale=1), value), "value")
    refused(lambda: direct.run(Gaussian(scale=1), value), "value")


@pytest.mark.parametrize("value", [1, "yes", None, [], [1, 0], [[True]]])
def test_responses_are_to_truths_alone(value: Any) -> None:  # noqa: ANN401
    refused(lambda: direct.run(RandomizedResponse(epsilon=1), value), "value")
    refused(lambda: direct.run(Coins(), value), "value")


@pytest.mark.parametrize("scores", ["12", None, 3, {1, 2}, []])
def test_scores_are_a_flat_list(scores: Any) -> None:  # noqa: ANN401
    for mechanism in (Exponential(scale=1), PermuteAndFlip(scale=1), NoisyMax(scale=1)):
        refused(lambda mechanism=mechanism: direct.run(mechanism, scores), "scores")  # type: ignore[misc]


@pytest.mark.parametrize("score", [math.nan, math.inf, None, "much", True])
def test_a_score_is_an_exact_number(score: Any) -> None:  # noqa: ANN401
    for mechanism in (Exponential(scale=1), PermuteAndFlip(scale=1)):
        refused(lambda mechanism=mechanism: direct.run(mechanism, [1, score]), "scores[1]")  # type: ignore[misc]


@pytest.mark.parametrize("number", [1.5, "1", None, True, Fraction(1, 2)])
def test_a_watch_compares_integers_and_does_not_show_the_value(number: Any) -> None:  # noqa: ANN401
    """A value with a fraction would shine through the gap; and the value is what is kept secret."""
    watch = direct.watch(SparseVector(threshold_scale=1, question_scale=2))
    error = refused(lambda: watch.ask(number, threshold=0), "value")
    assert repr(number) not in str(error).replace(repr(type(number)), "")
    refused(lambda: watch.ask(0, threshold=number), "threshold")
    assert watch.positives_left == 1


def test_a_halted_watch_says_so_and_draws_nothing() -> None:
    watch = direct.watch(SparseVector(threshold_scale="1/1000", question_scale="1/1000", positives=2))
    assert watch.ask(100, threshold=0).above
    assert watch.ask(100, threshold=0).above
    before = SYSTEM._left
    with pytest.raises(Halted, match=r"opened for 2 alerts, .*Nothing was charged") as caught:
        watch.ask(100, threshold=0)
    assert SYSTEM._left == before
    assert (caught.value.code, caught.value.exit_code) == ("halted", 3)


@pytest.mark.parametrize("kind", [Laplace, Gaussian])
@pytest.mark.parametrize("within", [0.0, 1e-9])
def test_noise_smaller_than_can_be_drawn_is_refused_by_name(kind: Any, within: float) -> None:  # noqa: ANN401
    """A target so small is met by hardly any noise; choices and watches cannot meet it and say so."""
    refused(lambda: Exponential.for_accuracy(Accuracy(within=within), candidates=5), "scale")
    refused(lambda: NoisyMax.for_accuracy(Accuracy(within=within), candidates=5), "scale")
    refused(lambda: SparseVector.for_accuracy(Accuracy(within=within), COUNT, questions=5), "within")
    made = kind.for_accuracy(Accuracy(within=within))
    assert made.accuracy().within == 0
