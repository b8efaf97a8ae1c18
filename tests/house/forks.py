"""A process that has imported the libraries once, and forks to run one module after another.

A fork is a fresh process for all that a test can tell: nothing of Dodona was imported before it, its chances are its
own, and it ends as `python -m MODULE ARGUMENTS` would. It saves the seconds that the libraries take to import.

    python -m tests.house.forks LIBRARY...     # takes orders until its input closes, one line of JSON each

Only libraries that start no threads are imported beforehand: a thread does not live through a fork.
"""

import atexit
import gc
import importlib
import json
import os
import random
import select
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

from tests.house.tree import ROOT

LIBRARIES = (
    "pytest", "_pytest.doctest", "hypothesis", "hypothesis.stateful", "hypothesis.extra.numpy", "numpy",
    "scipy.special", "scipy.optimize", "scipy.integrate", "scipy.sparse", "scipy.stats", "mpmath", "sqlglot",
    "cryptography.hazmat.primitives.ciphers", "concurrent.futures.thread", "sqlite3", "pandas", "psycopg",
    "pyarrow.parquet", "pyspark.sql",
)  # fmt: skip
SECONDS = 600.0
"""How long a run may take before it is killed."""

Run = Callable[..., subprocess.CompletedProcess[str]]
"""Takes the name of a module and its arguments, and returns what became of it."""


@contextmanager
def forks(seconds: float = SECONDS, libraries: Sequence[str] = LIBRARIES) -> Iterator[Run]:
    """How to run modules in forks of one process; it ends, and its fork with it, when this is left."""
    outside = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST_")}
    outside |= {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}  # one thread
    command = [sys.executable, "-m", "tests.house.forks", *libraries]
    with subprocess.Popen(
        command, cwd=ROOT, env=outside, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        orders, replies = server.stdin, server.stdout
        assert orders is not None
        assert replies is not None

        def run(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
            with tempfile.TemporaryDirectory() as folder:
                said, complained = Path(folder, "out"), Path(folder, "error")
                order = {"module": module, "arguments": arguments, "seconds": seconds, "output": folder}
                print(json.dumps(order), file=orders, flush=True)
                code = json.loads(replies.readline())
                texts = [path.read_text(encoding="utf-8", errors="replace") for path in (said, complained)]
            if code is None:
                raise subprocess.TimeoutExpired([module, *arguments], seconds, *texts)
            return subprocess.CompletedProcess([module, *arguments], code, *texts)

        yield run


def main(*libraries: str) -> int:
    """The exit code of the server, when there are no more orders."""
    for library in libraries:
        importlib.import_module(library)
    gc.freeze()  # what is shared by all forks need not be looked at, and so copied, in each
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if child == 0:
            _end(_forked(order["module"], order["arguments"], Path(order["output"])))
        print(json.dumps(_awaited(child, order["seconds"])), flush=True)  # noqa: T201  its output
    return 0


def _forked(module: str, arguments: Sequence[str], output: Path) -> int:
    """The exit code of a module's main, run as if in a process of its own."""
    os.setpgid(0, 0)
    for path, stream in ((Path(os.devnull), 0), (output / "out", 1), (output / "error", 2)):
        os.dup2(os.open(path, os.O_RDONLY if stream == 0 else os.O_WRONLY | os.O_CREAT), stream)
    random.seed()
    importlib.import_module("numpy").random.seed()
    sys.argv = [module, *arguments]
    try:
        return int(importlib.import_module(module).main(*arguments))
    except Exception:  # noqa: BLE001  as the interpreter does at its top
        traceback.print_exc()
        return 1


def _end(code: int) -> NoReturn:
    """End this fork: what was registered for the end is done, but nothing is taken apart that the system takes back.

    To take apart all the libraries takes longer than most of what forks are sent to do.
    """
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


def _awaited(child: int, seconds: float) -> int | None:
    """The exit code of a fork, or None if it was killed for taking too long; it leaves no processes behind."""
    with suppress(PermissionError, ProcessLookupError):
        os.setpgid(child, child)  # here too: who comes first is not known
    code: int | None = None
    ended = os.pidfd_open(child)
    try:
        # The input says something while a fork runs only by closing: who gave the orders is gone.
        if ended in select.select([0, ended], [], [], seconds)[0]:
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    finally:
        os.close(ended)
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        if code is None:
            with suppress(ChildProcessError):
                os.waitpid(child, 0)
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
