"""Runs a theory page's tests under one of the page's patches, in this process.

    python -m tests.house.patching docs/theory/PAGE.md [NUMBER]

The patch (the first unless a number is given) is applied to its module's source text when the
module is imported; no file is changed. Exit codes are pytest's: 1 means that the tests failed, so
the patch was caught; 0 means that it went unnoticed. 70 means that the patched module was never
imported.

Processes that a test forks carry the patch; fresh interpreters that it starts do not.
"""

import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import Phase, settings

from dodona.lab.audit.patch import Patch, install
from tests.house.pages import node_ids, patches

NEVER_IMPORTED = 70


class QuickFirst:
    """Has the quick tests tried first: mostly one of them fails, and the rest need not be run."""

    @staticmethod
    def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
        """Put tests of many examples behind the others, slow ones behind these, and those of the soak behind all."""
        items.sort(
            key=lambda item: (
                item.get_closest_marker("soak") is not None,
                item.get_closest_marker("slow") is not None,
                getattr(getattr(item, "obj", None), "is_hypothesis_test", False),
            )
        )


def run(patch: Patch, names: Sequence[str]) -> int:
    """The exit code of pytest on these tests, with the patch applied in this process."""
    finder = install([patch])
    with tempfile.TemporaryDirectory() as scratch:
        # Faulty machine code and failing examples must not reach the caches of honest runs.
        os.environ["NUMBA_CACHE_DIR"] = scratch
        os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = scratch
        # That a test fails is enough: to find the simplest example that fails it takes longer than all the tests.
        settings.register_profile("patch", phases=(Phase.explicit, Phase.generate))
        settings.load_profile("patch")
        # Asserts stay plain: to explain how two long lists differ can take longer than all the tests.
        options = ["-x", "-q", "--assert=plain", "-p", "no:cacheprovider"]
        code = int(pytest.main([*options, *names], plugins=[QuickFirst()]))
    return code if finder.used else NEVER_IMPORTED


def main(page: str, number: str = "1") -> int:
    """The exit code of one page's tests under its patch of this number."""
    path = Path(page)
    return run(patches(path)[int(number) - 1], node_ids(path))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
