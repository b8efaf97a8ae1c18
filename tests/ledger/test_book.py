"""A chain that breaks a rule is not believed, even when every hash in it is right."""

import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dodona.errors import DodonaError
from dodona.ledger import memory
from dodona.ledger.book import Book
from dodona.ledger.entries import (
    GENESIS_HASH,
    AnalystStopped,
    BudgetRaised,
    Charged,
    Created,
    Entry,
    LedgerClosed,
    Line,
    ReadFailed,
    Redeemed,
    Release,
    Released,
    UnknownEntry,
    entry_from_json,
    entry_to_json,
    line_after,
)
from dodona.ledger.errors import BudgetExhausted, LedgerNewer, LedgerUnreadable
from dodona.ledger.keeper import read_book
from dodona.ledger.opening import first_line
from dodona.privacy.budget import Analyst, Budget
from dodona.privacy.events import GaussianEvent
from dodona.schema.schema import Neighbours
from tests.ledger.scene import TENTH, ask, long_ago, terms_of

CREATED = entry_from_json(first_line(terms_of(), clock=long_ago).text, number=0)
CHARGE = Charged("stays", None, None, "question", "1", TENTH)


def chain(*entries: Entry) -> list[Line]:
    """The lines of these entries, with right hashes, whatever they say."""
    lines: list[Line] = []
    for entry in entries:
        number, previous = (lines[-1].number, lines[-1].hash) if lines else (-1, GENESIS_HASH)
        lines.append(line_after(number, previous, entry, time="now"))
    return lines


def charged() -> str:
    """The id of the receipt of a first charge."""
    return chain(CREATED, CHARGE)[-1].hash


def release() -> Released:
    return Released(Release(receipt=charged(), values=(1,), mechanism="laplace"), 1)


def test_a_chain_that_keeps_the_rules_is_read():
    book = read_book(chain(CREATED, CHARGE, Redeemed(charged(), 1), release(), *[CHARGE] * 9, LedgerClosed()))
    assert book.state().left == 0


def failed(times: int) -> list[Entry]:
    """Uses under which the table could not be read: each names the line before that lets it be used."""
    lines = [1, *range(3, 2 * times + 1, 2)]
    return [entry for line in lines for entry in (Redeemed(charged(), line), ReadFailed(charged(), line))]


@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_receipt_is_used_again_after_the_table_could_not_be_read(times: int):
    after = 2 * times + 1
    released = replace(release(), charge=after)
    book = read_book(chain(CREATED, CHARGE, *failed(times), Redeemed(charged(), after), released))
    assert (book.state().charges, book.state().releases) == (1, 1)


USED = (Redeemed(charged(), 1),)
BROKEN: dict[str, Callable[[], list[Entry]]] = {
    "more charges than the budget": lambda: [CREATED, *[CHARGE] * 11],
    "a charge after the end": lambda: [CREATED, LedgerClosed(), CHARGE],
    "a receipt used twice": lambda: [CREATED, CHARGE, Redeemed(charged(), 1), Redeemed(charged(), 1)],
    "two releases for a receipt": lambda: [CREATED, CHARGE, Redeemed(charged(), 1), release(), release()],
    "a release before its use": lambda: [CREATED, CHARGE, release()],
    "a use of nothing": lambda: [CREATED, Redeemed("0" * 64, 1)],
    "a use of another line": lambda: [CREATED, CHARGE, Redeemed(charged(), 0)],
    "a release of another line": lambda: [CREATED, CHARGE, Redeemed(charged(), 1), replace(release(), charge=0)],
    "a failure to read before its use": lambda: [CREATED, CHARGE, ReadFailed(charged(), 1)],
    "a failure to read after its release": lambda: [CREATED, CHARGE, *USED, release(), ReadFailed(charged(), 1)],
    "a second use that names its charge": lambda: [CREATED, CHARGE, *USED, ReadFailed(charged(), 1), *USED],
    "a release that names what failed": lambda: [CREATED, CHARGE, *USED, ReadFailed(charged(), 1), release()],
    "a fourth failure to read": lambda: [CREATED, CHARGE, *failed(4)],
    "two creations": lambda: [CREATED, CREATED],
    "no creation": lambda: [CHARGE],
    "a key charged twice": lambda: [CREATED, *[replace(CHARGE, key="k")] * 2],
    "a charge by a stranger": lambda: [CREATED, replace(CHARGE, analyst="ada")],
    "a charge to a stranger": lambda: [CREATED, replace(CHARGE, dataset="visits")],
    "a stranger stopped": lambda: [CREATED, AnalystStopped("ada")],
    "a budget that falls": lambda: [CREATED, BudgetRaised(Fraction(1, 2), Fraction(0), 0)],
    "a budget raised by nothing": lambda: [CREATED, BudgetRaised(Fraction(1), Fraction(0), 0)],
    "a limit that does not follow": lambda: [renyi(limit=1)],
    "a raised limit that does not follow": lambda: [renyi(), BudgetRaised(Fraction(2), Fraction(1, 10**6), 1 << 80)],
    "an order that is not the limit's": lambda: [renyi(order=Fraction(2))],
    "no order": lambda: [renyi(order=None)],
    "no table": lambda: [replace(CREATED, datasets=())],
    "a table twice": lambda: [replace(CREATED, datasets=(("a", "x"), ("a", "y")))],
}


