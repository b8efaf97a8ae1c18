"""Ask, use, answer, crash, restart, replay and race in any order: what the model says is what the ledger says."""

import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from dodona.ledger.book import MOST_FAILURES
from dodona.ledger.entries import Receipt, Release
from dodona.ledger.errors import (
    AnswerInterrupted,
    BudgetExhausted,
    KeyReused,
    ReceiptReused,
)
from dodona.ledger.ledger import Ledger
from dodona.privacy.budget import Analyst, Budget
from dodona.privacy.events import LaplaceEvent
from dodona.schema.schema import Neighbours
from tests.ledger.scene import PLACES, Place, terms_of

KEYS = [f"key {number}" for number in range(6)]
EPSILONS = [Fraction(1, 10), Fraction(1, 5), Fraction(2, 5)]
SHARES = {"ada": Fraction(1, 2), "bob": Fraction(4, 5)}


def event_of(epsilon: Fraction) -> LaplaceEvent:
    return LaplaceEvent(1, 1 / epsilon, Neighbours.ADD_REMOVE)


class Machine(RuleBasedStateMachine):
    """A model of a few dictionaries beside the ledger."""

    kind = "memory"

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.place: Place = PLACES[self.kind](Path(self.folder.name))
        self.dropped: list[Ledger] = []
        self.races = 0
        self.total = Fraction(1)
        self.charged: dict[tuple[str, str], Receipt] = {}
        self.redeemed: set[str] = set()
        self.failures: Counter[str] = Counter()
        self.recorded: dict[str, Release] = {}

    @initialize()
    def create(self) -> None:
        analysts = [Analyst(name, share) for name, share in SHARES.items()]
        self.place.create(terms_of(Budget(1, 0, "pure"), *analysts))
        self.ledger = self.place.open()

    def teardown(self) -> None:
        for ledger in [*self.dropped, self.ledger]:
            ledger.close()
        self.folder.cleanup()

    def spent(self, analyst: str | None = None) -> Fraction:
        return sum(
            (receipt.event.epsilon for receipt in self.charged.values() if analyst in {None, receipt.analyst}),
            Fraction(0),
        )

    def fits(self, analyst: str, epsilon: Fraction) -> bool:
        within_share = self.spent(analyst) + epsilon <= SHARES[analyst] * self.total
        return within_share and self.spent() + epsilon <= self.total

    def used(self) -> list[Receipt]:
        """Return the redeemed receipts in the order of their charges: their ids are new in each run of an example."""
        return [receipt for receipt in self.charged.values() if receipt.id in self.redeemed]

    @rule(analyst=st.sampled_from(sorted(SHARES)), key=st.sampled_from(KEYS), epsilon=st.sampled_from(EPSILONS))
    def ask(self, analyst: str, key: str, epsilon: Fraction) -> None:
        known = self.charged.get((analyst, key))
        try:
            receipt = self.ledger.reserve(event_of(epsilon), analyst=analyst, key=key, purpose=key, version="1")
        except KeyReused:
            assert known is not None
            assert known.event.epsilon != epsilon
        except BudgetExhausted:
            assert known is None
            assert not self.fits(analyst, epsilon)
        else:
            if known is None:
                assert self.fits(analyst, epsilon)
                self.charged[analyst, key] = receipt
            assert receipt == self.charged[analyst, key]

    @precondition(lambda self: self.charged)
    @rule(data=st.data())
    def use(self, data: st.DataObject) -> None:
        receipt = data.draw(st.sampled_from(list(self.charged.values())))
        try:
            self.ledger.redeem(receipt)
        except ReceiptReused:
            assert receipt.id in self.redeemed
        else:
            assert receipt.id not in self.redeemed
            self.redeemed.add(receipt.id)

    @precondition(lambda self: self.redeemed)
    @rule(data=st.data())
    def fail_to_read(self, data: st.DataObject) -> None:
        receipt = data.draw(st.sampled_from(self.used()))
        try:
            self.ledger.unanswered(receipt)
        except ReceiptReused:
            assert receipt.id in self.recorded
        else:
            assert receipt.id not in self.recorded or self.failures[receipt.id] == MOST_FAILURES
            if self.failures[receipt.id] < MOST_FAILURES:
                self.failures[receipt.id] += 1
                self.redeemed.discard(receipt.id)

    @precondition(lambda self: self.redeemed)
    @rule(data=st.data(), value=st.integers() | st.fractions())
    def record(self, data: st.DataObject, value: int | Fraction) -> None:
        release = Release(receipt=data.draw(st.sampled_from(self.used())).id, values=(value,), mechanism="m")
        try:
            self.ledger.record(release)
        except ReceiptReused:
            assert release.receipt in self.recorded
        else:
            assert release.receipt not in self.recorded
            self.recorded[release.receipt] = release

    @precondition(lambda self: self.charged)
    @rule(data=st.data())
    def replay(self, data: st.DataObject) -> None:
        (analyst, key), receipt = data.draw(st.sampled_from(list(self.charged.items())))
        try:
            answer = self.ledger.fetch(key, analyst=analyst)
        except AnswerInterrupted:
            assert receipt.id in self.redeemed - set(self.recorded)
        else:
            assert answer == self.recorded.get(receipt.id)
            assert answer is not None or receipt.id not in self.redeemed

    @rule()
    def crash(self) -> None:
        """Drop the object as a killed process would: nothing is closed, nothing said."""
        self.dropped.append(self.ledger)
        self.ledger = self.place.open()

    @rule()
    def restart(self) -> None:
        self.ledger.close()
        self.ledger = self.place.open()

    @rule(more=st.sampled_from(EPSILONS))
    def raise_budget(self, more: Fraction) -> None:
        self.total += more
        self.ledger.raise_budget(self.total, 0)

    @rule(analyst=st.sampled_from(sorted(SHARES)), epsilon=st.sampled_from(EPSILONS), size=st.integers(2, 5))
    def race(self, analyst: str, epsilon: Fraction, size: int) -> None:
        """Several threads on two openings ask for the same at once."""
        other = self.place.open()
        self.races += 1

        def attempt(number: int) -> Receipt | None:
            ledger = (self.ledger, other)[number % 2]
            try:
                key = f"race {self.races}, {number}"
                return ledger.reserve(event_of(epsilon), analyst=analyst, key=key, purpose="race", version="1")
            except BudgetExhausted:
                return None

        with ThreadPoolExecutor(size) as threads:
            got = [receipt for receipt in threads.map(attempt, range(size)) if receipt is not None]
        other.close()
        for receipt in got:
            assert self.fits(analyst, epsilon)
            self.charged[analyst, str(receipt.key)] = receipt
        assert len(got) == size or not self.fits(analyst, epsilon)

    @invariant()
    def the_ledger_says_what_the_model_says(self) -> None:
        state = self.ledger.state()
        assert state.spent == self.spent() / self.total <= 1
        assert state.charges == len(self.charged)
        assert state.releases == len(self.recorded)

    @invariant()
    def the_chain_is_valid(self) -> None:
        assert self.ledger.verify() == self.ledger.state()


@pytest.mark.parametrize("kind", PLACES)
def test_the_ledger_follows_its_model(kind: str):
    machine = type("KindMachine", (Machine,), {"kind": kind})
    examples = {"memory": 15, "checkpoints": 15, "sqlite": 5}.get(kind, 3)
    _run(machine, examples)


@pytest.mark.soak
@pytest.mark.parametrize("kind", PLACES)
def test_the_ledger_follows_its_model_for_long(kind: str):
    machine = type("KindMachine", (Machine,), {"kind": kind})
    _run(machine, {"memory": 150, "checkpoints": 150, "sqlite": 30}.get(kind, 10))


def _run(machine: type[Machine], examples: int) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
