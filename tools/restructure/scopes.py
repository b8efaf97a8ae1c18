"""Which name means what: every name of a Python text, with the scope that binds it and its exact place."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field


@dataclass(eq=False)
class Scope:
    kind: str
    """module, function, class or comprehension"""
    parent: Scope | None
    bound: set[str] = field(default_factory=set)
    hard: set[str] = field(default_factory=set)
    """Names that cannot be renamed by replacing names alone: parameters, captures, imports, handlers."""
    outer: set[str] = field(default_factory=set)
    """Names that `global` or `nonlocal` send elsewhere."""
    imports: dict[str, ast.stmt] = field(default_factory=dict)

    def find(self, name: str) -> Scope:
        """The scope that binds a name which is used here."""
        scope: Scope | None = self
        first = True
        while scope is not None and scope.parent is not None:
            if (scope.kind != "class" or first) and name in scope.bound and name not in scope.outer:
                return scope
            first, scope = False, scope.parent
        assert scope is not None
        return scope

    def between(self, owner: Scope) -> list[Scope]:
        """The scopes from here up to, and without, an owner that a name passes."""
        found: list[Scope] = []
        scope: Scope | None = self
        while scope is not None and scope is not owner:
            if scope.kind != "class" or scope is self:
                found.append(scope)
            scope = scope.parent
        return found


@dataclass(eq=False)
class Ref:
    name: str
    start: int
    end: int
    scope: Scope
    chain: list[tuple[str, int]]
    """The attributes that follow, each with the offset of its end."""
    early: bool
    """Whether it is read while the module is imported."""
    kind: str = "use"
    statement: ast.stmt | None = None


class Names(ast.NodeVisitor):
    """All names of one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tree = ast.parse(text)
        self.lines = [0]
        for line in text.splitlines(keepends=True):
            self.lines.append(self.lines[-1] + len(line))
        self.raw = text.splitlines(keepends=True)
        self.module = self.scope = Scope("module", None)
        self.scopes: list[Scope] = []
        self.refs: list[Ref] = []
        self.nested: list[tuple[ast.Import | ast.ImportFrom, Scope, list[ast.stmt]]] = []
        """Imports in functions, with the block they stand in."""
        self.late = 0
        for node in self.tree.body:
            self.visit(node)

    def inner(self, name: str, *, hard: bool = False) -> bool:
        """Whether a name is bound somewhere below the module; if `hard`, by a parameter or the like."""
        return any(name in (scope.hard if hard else scope.bound) for scope in self.scopes)

    def at(self, line: int, column: int) -> int:
        """The offset of a place that ast tells."""
        raw = self.raw[line - 1] if line <= len(self.raw) else ""
        return self.lines[line - 1] + (column if raw.isascii() else len(raw.encode()[:column].decode(errors="ignore")))

    def span(self, node: ast.AST) -> tuple[int, int]:
        return self.at(node.lineno, node.col_offset), self.at(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]

    def add(
        self, name: str, start: int, end: int, kind: str = "use", chain: list[tuple[str, int]] | None = None
    ) -> None:
        self.refs.append(Ref(name, start, end, self.scope, chain or [], not self.late, kind))

    def bind(self, name: str, *, hard: bool = False) -> None:
        scope = self.scope
        scope.bound.add(name)
        if hard:
            scope.hard.add(name)

    def visit_Name(self, node: ast.Name) -> None:
        start, end = self.span(node)
        if not isinstance(node.ctx, ast.Load):
            self.bind(node.id)
        self.add(node.id, start, end, "use" if isinstance(node.ctx, ast.Load) else "store")

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        here = self.scope
        while self.scope.kind == "comprehension" and self.scope.parent is not None:
            self.scope = self.scope.parent
        self.visit(node.target)
        self.scope = here

    def visit_Attribute(self, node: ast.Attribute) -> None:
        chain: list[tuple[str, int]] = []
        inner: ast.expr = node
        while isinstance(inner, ast.Attribute):
            chain.insert(0, (inner.attr, self.span(inner)[1]))
            inner = inner.value
        if isinstance(inner, ast.Name):
            start, end = self.span(inner)
            self.add(inner.id, start, end, "use", chain)
        else:
            self.visit(inner)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id == "cast" and node.args:
            self.quoted(node.args[0])
        self.generic_visit(node)

    def quoted(self, node: ast.expr) -> None:
        """Names in a type that is written as a string."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            start, end = self.span(node)
            self.late += 1
            for one in re.finditer(r"(?<![\w.'\"])[A-Za-z_]\w*", self.text[start + 1 : end - 1]):
                self.add(one[0], start + 1 + one.start(), start + 1 + one.end())
            self.late -= 1

    def annotation(self, node: ast.expr | None) -> None:
        if node is None:
            return
        self.late += 1
        self.visit(node)
        self.late -= 1

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.annotation(node.annotation)
        if node.value is not None:
            self.visit(node.value)
        self.visit(node.target)

    def definition(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        self.bind(node.name)
        start = self.span(node)[0]
        found = re.compile(r"(?:async\s+)?(?:def|class)\s+(\w+)").match(self.text, start)
        assert found is not None
        self.add(node.name, *found.span(1), "def")

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for one in (*node.decorator_list, *node.bases, *node.keywords):
            self.visit(one)
        self.definition(node)
        outer, self.scope = self.scope, Scope("class", self.scope)
        self.scopes.append(self.scope)
        for one in node.body:
            self.visit(one)
        self.scope = outer

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for one in node.decorator_list:
            self.visit(one)
        self.definition(node)
        self.annotation(node.returns)
        self.function(node.args, node.body)

    visit_AsyncFunctionDef = visit_FunctionDef  # type: ignore[assignment]

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self.function(node.args, [node.body])

    def function(self, args: ast.arguments, body: list) -> None:  # type: ignore[type-arg]
        for default in (*args.defaults, *args.kw_defaults):
            if default is not None:
                self.visit(default)
        every = [*args.posonlyargs, *args.args, *args.kwonlyargs, *filter(None, (args.vararg, args.kwarg))]
        for one in every:
            self.annotation(one.annotation)
        outer, self.scope = self.scope, Scope("function", self.scope)
        self.scopes.append(self.scope)
        for one in every:
            self.bind(one.arg, hard=True)
        self.late += 1
        for inner in body:
            self.visit(inner)
        self.late -= 1
        self.scope = outer

    def comprehension(self, node: ast.AST) -> None:
        generators = node.generators  # type: ignore[attr-defined]
        self.visit(generators[0].iter)
        outer, self.scope = self.scope, Scope("comprehension", self.scope)
        self.scopes.append(self.scope)
        for place, one in enumerate(generators):
            self.visit(one.target)
            if place:
                self.visit(one.iter)
            for condition in one.ifs:
                self.visit(condition)
        for name in ("key", "value", "elt"):
            if hasattr(node, name):
                self.visit(getattr(node, name))
        self.scope = outer

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = comprehension

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name:
            self.bind(node.name, hard=True)
        self.generic_visit(node)

    def visit_MatchAs(self, node: ast.MatchAs) -> None:
        if node.name:
            self.bind(node.name, hard=True)
        self.generic_visit(node)

    def visit_MatchStar(self, node: ast.MatchStar) -> None:
        if node.name:
            self.bind(node.name, hard=True)

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        if node.rest:
            self.bind(node.rest, hard=True)
        self.generic_visit(node)

    def visit_Global(self, node: ast.Global | ast.Nonlocal) -> None:
        start, end = self.span(node)
        for name in node.names:
            self.scope.outer.add(name)
            found = re.compile(rf"\b{name}\b").search(self.text, start, end)
            assert found is not None
            self.add(name, *found.span(), "global")

    visit_Nonlocal = visit_Global  # type: ignore[assignment]

    def imported(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            local = alias.asname or (alias.name if isinstance(node, ast.ImportFrom) else alias.name.partition(".")[0])
            self.bind(local, hard=True)
            self.scope.imports[local] = node

    visit_Import = visit_ImportFrom = imported
