"""What becomes of every module and symbol: targets, new names, collisions, order and cycles."""

from __future__ import annotations

import ast
import builtins
import re
import tomllib
from collections import defaultdict
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from tools.restructure.scopes import Names, Ref

BUILTINS = frozenset(dir(builtins)) | {"__name__", "__file__", "__doc__", "__path__", "__all__"}
CODE = ("src", "tests", "benchmarks", "demo")

Import = ast.Import | ast.ImportFrom


@dataclass(frozen=True)
class Symbol:
    module: str
    name: str


@dataclass(frozen=True)
class Bound:
    """What an import binds: a symbol or a module of ours, our root, or something foreign."""

    kind: str
    module: str
    name: str = ""
    alias: str = ""
    typing: bool = False
    """Whether it stands under TYPE_CHECKING."""


@dataclass(eq=False)
class Chunk:
    module: str
    node: ast.stmt
    start: int
    end: int
    names: list[str]
    target: str = ""
    dropped: bool = False


@dataclass(eq=False)
class File:
    """One Python file as it was."""

    name: str
    path: Path
    text: str
    names: Names
    package: bool
    chunks: list[Chunk] = field(default_factory=list)
    defs: dict[str, Chunk] = field(default_factory=dict)
    imports: dict[str, Bound] = field(default_factory=dict)
    headers: list[tuple[Import, bool]] = field(default_factory=list)
    blocks: list[ast.If] = field(default_factory=list)
    """The `if TYPE_CHECKING:` blocks."""
    doc: str = ""

    @property
    def last(self) -> str:
        return self.name.rpartition(".")[2]


def module_of(path: Path) -> str:
    parts = path.with_suffix("").parts
    parts = parts[1:] if parts[0] == "src" else parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _typing(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.If)
        and isinstance(node.test, ast.Name)
        and node.test.id == "TYPE_CHECKING"
        and not node.orelse
    )


