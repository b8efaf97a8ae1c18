"""A choice: paid for first, priced again, and only the numbers of the chosen leave."""

from __future__ import annotations

from fractions import Fraction

import pytest

from dodona.lab.audit.cases.scene import schema_of
from dodona.privacy.selection import Exponential, PermuteAndFlip, Selection
from dodona.query.query import Query
from dodona.schema.schema import Neighbours, Unit
from dodona.trusted.gate import release_choice
from dodona.trusted.source import SourceFailed, Unpaid
from tests.trusted.scene import Fixed, paid, scene

SCHEMA = schema_of(Neighbours.ADD_REMOVE)
SEXES = Query.histogram(SCHEMA.domain, "sex")
LAWS = [Exponential, PermuteAndFlip]
SHARP = Fraction(1, 1000)
"""A scale at which a lead of 1 decides, but once in e^1000 choices."""


@pytest.mark.parametrize("law", LAWS)
def test_the_numbers_of_the_largest_scores_leave_one_after_the_other(law: type[Exponential | PermuteAndFlip]):
    ledger, source, calls = scene(source=Fixed([5, 90, -3, 1 << 80, 40]))
    selection = Selection(SEXES, law(scale=SHARP), 3)
    receipt = paid(ledger, selection.event(Unit.each_row(Neighbours.ADD_REMOVE)), selection.purpose)
    chosen = release_choice(selection, receipt, ledger=ledger, source=source, unit=SCHEMA.unit)
    assert chosen.values == (3, 1, 4)
    assert calls == ["reserve", "redeem", "exact", "record"]


@pytest.mark.parametrize("law", LAWS)
def test_scores_that_are_further_apart_than_64_bits_are_no_error(law: type[Exponential | PermuteAndFlip]):
    ledger, source, _ = scene(source=Fixed([-(1 << 90), 1 << 90, 0, 0, 0]))
    selection = Selection(SEXES, law(scale=1))
    receipt = paid(ledger, selection.event(Unit.each_row(Neighbours.ADD_REMOVE)), selection.purpose)
    assert release_choice(selection, receipt, ledger=ledger, source=source, unit=SCHEMA.unit).values == (1,)


@pytest.mark.parametrize("law", LAWS)
def test_a_receipt_for_something_else_buys_no_choice(law: type[Exponential | PermuteAndFlip]):
    ledger, source, calls = scene(Neighbours.REPLACE)
    unit = schema_of(Neighbours.REPLACE).unit
    two = Selection(SEXES, law(scale=1), 2)
    single, wider = Selection(SEXES, law(scale=1)), Selection(SEXES, law(scale=2), 2)
    for event, purpose in (
        (single.event(Unit.each_row(Neighbours.REPLACE)), two.purpose),
        (wider.event(Unit.each_row(Neighbours.REPLACE)), two.purpose),
        (two.event(Unit.each_row(Neighbours.REPLACE)), single.purpose),
    ):
        with pytest.raises(Unpaid):
            release_choice(two, paid(ledger, event, purpose), ledger=ledger, source=source, unit=unit)
    assert set(calls) == {"reserve"}


def test_a_source_that_fails_keeps_the_charge_and_tells_nothing():
    ledger, source, calls = scene(source=Fixed([1]))
    selection = Selection(SEXES, Exponential(scale=1))
    receipt = paid(ledger, selection.event(Unit.each_row(Neighbours.ADD_REMOVE)), selection.purpose)
    with pytest.raises(SourceFailed):
        release_choice(selection, receipt, ledger=ledger, source=source, unit=SCHEMA.unit)
    assert calls == ["reserve", "redeem", "exact"]
    assert ledger.state().charges == 1
    assert ledger.releases() == ()


def test_a_choice_that_cannot_be_recorded_carries_no_exact_score():
    ledger, source, calls = scene(source=Fixed([5, 987_654_321, -3, 2, 40]), fails="record")
    selection = Selection(SEXES, Exponential(scale=SHARP), 2)
    receipt = paid(ledger, selection.event(Unit.each_row(Neighbours.ADD_REMOVE)), selection.purpose)
    with pytest.raises(OSError, match="record") as raised:
        release_choice(selection, receipt, ledger=ledger, source=source, unit=SCHEMA.unit)
    assert calls[-1] == "record"
    step, seen = raised.value.__traceback__, ""
    while step is not None:
        frame = step.tb_frame
        seen += repr(frame.f_locals) if frame.f_globals["__name__"].startswith("dodona") else ""
        step = step.tb_next
    assert "Exponential" in seen
    assert "987654321" not in seen
