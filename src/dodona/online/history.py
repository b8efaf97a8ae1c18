"""The history: what was charged, in the order of the ledger."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from dodona.errors import printable
from dodona.ledger.contract import Ledger
from dodona.ledger.entry import Charged, Released
from dodona.ledger.spelling import from_json, time_of
from dodona.trusted.alerts import CHECKING, WATCHING
from dodona.trusted.checking import CONFIRMING

_LONGEST = 100
_OPEN = {
    WATCHING: "a watch on counts",
    CHECKING: "multiplicative weights",
    CONFIRMING: "checks of a model's predictions",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """One charge and what became of it."""

    time: str
    analyst: str | None
    text: str
    """The question as it was written, or what it was for."""
    share: Fraction
    """Of the whole budget."""
    version: str
    receipt: str
    answered: bool
    """Whether its answer was recorded; a watch, weights and checks count as answered: they tell while open."""


@dataclass(frozen=True, slots=True)
class History:
    """All charges of a dataset."""

    charges: tuple[Charge, ...]

    def __iter__(self) -> Iterator[Charge]:
        return iter(self.charges)

    def __len__(self) -> int:
        return len(self.charges)

    def __getitem__(self, number: int) -> Charge:
        return self.charges[number]

    def __str__(self) -> str:
        lines = (
            f"{charge.time[:19]}  {100 * float(charge.share):8.4f}%  {printable(charge.analyst or '-'):<12}  "
            f"{shortened(charge.text)}"
            for charge in self.charges
        )
        return "\n".join(lines) if self.charges else "Nothing was charged yet."


def history_of(ledger: Ledger, *, dataset: str) -> History:
    """Return the charges of one dataset, oldest first."""
    found: dict[str, tuple[str, Charged]] = {}
    texts: dict[str, str | None] = {}
    for line in ledger.lines():
        match from_json(line.text, number=line.number):
            case Charged() as charged if charged.dataset == dataset:
                found[line.hash] = (time_of(line.text), charged)
            case Released(release):
                texts[release.receipt] = release.text
            case _:
                pass
    return History(
        tuple(
            Charge(
                time=time,
                analyst=charged.analyst,
                text=texts.get(receipt) or _named(charged.purpose),
                share=ledger.share(charged.event) if charged.plan is None else Fraction(0),
                version=charged.version,
                receipt=receipt,
                answered=receipt in texts or _kind(charged.purpose) in _OPEN,
            )
            for receipt, (time, charged) in found.items()
        )
    )


def _kind(purpose: str) -> str:
    return purpose.partition(" ")[0]


def _named(purpose: str) -> str:
    """Return words for a purpose: what it is, and the beginning of its digest."""
    if _kind(purpose) in _OPEN:
        return _OPEN[_kind(purpose)]
    *words, last = purpose.split(" ")
    return " ".join([*words, f"{last[:12]}…" if len(last) > 20 else last])  # noqa: PLR2004  a digest is longer


def shortened(text: str) -> str:
    r"""Return a question in one line; a batch of thousands is cut off.

    >>> shortened("SELECT count(*)\n  FROM stays")
    'SELECT count(*) FROM stays'
    """
    line = printable(" ".join(text.split()))
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"
