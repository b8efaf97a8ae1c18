"""Where a server keeps what is not data: a folder with the core's sockets and the accounts."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from dodona.errors import InvalidArgument
from dodona.server.accounts import Accounts


@dataclass(frozen=True, slots=True)
class StateFolder:
    """The state folder of a server. The core makes its sockets in `core`, and fronts keep the accounts in `accounts`."""

    folder: Path

    @property
    def analysts_socket(self) -> Path:
        """Where the core listens for the analysts' front."""
        return self.folder / "core" / "analysts.sock"

    @property
    def owners_socket(self) -> Path:
        """Where the core listens for the owners' front."""
        return self.folder / "core" / "owners.sock"

    @property
    def accounts(self) -> Path:
        """The accounts, where no database holds them."""
        return self.folder / "accounts" / "accounts.sqlite"

    def create(self) -> None:
        """Make the folders that are missing, for this user alone."""
        for path in (self.folder, self.folder / "core", self.folder / "accounts"):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)


def open_accounts(place: str) -> Accounts:
    """Open the accounts at a path, or at the address of a database, which may be written as env:NAME."""
    if not place.startswith("env:"):
        return Accounts.open(place)
    address = os.environ.get(place.removeprefix("env:"))
    if not address:
        raise InvalidArgument("accounts", place, "set this variable of the environment to the database's address")
    return Accounts.open(address)
