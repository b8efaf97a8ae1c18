"""The owner's limits on spending: by question and by day, and approvals above them."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pytest

from dodona.errors import InvalidArgument
from dodona.ledger.entries import ApprovalDecided, ApprovalRequested, LimitsSet, entry_from_json, entry_to_json
from dodona.ledger.errors import DaySpent, NotPermitted, PriceAboveLimit
from dodona.ledger.ledger import Ledger
from dodona.ledger.limits import MOST_OPEN_REQUESTS, NO_LIMITS, Limits, make_limits
from dodona.ledger.memory import create_memory_ledger
from dodona.privacy.budget import Analyst, Budget
from dodona.privacy.events import LaplaceEvent
from dodona.schema.schema import Neighbours
from tests.ledger.scene import FilePlace, Place, answer, ask, begun, terms_of


def laplace(scale: int) -> LaplaceEvent:
    """Return an event that costs a pure ε of one over the scale."""
    return LaplaceEvent(1, Fraction(scale), Neighbours.ADD_REMOVE)


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        """Begin in the morning."""
        self.now = datetime(2026, 11, 17, 8, tzinfo=UTC)

    def __call__(self) -> datetime:
        """Return the time."""
        return self.now


def opened(limits: Limits, clock: Clock | None = None) -> Ledger:
    terms = terms_of(Budget(1, 0, "pure"), Analyst("ada"), Analyst("bob"))
    ledger = create_memory_ledger(terms, clock=clock or Clock())
    ledger.set_limits(limits)
    return ledger


@pytest.mark.parametrize(
    "entry",
    [
        LimitsSet(make_limits(question="2%", analyst_day="1/10", approvals=True)),
        LimitsSet(Limits()),
        ApprovalRequested("stays", "ada", "k", "ab" * 32, Fraction(1, 7), "SELECT 1"),
        ApprovalDecided("ab" * 32, granted=False, by="olga"),
    ],
)
def test_entries_survive_json(entry):
    assert entry_from_json(entry_to_json(entry, number=3, time="now"), number=3) == entry


@pytest.mark.parametrize("wrong", [{"question": "200%"}, {"analyst_day": 0}, {"dataset_day": "x"}])
def test_a_limit_is_a_share_of_the_budget(wrong):
    with pytest.raises(InvalidArgument):
        make_limits(**wrong)


def test_a_question_above_its_limit_is_refused_and_costs_nothing(place: Place):
    with begun(place, terms_of(Budget(1, 0, "pure"))) as ledger:
        ledger.set_limits(make_limits(question="15%"))
        with pytest.raises(PriceAboveLimit, match=r"20% of the budget; the owner allows 15% \(one question\)"):
            ask(ledger, event=laplace(5))
        assert ledger.state().spent == 0
        ask(ledger, event=laplace(10))
        assert ledger.verify().spent == Fraction(1, 10)


def test_limits_last_through_reopening(place: Place):
    terms = terms_of(Budget(1, 0, "pure"))
    with begun(place, terms) as ledger:
        ledger.set_limits(make_limits(dataset_day="1/5"))
        ask(ledger, event=laplace(5))
    with place.open() as ledger:
        assert ledger.limits == make_limits(dataset_day="1/5")
        with pytest.raises(PriceAboveLimit, match="the rest of the dataset's day"):
            ask(ledger, event=laplace(10))


def test_an_analyst_spends_so_much_a_day_and_others_are_not_held_back():
    clock = Clock()
    ledger = opened(make_limits(analyst_day="1/5"), clock)
    ask(ledger, analyst="ada", event=laplace(5))
    with pytest.raises(PriceAboveLimit, match="analyst's day"):
        ask(ledger, analyst="ada", event=laplace(10))
    ask(ledger, analyst="bob", event=laplace(10))
    clock.now += timedelta(days=1)
    ask(ledger, analyst="ada", event=laplace(5))
    assert ledger.verify().spent == Fraction(1, 2)


def test_all_together_spend_so_much_a_day():
    ledger = opened(make_limits(dataset_day="1/5"))
    ask(ledger, analyst="ada", event=laplace(10))
    ask(ledger, analyst="bob", event=laplace(10))
    with pytest.raises(PriceAboveLimit, match="dataset's day"):
        ask(ledger, analyst="ada", event=laplace(10))


def test_a_clock_that_goes_back_grants_nothing():
    clock = Clock()
    ledger = opened(make_limits(analyst_day="1/5"), clock)
    ask(ledger, analyst="ada", event=laplace(5))
    clock.now -= timedelta(days=3650)
    with pytest.raises(PriceAboveLimit):
        ask(ledger, analyst="ada", event=laplace(10))


def test_an_owner_can_correct_a_day_that_a_clock_put_ahead():
    clock = Clock()
    ledger = opened(make_limits(analyst_day="1/5"), clock)
    clock.now += timedelta(days=3650)
    ask(ledger, analyst="ada", event=laplace(5))
    clock.now -= timedelta(days=3649)
    with pytest.raises(PriceAboveLimit):
        ask(ledger, analyst="ada", event=laplace(10))
    ledger.set_limits(make_limits(analyst_day="1/5"))
    ask(ledger, analyst="ada", event=laplace(10))


# --- What a caller allows itself on a day. ---


def test_a_caller_spends_no_more_on_a_day_than_it_allowed_itself_in_whatever_way():
    clock = Clock()
    ledger = opened(NO_LIMITS, clock)
    held = ledger.within_day(Fraction(1, 5))
    ask(ledger, analyst="ada", event=laplace(10))  # through another door
    ask(ledger, analyst="bob", event=laplace(5))
    bought = ask(held, "last", analyst="ada", event=laplace(10))
    with pytest.raises(DaySpent, match=r"less than 0\.0001|0%") as refused:
        ask(held, analyst="ada", event=laplace(100))
    assert (refused.value.price, refused.value.most, refused.value.charged) == (Fraction(1, 100), 0, False)
    assert ask(held, "last", analyst="ada", event=laplace(10)) == bought  # which is not charged again
    ask(ledger, analyst="ada", event=laplace(100))
    clock.now += timedelta(days=1)
    ask(held, analyst="ada", event=laplace(5))
    clock.now -= timedelta(days=3650)
    with pytest.raises(DaySpent):
        ask(held, analyst="ada", event=laplace(100))


@pytest.mark.parametrize("every", [2, 1000])
def test_a_caller_s_day_has_what_was_charged_before_a_checkpoint_and_by_other_processes(tmp_path, every):
    place = FilePlace(tmp_path / "ledger", checkpoint_every=every)
    place.create(terms_of(Budget(1, 0, "pure"), Analyst("ada"), Analyst("bob")))
    with place.open() as ledger:
        for number in range(3):
            answer(ledger, ask(ledger, analyst="ada", event=laplace(20), purpose=f"of {number}"), 1)
            answer(ledger, ask(ledger, analyst="bob", event=laplace(20), purpose=f"of {number}"), 1)
    with place.open() as first, place.open() as second:
        ask(first.within_day(Fraction(1, 5)), analyst="ada", event=laplace(20))
        with pytest.raises(DaySpent):
            ask(second.within_day(Fraction(1, 5)), analyst="ada", event=laplace(20))
        ask(second.within_day(Fraction(1, 4)), analyst="ada", event=laplace(20))


def test_callers_who_ask_at_once_take_no_more_than_a_day_together(place: Place):
    terms = terms_of(Budget(1, 0, "pure"), Analyst("ada"))

    def attempt(number: int) -> bool:
        try:
            ask(held, analyst="ada", event=laplace(20), purpose=f"of {number}")
        except DaySpent:
            return False
        return True

    with begun(place, terms) as ledger, ThreadPoolExecutor(8) as pool:
        held = ledger.within_day(Fraction(1, 4))
        assert sum(pool.map(attempt, range(16))) == 5
        assert ledger.state().spent == Fraction(1, 4)


def requested(ledger: Ledger, key: str = "big", share: Fraction = Fraction(1, 2)):
    return ledger.request_approval(analyst="ada", key=key, question="ab" * 32, share=share, text="SELECT count(*)")


def test_an_approved_question_passes_the_limits_once_and_no_dearer():
    ledger = opened(make_limits(question="1/10", approvals=True))
    request = requested(ledger, share=Fraction(1, 4))
    assert request.state == "waiting"
    with pytest.raises(PriceAboveLimit):
        ask(ledger, "big", analyst="ada", event=laplace(4))
    assert ledger.decide(request.id, granted=True, by="olga").state == "granted"
    with pytest.raises(PriceAboveLimit, match="olga approved it"):
        ask(ledger, "big", analyst="ada", event=laplace(2))
    with pytest.raises(PriceAboveLimit):
        ask(ledger, "big", analyst="bob", event=laplace(4))
    ask(ledger, "big", analyst="ada", event=laplace(4))
    (kept,) = ledger.approval_requests()
    assert (kept.state, kept.decided_by, kept.analyst) == ("used", "olga", "ada")
    with pytest.raises(PriceAboveLimit):
        ask(ledger, "other", analyst="ada", event=laplace(4))


def test_a_decision_is_final():
    ledger = opened(make_limits(question="1/10", approvals=True))
    request = requested(ledger)
    ledger.decide(request.id, granted=False, by="olga")
    with pytest.raises(InvalidArgument, match="olga decided it before"):
        ledger.decide(request.id, granted=True, by="oscar")
    with pytest.raises(PriceAboveLimit):
        ask(ledger, "big", analyst="ada", event=laplace(2))
    assert requested(ledger) == ledger.approval_requests()[0]


def test_requests_need_an_owner_who_takes_them_and_are_bounded():
    ledger = opened(make_limits(question="1/10"))
    with pytest.raises(NotPermitted, match="takes no requests"):
        requested(ledger)
    ledger.set_limits(make_limits(question="1/10", approvals=True))
    for number in range(MOST_OPEN_REQUESTS):
        requested(ledger, key=f"k{number}")
    with pytest.raises(NotPermitted, match="wait for the owner"):
        requested(ledger, key="one more")
    with pytest.raises(InvalidArgument, match="id of a request"):
        ledger.decide("cd" * 32, granted=True, by="olga")
    assert ledger.state().spent == 0
