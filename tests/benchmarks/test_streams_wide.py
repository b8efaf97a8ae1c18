"""Streams over many columns: a question means the same in every wording, and plans in hindsight are what they claim."""

import math

import numpy as np
import pytest

from benchmarks.streams import plans
from benchmarks.streams.asking import Asked, CodeSet, WideStream
from benchmarks.streams.tables import Column, made_up
from benchmarks.streams.wide import MADE_UP, WIDE
from benchmarks.streams.wide_run import RUNGS, run_stream
from dodona.query.canonical import query_digest
from dodona.sql.compile import read_questions

TABLE = made_up([Column("a", 2), Column("b", 5), Column("n", 20, ordered=True)], rows=500)


@pytest.mark.parametrize("wording", range(1, 4))
def test_all_wordings_of_a_question_mean_the_same(wording):
    asked = Asked((CodeSet(0, (1,)), CodeSet(1, (0, 3)), CodeSet(2, (4, 5, 6))))
    texts = asked.text(TABLE), asked.text(TABLE, wording)
    assert texts[0] != texts[1]
    first, second = (query_digest(read_questions(text, TABLE.schema)[0].query) for text in texts)
    assert first == second


@pytest.mark.parametrize("name", MADE_UP)
def test_a_stream_is_as_long_as_it_is_asked_for_and_has_many_columns(name):
    stream = WIDE[name].stream(name, 24, None)
    assert len(stream.asked) == 24
    assert 23 <= len(stream.table.columns) <= 40


def test_truths_are_of_each_group():
    counts = Asked((), (0, 1)).truth(TABLE)
    assert counts.sum() == 500
    total = Asked((CodeSet(0, (1,)),), (), 2).truth(TABLE)
    assert total[0] == sum(n for a, n in zip(TABLE.codes[0], TABLE.codes[2], strict=True) if a == 1)


def test_one_question_costs_in_hindsight_what_its_noise_costs():
    """The best plan of one count of half of a column is noise on it and on the number of rows: (1/2 + 1/2)² over T."""
    stream = WideStream("one", made_up([Column("a", 2)], rows=1000), [(Asked((CodeSet(0, (1,)),)), 0)])
    ratio = plans.plan_ratio(stream, [stream.asked[0][0]], ranged=frozenset(), values=False)
    deviation = 10 / 1.959964
    assert ratio == pytest.approx(1 / deviation**2, rel=3e-3)


def test_noise_for_ranges_is_as_good_as_circulant_noise_can_be():
    price, variances = plans.range_base(85)
    assert price * variances.max() == pytest.approx(4.7, abs=0.05)  # even noise: 84/85 · 85/4 = 21
    assert np.allclose(variances, variances[::-1])  # a range and all that is left of the circle


def test_what_is_declared_before_costs_hardly_more_than_the_best_plan():
    """Sums, averages and counts of different tolerances, planned in one call."""
    figures = run_stream("sums", 60, None, "approximate", RUNGS, prepared=True)
    assert figures["rungs"].keys() <= {"derived", "replayed"}
    assert figures["prefixes"]["60"]["ratio"] < 1.03


def test_a_stream_is_measured_with_its_prefixes_and_times():
    figures = run_stream("range-by-one", 60, None, "approximate", RUNGS)
    assert sum(figures["rungs"].values()) == 60
    assert figures["errors"] == []
    assert (
        figures["coverage"] > 0.65
    )  # at 95% each, below that once in 10^6 runs even if half of the errors go together
    assert [*figures["prefixes"]] == ["50", "60"]
    for prefix in figures["prefixes"].values():
        assert prefix["ratio"] == pytest.approx(prefix["ladder"] / prefix["mixed"], rel=1e-4)
        assert prefix["mixed"] <= 1.002 * min(prefix["singles"], prefix["ranges"])
        assert prefix["ranges"] <= prefix["residuals"] < math.inf
