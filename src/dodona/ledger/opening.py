"""Creating, opening and recovering a ledger over any store. Opening never creates; creating never overwrites."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dodona.domain.neighbours import Neighbours
from dodona.errors import InvalidArgument, InvalidRequest
from dodona.exact import Exact
from dodona.ledger.book import Book
from dodona.ledger.chain import NOTHING, Line, line_after
from dodona.ledger.entry import CAP_KEY_BYTES, Created, Earlier, Recovered
from dodona.ledger.faults import LedgerOfAnother, LedgerRolledBack, LedgerUnreadable
from dodona.ledger.head import Head, Mark
from dodona.ledger.keeper import Clock, Keeper, contains, utc
from dodona.ledger.kept import PATIENCE, KeptLedger
from dodona.ledger.limits import raised_budget, raised_limit
from dodona.ledger.spelling import checked_event
from dodona.ledger.store import Store
from dodona.ledger.wording import worded
from dodona.policy import Analyst, Budget


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a ledger is created with: the tables of the same people, the relation, the budget, and who may spend."""

    datasets: Mapping[str, str]
    """Schema digest by name of table."""
    neighbours: Neighbours
    budget: Budget
    analysts: tuple[Analyst, ...] = ()
    cap_key: bytes | None = field(default=None, repr=False)
    """Random bytes that choose which rows of a person count. They are drawn above, as nothing is drawn here."""
    earlier: tuple[Earlier, ...] = ()
    """What was spent before there was a ledger: its first line holds it, so that nothing comes in between."""


def first_line(terms: Terms, *, clock: Clock = utc) -> Line:
    """Return the line that a ledger of these terms begins with."""
    datasets = tuple((worded("dataset", name), worded("schema", digest)) for name, digest in terms.datasets.items())
    chosen = terms.budget.filter()
    created = Created(datasets, terms.neighbours, terms.budget, chosen.order, chosen.limit, terms.analysts)
    if terms.cap_key is not None:
        if len(terms.cap_key) != CAP_KEY_BYTES:
            raise InvalidArgument("cap_key", "<key>", f"give {CAP_KEY_BYTES} bytes")
        created = replace(created, cap_key=terms.cap_key.hex())
    if terms.earlier:
        for _, event in terms.earlier:
            checked_event(event)
        created = replace(created, earlier=tuple((worded("purpose", words), event) for words, event in terms.earlier))
    line = line_after(-1, NOTHING, created, time=clock().isoformat())
    Book(line, created)
    return line


def opened(  # noqa: PLR0913  what a ledger is made of
    store: Store,
    head: Head,
    *,
    dataset: str | None = None,
    schema: str | None = None,
    clock: Clock = utc,
    patience: float = PATIENCE,
    again: Callable[[], Store] | None = None,
) -> KeptLedger:
    """Return the ledger in a store, verified whole, which must contain the head and belong to the dataset.

    For an answer that another caller is being told one waits so many seconds. With `again` a store whose server went
    away is opened anew, and the ledger verified anew, when it is next used.
    """
    mark = head.read()  # before the chain is read, as others may go on writing
    store.check()
    lines = store.lines(0)
    book = read_book(lines)
    if not contains(lines, mark):
        raise LedgerRolledBack
    _belongs(book, dataset, schema)
    return KeptLedger(Keeper(store, head, book, clock=clock, again=again), dataset=dataset, patience=patience)


def recovered(store: Store, *, epsilon: Exact | None = None, delta: Exact | None = None, clock: Clock = utc) -> Mark:
    """Append a recovery to the ledger in a store and return its mark, which becomes the new head.

    The pair is the largest budget that was ever granted; without it, the one in the store. Nothing is known of what
    came after the backup, so everything unspent counts as spent.
    """
    store.check()
    marks: list[Mark] = []

    def decide(lines: Sequence[Line]) -> Sequence[Line]:
        book = read_book(lines)
        account = book.account
        budget = raised_budget(
            account.budget,
            account.budget.epsilon if epsilon is None else epsilon,
            account.budget.delta if delta is None else delta,
        )
        entry = Recovered(budget.epsilon, budget.delta, raised_limit(account.filter, budget))
        line = book.write(entry, time=clock().isoformat())
        marks.append(Mark(line.number, line.hash))
        return [line]

    store.append(0, decide)
    return marks[0]


def read_book(lines: Iterable[Line]) -> Book:
    """Return the book that a chain adds up to; an entry of another version is told apart from a broken chain."""
    try:
        return Book.read(lines)
    except LedgerOfAnother:
        raise
    except InvalidRequest as fault:
        raise LedgerUnreadable(f"its first line breaks a rule ({fault.code})") from fault


def _belongs(book: Book, dataset: str | None, schema: str | None) -> None:
    if dataset is None:
        return
    if dataset not in book.datasets:
        names = ", ".join(book.datasets)
        raise LedgerOfAnother(
            f"The ledger is for {names}, not for {dataset!r}. Open the ledger of this dataset, or, where both tables "
            "hold the same people, declare the second one in the ledger of the first."
        )
    if schema is not None and book.datasets[dataset] != schema:
        raise LedgerOfAnother(
            f"The schema of {dataset!r} is not the one that the ledger is bound to. Put the old schema back; where "
            "columns were only added, run `dodona ledger declare`."
        )
