"""SCRAM-SHA-256 and SCRAM-SHA-256-PLUS, the server's side (RFC 5802, 5929, 7677): a client proves to know a token."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dodona.server import secrets
from dodona.server.secrets import ScramVerifier

PLAIN, PLUS = "SCRAM-SHA-256", "SCRAM-SHA-256-PLUS"
_FIRST = re.compile(r"((n|y|p=([^,]+)),([^,]*),)((?:m=[^,]*,)?n=([^,]*),r=([!-+\--~]+)(?:,.*)?)", re.DOTALL)
_NONCE_BYTES = 18
_BINDING = "tls-server-end-point"


class WrongProof(Exception):
    """What a client sent is no step of SCRAM, or does not prove anything."""


@dataclass(frozen=True, slots=True)
class Challenge:
    """The server's first message, and what the client's last one is checked against."""

    text: str
    _bare: str
    _header: bytes
    _nonce: str

    def accept(self, final: str, verifiers: Sequence[tuple[str, ScramVerifier]]) -> tuple[str, bytes]:
        """Return the id of the token that the client knows, and the server's last message; raises WrongProof."""
        unproven, _, proof = final.rpartition(",p=")
        parts = dict(part.split("=", 1) for part in unproven.split(",") if "=" in part)
        try:
            given, bound = base64.b64decode(proof, validate=True), base64.b64decode(parts.get("c", ""), validate=True)
        except (binascii.Error, ValueError):
            raise WrongProof from None
        if not secrets.equal(parts.get("r", ""), self._nonce) or not secrets.equal(bound, self._header):
            raise WrongProof
        signed = f"{self._bare},{self.text},{unproven}".encode()
        matches = [(token, verifier) for token, verifier in verifiers if verifier.accepts(given, signed)]
        if not matches:
            raise WrongProof
        token, verifier = matches[0]
        return token, b"v=" + base64.b64encode(verifier.signature(signed))


def challenge(mechanism: str, first: str, verifier: ScramVerifier, certificate: bytes | None) -> Challenge:
    """Return the answer to a client's first message.

    `certificate` is the digest of the server's certificate that clients bind the exchange to, None without TLS. A
    client that says it would have, had the server offered it, was deceived by an intermediary.
    """
    parts = _FIRST.fullmatch(first)
    if parts is None or mechanism not in {PLAIN, PLUS}:
        raise WrongProof
    header, flag, binding, bare, nonce = parts[1], parts[2], parts[3], parts[5], parts[7]
    plus = mechanism == PLUS
    if plus != (binding is not None) or (binding is not None and binding != _BINDING):
        raise WrongProof
    if (plus and certificate is None) or (flag == "y" and certificate is not None):
        raise WrongProof
    drawn = nonce + base64.b64encode(secrets.random_bytes(_NONCE_BYTES)).decode()
    text = f"r={drawn},s={base64.b64encode(verifier.salt).decode()},i={verifier.iterations}"
    return Challenge(text, bare, header.encode() + (certificate if plus and certificate else b""), drawn)


def decoy(name: str, key: bytes) -> ScramVerifier:
    """Return the verifier of a name that has no account: always the same one, so that nobody learns who has."""
    salt = hmac.digest(key, name.encode(), "sha256")[: secrets.SALT_BYTES]
    return ScramVerifier(salt, hmac.digest(key, b"stored", "sha256"), hmac.digest(key, b"server", "sha256"))


def certificate_digest(path: Path) -> bytes:
    """Return the digest of a certificate that clients bind to (RFC 5929): by the hash of its signature."""
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding

    certificate = x509.load_pem_x509_certificate(path.read_bytes())
    used = certificate.signature_hash_algorithm
    name = "sha256" if used is None or used.name in {"md5", "sha1"} else used.name
    return hashlib.new(name, certificate.public_bytes(Encoding.DER)).digest()
