"""Tokens, passwords, verifiers: what is stored is not the secret, and only the secret matches it."""

import base64
import hashlib
import hmac
import re
import string
import time

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dodona.errors import EntropyFailed
from dodona.server import secrets
from dodona.server.secrets import NewToken, PasswordRefused, ScramVerifier
from tests.ledger.scene import shared_server

PASSWORD = "correct horse battery"  # noqa: S105  of a test


def test_a_token_has_256_bits_a_prefix_and_a_checksum():
    token = secrets.new_token(source=lambda count: bytes(range(count)))
    body = token.text.removeprefix("dodona_")[:43]
    number = 0
    for letter in body:
        number = number * 62 + (string.digits + string.ascii_uppercase + string.ascii_lowercase).index(letter)
    assert number == int.from_bytes(bytes(range(32)))
    assert secrets.token_digest(token.text) == hashlib.sha256(token.text.encode()).hexdigest() == token.digest
    assert token.id == token.digest[:12]


def test_no_two_tokens_are_alike():
    """Of 2,000 tokens of 256 bits two are equal with a probability below 2^-230."""
    assert len({secrets.new_token().text for _ in range(2000)}) == 2000
    assert len({secrets.new_session_id() for _ in range(2000)}) == 2000


@given(st.text(max_size=80) | st.from_regex(r"dodona_[0-9A-Za-z]{49}", fullmatch=True))
def test_a_text_that_is_no_token_has_no_digest(text: str):
    """A random text of the right form has the right checksum with a probability of 2^-32 at most."""
    assert secrets.token_digest(text) is None
    assert not secrets.is_session_id(text) or re.fullmatch("[0-9A-Za-z]{43}", text)


@pytest.mark.parametrize("source", [lambda _: b"", bytes, lambda count: b"\xff" * count, lambda count: b"ab" * count])
def test_a_source_of_randomness_that_fails_makes_no_secret(source: secrets.RandomBytes):
    for make in (secrets.new_token, secrets.new_session_id):
        with pytest.raises(EntropyFailed):
            make(source=source)


def test_a_source_of_randomness_that_raises_makes_no_secret():
    def source(_: int) -> bytes:
        raise OSError("no device")

    with pytest.raises(EntropyFailed):
        secrets.new_token(source=source)


def test_a_secret_is_in_no_repr():
    token = secrets.new_token()
    verifier = ScramVerifier.of(token.text, salt=bytes(range(16)))
    assert token.text not in repr(token)
    assert repr(verifier) == "ScramVerifier(iterations=4096)"
    assert repr(NewToken("x")) == "NewToken()"


@pytest.mark.parametrize("secret", ["dodona_secret", "x" * 200, "!~ $:,=" + string.ascii_letters])
def test_a_verifier_is_the_one_that_postgresql_computes(secret: str):
    """Libpq draws the salt; with it, ours is the same text."""
    with psycopg.connect(shared_server().address) as connection:
        theirs = connection.pgconn.encrypt_password(secret.encode(), b"ada", b"scram-sha-256").decode()
    iterations, salt = theirs.removeprefix("SCRAM-SHA-256$").partition("$")[0].split(":")
    verifier = ScramVerifier.of(secret, salt=base64.b64decode(salt), iterations=int(iterations))
    assert verifier.to_text() == theirs


def test_a_verifier_accepts_the_proof_of_who_knows_the_secret_and_of_nobody_else():
    salt, message = bytes(range(16)), b"n=ada,r=nonce,..."
    verifier = ScramVerifier.of("the secret", salt=salt)

    def proof(secret: str) -> bytes:  # RFC 5802, section 3
        salted = hashlib.pbkdf2_hmac("sha256", secret.encode(), salt, 4096)
        key = hmac.digest(salted, b"Client Key", "sha256")
        signature = hmac.digest(hashlib.sha256(key).digest(), message, "sha256")
        return bytes(byte ^ other for byte, other in zip(key, signature, strict=True))

    assert verifier.accepts(proof("the secret"), message)
    assert not verifier.accepts(proof("the secret"), message + b"x")
    assert not verifier.accepts(proof("another secret"), message)
    assert not verifier.accepts(b"", message)
    assert not verifier.accepts(verifier.stored_key, message)


def test_a_password_is_stored_as_argon2id_and_found_again_in_any_form_of_its_characters():
    stored = secrets.hash_password("Ångström und Öl", name="ada")
    assert stored.startswith("$argon2id$v=19$m=65536,t=3,p=4$")
    assert secrets.verify_password(stored, "Ångström und Öl")
    assert secrets.verify_password(stored, "A\u030angstro\u0308m und O\u0308l")
    assert not secrets.verify_password(stored, "Angstrom und Ol")
    assert not secrets.needs_rehash(stored)
    assert secrets.needs_rehash(stored.replace("m=65536", "m=1024"))


@pytest.mark.parametrize(
    "password", ["", "elevenchars", "x" * 1001, "ada.lovelace@example.org", "ADA.lovelace@Example.org"]
)
def test_a_weak_password_is_refused_and_not_repeated(password: str):
    with pytest.raises(PasswordRefused) as caught:
        secrets.hash_password(password, name="ada.lovelace@example.org")
    assert not password or password not in str(caught.value)


@pytest.mark.parametrize("stored", [None, "", "plain", "$argon2id$v=19$m=65536", PASSWORD])
def test_nothing_matches_a_password_that_is_not_there(stored: str | None):
    assert not secrets.verify_password(stored, PASSWORD)


def test_an_account_that_is_not_there_takes_as_long_as_a_wrong_password():
    """CPU time, the best of three: without the work for unknown names the ratio would be above 1000."""
    stored = secrets.hash_password(PASSWORD, name="ada")

    def seconds(kept: str | None) -> float:
        taken = []
        for _ in range(3):
            start = time.process_time()
            secrets.verify_password(kept, "a wrong password")
            taken.append(time.process_time() - start)
        return min(taken)

    assert 1 / 3 < seconds(None) / seconds(stored) < 3


def test_megabytes_are_not_hashed():
    stored = secrets.hash_password(PASSWORD, name="ada")
    assert not secrets.verify_password(stored, PASSWORD * 10**5)
