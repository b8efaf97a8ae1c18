"""Restructure the package by a mapping file.

    .venv/bin/python -m tools.restructure MAP.toml [--dry-run] [--force]

See README.md beside this file for the mapping.
"""

from __future__ import annotations

import ast
import io
import re
import shutil
import subprocess
import sys
import tokenize
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from tools.restructure.edit import Edit, Editor, applied, assembled
from tools.restructure.plan import Plan
from tools.restructure.texts import mentions, mutants, page, python_strings

ROOT = Path(__file__).resolve().parents[2]
PAGES = (
    "docs/**/*.md",
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "mkdocs.yml",
    "pyproject.toml",
    "benchmarks/**/*.toml",
    "Makefile",
    "demo/**/*.md",
    ".ci/**/*",
)


def code_lines(text: str) -> int:
    """Lines that hold code, counted as shared/tools/house.py does: no blank lines, comments or docstrings."""
    docs: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        body = getattr(node, "body", None)
        if (
            isinstance(body, list)
            and body
            and isinstance(body[0], ast.Expr)
            and isinstance(getattr(body[0], "value", None), ast.Constant)
        ):
            if isinstance(body[0].value.value, str):
                docs |= set(range(body[0].lineno, (body[0].end_lineno or 0) + 1))
    none = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in none:
            lines |= set(range(token.start[0], token.end[0] + 1))
    return len(lines - docs)


def _emptied(plan: Plan, target: str) -> bool:
    """Whether a package has a docstring alone, and all that was in it has gone elsewhere."""
    file = plan.files.get(target)
    if file is None or not file.package or plan.order[target] != [target] or file.chunks or file.headers:
        return False
    inner = [name for name in plan.files if name.startswith(target + ".")]
    return bool(inner) and not any(other.startswith(target + ".") for name in inner for other in (plan.target[name],))


def texts(plan: Plan) -> dict[Path, str]:
    """Every file as it is afterwards."""
    editors = {name: Editor(plan, file) for name, file in plan.files.items()}
    special = mutants(plan, editors)
    strings: dict[str, list[Edit]] = {}
    shaped = {
        target: any(plan.moved(name) for name in plan.order[target] if name in plan.files) for target in plan.order
    }
    for name, file in plan.files.items():
        if not shaped[plan.target[name]]:
            editors[name].imports_at_top()
        own = [one for one in special.get(name, [])]
        own = [one for one in own if not any(e.start < one.end and one.start < e.end for e in editors[name].edits)]
        strings[name] = own + python_strings(plan, file, [*editors[name].edits, *own])
    found: dict[Path, str] = {}
    for target in plan.order:
        sources = [name for name in plan.order[target] if name in plan.files]
        if not sources or _emptied(plan, target):
            continue
        if shaped[target]:
            found[plan.path(target)] = assembled(plan, target, editors, strings)
        else:
            file = plan.files[sources[0]]
            text = applied(file.text, [*editors[file.name].edits, *strings[file.name]])
            if target in plan.docs and file.doc:
                text = text.replace(file.doc, f'"""{plan.docs[target]}"""', 1)
            found[plan.path(target)] = text
            if "__file__" in file.text and file.path != plan.path(target):
                plan.notes.append(f"look at {file.path}: it has moved and uses __file__")
    for pattern in PAGES:
        for path in sorted(plan.root.glob(pattern)):
            if not path.is_file() or path.name == "CHANGELOG.md":
                continue
            short = path.relative_to(plan.root)
            text = path.read_text(encoding="utf-8")
            if path.suffix == ".md":
                new = page(plan, editors, short, text)
            else:
                new = _config(plan, text, short)
            if new != text:
                found[short] = new
    return found


