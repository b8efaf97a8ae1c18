"""Predictions and tolerances: from public facts, in the answer's own unit, and growing with the noise."""

import math
from datetime import date
from fractions import Fraction
from itertools import pairwise

import pytest

from dodona.answer.prediction import predict_half_width
from dodona.curator.request import resolve_tolerance
from dodona.errors import InvalidArgument
from dodona.lab.mechanisms import Gaussian, Laplace
from dodona.privacy.budget import FREE
from dodona.privacy.measurement import MeasuredValues
from dodona.query.predicate import EVERYTHING
from dodona.query.query import Block, Query, column_weight
from dodona.query.question import (
    AnswerColumn,
    Arithmetic,
    KeyLabel,
    LiteralExpression,
    Mean,
    Quantile,
    Question,
    Spread,
    Total,
    Variation,
    noise_scales,
)
from dodona.schema.attributes import Date, Integer, Number
from dodona.schema.partition import Partition
from dodona.schema.schema import Domain
from tests.answer.scene import answer_from

AGE = Integer("age", 0, 110)
STAY = Number("stay", 0, 364, "0.25")
DAY = Date("day", date(2024, 1, 1), date(2024, 12, 31))
DOMAIN = Domain((AGE, STAY, DAY, Integer("ward", 1, 8)))
KEYS = (Partition.of(DOMAIN["ward"]),)
MEAN = Mean(1, 0, Fraction(55), Fraction(0), Fraction(110))
COLUMNS = {
    "ward": KeyLabel(0),
    "n": Total(0),
    "days": Total(3),
    "mean": MEAN,
    "variance": Variation(2, MEAN, Spread.POPULATION_VARIANCE),
    "deviation": Variation(2, MEAN, Spread.SAMPLE_DEVIATION),
    "median": Quantile((4, 5), "age", Fraction(1, 2)),
    "percent": Arithmetic("/", Arithmetic("*", LiteralExpression(Fraction(100)), Total(0)), Total(0)),
    "each": Arithmetic("/", Total(3), Total(0)),
    "rows a day": Arithmetic("/", Total(0), Total(3)),
    "more": Arithmetic("-", Total(0), Arithmetic("*", LiteralExpression(Fraction(2)), Total(3))),
    "product": Arithmetic("*", MEAN, Total(0)),
    "middle day": Quantile((6,), "day", Fraction(1, 2)),
}


def question() -> Question:
    blocks = [Block(EVERYTHING, KEYS)]
    blocks += [Block(EVERYTHING, KEYS, *column_weight(AGE, centre=Fraction(55), power=power)) for power in (1, 2)]
    blocks.append(Block(EVERYTHING, KEYS, *column_weight(STAY)))
    blocks += [Block(EVERYTHING, (*KEYS, Partition.every(AGE, width))) for width in (10, 1)]
    blocks.append(Block(EVERYTHING, (*KEYS, Partition.of(DAY))))
    columns = tuple(AnswerColumn(name, expression) for name, expression in COLUMNS.items())
    return Question(text="", query=Query(DOMAIN, tuple(blocks)), keys=KEYS, columns=columns)


ASKED = question()
BY_NAME = {column.name: column for column in ASKED.columns}


def noises(law, scale) -> tuple:
    return tuple(law(scale=scale) for _ in ASKED.query.blocks)


@pytest.mark.parametrize("name", [name for name in COLUMNS if name not in {"ward", "percent"}])
@pytest.mark.parametrize("law", [Laplace, Gaussian])
def test_predicted_errors_grow_with_the_noise(name, law) -> None:
    scales = (1, 3, 10, 30, 100, 300, 1000)
    widths = [predict_half_width(ASKED, BY_NAME[name], noises(law, s), confidence=0.95, rows=20_000) for s in scales]
    assert all(a <= b * (1 + 1e-9) for a, b in pairwise(widths))
    assert 0 <= widths[0] < widths[-1]


@pytest.mark.parametrize("name", ["n", "days", "mean", "median", "deviation"])
def test_predicted_errors_grow_with_the_confidence_and_shrink_with_the_rows(name) -> None:
    made = noises(Gaussian, 40)
    base = predict_half_width(ASKED, BY_NAME[name], made, confidence=0.9, rows=20_000)
    assert predict_half_width(ASKED, BY_NAME[name], made, confidence=0.999, rows=20_000) > base
    assert predict_half_width(ASKED, BY_NAME[name], made, confidence=0.9, rows=2_000) >= base


