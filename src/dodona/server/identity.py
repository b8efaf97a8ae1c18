"""Who the caller of a request is, what they may do, and the clock that says until when."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dodona.errors import InvalidRequest, Refused

ROLES = ("owner", "analyst", "auditor")
EVERY_DATASET = "*"
MOST_TOKENS = 100
_LONGEST_SHOWN = 100


class NotAuthenticated(Refused):
    """No valid token or session came with the request, or the name or the password is wrong."""

    code = "not-authenticated"
    http_status = 401
    sqlstate = "28000"

    def __init__(self) -> None:
        """Set a constant message: it must not say which part was wrong."""
        super().__init__("Log in, or send a valid token: this one is missing, wrong, expired or revoked.")


class RoleMissing(Refused):
    """The account's role for this dataset does not allow the request; a dataset that is not there reads the same."""

    code = "role-missing"

    def __init__(self, *roles: str) -> None:
        """Name the roles that may."""
        needed = " or ".join(roles)
        super().__init__(
            f"This needs the role {needed} for the dataset, and a token whose scope includes it. A dataset that is not "
            "there is refused in the same words; yours are listed at /api/v1/datasets."
        )


@dataclass(frozen=True, slots=True)
class Identity:
    """The caller of a request, authenticated."""

    account: str
    grants: Mapping[str, str]
    """Role by dataset; "*" stands for every dataset that is not named."""
    token: str | None = None
    """The id of the token, or None for a session of the page."""
    datasets: frozenset[str] | None = None
    """The datasets that the token may be used for; None for all of the account's."""
    max_price: str | None = None
    """What one call may take of a budget, such as "1%"; None for no limit."""

    def role(self, dataset: str) -> str | None:
        """Return the caller's role for a dataset; None if there is none."""
        if self.datasets is not None and dataset not in self.datasets:
            return None
        return self.grants.get(dataset, self.grants.get(EVERY_DATASET))

    def require(self, dataset: str, *roles: str) -> str:
        """Return the caller's role for a dataset; refuse if it is none of these."""
        role = self.role(dataset)
        if role not in roles or role is None:
            raise RoleMissing(*roles)
        return role

    @property
    def manages_accounts(self) -> bool:
        """Whether the caller owns every dataset, and no token restricts that."""
        return self.datasets is None and self.grants.get(EVERY_DATASET) == "owner"

    @property
    def may_issue_tokens(self) -> bool:
        """Whether the caller may make a token: a token must not make others that outlive or exceed it."""
        return self.token is None or self.manages_accounts


def _seconds_since_start() -> float:
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Clock:
    """The time by two clocks: the wall clock, and the one at the start carried on by a clock that nobody can set.

    What expires is refused as soon as one of them says so, and ended for good once both do. A wall clock that jumps
    while a server runs therefore grants nothing, and destroys nothing.
    """

    def __init__(
        self, *, wall: Callable[[], float] = time.time, steady: Callable[[], float] = _seconds_since_start
    ) -> None:
        """Take the clocks as arguments, for tests."""
        self._wall, self._steady = wall, steady
        self._offset = wall() - steady()

    def latest(self) -> int:
        """Return the later of the two times, in seconds since 1970."""
        return int(max(self._wall(), self._steady() + self._offset))

    def earliest(self) -> int:
        """Return the earlier of the two times, in seconds since 1970."""
        return int(min(self._wall(), self._steady() + self._offset))

    def steady(self) -> float:
        """Return the seconds of the clock that nobody can set, for durations."""
        return self._steady()


# --- What can be wrong with an act on accounts. ---


class AccountMissing(InvalidRequest):
    """There is no account of this name."""

    code = "account-missing"
    http_status = 404

    def __init__(self, name: str) -> None:
        """Name it."""
        super().__init__(f"There is no account {_short(name)!r}.")


class AccountExists(InvalidRequest):
    """An account has this name, in whatever case, or this e-mail address."""

    code = "account-exists"
    http_status = 409

    def __init__(self, name: str) -> None:
        """Name it."""
        super().__init__(f"There is an account for {_short(name)!r} already, in use or stopped. Choose another one.")


class AccountStopped(InvalidRequest):
    """The account was stopped and gets nothing new until it is resumed."""

    code = "account-stopped"
    http_status = 409

    def __init__(self, name: str) -> None:
        """Name it."""
        super().__init__(f"The account {_short(name)!r} is stopped. Resume it with `dodona account resume`.")


class TokenMissing(InvalidRequest):
    """The account has no token of this id, or it has ended."""

    code = "token-missing"
    http_status = 404

    def __init__(self, token: str) -> None:
        """Name the id, which is public."""
        super().__init__(f"The account has no token {_short(token)!r} in use. List them with `dodona account list`.")


class TooManyTokens(Refused):
    """The account has as many tokens as it may have."""

    code = "too-many-tokens"

    def __init__(self) -> None:
        """Say what to do."""
        super().__init__(f"An account has at most {MOST_TOKENS} tokens in use. Revoke one that is not needed.")


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
