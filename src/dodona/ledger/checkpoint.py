"""Checkpoints: the state of a ledger as of one of its lines, so that opening need not compute it from all lines again.

The digest of a state is a line of the chain, so a state can be trusted as the chain can: whoever forges it has to forge
the line, and with it every later hash up to the head that is kept outside. The states are kept beside the lines. Where
they are lost or altered, they are refused, and computed again from the first line.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from hashlib import sha256
from typing import Any

from dodona.ledger.account import AnalystAccount, BudgetAccount, restore_filter
from dodona.ledger.entries import (
    Charged,
    Line,
    Receipt,
    Release,
    Released,
    charge_fields,
    entry_from_trusted_json,
    entry_time,
)
from dodona.ledger.errors import LedgerUnreadable
from dodona.ledger.limits import ApprovalRequest, Limits, SpendingGuard
from dodona.privacy.accountants import Spending
from dodona.privacy.budget import Analyst, Budget
from dodona.schema.schema import Neighbours

CHECKPOINT_FORMAT = 2
"""The first format of a ledger that has checkpoints."""
EVERY = 3000
"""After how many lines a checkpoint is due: about a thousand answers, which are read in a tenth of a second."""

_FAR = 60
"""So many lines between two releases are read in vain rather than by another look at the store."""
FetchLines = Callable[[int, int], Iterable[Line]]
"""Returns the lines of charges and releases from one number to another, both included."""
Asked = tuple[str, str, str]
"""Dataset, question and version of the data."""
Json = dict[str, Any]


def state_digest(previous: str, text: str) -> str:
    """Return the digest of a state, which covers the states before it: each says only what is new.

    Theorem: ledger-checkpoint
    """
    return sha256(f"{previous}\n{text}".encode()).hexdigest()


def fetch_listed(lines: Sequence[Line]) -> FetchLines:
    """Return what fetches lines from a whole chain in memory."""
    return lambda first, last: lines[first : last + 1]


# --- The archive: charges until the last checkpoint. Receipts and releases are read from the store when needed. ---


class Archive:
    """Which charges were made and answered until the last checkpoint, by id, key and question."""

    def __init__(self, fetch: FetchLines) -> None:
        """Begin with none."""
        self.fetch = fetch
        self.charges: dict[str, int] = {}
        """Line number by id."""
        self._asked: dict[str, Asked] = {}
        self._keys: dict[tuple[str | None, str], str] = {}
        self._answers: dict[str, int] = {}  # by charge, the place in the following list
        self.released: list[tuple[str, int, str]] = []
        """Of each release, oldest first: the charge, and the number and hash of the line that released it."""
        self._by_question: defaultdict[Asked, list[int]] = defaultdict(list)

    def add(self, charged: Iterable[Sequence[Any]], released: Iterable[Sequence[Any]]) -> None:
        """Take what one checkpoint says: rows of `charge_row`, and of the releases."""
        for receipt, number, analyst, key, *asked in charged:
            self.charges[receipt] = number
            self._asked[receipt] = (asked[0], asked[1], asked[2])
            if key is not None:
                self._keys[analyst, key] = receipt
        for receipt, number, own_hash in released:
            self._answers[receipt] = len(self.released)
            self._by_question[self._asked[receipt]].append(len(self.released))
            self.released.append((receipt, number, own_hash))

    def key(self, analyst: str | None, key: str) -> str | None:
        """Return the charge under a key."""
        return self._keys.get((analyst, key))

    def answered(self, receipt: str) -> bool:
        """Return whether a charge was answered."""
        return receipt in self._answers

    def latest(self, asked: Asked) -> int:
        """Return how many releases there were with the last one of a question; 0 if there was none."""
        places = self._by_question.get(asked)
        return places[-1] + 1 if places else 0

    def receipt(self, receipt: str) -> Receipt:
        """Return the receipt of a charge."""
        return _receipt(self._line(self.charges[receipt], receipt))

    def time(self, receipt: str, number: int) -> str:
        """Return when the charge of a line was written; empty while that line is not stored yet."""
        line = next(iter(self.fetch(number, number)), None)
        if line is None:
            return ""
        _require(line, receipt)
        return entry_time(line.text)

    def release(self, receipt: str) -> Release:
        """Return the release of a charge that was answered."""
        return self._release(self.released[self._answers[receipt]])

    def answers(self, asked: Asked) -> list[Release]:
        """Return all releases of a question, oldest first."""
        return [self._release(self.released[place]) for place in self._by_question.get(asked, ())]

    def read(self, places: Iterable[int]) -> Iterator[tuple[Receipt, Release]]:
        """Yield the releases at these places, which ascend from 0; those near each other from one look at the store."""
        run: list[tuple[str, int, str]] = []
        for entry in map(self.released.__getitem__, places):
            if run and self.charges[entry[0]] > run[-1][1] + _FAR:
                yield from self._read_run(run)
                run = []
            run.append(entry)
        yield from self._read_run(run) if run else ()

    def place(self, receipt: str) -> int | None:
        """Return the place of a charge's release among all of them."""
        return self._answers.get(receipt)

    def _read_run(self, wanted: Sequence[tuple[str, int, str]]) -> Iterator[tuple[Receipt, Release]]:
        first = min(self.charges[receipt] for receipt, _, _ in wanted)
        hashes = {number: own_hash for _, number, own_hash in wanted}
        hashes |= {self.charges[receipt]: receipt for receipt, _, _ in wanted}
        receipts: dict[str, Receipt] = {}
        for line in self.fetch(first, wanted[-1][1]):
            expected = hashes.get(line.number)
            if expected is None:
                continue
            _require(line, expected)
            entry = entry_from_trusted_json(line.text)
            if isinstance(entry, Released):
                yield receipts.pop(entry.release.receipt), entry.release
            elif isinstance(entry, Charged):
                receipts[line.hash] = Receipt(line.hash, *charge_fields(entry))

    def _release(self, row: tuple[str, int, str]) -> Release:
        entry = entry_from_trusted_json(self._line(row[1], row[2]).text)
        assert isinstance(entry, Released)  # noqa: S101  the hash of its line is that of a release
        return entry.release

    def _line(self, number: int, expected: str) -> Line:
        line = next(iter(self.fetch(number, number)), None)
        if line is None:
            raise LedgerUnreadable(f"line {number} is missing")
        _require(line, expected)
        return line


