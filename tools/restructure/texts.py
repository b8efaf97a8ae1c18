"""Names of ours in strings, comments and pages: dotted names, paths, test ids, patches."""

from __future__ import annotations

import ast
import difflib
import io
import re
import tokenize
from pathlib import Path

from dodona.audit import patch as patching
from dodona.audit.patch import Patch, places

from tools.restructure.edit import Edit, Editor, applied
from tools.restructure.plan import File, Plan, Symbol

_DOTTED = re.compile(r"(?<![\w./-])(?:dodona|tests|benchmarks|demo)(?:\.[A-Za-z_]\w*)+")
_TEST = re.compile(r"(?<![\w/.-])(tests/[\w/]+\.py)((?:::\w+)+)?")
_PATH = re.compile(r"(?<![\w/.-])((?:src/)?dodona/)?((?:[a-z_]\w*/)+)(\*|[a-z_]\w*)?(\.py)?(?![\w/*])")
_CODE = re.compile(r"`([^`\n]+)`")


def mentions(
    plan: Plan, text: str, low: int = 0, high: int | None = None, *, short: bool = True, where: str = ""
) -> list[Edit]:
    """The edits of what a part of a text says about modules, symbols, files and tests."""
    high = len(text) if high is None else high
    found: list[Edit] = []

    def put(start: int, end: int, new: str) -> None:
        if text[start:end] != new and not any(one.start < end and start < one.end for one in found):
            found.append(Edit(start, end, new))

    for one in _DOTTED.finditer(text, low, high):
        new = plan.dotted(one[0])
        if new is not None:
            put(*one.span(), new)
        elif any(name == one[0] or name.startswith(one[0] + ".") for name in plan.target if plan.target[name] != name):
            line = text.count("\n", 0, one.start()) + 1
            plan.notes.append(f"by hand: {where}:{line}: {one[0]} went to several places")
    for one in _TEST.finditer(text, low, high):
        name = ".".join(Path(one[1]).with_suffix("").parts)
        if name not in plan.files:
            continue
        new, tail = plan.target[name], one[2] or ""
        if tail:
            first, *rest = tail[2:].split("::")
            new, first = plan.final(Symbol(name, first))
            tail = "::" + "::".join([first, *rest])
        put(*one.span(), new.replace(".", "/") + ".py" + tail)
    for one in _PATH.finditer(text, low, high):
        root, folder, last, suffix = one.groups()
        if folder.startswith(("tests/", "dodona/", "src/")):
            if not folder.startswith("tests/") or suffix:
                continue
            parts, prefix = folder.strip("/").split("/"), ""
        elif root is None and not short:
            continue
        else:
            parts, prefix = ["dodona", *folder.strip("/").split("/")], root or ""
        if last in (None, "*"):
            name = ".".join(parts)
            if name in ("dodona", "tests") or not any(other.startswith(name + ".") for other in plan.files):
                continue
            new = plan.package_target(name)
            if new is None:
                line = text.count("\n", 0, one.start()) + 1
                plan.notes.append(f"by hand: {where}:{line}: {one[0]}")
                continue
            rest = "/" + (last or "")
        else:
            name = ".".join([*parts, last])
            if name not in plan.files:
                continue
            new, rest = plan.dotted(name), suffix or ""
            if new is None:
                continue
        written = new.replace(".", "/")
        put(*one.span(), prefix + (written.removeprefix("dodona/") if parts[0] == "dodona" else written) + rest)
    return found


_TELLING = re.compile(r"_?[a-z]+(_[a-z0-9]+)+|[A-Z][a-z]+([A-Z][a-z]+)+")  # what is no word of everyday English
_ABOUT_CODE = ("docs/theory/*", "docs/adr/*", "docs/sources.md", "docs/how-it-works.md", "CONTRIBUTING.md")


def renamed_words(plan: Plan) -> dict[str, str]:
    """Bare names that pages may use: renamed symbols of which there is only one."""
    homes: dict[str, set[str]] = {}
    for file in plan.files.values():
        if file.name.startswith("dodona"):
            for name in file.defs:
                homes.setdefault(name, set()).add(plan.final(Symbol(file.name, name))[1])
    return {
        name: next(iter(new))
        for name, new in homes.items()
        if len(new) == 1 and new != {name} and _TELLING.fullmatch(name)
    }


