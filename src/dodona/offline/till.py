"""The till: where the steps of a release are paid for, each under its own key, so that a run can be taken up again.

A step that was recorded is told again from the ledger and costs nothing. One that was charged and lost in a crash stays
charged: the run goes on without it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from dodona.accounting.event import Event
from dodona.ledger.faults import AnswerInterrupted, KeyReused
from dodona.ledger.receipt import Receipt
from dodona.ledger.release import Release
from dodona.mechanisms.measurement import Measurement
from dodona.mechanisms.selection import Scored
from dodona.online.chance import paid
from dodona.online.dataset import Dataset
from dodona.online.desk import ALL, Desk
from dodona.query.query import Query
from dodona.query.spelling import to_json
from dodona.trusted.choice import choose
from dodona.trusted.release import release

How = Literal["paid", "recalled", "lost"]


@dataclass(frozen=True, slots=True)
class Bought:
    """What a step bought: nothing where its answer was lost after the charge."""

    step: str
    event: Event
    how: How
    release: Release | None


@dataclass(frozen=True, slots=True)
class Till:
    """Pays for the steps of one run."""

    desk: Desk
    run: str
    """The digest of all that was declared: another run has other keys."""

    @property
    def dataset(self) -> Dataset:
        """What is released."""
        return self.desk.dataset

    @property
    def analyst(self) -> str | None:
        """Who pays."""
        return self.desk.analyst

    def measured(self, step: str, measurement: Measurement, *, text: str) -> Bought:
        """Return the noisy answers of a measurement."""
        return self._bought(step, measurement, release, text)

    def chosen(self, step: str, selection: Scored, *, text: str) -> Bought:
        """Return the number of the chosen candidate."""
        return self._bought(step, selection, choose, text)

    def _bought(self, step: str, asked: Measurement | Scored, tell: Callable[..., Release], text: str) -> Bought:
        """Return what was recorded for a step before; else charge it, make that durable, and touch data."""
        earlier = self._earlier(step, asked.query)
        if earlier is not None:
            return earlier
        dataset = self.dataset
        receipt = self._receipt(step, asked.event(dataset.schema.unit), asked.purpose)
        if receipt is None:
            return self._lost(step)
        try:
            with paid():
                unit = dataset.schema.unit
                released = tell(asked, receipt, ledger=dataset.ledger, source=dataset.source, unit=unit, text=text)
        finally:
            dataset.ledger.let_go(receipt)
        return Bought(step, receipt.event, "paid", released)

    def charge(self, step: str) -> Event | None:
        """Return what a step of an earlier attempt was charged with; None where there was none."""
        receipt = self.dataset.ledger.receipt(self._key(step), analyst=self.analyst)
        return None if receipt is None else receipt.event

    def _key(self, step: str) -> str:
        return f"release {self.run} {step}"

    def _earlier(self, step: str, query: Query) -> Bought | None:
        """Return what an earlier attempt at this run bought here."""
        ledger, key = self.dataset.ledger, self._key(step)
        try:
            found = ledger.fetch(key, analyst=self.analyst)
        except AnswerInterrupted:
            return self._lost(step)
        if found is None:
            return None
        receipt = ledger.receipt(key, analyst=self.analyst)
        if receipt is None or found.question != to_json(query):
            raise KeyReused(key)
        return Bought(step, receipt.event, "recalled", found)

    def _receipt(self, step: str, event: Event, purpose: str) -> Receipt | None:
        """Return a receipt; None where an earlier attempt paid here for a choice that was rounded differently."""
        try:
            return self.desk.charge(event, key=self._key(step), purpose=purpose, most=ALL)  # the run was agreed to
        except KeyReused:
            return None

    def _lost(self, step: str) -> Bought:
        event = self.charge(step)
        if event is None:
            raise KeyReused(self._key(step))
        return Bought(step, event, "lost", None)
