"""`dodona audit` as people and programs call it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dodona import __version__
from dodona.cli.main import app

WIDE = {"COLUMNS": "200", "TERM": "dumb"}


def called(*arguments: str):
    return CliRunner().invoke(app, list(arguments), env=WIDE)


def test_help_lists_the_commands_and_their_options():
    assert "audit" in called("--help").stdout
    shown = called("audit", "--help").stdout
    assert all(option in shown for option in ("--json", "--reduced", "--no-mutants", "--only", "--plot"))


def test_the_version_is_told():
    assert called("--version").stdout.strip() == f"dodona {__version__}"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("audit", "--only", "nonsense"), "invalid-argument: only = 'nonsense'"),
        (("audit", "--plot", "nowhere/audit.png"), "invalid-argument: plot = 'nowhere/audit.png'"),
        (("audit", "--plot", "audit.txt"), ".png, .svg, .pdf"),
        (("audit", "--unknown"), "No such option"),
        (("conjure",), "No such command"),
    ],
)
def test_a_wrong_call_is_explained_and_exits_with_2(arguments: tuple[str, ...], said: str):
    done = called(*arguments)
    assert done.exit_code == 2
    assert said in done.stderr
    assert done.stdout == ""


@pytest.mark.slow
def test_json_is_the_last_line_and_progress_goes_elsewhere():
    done = called("audit", "--json", "--reduced", "--only", "coin", "--no-mutants")
    assert done.exit_code == 0, done.output
    figures = json.loads(done.stdout.splitlines()[-1])
    assert len(done.stdout.splitlines()) == 1
    assert (figures["mechanisms"], figures["violations"], figures["mutants"]) == (3, 0, 0)
    assert figures["caught"] == 0
    assert 0.9 < figures["tightness"]["coins"] <= 1


@pytest.mark.slow
def test_a_table_and_a_picture_are_made(tmp_path: Path):
    picture = tmp_path / "audit.png"
    done = called("audit", "--reduced", "--only", "coin", "--plot", str(picture))
    assert done.exit_code == 0, done.output
    assert "first coin biased" in done.stdout
    assert "0 violations; 2 of 2 mutants caught" in done.stdout
    assert picture.read_bytes().startswith(b"\x89PNG")
