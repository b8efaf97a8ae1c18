"""The benchmark of a server is made in steps, which a file keeps for the next command."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from benchmarks import server


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[server.Step]:
    """Note the steps that are made, in place of making them."""
    steps: list[server.Step] = []

    def make(step: server.Step) -> dict[str, float]:
        steps.append(step)
        own = {"races": {"rounds": step.load.rounds, "lost": 1}, "kills": {"kills": step.load.kills}}
        return own.get(step.part, {f"{step.part}_figure": 2.0})

    monkeypatch.setattr(server, "_make", make)
    monkeypatch.chdir(tmp_path)
    return steps


def run(*arguments: str) -> None:
    server.main(list(arguments), lambda _: None)


def test_steps_are_taken_up_where_the_last_command_ended_and_counts_are_added(
    made: list[server.Step], capsys: pytest.CaptureFixture[str]
):
    run("--json")
    whole = json.loads(capsys.readouterr().out)
    assert whole | {"rounds": 200, "lost": 5, "kills": 200, "free_figure": 2.0} == whole
    in_one, made[:] = list(made), []
    for count in range(3, len(in_one), 3):
        with pytest.raises(SystemExit, match=f"{count} of {len(in_one)}"):
            run("--json", "--resume", "kept.json", "--steps", "3")
    run("--json", "--resume", "kept.json", "--steps", "3")
    assert made == in_one
    assert json.loads(capsys.readouterr().out) == whole
    run("--json", "--resume", "kept.json", "--only", "races")  # which is kept
    assert made == in_one
    assert json.loads(capsys.readouterr().out) == {"rounds": 200, "lost": 5}


def test_steps_of_another_load_are_not_mixed_in(made: list[server.Step]):
    Path("kept.json").write_text(json.dumps({"load": asdict(server.QUICK), "figures": {}}))
    with pytest.raises(SystemExit, match="another load"):
        run("--resume", "kept.json")
    run("--quick", "--resume", "kept.json", "--only", "kills")
    assert [step.load.kills for step in made] == [server.QUICK.kills]
    with pytest.raises(SystemExit):
        run("--steps", "1")
