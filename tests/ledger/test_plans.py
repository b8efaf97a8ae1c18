"""Declared plans in every ledger: paid for whole out of what was set aside, then served event by event."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction

import pytest

from dodona.errors import InvalidRequest, Refused
from dodona.ledger.errors import BudgetExhausted, KeyReused, NotInPlan, PlanReserveExhausted, ReceiptMismatch
from dodona.privacy.bounds import EpsilonDelta
from dodona.privacy.budget import Budget
from dodona.privacy.events import ComposedEvent, LaplaceEvent
from dodona.privacy.plans import Plan
from dodona.schema.schema import Neighbours
from tests.ledger.scene import HALF, POTTED, TENTH, WIDE, Place, answer, ask, begun, open_plan, serve, terms_of


def test_a_plan_is_paid_for_whole_and_its_events_are_served_without_a_further_charge(place: Place):
    with begun(place, terms_of(POTTED)) as ledger:
        opened = open_plan(ledger, (TENTH, 2), (HALF, 1))
        assert opened.id == ledger.head
        assert opened.cost == ledger.state().pot.taken == EpsilonDelta(Fraction(7, 10), Fraction(0))
        receipts = [serve(ledger, opened.id, event=event) for event in (TENTH, HALF, TENTH)]
        assert [receipt.plan for receipt in receipts] == [opened.id] * 3
        state = ledger.verify()
        assert (state.spent, state.left, state.charges, state.epsilon_spent) == (0, 1, 3, 0.0)
        assert state.pot.left == EpsilonDelta(Fraction(3, 10), Fraction(1, 10**6))
        assert state.pot.plans == ()
        release = answer(ledger, receipts[0])
        for _ in range(10):
            ask(ledger)
        with pytest.raises(BudgetExhausted):
            ask(ledger)
    with place.open() as again:
        assert again.released("question", "1") == (release,)
        assert again.state() == again.verify()
        assert again.state().pot.taken == opened.cost


def test_what_is_left_of_a_plan_is_there_when_the_ledger_is_opened_again(place: Place):
    with begun(place, terms_of(POTTED)) as ledger:
        opened = open_plan(ledger, (TENTH, 1), (HALF, 1), (TENTH, 2), key="mine")
        serve(ledger, opened.id)
    with place.open() as again:
        (left,) = again.state().pot.plans
        assert (left.id, left.key, left.void) == (opened.id, "mine", False)
        assert Counter(dict(left.left)) == Counter({TENTH: 2, HALF: 1})
        assert open_plan(again, (TENTH, 3), (HALF, 1), key="mine") == left


def test_an_event_that_is_not_left_in_the_plan_is_refused_and_charged_nowhere(place: Place):
    with begun(place, terms_of(POTTED)) as ledger:
        opened = open_plan(ledger, (TENTH, 1), (HALF, 1))
        serve(ledger, opened.id)
        before = ledger.state()
        near = LaplaceEvent(1, Fraction(20), Neighbours.ADD_REMOVE)
        for event in (TENTH, near, ComposedEvent(((HALF, 1),))):
            with pytest.raises(
                NotInPlan, match=r"It has: 1 × laplace distance 1 scale 2. .*Nothing was charged"
            ) as told:
                serve(ledger, opened.id, event=event)
            assert isinstance(told.value, Refused)
        assert ledger.state() == before
        serve(ledger, opened.id, event=HALF)
        with pytest.raises(NotInPlan, match="It has: nothing"):
            serve(ledger, opened.id, event=HALF)


def test_events_that_were_declared_together_are_served_together(place: Place):
    both = ComposedEvent(((TENTH, 2), (HALF, 1)))
    with begun(place, terms_of(POTTED)) as ledger:
        opened = open_plan(ledger, (both, 1))
        with pytest.raises(NotInPlan):
            serve(ledger, opened.id)
        assert serve(ledger, opened.id, event=both).event == both


def test_plans_stay_within_what_was_set_aside_in_both_numbers(place: Place):
    with begun(place, terms_of(POTTED)) as ledger:
        open_plan(ledger, (TENTH, 6))
        with pytest.raises(
            PlanReserveExhausted, match=r"costs \(ε 0.5, δ 0\).*\(ε 0.4, δ 1e-06\) is left to the dataset"
        ):
            open_plan(ledger, (HALF, 1))
        for _ in range(2):
            assert open_plan(ledger, (WIDE, 1), delta="4e-7").cost.delta == Fraction(4, 10**7)
        with pytest.raises(PlanReserveExhausted, match="δ 2e-07") as told:
            open_plan(ledger, (WIDE, 1), delta="4e-7")
        assert told.value.asked.epsilon < Fraction(1, 10) < told.value.left.epsilon
        open_plan(ledger, (TENTH, 3))
        assert ledger.verify().pot.left.epsilon < Fraction(1, 10)


def test_a_plan_of_many_events_costs_less_than_their_sum(place: Place):
    with begun(place, terms_of(Budget(6, "2e-6", "renyi", plans=(5, "1e-6")))) as ledger:
        opened = open_plan(ledger, (TENTH, 100), delta="1e-6")
        assert 4.7 < opened.cost.epsilon < 4.8
        for _ in range(100):
            serve(ledger, opened.id)
        assert ledger.verify().charges == 100


def test_the_same_key_and_plan_is_paid_for_once(place: Place):
    with begun(place, terms_of(POTTED)) as ledger:
        opened = open_plan(ledger, (TENTH, 2), key="mine")
        assert open_plan(ledger, (TENTH, 1), (TENTH, 1), key="mine") == opened
        with pytest.raises(KeyReused):
            open_plan(ledger, (TENTH, 3), key="mine")
        assert ledger.verify().pot.taken.epsilon == Fraction(1, 5)
        other = open_plan(ledger, (TENTH, 2), key="other")
        assert other.id != opened.id


def test_the_same_key_and_question_is_served_once(place: Place):
    with begun(place, terms_of(POTTED)) as ledger:
        opened, other = (open_plan(ledger, (TENTH, 2)) for _ in range(2))
        receipt = serve(ledger, opened.id, "mine")
        assert serve(ledger, opened.id, "mine") == receipt
        for taken in (lambda: serve(ledger, other.id, "mine"), lambda: ask(ledger, "mine")):
            with pytest.raises(KeyReused):
                taken()
        serve(ledger, opened.id)
        assert serve(ledger, opened.id, "mine") == receipt
        assert [dict(plan.left) for plan in ledger.verify().pot.plans] == [{TENTH: 2}]


def test_a_key_names_a_question_or_a_plan(place: Place):
    with begun(place, terms_of(POTTED)) as ledger:
        open_plan(ledger, (TENTH, 1), key="plan")
        ask(ledger, "question")
        with pytest.raises(KeyReused):
            ask(ledger, "plan")
        with pytest.raises(KeyReused):
            open_plan(ledger, (TENTH, 1), key="question")
        assert ledger.receipt("plan", analyst=None) is None
        assert ledger.fetch("plan", analyst=None) is None


def test_a_receipt_of_a_plan_is_not_one_of_the_filter(place: Place):
    with begun(place, terms_of(POTTED)) as ledger:
        receipt = serve(ledger, open_plan(ledger, (TENTH, 2)).id)
        for forged in (replace(receipt, plan=None), replace(receipt, plan="0" * 64), replace(ask(ledger), plan="p")):
            with pytest.raises(ReceiptMismatch):
                ledger.redeem(forged)
        ledger.redeem(receipt)


def test_two_who_have_it_open_share_plans_and_pot(place: Place):
    place.create(terms_of(POTTED))
    with place.open() as one, place.open() as other:
        opened = open_plan(one, (HALF, 1), key="mine")
        assert open_plan(other, (HALF, 1), key="mine") == opened
        serve(other, opened.id, event=HALF)
        with pytest.raises(NotInPlan):
            serve(one, opened.id, event=HALF)
        with pytest.raises(PlanReserveExhausted):
            open_plan(other, (TENTH, 6))


def test_threads_that_race_for_the_last_event_of_a_plan_get_it_once(place: Place):
    place.create(terms_of(POTTED))
    with place.open() as one, place.open() as other:
        opened = open_plan(one, (TENTH, 3))

        def attempt(number: int) -> str | None:
            try:
                return serve((one, other)[number % 2], opened.id).id
            except NotInPlan:
                return None

        with ThreadPoolExecutor(8) as threads:
            got = [receipt for receipt in threads.map(attempt, range(16)) if receipt is not None]
        assert len(set(got)) == len(got) == 3
        assert one.verify().charges == 3


def test_threads_that_race_for_the_last_of_the_pot_get_what_is_left(place: Place):
    place.create(terms_of(POTTED))
    with place.open() as one, place.open() as other:

        def attempt(number: int) -> str | None:
            try:
                return open_plan((one, other)[number % 2], (TENTH, 4)).id
            except PlanReserveExhausted:
                return None

        with ThreadPoolExecutor(8) as threads:
            got = [plan for plan in threads.map(attempt, range(8)) if plan is not None]
        assert len(set(got)) == len(got) == 2
        assert one.verify().pot.taken.epsilon == Fraction(4, 5)


OTHER_RELATION = LaplaceEvent(1, Fraction(10), Neighbours.REPLACE)
BAD: dict[str, dict[str, object]] = {
    "the other relation": {"plan": Plan(((OTHER_RELATION, 1),))},
    "no plan": {"plan": None},
    "parts alone": {"plan": ((TENTH, 1),)},
    "parts in a list": {"plan": Plan([(TENTH, 1)])},
    "an event of no spelling": {"plan": Plan(((type("Odd", (), {"neighbours": TENTH.neighbours})(), 1),))},
    "too many kinds": {"plan": Plan(tuple((TENTH, 1) for _ in range(1001)))},
    "no delta for Gaussian noise": {"plan": Plan(((WIDE, 1),)), "delta": 0},
    "a delta of one": {"delta": 1},
    "an empty key": {"key": ""},
    "an analyst that is a number": {"analyst": 7},
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_a_bad_plan_is_refused_and_takes_nothing(place: Place, bad: dict[str, object]):
    good = {"plan": Plan(((TENTH, 1),)), "delta": 0, "analyst": None, "key": None}
    with begun(place, terms_of(POTTED)) as ledger:
        with pytest.raises(InvalidRequest):
            ledger.open_plan(**good | bad)
        for plan in ("", 7, ["p"]):
            with pytest.raises(InvalidRequest):
                serve(ledger, plan)
        ledger.open_plan(**good)
        assert ledger.verify().pot.taken == EpsilonDelta(Fraction(1, 10), Fraction(0))
