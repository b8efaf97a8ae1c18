"""What can be wrong with an act on accounts."""

from dodona.errors import InvalidRequest, Refused

MOST_TOKENS = 100
_LONGEST_SHOWN = 100


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
