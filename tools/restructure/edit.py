"""The edits of one Python file, and the putting together of new ones."""

from __future__ import annotations

import ast
import re
import textwrap
from dataclasses import dataclass

from tools.restructure.plan import Bound, Chunk, File, Import, Plan, Symbol
from tools.restructure.scopes import Ref, Scope


@dataclass(frozen=True, order=True)
class Edit:
    start: int
    end: int
    text: str


def applied(text: str, edits: list[Edit], low: int = 0, high: int | None = None) -> str:
    """A part of a text with the edits in it applied."""
    high = len(text) if high is None else high
    out, place = [], low
    for one in sorted(set(edits)):
        if one.start < low or one.end > high:
            continue
        if one.start < place:
            raise ValueError(f"edits overlap at {text[one.start - 40 : one.end + 20]!r}: {one}")
        out += [text[place : one.start], one.text]
        place = one.end
    return "".join([*out, text[place:high]])


class Editor:
    """All edits of one file, except those of strings and comments."""

    def __init__(self, plan: Plan, file: File) -> None:
        self.plan, self.file = plan, file
        self.names = file.names
        self.edits: list[Edit] = []
        self.renamed_locals: dict[tuple[Scope, str], str] = {}
        self.lazy: dict[tuple[Scope, str], tuple[Bound, str]] = {}
        self.home = plan.target[file.name]
        self.imports_inside()
        for ref in self.names.refs:
            self.ref(ref)
        for ref in self.names.refs:
            owner = ref.scope.find(ref.name)
            if (owner, ref.name) in self.renamed_locals:
                self.put(ref.start, ref.end, self.renamed_locals[owner, ref.name], ref.name)
        self.pairs()

    def put(self, start: int, end: int, new: str, old: str | None = None) -> None:
        found = self.file.text[start:end]
        if old is not None and found != old:
            self.plan.errors.append(f"{self.file.path}: expected {old!r} at {start}, found {found!r}")
            return
        if found != new:
            self.edits.append(Edit(start, end, new))

    def target_at(self, place: int) -> str:
        for chunk in self.file.chunks:
            if chunk.start <= place < chunk.end:
                return chunk.target
        return self.home

    # --- names

    def ref(self, ref: Ref) -> None:
        owner = ref.scope.find(ref.name)
        target = self.target_at(ref.start)
        if owner is not self.names.module:
            if (owner, ref.name) in self.lazy:
                bound, local = self.lazy[owner, ref.name]
                self.bound(ref, bound, target, local, owner)
            return
        if ref.name in self.file.defs:
            module, new = self.plan.final(Symbol(self.file.name, ref.name))
            if module != target:
                new = self.plan.alias[target, ("from", module, new), ""]
            if new != ref.name:
                self.replace(ref, ref.end, new, None)
        elif ref.name in self.file.imports:
            self.bound(ref, self.file.imports[ref.name], target, None, None)

    def bound(self, ref: Ref, bound: Bound, target: str, local: str | None, owner: Scope | None) -> None:
        """Write a name that an import binds; `local` is what an import in a function now binds, None at the top."""
        plan = self.plan

        def named(*identity: str) -> str:
            if local is not None:
                return local
            return plan.alias[target, identity, bound.alias]

        if bound.kind == "symbol":
            module, new = plan.final(Symbol(bound.module, bound.name))
            self.replace(ref, ref.end, new if module == target else named("from", module, new), owner)
        elif bound.kind == "module":
            module, name, depth = plan.through(bound.module, ref.chain)
            end = ref.chain[depth - 1][1] if depth else ref.end
            if module == target:
                if not name:
                    plan.errors.append(f"{self.file.path}: {ref.name} is now the module itself")
                self.replace(ref, end, name, owner)
            else:
                parent, _, last = module.rpartition(".")
                base = named("from", parent, last)
                if local is not None and plan.target[bound.module] != module:
                    plan.errors.append(f"{self.file.path}: {ref.name} in a function reaches {module}: write it by hand")
                self.replace(ref, end, f"{base}.{name}" if name else base, owner)
        elif bound.kind == "root":
            module, name, depth = (
                plan.through("dodona" if ref.name == "dodona" else ref.name, ref.chain)
                if ref.name in plan.files
                else ("", "", 0)
            )
            if depth:
                self.put(
                    ref.start, ref.chain[depth - 1][1], name if module == target else f"{module}.{name}".rstrip(".")
                )
        elif bound.kind in ("foreign", "import") and local is None:
            identity = ("from", bound.module, bound.name) if bound.kind == "foreign" else ("import", bound.module)
            new = plan.alias.get((target, identity, bound.alias), ref.name)
            self.replace(ref, ref.end, new, owner)

    def replace(self, ref: Ref, end: int, new: str, owner: Scope | None) -> None:
        """Put another name in the place of one, and see that nothing nearer is called so."""
        first = new.partition(".")[0]
        if first != ref.name or owner is not None:
            for scope in ref.scope.between(self.names.module):
                if first in scope.bound and first not in scope.outer and (scope, first) not in self.lazy:
                    self.hide(scope, first, ref)
        self.put(ref.start, end, new)

    def hide(self, scope: Scope, name: str, ref: Ref) -> None:
        if (scope, name) in self.renamed_locals:
            return
        line = self.file.text.count("\n", 0, ref.start) + 1
        where = f"{self.file.path}:{line}"
        if name in scope.hard or scope.kind == "class":
            self.plan.errors.append(
                f"{where}: {name} ({ref.name} before) is hidden by a parameter or import of that name"
            )
            return
        new = f"own_{name}"
        self.renamed_locals[scope, name] = new
        self.plan.notes.append(f"{where}: the local {name} is {new} now, as {name} is a name of the module")

    # --- imports

    def line(self, target: str, file: File, local: str, bound: Bound) -> list[str]:
        """The import statements, at the top of a target, that bind what an old import bound."""
        found = []
        for identity, _, _ in self.plan.wanted(target, file, local, bound):
            if identity[0] == "root":
                continue
            name = self.plan.alias[target, identity, bound.alias]
            if identity[0] == "from":
                found.append(
                    f"from {identity[1]} import {identity[2]}" + (f" as {name}" if name != identity[2] else "")
                )
            else:
                plain = name == identity[1].partition(".")[0] and not bound.alias
                found.append(f"import {identity[1]}" + ("" if plain else f" as {name}"))
        if bound.kind == "root":
            modules = {bound.module} if bound.module == "dodona" else set()
            for ref in file.names.refs:
                if (
                    ref.name == local
                    and ref.scope.find(local) is file.names.module
                    and ref.chain
                    and bound.module != "dodona"
                ):
                    module, _, depth = self.plan.through(local, ref.chain)
                    if depth > 1 and ".".join([local, *(one for one, _ in ref.chain)]).startswith(bound.module):
                        modules.add(module)
            found += [
                f"import {module}" for module in sorted(modules or {self.plan.target[bound.module]}) if module != target
            ]
        return found

    def imports_at_top(self) -> None:
        """Rewrite the imports at the top where they stand: for a file that keeps its shape."""
        for node, typing in self.file.headers:
            lines: list[str] = []
            for local, bound in self.plan.bounds(node, typing=typing):
                lines += self.line(self.home, self.file, local, bound)
            self.statement(node, lines, self.names.tree.body)
        for block in self.file.blocks:
            if all(isinstance(one, ast.Import | ast.ImportFrom) for one in block.body):
                kept = [
                    line
                    for one in block.body
                    for local, bound in self.plan.bounds(one)
                    for line in self.line(self.home, self.file, local, bound)
                ]  # type: ignore[arg-type]
                if not kept:
                    self.edits = [
                        one
                        for one in self.edits
                        if not (self.names.span(block)[0] <= one.start < self.names.span(block)[1])
                    ]
                    self.put(*self.whole(block), "")

    def whole(self, node: ast.stmt) -> tuple[int, int]:
        start, end = self.names.span(node)
        line = self.names.lines[node.lineno - 1]
        after = self.names.lines[min(node.end_lineno or 0, len(self.names.lines) - 1)]
        return (line, after) if not self.file.text[line:start].strip() else (start, end)

    def statement(self, node: Import, lines: list[str], body: list[ast.stmt]) -> None:
        """Put import statements in the place of one, unless they say the same."""
        before = []
        for one in node.names:
            alias = f" as {one.asname}" if one.asname else ""
            before.append(
                f"from {node.module} import {one.name}{alias}"
                if isinstance(node, ast.ImportFrom)
                else f"import {one.name}{alias}"
            )
        if isinstance(node, ast.ImportFrom) and node.level or before == lines:
            return
        if lines:
            start, end = self.names.span(node)
            indent = " " * node.col_offset
            self.put(start, end, f"\n{indent}".join(dict.fromkeys(lines)))
        elif (
            all(isinstance(one, ast.Import | ast.ImportFrom) for one in body)
            and node is body[-1]
            and body is not self.names.tree.body
        ):
            self.put(*self.names.span(node), "pass")
        else:
            start, end = self.whole(node)
            while body is not self.names.tree.body and self.file.text.startswith("\n", end):
                end += 1  # no blank line is left where the import was
            self.put(start, end, "")

    def imports_inside(self) -> None:
        """Rewrite imports in functions and in conditional blocks."""
        tops = {id(node) for node, _ in self.file.headers}

        def visit(body: list[ast.stmt], scope_of: dict[int, Scope]) -> None:
            for node in body:
                if isinstance(node, ast.Import | ast.ImportFrom) and id(node) not in tops:
                    self.inside(node, body, scope_of.get(id(node)))
                for name in ("body", "orelse", "finalbody"):
                    inner = getattr(node, name, None)
                    if isinstance(inner, list):
                        visit(inner, scope_of)
                for handler in getattr(node, "handlers", []):
                    visit(handler.body, scope_of)
                for case in getattr(node, "cases", []):
                    visit(case.body, scope_of)

        scopes: dict[int, Scope] = {}
        seen: set[int] = set()
        for ref in self.names.refs:
            scope: Scope | None = ref.scope
            while scope is not None and id(scope) not in seen:
                seen.add(id(scope))
                for statement in scope.imports.values():
                    if scope is not self.names.module:
                        scopes[id(statement)] = scope
                scope = scope.parent
        visit(self.names.tree.body, scopes)

    def inside(self, node: Import, body: list[ast.stmt], scope: Scope | None) -> None:
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            return
        plan, target = self.plan, self.target_at(self.names.span(node)[0])
        lines: list[str] = []
        for local, bound in plan.bounds(node):
            old = f" as {bound.alias}" if bound.alias else ""
            if bound.kind == "foreign":
                lines.append(f"from {bound.module} import {bound.name}{old}")
            elif bound.kind == "import":
                lines.append(f"import {bound.module}{old}")
            elif bound.kind == "root":
                lines.append(f"import {plan.target[bound.module]}")
                if scope is not None:
                    self.lazy[scope, local] = bound, local
            else:
                if bound.kind == "symbol":
                    module, new = plan.final(Symbol(bound.module, bound.name))
                else:
                    module, _, new = plan.target[bound.module].rpartition(".")
                same = module == target if bound.kind == "symbol" else plan.target[bound.module] == target
                wanted = bound.alias or new
                if scope is None:
                    wanted = local
                elif wanted != local and (wanted in scope.bound or wanted in self._said(scope)):
                    wanted = local
                if same and scope is not None:
                    self.lazy[scope, local] = bound, wanted
                    continue
                lines.append(f"from {module} import {new}" + (f" as {wanted}" if wanted != new else ""))
                if scope is not None:
                    self.lazy[scope, local] = bound, wanted
        self.statement(node, lines, body)

    def _said(self, scope: Scope) -> set[str]:
        """The names that are used in a scope or below it."""
        return {ref.name for ref in self.names.refs if scope in [ref.scope, *ref.scope.between(self.names.module)]}

    # --- strings that name a symbol beside its module

    def pairs(self) -> None:
        plan = self.plan
        for node in ast.walk(self.names.tree):
            parts = (
                node.elts if isinstance(node, ast.Tuple | ast.List) else node.args if isinstance(node, ast.Call) else []
            )
            for one, other in zip(parts, parts[1:], strict=False):
                match one, other:
                    case ast.Constant(value=str(module)), ast.Constant(value=str(name)):
                        if module in plan.files and (
                            name in plan.files[module].defs or name in plan.files[module].imports
                        ):
                            there, new = plan.final(Symbol(module, name))
                            for part, before, after in ((one, module, there), (other, name, new)):
                                start, end = self.names.span(part)
                                self.put(start + 1, end - 1, after, before)
            match node:
                case ast.Assign(targets=[ast.Name(id="__all__")], value=ast.Tuple(elts=elts) | ast.List(elts=elts)):
                    for part in elts:
                        if isinstance(part, ast.Constant) and isinstance(part.value, str):
                            start, end = self.names.span(part)
                            if part.value in self.file.defs or part.value in self.file.imports:
                                self.put(
                                    start + 1, end - 1, plan.final(Symbol(self.file.name, part.value))[1], part.value
                                )


