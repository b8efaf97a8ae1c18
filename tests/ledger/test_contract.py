"""What every ledger does with charges, receipts and answers, wherever its lines are kept."""

import os
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from dodona.errors import DodonaError, InvalidArgument, InvalidRequest, InvariantBroken, Refused
from dodona.ledger.entries import Release
from dodona.ledger.errors import (
    AnswerInterrupted,
    BudgetExhausted,
    KeyReused,
    LedgerUnavailable,
    ReceiptMismatch,
    ReceiptReused,
)
from dodona.privacy.budget import Analyst, Budget
from dodona.privacy.events import GaussianEvent, LaplaceEvent, UnknownEvent
from dodona.schema.schema import Neighbours
from tests.ledger.scene import PLACES, TENTH, Place, answer, ask, begun, long_ago, terms_of


def test_a_charge_is_there_when_the_ledger_is_opened_again(place: Place):
    with begun(place) as ledger:
        receipt = ask(ledger, "first")
        assert receipt.event == TENTH
        assert (receipt.dataset, receipt.purpose, receipt.version) == ("stays", "question", "1")
    with place.open() as again:
        assert again.receipt("first", analyst=None) == receipt
        assert again.state().spent == Fraction(1, 10)


def test_the_whole_budget_can_be_spent_and_nothing_more(place: Place):
    with begun(place) as ledger:
        for _ in range(10):
            ask(ledger)
        with pytest.raises(
            BudgetExhausted, match=r"10% of the budget of the dataset; 0% is left.*Nothing was"
        ) as caught:
            ask(ledger)
        assert (caught.value.asked, caught.value.left) == (Fraction(1, 10), 0)
        assert isinstance(caught.value, Refused)
        state = ledger.state()
        assert (state.spent, state.left, state.charges, state.epsilon_spent) == (1, 0, 10, 1.0)


def test_a_release_that_is_refused_is_refused_each_time(place: Place):
    with begun(place) as ledger:
        receipt = ask(ledger, "mine")
        early = Release(receipt=receipt.id, values=(1,), mechanism="m")
        for _ in range(3):  # nothing was drawn for a receipt that was not used
            with pytest.raises(ReceiptMismatch):
                ledger.record(early)
        ledger.redeem(receipt)
        with pytest.raises(AnswerInterrupted):
            ledger.fetch("mine", analyst=None)
        release = Release(receipt=receipt.id, values=(2,), mechanism="m")
        ledger.record(release)
        for again in (release, release, early, early):
            with pytest.raises(ReceiptReused):
                ledger.record(again)
        assert ledger.fetch("mine", analyst=None) == release


def test_a_receipt_buys_one_release(place: Place):
    with begun(place) as ledger:
        receipt = ask(ledger)
        release = answer(ledger, receipt, 3, Fraction(1, 3))
        for again in (lambda: ledger.redeem(receipt), lambda: ledger.record(release)):
            with pytest.raises(ReceiptReused) as caught:
                again()
            assert isinstance(caught.value, InvariantBroken)
            assert caught.value.charged
        assert ledger.verify().releases == 1


def test_nothing_is_recorded_under_a_receipt_that_was_not_used(place: Place):
    with begun(place) as ledger:
        receipt = ask(ledger)
        with pytest.raises(ReceiptMismatch):
            ledger.record(Release(receipt=receipt.id, values=(1,), mechanism="none"))


def test_a_receipt_that_this_ledger_did_not_write_is_refused(place: Place):
    other = PLACES["memory"](Path())
    other.create(terms_of(), clock=long_ago)
    with begun(place) as ledger:
        receipt = ask(ledger)
        forged = (
            ask(other.open()),
            replace(receipt, id="0" * 64),
            replace(receipt, event=LaplaceEvent(1, Fraction(1), Neighbours.ADD_REMOVE)),
            replace(receipt, purpose="another"),
            replace(receipt, version="2"),
            None,
        )
        for forgery in forged:
            with pytest.raises(ReceiptMismatch):
                ledger.redeem(forgery)
        ledger.redeem(receipt)


def test_the_same_key_and_question_is_charged_once(place: Place):
    with begun(place) as ledger:
        receipt = ask(ledger, "mine")
        assert ask(ledger, "mine") == receipt
        release = answer(ledger, receipt)
        assert ask(ledger, "mine") == receipt
        assert ledger.fetch("mine", analyst=None) == release
        assert ledger.state().charges == 1
    with place.open() as again:
        assert ask(again, "mine") == receipt
        assert again.fetch("mine", analyst=None) == release
        assert again.fetch("other", analyst=None) is None
        assert again.state().charges == 1


def test_a_key_names_one_question_for_ever(place: Place):
    with begun(place) as ledger:
        ask(ledger, "mine")
        others = (
            {"purpose": "another"},
            {"event": LaplaceEvent(1, Fraction(20), Neighbours.ADD_REMOVE)},
        )
        for other in others:
            with pytest.raises(KeyReused):
                ask(ledger, "mine", **other)
        with pytest.raises(KeyReused):
            ledger.reserve(TENTH, analyst=None, key="mine", purpose="question", version="2")
        assert ledger.state().charges == 1


