"""A theory page: its sections, the symbols and tests it names, and the patches it must catch."""

import ast
import re
from functools import lru_cache
from pathlib import Path

from dodona.lab.audit.patch import Patch
from tests.house.tree import ROOT, THEORY, blocks

HEADINGS = ("Statement", "Source", "Assumptions", "Proof", "Code", "Tests", "Patch")
NOT_CLAIMS = frozenset({"README.md", "errata.md"})

_THEOREM = re.compile(r"^\s*Theorem:(.*)$", re.MULTILINE)
_ID = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


def pages(folder: Path = THEORY) -> list[Path]:
    """The pages that state a claim, in a stable order."""
    return sorted(page for page in folder.glob("*.md") if page.name not in NOT_CLAIMS)


def claims(docstring: str) -> list[str]:
    """The ids that a docstring names in its `Theorem:` lines, commas between them."""
    ids = [name.strip() for line in _THEOREM.findall(docstring) for name in line.split(",")]
    for name in ids:
        if _ID.fullmatch(name) is None:
            raise ValueError(f"{name!r} is not the id of a theory page")
    return ids


def sections(page: Path) -> dict[str, str]:
    """The text under each second-level heading of a page, by heading."""
    by_heading: dict[str, list[str]] = {}
    heading: str | None = None
    fenced = False
    for line in page.read_text(encoding="utf-8").split("\n"):
        if line.startswith("```"):
            fenced = not fenced
        if line.startswith("## ") and not fenced:
            heading = line[3:].strip()
            if heading in by_heading:
                raise ValueError(f"{page.name} has two sections called {heading}")
            by_heading[heading] = []
        elif heading is not None:
            by_heading[heading].append(line)
    return {heading: "\n".join(lines) for heading, lines in by_heading.items()}


def symbols(page: Path) -> list[str]:
    """The dotted symbols in backticks in a page's Code section."""
    return re.findall(r"`(dodona(?:\.\w+)+)`", sections(page).get("Code", ""))


def node_ids(page: Path) -> list[str]:
    """The node ids in backticks in a page's Tests section."""
    return re.findall(r"`(tests/[^`\s]+)`", sections(page).get("Tests", ""))


def patches(page: Path) -> list[Patch]:
    """The patches in a page's Patch section, in order."""
    return [parse_patch(block.lines) for block in blocks(sections(page).get("Patch", "")) if block.tag == "patch"]


def parse_patch(lines: tuple[str, ...]) -> Patch:
    """The patch that a `patch` block holds; its source lines are taken verbatim."""
    if not lines or not lines[0].startswith("module: ") or lines.count("+++ new") != 1:
        raise ValueError("a patch is: 'module: name', 'symbol: name' or nothing, '--- old', lines, '+++ new', lines")
    symbol = lines[1].removeprefix("symbol: ").strip() if lines[1].startswith("symbol: ") else ""
    first = 2 if symbol else 1
    if lines[first] != "--- old":
        raise ValueError("the second line of a patch is '--- old', or the third if it names a symbol")
    middle = lines.index("+++ new")
    old, new = lines[first + 1 : middle], lines[middle + 1 :]
    if not any(line.strip() for line in old) or old == new:
        raise ValueError("a patch changes something")
    return Patch(lines[0].removeprefix("module: ").strip(), old, new, symbol)


def is_defined(node_id: str, root: Path = ROOT) -> bool:
    """Whether a test of this node id, without brackets, stands in the file that it names."""
    name, *inner = node_id.split("::")
    path = root / name
    if not inner or not inner[-1].startswith("test_") or not path.is_file():
        return False
    body = _body(path, path.stat().st_mtime_ns)
    for step in inner:
        match [
            node
            for node in body
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.name == step
        ]:
            case [node]:
                body = node.body
            case _:
                return False
    return True


@lru_cache(maxsize=256)
def _body(path: Path, _time: int) -> list[ast.stmt]:
    """The statements of a file as it is at a time: pages name hundreds of tests of the same few files."""
    return ast.parse(path.read_text(encoding="utf-8")).body
