"""A fork is a process of its own: it tells what it did, knows nothing of Dodona, and leaves nothing behind."""

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tests.house.forks import Run, forks
from tests.house.tree import ROOT

pytestmark = pytest.mark.slow

HERE = "tests.house.test_forks"
MAIN = f"from tests.house.forks import forks\nwith forks(libraries=()) as run: run({HERE!r}, 'hang', {{place!r}})"


def main(errand: str, place: str = "") -> int:
    """What a fork is sent to do."""
    match errand:
        case "tell":
            print(len(os.listdir("/proc/self/task")) if sys.platform == "linux" else 1)  # noqa: PTH208, T201  its output
            print(sorted(name for name in sys.modules if name.startswith("dodona")))  # noqa: T201  its output
            print(random.getrandbits(64))  # noqa: T201  its output
            print(np.random.randint(2**62))  # noqa: NPY002, T201  its output
            print("a complaint", file=sys.stderr)  # noqa: T201  its output
            return 3
        case "fail":
            raise ValueError("as any program can")
        case "abort":
            os.abort()
        case _:
            left = subprocess.Popen(["sleep", "600"])  # noqa: S607  any program that takes long
            Path(place).write_text(f"{os.getpid()} {left.pid} {os.getppid()}\n", encoding="utf-8")
            time.sleep(600 if errand == "hang" else 0)
            left.returncode = 0  # left running on purpose
            return 0


def test_a_fork_has_one_thread_nothing_of_dodona_and_chances_of_its_own(forked: Run) -> None:
    first, second = forked(HERE, "tell"), forked(HERE, "tell")
    assert (first.returncode, first.stderr) == (3, "a complaint\n")
    threads, modules, *drawn = first.stdout.split("\n")
    assert (threads, modules) == ("1", "[]")
    assert not set(filter(None, drawn)) & set(second.stdout.split("\n"))


def test_a_fork_that_fails_does_so_as_a_process_does(forked: Run) -> None:
    failed = forked(HERE, "fail")
    assert failed.returncode == 1
    assert failed.stderr.endswith("ValueError: as any program can\n")
    assert forked(HERE, "abort").returncode == -6
    assert forked(HERE, "tell").returncode == 3


def test_what_a_fork_leaves_running_is_killed(forked: Run, tmp_path: Path) -> None:
    assert forked(HERE, "leave", str(tmp_path / "pids")).returncode == 0
    fork, left, _ = pids(tmp_path / "pids")
    assert ended(fork, left)


def test_a_fork_that_hangs_is_killed_and_the_next_one_runs(tmp_path: Path) -> None:
    with forks(seconds=8, libraries=()) as run:
        with pytest.raises(subprocess.TimeoutExpired):
            run(HERE, "hang", str(tmp_path / "pids"))
        assert run(HERE, "tell").returncode == 3
    assert ended(*pids(tmp_path / "pids"))


def test_the_server_and_its_fork_die_with_who_started_them(tmp_path: Path) -> None:
    place = tmp_path / "pids"
    starter = subprocess.Popen([sys.executable, "-c", MAIN.format(place=str(place))], cwd=ROOT)
    while not (place.exists() and place.read_text(encoding="utf-8").endswith("\n")):
        assert starter.poll() is None
        time.sleep(0.05)
    starter.kill()
    starter.wait()
    assert ended(*pids(place))


def pids(place: Path) -> list[int]:
    """The fork, what it started, and the server."""
    return [int(word) for word in place.read_text(encoding="utf-8").split()]


def ended(*processes: int) -> bool:
    """Whether all of these processes end within a minute; one that nobody waits for has ended too."""
    limit = time.monotonic() + 60
    while time.monotonic() < limit:
        shown = subprocess.run(
            ["ps", "-o", "stat=", "-p", ",".join(map(str, processes))],  # noqa: S607  in every system's path
            capture_output=True,
            text=True,
            check=False,
        ).stdout.split()
        if all(state.startswith("Z") for state in shown):
            return True
        time.sleep(0.1)
    return False
