"""Predictions that an open check confirms: their intervals, their price, and when they are used."""

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from dodona.answer.estimate import to_float
from dodona.answer.laws import ConfirmedLaw
from dodona.curator.ladder import OPTIONAL_RUNGS
from dodona.curator.predictions import design_epoch, draft_epoch
from dodona.errors import Halted, InvalidArgument
from dodona.privacy.sparse_vector import SparseVector
from dodona.query.query import Query
from dodona.query.sensitivity import Sensitivity
from dodona.schema.schema import Neighbours, Unit
from dodona.trusted.gate import CONFIRMING, PredictionCheck
from dodona.trusted.source import Unpaid
from tests.curator.independent import APPROXIMATE, table

ALONE = frozenset(("replay", "derive", "confirm"))
"""Without whole tables, which would be cheaper still where the columns are few."""


def law_of_difference(first, second, reach=400):
    """Return the probabilities of the difference of two discrete Laplace draws, from -2·reach to 2·reach."""
    places = np.arange(-reach, reach + 1)
    laws = [np.tanh(1 / (2 * scale)) * np.exp(-np.abs(places) / scale) for scale in (first, second)]
    return np.arange(-2 * reach, 2 * reach + 1), np.convolve(*laws)


def confirmed_beyond(law, distance):
    """Return how likely a prediction that is off by so much is confirmed: distance + ν < threshold + ρ."""
    places, chances = law_of_difference(law.threshold_scale, law.question_scale)
    return float(chances[places > distance - law.threshold].sum())


@pytest.mark.parametrize(
    "law", [ConfirmedLaw(40, 3.0, 3.6), ConfirmedLaw(1, 5.0, 2.0), ConfirmedLaw(25, 0.4, 0.5)], ids=str
)
@pytest.mark.parametrize("failing", [0.2, 0.05, 1e-3, 1e-6])
def test_a_prediction_beyond_its_interval_is_confirmed_no_more_often_than_is_said(law, failing):
    within = law.quantile(failing)
    assert confirmed_beyond(law, math.floor(within) + 1) <= failing
    # and not much less often: two steps nearer it would be confirmed too often
    assert within < 2 or confirmed_beyond(law, math.floor(within) - 1) > failing


@pytest.mark.parametrize("tolerance", [30.0, 200.0, 5_000.0])
@pytest.mark.parametrize("failing", [0.05, 0.01, 1e-3, 1e-6])
@pytest.mark.parametrize("neighbours", [Neighbours.REPLACE, Neighbours.ADD_REMOVE])
def test_an_epoch_keeps_half_of_the_room_as_threshold_and_wastes_a_tenth_of_an_answer_at_most(
    tolerance, failing, neighbours
):
    epoch = design_epoch(tolerance, failing, Unit.each_row(neighbours))
    assert epoch is not None
    law = epoch.law(tolerance, failing)
    assert law is not None
    assert law.quantile(failing) <= tolerance
    assert law.threshold >= tolerance / 2
    single = math.log(1 / failing) / tolerance  # of Laplace noise that is within the room, up to the grid
    price = float(epoch.mechanism.event(Sensitivity.scores(1, neighbours)).epsilon or 0)
    assert price == float(epoch.event.epsilon or 0)
    assert 6 < price / single < 13
    assert epoch.failing(law, 0.0) * price <= 0.11 * single
    assert epoch.failing(law, tolerance) > 0.9


def test_a_larger_room_leaves_a_larger_threshold_and_too_small_a_room_none():
    epoch = design_epoch(200.0, 0.01, Unit.each_row(Neighbours.REPLACE))
    thresholds = [epoch.law(tolerance, 0.01).threshold for tolerance in (150.0, 200.0, 400.0)]
    assert thresholds == sorted(thresholds)
    assert thresholds[2] - thresholds[1] == 200
    assert epoch.law(50.0, 0.01) is None
    assert draft_epoch(1e-9, 0.01, Unit.each_row(Neighbours.REPLACE)) is None


