"""Alerts: the whole run is paid for before the first question, and only counts are asked."""

from __future__ import annotations

from contextlib import suppress

import pytest

from dodona.errors import Halted, InvalidArgument
from dodona.lab.audit.cases.scene import schema_of
from dodona.privacy.sparse_vector import SparseVector
from dodona.query.query import Query
from dodona.query.sensitivity import Sensitivity
from dodona.schema.schema import Neighbours
from dodona.trusted.gate import Alerts, watch_purpose
from dodona.trusted.source import Unpaid
from tests.trusted.scene import Fixed, paid, scene

FAR = 10**6
"""A threshold at this distance is told right, but once in e^100000 questions."""
BOTH = pytest.mark.parametrize("neighbours", Neighbours)


def opened(neighbours: Neighbours, *, positives: int = 1) -> tuple[Alerts, list[str]]:
    ledger, source, calls = scene(neighbours)
    moved = Sensitivity.count(neighbours)
    mechanism = SparseVector.for_privacy(1, moved, questions=10, positives=positives)
    receipt = paid(ledger, mechanism.event(moved), watch_purpose(mechanism))
    return Alerts(mechanism, receipt, ledger=ledger, source=source, unit=schema_of(neighbours).unit), calls


@BOTH
def test_it_is_paid_for_before_anything_is_read_and_ends_with_the_last_alert(neighbours: Neighbours):
    alerts, calls = opened(neighbours, positives=2)
    count = Query.count(schema_of(neighbours).domain)
    assert calls == ["reserve"]
    assert [alerts.ask(count, level).above for level in (FAR, -FAR, FAR, -FAR)] == [False, True, False, True]
    assert alerts.left == 0
    assert calls == ["reserve", "arm", "exact", "exact", "arm", "exact", "exact"]
    with pytest.raises(Halted) as raised:
        alerts.ask(count, -FAR)
    assert raised.value.__cause__ is raised.value.__context__ is None
    assert all("value" not in entry.frame.f_locals for entry in raised.traceback)  # no exact count travels with it


@BOTH
def test_a_query_that_a_row_moves_further_than_a_count_is_refused_before_it_is_read(neighbours: Neighbours):
    alerts, calls = opened(neighbours)
    domain = schema_of(neighbours).domain
    for query in (Query.sum(domain, "stay"), Query.sum(domain, "income"), Query.histogram(domain, "sex")):
        with pytest.raises(InvalidArgument, match="one count"):
            alerts.ask(query, 0)
    assert "exact" not in calls


@BOTH
def test_a_receipt_for_less_opens_nothing(neighbours: Neighbours):
    ledger, source, calls = scene(neighbours)
    moved, unit = Sensitivity.count(neighbours), schema_of(neighbours).unit
    mechanism, cheaper = (SparseVector.for_privacy(epsilon, moved, questions=10) for epsilon in (1, "1/2"))
    more = SparseVector.for_privacy(1, moved, questions=10, positives=2)  # of the same price, in other parts
    assert more.event(moved) == mechanism.event(moved)
    for event, purpose in (
        (cheaper.event(moved), watch_purpose(mechanism)),
        (mechanism.event(moved), "below"),
        (mechanism.event(moved), watch_purpose(more)),
    ):
        with pytest.raises(Unpaid):
            Alerts(mechanism, paid(ledger, event, purpose), ledger=ledger, source=source, unit=unit)
    assert set(calls) == {"reserve"}


@BOTH
@pytest.mark.parametrize("positives", [1, 2, 7])
def test_however_it_is_opened_again_no_more_is_used_than_was_paid_for(neighbours: Neighbours, positives: int):
    ledger, source, _ = scene(neighbours)
    moved, unit = Sensitivity.count(neighbours), schema_of(neighbours).unit
    mechanism = SparseVector.for_privacy(1, moved, questions=10, positives=positives)
    receipt = paid(ledger, mechanism.event(moved), watch_purpose(mechanism))
    count, alerted = Query.count(schema_of(neighbours).domain), 0
    for opening in range(2 * positives + 2):
        alerts = Alerts(mechanism, receipt, ledger=ledger, source=source, unit=unit)
        for level in (FAR, -FAR, FAR) if opening % 2 else (FAR,):
            try:
                alerted += alerts.ask(count, level).above
            except Halted:
                break
    used = ledger.armings(receipt)
    sides = 1 if moved.monotone else 2
    loss = used.thresholds * moved.linf / mechanism.threshold_scale + used.alerts * sides * moved.linf / (
        mechanism.question_scale
    )
    assert loss <= 1
    assert alerted <= used.alerts <= positives
    assert Alerts(mechanism, receipt, ledger=ledger, source=source, unit=unit).left == 0


@BOTH
def test_two_who_have_it_open_share_what_was_paid_for(neighbours: Neighbours):
    ledger, source, _ = scene(neighbours)
    moved, unit = Sensitivity.count(neighbours), schema_of(neighbours).unit
    mechanism = SparseVector.for_privacy(1, moved, questions=10, positives=20)
    receipt = paid(ledger, mechanism.event(moved), watch_purpose(mechanism))
    first, second = (Alerts(mechanism, receipt, ledger=ledger, source=source, unit=unit) for _ in range(2))
    count, alerted = Query.count(schema_of(neighbours).domain), 0
    with suppress(Halted):
        for _ in range(20):
            alerted += first.ask(count, -FAR).above + second.ask(count, -FAR).above
    assert 10 < alerted < 20
    assert first.left <= 1


@BOTH
def test_an_interrupt_while_noise_is_drawn_carries_no_exact_value(neighbours: Neighbours):
    def interrupted() -> object:
        raise KeyboardInterrupt

    ledger, _, _ = scene(neighbours)
    moved, unit = Sensitivity.count(neighbours), schema_of(neighbours).unit
    mechanism = SparseVector.for_privacy(1, moved, questions=10, positives=3)
    receipt = paid(ledger, mechanism.event(moved), watch_purpose(mechanism))
    alerts = Alerts(mechanism, receipt, ledger=ledger, source=Fixed(interrupted), unit=unit)
    with pytest.raises(KeyboardInterrupt) as raised:
        alerts.ask(Query.count(schema_of(neighbours).domain), 0)
    assert [entry.name for entry in raised.traceback][-2:] == ["ask", "read"]
