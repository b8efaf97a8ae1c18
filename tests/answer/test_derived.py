"""Answers that follow from many earlier releases."""

import json
import math
import time
from fractions import Fraction

import numpy as np
import pytest

from dodona.answer.laws import DerivedValues, GaussianSumBound, NoiseSum, NoiseTerm, half_width, make_derived_values
from dodona.errors import InvalidArgument, InvalidRequest, InvariantBroken
from dodona.lab import direct
from dodona.lab.mechanisms import Gaussian, Laplace
from dodona.privacy.budget import FREE
from dodona.query.predicate import EVERYTHING
from dodona.query.query import Block, Query, column_weight
from dodona.query.question import (
    AnswerColumn,
    Arithmetic,
    Comparison,
    Expression,
    KeyLabel,
    LiteralExpression,
    Mean,
    Question,
    SortKey,
    Total,
)
from dodona.schema.attributes import Category, Integer
from dodona.schema.partition import Partition
from dodona.schema.schema import Domain
from tests.answer.scene import answer_from, binomial_band

AGE = Integer("age", 0, 110)
SEX = Category("sex", ["female", "male"])
DOMAIN = Domain((SEX, AGE))
KEYS = (Partition.of(SEX),)
COUNT = Block(EVERYTHING, ())
COUNTS = Block(EVERYTHING, KEYS)
SUMS = Block(EVERYTHING, KEYS, *column_weight(AGE))
WHOLE = NoiseSum((NoiseTerm(1.0, "Laplace", 67.2, 1024),))
TEXT = "a combination of 1,024 released numbers, with discrete Laplace noise of scale 67.2"


def question(*columns: Expression, blocks=(COUNT,), keys=(), **further: object) -> Question:
    shown = tuple(AnswerColumn(f"c{number}", expression) for number, expression in enumerate(columns))
    return Question(text="SELECT", query=Query(DOMAIN, blocks), keys=keys, columns=shown, **further)


def told(asked, values, laws):
    return answer_from(make_derived_values(asked, values, laws), source="derived", price=FREE, size=10_000)


GROUPS = COUNTS.values


def test_one_value_has_the_interval_of_its_law() -> None:
    answer = told(question(Total(0)), [[1203.25]], [WHOLE])
    estimate = answer.value
    within = half_width(WHOLE, 0.05)
    assert estimate.value == 1203.25
    assert [estimate.low, estimate.high] == pytest.approx([1203.25 - within, 1203.25 + within])
    assert answer.mechanism == TEXT
    assert answer.theorem == "derivation, smoothed-sum"
    assert answer.source == "derived"
    assert "Source: derived. Price: free. Mechanism: a combination of 1,024 released numbers" in str(answer)
    assert answer.accuracy[0].worst == pytest.approx(within)


def test_json_has_the_same_form_as_that_of_what_was_measured() -> None:
    document = json.loads(told(question(Total(0)), [[1203.25]], [WHOLE]).to_json())
    assert document["format"] == 1
    assert document["rows"][0][0]["value"] == 1203.25
    assert document["mechanism"] == TEXT
    assert document["theorem"] == "derivation, smoothed-sum"
    assert (document["source"], document["price"]["share"]) == ("derived", "0")


def test_each_group_may_have_a_law_of_its_own() -> None:
    laws = [Laplace(scale=5), Gaussian(scale=7), WHOLE, GaussianSumBound(1e6, 1.0)][:GROUPS]
    asked = question(KeyLabel(0), Total(0), blocks=(COUNTS,), keys=KEYS)
    answer = told(asked, [np.arange(GROUPS) + 0.5], [laws])
    for row, law in zip(answer.rows, laws, strict=True):
        assert row.cells[1].within == pytest.approx(half_width(law, 0.05))
    assert answer.mechanism == (
        "combinations of released numbers, with discrete Laplace noise of scales from 5 to 67.2 "
        f"and discrete Gaussian noise of scale 7, for each of {GROUPS} values"
    )
    assert answer.theorem == "derivation, laplace-accuracy, gaussian-accuracy, smoothed-sum"
    alike = told(asked, [np.arange(GROUPS) + 0.5], [WHOLE])
    assert [row.cells[1].within for row in alike.rows] == pytest.approx([half_width(WHOLE, 0.05)] * GROUPS)
    assert alike.mechanism == f"{TEXT}, for each of {GROUPS} values"