def python_strings(plan: Plan, file: File, taken: list[Edit]) -> list[Edit]:
    """The edits of the strings and comments of a Python file."""
    found: list[Edit] = []
    bare = renamed_words(plan) if not hasattr(plan, "bare") else plan.bare
    plan.bare = bare  # type: ignore[attr-defined]
    for token in tokenize.generate_tokens(io.StringIO(file.text).readline):
        if token.type not in (tokenize.STRING, tokenize.COMMENT):
            continue
        lines = file.names.lines
        low, high = lines[token.start[0] - 1] + token.start[1], lines[token.end[0] - 1] + token.end[1]
        if ">>>" in token.string:
            found += doctests(plan, file.text, low, high, file_names(plan, file))
        found += mentions(
            plan,
            file.text,
            low,
            high,
            short=token.type == tokenize.COMMENT or token.string.startswith('"""'),
            where=str(file.path),
        )
        if token.type == tokenize.COMMENT or token.string.startswith('"""'):
            found += bare_words(bare, file.text, low, high)
    free = []
    for one in found:
        if not any(other.start < one.end and one.start < other.end for other in [*taken, *free]):
            free.append(one)
    return free


def doctests(plan: Plan, text: str, low: int, high: int, names: dict[tuple[str, ...], str]) -> list[Edit]:
    """The edits of the lines of examples: imports, and the names that the file or these imports bind."""
    found: list[Edit] = []
    names = dict(names)
    for line in re.finditer(r"^([ \t]*)(>>>|\.\.\.) (.*)$", text[low:high], re.MULTILINE):
        code = line[3]
        if re.match(r"from (?:dodona|tests)[\w.]* import [^(]+$", code):
            made = []
            for local, bound in plan.bounds(ast.parse(code).body[0]):  # type: ignore[arg-type]
                if bound.kind == "symbol":
                    module, new = plan.final(Symbol(bound.module, bound.name))
                elif bound.kind == "module":
                    module, _, new = plan.target[bound.module].rpartition(".")
                else:
                    module, new = bound.module, bound.name
                if not bound.alias and new != local:
                    names[local,] = new
                made.append((module, new + (f" as {bound.alias}" if bound.alias else "")))
            new_lines = [
                f"from {one} import {', '.join(new for module, new in made if module == one)}"
                for one in dict.fromkeys(m for m, _ in made)
            ]
            written = f"\n{line[1]}{line[2]} ".join(new_lines)
        else:
            written = rewritten(code, names)
            written = applied(written, mentions(plan, written, short=False))
        if written != code:
            found.append(Edit(low + line.start(3), low + line.end(3), written))
    return found


def file_names(plan: Plan, file: File) -> dict[tuple[str, ...], str]:
    """What the module's own names are called afterwards, where that differs."""
    found: dict[tuple[str, ...], str] = {}
    for name in [*file.defs, *file.imports]:
        new = plan.final(Symbol(file.name, name))[1]
        if (
            new != name
            and file.imports.get(name, None) is None
            or (name in file.imports and file.imports[name].kind == "symbol" and new != name)
        ):
            found[name,] = new
    return found


def bare_words(bare: dict[str, str], text: str, low: int, high: int) -> list[Edit]:
    found = []
    for code in _CODE.finditer(text, low, high):
        for word in re.finditer(r"(?<![\w./])[A-Za-z_]\w*(?![\w/])", code[1]):
            if word[0] in bare:
                start = code.start(1) + word.start()
                found.append(Edit(start, start + len(word[0]), bare[word[0]]))
    return found


# --- patches


def name_map(plan: Plan, file: File, editor: Editor) -> dict[tuple[str, ...], str]:
    """What the edits of a file make of its names, token by token."""
    found: dict[tuple[str, ...], str] = {}
    for one in editor.edits:
        tokens = tuple(token.text for token in patching._tokens(file.text[one.start : one.end]))
        if tokens and len(tokens) < 8 and tokens[0] not in ("from", "import") and one.text:
            found[tokens] = one.text
    return found


def rewritten(text: str, names: dict[tuple[str, ...], str]) -> str:
    """Lines of code with names replaced; attributes and keywords of the same name are left alone."""
    tokens = patching._tokens(text)
    out, place, at = [], 0, 0
    while at < len(tokens):
        for size in (7, 6, 5, 4, 3, 2, 1):
            part = tuple(token.text for token in tokens[at : at + size])
            if len(part) == size and part in names:
                dotted = at and tokens[at - 1].text == "."
                after = [token.text for token in tokens[at + size : at + size + 2]]
                keyword = after[:1] == ["="] and after[1:] != ["="] and at and tokens[at - 1].text in ("(", ",")
                if not dotted and not keyword:
                    out += [text[place : tokens[at].start], names[part]]
                    place, at = tokens[at + size - 1].end, at + size
                    break
        else:
            at += 1
    return "".join([*out, text[place:]])


