"""The statistical query oracle: what it answers, what it refuses, and that it fixes all before it reads."""

import copy
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dodona
from dodona.errors import InvalidArgument
from dodona.lab.adaptive.certificate import Route, Values
from dodona.lab.adaptive.faults import (
    AnotherProcess,
    OracleClosed,
    QueriesUsed,
    QueryFault,
    TooFewRows,
    UnreachableAccuracy,
)
from dodona.lab.adaptive.oracle import StatisticalQueryOracle, plan
from dodona.lab.mechanisms import Gaussian
from tests.trusted.blocks import in_children

ROWS = np.random.default_rng(11).random((10_000, 3))


def first(rows: np.ndarray) -> np.ndarray:
    return rows[:, 0] > 0.3


def test_it_is_part_of_the_surface():
    assert dodona.StatisticalQueryOracle is StatisticalQueryOracle


def test_an_answer_is_the_exact_sum_of_steps_and_one_draw_of_the_planned_noise():
    drawn: list[object] = []

    def draw(noise: object) -> int:
        drawn.append(noise)
        return 123_456

    oracle = StatisticalQueryOracle(ROWS, queries=85, within=0.1, draw=draw)
    planned = oracle.certificate
    answer = oracle.ask(lambda rows: rows[:, 1])
    steps = planned.resolution
    assert drawn == [planned.noise]
    assert isinstance(planned.noise, Gaussian)
    exact = int(np.rint(ROWS[:, 1] * steps).sum())
    assert answer.value == (exact + 123_456) / (len(ROWS) * steps)
    assert (answer.within, answer.confidence, answer.source) == (planned.within, 0.95, "noisy")


def test_answers_are_near_the_population_and_say_how_near():
    oracle = StatisticalQueryOracle(ROWS, queries=85, within=0.1)
    for _ in range(85):
        answer = oracle.ask(first)
        assert answer.low <= 0.7 <= answer.high
        assert float(answer) == answer.value
    assert str(answer).endswith("± 0.0998")
    assert oracle.left == 0
    with pytest.raises(QueriesUsed, match="85 questions and all have been asked"):
        oracle.ask(first)


def test_the_plan_is_made_of_public_numbers_alone():
    oracle = StatisticalQueryOracle(ROWS, queries=85, within=0.1)
    assert oracle.certificate == StatisticalQueryOracle(np.zeros(10_000), queries=85, within=0.1).certificate
    assert oracle.certificate == plan(rows=10_000, queries=85, within=0.1)
    assert "10000" not in repr(oracle)
    assert repr(oracle) == "<StatisticalQueryOracle ±0.09978 for 85 questions at 0.95, by gaussian, 85 left>"


def test_what_the_rows_cannot_promise_is_refused_with_what_they_can():
    with pytest.raises(UnreachableAccuracy) as refused:
        StatisticalQueryOracle(ROWS, queries=850, within=0.1)
    text = str(refused.value)
    assert "the best proof gives 0.1885. 85 questions would do, or 3" in text
    assert text.endswith("rows. Nothing was charged.")
    with pytest.raises(UnreachableAccuracy, match="no proof says anything"):
        StatisticalQueryOracle(ROWS[:3], queries=850)


def test_without_a_wish_it_is_as_near_as_the_rows_allow():
    assert StatisticalQueryOracle(ROWS, queries=2).certificate.within < 0.03


def test_rows_of_its_own_are_seen_by_one_question_each_and_in_random_order():
    seen: list[np.ndarray] = []

    def query(rows: np.ndarray) -> np.ndarray:
        seen.append(rows)
        return rows >= 0

    numbers = np.arange(1000.0)
    oracle = StatisticalQueryOracle(numbers, queries=3)
    assert oracle.certificate.route is Route.SPLITTING
    answers = [oracle.ask(query) for _ in range(3)]
    together = np.concatenate(seen)
    assert len(together) == len(set(together)) == 999
    assert [len(part) for part in seen] == [333] * 3
    # In the order of the file the first third has mean 166; at random it is 499.5 ± 8·13.
    assert abs(seen[0].mean() - 499.5) < 8 * 13
    assert answers[0].source == "fresh-rows"
    assert answers[0].value == 1


def test_coarse_answers_are_the_middle_of_their_level():
    oracle = StatisticalQueryOracle(ROWS[:1000], queries=12)
    levels = oracle.certificate.levels
    assert oracle.certificate.route is Route.ROUNDING
    assert levels is not None
    exact = first(ROWS[:1000]).mean()
    answer = oracle.ask(first)
    assert answer.value == (np.floor(exact * levels) + 0.5) / levels
    assert (answer.source, answer.within) == ("rounded", oracle.certificate.within)


def test_several_questions_at_once_are_as_many_questions():
    for queries, rows in ((85, ROWS), (3, ROWS), (12, ROWS[:1000])):
        oracle = StatisticalQueryOracle(rows, queries=queries)
        answers = oracle.ask_many(lambda rows: rows, answers=3)
        assert len(answers) == 3
        assert oracle.left == queries - 3
        for answer in answers:
            assert answer.low <= 0.5 <= answer.high
        if queries == 3:
            with pytest.raises(QueriesUsed):
                oracle.ask_many(lambda rows: rows, answers=3)


def test_more_at_once_than_are_left_are_refused_and_none_is_used():
    oracle = StatisticalQueryOracle(ROWS, queries=2)
    with pytest.raises(QueriesUsed, match="2 are left"):
        oracle.ask_many(lambda rows: rows, answers=3)
    assert oracle.left == 2