def test_keys_belong_to_an_analyst(place: Place):
    with begun(place, terms_of(Budget(1, 0, "pure"), Analyst("ada"), Analyst("bob"))) as ledger:
        first = ask(ledger, "mine", analyst="ada")
        assert ask(ledger, "mine", analyst="bob", purpose="another") != first
        assert ledger.receipt("mine", analyst="ada") == first


def test_an_answer_that_was_lost_on_the_way_is_said_to_be(place: Place):
    with begun(place) as ledger:
        receipt = ask(ledger, "mine")
        assert ledger.fetch("mine", analyst=None) is None
        ledger.redeem(receipt)
        with pytest.raises(AnswerInterrupted, match="The charge stands"):
            ledger.fetch("mine", analyst=None)


def test_answers_are_found_by_question_and_version(place: Place):
    with begun(place) as ledger:
        first = answer(ledger, ask(ledger), 1)
        second = answer(ledger, ask(ledger), 2)
        assert ledger.released("question", "1") == (first, second)
        assert ledger.released("question", "2") == ledger.released("another", "1") == ()
    with place.open() as again:
        assert again.released("question", "1") == (first, second)


def test_the_two_relations_are_never_mixed(place: Place):
    with begun(place) as ledger:
        with pytest.raises(InvalidArgument, match="add-remove"):
            ask(ledger, event=LaplaceEvent(1, Fraction(10), Neighbours.REPLACE))
        assert ledger.state().charges == 0


def test_an_event_without_a_pure_price_does_not_fit_a_pure_budget(place: Place):
    with begun(place) as ledger, pytest.raises(BudgetExhausted):
        ask(ledger, event=GaussianEvent(1, Fraction(10**9), Neighbours.ADD_REMOVE))


BAD = {
    "an unknown event": {"event": object()},
    "no event": {"event": None},
    "an empty key": {"key": ""},
    "a long key": {"key": "k" * 501},
    "a key that is a number": {"key": 7},
    "an empty purpose": {"purpose": ""},
    "an analyst that is a list": {"analyst": ["ada"]},
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_a_bad_request_is_refused_and_does_no_harm(place: Place, bad: dict[str, object]):
    with begun(place) as ledger:
        with pytest.raises((InvalidRequest, UnknownEvent)):
            ask(ledger, **bad)
        with pytest.raises(InvalidRequest):
            ledger.record(None)
        ask(ledger, "strange: \udc80 \0 ' \" é")
        assert ledger.verify().charges == 1


def test_the_head_names_everything_before_it(place: Place):
    with begun(place) as ledger:
        heads = [ledger.head]
        receipt = ask(ledger)
        heads.append(ledger.head)
        charged = [line.hash for line in ledger.lines() if '"entry":"charged"' in line.text]
        assert receipt.id == charged[-1]
        answer(ledger, receipt)
        heads.append(ledger.head)
        assert len(set(heads)) == 3
        assert [line.hash for line in ledger.lines()][-1] == ledger.state().head == heads[-1]


def test_a_clock_that_goes_back_grants_nothing(place: Place):
    place.create(terms_of())
    with place.open() as ledger:
        for _ in range(10):
            ask(ledger)
    with place.open(clock=long_ago) as ledger:
        with pytest.raises(BudgetExhausted):
            ask(ledger)
        ledger.end()
        assert '"time":"1970-01-01T00:00:00+00:00"' in ledger.lines()[-1].text
        assert ledger.verify().charges == 10


def test_two_who_have_it_open_see_each_other_at_once(place: Place):
    place.create(terms_of())
    with place.open() as ledger, place.open() as other:
        receipt = ask(ledger, "mine")
        assert other.state().charges == 1
        assert ask(other, "mine") == receipt
        other.redeem(receipt)
        with pytest.raises(ReceiptReused):
            ledger.redeem(receipt)
        assert ledger.head == other.head


def test_threads_that_race_for_the_last_of_a_budget_get_exactly_what_is_left(place: Place):
    with begun(place) as ledger:

        def attempt(_: int) -> str | None:
            try:
                return ask(ledger).id
            except BudgetExhausted:
                return None

        with ThreadPoolExecutor(16) as threads:
            got = [receipt for receipt in threads.map(attempt, range(48)) if receipt is not None]
        assert len(set(got)) == len(got) == 10
        assert ledger.verify().left == 0


def test_a_closed_object_answers_nothing(place: Place):
    ledger = begun(place)
    ledger.close()
    for asked in (lambda: ask(ledger), ledger.state, ledger.verify, lambda: ledger.fetch("k", analyst=None)):
        with pytest.raises(LedgerUnavailable, match="Nothing was charged"):
            asked()


def test_a_forked_process_must_open_its_own(place: Place):
    with begun(place) as ledger:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of forks beside threads
            child = os.fork()
        if child == 0:
            try:
                ask(ledger)
            except LedgerUnavailable:
                os._exit(0)
            except DodonaError:
                os._exit(2)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        ask(ledger)
        assert ledger.verify().charges == 1
