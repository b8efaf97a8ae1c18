"""The table of acts: what a front may ask the core for, who may, where it runs, and what it needs.

The table is all that the dispatcher knows of an act. The functions that carry them out are named by module, as the
dispatcher loads none of them: only workers do.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from dodona.errors import InvalidRequest, Refused, Unavailable

ANALYST: Final = "analyst"
OWNER: Final = "owner"
AUDITOR: Final = "auditor"
_ANY: Final = frozenset((ANALYST, OWNER, AUDITOR))
_ASKING: Final = frozenset((ANALYST, OWNER))
_AUDITING: Final = frozenset((AUDITOR, OWNER))
_OWNING: Final = frozenset((OWNER,))


class Pool(Enum):
    """Where an act runs."""

    FREE = "free"
    """In processes that read no data."""
    PAID = "paid"
    """In the process that measures for the dataset: its answers leave on the time grid."""
    JOBS = "jobs"
    """In a process of its own for what takes long, on the time grid too."""
    RUNS = "runs"
    """In another one: long parts of calls that were replied to. They may take an hour, and nobody waits for them."""


@dataclass(frozen=True, slots=True)
class Act:
    """What the dispatcher must know of an act."""

    function: str
    """The module in `dodona.server`, and the function in it that carries out the act."""
    pool: Pool
    roles: frozenset[str]
    spends: bool = False
    """Whether it may charge the budget: then it needs a key, and is repeated under it."""
    owners_only: bool = False
    """Whether it is refused on the socket of analysts, whoever asks."""
    needs_dataset: bool = True
    free_first: bool = False
    """Whether the free pool tries it first, and hands it on if it is not free."""
    names_key: bool = False
    """Whether it is about something that was bought under a key, and spends nothing itself."""

    @property
    def needs_key(self) -> bool:
        """Whether it is refused without a key."""
        return self.spends or self.names_key


ACTS: Final[dict[str, Act]] = {
    "datasets": Act("reading:datasets", Pool.FREE, _ANY, needs_dataset=False),
    "describe": Act("reading:describe", Pool.FREE, _ANY),
    "preview": Act("reading:preview", Pool.FREE, _ANY),
    "budget": Act("reading:budget", Pool.FREE, _ANY),
    "history": Act("reading:history", Pool.FREE, _ANY),
    "ledger": Act("reading:ledger", Pool.FREE, _ANY),
    "verify": Act("reading:verify", Pool.JOBS, _ANY),
    "entries": Act("reading:entries", Pool.FREE, _AUDITING),
    "quote": Act("asking:quote", Pool.FREE, _ASKING),
    "recall": Act("asking:recall", Pool.FREE, _ASKING, names_key=True),
    "ask": Act("asking:ask", Pool.PAID, _ASKING, spends=True, free_first=True),
    "rehearse": Act("asking:rehearse", Pool.JOBS, _ASKING),
    "batch": Act("asking:batch", Pool.PAID, _ASKING, spends=True),
    "prepare": Act("asking:prepare", Pool.PAID, _ASKING, spends=True),
    "choose": Act("asking:choose", Pool.PAID, _ASKING, spends=True),
    "watch_open": Act("watching:watch_open", Pool.PAID, _ASKING, spends=True),
    "watch": Act("watching:watch", Pool.PAID, _ASKING, names_key=True),
    "watch_ask": Act("watching:watch_ask", Pool.PAID, _ASKING, names_key=True),
    "weights": Act("watching:weights", Pool.JOBS, _ASKING, spends=True),
    "synthesize": Act("releasing:synthesize", Pool.FREE, _ASKING, spends=True),
    "release": Act("releasing:release", Pool.FREE, _ASKING, names_key=True),
    "release_rows": Act("releasing:release_rows", Pool.FREE, _ASKING, names_key=True),
    "raise": Act("owning:raise_budget", Pool.PAID, _OWNING, owners_only=True),
    "close": Act("owning:close", Pool.PAID, _OWNING, owners_only=True),
    "admit": Act("owning:admit", Pool.PAID, _OWNING, owners_only=True),
    "stop": Act("owning:stop", Pool.PAID, _OWNING, owners_only=True),
    "confirm": Act("owning:confirm", Pool.JOBS, _OWNING, owners_only=True),
    "check": Act("owning:check", Pool.JOBS, _OWNING, owners_only=True),
    "drafts": Act("drafting:drafts", Pool.JOBS, _OWNING, owners_only=True),
    "draft": Act("drafting:draft", Pool.JOBS, _OWNING, owners_only=True),
    "draft_show": Act("drafting:draft_show", Pool.JOBS, _OWNING, owners_only=True),
    "draft_values": Act("drafting:draft_values", Pool.JOBS, _OWNING, owners_only=True),
    "ledger_create": Act("drafting:ledger_create", Pool.JOBS, _OWNING, owners_only=True),
    "publish": Act("owning:publish", Pool.JOBS, _OWNING, spends=True, owners_only=True),
    "requests": Act("approvals:requests", Pool.FREE, _ANY),
    "request": Act("approvals:request", Pool.FREE, _ASKING, names_key=True),
    "decide": Act("approvals:decide", Pool.FREE, _OWNING, owners_only=True),
    "limits": Act("approvals:limits", Pool.FREE, _OWNING, owners_only=True),
}
"""By name, as in the frames of the link."""


# --- What is refused before any worker sees it. ---


class ActUnknown(InvalidRequest):
    """There is no such act."""

    code = "act-unknown"
    http_status = 404

    def __init__(self) -> None:
        """Set a constant message."""
        super().__init__("The server has no such act.")


class BadCall(InvalidRequest):
    """A call lacks a part, or has one of a wrong type."""

    code = "bad-call"


class DatasetUnknown(InvalidRequest):
    """No dataset of this name is served."""

    code = "dataset-unknown"
    http_status = 404

    def __init__(self) -> None:
        """Set a constant message: other names are not for everyone."""
        super().__init__("No dataset of this name is served here.")


class NoPreviews(Refused):
    """Rows are never shown, and the owner does not offer made-up ones."""

    code = "no-previews"

    def __init__(self) -> None:
        """Say what to ask instead."""
        super().__init__(
            "Rows are never shown. Ask for counts, sums, averages or quantiles. The owner can let tools see made-up "
            "rows, by previews = true in [defaults] of the dataset file."
        )


class RoleRefused(Refused):
    """The caller's role for this dataset does not allow the act."""

    code = "role-refused"

    def __init__(self, roles: frozenset[str]) -> None:
        """Name the roles that may."""
        super().__init__(f"This is for {' and '.join(f'{role}s' for role in sorted(roles))} of the dataset.")


