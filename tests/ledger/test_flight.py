"""One question at one time is one charge: callers who ask the same share it, and the dead are not waited for."""

from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from dodona.ledger.errors import AnswerInterrupted, AskedElsewhere, NotPermitted
from dodona.ledger.head import HeadFile
from dodona.ledger.ledger import Ledger
from dodona.ledger.opening import default_head_path, open_existing
from dodona.ledger.sqlite import SqliteStore
from dodona.ledger.store import Reservation
from dodona.privacy.budget import Analyst
from tests.ledger import drill
from tests.ledger.processes import Say, forked
from tests.ledger.scene import (
    HALF,
    PLACES,
    PURE_ONE,
    TENTH,
    FilePlace,
    MemoryPlace,
    Place,
    answer,
    shared_server,
    terms_of,
)

KINDS = ["sqlite", "postgres"]


def once(ledger: Ledger, key: str | None = None, *, seen: int | None = 0, **changed: object) -> Reservation | None:
    """Reserve with what matters to the test alone."""
    asked = {"event": TENTH, "analyst": None, "purpose": "question", "version": "1"} | changed
    event = asked.pop("event")
    return ledger.reserve_once(event, key=key, seen=seen, **asked)  # type: ignore[arg-type]


def held(ledger: Ledger, key: str | None = None, **changed: object) -> Reservation:
    """A reservation that must be got."""
    reservation = once(ledger, key, **changed)
    assert reservation is not None
    return reservation


def two(place: Place) -> tuple[Ledger, Ledger]:
    place.create(terms_of())
    return place.open(), place.open()


def later(
    pool: ThreadPoolExecutor, ledger: Ledger, key: str | None = None, **changed: object
) -> "Future[Reservation | None]":
    """Another caller, who has to wait."""
    waiting = pool.submit(once, ledger, key, **changed)  # type: ignore[arg-type]
    with pytest.raises(TimeoutError):
        waiting.result(timeout=0.05)
    return waiting


@pytest.mark.parametrize("keys", [(None, None), ("one", None), (None, "two"), ("one", "two"), ("one", "one")])
def test_whoever_asks_what_is_being_answered_waits_and_pays_nothing(place: Place, keys: tuple[str | None, str | None]):
    first, second = two(place)
    reserved = held(first, keys[0])
    with ThreadPoolExecutor() as pool:
        others = [later(pool, first, keys[1]), later(pool, second, keys[1])]
        answer(first, reserved.receipt)
        assert [other.result(timeout=60) for other in others] == [None, None]
    assert once(second) is None  # told since
    assert second.verify().charges == 1
    assert not held(second, seen=1).taken_over
    assert second.state().charges == 2
    first.close()
    second.close()


@pytest.mark.parametrize(
    "ends", [lambda first, reserved: first.let_go(reserved.receipt), lambda first, _: first.close()]
)
def test_a_charge_that_its_caller_left_unused_is_taken_over(place: Place, ends):
    first, second = two(place)
    reserved = held(first, "one")
    ends(first, reserved)
    taken = held(second)
    assert (taken.taken_over, taken.receipt) == (True, reserved.receipt)
    answer(second, taken.receipt, 7)
    again = second.fetch("one", analyst=None)
    assert again is not None
    assert again.values == (7,)  # whoever was charged gets what it bought
    assert second.verify().charges == 1
    first.close()
    second.close()


def test_a_charge_that_was_used_and_lost_is_neither_waited_for_nor_used_again(place: Place):
    first, second = two(place)
    reserved = held(first, "one")
    first.redeem(reserved.receipt)
    first.let_go(reserved.receipt)
    other = held(second)
    assert (other.taken_over, other.receipt.id == reserved.receipt.id) == (False, False)
    with pytest.raises(AnswerInterrupted) as lost:
        once(second, "one")
    assert lost.value.charged
    assert second.verify().charges == 2
    first.close()
    second.close()


OVERLAPPING = {"purpose": "a part", "overlaps": lambda purpose: purpose == "question"}
"""What may be answered by the question, and not the other way round."""


@pytest.mark.parametrize("changed", [{"event": HALF}, OVERLAPPING])
def test_whoever_asks_what_may_be_answered_too_waits_and_looks_again(place: Place, changed: dict[str, object]):
    """With other noise or as a part of more: what others were charged can change how a caller plans the same."""
    first, second = two(place)
    reserved = held(first)
    with ThreadPoolExecutor() as pool:
        others = [later(pool, ledger, **changed) for ledger in (first, second)]
        answer(first, reserved.receipt)
        assert [other.result(timeout=60) for other in others] == [None, None]
    assert once(second, **changed) is None  # released since
    assert second.verify().charges == 1
    assert not held(second, seen=1, **changed).taken_over
    first.close()
    second.close()


