"""A client that sends whatever it is told to: TLS, SCRAM, and messages as bytes."""

from __future__ import annotations

import base64
import hashlib
import hmac
import socket
import ssl
import struct
from dataclasses import dataclass

from dodona.server.door.wire import message
from tests.door.scene import OpenDoor

PATIENCE = 10.0
"""Seconds in which something must arrive."""


@dataclass
class RawClient:
    """A connection that has logged in."""

    connection: ssl.SSLSocket
    buffer: bytes = b""

    def send(self, data: bytes) -> None:
        """Send bytes."""
        self.connection.sendall(data)

    def next(self) -> tuple[bytes, bytes] | None:
        """Return the next message; None at the end. Raises TimeoutError if nothing comes."""
        while len(self.buffer) < 5 or len(self.buffer) < 1 + struct.unpack("!I", self.buffer[1:5])[0]:
            try:
                data = self.connection.recv(1 << 16)
            except ConnectionError:
                return None
            if not data:
                return None
            self.buffer += data
        length = struct.unpack("!I", self.buffer[1:5])[0]
        kind, body, self.buffer = self.buffer[:1], self.buffer[5 : length + 1], self.buffer[length + 1 :]
        return kind, body

    def close(self) -> None:
        """Leave without a word."""
        self.connection.close()


def log_in(door: OpenDoor, name: str = "ada", *, seconds: float = PATIENCE) -> RawClient:
    """Return a connection of a person, ready for queries."""
    plain = socket.create_connection(("127.0.0.1", door.port), timeout=seconds)
    plain.sendall(struct.pack("!II", 8, 80877103))
    assert plain.recv(1) == b"S"
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    client = RawClient(context.wrap_socket(plain, server_hostname="localhost"))
    words = b"user\0" + name.encode() + b"\0database\0stays\0\0"
    client.send(struct.pack("!II", len(words) + 8, 3 << 16) + words)
    assert client.next() is not None
    bare = "n=,r=fyko+d2lbbFgONRv9qkxdawL"
    first = b"n,," + bare.encode()
    client.send(message(b"p", b"SCRAM-SHA-256\0" + struct.pack("!I", len(first)) + first))
    challenge = (client.next() or (b"", b""))[1][4:].decode()
    parts = dict(part.split("=", 1) for part in challenge.split(","))
    salted = hashlib.pbkdf2_hmac(
        "sha256", door.server.tokens[name].encode(), base64.b64decode(parts["s"]), int(parts["i"])
    )
    key = hmac.digest(salted, b"Client Key", "sha256")
    last = f"c=biws,r={parts['r']}"
    mask = hmac.digest(hashlib.sha256(key).digest(), f"{bare},{challenge},{last}".encode(), "sha256")
    proof = base64.b64encode(bytes(byte ^ other for byte, other in zip(key, mask, strict=True))).decode()
    client.send(message(b"p", f"{last},p={proof}".encode()))
    while (reply := client.next()) is not None:
        assert reply[0] != b"E", reply
        if reply[0] == b"Z":
            return client
    raise AssertionError("the door closed the connection")
