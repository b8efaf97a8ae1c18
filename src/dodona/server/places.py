"""Where a server keeps what is not data: a folder with the sockets of the core, the accounts, and the core's state."""

import os
import pwd
import tomllib
from dataclasses import dataclass
from pathlib import Path

from dodona.errors import InvalidArgument
from dodona.server.accounts import Accounts
from dodona.server.oidc import ProviderSettings


@dataclass(frozen=True, slots=True)
class Users:
    """The users of the system whom the parts belong to; None for the one who starts the server."""

    core: str | None = None
    front: str | None = None
    owners: str | None = None

    def entry(self, name: str | None) -> pwd.struct_passwd | None:
        """Return what the system knows of a user."""
        if name is None:
            return None
        try:
            return pwd.getpwnam(name)
        except KeyError:
            raise InvalidArgument("user", name, "write a user of this system") from None


@dataclass(frozen=True, slots=True)
class StateFolder:
    """The state folder of a server.

    Each socket of the core is in a folder that only the core may write and only one front may enter: the mode of the
    folder keeps the analysts' front from the owners' socket.
    """

    folder: Path

    @property
    def analysts_socket(self) -> Path:
        """Where the core listens for the analysts' front."""
        return self.folder / "analysts" / "core.sock"

    @property
    def owners_socket(self) -> Path:
        """Where the core listens for the owners' front."""
        return self.folder / "owners" / "core.sock"

    @property
    def core(self) -> Path:
        """What only the core may read."""
        return self.folder / "core"

    @property
    def accounts(self) -> Path:
        """The accounts, where no database holds them."""
        return self.folder / "accounts" / "accounts.sqlite"

    @property
    def sidecar(self) -> Path:
        """The sidecar of the SQL door, where it runs alone; else it has a temporary folder."""
        return self.folder / "sql" / "sidecar"

    def create_alone(self, part: str, *, shared: bool) -> None:
        """Make the folders that a part which runs alone needs; `shared` lets fronts of the core's group reach them.

        The core makes the folder of the accounts too, as fronts may not write where it stands; it has no file in it.
        """
        self.folder.mkdir(mode=0o711, parents=True, exist_ok=True)
        if part == "sidecar":
            self.sidecar.parent.mkdir(mode=0o711, exist_ok=True)
            return
        if part != "core":
            self.accounts.parent.mkdir(mode=0o700, exist_ok=True)
            return
        sockets = (self.analysts_socket.parent, self.owners_socket.parent)
        sql = ((self.sidecar.parent, 0o2770),) if shared else ()  # else the sidecar makes its folder
        folders = ((self.core, 0o700), (self.accounts.parent, 0o2770), *sql, *((path, 0o710) for path in sockets))
        for path, mode in folders:
            path.mkdir(mode=0o700, exist_ok=True)
            if shared:
                path.chmod(mode)

    def create(self, users: Users) -> None:
        """Make the folders that are missing, and give them to the users of the parts."""
        core, front, owners = (users.entry(name) for name in (users.core, users.front, users.owners or users.front))
        self.folder.mkdir(mode=0o711, parents=True, exist_ok=True)
        for path, owner, group in (
            (self.core, core, core),
            (self.accounts.parent, front, owners),
            (self.analysts_socket.parent, core, front),
            (self.owners_socket.parent, core, owners),
        ):
            path.mkdir(mode=0o700, exist_ok=True)
            if owner is not None and group is not None:
                os.chown(path, owner.pw_uid, group.pw_gid)
                # The group's bit makes sockets, and files of the accounts, belong to the group of their folder.
                path.chmod(0o2770 if path == self.accounts.parent else 0o2710)


def read_provider(path: Path) -> ProviderSettings:
    """Read the file about the OpenID Connect provider: TOML, with the secret as env:NAME."""
    try:
        fields = tomllib.loads(path.read_text(encoding="utf-8"))
        secret = fields.pop("client_secret", None)
        fields["scopes"] = tuple(fields.get("scopes", ("openid", "email")))
        return ProviderSettings(
            **fields, client_secret=None if secret is None else _resolve_name("client_secret", secret)
        )
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, TypeError):
        accepted = 'write TOML with issuer, client_id, client_secret = "env:NAME", redirect_uri and [roles.GROUP]'
        raise InvalidArgument("--login", str(path), accepted) from None


def open_accounts(place: str) -> Accounts:
    """Open the accounts of a server, at a path or at the address of a database, which may be written as env:NAME."""
    return Accounts.open_late(_resolve(place))


def create_accounts(place: str) -> bool:
    """Make empty accounts where there are none; return whether anybody has one."""
    with Accounts.create(_resolve(place)) as accounts:
        return bool(accounts.list())


def _resolve(place: str) -> str:
    return _resolve_name("accounts", place) if place.startswith("env:") else place


def _resolve_name(argument: str, name: object) -> str:
    """Return what a variable of the environment holds; secrets are written in no file."""
    if not isinstance(name, str) or not name.startswith("env:"):
        raise InvalidArgument(argument, "…", "write env:NAME, with the value in the environment")
    value = os.environ.get(name.removeprefix("env:"))
    if not value:
        raise InvalidArgument(argument, name, "set this variable of the environment")
    return value
