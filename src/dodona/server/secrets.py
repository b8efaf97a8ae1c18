"""Secrets of callers: tokens, passwords and the ids of sessions, and what is stored instead of them.

Nothing here stores a secret. Of a token and of a session a SHA-256 digest is kept, which is enough for 256 random bits;
of a password, which a person chose, a slow argon2id hash.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
import string
import threading
import unicodedata
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from dodona.errors import EntropyFailed, InvalidRequest

if TYPE_CHECKING:
    from argon2 import PasswordHasher

RandomBytes = Callable[[int], bytes]

SECRET_BYTES = 32
"""256 bits: nobody guesses them, however fast the hash is that is stored."""


def random_bytes(count: int, *, source: RandomBytes = os.urandom) -> bytes:
    """Return random bytes of the operating system; a source that fails or repeats one byte raises."""
    try:
        drawn = source(count)
    except Exception:  # noqa: BLE001  whatever went wrong, no secret may be made
        raise EntropyFailed from None
    if len(drawn) != count or len(set(drawn)) == 1:
        raise EntropyFailed
    return drawn


def equal(given: str | bytes, stored: str | bytes) -> bool:
    """Return whether two texts or two byte strings are equal, in a time that does not depend on where they differ."""
    return hmac.compare_digest(_octets(given), _octets(stored))


def _octets(value: str | bytes) -> bytes:
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value


def digest(secret: str) -> str:
    """Return what is stored of a random secret: its SHA-256, in hexadecimal."""
    return hashlib.sha256(_octets(secret)).hexdigest()


# --- Tokens: a prefix that scanners of leaked secrets recognise, 256 bits, and a checksum against typing errors. ---


PREFIX = "dodona_"
_ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase
_BODY = 43  # digits of base 62 for 256 bits
_CHECKSUM = 6  # digits of base 62 for 32 bits
_TOKEN = re.compile(rf"{PREFIX}([0-9A-Za-z]{{{_BODY}}})([0-9A-Za-z]{{{_CHECKSUM}}})", re.ASCII)
_SESSION = re.compile(rf"[0-9A-Za-z]{{{_BODY}}}", re.ASCII)
_ID = 12


@dataclass(frozen=True, slots=True)
class NewToken:
    """A new token. Its text is shown once and never stored."""

    text: str = field(repr=False)

    @property
    def id(self) -> str:
        """The public name of the token: the first digits of its digest, which a leaked token can be matched with."""
        return token_id(self.digest)

    @property
    def digest(self) -> str:
        """The SHA-256 of the token, in hexadecimal."""
        return digest(self.text)


def new_token(*, source: RandomBytes = os.urandom) -> NewToken:
    """Return a token of 256 random bits."""
    body = _base62(int.from_bytes(random_bytes(SECRET_BYTES, source=source)), _BODY)
    return NewToken(f"{PREFIX}{body}{_checksum(body)}")


def token_digest(text: str) -> str | None:
    """Return the digest of a text that may be a token; None if its form or its checksum is wrong.

    The form of a token is public, so this may take a time that depends on it.
    """
    parts = _TOKEN.fullmatch(text)
    if parts is None or _checksum(parts[1]) != parts[2]:
        return None
    return digest(text)


def token_id(token_digest: str) -> str:
    """Return the public name of a token."""
    return token_digest[:_ID]


def _checksum(body: str) -> str:
    return _base62(zlib.crc32(body.encode("ascii")), _CHECKSUM)


def _base62(number: int, digits: int) -> str:
    text = ""
    for _ in range(digits):
        number, digit = divmod(number, len(_ALPHABET))
        text = _ALPHABET[digit] + text
    return text


def new_session_id(*, source: RandomBytes = os.urandom) -> str:
    """Return the id of a session, or another secret that only one browser has: 256 random bits."""
    return _base62(int.from_bytes(random_bytes(SECRET_BYTES, source=source)), _BODY)


def is_session_id(text: str) -> bool:
    """Return whether a text has the form of a session's id."""
    return _SESSION.fullmatch(text) is not None


# --- SCRAM-SHA-256 (RFC 5802, RFC 7677): lets a PostgreSQL client log in with a token that is never sent. ---


ITERATIONS = 4096
"""What PostgreSQL uses. A token has 256 bits, so that more would only cost time."""
SALT_BYTES = 16


