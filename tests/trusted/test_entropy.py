"""The keystream: a known answer, failures that never yield a word, and keys that are dropped in time."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
import pytest

from dodona.errors import EntropyFailed
from dodona.trusted.entropy import Encryptor, Keystream, aes_ctr

CHUNK_WORDS = (1 << 16) // 8

# NIST SP 800-38A, F.5.5: CTR-AES256.Encrypt.
KEY = bytes.fromhex("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4")
COUNTER = bytes.fromhex("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff")
PLAIN = bytes.fromhex(
    "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51"
    "30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710"
)
SECRET = bytes.fromhex(
    "601ec313775789a5b7a7f504bbf3d228f443e3ca4d62b59aca84e990cacaf5c5"
    "2b0930daa23de94ce87017ba2d84988ddfc9c58db67aada613c2dd08457941a6"
)


class Source:
    """The operating system's bytes, counted."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, size: int) -> bytes:
        self.calls += 1
        return os.urandom(size)


def test_the_keystream_is_the_one_nist_published():
    wanted = bytes(a ^ b for a, b in zip(PLAIN, SECRET, strict=True))
    stream = Keystream(source=lambda _: KEY + COUNTER)
    assert stream.words(8).tobytes() == wanted
    buffer = bytearray(64)
    assert aes_ctr(KEY, COUNTER).update_into(memoryview(bytes(64)), memoryview(buffer)) == 64
    assert bytes(buffer) == wanted


def test_single_words_and_odd_counts_take_whole_blocks():
    source = lambda _: KEY + COUNTER  # noqa: E731
    whole = Keystream(source=source).words(8).tolist()
    stream = Keystream(source=source)
    assert [stream.word(), *stream.words(3).tolist(), stream.word()] == [whole[0], *whole[2:5], whole[6]]


def test_nothing_is_drawn_before_words_are_asked_for_and_none_for_none():
    source = Source()
    stream = Keystream(source=source)
    assert stream.words(0).size == 0
    assert source.calls == 0
    stream.word()
    assert source.calls == 1


@pytest.mark.parametrize("count", [1, 2, CHUNK_WORDS - 1, CHUNK_WORDS, CHUNK_WORDS + 1, 3 * CHUNK_WORDS + 5])
def test_long_fills_continue_the_keystream_over_chunks(count: int):
    source = lambda _: KEY + COUNTER  # noqa: E731
    buffer = bytearray(8 * count)
    aes_ctr(KEY, COUNTER).update_into(memoryview(bytes(8 * count)), memoryview(buffer))
    assert Keystream(source=source).words(count).tobytes() == bytes(buffer)


def broken(kind: str) -> Callable[[int], bytes]:
    def source(size: int) -> bytes:
        if kind == "raises":
            raise OSError("no entropy")
        answers = {"short": os.urandom(size - 1), "long": os.urandom(size + 1), "empty": b"", "zeros": bytes(size)}
        return answers.get(kind, b"\xa5" * size)

    return source


@pytest.mark.parametrize("kind", ["raises", "short", "long", "empty", "zeros", "constant"])
def test_a_source_that_fails_yields_no_word_and_recovery_is_seen(kind: str):
    works, fails = False, broken(kind)
    stream = Keystream(source=lambda size: os.urandom(size) if works else fails(size))
    for _ in range(3):
        with pytest.raises(EntropyFailed):
            stream.words(4)
        with pytest.raises(EntropyFailed):
            stream.word()
    works = True
    assert len(set(stream.words(4).tolist())) == 4


def test_the_error_says_nothing_of_its_cause():
    stream = Keystream(source=broken("raises"))
    with pytest.raises(EntropyFailed) as caught:
        stream.word()
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    assert "no entropy" not in str(caught.value)


class Faulty:
    """A cipher that fails from its second call on while it is told to."""

    kind: str | None = None

    def __init__(self, key: bytes, nonce: bytes) -> None:
        self.right: Encryptor = aes_ctr(key, nonce)
        self.calls = 0

    def update_into(self, data: memoryview, buf: memoryview) -> int:
        self.calls += 1
        match self.kind if self.calls > 1 else None:
            case "raises":
                raise ValueError("cipher")
            case "short":
                return self.right.update_into(data[:-16], buf) if len(data) > 16 else 0
            case "nothing":
                return len(data)
            case "zeros":
                buf[:] = bytes(len(data))
                return len(data)
            case "none":
                return 0
        return self.right.update_into(data, buf)


@pytest.mark.parametrize("count", [1, 2, 7, 1024, CHUNK_WORDS + 2])
@pytest.mark.parametrize("kind", ["raises", "short", "nothing", "zeros", "none"])
def test_a_cipher_that_fails_yields_no_word_and_the_next_call_has_a_new_key(kind: str, count: int):
    failing = type("Failing", (Faulty,), {})
    source = Source()
    stream = Keystream(source=source, cipher=failing)
    before = stream.words(count).tolist()
    failing.kind = kind
    with pytest.raises(EntropyFailed):
        # Memory that a freed block of words left behind must not pass for new words.
        stream.words(count)
    failing.kind = None
    after = stream.words(count).tolist()
    assert source.calls == 2
    assert not set(before) & set(after)


def test_a_failure_in_the_middle_of_a_long_fill_yields_no_word():
    failing = type("Failing", (Faulty,), {"kind": "raises"})
    stream = Keystream(cipher=failing)
    with pytest.raises(EntropyFailed):
        stream.words(4 * CHUNK_WORDS)


def test_a_cipher_that_cannot_be_made_yields_no_word():
    def cipher(key: bytes, nonce: bytes) -> Encryptor:
        raise MemoryError(key, nonce)

    with pytest.raises(EntropyFailed):
        Keystream(cipher=cipher).word()


def test_the_key_is_changed_before_it_has_produced_too_much():
    source = Source()
    stream = Keystream(source=source, rekey_bytes=1024)
    for _ in range(64):
        stream.words(2)  # 16 bytes
    assert source.calls == 1
    stream.word()
    assert source.calls == 2
    for _ in range(100):
        stream.words(128)  # 1024 bytes
    assert source.calls == 102


def test_a_key_never_produces_more_than_it_may():
    """Each key's output is counted by its cipher, over fills of every size."""
    made: list[int] = []

    class Counting:
        def __init__(self, key: bytes, nonce: bytes) -> None:
            self.right = aes_ctr(key, nonce)
            made.append(0)

        def update_into(self, data: memoryview, buf: memoryview) -> int:
            made[-1] += len(data)
            return self.right.update_into(data, buf)

    stream = Keystream(cipher=Counting, rekey_bytes=1 << 17)
    rng = np.random.default_rng(41)
    for count in rng.integers(1, 40_000, size=200).tolist():
        stream.words(count)
    assert max(made) <= 1 << 17
    assert len(made) > 20


def test_forgetting_drops_the_key_and_what_was_drawn_ahead():
    source = Source()
    stream = Keystream(source=source)
    stream.word()
    epoch = stream.epoch
    stream.forget()
    assert stream.epoch is not epoch
    stream.word()
    assert source.calls == 2


def test_a_source_that_gives_the_same_seed_again_yields_no_word():
    """The second key would repeat the keystream of the first."""
    stream = Keystream(source=lambda count: bytes(range(count)))
    assert stream.words(4).size == 4
    stream.forget()
    with pytest.raises(EntropyFailed):
        stream.words(4)