class OwnersOnly(Refused):
    """An owner's act came from the analysts' network."""

    code = "owners-only"

    def __init__(self) -> None:
        """Set a constant message."""
        super().__init__("Owners' acts are taken at the owners' address alone, whoever asks.")


class TooManyRequests(Refused):
    """The caller has too many requests under way."""

    code = "too-many-requests"
    http_status = 429
    sqlstate = "53300"

    def __init__(self, retry_after: int = 1) -> None:
        """Set a constant message; say how many seconds to wait."""
        self.retry_after = retry_after
        super().__init__("Too many requests are under way. Wait for some of them, then ask again with the same key.")


class DatasetUnavailable(Unavailable):
    """A dataset cannot be opened, or an error in it made the server stop serving it."""

    code = "dataset-unavailable"
    retry_after = 10

    def __init__(self) -> None:
        """Set a constant message: the reason is for its owner."""
        super().__init__("This dataset cannot be served at the moment. Its owner can find out why.")


class TookTooLong(Unavailable):
    """A request used more time, processor time or memory than one may, and was ended."""

    code = "took-too-long"

    def __init__(self, *, charged: bool | None = False) -> None:
        """Set a constant message."""
        super().__init__(
            "The request took more time or memory than one may, and was ended. Ask for less at once; the same key "
            "fetches what was charged, if it was answered.",
            charged=charged,
        )


class WorkerLost(Unavailable):
    """The processes that worked on a request ended, twice."""

    code = "worker-lost"
    retry_after = 1

    def __init__(self, *, charged: bool | None = False) -> None:
        """Set a constant message."""
        super().__init__(
            "The server was interrupted while it worked on this. Ask again with the same key.", charged=charged
        )


class Failed(Unavailable):
    """An unexpected error. The text is constant, as anything else might depend on data."""

    code = "failed"
    retry_after = 5

    def __init__(self, *, charged: bool | None = False) -> None:
        """Set a constant message."""
        super().__init__(
            "The server could not do this, and its operators will see that. Ask again later.", charged=charged
        )
