"""Answers: what is shown of a measured question, lazily, and against what."""

import copy
import pickle
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest

from dodona.answer.answer import Answer
from dodona.answer.estimate import Estimate
from dodona.answer.labels import groups_under
from dodona.errors import InvalidArgument, InvalidRequest
from dodona.lab.mechanisms import Gaussian, Laplace
from dodona.privacy.accuracy import sampling_error
from dodona.privacy.budget import FREE, Price
from dodona.privacy.events import LaplaceEvent
from dodona.privacy.measurement import MeasuredValues
from dodona.query.polynomial import Polynomial
from dodona.query.predicate import (
    EVERYTHING,
    among,
    among_combinations,
    conjunction,
    disjunction,
    evaluate_predicate,
    non_negative,
)
from dodona.query.query import Block, CaseKey, Query, column_weight, group_numbers
from dodona.query.question import (
    AnswerColumn,
    Arithmetic,
    Comparison,
    KeyLabel,
    LiteralExpression,
    Logic,
    Mean,
    Question,
    SortKey,
    Spread,
    Total,
    Variation,
    question_from_query,
)
from dodona.schema.attributes import Boolean, Category, Integer, Number
from dodona.schema.partition import Partition
from dodona.schema.schema import Domain, Neighbours
from tests.answer.scene import answer_from

SEX = Category("sex", ["female", "male", "other"])
STAY = Number("stay", 0, 365, "0.25")
DOMAIN = Domain((SEX, STAY, Integer("age", 0, 110)))
PRICE = Price(Fraction(1, 80), (LaplaceEvent(1, Fraction(4), Neighbours.REPLACE),))
NOISE = Laplace(scale=10)
COUNT, STAYS = Total(0), Total(1)


def grouped(*columns: AnswerColumn, **further: object) -> Question:
    """Counts and total stays by sex."""
    keys = (Partition.of(SEX),)
    blocks = (Block(EVERYTHING, keys), Block(EVERYTHING, keys, *column_weight(STAY)))
    shown = columns or (AnswerColumn("sex", KeyLabel(0)), AnswerColumn("n", COUNT), AnswerColumn("days", STAYS))
    return Question(text="by sex", query=Query(DOMAIN, blocks), keys=keys, columns=shown, **further)


def answered(question: Question, *values: int, noise=NOISE, **further: object) -> Answer:
    noises = (noise,) * len(question.query.blocks)
    return answer_from(MeasuredValues(question, values, noises), price=PRICE, size=1000, **further)


VALUES = (500, 430, 20, 430, -4, 4001, 3000, 70, 3, -9)


def test_a_count_is_an_exact_number_with_the_exact_quantile_of_its_noise() -> None:
    answer = answered(question_from_query(Query.count(DOMAIN)), 1203)
    assert answer.value == Estimate(1203, 1203 - 30, 1203 + 30)
    assert answer.value.within == NOISE.accuracy(0.95).within == 30
    assert type(answer.value.value) is int


def test_a_sum_is_told_in_the_columns_own_unit() -> None:
    answer = answered(question_from_query(Query.sum(DOMAIN, "stay")), 4001)
    assert answer.value == Estimate(Fraction(4001, 4), Fraction(4001 - 30, 4), Fraction(4001 + 30, 4))
    assert answer.value.within == 7.5


def test_all_groups_are_shown_with_their_labels_in_the_order_of_their_declaration() -> None:
    answer = answered(grouped(), *VALUES)
    assert answer.columns == ("sex", "n", "days")
    assert [row.keys for row in answer.rows] == [("female",), ("male",), ("other",), ("<missing>",), ("<outside>",)]
    assert [row.cells[1].value for row in answer.rows] == [500, 430, 20, 430, -4]
    assert answer.rows[0].cells[2].value == Fraction(4001, 4)


def test_keys_are_shown_first_where_no_column_names_them() -> None:
    answer = answered(question_from_query(Query.histogram(DOMAIN, ["sex"])), 5, 4, 3, 2, 1)
    assert answer.columns == ("sex", "value")
    assert answer.rows[2].cells[0] == "other"