def renyi(**changed: object) -> Created:
    budget = Budget(1, "1e-6", "renyi")
    whole = budget.filter()
    made = replace(CREATED, budget=budget, order=whole.order, limit=whole.limit)
    return replace(made, **changed)


@pytest.mark.parametrize("entries", BROKEN.values(), ids=BROKEN)
def test_a_chain_that_breaks_a_rule_is_refused(entries: Callable[[], list[Entry]]):
    with pytest.raises(LedgerUnreadable):
        read_book(chain(*entries()))


def test_an_entry_that_is_refused_leaves_the_book_as_it_was():
    book = read_book(chain(replace(CREATED, analysts=(Analyst("ada", "1/2"),))))
    before = book.state()
    raised = BudgetRaised(Fraction(1), Fraction(0), 0)
    for entry in (CHARGE, Redeemed("0" * 64, 1), AnalystStopped("eve"), raised, CREATED):
        with pytest.raises(DodonaError):
            book.write(entry, time="now")
        assert book.state() == before


def test_lines_left_out_swapped_or_altered_are_noticed():
    lines = chain(CREATED, CHARGE, CHARGE, LedgerClosed())
    assert read_book(lines).closed
    altered = [
        [],
        lines[1:],
        [lines[0], *lines[2:]],
        [lines[0], lines[2], lines[1], lines[3]],
        [*lines[:3], replace(lines[3], number=4)],
        [*lines[:3], replace(lines[3], previous=GENESIS_HASH)],
        [*lines[:3], replace(lines[3], text=lines[3].text.replace("now", "then"))],
        [*lines[:3], replace(lines[3], hash=GENESIS_HASH)],
        [*lines, lines[3]],
    ]
    for changed in altered:
        with pytest.raises(LedgerUnreadable):
            read_book(changed)


def test_a_ledger_of_a_newer_format_says_so_and_is_not_called_damaged():
    with pytest.raises(LedgerNewer, match="do not recover"):
        read_book(chain(replace(CREATED, format=3)))


SPELLINGS = [
    lambda fields: fields | {"more": 1},
    lambda fields: {name: value for name, value in fields.items() if name != "version"},
    lambda fields: fields | {"entry": "unheard-of"},
    lambda fields: fields | {"number": 2},
    lambda fields: fields | {"event": {"event": "unheard-of"}},
    lambda fields: fields | {"event": fields["event"] | {"scale": "10/1"}},
    lambda fields: fields | {"key": 1},
    lambda fields: fields | {"time": 0},
    lambda fields: [fields],
]


@pytest.mark.parametrize("change", SPELLINGS)
def test_an_entry_has_one_spelling(change: Callable[[dict[str, object]], object]):
    text = entry_to_json(CHARGE, number=1, time="now")
    assert entry_from_json(text, number=1) == CHARGE
    changed = json.dumps(change(json.loads(text)), sort_keys=True, separators=(",", ":"))
    for wrong in (changed, text + " ", text.replace(",", ", "), "", "null", "[" * 5000):
        with pytest.raises(UnknownEntry):
            entry_from_json(wrong, number=1)


words = st.text(min_size=1, max_size=20)


@given(words, words, st.none() | words, st.lists(st.integers() | st.fractions(), max_size=5))
def test_what_is_spelled_is_read_again(purpose: str, version: str, key: str | None, values: list[int | Fraction]):
    charge = replace(CHARGE, purpose=purpose, version=version, key=key)
    answer = Released(Release(receipt="r", values=tuple(values), mechanism=purpose), 3)
    for entry in (charge, answer):
        parsed = entry_from_json(entry_to_json(entry, number=5, time=version), number=5)
        assert parsed == entry
    assert [type(value) for value in parsed.release.values] == [type(value) for value in values]


def test_the_relation_is_part_of_the_terms():
    replaced = replace(CREATED, neighbours=Neighbours.REPLACE)
    with pytest.raises(LedgerUnreadable):
        Book.read(chain(replaced, CHARGE))


@pytest.mark.parametrize("accountant", ["zcdp", "renyi", "either"])
@pytest.mark.parametrize(("epsilon", "delta"), [(".1", ".01"), (".01", "1e-3"), ("1", ".5"), ("1e-3", "1e-3")])
def test_a_budget_whose_delta_is_near_its_epsilon_has_a_state_when_it_is_spent(epsilon, delta, accountant):
    kept = memory.create_memory_ledger(terms_of(Budget(epsilon, delta, accountant)))
    event = GaussianEvent(1, Fraction(4**11), Neighbours.ADD_REMOVE)
    while event.variance > 1:  # ever dearer ones: what is left is used up to the last
        try:
            ask(kept, event=event)
        except BudgetExhausted:
            break
        event = replace(event, variance=event.variance / 2)
    state = kept.state()
    assert state.spent > 0
    assert 0 < state.epsilon_spent <= float(Fraction(epsilon))
    assert Book.read(kept.lines()).state() == state
