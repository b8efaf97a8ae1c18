"""The tree of files that the house's tests read: sources, pages and fenced blocks."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"
THEORY = ROOT / "docs" / "theory"


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of a Markdown page; `line` is the number of its first inner line."""

    tag: str
    line: int
    lines: tuple[str, ...]


def python_files(source: Path = SOURCE) -> list[Path]:
    """Every Python file under a source folder, in a stable order."""
    return sorted(source.rglob("*.py"))


def module_name(path: Path, source: Path = SOURCE) -> str:
    """The dotted name under which the file at `path` is imported."""
    parts = path.relative_to(source).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def module_path(module: str, source: Path = SOURCE) -> Path:
    """The file of a dotted module name; it may turn out not to exist."""
    folder = source.joinpath(*module.split("."))
    return folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")


def docstrings(path: Path, source: Path = SOURCE) -> Iterator[tuple[str, str]]:
    """Each (dotted symbol, docstring) of one file."""

    def walk(node: ast.AST, name: str) -> Iterator[tuple[str, str]]:
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text is not None:
                yield name, text
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                yield from walk(child, f"{name}.{child.name}")
            else:
                yield from walk(child, name)

    yield from walk(ast.parse(path.read_text(encoding="utf-8")), module_name(path, source))


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a Markdown text, verbatim."""
    blocks: list[Block] = []
    tag: str | None = None
    start = 0
    lines = text.split("\n")
    for number, line in enumerate(lines, start=1):
        if tag is None and line.startswith("```"):
            tag, start = line[3:].strip(), number
        elif tag is not None and line.rstrip() == "```":
            blocks.append(Block(tag, start + 1, tuple(lines[start : number - 1])))
            tag = None
    if tag is not None:
        raise ValueError(f"the block that opens on line {start} is never closed")
    return blocks
