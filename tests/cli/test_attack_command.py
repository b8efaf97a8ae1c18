"""`dodona attack` as people and programs call it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dodona.cli.main import app

WIDE = {"COLUMNS": "200", "TERM": "dumb"}


def called(*arguments: str):
    return CliRunner().invoke(app, list(arguments), env=WIDE)


def test_help_lists_the_command_and_its_options():
    assert "attack" in called("--help").stdout
    shown = called("attack", "--help").stdout
    assert all(option in shown for option in ("--json", "--plot", "--epsilon", "--delta", "--people", "--only"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--only", "nonsense"), "invalid-argument: only = 'nonsense'"),
        (("--plot", "nowhere/attack.png"), "invalid-argument: plot = 'nowhere/attack.png'"),
        (("--plot", "attack.txt"), ".png, .svg, .pdf"),
        (("--people", "5000"), "this attack is for 1 to 1000 people"),
        (("--epsilon", "much"), "invalid-argument: epsilon = 'much'"),
        (("--delta", "little"), "invalid-argument: delta = 'little'"),
        (("--seed", "-1"), "invalid-argument: seed = -1"),
        (("--unknown",), "No such option"),
    ],
)
def test_a_wrong_call_is_explained_and_exits_with_2(arguments: tuple[str, ...], said: str):
    done = called("attack", *arguments)
    assert done.exit_code == 2
    assert said in done.stderr
    assert done.stdout == ""


@pytest.mark.slow
def test_json_is_the_last_line_and_progress_goes_elsewhere():
    done = called("attack", "--json", "--only", "linkage", "--delta", "1e-10")
    assert done.exit_code == 0, done.output
    assert len(done.stdout.splitlines()) == 1
    figures = json.loads(done.stdout)
    assert figures["passed"] is True
    assert (figures["epsilon"], figures["delta"]) == (1.0, 1e-10)
    by_target = {attack["target"]: attack for attack in figures["attacks"]}
    assert by_target["exact"]["share"] == by_target["mutant"]["share"] == 1
    assert by_target["dodona"]["bound"] == pytest.approx(0.1252, abs=1e-4)
    assert by_target["under-noised"]["beyond"] is True
    assert by_target["dodona"]["beyond"] is False


@pytest.mark.soak  # it attacks at every noise of the picture; `tests/lab/attacks` draws one from fewer
def test_a_table_and_a_picture_are_made(tmp_path: Path):
    picture = tmp_path / "attack.png"
    done = called("attack", "--only", "averaging", "--plot", str(picture))
    assert done.exit_code == 0, done.output
    assert "Dodona without noise" in done.stdout
    assert "400/400" in done.stdout
    assert picture.read_bytes().startswith(b"\x89PNG")
