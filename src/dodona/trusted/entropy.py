"""The only source of noise: an AES-256-CTR keystream keyed by the operating system.

All random draws of answers come from here. A failed or short fill raises; it never yields zeros.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from hashlib import sha256
from typing import ClassVar, Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from dodona.errors import EntropyFailed

KEY_BYTES = 32
NONCE_BYTES = 16
REKEY_BYTES = 1 << 34
"""How much one key may produce; 2^34 bytes is 2^30 blocks, far below the birthday bound of CTR."""

_CHUNK = 1 << 16
_ZEROS = bytes(_CHUNK)


class Encryptor(Protocol):
    """The cipher interface that the keystream needs."""

    def update_into(self, data: memoryview, buf: memoryview) -> int:
        """Encrypt `data` into `buf` and return the number of bytes written."""


def aes_ctr(key: bytes, nonce: bytes) -> Encryptor:
    """Return an AES-256-CTR encryptor; encrypting zeros yields its keystream."""
    return Cipher(algorithms.AES(key), modes.CTR(nonce)).encryptor()


class Keystream:
    """Uniform 64-bit words, safe to share between threads; a forked child draws under its own key.

    Theorem: keystream
    """

    _all: ClassVar[weakref.WeakSet[Keystream]] = weakref.WeakSet()

    def __init__(
        self,
        *,
        source: Callable[[int], bytes] = os.urandom,
        cipher: Callable[[bytes, bytes], Encryptor] = aes_ctr,
        rekey_bytes: int = REKEY_BYTES,
    ) -> None:
        """Take the dependencies as arguments, for tests; nothing is drawn until words are requested."""
        self._source = source
        self._cipher = cipher
        self._rekey_bytes = rekey_bytes
        self._last = b""
        self.forget()
        self._all.add(self)

    def forget(self) -> None:
        """Drop the key, so that the next word comes from a new one."""
        self.epoch = object()
        """Changes when the key is dropped: values buffered under another epoch are not used."""
        self._lock = threading.Lock()
        self._encryptor: Encryptor | None = None
        self._owner = 0
        self._left = 0

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return `count` fresh uniform 64-bit words."""
        filled = np.zeros(count + count % 2, dtype=np.uint64)  # whole AES blocks; zeros, so that gaps are noticed
        target = filled.view(np.uint8).data
        with self._lock:
            try:
                for start in range(0, len(target), _CHUNK):
                    self._fill(target[start : start + _CHUNK])
            except Exception:  # noqa: BLE001  whatever went wrong, no word may be returned
                self._encryptor = None
                raise EntropyFailed from None
        return filled[:count]

    def word(self) -> int:
        """Return one fresh word as an integer: the next bits of a number whose first bits did not decide."""
        return int(self.words(1)[0])

    def _fill(self, target: memoryview) -> None:
        size = len(target)
        if self._encryptor is None or self._left < size or self._owner != os.getpid():
            self._rekey()
        assert self._encryptor is not None  # noqa: S101  narrows the type; _rekey has just set it
        written = self._encryptor.update_into(memoryview(_ZEROS)[:size], target)
        self._left -= size
        # A final block of zeros has probability 2^-128; in practice it means that nothing was written.
        if written != size or not any(target[-16:]):
            raise EntropyFailed

    def _rekey(self) -> None:
        seed = self._source(KEY_BYTES + NONCE_BYTES)
        digest = sha256(seed).digest()
        if len(seed) != KEY_BYTES + NONCE_BYTES or len(set(seed)) == 1 or digest == self._last:
            raise EntropyFailed
        self._last = digest  # kept across a fork, so that a repeating source is detected there too
        self._encryptor = self._cipher(seed[:KEY_BYTES], seed[KEY_BYTES:])
        self._owner = os.getpid()
        self._left = self._rekey_bytes

    @classmethod
    def forget_all(cls) -> None:
        """Drop every key of this process: called in a child right after a fork."""
        for stream in cls._all:
            stream.forget()


os.register_at_fork(after_in_child=Keystream.forget_all)

SYSTEM = Keystream()
"""The keystream of this process."""
