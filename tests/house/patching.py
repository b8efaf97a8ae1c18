"""Runs a theory page's tests under one of the page's patches, in this process.

    python -m tests.house.patching docs/theory/PAGE.md [NUMBER]

The patch (the first unless a number is given) is applied to its module's source text when the
module is imported; no file is changed. Exit codes are pytest's: 1 means that the tests failed, so
the patch was caught; 0 means that it went unnoticed. 70 means that the patched module was never
imported.

Processes that a test forks carry the patch; fresh interpreters that it starts do not.
"""

import importlib.util
import os
import sys
import tempfile
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

import pytest

from tests.house.pages import Patch, node_ids, patches

NEVER_IMPORTED = 70


def apply(patch: Patch, text: str) -> str:
    """The source text with the patch applied; ValueError unless `old` occurs exactly once."""
    before, old, new = (
        "\n" + "".join(line + "\n" for line in lines) for lines in (text.split("\n"), patch.old, patch.new)
    )
    count = sum(before.startswith(old, place) for place in range(len(before)))
    if count != 1:
        raise ValueError(f"the old lines occur {count} times in {patch.module}, not once")
    return before.replace(old, new)[1:-1]


class _PatchedLoader(SourceFileLoader):
    """Loads one module from its patched source, and never from cached bytecode."""

    def __init__(self, patch: Patch, path: str) -> None:
        super().__init__(patch.module, path)
        self.patch = patch

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        text = importlib.util.decode_source(self.get_data(path))
        return self.source_to_code(apply(self.patch, text).encode(), path)


class PatchFinder(MetaPathFinder):
    """Finds the patched module before anything else does, and remembers that it was asked."""

    def __init__(self, patch: Patch) -> None:
        self.patch = patch
        self.used = False

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        if fullname != self.patch.module:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.origin is None:
            return None
        self.used = True
        return importlib.util.spec_from_file_location(
            fullname,
            spec.origin,
            loader=_PatchedLoader(self.patch, spec.origin),
            submodule_search_locations=spec.submodule_search_locations,
        )


def run(patch: Patch, names: Sequence[str]) -> int:
    """The exit code of pytest on these tests, with the patch applied in this process."""
    if patch.module in sys.modules:
        raise RuntimeError(f"{patch.module} was imported before it could be patched")
    finder = PatchFinder(patch)
    sys.meta_path.insert(0, finder)
    with tempfile.TemporaryDirectory() as scratch:
        # Faulty machine code and failing examples must not reach the caches of honest runs.
        os.environ["NUMBA_CACHE_DIR"] = scratch
        os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = scratch
        code = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *names]))
    return code if finder.used else NEVER_IMPORTED


def main(page: str, number: str = "1") -> int:
    """The exit code of one page's tests under its patch of this number."""
    path = Path(page)
    return run(patches(path)[int(number) - 1], node_ids(path))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