def opened(kept, rows, mechanism, purpose=CONFIRMING, paid_for=None):
    event = (paid_for or mechanism).event(Sensitivity.scores(1, rows.schema.unit.neighbours))
    receipt = kept.reserve(event, analyst=None, key=None, purpose=purpose, version="1")
    return PredictionCheck(mechanism, receipt, ledger=kept, source=rows.source, unit=rows.schema.unit)


def test_a_check_tells_what_is_near_until_the_first_that_is_not():
    rows = table(0, rows=1_000, turns=3)
    check = opened(rows.ledger(), rows, SparseVector(threshold_scale="0.04", question_scale="0.04"))
    (query, truth), *_ = rows.questions
    assert [check.near(query, truth + step, 10) for step in (0, 9, -9)] == [True, True, True]
    assert check.open
    assert not check.near(query, truth + 11, 10)
    assert not check.open
    with pytest.raises(Halted):
        check.near(query, truth, 10)


def test_a_check_is_opened_by_a_receipt_for_all_of_it_and_for_nothing_else():
    rows, mechanism = table(0, rows=1_000, turns=1), SparseVector(threshold_scale=2, question_scale=4)
    with pytest.raises(Unpaid):
        opened(rows.ledger(), rows, mechanism, paid_for=SparseVector(threshold_scale=3, question_scale=4))
    with pytest.raises(Unpaid):
        opened(rows.ledger(), rows, mechanism, purpose="above")
    with pytest.raises(InvalidArgument):
        opened(rows.ledger(), rows, SparseVector(threshold_scale=2, question_scale=4, positives=2))
    check, domain = opened(rows.ledger(), rows, mechanism), rows.schema.domain
    with pytest.raises(InvalidArgument):
        check.near(Query.histogram(domain, ["c0"]), 5, 10)
    with pytest.raises(InvalidArgument):
        check.near(rows.questions[0][0], 5.0, 10)
    event = mechanism.event(Sensitivity.scores(1, Neighbours.REPLACE))
    assert event.epsilon == Fraction(1, 2) + Fraction(2, 4)


def play(curator, questions):
    """Return how often each rung answered, and how many confirmed answers missed; each is as accurate as asked."""
    sources, missed = Counter(), 0
    for query, truth in questions:
        answer = curator.ask(query)
        cell = answer.value
        assert cell.within <= 0.05 * curator.schema.unit.size
        sources[answer.source] += 1
        if answer.source == "confirmed":
            missed += not to_float(cell.low) <= truth <= to_float(cell.high)
            assert answer.theorem == "sparse-vector-privacy, confirmed-answer"
            assert answer.warnings == ()
    return sources, missed


def spent(ledger):
    return 1 - ledger.left(analyst=None)


def checks(curator):
    return [charge for charge in curator.history if charge.text == "checks of a model's predictions"]


@pytest.mark.parametrize(
    ("neighbours", "runs", "highest"),
    [
        pytest.param("replace", 3, 1, marks=pytest.mark.soak),
        pytest.param("replace", 4, 0.95, marks=pytest.mark.soak),
        pytest.param("add-remove", 4, 0.95, marks=pytest.mark.soak),
    ],
)
def test_where_columns_hardly_depend_on_each_other_predictions_are_confirmed_for_less(neighbours, runs, highest):
    """The price is .64 of that without checks, deviating by .14 (28 runs).

    A mean of four above .95 is 4.4 off, a mean of three above 1 is 4.5 off. 95 of 250 are confirmed, deviating by 19
    (12 runs): fewer than 50 a run is 4.1 off in three runs and 4.7 off in four.
    """
    rows = table(1, turns=250, neighbours=neighbours)
    without = rows.ledger()
    play(rows.curator(without, rungs=ALONE - {"confirm"}), rows.questions)
    ratios, confirmed = [], 0
    for _ in range(runs):
        with_checks = rows.ledger()
        curator = rows.curator(with_checks, rungs=ALONE)
        sources, missed = play(curator, rows.questions)
        confirmed += sources["confirmed"]
        assert 1 <= len(checks(curator)) <= 10
        # Each misses with probability 1/1000 at most: more than 4 of 250 come once in 10^5 runs.
        assert missed <= 4
        ratios.append(float(spent(with_checks) / spent(without)))
    assert sum(ratios) / runs < highest
    assert confirmed >= 50 * runs


