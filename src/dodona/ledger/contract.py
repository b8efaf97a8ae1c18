"""What every ledger does, wherever its lines are kept."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Protocol, Self

from dodona.accounting.event import Event
from dodona.accounting.filter import Shares
from dodona.exact import Exact
from dodona.ledger.chain import Line
from dodona.ledger.flight import Reservation
from dodona.ledger.pot import OpenedPlan
from dodona.ledger.receipt import Armings, Receipt
from dodona.ledger.release import Release
from dodona.ledger.state import BudgetState
from dodona.policy import Analyst

if TYPE_CHECKING:
    from dodona.accounting.plan import Plan


class Ledger(Protocol):
    """Append-only, hash-chained account of one budget. What a method returns is durable before it returns.

    After a write that failed the object answers nothing more: open the ledger again.
    """

    def reserve(  # noqa: PLR0913  each is a word of the entry
        self,
        event: Event,
        *,
        analyst: str | None,
        key: str | None,
        purpose: str,
        version: str,
        plan: str | None = None,
    ) -> Receipt:
        """Charge an event for a question and return the receipt; the same key and question is charged once.

        With the id of a plan the event is taken out of it, and nothing else is charged. Raises BudgetExhausted,
        NotInPlan, PlanVoid or NotPermitted, and KeyReused where the key belongs to something else.
        """

    def reserve_once(  # noqa: PLR0913  each is a word of the entry
        self,
        event: Event,
        *,
        analyst: str | None,
        key: str | None,
        purpose: str,
        version: str,
        seen: int | None,
    ) -> Reservation | None:
        """Charge an event for a question, unless the same is being answered or was after the first `seen` releases.

        Then it waits until that is done, and returns None: look at the releases again. A charge for the same that
        nobody used, as its caller died, is taken over instead of a new one. Without `seen` a new measurement is wanted
        whatever others ask. Whoever gets a reservation lets go of its receipt at the end. Raises AskedElsewhere where
        the wait is too long.
        """

    def let_go(self, receipt: Receipt) -> None:
        """End what a reservation began, answered or not: whoever waits for it goes on."""

    def wait_for(self, receipt: Receipt) -> None:
        """Wait while anybody is answering under a receipt; raises AskedElsewhere where that takes too long."""

    def open_plan(self, plan: Plan, *, delta: Exact, analyst: str | None, key: str | None) -> OpenedPlan:
        """Pay for a plan out of the pot, at its price for this δ; the same key and plan is paid for once.

        Raises PotExhausted or NotPermitted, and KeyReused where the key belongs to something else.
        """

    def redeem(self, receipt: Receipt) -> None:
        """Use a receipt, once: ReceiptReused the second time, ReceiptMismatch where it is not of this ledger."""

    def arm(self, receipt: Receipt, *, fresh: bool) -> Armings:
        """Arm a watch for one more alert, durably, and return what it has used with that; instead of `redeem`.

        `fresh` where noise for its threshold is drawn anew, as it must be the first time.
        """

    def armings(self, receipt: Receipt) -> Armings:
        """Return what a watch has used, whichever process used it."""

    def unanswered(self, receipt: Receipt) -> None:
        """Note that nothing was read or drawn under a used receipt: it may be used again, a few times."""

    def record(self, release: Release) -> None:
        """Store what a redeemed receipt bought, once, before it is shown."""

    def released(self, purpose: str, version: str) -> tuple[Release, ...]:
        """Return all answers to a question on a version of the data, oldest first; to tell them again is free."""

    def releases(self, *, after: int = 0) -> tuple[tuple[Receipt, Release], ...]:
        """Return what was released, oldest first, without the first `after` releases."""

    def share(self, event: Event) -> Fraction:
        """Return which part of the whole budget an event takes."""

    def shares(self, event: Event) -> Shares:
        """Return which part of each account that still counts an event takes."""

    def left(self, *, analyst: str | None) -> Fraction:
        """Return which part of the whole budget the analyst may still spend."""

    def permit(self, analyst: str | None) -> None:
        """Raise NotPermitted where analysts are declared and this is none of them; one who was stopped may still read.

        Whoever is nobody hears nothing: neither answers nor prices nor the history.
        """

    def fetch(self, key: str, *, analyst: str | None) -> Release | None:
        """Return the answer that was recorded under an analyst's key; None where none was paid for and begun.

        Raises AnswerInterrupted where the receipt was used and no answer is recorded.
        """

    def receipt(self, key: str, *, analyst: str | None) -> Receipt | None:
        """Return the receipt of an analyst's key."""

    def state(self) -> BudgetState:
        """Return what was spent and what is left."""

    def lines(self) -> Sequence[Line]:
        """Return the whole chain."""

    def verify(self) -> BudgetState:
        """Return the state, having computed every hash and every total anew from what is stored."""

    @property
    def head(self) -> str:
        """The hash of the last line."""

    def raise_budget(self, epsilon: Exact, delta: Exact) -> None:
        """Allow a larger total; the order of the first budget is kept."""

    def admit(self, analyst: Analyst) -> None:
        """Let an analyst in, or change a share."""

    def stop(self, analyst: str) -> None:
        """Let an analyst spend no more."""

    def declare(self, dataset: str, schema: str, *, head: str | None = None) -> None:
        """Add a table of the same people, or write down the new digest of a schema that got more columns.

        With the head that the decision was made on: LedgerBusy where somebody wrote after it.
        """

    def datasets(self) -> dict[str, str]:
        """Return the digest of the schema that each dataset is bound to."""

    @property
    def cap_key(self) -> bytes:
        """What chooses which rows of a person count, fixed for ever: for sources alone, never to be shown."""

    def end(self) -> None:
        """Close the account for ever; answers can still be fetched."""

    def close(self) -> None:
        """Let go of files and connections; the account goes on when it is opened again."""

    def __enter__(self) -> Self:
        """Return the ledger."""

    def __exit__(self, *_: object) -> None:
        """Let go of files and connections."""
