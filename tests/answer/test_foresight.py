"""What is foreseen of a quantile is what answers show: 10,000 of each, of which 93% or more did; false alarms 10^-8."""

from fractions import Fraction

import numpy as np
import pytest

from dodona.answer.evaluation import evaluate
from dodona.answer.prediction import predict_half_width
from dodona.lab.mechanisms import Gaussian, Laplace
from dodona.query.question import AnswerColumn
from tests.answer.scene import AGE, measured_tree

COPIES = 9_998
EVEN = np.repeat(np.arange(AGE.size), 400)


def widths(level: Fraction, noise) -> np.ndarray:
    quantile, measured = measured_tree(EVEN, noise, COPIES, level=level)
    band = evaluate(quantile, measured, 0.05)
    return np.maximum(band.high - band.value, band.value - band.low)


def forecast(level: Fraction, noise) -> float:
    quantile, measured = measured_tree(EVEN, noise, 2, level=level)
    question = measured.question
    return predict_half_width(
        question, AnswerColumn("q", quantile), measured.noises, confidence=0.95, rows=4 * len(EVEN)
    )


@pytest.mark.distribution
@pytest.mark.parametrize("level", [Fraction(1, 2), Fraction(99, 100), Fraction(1, 10)])
@pytest.mark.parametrize("law", [Laplace, Gaussian])
@pytest.mark.parametrize("scale", [10, 60, 200])
def test_intervals_are_seldom_wider_and_not_all_much_narrower_than_foreseen(level, law, scale) -> None:
    shown, foreseen = widths(level, law(scale=scale)), forecast(level, law(scale=scale))
    assert np.mean(shown <= foreseen + 1e-9) >= 0.915
    assert np.quantile(shown, 0.9) >= foreseen / 2.5 - 1
