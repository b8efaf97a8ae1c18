"""Names, in every patch of a theory page and in every mutant, the symbol in which its old lines stand.

    .venv/bin/python -m tools.restructure.symbols          # once, before modules are merged

A patch whose lines stand outside of all functions and classes is left alone if they are found once.
"""

from __future__ import annotations

import ast
import importlib
import sys
from pathlib import Path

from dodona.audit import patch as patching
from dodona.audit.patch import Patch, places

ROOT = Path(__file__).resolve().parents[2]
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def module_path(module: str) -> Path:
    folder = (ROOT / "src").joinpath(*module.split("."))
    return folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")


def symbol_at(text: str, start: int, end: int) -> str:
    """The innermost function, method or class, at most two deep, that holds a span of a source text."""
    first, last = text.count("\n", 0, start) + 1, text.count("\n", 0, end) + 1
    names: list[str] = []
    body = ast.parse(text).body
    while True:
        for node in body:
            if isinstance(node, _SCOPES):
                low = min([node.lineno, *(one.lineno for one in node.decorator_list)])
                if low <= first and last <= (node.end_lineno or 0):
                    names.append(node.name)
                    body = node.body if isinstance(node, ast.ClassDef) else []
                    break
        else:
            return ".".join(names)


def symbol_of(patch: Patch) -> str:
    """The symbol of a patch that has none yet."""
    text = module_path(patch.module).read_text()
    found = places(patch, text)
    if len(found) != 1:
        print(f"{patch.module}: the old lines occur {len(found)} times: {patch.old}")
        return patch.symbol
    return symbol_at(text, *found[0])


def of_pages() -> int:
    from tests.house.pages import pages, parse_patch

    count = 0
    for page in pages():
        lines, out = page.read_text().split("\n"), []
        place = 0
        while place < len(lines):
            out.append(lines[place])
            if lines[place].startswith("```patch"):
                end = next(at for at in range(place + 1, len(lines)) if lines[at].rstrip() == "```")
                block = lines[place + 1 : end]
                patch = parse_patch(tuple(block))
                symbol = "" if patch.symbol else symbol_of(patch)
                out += [block[0], *([f"symbol: {symbol}"] if symbol else []), *block[1:]]
                count += bool(symbol)
                place = end
                continue
            place += 1
        page.write_text("\n".join(out))
    return count


def noted(modules: list[str]) -> dict[tuple[str, int, int], list[Patch]]:
    """Import the modules with a `replacing` that notes who called it; the patches by file, line and column."""
    found: dict[tuple[str, int, int], list[Patch]] = {}

    def caller() -> tuple[str, int, int]:
        frame = sys._getframe(2)
        positions = list(frame.f_code.co_positions())[frame.f_lasti // 2]
        return frame.f_code.co_filename, positions[0] or 0, positions[2] or 0

    real_replacing, real_patch = patching.replacing, patching.Patch

    def replacing(module: str, old: str, new: str, symbol: str = "") -> Patch:
        patch = real_patch(module, tuple(old.split("\n")), tuple(new.split("\n")) if new else (), symbol)
        found.setdefault(caller(), []).append(patch)
        return patch

    def patch_made(module: str, old: tuple[str, ...], new: tuple[str, ...], symbol: str = "") -> Patch:
        patch = real_patch(module, old, new, symbol)
        found.setdefault(caller(), []).append(patch)
        return patch

    patching.replacing, patching.Patch = replacing, patch_made  # type: ignore[misc,assignment]
    try:
        for module in modules:
            importlib.import_module(module)
    finally:
        patching.replacing, patching.Patch = real_replacing, real_patch  # type: ignore[misc]
    return found


def of_calls(modules: list[str]) -> int:
    """Give each call that makes a patch its symbol."""
    calls = {place: {one.symbol or symbol_of(one) for one in patches} for place, patches in noted(modules).items()}
    count = 0
    for file in {file for file, _, _ in calls}:
        path = Path(file)
        if path.name == "patch.py":
            continue
        text = path.read_text()
        starts = [0]
        for line in text.splitlines(keepends=True):
            starts.append(starts[-1] + len(line))
        edits = []
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.Call) or (file, node.lineno, node.col_offset) not in calls:
                continue
            symbols = calls[file, node.lineno, node.col_offset]
            if any(word.arg == "symbol" for word in node.keywords):
                continue
            if len(symbols) != 1:
                print(f"{file}:{node.lineno}: several symbols: {sorted(symbols)}")
                continue
            if symbol := symbols.pop():
                line = text.splitlines()[(node.end_lineno or 1) - 1]
                at = starts[(node.end_lineno or 1) - 1] + len(line.encode()[: node.end_col_offset].decode()) - 1
                comma = "" if text[:at].rstrip().endswith(",") else ", "
                edits.append((at, f'{comma}symbol="{symbol}"'))
        for at, words in sorted(edits, reverse=True):
            text = text[:at] + words + text[at:]
        path.write_text(text)
        count += len(edits)
    return count


def main() -> None:
    print(of_pages(), "patches of pages have a symbol now")
    import subprocess

    found = subprocess.run(
        ["git", "grep", "-lE", r"replacing\(|Patch\(", "src", "tests/sessions"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    ).stdout.split()
    modules = [
        ".".join(Path(one).relative_to("src" if one.startswith("src") else ".").with_suffix("").parts)
        for one in found
        if not one.endswith("audit/patch.py")
    ]
    print(of_calls(modules), "calls have a symbol now")
    subprocess.run([sys.executable.replace("python", "ruff"), "format", "-q", *found], check=True, cwd=ROOT)


if __name__ == "__main__":
    main()