def test_a_predicted_count_or_sum_is_just_what_will_be_shown() -> None:
    made = noises(Laplace, 12)
    answer = answer_from(MeasuredValues(ASKED, [50] * ASKED.query.values, made), price=FREE)
    shown = {column.column: column.worst for column in answer.accuracy}
    for name in ("n", "days", "more"):
        assert predict_half_width(ASKED, BY_NAME[name], made, confidence=0.95, rows=500) == pytest.approx(shown[name])
    assert predict_half_width(ASKED, BY_NAME["ward"], made, confidence=0.95, rows=500) == 0


def test_a_predicted_average_is_what_is_shown_of_a_group_at_the_worst_place() -> None:
    made = (Laplace(scale=4), Laplace(scale=220), *noises(Laplace, 4)[2:])
    values = [2_000] * 10 + [55 * 2_000] * 10 + [0] * (ASKED.query.values - 20)
    answer = answer_from(MeasuredValues(ASKED, values, made), price=FREE)
    place = answer.columns.index("mean")
    predicted = predict_half_width(ASKED, BY_NAME["mean"], made, confidence=0.95, rows=20_000)
    assert predicted == pytest.approx(answer.rows[0].cells[place].within)
    assert predicted == pytest.approx(3 * 440 / 2_000, rel=0.35)


def test_of_very_few_rows_no_more_than_the_public_range_is_predicted() -> None:
    made = noises(Laplace, 500)
    assert predict_half_width(ASKED, BY_NAME["mean"], made, confidence=0.95, rows=10) == 110
    assert predict_half_width(ASKED, BY_NAME["each"], made, confidence=0.95, rows=10) == 364
    assert predict_half_width(ASKED, BY_NAME["rows a day"], made, confidence=0.95, rows=10) == math.inf


def test_the_shape_makes_the_blocks_of_a_column_add_about_as_much() -> None:
    shapes = {column.name: noise_scales(column.expression, ASKED.query) for column in ASKED.columns}
    assert shapes["ward"] == {}
    assert shapes["n"] == {0: 1.0}
    assert shapes["days"] == {3: 1.0}
    assert shapes["mean"] == {0: 1.0, 1: 55.0}
    assert shapes["variance"] == {0: 1.0, 1: 27.5, 2: 3025.0}
    assert shapes["median"] == {4: 1.0, 5: 1.0}
    assert shapes["product"] == {0: 1.0, 1: 55.0}


@pytest.mark.parametrize(
    ("name", "whole"),
    [
        ("n", 20_000),
        ("days", 20_000 * 364),
        ("mean", 110),
        ("variance", 110**2),
        ("deviation", 110),
        ("median", 110),
        ("percent", 100),
        ("each", 364),
        ("more", 20_000 + 2 * 20_000 * 364),
        ("middle day", 365),
    ],
)
def test_a_percentage_is_of_the_public_whole(name, whole) -> None:
    assert resolve_tolerance(ASKED, BY_NAME[name], "2%", size=20_000) == pytest.approx(whole / 50)
    assert resolve_tolerance(ASKED, BY_NAME[name], " 2.5 % ", size=20_000) == pytest.approx(whole / 40)
    assert resolve_tolerance(ASKED, BY_NAME[name], 7, size=20_000) == 7.0


def test_a_percentage_of_a_quantile_is_no_less_than_a_step_and_a_half() -> None:
    assert resolve_tolerance(ASKED, BY_NAME["median"], "1%", size=20_000) == pytest.approx(1.5)
    assert resolve_tolerance(ASKED, BY_NAME["median"], 0.1, size=20_000) == 0.1


@pytest.mark.parametrize(
    "within", ["1 percent", "", "%", "-1%", "0%", "101%", "1e3%", "nan%", 0, -3, math.inf, math.nan, True, None, "50"]
)
def test_a_tolerance_that_means_nothing_is_refused_with_what_to_write(within) -> None:
    with pytest.raises(InvalidArgument, match="such as 50, or a part of the whole, such as '1%'"):
        resolve_tolerance(ASKED, BY_NAME["n"], within, size=20_000)
