"""The tests that a theory page names fail under every patch that the page lists."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dodona.lab.audit.patch import Patch, PatchFinder, apply
from tests.house.forks import SECONDS, Run
from tests.house.pages import pages, parse_patch, patches
from tests.house.patching import NEVER_IMPORTED
from tests.house.tree import ROOT, module_path

FOUND = [(page, number, patch) for page in pages() for number, patch in enumerate(patches(page), start=1)]
PATCHES = [pytest.param(patch, id=f"{page.stem}-{number}") for page, number, patch in FOUND]
EVERY = 4
"""One in so many patches of each page, from the first, is tried in `make test`; the soak tries the others."""
# A fault of Spark's adapter is noticed by Spark alone, which each run would have to start anew.
CAUGHT = [
    pytest.param(
        page,
        number,
        id=f"{page.stem}-{number}",
        marks=pytest.mark.soak if "spark" in patch.module or number % EVERY != 1 else (),
    )
    for page, number, patch in FOUND
]
TESTS_FAILED = 1


@pytest.mark.parametrize("patch", PATCHES)
def test_a_patch_still_applies(patch: Patch) -> None:
    text = module_path(patch.module).read_text(encoding="utf-8")
    compile(apply(patch, text), patch.module, "exec")


@pytest.mark.slow
@pytest.mark.parametrize(("page", "number"), CAUGHT)
def test_a_patch_is_caught_by_the_tests_of_its_page(page: Path, number: int, forked: Run) -> None:
    done = forked("tests.house.patching", str(page), str(number))
    assert done.returncode == TESTS_FAILED, done.stdout + done.stderr
    assert "1 failed" in done.stdout, done.stdout + done.stderr


# The runner itself.


@pytest.mark.parametrize(
    "lines",
    [
        ("--- old", "a", "+++ new", "b"),
        ("module: m", "a", "+++ new", "b"),
        ("module: m", "--- old", "a"),
        ("module: m", "--- old", "+++ new", "b"),
        ("module: m", "--- old", "a", "+++ new", "a"),
        ("module: m", "symbol: f", "a", "+++ new", "b"),
        ("symbol: f", "module: m", "--- old", "a", "+++ new", "b"),
    ],
)
def test_a_patch_of_another_form_is_refused(lines: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="patch"):
        parse_patch(lines)


def test_a_patch_may_name_the_symbol_that_it_is_about() -> None:
    lines = ("module: m", "symbol: Half.of", "--- old", "a", "+++ new", "b")
    assert parse_patch(lines) == Patch("m", ("a",), ("b",), "Half.of")


def test_other_modules_are_left_to_the_usual_finders() -> None:
    finder = PatchFinder(Patch("dodona.nowhere", ("a",), ("b",)))
    assert finder.find_spec("dodona.errors", None) is None
    assert not finder.used


PAGE = """\
# A small house

## Tests

`tests/test_half.py::test_half`

## Patch

```patch
module: half
--- old
    return x / 2
+++ new
    return x / 3
```

```patch
module: half
--- old
UNUSED = 1
+++ new
UNUSED = 2
```

```patch
module: unrelated
--- old
UNUSED = 1
+++ new
UNUSED = 2
```

```patch
module: half
--- old
    return x / 2
+++ new
    return x /
```
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code"),
    [(1, TESTS_FAILED), (2, 0), (3, NEVER_IMPORTED), (4, 4)],
    ids=["caught", "unnoticed", "never-imported", "not-python"],
)
def test_the_runner_tells_what_became_of_a_patch(tmp_path: Path, number: int, code: int) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "__init__.py").touch()
    (tmp_path / "tests" / "house").symlink_to(ROOT / "tests" / "house")
    (tmp_path / "half.py").write_text("UNUSED = 1\n\n\ndef half(x):\n    return x / 2\n")
    (tmp_path / "unrelated.py").write_text("UNUSED = 1\n")
    (tmp_path / "tests" / "test_half.py").write_text(
        "from half import half\n\n\ndef test_half():\n    assert half(4) == 2\n"
    )
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    done = patched_run(page, number, root=tmp_path)
    assert done.returncode == code, done.stdout + done.stderr


def patched_run(page: Path, number: int, root: Path) -> subprocess.CompletedProcess[str]:
    """A run by hand: a fresh process that runs a page's tests under one of its patches."""
    outside = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.run(
        [sys.executable, "-m", "tests.house.patching", str(page), str(number)],
        cwd=root,
        env=outside,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