@pytest.mark.soak
def test_beside_whole_tables_predictions_still_save_where_columns_are_many():
    ratios = []
    for seed in range(3):
        rows = table(seed, columns=18, turns=600)
        with_checks, without = rows.ledger(), rows.ledger()
        sources, missed = play(rows.curator(with_checks), rows.questions)
        play(rows.curator(without, rungs=OPTIONAL_RUNGS - {"confirm"}), rows.questions)
        assert sources["confirmed"] > 100
        assert missed <= 5
        ratios.append(float(spent(with_checks) / spent(without)))
    assert sum(ratios) / 3 < 0.95


def test_where_columns_depend_on_each_other_checks_cost_no_more_than_was_spent_without():
    rows = table(2, turns=120, tied=True)
    with_checks, without = rows.ledger(), rows.ledger()
    curator = rows.curator(with_checks, rungs=ALONE)
    play(curator, rows.questions)
    play(rows.curator(without, rungs=ALONE - {"confirm"}), rows.questions)
    for_checks = sum(charge.share for charge in checks(curator))
    assert for_checks <= spent(with_checks) / 2  # an epoch is opened when answers have cost as much
    assert spent(with_checks) <= 2 * spent(without)


@pytest.mark.slow
def test_where_an_epoch_costs_hundreds_of_answers_it_is_not_opened_and_nothing_else_changes():
    rows = table(3, turns=120)
    with_checks, without = rows.ledger(APPROXIMATE), rows.ledger(APPROXIMATE)
    curator = rows.curator(with_checks)
    sources, _ = play(curator, rows.questions)
    plain, _ = play(rows.curator(without, rungs=OPTIONAL_RUNGS - {"confirm"}), rows.questions)
    assert checks(curator) == []
    assert sources == plain
    assert spent(with_checks) == spent(without)


def test_a_confirmed_answer_is_told_again_and_never_learned_from():
    rows = table(1, turns=400)
    kept = rows.ledger()
    curator = rows.curator(kept, rungs=ALONE)
    for query, _ in rows.questions:
        answer = curator.ask(query)
        if answer.source == "confirmed":
            again, charged = curator.ask(query), spent(kept)
            assert again.source == "replayed"
            assert again.value == answer.value
            assert again.price.share == 0
            assert spent(kept) == charged
            break
    else:
        pytest.fail("nothing was confirmed")
    assert all(line.purpose != CONFIRMING for line, _ in kept.releases())


@pytest.mark.slow
def test_after_a_restart_an_open_epoch_is_lost_and_the_next_has_to_be_paid_for_anew():
    rows = table(1, turns=400)
    kept = rows.ledger()
    first = rows.curator(kept, rungs=ALONE)
    place = next(place for place, (query, _) in enumerate(rows.questions) if first.ask(query).source == "confirmed")
    query, truth = rows.questions[place]
    second = rows.curator(kept, rungs=ALONE)
    before = len(checks(second))
    answer = second.ask(query)
    assert answer.source == "measured"
    assert abs(to_float(answer.value.value) - truth) < 0.05 * 20_000
    assert len(checks(second)) == before
    sources, _ = play(second, rows.questions[place + 1 :])
    assert sources["confirmed"] > 0
    assert len(checks(second)) > before


def test_a_quote_says_how_likely_a_question_is_free():
    rows = table(1, turns=400)
    curator = rows.curator(rungs=ALONE)
    for query, _ in rows.questions:
        offer = curator.quote(query)
        source = curator.ask(query).source
        if "likely" in offer.explanation:
            assert "An open check may confirm" in offer.explanation
            assert offer.price.share > 0
            assert source in {"confirmed", "measured"}
            return
    pytest.fail("no quote told of an open check")