@pytest.mark.parametrize(
    ("further", "expected"),
    [
        ({"having": Comparison(">", COUNT, LiteralExpression(Fraction(100)))}, [500, 430, 430]),
        ({"having": Logic("not", (Comparison(">", COUNT, LiteralExpression(Fraction(100))),))}, [20, -4]),
        ({"having": Comparison("=", KeyLabel(0), LiteralExpression("male"))}, [430]),
        (
            {
                "having": Logic(
                    "or",
                    (
                        Comparison("=", KeyLabel(0), LiteralExpression("other")),
                        Comparison(">=", COUNT, LiteralExpression(Fraction(500))),
                    ),
                )
            },
            [500, 20],
        ),
        ({"order": (SortKey(COUNT, descending=True),)}, [500, 430, 430, 20, -4]),
        ({"order": (SortKey(COUNT),), "limit": 2}, [-4, 20]),
        ({"order": (SortKey(COUNT),), "limit": 2, "offset": 1}, [20, 430]),
        ({"offset": 4}, [-4]),
        ({"limit": 0}, []),
    ],
)
def test_groups_are_kept_sorted_and_cut_by_their_noisy_values(further, expected) -> None:
    answer = answered(grouped(**further), *VALUES)
    assert [row.cells[1].value for row in answer.rows] == expected


def test_ties_keep_the_order_of_the_groups_and_a_second_order_breaks_them() -> None:
    down = answered(grouped(order=(SortKey(COUNT, descending=True),)), *VALUES)
    assert [row.keys[0] for row in down.rows][1:3] == ["male", "<missing>"]
    both = answered(grouped(order=(SortKey(COUNT, descending=True), SortKey(STAYS))), *VALUES)
    assert [row.keys[0] for row in both.rows][1:3] == ["<missing>", "male"]


def test_missing_keys_come_last_either_way_round() -> None:
    for descending in (False, True):
        answer = answered(grouped(order=(SortKey(KeyLabel(0), descending=descending),)), *VALUES)
        assert answer.rows[-1].keys == ("<missing>",)
    assert answer.rows[0].keys == ("<outside>",)


def test_value_is_for_one_estimate_and_says_how_many_there_are() -> None:
    with pytest.raises(InvalidRequest, match="This answer has 10 estimates, in 5 rows"):
        _ = answered(grouped(), *VALUES).value


def test_accuracy_is_told_for_each_column_of_estimates() -> None:
    worst = [(column.column, column.worst, column.typical) for column in answered(grouped(), *VALUES).accuracy]
    assert worst == [("n", 30.0, 30.0), ("days", 7.5, 7.5)]


def test_intervals_that_hold_together_are_those_of_all_independent_noises() -> None:
    answer = answered(grouped(), *VALUES, noise=Gaussian(scale=10)).simultaneous()
    wanted = Gaussian(scale=10).accuracy(0.95, answers=10).within
    assert answer.rows[0].cells[1].within == wanted
    assert answer.rows[0].cells[2].within == wanted / 4
    limited = answered(grouped(limit=1), *VALUES, noise=Gaussian(scale=10)).simultaneous()
    assert limited.rows[0].cells[1].within == wanted  # which group is shown was read from the noise as well


def test_columns_that_are_not_independent_share_by_the_union_bound() -> None:
    mean = Mean(1, 0, Fraction(0), Fraction(0), Fraction(365))
    question = grouped(AnswerColumn("sex", KeyLabel(0)), AnswerColumn("n", COUNT), AnswerColumn("mean", mean))
    answer = answered(question, *VALUES).simultaneous()
    share = (1 - 0.95 ** (1 / 5)) / 2
    assert answer.rows[0].cells[1].within == NOISE.accuracy(1 - share).within
    assert answer.rows[0].cells[2].within > answered(question, *VALUES).rows[0].cells[2].within


def test_the_population_of_a_count_and_a_sum_adds_the_sampling_error() -> None:
    answer = answered(grouped(), *VALUES).population
    sampled = sampling_error(0.025, answers=1, sample=1000)
    noisy = NOISE.accuracy(0.975).within
    assert answer.rows[0].cells[1].within == pytest.approx(noisy + sampled)
    assert answer.rows[0].cells[2].within == pytest.approx(noisy / 4 + 365 * sampled)