def test_several_blocks_are_read_in_their_order_and_unit() -> None:
    asked = question(Total(0), Total(1), blocks=(COUNTS, SUMS), keys=KEYS)
    values = [range(GROUPS), 100.0 + np.arange(GROUPS)]
    answer = told(asked, values, [Laplace(scale=5), GaussianSumBound(1e6, 1.0)])
    unit = float(SUMS.unit)
    for number, row in enumerate(answer.rows):
        assert row.cells[1].value == number
        assert row.cells[2].value == unit * (100 + number)
        assert row.cells[2].within == pytest.approx(unit * half_width(GaussianSumBound(1e6, 1.0), 0.05))
    assert "of deviation 1000 in all" in answer.mechanism


def test_all_intervals_together_hold_by_the_union_bound() -> None:
    """The values have draws in common, so what may fail is divided by their number, and no less."""
    asked = question(Total(0), Total(1), blocks=(COUNTS, SUMS), keys=KEYS)
    answer = told(asked, [np.zeros(GROUPS)] * 2, [WHOLE, Laplace(scale=9)]).simultaneous()
    each = 0.05 / (2 * GROUPS)
    assert answer.rows[0].cells[1].within == pytest.approx(half_width(WHOLE, each))
    assert answer.rows[0].cells[2].within == pytest.approx(float(SUMS.unit) * half_width(Laplace(scale=9), each))


def test_arithmetic_of_blocks_takes_nothing_to_be_independent() -> None:
    noise = Laplace(scale=30)
    for expression, wide in (
        (Arithmetic("-", Total(0), Total(1)), 2),
        (Arithmetic("*", Total(0), LiteralExpression(Fraction(3))), 3),
    ):
        blocks = (COUNT, COUNT)
        cell = told(question(expression, blocks=blocks), [[50.0], [20.0]], [noise, noise]).value
        failing = 0.025 if wide == 2 else 0.05
        assert cell.within == pytest.approx(wide * half_width(noise, failing))
    ratio = Arithmetic("/", Total(0), Total(1))
    cell = told(question(ratio, blocks=blocks), [[5000.0], [2000.0]], [noise, noise]).value
    width = half_width(noise, 0.025)
    assert (cell.low, cell.high) == (
        pytest.approx((5000 - width) / (2000 + width)),
        pytest.approx((5000 + width) / (2000 - width)),
    )


def test_groups_are_kept_sorted_and_cut_by_their_values() -> None:
    having = Comparison(">", Total(0), LiteralExpression(Fraction(0)))
    order = (SortKey(Total(0), descending=True),)
    asked = question(Total(0), blocks=(COUNTS,), keys=KEYS, having=having, order=order, limit=2)
    values = np.array([4.5, 9.25, -3.0, 7.0])[:GROUPS]
    assert [row.cells[1].value for row in told(asked, [values], [WHOLE]).rows] == [9.25, 7.0]


def test_counts_of_the_population_have_the_sampling_error_as_well() -> None:
    answer = told(question(Total(0)), [[500.0]], [WHOLE]).population
    sampled = math.sqrt(10_000 * math.log(2 / 0.025) / 2)
    assert answer.value.within == pytest.approx(half_width(WHOLE, 0.025) + sampled)
    arithmetic = question(Arithmetic("+", Total(0), Total(0)))
    with pytest.raises(InvalidRequest, match="for the population"):
        _ = told(arithmetic, [[500.0]], [WHOLE]).population


