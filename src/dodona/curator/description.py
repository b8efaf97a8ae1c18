"""The description of an open dataset, and the history of its charges, read from its ledger."""

from __future__ import annotations

import threading
from itertools import islice
from typing import TYPE_CHECKING

from dodona.answer.description import DefaultRequest, Description, History, HistoryEntry, describe_tables
from dodona.curator.request import DefaultTolerance
from dodona.ledger.entries import Charged, Released, entry_from_json, entry_time
from dodona.ledger.ledger import Ledger
from dodona.schema.schema import ROW_OF
from dodona.trusted.gate import CHECKING, WATCHING

if TYPE_CHECKING:
    from dodona.curator.request import Dataset

_PURPOSE_NAMES = {
    WATCHING: "a watch on counts",
    CHECKING: "multiplicative weights",
    "confirm": "checks of a model's predictions",  # which older ledgers were charged for
}


def describe(dataset: Dataset, analyst: str | None) -> Description:
    """Return the public facts of a dataset, and the analyst's remaining budget."""
    default, within, price = dataset.default, dataset.default.within, None
    if isinstance(within, DefaultTolerance):
        price, within = within.share, within.rows
    return Description(
        dataset=dataset.name,
        table=dataset.schema.table,
        columns=tuple(attribute for attribute in dataset.schema.domain if attribute.name != ROW_OF),
        unit=dataset.schema.unit,
        budget=dataset.ledger.state(),
        default=DefaultRequest(
            within=within if isinstance(within, int | float | str) else None,
            price=price,
            epsilon=default.epsilon,
            confidence=default.confidence,
            max_price=default.max_price,
        ),
        analyst=analyst,
        left=dataset.ledger.left(analyst=analyst),
        left_out=dataset.left_out,
        meanings=dataset.meanings,
        tables=describe_tables(dataset.schema),
    )


class HistoryReader:
    """Reads the charges of one dataset from its ledger, each line once however often it is asked."""

    def __init__(self, ledger: Ledger, *, dataset: str) -> None:
        """Take the ledger; it is read when the history is first asked for."""
        self._ledger, self._dataset = ledger, dataset
        self._next = 0
        self._charges: dict[str, tuple[str, Charged]] = {}
        self._texts: dict[str, str | None] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """The number of charges so far."""
        with self._lock:
            self._follow()
            return len(self._charges)

    def read(self, after: int = 0, limit: int | None = None) -> tuple[HistoryEntry, ...]:
        """Return charges, oldest first: at most `limit`, without the first `after`."""
        with self._lock:
            self._follow()
            end = None if limit is None else after + limit
            listed = list(islice(self._charges.items(), after, end))
            return tuple(
                HistoryEntry(
                    time=time,
                    analyst=charged.analyst,
                    text=self._texts.get(receipt) or _describe_purpose(charged.purpose),
                    share=self._ledger.share(charged.event),
                    version=charged.version,
                    receipt=receipt,
                    answered=receipt in self._texts or _kind(charged.purpose) in _PURPOSE_NAMES,
                    key=charged.key,
                )
                for receipt, (time, charged) in listed
            )

    def _follow(self) -> None:
        for line in self._ledger.lines(self._next):
            match entry_from_json(line.text, number=line.number):
                case Charged() as charged if charged.dataset == self._dataset:
                    self._charges[line.hash] = (entry_time(line.text), charged)
                case Released(release):
                    self._texts[release.receipt] = release.text
                case _:
                    pass
            self._next = line.number + 1


def read_history(ledger: Ledger, *, dataset: str) -> History:
    """Return the charges of one dataset, oldest first."""
    return History(HistoryReader(ledger, dataset=dataset).read())


def _kind(purpose: str) -> str:
    return purpose.partition(" ")[0]


def _describe_purpose(purpose: str) -> str:
    """Return a purpose in words: its kind, and the beginning of its digest."""
    if _kind(purpose) in _PURPOSE_NAMES:
        return _PURPOSE_NAMES[_kind(purpose)]
    *words, last = purpose.split(" ")
    return " ".join([*words, f"{last[:12]}…" if len(last) > 20 else last])  # noqa: PLR2004  a digest is longer
