"""The four families of errors. A message depends on public facts only and says whether anything was charged."""

import unicodedata
from typing import ClassVar, Self

_CHARGED = {
    True: "The charge stands.",
    False: "Nothing was charged.",
    None: "Whether it was charged is not known here; the same key asks again, and is charged once at most.",
}


class DodonaError(Exception):
    """The base class of every error that Dodona raises deliberately.

    The class fields are the only table that maps an error to the command line, HTTP and SQL.
    """

    code: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1
    http_status: ClassVar[int] = 500
    sqlstate: ClassVar[str] = "XX000"
    retry_after: int | None = None
    """After how many seconds the same may succeed, as the HTTP header says; None where something must change first."""

    def __init__(self, message: str, *, charged: bool | None = False) -> None:
        """Store the message, followed by whether the budget was charged; None if that is not known."""
        message = printable(message)
        self.message = message
        self.charged = charged
        super().__init__(f"{message} {_CHARGED[charged]}")

    def after_charge(self) -> Self:
        """Return the same error marked as charged, for a charge that the code raising it did not know about."""
        return self.with_charge(charged=True)

    def with_charge(self, *, charged: bool | None) -> Self:
        """Return the same error with another word about the charge; threads may share the error itself."""
        again = type(self).__new__(type(self))
        again.__dict__.update(self.__dict__)
        DodonaError.__init__(again, self.message, charged=charged)
        return again


class InvalidRequest(DodonaError):
    """The request is wrong but can be fixed; the message says what to write instead."""

    code = "invalid-request"
    exit_code = 2
    http_status = 400
    sqlstate = "22023"


class Refused(DodonaError):
    """The request is valid, but the policy forbids it."""

    code = "refused"
    exit_code = 3
    http_status = 403
    sqlstate = "42501"


class Unavailable(DodonaError):
    """The failure is on our side. The text is constant, so that a failure cannot carry data."""

    code = "unavailable"
    exit_code = 4
    http_status = 503
    sqlstate = "58000"


class InvariantBroken(DodonaError):
    """An internal bug: serving stops."""

    code = "invariant-broken"
    exit_code = 70
    http_status = 500
    sqlstate = "XX000"


class InvalidArgument(InvalidRequest):
    """An argument has a value that is not accepted; no noise was drawn."""

    code = "invalid-argument"

    def __init__(self, argument: str, value: object, accepted: str) -> None:
        """Name the argument, the value received and what is accepted instead."""
        self.argument = argument
        self.value = value
        self.accepted = accepted
        super().__init__(f"{argument} = {_short_repr(value)} is not accepted: {accepted}. Nothing was drawn.")


class Halted(Refused):
    """A sparse vector has no positive left: it released the last one, or reopening it took the rest."""

    code = "halted"

    def __init__(self, positives: int) -> None:
        """State how many positives the sparse vector was opened for."""
        alerts = "1 alert" if positives == 1 else f"{positives} alerts"
        super().__init__(
            f"This threshold was opened for {alerts}, and none is left: each report takes one, and each reopening "
            "some. Open a new one."
        )


class EntropyFailed(Unavailable):
    """The source of randomness failed, so no noise was drawn and no answer was released."""

    code = "entropy-failed"
    retry_after = 5

    def __init__(self, *, charged: bool = False) -> None:
        """Use a constant message."""
        super().__init__("The source of randomness failed. Nothing was answered.", charged=charged)


def printable(text: str) -> str:
    r"""Escape untrusted text for display on a terminal or a page.

    Escapes control characters, escape sequences, and invisible or direction-changing marks.

    >>> printable("count\x1b[31m, \u202eevil"), printable("naïve, two\nlines")
    ('count\\x1b[31m, \\u202eevil', 'naïve, two\nlines')
    """
    if text.isprintable():
        return text
    return "".join(character if _harmless(character) else _spell(character) for character in text)


def printable_json(text: str) -> str:
    r"""Return equivalent JSON text with terminal control characters escaped.

    >>> printable_json('"\u202eevil"')
    '"\\u202eevil"'
    """
    if text.isprintable():
        return text
    return "".join(character if _harmless(character) else _escape(character) for character in text)


def _escape(character: str) -> str:
    pairs = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{pairs[place : place + 2].hex()}" for place in range(0, len(pairs), 2))


def _harmless(character: str) -> bool:
    return character == "\n" or unicodedata.category(character) not in {"Cc", "Cf", "Cs", "Zl", "Zp"}


def _spell(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode()


def _short_repr(value: object, longest: int = 60) -> str:
    """Return a short repr of any value; a repr may raise, as it does for integers of thousands of digits."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001  the error at hand must not be lost for another one
        text = f"a {type(value).__name__} that cannot be shown"
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
