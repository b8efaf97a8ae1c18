"""Runs a theory page's tests under one of the page's patches, in this process.

    python -m tests.house.patching docs/theory/PAGE.md [NUMBER]
    python -m tests.house.patching --write      # which test catches which patch, to catches.toml

The patch (the first unless a number is given) is applied to its module's source text when the
module is imported; no file is changed. Exit codes are pytest's: 1 means that the tests failed, so
the patch was caught; 0 means that it went unnoticed. 70 means that the patched module was never
imported.

The test that caught a patch before, by `catches.toml`, is tried first, and alone: mostly that is all that is run. If it
does not fail, all tests of the page are run, as if there were no such file.

Processes that a test forks carry the patch; fresh interpreters that it starts do not.
"""

import json
import os
import re
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

from dodona.lab.audit.patch import Patch, install
from tests.house.forks import forks
from tests.house.pages import node_ids, pages, patches

NEVER_IMPORTED = 70
CATCHES = Path(__file__).with_name("catches.toml")
"""The test that caught each patch when this was last written: an order, which nothing rests on."""


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


def run(patch: Patch, names: Sequence[str], first: str | None = None) -> int:
    """The exit code of pytest on these tests, with the patch applied in this process; one of them may go first."""
    finder = install([patch])
    with tempfile.TemporaryDirectory() as scratch:
        # Faulty machine code and failing examples must not reach the caches of honest runs.
        os.environ["NUMBA_CACHE_DIR"] = scratch
        os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = scratch
        os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # to look for plugins takes longer than a small test
        # That a test fails is enough: to find the simplest example that fails it takes longer than all the tests.
        settings.register_profile(
            "patch",
            derandomize=True,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
            phases=(Phase.explicit, Phase.generate),
        )
        # Asserts and traces stay plain: to explain how two long lists differ can take longer than all the tests.
        options = ["-x", "-q", "--assert=plain", "--tb=line", "-p", "no:cacheprovider"]
        options += ["-p", "_hypothesis_pytestplugin", "--hypothesis-profile=patch"]
        code = int(pytest.ExitCode.OK)
        if first is not None and first.partition("[")[0] in names:
            code = int(pytest.main([*options, first]))
        if code != pytest.ExitCode.TESTS_FAILED:
            code = int(pytest.main([*options, *names], plugins=[QuickFirst()]))
    return code if finder.used else NEVER_IMPORTED


def main(page: str, number: str = "1") -> int:
    """The exit code of one page's tests under its patch of this number."""
    if page == "--write":
        return write()
    path = Path(page)
    catches = tomllib.loads(CATCHES.read_text(encoding="utf-8")) if CATCHES.exists() else {}
    return run(patches(path)[int(number) - 1], node_ids(path), catches.get(f"{path.stem}-{number}"))


def write() -> int:
    """Try every patch and write down the test that caught it."""
    lines = ["# Which test catches which patch of a theory page; `python -m tests.house.patching --write` writes this."]
    with forks() as fork:
        for page in pages():
            for number, _ in enumerate(patches(page), start=1):
                done = fork("tests.house.patching", str(page), str(number))
                caught = re.search(r"^FAILED (.+?)(?: - |$)", done.stdout, re.MULTILINE)
                if caught is not None:
                    lines.append(f"{page.stem}-{number} = {json.dumps(caught[1])}")
    CATCHES.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
