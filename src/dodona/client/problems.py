"""From problem+json to the errors of `dodona.errors`: the class with the problem's code, or its family by status."""

import json
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import dodona.ledger.errors as _  # noqa: F401  its classes are then known by their codes
from dodona.errors import DodonaError, InvalidRequest, InvariantBroken, Refused, Unavailable

_REFUSALS = frozenset({401, 403, 429})
_BUG = 500


class NotConnected(Unavailable):
    """The server could not be reached, or its reply was lost."""

    code = "not-connected"

    def __init__(self, why: str, *, key: str | None = None, charged: bool | None = False) -> None:
        """Say what failed, and name the key under which to ask again."""
        self.key = key
        again = "" if key is None else f" Ask again with key={key!r}."
        super().__init__(f"The server could not be asked: {why}.{again}", charged=charged)


class StrangeReply(Unavailable):
    """What answered is no server of Dodona, or of a version that this client cannot read."""

    code = "strange-reply"

    def __init__(self, status: int, *, charged: bool | None = False) -> None:
        """State the HTTP status."""
        super().__init__(
            f"The reply, with status {status}, is not one of a Dodona server that this version can read. Check the "
            "address, and whatever stands between.",
            charged=charged,
        )


def read_problem(status: int, body: bytes, *, charged: bool | None) -> DodonaError:
    """Return the error that a reply tells of; `charged` is assumed where it does not say."""
    try:
        document: dict[str, Any] = json.loads(body)
        code = str(document["type"]).rpartition("/")[2]
        detail = str(document["detail"])
        was_charged = document.get("charged", charged)
    except (ValueError, KeyError, TypeError):
        return StrangeReply(status, charged=charged)
    kind = error_class(code, status)
    fault = kind.__new__(kind)  # its constructor takes other arguments; the message is all there
    DodonaError.__init__(fault, detail, charged=was_charged if was_charged is None else bool(was_charged))
    vars(fault).update(code=code, http_status=status)  # those of its class, unless only its family is known here
    for name in ("asked", "left"):
        if isinstance(document.get(name), str):
            setattr(fault, name, Fraction(document[name]))
    for name in ("of", "best"):
        if isinstance(document.get(name), str):
            setattr(fault, name, document[name])
    if isinstance(document.get("alternatives"), list):
        vars(fault)["alternatives"] = tuple(document["alternatives"])
    return fault


def error_class(code: str, status: int) -> type[DodonaError]:
    """Return the class of errors with a code: every class that a program can catch is loaded, and so it is found.

    A code that is not known here is an error of its family.

    >>> error_class("budget-exhausted", 403).__name__, error_class("from-the-future", 429).__name__
    ('BudgetExhausted', 'Refused')
    """
    return next((kind for kind in _kinds(DodonaError) if vars(kind).get("code") == code), _family(status))


def _kinds(kind: type[DodonaError]) -> Iterator[type[DodonaError]]:
    yield kind
    for further in kind.__subclasses__():
        yield from _kinds(further)


def _family(status: int) -> type[DodonaError]:
    if status in _REFUSALS:
        return Refused
    if status == _BUG:
        return InvariantBroken
    return Unavailable if status > _BUG else InvalidRequest
