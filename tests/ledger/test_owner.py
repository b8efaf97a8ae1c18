"""What the owner may do in every ledger: let in, raise, close, declare and recover."""

from fractions import Fraction
from pathlib import Path

import pytest

from dodona.errors import InvalidArgument
from dodona.ledger.entries import Release
from dodona.ledger.errors import BudgetExhausted, LedgerOfAnother, NotPermitted, ReceiptMismatch, ReceiptVoid
from dodona.ledger.ledger import Ledger
from dodona.privacy.budget import Analyst, Budget
from dodona.privacy.events import LaplaceEvent
from dodona.schema.schema import Neighbours
from tests.ledger.scene import PLACES, Place, answer, ask, begun, terms_of


def test_an_analyst_spends_a_share_and_together_they_never_pass_the_whole(place: Place):
    analysts = (Analyst("ada", "1/2"), Analyst("bob", "3/10"), Analyst("eve", "1"))
    with begun(place, terms_of(Budget(1, 0, "pure"), *analysts)) as ledger:
        for _ in range(5):
            ask(ledger, analyst="ada")
        with pytest.raises(BudgetExhausted, match="budget of ada") as caught:
            ask(ledger, analyst="ada")
        assert caught.value.asked == Fraction(1, 5)
        for _ in range(3):
            ask(ledger, analyst="bob")
        for _ in range(2):
            ask(ledger, analyst="eve")
        with pytest.raises(BudgetExhausted, match="budget of the dataset"):
            ask(ledger, analyst="eve")
        spent = {analyst.name: analyst.spent for analyst in ledger.verify().analysts}
        assert spent == {"ada": 1, "bob": 1, "eve": Fraction(1, 5)}


def test_only_those_who_were_let_in_may_spend(place: Place):
    with begun(place, terms_of(Budget(1, 0, "pure"), Analyst("ada"))) as ledger:
        for stranger in ("bob", None):
            with pytest.raises(NotPermitted):
                ask(ledger, analyst=stranger)
        ledger.admit(Analyst("bob", "1/10"))
        ask(ledger, "kept", analyst="bob")
        ledger.stop("bob")
        with pytest.raises(NotPermitted):
            ask(ledger, analyst="bob")
        assert ask(ledger, "kept", analyst="bob").analyst == "bob"
        ledger.admit(Analyst("bob", "1/10"))
        with pytest.raises(BudgetExhausted, match="of bob"):
            ask(ledger, analyst="bob")
        with pytest.raises(InvalidArgument):
            ledger.stop("eve")


@pytest.mark.parametrize("accountant", ["zcdp", "renyi", "either"])
def test_a_raised_budget_keeps_its_order_and_what_was_spent(place: Place, accountant: str):
    small = Budget("1/2", "1e-6", accountant)
    with begun(place, terms_of(small, Analyst("ada", "1/2"))) as ledger:
        first = _fill(ledger)
        ledger.raise_budget(1, "1e-6")
        assert 0 < ledger.state().left < 1
        second = _fill(ledger)
        state = ledger.verify()
        assert state.total == Budget(1, "1e-6", accountant)
    whole = PLACES["memory"](Path())
    whole.create(terms_of(Budget(1, "1e-6", accountant), Analyst("ada", "1/2")))
    assert 0 < first < first + second <= _fill(whole.open())


def _fill(ledger: Ledger) -> int:
    event = LaplaceEvent(1, Fraction(20), Neighbours.ADD_REMOVE)
    count = 0
    while True:
        try:
            ask(ledger, analyst="ada", event=event)
        except BudgetExhausted:
            return count
        count += 1


@pytest.mark.parametrize("pair", [("1/2", "1e-6"), ("1/4", "1e-5"), ("1", "1e-7"), ("nan", "1e-6"), (0, 0)])
def test_a_budget_is_only_ever_raised(place: Place, pair: tuple[str, str]):
    with begun(place, terms_of(Budget("1/2", "1e-6", "renyi"))) as ledger:
        with pytest.raises(InvalidArgument):
            ledger.raise_budget(*pair)
        assert ledger.verify().total == Budget("1/2", "1e-6", "renyi")


def test_a_closed_ledger_tells_old_answers_and_nothing_else(place: Place):
    with begun(place) as ledger:
        release = answer(ledger, ask(ledger, "told"))
        unused = ask(ledger)
        ledger.end()
        for refused in (lambda: ask(ledger), lambda: ledger.redeem(unused)):
            with pytest.raises(NotPermitted):
                refused()
        assert ledger.fetch("told", analyst=None) == release
        assert ledger.verify().closed


def test_tables_of_the_same_people_share_one_budget(place: Place):
    place.create(terms_of(datasets=("stays", "visits")))
    with place.open(dataset="stays", schema="schema of stays") as stays, place.open(dataset="visits") as visits:
        for _ in range(5):
            ask(stays)
            receipt = ask(visits)
        for ledger in (stays, visits):
            with pytest.raises(BudgetExhausted):
                ask(ledger)
        with pytest.raises(ReceiptMismatch):
            stays.redeem(receipt)
        answer(visits, receipt)
        assert len(visits.released("question", "1")) == 1
        assert stays.released("question", "1") == ()
    with place.open() as neither, pytest.raises(InvalidArgument, match="stays, visits"):
        ask(neither)


@pytest.mark.parametrize(("dataset", "schema"), [("visits", None), ("stays", "another schema")])
def test_a_ledger_of_another_dataset_or_schema_is_refused(place: Place, dataset: str, schema: str | None):
    place.create(terms_of())
    with pytest.raises(LedgerOfAnother, match="declare"):
        place.open(dataset=dataset, schema=schema)
    with place.open() as ledger:
        ledger.declare(dataset, schema or "a schema")
    place.open(dataset=dataset, schema=schema or "a schema").close()


def test_after_a_recovery_everything_unspent_is_spent(place: Place):
    analysts = (Analyst("ada", "1/2"),)
    with begun(place, terms_of(Budget(1, 0, "pure"), *analysts)) as ledger:
        release = answer(ledger, ask(ledger, "told", analyst="ada"))
        unused = ask(ledger, analyst="ada")
        begun_receipt = ask(ledger, analyst="ada")
        ledger.redeem(begun_receipt)
    place.recover()
    with place.open() as ledger:
        state = ledger.verify()
        assert (state.spent, state.left, state.recovered, state.epsilon_spent) == (1, 0, True, 1.0)
        with pytest.raises(BudgetExhausted):
            ask(ledger, analyst="ada")
        with pytest.raises(ReceiptVoid):
            ledger.redeem(unused)
        with pytest.raises(ReceiptVoid):
            ledger.record(Release(receipt=begun_receipt.id, values=(1,), mechanism="late"))
        assert ledger.fetch("told", analyst="ada") == release
        ledger.raise_budget("6/5", 0)
        ask(ledger, analyst="ada")
        with pytest.raises(BudgetExhausted, match="of ada"):
            ask(ledger, analyst="ada")


def test_a_recovery_counts_the_largest_budget_that_was_ever_granted(place: Place):
    begun(place).close()
    place.recover(epsilon=Fraction(2), delta=Fraction(0))
    with place.open() as ledger:
        assert (ledger.state().total, ledger.state().left) == (Budget(2, 0, "pure"), 0)


def test_after_a_recovery_a_budget_of_either_kind_is_not_raised(place: Place):
    begun(place, terms_of(Budget(1, "1e-6", "either"))).close()
    place.recover()
    with place.open() as ledger, pytest.raises(InvalidArgument, match="new ledger"):
        ledger.raise_budget(2, "1e-6")
