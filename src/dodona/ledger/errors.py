"""Errors of the ledger: refusals, reused keys and receipts, and ledgers that cannot be used."""

from collections.abc import Mapping
from fractions import Fraction

from dodona.errors import InvalidRequest, InvariantBroken, Refused, Unavailable
from dodona.numbers import format_percent

Alternative = Mapping[str, str]
"""What a call that costs too much could write instead: an argument with its value, and perhaps the price."""


class BudgetExhausted(Refused):
    """The event does not fit the budget that is left."""

    code = "budget-exhausted"

    def __init__(  # noqa: PLR0913  what a refusal states
        self,
        *,
        asked: Fraction,
        left: Fraction,
        of: str,
        best: str | None = None,
        why: str = "",
        alternatives: tuple[Alternative, ...] = (),
    ) -> None:
        """Report the requested and the remaining share of a budget, whose it is, why, and the best that still fits."""
        self.asked = asked
        self.left = left
        self.of = of
        self.best = best
        self.why = why
        self.alternatives = alternatives
        instead = "Ask for less." if best is None else f"The best that is left is {best}: ask for that, or for less."
        stated = f"This would take {format_percent(asked)} of the budget of {of}; {format_percent(left)} is left."
        super().__init__(" ".join(filter(None, (stated, why, instead))))


class NotPermitted(Refused):
    """The analyst may not spend, or nobody may any more."""

    code = "not-permitted"


class PriceAboveLimit(Refused):
    """A call would take more of the budget than the owner's limits allow."""

    code = "price-above-limit"

    def __init__(  # noqa: PLR0913  what a refusal states
        self,
        *,
        price: Fraction,
        most: Fraction,
        reason: str,
        best: str | None = None,
        approvals: bool = False,
        alternatives: tuple[Alternative, ...] = (),
    ) -> None:
        """State the price, what is allowed and by which limit, what would fit, and whether the owner can approve it."""
        self.price, self.most, self.reason, self.best, self.approvals = price, most, reason, best, approvals
        self.alternatives = alternatives
        stated = f"This would take {format_percent(price)} of the budget; the owner allows {format_percent(most)}"
        instead = "" if best is None else f"{best}."
        request = "You can ask the owner to approve it: request_approval." if approvals else ""
        super().__init__(" ".join(filter(None, (f"{stated} ({reason}).", instead, request))))


class DaySpent(Refused):
    """A call would leave more spent on a day than its caller allowed itself."""

    code = "day-spent"

    def __init__(self, *, price: Fraction, most: Fraction) -> None:
        """State the price, and what the day leaves."""
        self.price, self.most = price, most
        super().__init__(
            f"This would take {format_percent(price)} of the budget, and {format_percent(most)} is left of what you "
            "may spend today (max_day; days are UTC). Ask for less, or tomorrow."
        )


class ReceiptVoid(Refused):
    """The receipt predates a recovery, so it is unknown whether it was used."""

    code = "receipt-void"

    def __init__(self) -> None:
        """Suggest what to do."""
        super().__init__(
            "The ledger was recovered from a backup after this receipt was written: it may have been used. Ask again.",
            charged=True,
        )


class KeyReused(InvalidRequest):
    """A key identifies one question for ever."""

    code = "key-reused"

    def __init__(self, key: str) -> None:
        """Name the key."""
        super().__init__(f"The key {key[:60]!r} belongs to another question of this analyst. Write a new key.")


class AnswerInterrupted(Unavailable):
    """The receipt was used and no release is recorded: the answer is in progress, or was lost."""

    code = "answer-interrupted"
    retry_after = 1

    def __init__(self) -> None:
        """Suggest what to do."""
        super().__init__(
            "This question was charged and its answer is not recorded. Fetch it again in a moment; if it is still "
            "missing, the answer was lost in a crash: ask with a new key, which is charged again.",
            charged=True,
        )


class AskedElsewhere(Unavailable):
    """The same question is being answered for another caller, and takes too long to wait for."""

    code = "asked-elsewhere"
    retry_after = 5

    def __init__(self) -> None:
        """Suggest what to do."""
        super().__init__(
            "The same question is being answered for another caller, and is not done yet. Ask again in a while: its "
            "answer will be free."
        )


class ReceiptReused(InvariantBroken):
    """A receipt buys only one release."""

    code = "receipt-reused"

    def __init__(self) -> None:
        """Set a constant message."""
        super().__init__("The receipt was used before. A receipt buys one release.", charged=True)