def test_the_population_of_a_spread_is_refused_with_the_reason() -> None:
    mean = Mean(1, 0, Fraction(0), Fraction(0), Fraction(365))
    question = grouped(AnswerColumn("spread", Variation(1, mean, Spread.POPULATION_VARIANCE)))
    with pytest.raises(InvalidRequest, match="Only counts, sums, averages, shares and quantiles"):
        _ = answered(question, *VALUES).population
    unsized = answer_from(MeasuredValues(grouped(), VALUES, (NOISE, NOISE)), price=PRICE)
    with pytest.raises(InvalidRequest, match="public size"):
        _ = unsized.population


def test_a_rounded_answer_is_for_the_eye_and_leaves_the_other_alone() -> None:
    answer = answered(grouped(), *VALUES)
    shown = answer.rounded()
    assert shown.rows[4].cells[1] == Estimate(0, 0, 26)
    assert answer.rows[4].cells[1] == Estimate(-4, -34, 26)
    days = shown.rows[0].cells[2]
    assert (days.value, days.low, days.high) == (1000.2, 992.7, 1007.8)


def test_a_division_by_what_may_be_nothing_has_no_ends_and_no_value_at_zero() -> None:
    question = grouped(AnswerColumn("sex", KeyLabel(0)), AnswerColumn("rows a day", Arithmetic("/", COUNT, STAYS)))
    answer = answered(question, 500, 430, 20, 430, -4, 4001, 0, 70, 3, -9)
    nothing = answer.rows[1].cells[1]
    assert nothing == Estimate(None, -np.inf, np.inf)
    assert str(nothing) == "? (from -∞ to ∞)"
    assert answer.rows[0].cells[1].low < 0.49988 < answer.rows[0].cells[1].high


def test_of_an_average_with_too_few_rows_it_is_said_that_nothing_is_known() -> None:
    mean = Mean(1, 0, Fraction(0), Fraction(0), Fraction(365))
    answer = answered(grouped(AnswerColumn("mean", mean)), *VALUES)
    assert any("1 of 5 values rest on too few rows" in warning for warning in answer.warnings)


def test_an_answer_tells_where_it_came_from() -> None:
    question = grouped(warnings=("A bound was raised.",))
    answer = answered(question, *VALUES, source="model", notes=("Mind the step.",), stale=True, version="2026-10")
    assert answer.warnings == (
        "A bound was raised.",
        "Mind the step.",
        "This is as of version 2026-10: the data have changed since.",
        "This is the model's guess; its error is not bounded.",
    )
    assert answer.mechanism == "discrete Laplace noise of scale 10 on each of 10 values"
    assert answer.theorem == "laplace-privacy, laplace-accuracy"
    assert str(FREE) == "free"


@pytest.mark.parametrize(
    ("change", "argument"),
    [
        ({"confidence": 1.0}, "confidence"),
        ({"confidence": 0.0}, "confidence"),
        ({"size": 0}, "size"),
    ],
)
def test_what_no_answer_can_be_is_refused(change, argument) -> None:
    with pytest.raises(InvalidArgument, match=argument):
        answer_from(MeasuredValues(grouped(), VALUES, (NOISE, NOISE)), price=PRICE, **change)


def test_values_and_noises_must_be_those_of_the_question() -> None:
    with pytest.raises(InvalidArgument, match="the question has 10"):
        MeasuredValues(grouped(), (1, 2), (NOISE, NOISE))
    with pytest.raises(InvalidArgument, match="one for each of 2 blocks"):
        MeasuredValues(grouped(), VALUES, (NOISE,))


def test_an_answer_that_nobody_has_looked_at_can_be_copied_and_sent() -> None:
    answer = answered(grouped(), *VALUES)
    assert pickle.loads(pickle.dumps(answer)).rows == copy.deepcopy(answer).rows == answer.rows  # noqa: S301  our own


@pytest.mark.parametrize(
    ("step", "noise", "notes"),
    [
        ("5", 1_000, ["the average of the values themselves may be up to 5 higher", "may be up to 5 a row higher"]),
        ("0.25", 100_000, []),
        ("5", 100_000, []),
    ],
)
def test_steps_that_are_coarse_beside_an_interval_are_mentioned(step: str, noise: int, notes: list[str]) -> None:
    price = Number("price", 0, 500, step)
    domain = Domain((price,))
    weight, unit = column_weight(price)
    mean = Mean(1, 0, Fraction(0), Fraction(0), Fraction(500))
    columns = AnswerColumn("mean", mean), AnswerColumn("total", Total(1))
    question = Question(
        text="prices", query=Query(domain, (Block(EVERYTHING), Block(EVERYTHING, (), weight, unit))), columns=columns
    )
    answer = answered(question, 50_000, int(50_000 * 20 / unit), noise=Laplace(scale=noise))
    mentioned = [warning for warning in answer.warnings if "rounded down" in warning]
    assert len(mentioned) == len(notes)
    assert all(words in warning for words, warning in zip(notes, mentioned, strict=True))


