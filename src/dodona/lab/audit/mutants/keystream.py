"""Faults in the source of randomness: each answer has the right distribution, but two of them share noise."""

from __future__ import annotations

from dodona.lab.audit.patch import Mutant, replace_lines

_ENTROPY = "dodona.trusted.entropy"
_DRAW = "dodona.trusted.samplers.draw"

MUTANTS = (
    Mutant(
        "constant keystream",
        "every call restarts the same keystream",
        (
            replace_lines(
                _ENTROPY,
                "        seed = self._source(KEY_BYTES + NONCE_BYTES)",
                "        seed = bytes(range(KEY_BYTES + NONCE_BYTES))",
                symbol="Keystream._rekey",
            ),
            replace_lines(
                _ENTROPY,
                "        self._last = digest  # kept over a fork: a source that repeats itself is noticed there too",
                "",
                symbol="Keystream._rekey",
            ),
            replace_lines(
                _ENTROPY,
                "            try:\n                for start in range(0, len(target), _CHUNK):",
                "            self._encryptor = None\n"
                "            try:\n                for start in range(0, len(target), _CHUNK):",
                symbol="Keystream.words",
            ),
        ),
        ("laplace in two calls",),
    ),
    Mutant(
        "keystream shared after a fork",
        "a child goes on with its parent's key",
        (
            replace_lines(_ENTROPY, "os.register_at_fork(after_in_child=Keystream.forget_all)", ""),
            replace_lines(
                _ENTROPY,
                "        if self._encryptor is None or self._left < size or self._owner != os.getpid():",
                "        if self._encryptor is None or self._left < size:",
                symbol="Keystream._fill",
            ),
        ),
        ("laplace across a fork",),
    ),
    Mutant(
        "noise drawn ahead shared after a fork",
        "a child hands out the values that its parent has drawn ahead",
        (
            replace_lines(
                _DRAW,
                "        if self._owner == os.getpid() and self._epoch is self._stream.epoch and self._drawn:",
                "        if self._drawn:",
                symbol="BufferedDraws.one",
            ),
        ),
        ("laplace singly across a fork",),
    ),
    Mutant(
        "noise drawn ahead used twice",
        "a value is handed out and kept every second time",
        (
            replace_lines(
                _DRAW,
                "                return self._drawn.pop()",
                "                self._repeated = not getattr(self, '_repeated', False)\n"
                "                return self._drawn[-1] if self._repeated else self._drawn.pop()",
                symbol="BufferedDraws.one",
            ),
            replace_lines(
                _DRAW,
                '    __slots__ = ("_drawn", "_epoch", "_law", "_owner", "_stream")',
                '    __slots__ = ("_drawn", "_epoch", "_law", "_owner", "_repeated", "_stream")',
                symbol="BufferedDraws",
            ),
        ),
        ("laplace in two single calls",),
    ),
)
