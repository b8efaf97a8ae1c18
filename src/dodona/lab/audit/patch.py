"""A fault in the source text of a module, applied when the module is imported; no file is changed.

Nothing of Dodona is imported here, so that every module can still be patched.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType
from typing import Any

_TOKEN = re.compile(
    r"""(?P<gap>[\s\\]+|\#[^\n]*)|[A-Za-z]{0,2}(?:\"{3}(?:\\.|.)*?\"{3}|'{3}(?:\\.|.)*?'{3}"""
    r"""|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')|\w+|.""",
    re.DOTALL,
)
_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")


@dataclass(frozen=True, slots=True)
class Patch:
    """A fault: in `module`, the lines `old`, which occur exactly once, become `new`.

    Lines are compared token by token: indentation, wrapping and comments do not matter. If `symbol` is given (a
    function, a class, `Class.method` or a constant), only its source is searched.
    """

    module: str
    old: tuple[str, ...]
    new: tuple[str, ...]
    symbol: str = ""


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    start: int
    end: int


def replace_lines(module: str, old: str, new: str, symbol: str = "") -> Patch:
    """Return the patch that replaces whole lines of text with others, or with nothing."""
    return Patch(module, tuple(old.split("\n")), tuple(new.split("\n")) if new else (), symbol)


def patch_from_json(written: Mapping[str, Any]) -> Patch:
    """Return the patch that `asdict` made, after a round trip through JSON."""
    return Patch(written["module"], tuple(written["old"]), tuple(written["new"]), written.get("symbol", ""))


def apply(patch: Patch, text: str) -> str:
    """Return the source text with the patch applied; ValueError unless `old` occurs exactly once."""
    offsets = places(patch, text)
    if len(offsets) != 1:
        where = f"{patch.module}.{patch.symbol}" if patch.symbol else patch.module
        raise ValueError(f"the old lines occur {len(offsets)} times in {where}, not once")
    start, end = offsets[0]
    first = next(line for line in patch.old if _tokens(line))
    began = text.rfind("\n", 0, start) + 1
    new = patch.new
    if not text[began:start].strip():
        new, start = _reindent(new, _indent(first), text[began:start]), began
        end += not new and text.startswith("\n", end)
    elif new:
        new = (new[0].lstrip(), *new[1:])
    return text[:start] + "\n".join(new) + text[end:]


def places(patch: Patch, text: str) -> list[tuple[int, int]]:
    """Return where the old lines occur in the source text, as start and end offsets."""
    within = spans(patch.symbol, text) if patch.symbol else [(0, len(text))]
    tokens, old = _tokens(text), [token.text for token in _tokens("\n".join(patch.old))]
    offsets: list[tuple[int, int]] = []
    for at in range(len(tokens) - len(old) + 1):
        part = tokens[at : at + len(old)]
        if not old or tokens[at].text != old[0] or [token.text for token in part] != old:
            continue
        start, end = part[0].start, part[-1].end
        rest = text[end:].partition("\n")[0]
        inside = any(low <= start and end <= high for low, high in within)
        if inside and _begins(text, tokens, at) and _ends(rest, tokens, at + len(old) - 1):
            offsets.append((start, end + len(rest) if not _tokens(rest) else end))
    return offsets


def spans(symbol: str, text: str) -> list[tuple[int, int]]:
    """Return where a symbol of a module is defined, as start and end offsets."""
    nodes: list[ast.AST] = [ast.parse(text)]
    for name in symbol.split("."):
        nodes = [node for owner in nodes for node in _definitions(owner) if name in _names(node)]
    lines = [0, *(place + 1 for place, letter in enumerate(text) if letter == "\n"), len(text)]
    return [(lines[_first_line(node) - 1], lines[getattr(node, "end_lineno", -1)]) for node in nodes]


def _definitions(owner: ast.AST) -> Iterator[ast.AST]:
    """Yield the definitions in a block and in its conditional blocks."""
    for node in ast.iter_child_nodes(owner):
        if _names(node):
            yield node
        elif isinstance(node, ast.If | ast.Try | ast.With | ast.ExceptHandler):
            yield from _definitions(node)


def _names(node: ast.AST) -> list[str]:
    match node:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return [name]
        case ast.Assign(targets=targets):
            return [target.id for target in targets if isinstance(target, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case _:
            return []


def _first_line(node: ast.AST) -> int:
    return min(getattr(part, "lineno", 1) for part in (node, *getattr(node, "decorator_list", ())))


def _tokens(text: str) -> list[_Token]:
    """Return the tokens of any part of a source text; brackets and blocks may be incomplete."""
    return [_Token(token[0], *token.span()) for token in _TOKEN.finditer(text) if token["gap"] is None]


def _begins(text: str, tokens: Sequence[_Token], at: int) -> bool:
    """Whether a line begins at this token, or would if the formatter had wrapped the line."""
    start = tokens[at].start
    return not text[text.rfind("\n", 0, start) + 1 : start].strip() or tokens[at - 1].text in _OPENING | {","}


def _ends(rest: str, tokens: Sequence[_Token], at: int) -> bool:
    """Whether a line ends with this token, or would if the formatter had wrapped the line."""
    after = tokens[at + 1].text if at + 1 < len(tokens) else ""
    return not _tokens(rest) or tokens[at].text in _OPENING | {","} or after in _CLOSING | {","}


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _reindent(lines: tuple[str, ...], before: str, after: str) -> tuple[str, ...]:
    """Return lines with the indentation `before` replaced by `after`."""
    if before == after:
        return lines
    return tuple(after + line.removeprefix(before) if line.strip() else line for line in lines)


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
    """Finds patched modules before any other finder, and remembers which were requested."""

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
        """Return how to load the module if it is patched."""
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
    """Apply the patches to everything this process imports from now on."""
    finder = PatchFinder(*patches)
    for patch in finder.patches:
        if patch.module in sys.modules:
            raise RuntimeError(f"{patch.module} was imported before it could be patched")
    sys.meta_path.insert(0, finder)
    return finder


@dataclass(frozen=True, slots=True)
class Mutant:
    """A fault as patches of real modules. Describing it imports nothing that could be patched."""

    name: str
    story: str
    """What is wrong, in a line."""
    patches: tuple[Patch, ...]
    cases: tuple[str, ...]
    """Names of cases; every pair of neighbours under that name is tried."""
