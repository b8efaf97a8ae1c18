"""The product on streams, as the benchmark runs it: what was charged is what is told, and every answer is counted."""

import dataclasses
import json
from functools import cache

import pytest

from benchmarks.streams import command, pictures
from benchmarks.streams.baselines import turns
from benchmarks.streams.catalogue import STREAMS
from benchmarks.streams.certified import Cost
from benchmarks.streams.ladder import REFUSED, Way, climbed, epsilon_until, source_of
from benchmarks.streams.run import Run, rounded, summary

TURNS = 150


@cache
def short(name):
    whole = STREAMS[name].stream(None)
    stream = dataclasses.replace(whole, asked=whole.asked[:TURNS])
    return stream, source_of(stream)


def climb(name, *, budget="approximate", epsilon=None, prepared=False):
    stream, source = short(name)
    asked = []
    way = Way(budget=budget, epsilon=epsilon or stream.epsilon[budget], prepared=prepared)
    run = climbed(stream, source, way, asked.append)
    assert sum(asked) == TURNS
    assert sum(run.rungs.values()) == TURNS
    return run


@pytest.mark.parametrize("budget", ["approximate", "pure"])
@pytest.mark.parametrize("name", [pytest.param("conj-10", marks=pytest.mark.slow), "covid-1"])
def test_a_stream_is_within_its_budget_and_its_answers_within_their_intervals(name, budget):
    run = climb(name, budget=budget, epsilon="0.5")
    assert REFUSED not in run.rungs
    assert run.cost.certified <= 0.5
    assert run.trail[-1] == (TURNS, pytest.approx(run.cost.certified, rel=1e-9))
    assert (run.cost.pure == run.cost.certified) or budget == "approximate"
    assert run.coverage >= 0.9  # errors go together, but a run with one in ten wrong is rarer than 1 in 10^6
    assert 0 < run.max_error < 0.1
    assert run.microseconds > 0


def test_what_was_prepared_is_free():
    stream, _ = short("covid-1")
    run = climb("covid-1", prepared=True)
    assert "measured" not in run.rungs
    assert epsilon_until([run], 1) == [pytest.approx(run.cost.certified)]
    assert len(stream.questions) > TURNS  # all questions of the whole stream were declared


def test_what_is_refused_is_counted():
    run = climb("covid-1", epsilon="0.004")
    assert run.rungs[REFUSED] > 0
    assert run.cost.certified <= 0.004


def test_runs_are_summed_up_with_losses_one_by_one():
    stream, _ = short("conj-10")
    runs = [
        Run(cost=Cost(0.1, 0.2, None), max_error=0.01, beyond=0.0, coverage=1.0, rungs={"measured": 10}),
        Run(cost=Cost(0.3, 0.4, None), max_error=0.03, beyond=0.5, coverage=0.9, rungs={"derived": 10}),
    ]
    figures = summary(stream, runs)
    assert figures["certified_epsilon"] == [0.1, 0.3]
    assert figures["pure_epsilon"] == [None, None]
    assert (figures["max_error"], figures["beyond_alpha"], figures["coverage"]) == (0.03, 0.25, 0.95)
    assert figures["rungs"] == {"derived": 5, "measured": 5}
    assert figures["questions"] == TURNS
    assert rounded(float("inf")) is None


def test_a_picture_is_drawn_of_all_ways_that_have_a_price(tmp_path):
    priced = Run(cost=Cost(0.1, 0.2, None), max_error=0, beyond=0, coverage=1, rungs={}, trail=[(1, 0.01), (90, 0.1)])
    bare = Run(cost=Cost(0.1, 0.2, None), max_error=0, beyond=0, coverage=1, rungs={})
    path = tmp_path / "stream.png"
    pictures.draw(
        path, title="a stream", ways={"ladder": [priced, priced], "ladder-without-derive": [priced], "pmw": [bare]}
    )
    assert path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_the_last_line_is_json_with_the_stream_beside_its_baselines(capsys, tmp_path):
    command.main(["--json", "--whole", "--stream", "conj-10", "--seeds", "0", "--pictures", str(tmp_path)])
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])["conj-10"]
    assert len(figures["certified_epsilon"]) == 1
    assert figures["questions"] == sum(figures["rungs"].values()) == 5_000
    assert set(figures["baselines"]) == {
        "laplace+cache",
        "gaussian+cache",
        "histogram-laplace",
        "histogram-gaussian",
        "residuals",
        "pmw",
    }
    fields = {"certified_epsilon", "zcdp_epsilon", "pure_epsilon", "max_error", "beyond_alpha", "coverage", "rungs"}
    assert all(fields <= set(entry) for entry in (figures, *figures["baselines"].values(), *figures["runs"]))
    assert (tmp_path / "stream-conj-10.png").exists()


def test_a_table_that_is_not_there_ends_with_words(capsys):
    with pytest.raises(SystemExit):
        command.main(["--json", "--stream", "adult-3", "--data", "nowhere.csv"])
    assert "nowhere.csv" in capsys.readouterr().err


@pytest.mark.parametrize("number", [1, 9, 150, 1_000, 50_000])
def test_a_trail_has_the_first_and_the_last_turn_and_every_power_of_ten(number):
    trail = turns(number)
    assert trail[0] == 1
    assert trail[-1] == number
    assert trail == sorted(set(trail))
    assert {10**power for power in range(5) if 10**power <= number} <= set(trail)


def test_names_stand_apart_and_near_their_lines():
    assert pictures.apart([0.0, 0.5, 0.5], 0.25) == [0.0, 0.375, 0.625]
    assert pictures.apart([0.1, 0.9], 0.25) == [0.1, pytest.approx(0.9)]
    assert pictures.apart([], 0.25) == []