@pytest.mark.parametrize("changed", [{"event": HALF}, OVERLAPPING])
def test_a_charge_for_something_else_that_its_caller_left_is_neither_waited_for_nor_taken_over(
    place: Place, changed: dict[str, object]
):
    first, second = two(place)
    first.let_go(held(first).receipt)
    assert not held(second, **changed).taken_over
    assert second.state().charges == 2
    first.close()
    second.close()


@pytest.mark.parametrize("changed", [{"purpose": "another"}, {"version": "2"}, {"seen": None}])
def test_what_is_not_the_same_is_not_shared(place: Place, changed: dict[str, object]):
    first, second = two(place)
    held(first)
    assert not held(second, **changed).taken_over
    assert second.state().charges == 2
    first.close()
    second.close()


def test_what_was_reserved_without_sharing_is_not_taken_over_while_it_is_used(place: Place):
    first, second = two(place)
    first.reserve(TENTH, analyst=None, key=None, purpose="question", version="1")
    with ThreadPoolExecutor() as pool:
        waiting = later(pool, second)
        first.close()
        assert waiting.result(timeout=60) is None
    assert held(second).taken_over
    second.close()


def test_whoever_may_not_spend_takes_nothing_over(place: Place):
    place.create(terms_of(PURE_ONE, Analyst("ada"), Analyst("bob")))
    ledger = place.open()
    ledger.let_go(held(ledger, analyst="ada").receipt)
    ledger.stop("bob")
    for nobody in ("bob", "eve", None):
        with pytest.raises(NotPermitted):
            once(ledger, analyst=nobody)
    ledger.close()


def test_what_is_older_than_a_recovery_is_not_taken_over(place: Place):
    place.create(terms_of())
    with place.open() as ledger:
        held(ledger)
    place.recover()
    with place.open() as ledger:
        ledger.raise_budget(2, 0)
        assert not held(ledger).taken_over


def test_nobody_waits_for_ever(tmp_path: Path):
    place = FilePlace(tmp_path)
    place.create(terms_of())
    with place.open() as first:
        held(first)
        store = SqliteStore(place.path)
        second = open_existing(store, HeadFile(default_head_path(place.path)), patience=0.01)
        with pytest.raises(AskedElsewhere) as refused:
            once(second)
        assert not refused.value.charged
        second.close()


def test_many_threads_share_one_charge():
    ledger = MemoryPlace()
    ledger.create(terms_of())
    kept = ledger.open()
    reserved = held(kept)
    with ThreadPoolExecutor(16) as pool:
        others = [pool.submit(once, kept) for _ in range(16)]
        answer(kept, reserved.receipt)
        assert {other.result(timeout=60) for other in others} == {None}
    assert kept.state().charges == 1


def _dies(place: Place, used: bool, say: Say) -> None:  # noqa: FBT001
    ledger = place.open()
    reserved = held(ledger)
    if used:
        ledger.redeem(reserved.receipt)
    say(reserved.receipt.id)
    while True:
        ledger.head  # noqa: B018  alive and at work until it is killed


@pytest.mark.parametrize("used", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_who_waits_for_a_process_that_is_killed_goes_on(kind: str, used: bool, tmp_path: Path):  # noqa: FBT001
    place = PLACES[kind](tmp_path)
    place.create(terms_of())
    child = forked(partial(_dies, place, used))
    receipt = child.first_word()
    ledger = place.open()
    with ThreadPoolExecutor() as pool:
        waiting = later(pool, ledger)
        child.kill()
        assert waiting.result(timeout=60) is None
    child.finish()
    after = held(ledger)
    assert after.taken_over is not used
    assert (after.receipt.id == receipt) is not used
    answer(ledger, after.receipt)
    assert ledger.verify().charges == 1 + used
    ledger.close()


def flights(kind: str, folder: Path, count: int) -> None:
    server = ["--server", shared_server().address] if kind == "postgres" else []
    tally = drill.run("flight", "--folder", str(folder), "--count", str(count), *server)
    assert tally.pop("rounds") == count
    assert tally.pop("answers") == 12 * count
    assert set(tally.values()) == {0}


@pytest.mark.parametrize("kind", KINDS)
def test_processes_that_ask_one_thing_at_once_share_one_charge_though_one_is_killed(kind: str, tmp_path: Path):
    flights(kind, tmp_path, 5)


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
def test_many_flights_share_one_charge_each_though_one_is_killed(kind: str, tmp_path: Path):
    flights(kind, tmp_path, 100)