def imports_in(plan: Plan, text: str) -> str:
    """Import statements in lines of code, for the modules as they are afterwards."""

    def one_line(found: re.Match[str]) -> str:
        indent, statement = found[1], found[2]
        try:
            node = ast.parse(statement).body[0]
        except SyntaxError:
            return found[0]
        assert isinstance(node, ast.ImportFrom)
        lines = []
        for local, bound in plan.bounds(node):
            if bound.kind == "symbol":
                module, name = plan.final(Symbol(bound.module, bound.name))
                name += f" as {local}" if local != name else ""
            elif bound.kind == "module":
                module, _, name = plan.target[bound.module].rpartition(".")
                name += f" as {local}" if local != name else ""
            else:
                module, name = bound.module, bound.name + (f" as {bound.alias}" if bound.alias else "")
            lines.append(f"{indent}from {module} import {name}")
        return "\n".join(lines)

    return re.sub(r"^([ \t]*)(from (?:dodona|tests)[\w.]* import [^(\n]+)$", one_line, text, flags=re.MULTILINE)


def patched(plan: Plan, editors: dict[str, Editor], patch: Patch) -> Patch:
    """A patch for the modules as they are afterwards."""
    file = plan.files.get(patch.module)
    if file is None:
        plan.errors.append(f"a patch of an unknown module: {patch.module}")
        return patch
    spots = places(patch, file.text)
    if len(spots) != 1:
        plan.errors.append(f"a patch of {patch.module} applies {len(spots)} times: {patch.old}")
        return patch
    editor = editors[patch.module]
    module = editor.target_at(spots[0][0])
    symbol = patch.symbol
    if symbol:
        first, dot, rest = symbol.partition(".")
        symbol = plan.final(Symbol(patch.module, first))[1] + dot + rest
    old = "\n".join(patch.old)
    inside = patching._tokens(file.text[spots[0][0] : spots[0][1]])
    own = patching._tokens(old)
    edits = []
    changed: dict[int, tuple[int, str]] = {}
    for one in editor.edits:
        if one.start < spots[0][0] or one.end > spots[0][1]:
            continue
        covered = [
            at
            for at, token in enumerate(inside)
            if one.start <= token.start + spots[0][0] and token.end + spots[0][0] <= one.end
        ]
        if covered:
            edits.append(Edit(own[covered[0]].start, own[covered[-1]].end, one.text))
            changed[covered[0]] = covered[-1], one.text
    new = "\n".join(patch.new)
    tokens = patching._tokens(new)
    kept: list[Edit] = []
    matcher = difflib.SequenceMatcher(None, [one.text for one in own], [one.text for one in tokens], autojunk=False)
    equal: set[int] = set()
    for block in matcher.get_matching_blocks():
        for step in range(block.size):
            equal.add(block.b + step)
            if block.a + step in changed:
                last, text = changed[block.a + step]
                if last < block.a + block.size:
                    kept.append(Edit(tokens[block.b + step].start, tokens[block.b + last - block.a].end, text))
    names = name_map(plan, file, editor)
    out = applied(new, kept)
    if not kept or equal != set(range(len(tokens))):
        loose = {key: text for key, text in names.items() if not any(text == one.text for one in kept)}
        out = rewritten(out, loose)
    lines = plan.in_words(applied(old, edits), module)
    after = plan.in_words(imports_in(plan, out), module)
    return Patch(
        module, tuple(lines.split("\n")), tuple(after.split("\n")) if patch.new else (), plan.in_words(symbol, module)
    )


def page(plan: Plan, editors: dict[str, Editor], path: Path, text: str) -> str:
    """A page with everything it says about our code rewritten."""
    from tests.house.pages import parse_patch

    plan.bare = getattr(plan, "bare", None) or renamed_words(plan)  # type: ignore[attr-defined]
    out: list[str] = []
    lines, place = text.split("\n"), 0
    plain: list[str] = []

    def flush() -> None:
        if plain:
            whole = "\n".join(plain)
            edits = mentions(plan, whole, where=str(path))
            edits += [
                one
                for one in bare_words(plan.bare, whole, 0, len(whole))
                if any(path.match(own) for own in _ABOUT_CODE)
                and not any(e.start < one.end and one.start < e.end for e in edits)
            ]  # type: ignore[attr-defined]
            out.append(applied(whole, edits))
            plain.clear()

    while place < len(lines):
        line = lines[place]
        fence = re.match(r"( *)```(\w+)", line)
        end = next((at for at in range(place + 1, len(lines)) if lines[at].strip() == "```"), None) if fence else None
        if (
            fence is None
            or end is None
            or fence[2] not in ("patch", "python", "py")
            or (fence[2] == "patch" and not path.match("docs/theory/*"))
        ):
            plain.append(line)
            place += 1
            continue
        flush()
        block = lines[place + 1 : end]
        if fence[2] == "patch":
            patch = patched(plan, editors, parse_patch(tuple(block)))
            block = [
                f"module: {patch.module}",
                *([f"symbol: {patch.symbol}"] if patch.symbol else []),
                "--- old",
                *patch.old,
                "+++ new",
                *patch.new,
            ]
        else:
            block = python_block(plan, "\n".join(block), f"{path}:{place + 1}").split("\n")
        out += ["\n".join([line, *block, lines[end]])]
        place = end + 1
    flush()
    return "\n".join(out)


