"""The page of measured figures is written section by section."""

import subprocess
from pathlib import Path

import pytest

from benchmarks import measured
from benchmarks.measured import COMMANDS, PAGE, page
from tests.house.tree import ROOT


def test_a_section_is_written_anew_or_added_in_its_place_and_the_others_stay():
    first, second, third, *_ = COMMANDS
    text = page(page("", {third: "3"}), {first: "1"})
    assert text.endswith(f"## {first}\n\n1\n\n## {third}\n\n3\n")
    assert page(text, {second: "2"}).endswith(f"## {first}\n\n1\n\n## {second}\n\n2\n\n## {third}\n\n3\n")
    assert page(text, {third: "4"}) == text.replace("3\n", "4\n")


def test_the_page_is_as_the_command_writes_it():
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    assert page(text, {}) == text


def test_a_section_says_with_which_options_it_was_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    target = tmp_path / "measured.md"
    target.write_text("", encoding="utf-8")
    asked = list[list[str]]()

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        asked.append(command[2:])
        return subprocess.CompletedProcess(command, 0, stdout='said before\n{"cells": 3}\n')

    monkeypatch.setattr(measured, "PAGE", target)
    monkeypatch.setattr(measured.subprocess, "run", run)
    measured.main(["Engines --rows 1000 --engine duckdb", "Random sessions"])
    assert asked == [
        ["benchmarks", "engines", "--json", "--rows", "1000", "--engine", "duckdb"],
        ["tests.sessions", "figures", "--json"],
    ]
    text = target.read_text(encoding="utf-8")
    assert "## Engines\n\n`python -m benchmarks engines --json --rows 1000 --engine duckdb` on " in text
    assert text.endswith("| cells | 3 |\n")
    with pytest.raises(SystemExit, match="no section Nothing"):
        measured.main(["Nothing --json"])
