"""The tests that a change can reach, nearest first: what `make check` runs.

A test is reached where its file imports a changed file, or imports what imports it, however far. The distance is the
number of imports between them, and the nearest tests run first; those that time leaves over are only counted.

    python -m pytest --reach            # what is not committed, or else the last commit
    python -m pytest --reach=main       # all that differs from a branch
"""

import ast
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.house.tree import ROOT, SOURCE, module_path, python_files

_PYTHON = ("src", "tests", "benchmarks", "demo")
_OWN = frozenset(("dodona", *_PYTHON))
_PAGES = frozenset((".md", ".toml", ".yml", ".txt", ".in"))
_FAR = 1 << 10


Names = dict[str, tuple[int, int, list[str]]]
"""What each file names, by its path, with the time and the size that it had then."""


def named(path: Path) -> list[str]:
    """The modules that a file imports, anywhere in it, or names in a string."""
    modules: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names):
                modules |= {alias.name for alias in names}
            case ast.ImportFrom(str(module), names):
                modules |= {module, *(f"{module}.{alias.name}" for alias in names)}
            case ast.Constant(str(text)) if text.startswith("dodona."):
                module = text.partition(":")[0]  # a command is named as module:function
                if module.replace(".", "").isidentifier():
                    modules.add(module)
    return sorted(name for name in modules if name.partition(".")[0] in _OWN)


def imported(path: Path, known: Names | None = None) -> set[Path]:
    """The files of this project that a file names; a file that is as it was when it was read is not read again."""
    known = {} if known is None else known
    now = path.stat()
    entry = known.get(str(path))
    if entry is None or tuple(entry[:2]) != (now.st_mtime_ns, now.st_size):
        entry = known[str(path)] = (now.st_mtime_ns, now.st_size, named(path))
    return {file for name in entry[2] if (file := _file(name)).is_file()} - {path}


def distances(changed: Iterable[Path], graph: dict[Path, set[Path]]) -> dict[Path, int]:
    """How many imports each file is away from the nearest changed one; files that none of them reaches are left out."""
    importers: defaultdict[Path, set[Path]] = defaultdict(set)
    for path, imports in graph.items():
        for other in imports:
            importers[other].add(path)
    steps = dict.fromkeys(changed, 0)
    edge = list(steps)
    while edge:
        following = []
        for path in edge:
            for importer in importers[path]:
                if importer not in steps:
                    steps[importer] = steps[path] + 1
                    following.append(importer)
        edge = following
    return steps


def changed_files(since: str) -> list[Path]:
    """What differs from a reference; without one, what is not committed, or else what the last commit changed."""
    if since:
        names = _git("diff", "--name-only", since)
    else:
        names = [line[3:].split(" -> ")[-1].strip('"') for line in _git("status", "--porcelain", "-uall")]
        names = names or _git("diff", "--name-only", "HEAD~1")
    return [ROOT / name for name in names]


def reached(since: str, known: Names | None = None) -> dict[Path, int]:
    """The distance of each file that a change reaches."""
    changed = changed_files(since)
    graph = {path: imported(path, known) for folder in _PYTHON for path in python_files(ROOT / folder)}
    for path in graph:  # shared fixtures are imported by no line of the tests that use them
        graph[path] |= {conftest for folder in path.parents if (conftest := folder / "conftest.py").is_file()} - {path}
    steps = distances([path for path in changed if path.suffix == ".py"], graph)
    if any(path.suffix in _PAGES for path in changed):
        steps |= {path: 1 for path in python_files(ROOT / "tests" / "house") if path not in steps}
    return steps


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the two options."""
    group = parser.getgroup("reach")
    group.addoption("--reach", nargs="?", const="", default=None, metavar="REF", help="only tests a change reaches")
    group.addoption("--seconds", type=float, default=None, help="leave out what has not begun after so many seconds")


_FOUND = pytest.StashKey[dict[Path, int]]()


def pytest_configure(config: pytest.Config) -> None:
    """Find out what is reached, once: workers are told."""
    since = config.getoption("--reach")
    steps = getattr(config, "workerinput", {}).get("reached")
    if steps is not None:
        config.stash[_FOUND] = {Path(name): distance for name, distance in steps.items()}
    elif since is not None:
        cache: pytest.Cache | None = getattr(config, "cache", None)  # it can be switched off
        known: Names = {} if cache is None else cache.get("dodona/reach", {})
        config.stash[_FOUND] = reached(since, known)
        if cache is not None:
            cache.set("dodona/reach", known)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:  # noqa: ANN401  xdist's
    """Tell a worker what is reached."""
    steps = node.config.stash.get(_FOUND, None)
    node.workerinput["reached"] = None if steps is None else {str(path): distance for path, distance in steps.items()}


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files that are not reached."""
    steps = config.stash.get(_FOUND, None)
    return True if steps is not None and collection_path.suffix == ".py" and collection_path not in steps else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the nearest first."""
    steps = config.stash.get(_FOUND, {})
    items.sort(key=lambda item: steps.get(item.path, _FAR))


_BEGAN = time.monotonic()
_LEFT = pytest.StashKey[int]()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> bool | None:
    """Leave out what would begin too late, without a report: thousands of them take as long as the tests that ran."""
    seconds = item.config.getoption("--seconds")
    if seconds is None or time.monotonic() - _BEGAN <= seconds:
        return None
    item.config.stash[_LEFT] = item.config.stash.get(_LEFT, 0) + 1
    return True


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Tell who started this process how many were left out."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["left"] = session.config.stash.get(_LEFT, 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:  # noqa: ANN401  xdist's
    """Add up what the workers left out."""
    if error is None:
        node.config.stash[_LEFT] = node.config.stash.get(_LEFT, 0) + node.workeroutput["left"]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say how many were left out."""
    left = config.stash.get(_LEFT, 0)
    if left:
        seconds = config.getoption("--seconds")
        terminalreporter.write_line(
            f"{left} are farther from the change than {seconds:g} s reach; `make test` runs them"
        )


def _file(module: str) -> Path:
    if module.partition(".")[0] == "dodona":
        return module_path(module, SOURCE)
    return module_path(module, ROOT)


def _git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)  # noqa: S607
    return done.stdout.splitlines()