def charge_row(receipt: Receipt, number: int) -> list[object]:
    """Return what a checkpoint says of a charge."""
    return [receipt.id, number, receipt.analyst, receipt.key, receipt.dataset, receipt.purpose, receipt.version]


def _require(line: Line, expected: str) -> None:
    """Refuse a line that is not the one whose hash a checkpoint has."""
    if line.hash != expected or not line.intact:
        raise LedgerUnreadable(f"line {line.number} was altered")


def _receipt(line: Line) -> Receipt:
    entry = entry_from_trusted_json(line.text)
    assert isinstance(entry, Charged)  # noqa: S101  the hash of its line is that of a charge
    return Receipt(line.hash, *charge_fields(entry))


# --- Accounts and limits as JSON: exact numbers as texts. ---


def account_to_json(account: BudgetAccount) -> Json:
    """Return an account, without the count of its events."""
    purses = [
        [purse.analyst.name, str(purse.analyst.share), _spending_to_json(purse.spent), purse.stopped]
        for purse in account.purses.values()
    ]
    return {
        "epsilon": str(account.budget.epsilon),
        "delta": str(account.budget.delta),
        "limit": account.filter.limit,
        "spent": _spending_to_json(account.spent),
        "purses": purses,
        "recovered": account.recovered,
    }


def account_from_json(state: Json, created: BudgetAccount) -> BudgetAccount:
    """Return the account of a checkpoint, given the one that the ledger was created with."""
    budget = Budget(state["epsilon"], state["delta"], created.budget.accountant)
    whole = restore_filter(budget, created.filter.order, state["limit"])
    account = BudgetAccount(budget, whole, _spending_from_json(state["spent"]), recovered=state["recovered"])
    for name, share, spent, stopped in state["purses"]:
        analyst = Analyst(name, share)
        purse = AnalystAccount(analyst, whole.scaled(analyst.share), _spending_from_json(spent), stopped=stopped)
        account.purses[name] = purse
    return account


def _spending_to_json(spent: Spending) -> list[object]:
    relation = None if spent.neighbours is None else spent.neighbours.value
    return [None if spent.pure is None else str(spent.pure), spent.units, spent.events, relation]


def _spending_from_json(fields: Sequence[Any]) -> Spending:
    pure, units, events, relation = fields
    relation = None if relation is None else Neighbours(relation)
    return Spending(None if pure is None else Fraction(pure), units, events, relation)


_REQUEST = tuple(ApprovalRequest.__slots__)


def guard_to_json(guard: SpendingGuard) -> Json:
    """Return the limits, what was spent today, and the requests for approval."""
    requests = [
        [
            str(value) if isinstance(value, Fraction) else value
            for value in (getattr(request, name) for name in _REQUEST)
        ]
        for request in guard.requests.values()
    ]
    return {
        "limits": guard.limits.to_json(),
        "day": guard.day,
        "analysts": _shares_to_json(guard.by_analyst),
        "datasets": _shares_to_json(guard.by_dataset),
        "requests": requests,
    }


def guard_from_json(state: Json) -> SpendingGuard:
    """Return the guard of a checkpoint."""
    limits: Json = {
        name: Fraction(limit) if isinstance(limit, str) else limit for name, limit in state["limits"].items()
    }
    guard = SpendingGuard(Limits(**limits), state["day"])
    guard.by_analyst.update({name: Fraction(share) for name, share in state["analysts"]})
    guard.by_dataset.update({name: Fraction(share) for name, share in state["datasets"]})
    for row in state["requests"]:
        fields = dict(zip(_REQUEST, row, strict=True))
        guard.restore(ApprovalRequest(**fields | {"share": Fraction(fields["share"])}))
    return guard


def _shares_to_json(shares: Mapping[Any, Fraction]) -> list[list[object]]:
    """Return shares by name; a name that was only looked up has none, and is left out."""
    spent = [[name, str(share)] for name, share in shares.items() if share]
    return sorted(spent, key=lambda pair: (pair[0] is not None, str(pair[0])))
