"""Prices of the simple ways are the known ones, and their noise is what the prices are for."""

import dataclasses
import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from benchmarks.streams import certified, hindsight, prices
from benchmarks.streams.baselines import Baselines, noise_of
from benchmarks.streams.catalogue import STREAMS
from benchmarks.streams.certified import cost_of
from dodona.knowledge.residuals import variance_shares
from dodona.lab import direct
from dodona.lab.residuals import block_product
from dodona.privacy.accountants import Accountant, Spending, budget_filter
from dodona.privacy.additive_noise import Gaussian, Laplace
from dodona.privacy.events import (
    ComposedEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    PureEvent,
    PureMechanism,
    UnevenGaussianEvent,
)
from dodona.schema.schema import Neighbours, Unit

ACCURACY = {"within": 5_000, "failing": 1e-3}
REPLACE = Neighbours.REPLACE


@cache
def made(name):
    return STREAMS[name].stream(None)


def cost(*events: Event):
    return cost_of(events, budget="approximate")


@pytest.mark.parametrize(
    ("questions", "pure", "laplace", "gaussian"),
    [
        (1_146, 1.583, 0.302, 0.144),
        (3_153, 4.356, 0.502, 0.239),
        (5_000, 6.908, 0.634, 0.301),
        (6_138, 8.480, 0.703, 0.333),
        (15_230, 21.04, 1.112, 0.526),
    ],
)
def test_noise_on_each_question_costs_what_is_known(questions, pure, laplace, gaussian):
    alone = prices.single(Laplace, **ACCURACY).event(prices.COUNT)
    price = cost_of({alone: questions}, budget="approximate")
    assert price.pure == pytest.approx(pure, rel=3e-4)
    assert price.zcdp == pytest.approx(laplace, abs=6e-4)
    assert price.certified < price.zcdp
    normal = prices.single(Gaussian, **ACCURACY).event(prices.COUNT)
    assert cost_of({normal: questions}, budget="approximate").zcdp == pytest.approx(gaussian, abs=6e-4)


@pytest.mark.parametrize(("cells", "pure"), [(128, 0.0105), (1_024, 0.0298), (65_536, 0.239)])
def test_a_whole_histogram_costs_what_is_known(cells, pure):
    noise = prices.histogram(Laplace, cells=cells, **ACCURACY)
    price = cost(noise.event(prices.HISTOGRAM))
    assert price.pure == pytest.approx(pure, rel=0.015)
    assert price.certified == pytest.approx(price.pure, rel=1e-4)


@pytest.mark.parametrize(
    ("name", "zcdp"), [("conj-10", (0.0215, 0.0221)), pytest.param("conj-16", (0.0380, 0.0415), marks=pytest.mark.slow)]
)
def test_residuals_cost_what_is_known(name, zcdp):
    stream = made(name)
    price = cost(prices.residual_event(prices.residuals(stream)))
    assert zcdp[0] < price.zcdp <= zcdp[1]


def test_residuals_of_some_questions_cost_no_more_than_those_of_all():
    stream = made("covid-1")
    some = cost(prices.residual_event(prices.residuals(stream, range(20)))).certified
    every = cost(prices.residual_event(prices.residuals(stream))).certified
    assert some < every * 1.001


@pytest.mark.parametrize("law", [Laplace, Gaussian])
def test_half_the_sum_of_noise_is_beyond_as_often_as_computed(law):
    cells, runs, within = 16, 200_000, 12
    drawn = direct.run(law(scale=4), np.zeros(cells * runs, dtype=np.int64)).reshape(runs, cells)
    expected = prices.beyond(law, 4.0, cells=cells, within=within)
    seen = float((np.abs(drawn.sum(axis=1)) > 2 * within).mean())
    assert 0.05 < expected < 0.5
    assert abs(seen - expected) < 5 * math.sqrt(expected / runs)  # a false alarm is rarer than 1 in 10^6


def test_weights_promise_the_error_at_their_price_and_not_at_less():
    asked = {"rows": 100_000, "universe": 1_024, "questions": 5_000, "failing": 1e-3, "budget": "approximate"}
    design = prices.weights(share=0.05, **asked)
    assert design.within <= 0.05
    assert cost(design.event(Unit.each_row(REPLACE))).certified > 10
    assert prices.weights(share=1e-9, **asked) is None


