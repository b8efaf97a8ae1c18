"""The path of a question: charged, used, read, recorded, told; in this order and no other."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import cast

import pytest

from dodona.curator.curator import Curator
from dodona.errors import DodonaError, InvalidRequest, Unavailable
from dodona.lab.audit.cases.scene import ledger_of, make_curator, schema_of, source_of
from dodona.lab.audit.cases.served import COUNT, CROWD, GROUPS
from dodona.ledger.entries import Receipt
from dodona.ledger.errors import BudgetExhausted, KeyReused
from dodona.ledger.ledger import Ledger
from dodona.schema.schema import Neighbours
from dodona.trusted.source import SourceFailed
from tests.trusted.scene import Fixed, scene

SCHEMA = schema_of(Neighbours.ADD_REMOVE)
WHOLE = ["reserve", "redeem", "exact", "record"]
Ask = Callable[[Curator], object]
WAYS: dict[str, Ask] = {
    "ask": lambda curator: curator.ask(COUNT, epsilon=1),
    "ask_many": lambda curator: curator.ask_many([COUNT, GROUPS], epsilon=1),
    "ask with a key": lambda curator: curator.ask(COUNT, epsilon=1, key="one"),
    "choose": lambda curator: curator.choose(GROUPS, epsilon=1),
    "choose with a key": lambda curator: curator.choose(GROUPS, epsilon=1, key="one"),
}
EACH = pytest.mark.parametrize("ask", WAYS.values(), ids=WAYS)


def opened(*, fails: str | None = None, source: object = None) -> tuple[Curator, Ledger, list[str]]:
    ledger, recording, calls = scene(fails=fails, source=source)
    return make_curator(SCHEMA, recording, ledger), ledger, calls


@EACH
def test_a_question_is_charged_then_used_then_read_then_recorded(ask: Ask):
    curator, ledger, calls = opened()
    ask(curator)
    assert calls == WHOLE
    assert (ledger.state().charges, ledger.state().releases) == (1, 1)


@EACH
def test_what_was_told_before_is_told_again_without_a_charge_or_a_look_at_the_table(ask: Ask):
    curator, ledger, calls = opened()
    ask(curator)
    spent = ledger.state().spent
    ask(curator)
    assert calls == WHOLE
    assert ledger.state().spent == spent


@EACH
@pytest.mark.parametrize("step", ["reserve", "redeem", "record"])
def test_a_ledger_that_fails_at_any_step_ends_the_question_there(ask: Ask, step: str):
    curator, _, calls = opened(fails=step)
    with pytest.raises(OSError, match=step):
        ask(curator)
    assert calls == WHOLE[: WHOLE.index(step) + 1]


@EACH
def test_the_charge_of_a_table_that_fails_stands(ask: Ask):
    curator, ledger, calls = opened(source=Fixed(list))
    with pytest.raises(SourceFailed, match="The charge stands"):
        ask(curator)
    assert calls == WHOLE[:3]
    assert (ledger.state().charges, ledger.state().releases) == (1, 0)
    assert ledger.state().spent > 0


class Holding:
    """A ledger whose store is gone when a reservation ends."""

    def __init__(self, behind: Ledger) -> None:
        self._behind = behind

    def __getattr__(self, name: str) -> object:
        return getattr(self._behind, name)

    def let_go(self, receipt: Receipt) -> None:
        self._behind.let_go(receipt)
        raise Unavailable("The store is gone.")


@EACH
def test_an_error_at_the_end_of_a_reservation_says_that_the_charge_stands(ask: Ask):
    ledger, source, calls = scene()
    with pytest.raises(Unavailable, match="The charge stands") as fault:
        ask(make_curator(SCHEMA, source, cast("Ledger", Holding(ledger))))
    assert fault.value.charged
    assert calls == WHOLE


@EACH
def test_a_question_that_does_not_fit_the_budget_reads_nothing(ask: Ask):
    curator, ledger, calls = opened()
    for number in range(10):
        curator.ask(f"SELECT count(*) FROM stays WHERE stay > {number / 4}", epsilon=1000)  # noqa: S608  a number
    assert ledger.state().left < Fraction(1, 10_000)
    del calls[:]
    with pytest.raises(BudgetExhausted, match="Nothing was charged"):
        ask(curator)
    assert calls == ["reserve"]


def test_a_quote_a_rehearsal_of_reading_and_a_refused_question_touch_neither_ledger_nor_table():
    curator, ledger, calls = opened()
    curator.quote(COUNT, epsilon=1)
    curator.read(COUNT)
    for wrong in ("SELECT * FROM stays", "SELECT sum(sex) FROM stays", "SELECT count(*) FROM patients", "?", ""):
        with pytest.raises(InvalidRequest, match="Nothing was charged"):
            curator.ask(wrong)
    assert calls == []
    assert ledger.state().spent == 0


def test_a_watch_is_charged_once_before_its_first_question():
    curator, ledger, calls = opened()
    watch = curator.above(10**6, epsilon=1)
    assert calls == ["reserve"]
    assert not any(watch.ask(COUNT).above for _ in range(5))
    assert calls == ["reserve", "arm", *["exact"] * 5]
    assert ledger.state().charges == 1


@pytest.mark.parametrize("step", ["reserve", "arm"])
def test_a_watch_whose_charge_fails_tells_nothing(step: str):
    curator, _, calls = opened(fails=step)
    with pytest.raises(OSError, match=step):
        curator.above(3, epsilon=1).ask(COUNT)
    assert "exact" not in calls


def test_a_key_belongs_to_one_question_whichever_way_it_is_asked():
    curator, ledger, _ = opened()
    curator.ask(COUNT, epsilon=1, key="mine")
    others: tuple[Ask, ...] = (
        lambda curator: curator.ask(GROUPS, epsilon=1, key="mine"),
        lambda curator: curator.choose(GROUPS, epsilon=1, key="mine"),
    )
    for ask in others:
        with pytest.raises(KeyReused):
            ask(curator)
    assert ledger.state().charges == 1


def test_a_curator_shows_no_row_of_its_table():
    schema = schema_of(Neighbours.ADD_REMOVE)
    curator = make_curator(schema, source_of(schema, CROWD), ledger_of(schema))
    answer = curator.ask(COUNT, epsilon=1)
    with pytest.raises(DodonaError):
        curator.ask("SELECT nothing FROM stays")
    shown = " ".join(map(repr, (curator, curator.above(3, epsilon=1), answer.measured.values, curator.history)))
    assert "sealed" not in shown
    assert "array" not in shown


class Reads:
    """A ledger that notes what is asked of it."""

    def __init__(self, behind: Ledger) -> None:
        self.behind, self.names = behind, list[str]()

    def __getattr__(self, name: str) -> object:
        self.names.append(name)
        return getattr(self.behind, name)


def test_a_replay_asks_the_ledger_once_and_states_the_head_of_that_look():
    ledger = Reads(scene()[0])
    curator = make_curator(SCHEMA, scene()[1], ledger)
    first = curator.ask(COUNT, epsilon=1)
    ledger.names.clear()
    again = curator.ask(COUNT, within=1000)
    assert ledger.names == ["look"]
    assert (again.source, again.head) == ("replayed", first.head)


def test_a_release_that_was_read_before_it_was_announced_is_counted_once():
    curator, _, _ = opened()
    curator.ask(COUNT, epsilon=1)
    releases = curator._ladder.releases
    ((receipt, measured),) = releases._expected.items()
    releases.follow()
    releases.expect(receipt, measured)
    assert (releases.draws, releases._expected) == (measured.draws, {})
