"""What a person keeps on the page: notes on charges, dashboards, and how questions were asked.

All of it is text that its person wrote, for that person alone. It is in the store of the accounts, never in a ledger.
"""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from dodona.errors import InvalidArgument, InvalidRequest, Refused
from dodona.server.account_store import Execute
from dodona.server.accounts import Accounts

SavedKind = Literal["notes", "dashboards", "asked"]
"""Notes by receipt, dashboards by name, and the tolerance of questions by key."""

LONGEST_NAME = 200
LARGEST_CONTENT = 64 * 1024
MOST_SAVED = 2000
_REPLACED = frozenset({"asked"})
"""Kinds whose oldest give way to new ones: the page writes them by itself, and nobody should have to tidy up."""


class NothingSaved(InvalidRequest):
    """The person has saved nothing under this name."""

    code = "nothing-saved"
    http_status = 404

    def __init__(self) -> None:
        """Use a constant message."""
        super().__init__("You have saved nothing under this name.")


class TooMuchSaved(Refused):
    """The person has saved as much as one may."""

    code = "too-much-saved"

    def __init__(self, most: int) -> None:
        """Say what to do."""
        super().__init__(f"You have saved {most} of these for the dataset. Remove some that you do not need.")


@dataclass(frozen=True, slots=True)
class Saved:
    """One thing that was saved."""

    name: str
    content: dict[str, Any]
    changed: datetime

    def to_json(self) -> dict[str, object]:
        """Return it as JSON."""
        return {"name": self.name, "content": self.content, "changed": self.changed.isoformat()}


@dataclass(frozen=True, slots=True)
class SavedItems:
    """What one person saved for one dataset, of one kind."""

    accounts: Accounts
    account: str
    dataset: str
    kind: SavedKind
    most: int = MOST_SAVED

    @property
    def _place(self) -> tuple[str, str, str]:
        return (self.account, self.dataset, self.kind)

    def list(self) -> tuple[Saved, ...]:
        """Return all of them, by name."""
        rows = self.accounts.store.read(
            "SELECT name, content, changed FROM dodona_saved WHERE account = ? AND dataset = ? AND kind = ? "
            "ORDER BY name",
            self._place,
        )
        return tuple(Saved(name, json.loads(content), _moment(changed)) for name, content, changed in rows)

    def get(self, name: str) -> Saved:
        """Return one; raises NothingSaved."""
        rows = self.accounts.store.read(
            "SELECT content, changed FROM dodona_saved WHERE account = ? AND dataset = ? AND kind = ? AND name = ?",
            (*self._place, name),
        )
        if not rows:
            raise NothingSaved
        ((content, changed),) = rows
        return Saved(name, json.loads(content), _moment(changed))

    def put(self, name: str, content: dict[str, Any]) -> Saved:
        """Save something under a name, in place of what was there."""
        if not name.isprintable() or not name.strip():
            raise InvalidArgument("name", name, f"write 1 to {LONGEST_NAME} printable characters")
        text = json.dumps(content, ensure_ascii=False)
        if len(text.encode()) > LARGEST_CONTENT or "\\u0000" in text:  # PostgreSQL takes no zero in a text
            raise InvalidArgument("content", None, f"write at most {LARGEST_CONTENT:,} bytes, without null characters")
        now = self.accounts.clock.earliest()

        def work(run: Execute) -> None:
            run(_DELETE, (*self._place, name))
            ((count,),) = run(
                "SELECT count(*) FROM dodona_saved WHERE account = ? AND dataset = ? AND kind = ?", self._place
            )
            if count >= self.most:
                self._make_room(run)
            run("INSERT INTO dodona_saved VALUES (?, ?, ?, ?, ?, ?)", (*self._place, name, text, now))

        self.accounts.store.write(work)
        return Saved(name, content, _moment(now))

    def _make_room(self, run: Execute) -> None:
        if self.kind not in _REPLACED:
            raise TooMuchSaved(self.most)
        ((oldest,),) = run(
            "SELECT name FROM dodona_saved WHERE account = ? AND dataset = ? AND kind = ? "
            "ORDER BY changed, name LIMIT 1",
            self._place,
        )
        run(_DELETE, (*self._place, oldest))

    def delete(self, name: str) -> None:
        """Remove one; raises NothingSaved."""

        def work(run: Execute) -> None:
            if not run(
                "SELECT 1 FROM dodona_saved WHERE account = ? AND dataset = ? AND kind = ? AND name = ?",
                (*self._place, name),
            ):
                raise NothingSaved
            run(_DELETE, (*self._place, name))

        self.accounts.store.write(work)


_DELETE = "DELETE FROM dodona_saved WHERE account = ? AND dataset = ? AND kind = ? AND name = ?"


def _moment(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