@dataclass(frozen=True, slots=True)
class ScramVerifier:
    """What a server needs to check that a client knows a token, and that is not enough to log in with."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int = ITERATIONS

    @classmethod
    def of(cls, secret: str, *, salt: bytes, iterations: int = ITERATIONS) -> ScramVerifier:
        """Return the verifier of a secret of printable ASCII, which SASLprep leaves as it is."""
        salted = hashlib.pbkdf2_hmac("sha256", secret.encode("ascii"), salt, iterations)
        client_key = hmac.digest(salted, b"Client Key", "sha256")
        return cls(salt, hashlib.sha256(client_key).digest(), hmac.digest(salted, b"Server Key", "sha256"), iterations)

    def accepts(self, proof: bytes, message: bytes) -> bool:
        """Return whether a client's proof for this exchange of messages proves knowledge of the secret."""
        if len(proof) != len(self.stored_key):
            return False
        mask = hmac.digest(self.stored_key, message, "sha256")
        client_key = bytes(byte ^ other for byte, other in zip(proof, mask, strict=True))
        return equal(hashlib.sha256(client_key).digest(), self.stored_key)

    def signature(self, message: bytes) -> bytes:
        """Return the proof to the client that the server knows the verifier."""
        return hmac.digest(self.server_key, message, "sha256")

    def to_text(self) -> str:
        """Return the verifier in the form that PostgreSQL stores; a secret in its own right."""
        salt, stored, server = (
            base64.b64encode(part).decode() for part in (self.salt, self.stored_key, self.server_key)
        )
        return f"SCRAM-SHA-256${self.iterations}:{salt}${stored}:{server}"


# --- Passwords: argon2id. They open the page alone; programs have tokens. ---


SHORTEST_PASSWORD = 12
LONGEST_PASSWORD = 1000
_AT_ONCE = threading.BoundedSemaphore(2)
"""Each hash takes 64 MB: a crowd at the login must not take all memory."""


class PasswordRefused(InvalidRequest):
    """A new password is too short, too long, or the name of its account."""

    code = "password-refused"

    def __init__(self) -> None:
        """Set a constant message: it must not hold the password."""
        super().__init__(
            f"This password is not accepted: choose {SHORTEST_PASSWORD} to {LONGEST_PASSWORD} characters that are not "
            "the account's name. Several words are easy to remember."
        )


def hash_password(password: str, *, name: str) -> str:
    """Return the argon2id hash of a new password of an account."""
    prepared = _prepare(password)
    if not SHORTEST_PASSWORD <= len(prepared) <= LONGEST_PASSWORD or prepared.casefold() == name.casefold():
        raise PasswordRefused
    with _AT_ONCE:
        return _hasher().hash(prepared)


def verify_password(stored: str | None, password: str) -> bool:
    """Return whether a password is the stored one; None takes as long, so that nobody learns which accounts exist."""
    from argon2.exceptions import Argon2Error, InvalidHashError

    prepared = _prepare(password)
    if len(prepared) > LONGEST_PASSWORD:  # nobody has one; hashing megabytes would be a way to keep a server busy
        prepared = ""
    with _AT_ONCE:
        try:
            _hasher().verify(_unmatched() if stored is None else stored, prepared)
        except (Argon2Error, InvalidHashError):
            return False
    return stored is not None


def needs_rehash(stored: str) -> bool:
    """Return whether a hash was made at an older cost."""
    return _hasher().check_needs_rehash(stored)


def _prepare(password: str) -> str:
    """Return a password as it is hashed: one form for characters that keyboards write in several (NIST SP 800-63B)."""
    return unicodedata.normalize("NFKC", password.encode("utf-8", "replace").decode())


@cache
def _hasher() -> PasswordHasher:
    from argon2 import PasswordHasher, profiles

    return PasswordHasher.from_parameters(profiles.RFC_9106_LOW_MEMORY)


def _unmatched() -> str:
    """Return a hash at the usual cost that no password has, as its bytes are drawn."""
    hasher = _hasher()
    salt, value = (
        base64.b64encode(random_bytes(count)).decode().rstrip("=") for count in (hasher.salt_len, hasher.hash_len)
    )
    cost = f"m={hasher.memory_cost},t={hasher.time_cost},p={hasher.parallelism}"
    return f"$argon2id$v=19${cost}${salt}${value}"