def _config(plan: Plan, text: str, path: Path) -> str:
    cut = text.find("[tool.importlinter]") if path.name == "pyproject.toml" else -1
    high = cut if cut >= 0 else len(text)
    edits = mentions(plan, text, 0, high, short=False, where=str(path))
    for one in re.finditer(r'"(dodona(?:\.\w+)+):(\w+)"', text[:high]):
        new = plan.dotted(f"{one[1]}.{one[2]}")
        if new is not None:
            module, _, name = new.rpartition(".")
            edits = [e for e in edits if not (e.start < one.end() and one.start() < e.end)]
            edits.append(Edit(one.start() + 1, one.end() - 1, f"{module}:{name}"))
    for one in re.finditer(r'"(src/dodona/[^"]*[*?][^"]*)"', text[:high]):
        hit = [
            file
            for file in plan.files.values()
            if fnmatch(str(file.path), one[1]) and plan.target[file.name] != file.name
        ]
        if hit and not any(e.start < one.end() and one.start() < e.end for e in edits):
            plan.notes.append(f"by hand: {path}: {one[1]} matched {[file.name for file in hit]}")
    keys: set[str] = set()
    for one in re.finditer(r'^"([^"\n]+)" = \[', text[:high], re.MULTILINE):
        own = [e for e in edits if one.start() <= e.start < one.end()]
        new = applied(text, own, *one.span(1))
        if new in keys:
            plan.notes.append(f"by hand: {path}: {one[1]} is {new} now, which is there already")
            edits = [e for e in edits if e not in own]
        keys.add(new)
    return applied(text, edits)


def words(plan: Plan, files: dict[Path, str]) -> None:
    """Rename words in all code, and in the inline code of pages. Patches have been done with their modules."""
    for path, text in list(files.items()):
        if path.suffix not in (".py", ".md"):
            continue
        own = {old: how for old, how in plan.map.get("words", {}).items() if plan.worded(how, str(path))}
        if own:
            files[path] = _worded(plan, path, text, own) if path.suffix == ".py" else _worded_page(text, own)


def _worded(plan: Plan, path: Path, text: str, own: dict[str, Any]) -> str:
    lines = [0]
    for line in text.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    edits = []
    every = "|".join(map(re.escape, own))

    def within(at: int, area: str, word: str) -> None:
        for part in re.finditer(area, token.string):
            for found in re.finditer(word, part[0]):
                start = at + part.start() + found.start()
                edits.append(Edit(start, start + len(found[0]), own[found[0]]["to"]))

    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        at = lines[token.start[0] - 1] + token.start[1]
        if token.type == tokenize.NAME and token.string in own:
            edits.append(Edit(at, at + len(token.string), own[token.string]["to"]))
        elif token.type == tokenize.STRING and re.match(r"[rR]?[fF]", token.string):
            within(at, r"\{[^{}]*\}", rf"(?<![\w'\"])(?:{every})(?![\w'\"])")
        elif token.type == tokenize.STRING and (word := token.string.strip("\"'")) in own:
            if own[word].get("strings"):
                edits.append(
                    Edit(at + token.string.index(word), at + token.string.index(word) + len(word), own[word]["to"])
                )
            else:
                plan.notes.append(f"look at {path}:{token.start[0]}: the string {token.string} was not renamed")
        elif token.type in (tokenize.STRING, tokenize.COMMENT):
            within(at, r"`[^`\n]+`|(?m:^\s*(?:>>>|\.\.\.) .*$)", rf"(?<![\w/])(?:{every})(?![\w/])")
    return applied(text, edits)


def _worded_page(text: str, own: dict[str, Any]) -> str:
    word = re.compile(rf"(?<![\w/])(?:{'|'.join(map(re.escape, own))})(?![\w/])")

    def new(found: re.Match[str]) -> str:
        return str(own[found[0]]["to"])

    out: list[str] = []
    fence = ""
    for line in text.split("\n"):
        start = re.match(r"\s*```(\w*)", line)
        if start is not None:
            fence = "" if fence else start[1] or "text"
        elif fence in ("python", "py"):
            line = word.sub(new, line)
        elif not fence:
            line = re.sub(r"`[^`\n]+`", lambda code: word.sub(new, code[0]), line)
        out.append(line)
    return "\n".join(out)


