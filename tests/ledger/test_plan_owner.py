"""Plans and the owner's acts in every ledger: shares of the pot, stopping, raising, closing and recovering."""

from fractions import Fraction

import pytest

from dodona.ledger.errors import BudgetExhausted, NotPermitted, PlanReserveExhausted, PlanVoid, ReceiptVoid
from dodona.privacy.bounds import EpsilonDelta
from dodona.privacy.budget import Analyst
from tests.ledger.scene import HALF, POTTED, TENTH, Place, answer, ask, begun, open_plan, serve, terms_of


def test_without_a_part_set_aside_no_plan_is_opened(place: Place):
    with begun(place) as ledger:
        with pytest.raises(PlanReserveExhausted):
            open_plan(ledger, (TENTH, 1))
        assert ledger.verify().pot.total == EpsilonDelta(Fraction(0), Fraction(0))


def test_an_analyst_opens_plans_up_to_their_share(place: Place):
    with begun(place, terms_of(POTTED, Analyst("ada", "1/2"), Analyst("bob", "4/5"))) as ledger:
        open_plan(ledger, (TENTH, 4), analyst="ada")
        with pytest.raises(PlanReserveExhausted, match=r"\(ε 0.1, δ 5e-07\) is left to ada"):
            open_plan(ledger, (TENTH, 2), analyst="ada")
        with pytest.raises(PlanReserveExhausted, match="left to the dataset"):
            open_plan(ledger, (TENTH, 7), analyst="bob")
        open_plan(ledger, (TENTH, 6), analyst="bob")
        ledger.admit(Analyst("ada", "1/10"))
        with pytest.raises(PlanReserveExhausted):
            open_plan(ledger, (TENTH, 1), analyst="ada")
        state = ledger.verify()
        assert {one.name: one.plans.epsilon for one in state.analysts} == {"ada": Fraction(2, 5), "bob": Fraction(3, 5)}
        assert [one.spent for one in state.analysts] == [0, 0]


def test_only_the_one_who_opened_a_plan_may_use_it(place: Place):
    with begun(place, terms_of(POTTED, Analyst("ada"), Analyst("bob"))) as ledger:
        opened = open_plan(ledger, (TENTH, 2), analyst="ada")
        for stranger in ("bob", "eve", None):
            with pytest.raises(NotPermitted):
                serve(ledger, opened.id, analyst=stranger)
        for unknown in ("0" * 64, opened.id[:12]):
            with pytest.raises(NotPermitted):
                serve(ledger, unknown, analyst="ada")
        for stranger in ("eve", None):
            with pytest.raises(NotPermitted):
                open_plan(ledger, (TENTH, 1), analyst=stranger)
        ledger.stop("ada")
        for refused in (
            lambda: serve(ledger, opened.id, analyst="ada"),
            lambda: open_plan(ledger, (TENTH, 1), analyst="ada"),
        ):
            with pytest.raises(NotPermitted, match="stopped"):
                refused()
        ledger.admit(Analyst("ada"))
        serve(ledger, opened.id, analyst="ada")
        assert ledger.verify().charges == 1


def test_after_a_recovery_plans_are_void_and_the_pot_is_spent(place: Place):
    with begun(place, terms_of(POTTED)) as ledger:
        opened = open_plan(ledger, (TENTH, 3), key="mine")
        told = answer(ledger, serve(ledger, opened.id, "told"))
        unused = serve(ledger, opened.id)
    place.recover()
    with place.open() as ledger:
        state = ledger.verify()
        assert (state.pot.taken, state.pot.plans) == (state.pot.total, ())
        assert state.pot.left == EpsilonDelta(Fraction(0), Fraction(0))
        with pytest.raises(PlanVoid):
            serve(ledger, opened.id)
        with pytest.raises(PlanReserveExhausted):
            open_plan(ledger, (TENTH, 1))
        with pytest.raises(ReceiptVoid):
            ledger.redeem(unused)
        void = open_plan(ledger, (TENTH, 3), key="mine")
        assert (void.void, void.left) == (True, ())
        assert ledger.fetch("told", analyst=None) == told
        ledger.raise_budget(3, "1e-6")
        ask(ledger)
        with pytest.raises(PlanReserveExhausted):
            open_plan(ledger, (TENTH, 1))


def test_a_raised_budget_leaves_the_pot_as_it_was(place: Place):
    with begun(place, terms_of(POTTED)) as ledger:
        open_plan(ledger, (HALF, 1))
        pot = ledger.state().pot
        ledger.raise_budget(3, "1e-6")
        assert ledger.verify().pot == pot
        with pytest.raises(PlanReserveExhausted):
            open_plan(ledger, (HALF, 2))
        for _ in range(20):
            ask(ledger)
        with pytest.raises(BudgetExhausted):
            ask(ledger)


def test_a_closed_ledger_opens_and_serves_nothing(place: Place):
    with begun(place, terms_of(POTTED)) as ledger:
        opened = open_plan(ledger, (TENTH, 2))
        ledger.end()
        for refused in (lambda: open_plan(ledger, (TENTH, 1)), lambda: serve(ledger, opened.id)):
            with pytest.raises(NotPermitted, match="closed"):
                refused()