class ReceiptMismatch(InvariantBroken):
    """The receipt is not from this ledger, or differs from what this ledger recorded."""

    code = "receipt-mismatch"

    def __init__(self) -> None:
        """Set a constant message."""
        super().__init__("The receipt is not one that this ledger wrote for this dataset.")


class LedgerUnavailable(Unavailable):
    """A write failed, so this object refuses all requests until the ledger is reopened."""

    code = "ledger-unavailable"
    retry_after = 5

    def __init__(self, *, charged: bool = False) -> None:
        """Set a constant message; `charged` if the failed write may have reached the disk."""
        super().__init__(
            "The ledger could not be written or read. Check its disk or server, then open it again: "
            "every charge that was confirmed is kept.",
            charged=charged,
        )


class LedgerBusy(Unavailable):
    """Another process locked the ledger and did not release it in time."""

    code = "ledger-busy"
    retry_after = 1

    def __init__(self) -> None:
        """Suggest what to do."""
        super().__init__("Another process is writing to the ledger and did not finish in time. Try again.")


class LedgerMissing(Unavailable):
    """There is no ledger here, and opening never creates one."""

    code = "ledger-missing"

    def __init__(self, place: str) -> None:
        """Name the place and the two ways forward."""
        super().__init__(
            f"There is no ledger at {place}. If there was one, restore a backup and run `dodona ledger recover`; if "
            "there never was, run `dodona ledger create`. A lost ledger must not become a fresh budget."
        )


class LedgerExists(InvalidRequest):
    """A ledger exists already, and creating never overwrites."""

    code = "ledger-exists"

    def __init__(self, place: str) -> None:
        """Name the place."""
        super().__init__(f"There is something at {place} already. Open it, or choose another place.")


class LedgerUnreadable(Unavailable):
    """The file is not a ledger, or was damaged or altered."""

    code = "ledger-unreadable"

    def __init__(self, fault: str) -> None:
        """Describe the fault in terms of the chain alone."""
        self.fault = fault
        super().__init__(
            f"The ledger does not verify: {fault}. Keep the file, restore a backup in its place and run "
            "`dodona ledger recover`, after which everything unspent counts as spent."
        )


class LedgerNewer(Unavailable):
    """The chain is intact but has an entry, or as a whole a format, that this version does not know."""

    code = "ledger-newer"

    def __init__(self, line: int | None = None) -> None:
        """Name the line, if it is one, and say what not to do."""
        what = "The ledger is whole, and its format is" if line is None else f"Line {line} of the ledger is whole, and"
        super().__init__(
            f"{what} of a newer version of Dodona. Use that version. Nothing is damaged: do not recover it, as that "
            "would count everything as spent."
        )


class LedgerInUse(Unavailable):
    """Another process has the ledger open, and it must be alone for an upgrade."""

    code = "ledger-in-use"

    def __init__(self) -> None:
        """Suggest what to do."""
        super().__init__("Another process has the ledger open. Stop the server and everyone who asks, then try again.")


class LedgerForbidden(Unavailable):
    """The operating system denies this user access to the ledger or its head."""

    code = "ledger-forbidden"

    def __init__(self, place: str) -> None:
        """Name the place and the permissions that are needed."""
        super().__init__(
            f"This user may not read and write {place}, or its folder. A ledger is made for its owner alone: ask the "
            "owner for access to the ledger, its head and their folders, or let the owner's process ask for you."
        )


class LedgerRolledBack(Unavailable):
    """The chain does not contain the external head: it is an old copy, or another ledger."""

    code = "ledger-rolled-back"

    def __init__(self) -> None:
        """Suggest what to do."""
        super().__init__(
            "The ledger does not contain the head that is kept outside it: it is an old copy or another ledger. Put "
            "the newest back. If it is lost, run `dodona ledger recover`, after which everything unspent is spent."
        )


class HeadMissing(Unavailable):
    """The external head of the ledger is missing."""

    code = "head-missing"

    def __init__(self, place: str) -> None:
        """Name the place."""
        super().__init__(
            f"The ledger's head is not at {place}, so an old copy could not be told from the newest. Put the head file "
            "back. If it is lost, run `dodona ledger recover`, after which everything unspent counts as spent."
        )


class LedgerOfAnother(InvalidRequest):
    """The ledger belongs to another dataset, another schema or another format."""

    code = "ledger-of-another"
