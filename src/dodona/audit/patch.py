"""A fault in the source text of a module, applied when the module is imported; no file is changed.

Nothing of Dodona is imported here, so that every module can still be patched.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType


@dataclass(frozen=True, slots=True)
class Patch:
    """A fault: in `module`, the lines `old`, which occur exactly once, become `new`."""

    module: str
    old: tuple[str, ...]
    new: tuple[str, ...]


def replacing(module: str, old: str, new: str) -> Patch:
    """Return the patch that turns one text of whole lines into another, which may be empty."""
    return Patch(module, tuple(old.split("\n")), tuple(new.split("\n")) if new else ())


def apply(patch: Patch, text: str) -> str:
    """Return the source text with the patch applied; ValueError unless `old` occurs exactly once."""
    before, old, new = (
        "\n" + "".join(line + "\n" for line in lines) for lines in (text.split("\n"), patch.old, patch.new)
    )
    count = sum(before.startswith(old, place) for place in range(len(before)))
    if count != 1:
        raise ValueError(f"the old lines occur {count} times in {patch.module}, not once")
    return before.replace(old, new)[1:-1]


class _PatchedLoader(SourceFileLoader):
    """Loads one module from its patched source, and never from cached bytecode."""

    def __init__(self, patches: Sequence[Patch], module: str, path: str) -> None:
        super().__init__(module, path)
        self.patches = patches

    def get_code(self, fullname: str) -> CodeType:
        """Return the code of the patched text."""
        path = self.get_filename(fullname)
        text = importlib.util.decode_source(self.get_data(path))
        for patch in self.patches:
            text = apply(patch, text)
        return self.source_to_code(text.encode(), path)


class PatchFinder(MetaPathFinder):
    """Finds patched modules before anything else does, and remembers which it was asked for."""

    def __init__(self, *patches: Patch) -> None:
        self.patches = patches
        self._found: set[str] = set()

    @property
    def used(self) -> bool:
        """Whether every patched module was imported."""
        return self._found == {patch.module for patch in self.patches}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return how to load the module if it is a patched one."""
        patches = [patch for patch in self.patches if patch.module == fullname]
        spec = PathFinder.find_spec(fullname, path, target) if patches else None
        if spec is None or spec.origin is None:
            return None
        self._found.add(fullname)
        return importlib.util.spec_from_file_location(
            fullname,
            spec.origin,
            loader=_PatchedLoader(patches, fullname, spec.origin),
            submodule_search_locations=spec.submodule_search_locations,
        )


def install(patches: Iterable[Patch]) -> PatchFinder:
    """Have the patches applied to what this process imports from now on."""
    finder = PatchFinder(*patches)
    for patch in finder.patches:
        if patch.module in sys.modules:
            raise RuntimeError(f"{patch.module} was imported before it could be patched")
    sys.meta_path.insert(0, finder)
    return finder
