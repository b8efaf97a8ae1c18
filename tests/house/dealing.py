"""The order of the tests where several workers run them: each begins with long ones, and all end together.

They share the work before it, too: pytest rewrites the asserts of a test file when it is first imported, and keeps the
code. Workers that start together would each rewrite all files; so each begins with another part of them.

A worker is dealt a run of neighbours, and one that has nothing left takes the end of another's, so all of them would
wait for a long test that stands last. Modules that have a slow test, or start servers and browsers, are dealt first: to
each worker a run of them, as neighbours share what they start. Short tests fill up the hands.
"""

import importlib
from collections.abc import Sequence
from contextlib import suppress
from itertools import chain
from typing import TypeVar

import pytest

from tests.house.tree import ROOT, module_name, python_files

Dealt = TypeVar("Dealt")

_LONG = frozenset(("client", "door", "page", "server"))


def deal(items: Sequence[pytest.Item], workers: int) -> list[pytest.Item]:
    """The tests in the order in which xdist splits them into runs of equal length; Spark's go to one worker alone."""
    hands: list[list[pytest.Item]] = [[] for _ in range(workers)]
    hands[0] += [item for item in items if _asks_spark(item)]
    others = [item for item in items if not _asks_spark(item)]
    long = list(dict.fromkeys(item.path for item in others if _is_long(item)))
    places = {path: place * workers // len(long) for place, path in enumerate(long)}
    short: list[pytest.Item] = []
    for item in others:
        (hands[places[item.path]] if item.path in places else short).append(item)
    left = len(items)
    for number, hand in enumerate(hands):
        size = left // (workers - number)
        room = max(size - len(hand), 0)
        hand.extend(short[:room])
        del short[:room]
        left -= size
    return [*chain.from_iterable(hands), *short]


def _asks_spark(item: pytest.Item) -> bool:
    return item.get_closest_marker("spark") is not None


def _is_long(item: pytest.Item) -> bool:
    return item.get_closest_marker("slow") is not None or not _LONG.isdisjoint(item.path.parts)


@pytest.hookimpl(trylast=True)  # after the tests that do not run were taken out
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deal them out where there are several workers, unless those near a change are to come first."""
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    if workers > 1 and config.getoption("--reach", None) is None:
        items[:] = deal(items, workers)


def beginning_elsewhere(listed: Sequence[Dealt], worker: int, workers: int) -> list[Dealt]:
    """The same things in a circle that begins at another place for each worker."""
    first = len(listed) * worker // workers
    return [*listed[first:], *listed[:first]]


def pytest_sessionstart(session: pytest.Session) -> None:
    """Import the test files, where all of them will be collected; one that fails is reported when it is collected."""
    config = session.config
    worker = getattr(config, "workerinput", None)
    everything = config.args_source is pytest.Config.ArgsSource.TESTPATHS and config.getoption("--reach", None) is None
    if worker is None or not everything:
        return
    files = [path for path in python_files(ROOT / "tests") if path.name.startswith("test_")]
    for path in beginning_elsewhere(files, int(worker["workerid"].removeprefix("gw")), worker["workercount"]):
        with suppress(Exception):
            importlib.import_module(module_name(path, ROOT))
