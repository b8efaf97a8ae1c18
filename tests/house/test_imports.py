"""Which names a module may use, where the rule is finer than the contracts in pyproject.toml.

These rules are about direct imports. Together with the layers they also close the ways round, as
everything that may import `lab.direct` stands above the modules that may not.
"""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.tree import SOURCE, module_name, python_files

SAMPLING = ("dodona.trusted.entropy", "dodona.trusted.samplers")
WITHOUT_A_LEDGER = ("dodona.lab.direct", "dodona.lab.sampling")
MAY_SAMPLE = ("dodona.trusted", *WITHOUT_A_LEDGER, "dodona.lab.adaptive.holdout", "dodona.lab.adaptive.oracle")
UNDER_A_LEDGER = tuple(
    f"dodona.{name}" for name in ("curator", "synth", "lab.adaptive", "engines", "dataset", "server")
)
SILENT = ("dodona.trusted", "dodona.engines")
SPEAKING = ("logging", "warnings", "print", "sys.stdout", "sys.stderr")


def within(module: str, places: tuple[str, ...]) -> bool:
    """Whether a module is one of these places, or inside one."""
    return any(module == place or module.startswith(place + ".") for place in places)


def used(text: str, package: str) -> Iterator[str]:
    """The dotted names that a file in `package` imports, and the names of the form a.b it reads."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Import(names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module, names, level):
                parts = package.split(".")[: 1 - level or None] if level else []
                origin = ".".join([*parts, *([module] if module else [])])
                yield origin
                yield from (f"{origin}.{alias.name}" for alias in names)
            case ast.Name(name):
                yield name
            case ast.Attribute(ast.Name(owner), name):
                yield f"{owner}.{name}"


def faults(module: str, text: str, package: str) -> list[str]:
    """The names that a module uses and may not."""
    names = set(used(text, package))
    forbidden = set[str]()
    if not within(module, MAY_SAMPLE):
        forbidden |= {name for name in names if within(name, SAMPLING)}
    if within(module, UNDER_A_LEDGER):
        forbidden |= {name for name in names if within(name, WITHOUT_A_LEDGER)}
    if within(module, SILENT):
        forbidden |= {name for name in names if within(name, SPEAKING)}
    return sorted(forbidden)


def test_noise_is_drawn_only_where_it_may_be_and_trusted_code_is_silent() -> None:
    violations = {}
    for path in python_files():
        module = module_name(path)
        package = module_name(path.parent / "__init__.py") if path.parent != SOURCE else ""
        wrong = faults(module, path.read_text(encoding="utf-8"), package)
        if wrong:
            violations[module] = wrong
    assert violations == {}


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("dodona.curator.curator", "from dodona.trusted import entropy"),
        ("dodona.curator.curator", "from dodona.trusted.samplers.law import draw"),
        ("dodona.curator.curator", "from ..trusted import samplers"),
        ("dodona.lab.local.survey", "import dodona.trusted.entropy"),
        ("dodona.synth.methods", "from dodona.lab.direct import run"),
        ("dodona.server.http", "from dodona.lab import direct"),
        ("dodona.trusted.gate", "import logging"),
        ("dodona.trusted.gate", "print(1)"),
        ("dodona.engines.memory", "import sys; sys.stderr.write('x')"),
    ],
)
def test_a_forbidden_use_is_noticed(module: str, text: str) -> None:
    assert faults(module, text, module.rpartition(".")[0])


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("dodona.lab.direct", "from dodona.trusted.samplers import draw"),
        ("dodona.trusted.gate", "from dodona.trusted.entropy import Entropy"),
        ("dodona.curator.curator", "from dodona.trusted.gate import release"),
        ("dodona.lab.local.survey", "from dodona.lab.direct import run"),
    ],
)
def test_an_allowed_use_is_left_alone(module: str, text: str) -> None:
    assert faults(module, text, module.rpartition(".")[0]) == []


def test_importing_dodona_loads_numpy_at_most(tmp_path: Path) -> None:
    code = (
        "import sys; before = set(sys.modules); import dodona; "
        "print(*{name.partition('.')[0] for name in set(sys.modules) - before})"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    loaded = set(done.stdout.split()) - sys.stdlib_module_names
    assert loaded <= {"dodona", "numpy"}


def test_a_question_on_the_command_line_loads_nothing_of_the_lab(tmp_path: Path) -> None:
    code = (
        "import sys; from dodona.cli.main import load_command; load_command('ask'); import dodona.dataset; "
        "print(*(name for name in sys.modules if name.startswith('dodona.lab')))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "\n"), done.stderr
