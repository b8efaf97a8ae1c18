"""What tests of more than one folder share."""

import gc
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.doctest import DoctestModule
from hypothesis import HealthCheck, settings

from tests.house.forks import Run, forks

pytest_plugins = ["tests.house.dealing", "tests.house.reach", "tests.house.shares"]

MEMORY = Path("/dev/shm")  # noqa: S108  files of tests alone
ROOM = 4 << 30


def use_memory() -> None:
    """Keep what tests write in memory, if there is room: a ledger syncs ten times a question, and disks are slow.

    What is synced is tested by a shim that loses everything else (`tests/ledger/drill.py`), not by pulling a plug.
    """
    if "TMPDIR" in os.environ or not os.access(MEMORY, os.W_OK):
        return
    volume = os.statvfs(MEMORY)
    if volume.f_bavail * volume.f_frsize >= ROOM and not volume.f_flag & os.ST_NOEXEC:
        os.environ["TMPDIR"] = str(MEMORY)
        tempfile.tempdir = None  # it may have been looked up already


use_memory()

# A change is not refused by chance: examples are the same in every run, and a busy machine is no fault. The soak runs
# the same tests with the profile `fresh`; what it finds belongs into the test, as an `@example`.
settings.register_profile("same", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fresh", settings.get_profile("same"), derandomize=False)
settings.load_profile("same")


# Modules and tests stay until the end: to look for garbage among them, again and again while they become more, takes a
# quarter of the time of collecting them.
gc.disable()


@pytest.hookimpl(wrapper=True)
def pytest_collect_file() -> Iterator[None]:
    """Look for examples in the docstrings of sources alone: tests have none, and there are many."""
    collected = yield
    return [collector for collector in collected if not isinstance(collector, DoctestModule)]


def pytest_collection_finish() -> None:
    """Spare the collector of garbage the fifteen thousand tests and all modules; little among them is garbage."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def forked() -> Iterator[Run]:
    """How to run a module in a process that has imported nothing of Dodona, without waiting for the libraries."""
    with forks() as run:
        yield run
