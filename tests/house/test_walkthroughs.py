"""The pages that lead an owner through commands: their Python and their commands run from top to bottom."""

import contextlib
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dodona.cli.main import app
from tests.house.test_documents import WALKED
from tests.house.tree import ROOT, blocks


@pytest.mark.parametrize("page", sorted(WALKED))
def test_the_commands_on_a_page_run_in_their_order(page: str, tmp_path: Path) -> None:
    space: dict[str, object] = {"__name__": "__main__"}
    commands, output = 0, ""
    with contextlib.chdir(tmp_path):
        for block in blocks((ROOT / "docs" / page).read_text(encoding="utf-8")):
            if block.tag == "python":
                exec(compile("\n" * (block.line - 1) + "\n".join(block.lines), page, "exec"), space)  # noqa: S102
            if block.tag == "text":
                printed = {line.strip() for line in output.splitlines()}
                assert [line for line in block.lines if line.strip() not in printed] == []
            for line in block.lines if block.tag == "sh" else ():
                program, *arguments = shlex.split(line)
                done = CliRunner().invoke(app, arguments)
                assert (program, done.exit_code) == ("dodona", 0), f"{line}: {done.output}"
                commands, output = commands + 1, done.output
    assert commands > 5