def write(plan: Plan, files: dict[Path, str]) -> None:
    """Put the new files in the place of the old ones."""
    folders = {file.path.parent for file in plan.files.values()}
    old_docs = {name: file.doc for name, file in plan.files.items() if file.package and file.doc}
    for file in plan.files.values():
        if file.path not in files:
            (plan.root / file.path).unlink()
    for path, text in files.items():
        place = plan.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
    for old, new in plan.prefixes.items():
        _others(plan, old, new)
    for folder in ("src/dodona", "tests"):
        for inner in sorted((plan.root / folder).rglob("*"), key=lambda one: -len(one.parts)):
            if inner.is_dir() and inner.name != "__pycache__":
                rest = [one for one in inner.rglob("*") if one.is_file() and "__pycache__" not in one.parts]
                name = ".".join(inner.relative_to(plan.root / ("src" if folder.startswith("src") else ".")).parts)
                changed = any(one.startswith(name + ".") and plan.target[one] != one for one in plan.target)
                bare = all(
                    one.name == "__init__.py" and one.parent == inner and not ast.parse(one.read_text()).body[1:]
                    for one in rest
                )
                if bare and (changed or not rest):
                    shutil.rmtree(inner)
    for path in files:
        folder = path.parent
        while path.parts[0] in ("src", "tests") and folder.parts and folder not in (Path("src"), Path("tests")):
            init = plan.root / folder / "__init__.py"
            if not init.exists() and path.suffix == ".py" and folder not in folders:
                name = ".".join(folder.parts[1:] if folder.parts[0] == "src" else folder.parts)
                doc = next(
                    (old_docs[old] for old in old_docs if plan.package_target(old) == name and old not in plan.order),
                    None,
                )
                doc = doc or next((old_docs[old] for old in old_docs if plan.package_target(old) == name), None)
                if path.parts[0] == "src":
                    init.write_text(
                        f"{doc or chr(34) * 3 + name.rpartition('.')[2].replace('_', ' ').capitalize() + '.' + chr(34) * 3}\n"
                    )
                elif any((plan.root / "tests").glob("*/__init__.py")):
                    init.write_text("")
            folder = folder.parent


def _others(plan: Plan, old: str, new: str) -> None:
    """Move files that are no Python along with their folder."""
    root = plan.root / "src" if old.startswith("dodona") else plan.root
    source, goal = root.joinpath(*old.split(".")), root.joinpath(*new.split("."))
    for path in sorted(source.rglob("*")) if source.is_dir() else []:
        if path.is_file() and path.suffix not in (".py", ".pyc"):
            place = goal / path.relative_to(source)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(path, place)


def report(plan: Plan, files: dict[Path, str]) -> None:
    for note in dict.fromkeys(plan.notes):
        print("note:", note)
    for one in plan.cycles():
        print("ERROR:", one)
    for error in dict.fromkeys(plan.errors):
        print("ERROR:", error)
    print()
    changed = {target for target in plan.order if plan.order[target] != [target] and target.startswith("dodona")}
    for target in sorted(changed):
        path = plan.path(target)
        if path in files:
            print(f"{code_lines(files[path]):6} {target}")
    for folder in ("src/dodona", "tests"):
        before = sum(str(file.path).startswith(folder) for file in plan.files.values())
        after = sum(str(path).startswith(folder) and path.suffix == ".py" for path in files)
        print(f"{folder}: {before} files before, {after} after")


def main(arguments: list[str]) -> int:
    dry, force = "--dry-run" in arguments, "--force" in arguments
    names = [one for one in arguments if not one.startswith("--")]
    if len(names) != 1:
        print(__doc__)
        return 2
    if (
        not dry
        and subprocess.run(
            ["git", "status", "--porcelain", "--untracked-files=no"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    ):
        print("the tree has changes that are not committed")
        return 2
    plan = Plan(ROOT, Path(names[0]))
    if any(one.startswith("unknown") or "mapped twice" in one for one in plan.errors) or (plan.errors and not dry):
        report(plan, {})
        return 1
    files = texts(plan)
    words(plan, files)
    cycles = plan.cycles()
    for path, text in files.items():
        if path.suffix == ".py":
            try:
                compile(text, str(path), "exec", dont_inherit=True)
            except SyntaxError as error:
                plan.errors.append(f"{path} would not compile: {error}")
    report(plan, files)
    if (plan.errors or cycles) and not force:
        return 1
    if dry:
        return 0
    write(plan, files)
    run = [sys.executable, "-m", "ruff"]
    for extra in (["check", "-q", "--fix", "--select", "I,F401"], ["format", "-q"]):
        subprocess.run([*run, *extra, "src", "tests", "benchmarks", "demo"], cwd=ROOT, check=False)
    code = (
        "import importlib, pkgutil, dodona\n"
        "for one in pkgutil.walk_packages(dodona.__path__, 'dodona.'):\n"
        "    one.name.endswith('__main__') or importlib.import_module(one.name)\n"
    )
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
