"""The tool on small made-up trees: .venv/bin/python -m pytest tools/restructure -q -o addopts= ."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools.restructure.__main__ import texts, words, write
from tools.restructure.plan import Plan

MAP = '[[module]]\nname = "dodona.new.both"\nfrom = ["dodona.old.a", "dodona.old.b"]\n'


def tree(root: Path, mapping: str = MAP, **files: str) -> Plan:
    every = {"src/dodona/__init__.py": '"""D."""\n', "src/dodona/old/__init__.py": '"""Old."""\n'}
    every |= {f"src/dodona/{name.replace('__', '/')}.py": text for name, text in files.items()}
    for name, text in every.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / "map.toml").write_text(mapping)
    return Plan(root, root / "map.toml")


def run(plan: Plan, code: str) -> str:
    files = texts(plan)
    words(plan, files)
    assert plan.errors == []
    write(plan, files)
    done = subprocess.run([sys.executable, "-c", code], cwd=plan.root / "src", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr + "".join(f"\n== {path}\n{text}" for path, text in files.items())
    return done.stdout.strip()


HEAD = '"""M."""\n\nfrom __future__ import annotations\n\n'


def test_private_names_that_clash_are_renamed_and_equal_ones_kept_once(tmp_path):
    plan = tree(
        tmp_path,
        old__a=HEAD + "_MOST = 1\n\n\ndef _same(x):\n    return x\n\n\ndef first():\n    return _same(_MOST)\n",
        old__b=HEAD + "_MOST = 2\n\n\ndef _same(x):\n    return x\n\n\ndef second():\n    return f'{_same(_MOST)}'\n",
    )
    assert run(plan, "from dodona.new import both; print(both.first(), both.second(), both._MOST_B)") == "1 2 2"
    assert (tmp_path / "src/dodona/new/both.py").read_text().count("def _same") == 1
    assert not (tmp_path / "src/dodona/old").exists()


def test_public_names_that_clash_are_an_error(tmp_path):
    plan = tree(tmp_path, old__a=HEAD + "x = 1\ny = 1\n", old__b=HEAD + "x = 2\ny = 2\n")
    assert len([one for one in plan.errors if "collision" in one]) == 2
    renaming = MAP + '[rename]\n"dodona.old.b.x" = "z"\n"dodona.old.b.y" = "w"\n'
    plan = tree(tmp_path, renaming, old__a=HEAD + "x = 1\ny = 1\n", old__b=HEAD + "x = 2\ny = 2\n")
    assert run(plan, "from dodona.new.both import x, z, w; print(x, z, w)") == "1 2 2"


def test_a_builtin_that_is_hidden_is_an_error(tmp_path):
    plan = tree(tmp_path, old__a=HEAD + "def n(x):\n    return sum(x)\n", old__b=HEAD + "def sum(x):\n    return 0\n")
    assert any("builtin" in one for one in plan.errors)


def test_an_import_that_clashes_with_a_definition_gets_an_alias(tmp_path):
    plan = tree(
        tmp_path,
        old__a=HEAD + "from math import floor\n\n\ndef low(x):\n    return floor(x)\n",
        old__b=HEAD + "def floor(x):\n    return 'mine'\n",
    )
    assert run(plan, "from dodona.new.both import low, floor; print(low(1.5), floor(1))") == "1 mine"


def test_what_is_read_at_import_is_defined_before(tmp_path):
    plan = tree(
        tmp_path,
        old__a=HEAD + "from dodona.old.b import Base, made\n\n\nclass Own(Base):\n    value = made()\n",
        old__b=HEAD + "class Base:\n    pass\n\n\ndef made():\n    return _HERE\n\n\n_HERE = 5\n",
    )
    assert run(plan, "from dodona.new.both import Own; print(Own.value)") == "5"


def test_a_module_that_is_used_as_one(tmp_path):
    plan = tree(
        tmp_path,
        old__a=HEAD + "from dodona.old import b\n\n\ndef twice(x):\n    half = b.half(x)\n    return 2 * half\n",
        old__b=HEAD + "def half(x):\n    return x / 2\n",
        user=HEAD
        + "import dodona.old.a\nfrom dodona.old import b as other\n\n\ndef f():\n    from dodona.old import b\n\n    return b.half(4), other.half(2), dodona.old.a.twice(3)\n",
    )
    assert run(plan, "from dodona.user import f; print(*f())") == "2.0 1.0 3.0"
    assert any("own_half" in one for one in plan.notes)


def test_a_lazy_import_of_the_same_module_is_dropped_and_cycles_are_told(tmp_path):
    lazy = "def f():\n    from dodona.old.b import g\n\n    return g()\n"
    plan = tree(tmp_path, old__a=HEAD + lazy, old__b=HEAD + "def g():\n    return 1\n")
    assert run(plan, "from dodona.new.both import f; print(f())") == "1"
    assert "import g" not in (tmp_path / "src/dodona/new/both.py").read_text()


def test_a_cycle_is_told(tmp_path):
    plan = tree(
        tmp_path,
        old__a=HEAD + "from dodona.between import h\n\nX = h\n",
        old__b=HEAD + "Y = 1\n",
        between=HEAD + "from dodona.old.b import Y\n\nh = Y\n",
    )
    (cycle,) = plan.cycles()
    assert "dodona.between imports Y from dodona.new.both" in cycle


def test_a_symbol_is_moved_with_what_it_needs(tmp_path):
    mapping = '[move]\n"dodona.old.a.area" = "dodona.shape"\n'
    plan = tree(
        tmp_path,
        mapping,
        old__a=HEAD + "import math\n\n\ndef area(r):\n    return math.floor(math.pi * r * r)\n",
        user=HEAD
        + 'from dodona.old.a import area\n\nT = ("dodona.old.a", "area")\nN = "dodona.old.a.area"\n\n\ndef f():\n    return area(1)\n',
    )
    assert run(plan, "from dodona.user import *; print(f(), *T, N)") == "3 dodona.shape area dodona.shape.area"


@pytest.mark.parametrize("strings", [True, False])
def test_words_are_renamed_in_code_and_examples(tmp_path, strings):
    mapping = f'[words]\n"room" = {{ to = "tolerance", in = "*", strings = {str(strings).lower()} }}\n'
    text = (
        HEAD
        + 'def f(*, room):\n    """F.\n\n    >>> f(room=2)\n    2\n    """\n    return f"{room}", "room", \'no room\'\n'
    )
    plan = tree(tmp_path, mapping, user=text)
    found = run(plan, "from dodona.user import f; print(*f(tolerance=1)); print('f(tolerance=2)' in f.__doc__)")
    assert found.split("\n") == [f"1 {'tolerance' if strings else 'room'} no room", "True"]
