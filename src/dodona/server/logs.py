"""Structured logs: one JSON object a line, without questions, values or secrets.

A line about a request names the account, the dataset, the act, the status and the time it took. The text of a question
is written only if the owner has turned texts on. Of an exception the log holds its type and the lines of code that it
passed, never its message: a message may quote what a caller sent.
"""

import json
import logging
import sys
import time
import traceback
from contextlib import suppress

_LIBRARIES = ("uvicorn", "uvicorn.error", "uvicorn.access", "asyncio", "fastapi", "httpx", "authlib")


def write(event: str, **facts: object) -> None:
    """Write a line; a fact that is None is left out."""
    now = time.time()
    moment = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(now))}.{int(now % 1 * 1000):03d}Z"
    line = {"time": moment, "event": event} | {name: fact for name, fact in facts.items() if fact is not None}
    with suppress(OSError):  # a full disk must not keep anyone from an answer
        sys.stderr.write(json.dumps(line) + "\n")
        sys.stderr.flush()


def write_fault(event: str, fault: BaseException, **facts: object) -> None:
    """Write a line about an exception: its type, and where it was raised."""
    places = [f"{frame.filename}:{frame.lineno}" for frame in traceback.extract_tb(fault.__traceback__)[-8:]]
    write(event, fault=type(fault).__qualname__, places=places, **facts)


class LineHandler(logging.Handler):
    """Writes what libraries log as lines of the same form: the text without its arguments."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record. Arguments and messages of exceptions are left out: they may quote a request."""
        facts: dict[str, object] = {"logger": record.name, "level": record.levelname.lower()}
        if record.exc_info is not None and record.exc_info[1] is not None:
            write_fault("library", record.exc_info[1], text=str(record.msg).strip(), **facts)
        else:
            write("library", text=str(record.msg).strip(), **facts)


def set_up() -> None:
    """Send what libraries log from `warning` on through our handler, and nothing anywhere else."""
    handler = LineHandler(logging.WARNING)
    for name in _LIBRARIES:
        logger = logging.getLogger(name)
        logger.handlers = []
        logger.propagate = name != "uvicorn.access"
        logger.setLevel(logging.WARNING)
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.WARNING)
