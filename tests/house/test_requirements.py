"""Pinned requirements name versions and hashes, and nothing about the machine that pinned them."""

import re
from pathlib import Path

import pytest

from tests.house.tree import ROOT

LOCKS = sorted((ROOT / "requirements").glob("*.txt"))
HASH = re.compile(r"    --hash=sha256:[0-9a-f]{64}( \\)?")
PIN = re.compile(r"[a-z0-9][a-z0-9.-]*==[\w.!+]+( ; [^\\]+)? \\")


def faults(text: str) -> list[str]:
    """What is wrong with a lock, line by line."""
    problems: list[str] = []
    lines = text.splitlines()
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if "://" in line or "file:" in line:
            problems.append(f"an address: {line}")
        elif PIN.fullmatch(line):
            if HASH.fullmatch(following) is None:
                problems.append(f"no hash: {line}")
        elif HASH.fullmatch(line) is None:
            problems.append(f"neither a pin nor a hash: {line}")
    return problems


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.stem)
def test_a_lock_holds_pins_with_hashes_and_nothing_else(lock: Path) -> None:
    text = lock.read_text(encoding="utf-8")
    assert text.strip()
    assert faults(text) == []


def test_every_list_of_requirements_is_locked() -> None:
    lists = {path.stem for path in (ROOT / "requirements").glob("*.in")}
    assert lists == {path.stem for path in LOCKS}


def test_every_requirement_that_is_listed_is_pinned() -> None:
    for lock in LOCKS:
        pinned = set(re.findall(r"^([a-z0-9.-]+)==", lock.read_text(encoding="utf-8"), re.MULTILINE))
        listed = re.findall(r"^[a-z0-9.-]+", lock.with_suffix(".in").read_text(), re.MULTILINE)
        assert set(listed) <= pinned


def test_the_demonstration_has_the_versions_that_are_tested() -> None:
    texts = {lock.stem: lock.read_text(encoding="utf-8") for lock in LOCKS}
    pins = {name: set(re.findall(r"^[a-z0-9.-]+==[^ ]+", text, re.MULTILINE)) for name, text in texts.items()}
    assert pins["demo"] < pins["dev"]
    assert not {pin.partition("==")[0] for pin in pins["demo"]} & {"pyarrow", "pandas", "pyspark", "opendp", "mypy"}


def test_there_is_one_kind_of_lock() -> None:
    assert not (ROOT / "uv.lock").exists()


@pytest.mark.parametrize(
    "line",
    [
        "--find-links /somewhere",
        "--index-url x",
        "numpy==2.0 \\",
        "numpy>=2.0",
        "numpy @ file:numpy.whl",
        "numpy @ " + "ftp" + "://host/numpy.whl",
    ],
)
def test_a_bad_line_is_noticed(line: str) -> None:
    assert faults(line + "\n")
