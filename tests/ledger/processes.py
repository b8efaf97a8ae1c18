"""Children forked from a warm parent, which say through a pipe what they were told, until they end or are killed."""

import os
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Child:
    """A process of ours and the end of the pipe that it speaks into."""

    process: int
    pipe: int

    def kill(self) -> None:
        """End it without a word."""
        os.kill(self.process, signal.SIGKILL)

    def first_word(self) -> str:
        """Return the first line that it says, having waited for it."""
        said = b""
        while not said.endswith(b"\n"):
            more = os.read(self.pipe, 1)
            if not more:
                break
            said += more
        return said.decode().strip()

    def finish(self) -> list[str]:
        """Return all lines that it said, once it has ended; a last line that was cut short is not one."""
        said = b""
        while more := os.read(self.pipe, 1 << 16):
            said += more
        os.close(self.pipe)
        os.waitpid(self.process, 0)
        return said.decode().split("\n")[:-1]


def forked(work: Callable[[Say], None]) -> Child:
    """Return a child that does the work and ends."""
    reader, writer = os.pipe()
    process = os.fork()
    if process != 0:
        os.close(writer)
        return Child(process, reader)
    os.close(reader)
    try:
        work(lambda word: _say(writer, word))
    except BaseException:  # noqa: BLE001  a child ends here, whatever happens
        _say(writer, f"untyped {traceback.format_exc()!r}")
    finally:
        sys.stderr.flush()
        os._exit(0)


def _say(writer: int, word: str) -> None:
    os.write(writer, f"{word}\n".encode())
