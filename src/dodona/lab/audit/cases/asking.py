"""Asking a curator many times: its answers on two neighbouring tables, and the event that it charged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import numpy as np

from dodona.answer.answer import Answer
from dodona.curator.curator import Curator
from dodona.curator.ladder import OPTIONAL_RUNGS
from dodona.lab.audit.cases.scene import Row, last_event, ledger_of, make_curator, schema_of, source_of
from dodona.lab.audit.features import Outputs
from dodona.ledger.ledger import Ledger
from dodona.privacy.events import Event
from dodona.schema.schema import Neighbours
from dodona.trusted.source import SourceFailed

Rows = tuple[Row, ...]
Tables = tuple[Rows, Rows]
Read = Callable[[Answer], tuple[int, ...]]
TOGETHER = 500
"""Copies of the queries in one charge: they are independent, and each costs its share."""
_CHARGES = 1000  # of a ledger, for questions that are asked one by one
_FAILED = -(1 << 40)  # what a failure is written as: an adversary sees it


def values(answer: Answer) -> tuple[int, ...]:
    """Return the noisy integers of an answer."""
    return tuple(int(value) for value in answer.measured.values)


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatedQueries:
    """Queries about two neighbouring tables, at a price of ε = 1 for all of them together."""

    texts: tuple[str, ...]
    neighbours: Neighbours
    tables: Tables
    read: Read = values
    """What an adversary looks at in an answer, as integers."""
    width: int = 1
    """The number of these integers."""
    delta: str = "0"
    """Above 0, noise is Gaussian where that is cheaper."""
    accountant: str = "renyi"
    """The accountant of a budget with δ > 0."""
    singly: bool = False
    """Whether each run has its own charge."""
    person: str | None = None
    """The id column, if the privacy unit is a person and not a row."""

    def event(self) -> Event:
        """Return the event in the ledger after one charge on the first table, which covers all runs of that charge."""
        ledger = ledger_of(schema_of(self.neighbours, person=self.person), self.delta, self.accountant)
        self._charge(self._curator(self.tables[0], ledger=ledger), key=None)
        return last_event(ledger)

    @property
    def times(self) -> int:
        """The number of runs in a charge."""
        return 1 if self.singly else TOGETHER

    def draw(self, count: int) -> tuple[Outputs, Outputs]:
        """Return outputs of `count` runs on each of the two tables."""
        first, second = (self._outputs(rows, count) for rows in self.tables)
        return first, second

    def _outputs(self, rows: Rows, count: int) -> Outputs:
        collected: list[tuple[int, ...]] = []
        while len(collected) < count:
            curator = self._curator(rows)
            if self.singly:
                for number in range(min(_CHARGES, count - len(collected))):
                    collected += self._charge(curator, key=str(number))
            else:
                collected += self._charge(curator, key=None)
        outputs = np.array(collected[:count], dtype=np.int64)
        return outputs[:, 0] if outputs.shape[1] == 1 else outputs

    def _charge(self, curator: Curator, *, key: str | None) -> list[tuple[int, ...]]:
        asked = [curator.read(text) for text in self.texts]
        try:
            if len(asked) == self.times == 1:
                answers = (curator.ask(self.texts[0], epsilon=1, key=key),)
            else:
                answers = curator.ask_many(asked * self.times, epsilon=self.times, key=key, fresh=True)  # type: ignore[arg-type,assignment]
        except SourceFailed:
            return [(_FAILED,) * (self.width * len(asked))] * self.times
        runs = zip(*[iter(answers)] * len(asked), strict=True)
        return [tuple(number for answer in run for number in self.read(cast("Answer", answer))) for run in runs]

    def _curator(self, rows: Rows, *, ledger: Ledger | None = None) -> Curator:
        schema = schema_of(self.neighbours, person=self.person)
        kept = ledger_of(schema, self.delta, self.accountant) if ledger is None else ledger
        rungs = frozenset[str]() if self.singly else OPTIONAL_RUNGS  # one by one, each is measured and none is replayed
        return make_curator(schema, source_of(schema, rows), kept, rungs=rungs)