@pytest.mark.parametrize(
    "data",
    [
        pd.DataFrame({"a": ROWS[:, 0]}, index=np.arange(10_000)[::-1]),
        pl.DataFrame({"a": ROWS[:, 0]}),
        pa.table({"a": ROWS[:, 0]}),
    ],
    ids=["pandas", "polars", "arrow"],
)
@pytest.mark.parametrize("queries", [2, 40])
def test_frames_and_tables_are_rows(data, queries):
    oracle = StatisticalQueryOracle(data, queries=queries)
    assert oracle.ask(lambda rows: np.asarray(rows["a"]) < 0.25).low <= 0.25


def test_lists_and_parts_that_belong_together_are_rows():
    rows = [{"age": age} for age in range(100)]
    assert StatisticalQueryOracle(rows, queries=2).ask(lambda rows: [row["age"] / 99 for row in rows]).high > 0.5
    oracle = StatisticalQueryOracle((ROWS, ROWS[:, 2]), queries=2)
    assert oracle.ask(lambda features, label: features[:, 2] == label).value == 1


FAULTS = {
    "outside 0 to 1": lambda rows: rows[:, 0] * 2,
    "NaN": lambda rows: np.where(rows[:, 0] > 0.5, np.nan, 0.5),
    r"shape \(\)": lambda rows: rows[:, 0].mean(),
    "shape": lambda rows: rows,
    "it returned <U1": lambda rows: np.array(["a"] * len(rows)),
    "it returned object": lambda rows: np.array([None] * len(rows)),
    "it returned complex128": lambda rows: rows[:, 0] * 1j,
    "a value outside": lambda rows: rows[:, 0] - 0.5,
    "a value outside 0": lambda rows: np.where(rows[:, 0] > 0.5, np.inf, 0.5),
    "a masked array": lambda rows: np.ma.array(rows[:, 0], mask=rows[:, 0] > 0.5),
    "raised ZeroDivisionError": lambda rows: len(rows) // 0,
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_query_that_fails_on_example_rows_has_cost_nothing(fault):
    oracle = StatisticalQueryOracle(ROWS, queries=5, example=ROWS[:50])
    with pytest.raises(QueryFault, match=fault):
        oracle.ask(FAULTS[fault])
    assert oracle.left == 5
    assert oracle.ask(first).value > 0


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("queries", [2, 40])
def test_a_query_that_fails_on_the_data_closes_the_oracle(fault, queries):
    oracle = StatisticalQueryOracle(ROWS, queries=queries)
    with pytest.raises(OracleClosed, match=f"{fault}.*no proof covers"):
        oracle.ask(FAULTS[fault])
    with pytest.raises(OracleClosed, match="A query failed on the rows"):
        oracle.ask(first)


@pytest.mark.parametrize("raised", [ValueError, SystemExit])
@pytest.mark.parametrize("queries", [2, 40])
def test_what_a_query_raises_on_the_data_does_not_leave_with_the_refusal(raised, queries):
    """A message that quotes a row would tell what no proof covers."""

    def query(rows: np.ndarray) -> np.ndarray:
        raise raised(f"cannot read {rows[0]}")

    oracle = StatisticalQueryOracle(ROWS, queries=queries)
    with pytest.raises(OracleClosed, match=f"it raised {raised.__name__}") as refused:
        oracle.ask(query)
    assert refused.value.__cause__ is refused.value.__context__ is None
    with pytest.raises(OracleClosed):
        oracle.ask(first)
    tried = StatisticalQueryOracle(ROWS, queries=queries, example=ROWS[:9])
    with pytest.raises(QueryFault) as shown:
        tried.ask(query)
    assert isinstance(shown.value.__cause__, raised)  # example rows need not be kept, so the reason may be seen


def test_an_oracle_is_not_copied():
    """A copy would count questions of its own."""
    oracle = StatisticalQueryOracle(ROWS, queries=2)
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="StatisticalQueryOracle is not copied"):
            copied(oracle)


def test_a_forked_process_is_answered_nothing():
    oracle = StatisticalQueryOracle(ROWS, queries=2)

    def asked() -> np.ndarray:
        try:
            oracle.ask(first)
        except AnotherProcess:
            return np.array([1])
        return np.array([0])

    assert [child.tolist() for child in in_children(2, asked)] == [[1], [1]]
    assert asked().tolist() == [0]
    assert oracle.left == 1


def test_yes_and_no_are_held_to():
    oracle = StatisticalQueryOracle(ROWS, queries=5, values=Values.YES_NO, example=ROWS[:9])
    assert oracle.ask(first).value > 0
    with pytest.raises(QueryFault, match=r"declare Values\.SHARES"):
        oracle.ask(lambda rows: rows[:, 0])
    with pytest.raises(InvalidArgument, match="YES_NO"):
        StatisticalQueryOracle(ROWS, queries=5, values="yes")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("data", "queries", "error"),
    [
        ([], 1, TooFewRows),
        ([1.0], 1, TooFewRows),
        (3, 1, InvalidArgument),
        ({"a": ROWS[:, 0], "b": ROWS[:, 1]}, 1, InvalidArgument),
        (set(range(100)), 1, InvalidArgument),
        ("a text of letters", 1, InvalidArgument),
        ((np.zeros(3), np.zeros(4)), 1, InvalidArgument),
        (ROWS, 0, InvalidArgument),
        (ROWS, "many", InvalidArgument),
    ],
)
def test_what_is_no_sample_or_no_number_is_refused(data, queries, error):
    with pytest.raises(error):
        StatisticalQueryOracle(data, queries=queries)


@pytest.mark.parametrize("within", [0, 1, -0.1, float("nan"), "1%"])
def test_what_is_no_error_is_refused(within):
    with pytest.raises(InvalidArgument):
        StatisticalQueryOracle(ROWS, queries=5, within=within)