def test_other_views_take_values_that_are_not_whole() -> None:
    answer = told(question(Total(0)), [[-3.25]], [Laplace(scale=20)])
    assert answer.rounded().value.value == 0
    assert answer.to_pandas()["c0"].tolist() == [-3.25]
    assert "-3" in answer._repr_html_()


def test_only_counts_and_sums_follow() -> None:
    mean = Mean(1, 0, Fraction(0), Fraction(0), Fraction(110))
    blocks, laws = (COUNTS, SUMS), [WHOLE, WHOLE]
    for asked in (
        question(mean, blocks=blocks, keys=KEYS),
        question(Total(0), blocks=blocks, keys=KEYS, having=Comparison(">", mean, LiteralExpression(Fraction(3)))),
        question(
            Total(0), blocks=blocks, keys=KEYS, order=(SortKey(Arithmetic("-", mean, Total(0)), descending=False),)
        ),
        question(Total(0), blocks=(COUNT, COUNTS)),
    ):
        with pytest.raises(InvariantBroken, match="Only counts, sums"):
            make_derived_values(asked, [np.zeros(block.values) for block in asked.query.blocks], laws)


def test_values_and_laws_are_those_of_the_question() -> None:
    asked = question(Total(0), blocks=(COUNTS,), keys=KEYS)
    with pytest.raises(InvalidArgument, match="each of 1 blocks"):
        make_derived_values(asked, [np.zeros(GROUPS)] * 2, [WHOLE])
    with pytest.raises(InvalidArgument, match=f"each block of the question has {GROUPS}"):
        make_derived_values(asked, [[1.0]], [WHOLE])
    with pytest.raises(InvalidArgument, match="or one for all"):
        make_derived_values(asked, [np.zeros(GROUPS)], [[WHOLE] * 2])
    assert make_derived_values(asked, [range(GROUPS)], [WHOLE]).values == list(map(float, range(GROUPS)))


@pytest.mark.parametrize("noise", [Laplace(scale=30), Gaussian(scale=30)])
def test_answers_from_a_noisy_histogram_hold_as_often_as_they_say(noise) -> None:
    """2,000 histograms of 200 cells; two groups that share cells; a false alarm in a million runs each."""
    tables, failing = 2_000, 0.1
    factors = np.zeros((GROUPS, 200))
    factors[:, :60], factors[0, 40:130], factors[1, 20:] = 0.25, 1.0, -0.5
    drawn = np.asarray(direct.run(noise, np.zeros(200 * tables, dtype=np.int64))).reshape(tables, 200)
    laws = [NoiseSum.of(row, noise) for row in factors]
    if isinstance(noise, Gaussian):
        laws = [GaussianSumBound.of(row, float(noise.scale)) for row in factors]
    asked = question(Total(0), blocks=(COUNTS,), keys=KEYS)
    answer = answer_from(make_derived_values(asked, [np.zeros(GROUPS)], [laws]), confidence=1 - failing, price=FREE)
    errors = np.abs(drawn @ factors.T)
    low, high = binomial_band(tables, failing)
    for group in (0, 1):
        missed = int(np.sum(errors[:, group] > answer.rows[group].cells[1].within))
        assert low <= missed <= high
    together = np.array([row.cells[1].within for row in answer.simultaneous().rows])
    assert np.sum(np.any(errors > together, axis=1)) <= high


def test_building_an_answer_computes_nothing() -> None:
    """The best of some runs, and five times what is asked for."""
    asked = question(Total(0))
    seconds = []
    for _ in range(50):
        start = time.perf_counter()
        answer_from(make_derived_values(asked, ((1.5,),), (WHOLE,)), source="derived", price=FREE)
        seconds.append(time.perf_counter() - start)
    assert min(seconds) < 1e-4
    assert isinstance(told(asked, ((1.5,),), (WHOLE,)).measured, DerivedValues)