@pytest.mark.slow
def test_the_noise_of_residuals_has_the_variances_that_were_allotted():
    stream, draws = made("covid-1"), 300
    parts, classes = prices.residuals(stream), prices.classes(stream)
    scope, numbers = max(stream.questions.scopes.items(), key=lambda one: len(one[0]))
    seen = np.array(
        [
            stream.questions.summed(
                noise_of(parts).marginal([classes[place] for place in scope])[0], scope, numbers[:3]
            )
            for _ in range(draws)
        ]
    )
    allotted = dict(parts)
    for place, number in enumerate(numbers[:3]):
        block = stream.query(number).blocks[0]
        shares = variance_shares(block_product(block, {classing.attribute: classing for classing in classes}))
        expected = sum(share * allotted[residual] for residual, share in shares.items() if residual.classes)
        assert float(expected) <= prices.deviation(**ACCURACY) ** 2 * 1.001
        assert abs(seen[:, place].var() / float(expected) - 1) < 5 * math.sqrt(2 / draws)  # 1 in 10^5 is false


@pytest.mark.parametrize("budget", ["approximate", "pure"])
def test_simple_ways_are_as_accurate_as_was_asked(budget):
    stream = made("conj-10")
    for name, run in Baselines(stream, budget).named():
        result = run()
        assert sum(result.rungs.values()) == 5_000, name
        # 1 in 1,000 of 1,146 questions: more than 12 of them by chance are rarer than 1 in 10^8. Errors of a whole
        # histogram go together, and of all runs fewer than 1 in 1,000 have any error of that size.
        assert result.beyond <= 12 / 1_146, name
        assert result.coverage >= 0.98, name
        assert result.trail[-1][1] == pytest.approx(result.cost.certified, rel=1e-9), name


def test_what_is_certified_is_admitted_and_a_thousandth_less_is_not():
    events = {LaplaceEvent(1, Fraction(700), REPLACE): 1_000, GaussianEvent(1, Fraction(1_500**2), REPLACE): 300}
    least = cost_of(events, budget="approximate").certified

    def admitted(epsilon):
        tried = budget_filter(Accountant.EITHER, Fraction(epsilon), certified.DELTA)
        spent = Spending()
        for event, times in events.items():
            spent = tried.charged(spent, event, times=times)
        return tried.admits(spent)

    assert admitted(least)
    assert not admitted(least * 0.999)


def test_a_pure_sum_counts_as_it_is_and_gaussian_noise_has_none():
    few = cost_of([PureEvent(PureMechanism.SPARSE_VECTOR, Fraction(1, 100), REPLACE)] * 2, budget="pure")
    assert few.certified == few.pure == pytest.approx(0.02)
    assert cost_of([GaussianEvent(1, Fraction(100), REPLACE)], budget="pure").certified == math.inf
    assert cost_of([], budget="approximate") == certified.NOTHING


def test_events_that_came_together_are_counted_one_by_one():
    laplace, normal = LaplaceEvent(1, Fraction(700), REPLACE), GaussianEvent(2, Fraction(10**6), REPLACE)
    together = ComposedEvent(((laplace, 3), (normal, 2)))
    counts = certified.gathered([together, laplace, UnevenGaussianEvent(Fraction(1, 10**6), REPLACE)])
    assert counts[laplace] == 4
    (ratio,) = [event.ratio for event in counts if isinstance(event, UnevenGaussianEvent)]
    assert ratio == pytest.approx(5e-6)


@pytest.mark.slow
def test_in_hindsight_few_questions_are_cheapest_alone_and_many_together():
    stream = made("covid-1")
    few = hindsight.prices_of(stream, 5, budget="approximate")
    many = hindsight.prices_of(stream, 20_000, budget="approximate")
    assert min(few, key=few.get) in {"laplace+cache", "gaussian+cache"}
    assert min(many, key=many.get) == "histogram-laplace"
    assert set(hindsight.prices_of(stream, 5, budget="pure")) == {"laplace+cache", "histogram-laplace"}
    short = dataclasses.replace(stream, asked=stream.asked[:150])
    assert list(hindsight.prefixes(short, [], budget="approximate")) == ["100"]