@pytest.mark.parametrize("seed", range(40))
def test_groups_of_keys_of_two_columns_are_listed_if_a_cell_of_theirs_meets_the_condition(seed: int) -> None:
    """Against all cells; a condition with a third column says nothing of the two by itself."""
    draw = np.random.default_rng(seed)
    columns = Category("a", list("xyz")), Integer("b", 0, 2), Category("c", list("pq"))
    domain = Domain(columns)
    first, second, third = (np.arange(column.cells) for column in columns)
    tables = [among_combinations(columns[:2], draw.random((first.size, second.size)) < 0.2) for _ in range(4)]
    key = CaseKey(tuple((f"k{place}", table) for place, table in enumerate(tables)), "rest")
    parts = [
        among(columns[0], draw.choice(first, 2, replace=False).tolist()),
        among_combinations(columns[:2], draw.random((first.size, second.size)) < 0.6),
        among_combinations(columns[1:], draw.random((second.size, third.size)) < 0.9),
    ]
    where = conjunction(*[part for part in parts if draw.random() < 0.7])
    axes = {"a": first[:, None, None], "b": second[:, None], "c": third}
    met = np.broadcast_to(evaluate_predicate(where, axes), (first.size, second.size, third.size))
    numbers = np.broadcast_to(group_numbers((key,), axes), met.shape)
    assert groups_under(where, (key,), domain) == np.unique(numbers[met.any(axis=2)]).tolist()


@pytest.mark.parametrize("seed", range(40))
def test_groups_of_several_keys_are_listed_if_a_cell_of_theirs_meets_the_condition(seed: int) -> None:
    """Against all cells: keys of one column each, one in runs, one of two columns, and a sum that is compared."""
    draw = np.random.default_rng(seed)
    columns = Category("a", list("xyz")), Integer("b", 0, 9), Category("c", list("pq")), Boolean("d")
    domain = Domain(columns)
    codes = [np.arange(column.cells) for column in columns]
    keys = (
        Partition.of(columns[0]),
        Partition.cut(columns[1], (0, 3, 7)),
        CaseKey((("k", among_combinations(columns[2:], draw.random((4, 4)) < 0.4)),), "rest"),
    )
    one, two = (conjunction(among(columns[0], [place]), among(columns[1], range(place, 3 + place))) for place in (0, 1))
    parts = [
        disjunction(one, two),
        among_combinations(columns[::2], draw.random((5, 4)) < 0.4),
        non_negative(Polynomial.of({"a": (3, 5), "b": (10, 12)}, {(("a", 1),): 4, (("b", 1),): -1, (): -1})),
        among(columns[3], draw.choice(codes[3], 2, replace=False).tolist()),
    ]
    where = conjunction(*[part for part in parts if draw.random() < 0.6])
    axes = dict(zip("abcd", np.ix_(*codes), strict=True))
    met, numbers = np.broadcast_arrays(evaluate_predicate(where, axes), group_numbers(keys, axes), axes["a"])[:2]
    assert groups_under(where, keys, domain) == np.unique(numbers[met]).tolist()
    assert (
        groups_under(where, keys[:2], domain)
        == np.unique(np.broadcast_to(group_numbers(keys[:2], axes), met.shape)[met]).tolist()
    )


def test_groups_of_a_key_of_wide_columns_are_listed_in_little_memory() -> None:
    """A hundred million cells, of which none is listed."""
    columns = [Integer(name, 0, 499) for name in "abc"]
    key = CaseKey((("high", conjunction(*[among(column, range(250, 500)) for column in columns])),), "low")
    tracemalloc.start()
    groups = groups_under(among(columns[0], range(100)), (key,), Domain(tuple(columns)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert groups == [1]
    assert peak < 1 << 22