def python_block(plan: Plan, text: str, where: str) -> str:
    """A block of Python in a page."""
    try:
        file = plan.add(where, Path(where), text)
    except SyntaxError:
        edits = doctests(plan, text, 0, len(text), {})
        rest = mentions(plan, text, where=where)
        return applied(
            text, edits + [one for one in rest if not any(e.start < one.end and one.start < e.end for e in edits)]
        )
    plan.bindings(file)
    plan.target[where] = where
    plan.order[where] = [where]
    for chunk in file.chunks:
        chunk.target = where
        for name in chunk.names:
            plan.final_names[Symbol(where, name)] = name
    before = len(plan.pending)
    plan.taken_by(where, [where], file.chunks, {name: Symbol(where, name) for name in file.defs})
    every, plan.pending = plan.pending, plan.pending[before:]
    plan.settle()
    plan.pending = every[:before]
    editor = Editor(plan, file)
    editor.imports_at_top()
    edits = editor.edits + python_strings(plan, file, editor.edits)
    del plan.files[where], plan.target[where], plan.order[where]
    return applied(text, edits)


# --- mutants: patches that are written in Python


def made_patches(plan: Plan) -> dict[tuple[str, int, int], list[Patch]]:
    """Every patch that a Python file makes, by the place of the call."""
    from tools.restructure.symbols import noted

    modules = [
        file.name
        for file in plan.files.values()
        if re.search(r"\b(?:replacing|Patch)\(", file.text)
        and not file.path.name.startswith("test_")
        and file.name.startswith(("dodona.audit", "tests.sessions"))
        and file.path.name != "patch.py"
    ]
    return noted(modules)


def mutants(plan: Plan, editors: dict[str, Editor]) -> dict[str, list[Edit]]:
    """The edits of the strings that mutants are made of."""
    found: dict[str, list[Edit]] = {}
    made = made_patches(plan)
    by_path = {str((plan.root / file.path).resolve()): file for file in plan.files.values()}
    by_file: dict[str, list[tuple[int, int, Patch]]] = {}
    for (path, line, column), patches in made.items():
        file = by_path.get(str(Path(path).resolve()))
        if file is not None:
            by_file.setdefault(file.name, []).extend((line, column, one) for one in patches)
    for name, patches in by_file.items():
        file = plan.files[name]
        edits: list[Edit] = []
        after = [(line, column, one, patched(plan, editors, one)) for line, column, one in patches]
        homes = {}
        for _, _, one, new in after:
            if homes.setdefault(one.module, new.module) != new.module:
                plan.notes.append(
                    f"by hand: {file.path}: patches of {one.module} are now of {homes[one.module]} and of {new.module}"
                )
        for node in ast.walk(file.names.tree):
            if isinstance(node, ast.Call):
                own = [pair for pair in after if pair[:2] == (node.lineno, node.col_offset)]
                word = next((word for word in node.keywords if word.arg == "symbol"), None)
                if own and word is not None:
                    start, end = file.names.span(word.value)
                    edits.append(Edit(start, end, f'"{own[0][3].symbol}"'))
            if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or len(node.value) < 4:
                continue
            hits = [
                pair for pair in after if node.value in "\n".join(pair[2].old) or node.value in "\n".join(pair[2].new)
            ]
            if not hits or (" " not in node.value and "." not in node.value):
                continue
            names: dict[tuple[str, ...], str] = {}
            for _, _, one, _ in hits:
                names |= name_map(plan, plan.files[one.module], editors[one.module])
            start, end = file.names.span(node)
            raw = file.text[start:end]
            # Each quoted part of an implicit concatenation is a line or a part of one.
            new = "".join(
                piece
                if not piece.strip() or piece[0] not in "\"'f"
                else _literal(plan, piece, names, hits[0][3].module)
                for piece in re.split(r"(\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*')", raw)
            )
            if new != raw and not any(one.start < end and start < one.end for one in edits):
                edits.append(Edit(start, end, new))
        found[name] = edits
    return found


def _literal(plan: Plan, piece: str, names: dict[tuple[str, ...], str], module: str) -> str:
    quote = piece[0]
    if quote == "f":
        return piece
    inner = piece[1:-1]
    parts = inner.split("\\n")
    return quote + "\\n".join(plan.in_words(imports_in(plan, rewritten(part, names)), module) for part in parts) + quote
