"""The description of an open dataset, and the history of its charges, read from its ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dodona.answer.description import DefaultRequest, Description, History, HistoryEntry
from dodona.ledger.entries import Charged, Released, entry_from_json, entry_time
from dodona.ledger.ledger import Ledger
from dodona.trusted.gate import CHECKING, CONFIRMING, WATCHING

if TYPE_CHECKING:
    from dodona.curator.request import Dataset

_PURPOSE_NAMES = {
    WATCHING: "a watch on counts",
    CHECKING: "multiplicative weights",
    CONFIRMING: "checks of a model's predictions",
}


def describe(dataset: Dataset, analyst: str | None) -> Description:
    """Return the public facts of a dataset, and the analyst's remaining budget."""
    default = dataset.default
    return Description(
        dataset=dataset.name,
        table=dataset.schema.table,
        columns=dataset.schema.domain.attributes,
        unit=dataset.schema.unit,
        budget=dataset.ledger.state(),
        default=DefaultRequest(
            within=default.within if isinstance(default.within, int | float | str) else None,
            epsilon=default.epsilon,
            confidence=default.confidence,
            max_price=default.max_price,
        ),
        analyst=analyst,
        left=dataset.ledger.left(analyst=analyst),
        left_out=dataset.left_out,
    )


def read_history(ledger: Ledger, *, dataset: str) -> History:
    """Return the charges of one dataset, oldest first."""
    found: dict[str, tuple[str, Charged]] = {}
    texts: dict[str, str | None] = {}
    for line in ledger.lines():
        match entry_from_json(line.text, number=line.number):
            case Charged() as charged if charged.dataset == dataset:
                found[line.hash] = (entry_time(line.text), charged)
            case Released(release):
                texts[release.receipt] = release.text
            case _:
                pass
    return History(
        tuple(
            HistoryEntry(
                time=time,
                analyst=charged.analyst,
                text=texts.get(receipt) or _describe_purpose(charged.purpose),
                share=ledger.share(charged.event),
                version=charged.version,
                receipt=receipt,
                answered=receipt in texts or _kind(charged.purpose) in _PURPOSE_NAMES,
            )
            for receipt, (time, charged) in found.items()
        )
    )


def _kind(purpose: str) -> str:
    return purpose.partition(" ")[0]


def _describe_purpose(purpose: str) -> str:
    """Return a purpose in words: its kind, and the beginning of its digest."""
    if _kind(purpose) in _PURPOSE_NAMES:
        return _PURPOSE_NAMES[_kind(purpose)]
    *words, last = purpose.split(" ")
    return " ".join([*words, f"{last[:12]}…" if len(last) > 20 else last])  # noqa: PLR2004  a digest is longer
