"""Alerts: the whole run is paid for before the first question, and only counts are asked."""

from __future__ import annotations

import pytest

from dodona.audit.cases.scene import schema_of
from dodona.domain.neighbours import Neighbours
from dodona.errors import Halted, InvalidArgument
from dodona.mechanisms.sparse_vector import SparseVector
from dodona.query.query import Query
from dodona.query.sensitivity import Sensitivity
from dodona.trusted.alerts import PURPOSE, Alerts
from dodona.trusted.faults import Unpaid
from tests.trusted.scene import paid, scene

FAR = 10**6
"""A threshold at this distance is told right, but once in e^100000 questions."""
BOTH = pytest.mark.parametrize("neighbours", Neighbours)


def opened(neighbours: Neighbours, *, positives: int = 1) -> tuple[Alerts, list[str]]:
    ledger, source, calls = scene(neighbours)
    moved = Sensitivity.count(neighbours)
    mechanism = SparseVector.for_privacy(1, moved, questions=10, positives=positives)
    receipt = paid(ledger, mechanism.event(moved), PURPOSE)
    return Alerts(mechanism, receipt, ledger=ledger, source=source, unit=schema_of(neighbours).unit), calls


@BOTH
def test_it_is_paid_for_before_anything_is_read_and_ends_with_the_last_alert(neighbours: Neighbours):
    alerts, calls = opened(neighbours, positives=2)
    count = Query.count(schema_of(neighbours).domain)
    assert calls == ["reserve", "redeem"]
    assert [alerts.ask(count, level).above for level in (FAR, -FAR, FAR, -FAR)] == [False, True, False, True]
    assert alerts.left == 0
    with pytest.raises(Halted) as raised:
        alerts.ask(count, -FAR)
    assert raised.value.__cause__ is raised.value.__context__ is None
    names = [entry.name for entry in raised.traceback]
    assert names[-1] == "ask"
    assert "value" not in raised.traceback[-1].frame.f_locals  # no exact count travels with it


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
    for event, purpose in ((cheaper.event(moved), PURPOSE), (mechanism.event(moved), "below")):
        with pytest.raises(Unpaid):
            Alerts(mechanism, paid(ledger, event, purpose), ledger=ledger, source=source, unit=unit)
    assert set(calls) == {"reserve"}
