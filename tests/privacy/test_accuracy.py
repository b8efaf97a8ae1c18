"""What an accuracy may say, and the error of a sample."""

import math
from fractions import Fraction

import pytest

from dodona.errors import InvalidArgument
from dodona.privacy.accuracy import (
    Accuracy,
    Against,
    sampling_error,
    to_failure_probability,
    validate_count,
    validate_table_target,
)


def binomial_beyond(rows: int, share: Fraction, error: float) -> Fraction:
    """P(|count - rows·share| > error), exactly."""
    return sum(
        (
            math.comb(rows, count) * share**count * (1 - share) ** (rows - count)
            for count in range(rows + 1)
            if abs(count - rows * share) > error
        ),
        Fraction(0),
    )


@pytest.mark.parametrize("rows", [1, 10, 100, 400])
@pytest.mark.parametrize("share", [Fraction(1, 2), Fraction(1, 10), Fraction(99, 100)])
@pytest.mark.parametrize("failing", [0.5, 0.05, 0.001])
def test_a_count_of_independent_rows_is_within_the_sampling_error(rows: int, share: Fraction, failing: float) -> None:
    error = sampling_error(failing, answers=1, sample=rows)
    assert binomial_beyond(rows, share, error) <= failing


def test_half_the_sampling_error_is_not_enough() -> None:
    error = sampling_error(0.05, answers=1, sample=400) / 2
    assert binomial_beyond(400, Fraction(1, 2), error) > 0.05


def test_several_counts_share_what_may_fail() -> None:
    together = sampling_error(0.05, answers=10, sample=100)
    assert together == sampling_error(0.005, answers=1, sample=100)


@pytest.mark.parametrize("confidence", [0, 1, -0.5, 1.5, float("nan"), 1e-17, True, "0.9", None])
def test_a_confidence_is_strictly_between_nought_and_one(confidence: float) -> None:
    with pytest.raises(InvalidArgument, match=r"confidence = .*such as 0\.95"):
        to_failure_probability(confidence)
    with pytest.raises(InvalidArgument, match="confidence = "):
        Accuracy(within=1, confidence=confidence)


@pytest.mark.parametrize("within", [-1, math.inf, math.nan, "3", None, True])
def test_an_error_is_a_number_from_nought_up(within: float) -> None:
    with pytest.raises(InvalidArgument, match="within = "):
        Accuracy(within=within)


@pytest.mark.parametrize("number", [0, -1, 1.5, True, "x", None, 1 << 63])
def test_a_number_of_things_is_whole_and_positive(number: int) -> None:
    with pytest.raises(InvalidArgument, match=r"^questions = "):
        validate_count(number, argument="questions")
    with pytest.raises(InvalidArgument, match=r"^sample = "):
        sampling_error(0.05, answers=1, sample=number)
    with pytest.raises(InvalidArgument, match=r"^answers = "):
        sampling_error(0.05, answers=number, sample=1)


def test_noise_alone_meets_no_target_against_the_population() -> None:
    target = Accuracy(within=3, against=Against.POPULATION)
    with pytest.raises(InvalidArgument, match="against = "):
        validate_table_target(target)
    with pytest.raises(InvalidArgument, match="against = "):
        Accuracy(within=3, against="table")  # type: ignore[arg-type]