def section(doc: str) -> str:
    """A comment that says what a docstring's first line said."""
    first = ast.literal_eval(doc).strip().split("\n")[0] if doc else ""
    if not first:
        return ""
    lines = textwrap.wrap(f"--- {first} ---" if len(first) <= 110 else f"--- {first}", 118)
    return "\n".join(f"# {line}" for line in lines) + "\n"


def comment_of(file: File, node: ast.stmt) -> str:
    line = file.names.raw[(node.end_lineno or 1) - 1]
    found = re.search(r"#[^\n]*", line[node.end_col_offset or 0 :])
    return "  " + found[0] if found else ""


def assembled(plan: Plan, target: str, editors: dict[str, Editor], strings: dict[str, list[Edit]]) -> str:
    """The text of a module that is put together from several, or from parts."""
    sources = plan.sorted_sources(target)
    run: dict[str, str] = {}
    typed: dict[str, str] = {}
    for file, local, bound, _ in plan.needs(target):
        comment = next(
            (
                comment_of(file, node)
                for node, _ in file.headers
                if len(node.names) == 1 and (node.names[0].asname or node.names[0].name.partition(".")[0]) == local
            ),
            "",
        )
        for line in editors[file.name].line(target, file, local, bound):
            where = typed if bound.typing else run
            where[line] = where.get(line) or comment
    extra: list[str] = []
    bodies: list[str] = []
    doc = f'"""{plan.docs[target]}"""' if target in plan.docs else ""
    home = [
        one for one in plan.order[target] if one in plan.files and plan.target[one] == target and plan.files[one].doc
    ]
    first = home[0] if home and not doc else ""
    for place, source in enumerate(sources):
        file = plan.files[source]
        edits = [*editors[source].edits, *strings.get(source, [])]
        own = [chunk for chunk in file.chunks if chunk.target == target]
        if plan.target[source] == target:
            for block in file.blocks:
                for one in block.body:
                    if not isinstance(one, ast.Import | ast.ImportFrom):
                        low, high = file.names.span(one)
                        extra.append(
                            applied(
                                file.text,
                                edits,
                                low,
                                file.names.lines[min(one.end_lineno or 0, len(file.names.lines) - 1)],
                            ).rstrip()
                        )
        if not own:
            doc = doc or (file.doc if plan.target[source] == target else "")
            continue
        texts = [_chunk(file, chunk, edits) for chunk in own if not chunk.dropped]
        _lost(plan, file, target)
        if plan.target[source] == target and file.doc:
            if source == first:
                doc = applied(file.text, edits, *_doc_span(file))
            if source != first or place:
                bodies.append("\n\n" + section(file.doc))
        bodies.append("".join(texts))
    typed = {line: comment for line, comment in typed.items() if line not in run}
    if typed or extra:
        run.setdefault("from typing import TYPE_CHECKING", "")
    head = [doc, ""] if doc else []
    head += ["from __future__ import annotations", ""]
    head += [line + comment for line, comment in run.items()]
    if typed or extra:
        head += ["", "if TYPE_CHECKING:", *(f"    {line}{comment}" for line, comment in typed.items())]
        head += [textwrap.indent(one, "    ") for one in extra]
    return "\n".join(head) + "\n\n" + "\n".join(bodies) + "\n"


def _doc_span(file: File) -> tuple[int, int]:
    return file.names.span(file.names.tree.body[0])


def _chunk(file: File, chunk: Chunk, edits: list[Edit]) -> str:
    return applied(file.text, edits, chunk.start, chunk.end)


def _lost(plan: Plan, file: File, target: str) -> None:
    """Tell of comments that stand among imports, as they are lost."""
    spans = [(chunk.start, chunk.end) for chunk in file.chunks]
    spans += [file.names.span(node) for node in file.names.tree.body]
    for number, line in enumerate(file.names.raw):
        place = file.names.lines[number]
        if line.startswith("#") and not any(low <= place < high for low, high in spans):
            plan.notes.append(f"lost in {target}: {file.path}:{number + 1}: {line.strip()}")