def _bound_names(node: ast.stmt) -> list[str]:
    """The names that a statement of the module's own level defines."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.Import() | ast.ImportFrom():
            local = isinstance(node, ast.ImportFrom)
            return [one.asname or (one.name if local else one.name.partition(".")[0]) for one in node.names]
        case ast.Assign() | ast.AnnAssign() | ast.AugAssign():
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            return [
                one.id
                for target in targets
                for one in ast.walk(target)
                if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
            ]
        case ast.If() | ast.Try() | ast.For() | ast.With() | ast.While():
            found: list[str] = []
            if isinstance(node, ast.For):
                found += [one.id for one in ast.walk(node.target) if isinstance(one, ast.Name)]
            blocks = [getattr(node, name, []) for name in ("body", "orelse", "finalbody")]
            blocks += [handler.body for handler in getattr(node, "handlers", [])]
            for block in blocks:
                for inner in block:
                    found += _bound_names(inner)
            return found
        case _:
            return []


class Plan:
    def __init__(self, root: Path, mapping: Path) -> None:
        self.root = root
        self.errors: list[str] = []
        self.notes: list[str] = []
        with mapping.open("rb") as file:
            self.map = tomllib.load(file)
        self.files: dict[str, File] = {}
        for folder in CODE:
            for path in sorted((root / folder).rglob("*.py")):
                if "__pycache__" in path.parts:
                    continue
                self.read(path.relative_to(root))
        for file in self.files.values():
            self.bindings(file)
        self.dropped = set(self.map.get("drop", {}).get("modules", []))
        self.rename = {self.symbol(one): new for one, new in self.map.get("rename", {}).items()}
        self.target: dict[str, str] = {}
        self.docs: dict[str, str] = {}
        self.order: dict[str, list[str]] = {}
        """The sources of each target."""
        self.targets()
        self.final_names: dict[Symbol, str] = {}
        self.locals: dict[tuple[str, Bound], str] = {}
        self.pending: list[tuple[str, dict[str, Symbol], dict[str, set[str]]]] = []
        self.names()
        self.alias: dict[tuple[str, object, str], str] = {}
        self.settle()

    # --- reading

    def read(self, path: Path) -> None:
        text = (self.root / path).read_text(encoding="utf-8")
        self.add(module_of(path), path, text)

    def add(self, name: str, path: Path, text: str) -> File:
        names = Names(text)
        file = self.files[name] = File(name, path, text, names, path.name == "__init__.py")
        body = names.tree.body
        last = 0
        if (
            body
            and isinstance(body[0], ast.Expr)
            and isinstance(body[0].value, ast.Constant)
            and isinstance(body[0].value.value, str)
        ):
            file.doc = text[names.span(body[0])[0] : names.span(body[0])[1]]
            last = names.lines[min(body[0].end_lineno or 0, len(names.lines) - 1)]
            body = body[1:]
        for node in body:
            low = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", []))])
            end = names.lines[min(node.end_lineno or 0, len(names.lines) - 1)]
            start = names.lines[low - 1]
            if isinstance(node, ast.Import | ast.ImportFrom):
                if not (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
                    file.headers.append((node, False))
            elif _typing(node) and isinstance(node, ast.If):
                file.blocks.append(node)
                file.headers += [(one, True) for one in node.body if isinstance(one, ast.Import | ast.ImportFrom)]
            elif (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
                and file.chunks
                and file.chunks[-1].end == last
            ):
                file.chunks[-1].end = end
            else:
                file.chunks.append(
                    Chunk(
                        name, node, last if file.chunks or not file.headers else max(last, 0), end, _bound_names(node)
                    )
                )
            last = end
            del start
        if file.chunks:
            file.chunks[-1].end = len(text)
        for chunk in file.chunks:
            for one in chunk.names:
                file.defs.setdefault(one, chunk)
        return file

    def bindings(self, file: File) -> None:
        for node, typing in file.headers:
            for local, bound in self.bounds(node, typing=typing):
                if local not in file.defs and (local not in file.imports or not typing):
                    file.imports[local] = bound

    def ours(self, name: str) -> bool:
        return name.partition(".")[0] in {"dodona", *CODE[1:]}

    def bounds(self, node: Import, *, typing: bool = False) -> list[tuple[str, Bound]]:
        found = []
        for one in node.names:
            alias = one.asname or ""
            if isinstance(node, ast.ImportFrom):
                module = node.module or ""
                if not self.ours(module) or node.level:
                    bound = Bound("foreign", "." * node.level + module, one.name, alias, typing)
                else:
                    bound = self.from_import(module, one.name, alias, typing)
                found.append((alias or one.name, bound))
            elif not self.ours(one.name) or one.name not in self.files:
                found.append((alias or one.name.partition(".")[0], Bound("import", one.name, "", alias, typing)))
            elif alias:
                found.append((alias, Bound("module", one.name, "", alias, typing)))
            else:
                found.append((one.name.partition(".")[0], Bound("root", one.name, "", "", typing)))
        return found

    def from_import(self, module: str, name: str, alias: str, typing: bool) -> Bound:
        inner = f"{module}.{name}"
        if inner in self.files:
            own = self.files.get(module)
            if own is None or (name not in own.defs and self._header(own, name) in ("", inner)):
                return Bound("module", inner, "", alias, typing)
        if module not in self.files:
            return Bound("foreign", module, name, alias, typing)
        return Bound("symbol", module, name, alias, typing)

    @staticmethod
    def _header(file: File, name: str) -> str:
        """The dotted name that a package imports under a name; empty if none."""
        for node, _ in file.headers:
            for one in node.names:
                if (one.asname or one.name) == name and isinstance(node, ast.ImportFrom):
                    return f"{node.module}.{one.name}"
        return ""

    def symbol(self, dotted: str) -> Symbol:
        module, _, name = dotted.rpartition(".")
        if module not in self.files or name not in self.files[module].defs:
            self.errors.append(f"unknown symbol: {dotted}")
        return Symbol(module, name)

    # --- targets

    def targets(self) -> None:
        for one in self.map.get("module", []):
            for old in one["from"]:
                if old not in self.files:
                    self.errors.append(f"unknown module: {old}")
                elif old in self.target:
                    self.errors.append(f"{old} is mapped twice")
                self.target[old] = one["name"]
            if "doc" in one:
                self.docs[one["name"]] = one["doc"]
            self.order.setdefault(one["name"], []).extend(one["from"])
        prefixes = {old: new for old, new in self.map.get("packages", {}).items()}
        for old, new in self.map.get("tests", {}).items():
            if old.endswith(".py"):
                name, other = module_of(Path(old)), module_of(Path(new))
                if name not in self.files:
                    self.errors.append(f"unknown test file: {old}")
                self.target[name] = other
                self.order.setdefault(other, []).append(name)
            else:
                prefixes[old.strip("/").replace("/", ".")] = new.strip("/").replace("/", ".")
        self.prefixes = prefixes
        for old in prefixes:
            if not any(name == old or name.startswith(old + ".") for name in self.files):
                self.errors.append(f"unknown package: {old}")
        for name in self.files:
            if name in self.target:
                continue
            fit = max((old for old in prefixes if name == old or name.startswith(old + ".")), key=len, default=None)
            if fit is not None:
                self.target[name] = prefixes[fit] + name[len(fit) :]
            else:
                self.target[name] = name
        for name, new in self.target.items():
            if name in self.files and name not in self.order.setdefault(new, []):
                if new != name and self.order[new]:
                    self.notes.append(f"{name} joins {new}")
                if new == name and self.order[new] and not self.files[name].chunks and not self.files[name].headers:
                    continue
                self.order[new].insert(0, name) if new == name else self.order[new].append(name)
        for file in self.files.values():
            for chunk in file.chunks:
                chunk.target = self.target[file.name]
        for dotted, new in self.map.get("move", {}).items():
            one = self.symbol(dotted)
            if one.module in self.files and one.name in self.files[one.module].defs:
                self.files[one.module].defs[one.name].target = new
                if one.module not in self.order.setdefault(new, []):
                    self.order[new].append(one.module)

    def package_target(self, name: str) -> str | None:
        """Where a package went, if it went anywhere as one."""
        if name in self.files and not self.files[name].package:
            return None
        if name in self.files and self.files[name].chunks:
            return self.target[name]
        inner = {self.target[one] for one in self.files if one.startswith(name + ".")}
        if not inner:
            return self.target.get(name)
        tails = {one.rpartition(".")[0] for one in inner}
        while len(tails) > 1:
            shortest = min(tails, key=len)
            if all(one == shortest or one.startswith(shortest + ".") for one in tails):
                return shortest if shortest.count(".") else None
            return None
        return tails.pop()

    def moved(self, name: str) -> bool:
        """Whether anything about a file's place changes, so that it is put together anew."""
        file = self.files[name]
        new = self.target[name]
        return len(self.order[new]) > 1 or any(chunk.target != new for chunk in file.chunks)

    # --- names

    def final(self, one: Symbol) -> tuple[str, str]:
        """The module and the name under which a symbol is found afterwards."""
        file = self.files.get(one.module)
        if file is None:
            return one.module, one.name
        if one.name in file.defs:
            return file.defs[one.name].target, self.final_names.get(one, self.rename.get(one, one.name))
        bound = file.imports.get(one.name)
        here = self.target[one.module]
        if bound is not None and bound.kind == "symbol":
            there = self.final(Symbol(bound.module, bound.name))
            if there[0] == here or one.module in self.dropped:
                return there
            return here, self.locals.get((here, bound), bound.alias or there[1])
        if bound is not None and bound.kind == "module":
            return here, bound.alias or self.target[bound.module].rpartition(".")[2]
        return here, one.name

    def names(self) -> None:
        for target, sources in self.order.items():
            taken: dict[str, Symbol] = {}
            chunks = [
                chunk
                for name in sources
                if name in self.files
                for chunk in self.files[name].chunks
                if chunk.target == target
            ]
            for chunk in chunks:
                for name in chunk.names:
                    own = Symbol(chunk.module, name)
                    wanted = self.rename.get(own, name)
                    other = taken.get(wanted)
                    if other is None or other == own:
                        taken[wanted] = own
                        self.final_names[own] = wanted
                        continue
                    if self.same(chunk, self.files[other.module].defs[other.name]):
                        chunk.dropped = True
                        self.final_names[own] = wanted
                        continue
                    if wanted == "__all__":
                        chunk.dropped = True
                        self.notes.append(f"by hand: {target} loses the __all__ of {own.module}")
                        continue
                    fixture = "fixture" in "".join(ast.dump(one) for one in getattr(chunk.node, "decorator_list", []))
                    test = target.startswith("tests.") and not fixture and wanted != "pytestmark"
                    if not wanted.startswith("_") and not test:
                        self.errors.append(f"collision in {target}: {wanted} of {own.module} and of {other.module}")
                        continue
                    last = own.module.rpartition(".")[2].removeprefix("test_").strip("_")
                    made = f"{wanted}_{last.upper() if wanted.isupper() else last}"
                    while made in taken or any(made in self.files[one].defs for one in sources if one in self.files):
                        made += "_too"
                    taken[made] = own
                    self.final_names[own] = made
                    self.notes.append(
                        f"renamed in {target}: {wanted} of {own.module} is {made}; {other.module} has another one"
                    )
            self.taken_by(target, sources, chunks, taken)

    def same(self, one: Chunk, other: Chunk) -> bool:
        if ast.dump(one.node) != ast.dump(other.node):
            return False
        first, second = self.files[one.module], self.files[other.module]

        def meaning(file: File, name: str) -> object:
            if name in file.defs:
                own = file.defs[name]
                return "def", ast.dump(own.node), own.target
            bound = file.imports.get(name)
            if bound is None:
                return "builtin"
            return (
                self.final(Symbol(bound.module, bound.name))
                if bound.kind == "symbol"
                else (bound.kind, bound.module, bound.name)
            )

        used = {ref.name for ref in self.refs(first, one)}
        return all(meaning(first, name) == meaning(second, name) for name in used if name not in one.names)

    def refs(self, file: File, chunk: Chunk) -> list[Ref]:
        """The names in a chunk that the module itself binds, or that nothing binds."""
        return [
            ref
            for ref in file.names.refs
            if chunk.start <= ref.start < chunk.end and ref.scope.find(ref.name) is file.names.module
        ]

    def needs(self, target: str) -> list[tuple[File, str, Bound, bool]]:
        """The imports that a target's parts need: (file, name there, what, whether it is used)."""
        found = []
        for source in self.order[target]:
            file = self.files.get(source)
            if file is None:
                continue
            used: set[str] = set()
            for chunk in file.chunks:
                if chunk.target == target and not chunk.dropped:
                    used |= {ref.name for ref in self.refs(file, chunk)}
            home = self.target[source] == target
            if home:
                for block in file.blocks:
                    low, high = file.names.span(block)
                    used |= {ref.name for ref in file.names.refs if low <= ref.start < high}
            found += [
                (file, local, bound, local in used) for local, bound in file.imports.items() if home or local in used
            ]
            found += [
                (file, name, Bound("symbol", source, name), True)
                for name in sorted(used)
                if name in file.defs and file.defs[name].target != target
            ]
        return found

    def taken_by(self, target: str, sources: list[str], chunks: list[Chunk], taken: dict[str, Symbol]) -> None:
        """Settle under which name each import of a target is bound."""
        plain: dict[str, set[str]] = defaultdict(set)
        for chunk in chunks:
            file = self.files[chunk.module]
            for ref in self.refs(file, chunk):
                if ref.name not in file.defs and ref.name not in file.imports and ref.name in BUILTINS:
                    plain[ref.name].add(chunk.module)
        for name, own in taken.items():
            if name in plain and name not in ("__all__",):
                self.errors.append(
                    f"collision in {target}: {name} of {own.module} hides the builtin that {sorted(plain[name])} use"
                )
        self.pending.append((target, taken, plain))

    def settle(self) -> None:
        """Second pass, when all symbols have their names: the local names of imports."""
        for target, taken, plain in self.pending:
            held: dict[str, object] = {}
            for file, local, bound, _ in sorted(self.needs(target), key=lambda need: bool(need[2].alias)):
                for identity, wanted, spare in self.wanted(target, file, local, bound):
                    if wanted in taken or wanted in plain or held.get(wanted, identity) != identity:
                        clash = (
                            f"{taken[wanted].module}"
                            if wanted in taken
                            else "a builtin"
                            if wanted in plain
                            else "another import"
                        )
                        self.notes.append(
                            f"aliased in {target}: {wanted} of {identity} is {spare}; it clashes with {clash}"
                        )
                        wanted = spare
                    held[wanted] = identity
                    self.alias[target, identity, bound.alias] = wanted

    def wanted(self, target: str, file: File, local: str, bound: Bound) -> list[tuple[tuple[str, ...], str, str]]:
        """What an import becomes: (identity, its local name, another name if that is taken)."""
        if bound.kind == "symbol":
            module, name = self.final(Symbol(bound.module, bound.name))
            if module == target:
                return []
            spare = f"{module.rpartition('.')[2]}_{name.strip('_')}"
            if not bound.alias and name != local and file.names.inner(name, hard=True):
                self.notes.append(f"aliased in {target}: {name} of {module} is {spare}; a parameter is called so")
                return [(("from", module, name), spare, spare)]
            return [(("from", module, name), bound.alias or name, f"{module.rpartition('.')[2]}_{name.strip('_')}")]
        if bound.kind == "module":
            found = []
            for module in sorted(self.modules_through(file, local, bound)):
                if module != target:
                    parent, _, last = module.rpartition(".")
                    kept = bound.alias if self.target[bound.module] == module else ""
                    sources = [self.files[one] for one in self.order[target] if one in self.files]
                    if not bound.alias and last != local and any(one.names.inner(last) for one in sources):
                        self.notes.append(
                            f"aliased in {target}: {module} is {local} as before; {last} is a local name there"
                        )
                        kept = local
                    found.append((("from", parent, last), kept or last, f"{last}_of_{parent.rpartition('.')[2]}"))
            return found
        if bound.kind == "foreign":
            return [
                (
                    ("from", bound.module, bound.name),
                    bound.alias or bound.name,
                    f"{bound.module.rpartition('.')[2]}_{bound.name}",
                )
            ]
        if bound.kind == "import":
            return [
                (
                    ("import", bound.module),
                    bound.alias or bound.module.partition(".")[0],
                    bound.module.replace(".", "_"),
                )
            ]
        return [(("root", "dodona"), bound.module.partition(".")[0], "dodona")]

    def modules_through(self, file: File, local: str, bound: Bound) -> set[str]:
        """The new modules that are reached through one old module's name in a file."""
        found: set[str] = set()
        for ref in file.names.refs:
            if ref.name == local and ref.scope.find(local) is file.names.module and ref.chain:
                found.add(self.through(bound.module, ref.chain)[0])
        return found or {self.target[bound.module]}

    def through(self, module: str, chain: list[tuple[str, int]]) -> tuple[str, str, int]:
        """The new module, the new dotted rest, and how many attributes of the chain were read, for module.chain."""
        depth = 0
        while (
            depth < len(chain)
            and f"{module}.{chain[depth][0]}" in self.files
            and chain[depth][0] not in self.files[module].defs
        ):
            module, depth = f"{module}.{chain[depth][0]}", depth + 1
        if depth == len(chain):
            return self.target[module], "", depth
        there, name = self.final(Symbol(module, chain[depth][0]))
        return there, name, depth + 1

    # --- dotted names in texts

    def dotted(self, text: str) -> str | None:
        """What a dotted name of ours is called afterwards; None if it names nothing that is known."""
        parts = text.split(".")
        depth = max((cut for cut in range(1, len(parts) + 1) if ".".join(parts[:cut]) in self.files), default=0)
        if not depth:
            found = self.package_target(text) if any(one.startswith(text + ".") for one in self.files) else None
            return found
        module, rest = ".".join(parts[:depth]), parts[depth:]
        if rest and (rest[0] in self.files[module].defs or rest[0] in self.files[module].imports):
            there, name = self.final(Symbol(module, rest[0]))
            return ".".join([there, name, *rest[1:]])
        if self.files[module].package and not self.files[module].chunks and not self.files[module].headers:
            new = self.package_target(module)
            if new is None:
                return None
        else:
            new = self.target[module]
        return ".".join([new, *rest])

    # --- words and paths

    def worded(self, how: dict[str, Any], path: str) -> bool:
        """Whether a rename of a word applies to a file, by its new path."""
        patterns = [how["in"]] if isinstance(how["in"], str) else how["in"]
        return any(one == "*" or fnmatch(path, one) for one in patterns)

    def in_words(self, text: str, module: str) -> str:
        """Lines of code of a new module with its words renamed."""
        for old, how in self.map.get("words", {}).items():
            if self.worded(how, str(self.path(module))):
                text = re.sub(rf"(?<!\w){re.escape(old)}(?!\w)", how["to"], text)
        return text

    def path(self, target: str) -> Path:
        """The file of a module afterwards."""
        root = Path("src") if target.startswith("dodona") else Path()
        package = any(other.startswith(target + ".") and self.order[other] for other in self.order)
        old = self.files.get(target)
        if old is not None and self.order[target] == [target]:
            return old.path  # untouched: a package that has nothing but its own file stays one
        folder = root.joinpath(*target.split("."))
        if any(name in self.files and self.files[name].package for name in self.order[target]):
            package = package or len(self.order[target]) == 1
        return folder / "__init__.py" if package else folder.with_suffix(".py")

    # --- order and cycles

    def sorted_sources(self, target: str) -> list[str]:
        """The sources of a target in an order in which all that is read at import is there."""
        sources = [one for one in self.order[target] if one in self.files]
        owner = {
            Symbol(chunk.module, name): chunk
            for source in sources
            for chunk in self.files[source].chunks
            if chunk.target == target
            for name in chunk.names
        }
        origin = {self.final(symbol): symbol for symbol in owner}

        def used(chunk: Chunk, *, early: bool) -> set[Symbol]:
            file = self.files[chunk.module]
            found = set()
            for ref in self.refs(file, chunk):
                if early and not ref.early:
                    continue
                if ref.name in file.defs:
                    found.add(Symbol(file.name, ref.name))
                elif (bound := file.imports.get(ref.name)) is not None and bound.kind == "symbol":
                    there = self.final(Symbol(bound.module, bound.name))
                    if there in origin:
                        found.add(origin[there])
                elif bound is not None and bound.kind == "module" and ref.chain:
                    module, name, _ = self.through(bound.module, ref.chain)
                    if (module, name) in origin:
                        found.add(origin[module, name])
            return found & owner.keys()

        before: dict[str, set[str]] = {source: set() for source in sources}
        for source in sources:
            for chunk in self.files[source].chunks:
                if chunk.target != target or chunk.dropped:
                    continue
                open_, seen = used(chunk, early=True), set()
                while open_:
                    one = open_.pop()
                    if one in seen:
                        continue
                    seen.add(one)
                    if one.module != source:
                        before[source].add(one.module)
                    open_ |= used(owner[one], early=False)
        done: list[str] = []
        left = list(sources)
        while left:
            ready = next((one for one in left if not before[one] & set(left) - {one}), None)
            if ready is None:
                self.notes.append(f"{target}: {left} need each other while they are imported: kept in the order given")
                return [*done, *left]
            done.append(ready)
            left.remove(ready)
        if done != sources:
            self.notes.append(f"order in {target}: {', '.join(one.rpartition('.')[2] for one in done)}")
        return done

    def edges(self) -> dict[str, dict[str, set[str]]]:
        """Which new module imports which at its top, with the symbols."""
        found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        for target in self.order:
            if not target.startswith("dodona"):
                continue
            for file, local, bound, is_used in self.needs(target):
                if bound.typing:
                    continue
                if bound.kind == "symbol":
                    module, name = self.final(Symbol(bound.module, bound.name))
                    if module != target:
                        found[target][module].add(name)
                elif bound.kind in ("module", "root"):
                    for module in self.modules_through(file, local, bound):
                        if module != target:
                            found[target][module].add("(module)")
                del is_used
        return found

    def cycles(self) -> list[str]:
        edges = self.edges()
        index: dict[str, int] = {}
        low: dict[str, int] = {}
        stack: list[str] = []
        found: list[list[str]] = []

        def visit(node: str) -> None:
            index[node] = low[node] = len(index)
            stack.append(node)
            for other in edges.get(node, {}):
                if other not in index:
                    visit(other)
                    low[node] = min(low[node], low[other])
                elif other in stack:
                    low[node] = min(low[node], index[other])
            if low[node] == index[node]:
                group = []
                while True:
                    group.append(stack.pop())
                    if group[-1] == node:
                        break
                if len(group) > 1:
                    found.append(group)

        import sys

        sys.setrecursionlimit(10000)
        for node in list(edges):
            if node not in index:
                visit(node)
        return [
            "cycle: "
            + "; ".join(
                f"{one} imports {', '.join(sorted(names))} from {other}"
                for one in sorted(group)
                for other, names in sorted(edges[one].items())
                if other in group
            )
            for group in found
        ]
