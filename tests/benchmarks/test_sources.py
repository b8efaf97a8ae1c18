"""`python -m benchmarks sources` prints a table, and as its last line exactly the figures that are named."""

import json

import pytest

from benchmarks.sources import Work, main
from benchmarks.sources_local import ldp
from benchmarks.streams.adult import COLUMNS

KEYS = ["adaptive_k", "plan_max_relative_difference", "mwem", "ldp", "attack"]
RELEASED = {"mean_tv": 0.1, "max_error": 0.04, "cpu_s": 7.0}
QUICK = Work(
    adaptive=lambda: {"10000": 85},
    plan=lambda: 0.004,
    release=lambda path: {"1": RELEASED | {"cpu_s": float(path.stat().st_size)}},
    survey=lambda: ldp(respondents=20_000),
    secrets=lambda: {"exact": 1.0, "mutant": 1.0, "dodona": 0.54},
)


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "census.csv"
    path.write_text(",".join([*COLUMNS, "further"]) + "\n", encoding="utf-8")
    return path


def run(capsys, *words: str):
    said = []
    main(words, said.append, QUICK)
    return capsys.readouterr().out.splitlines(), said


def test_the_last_line_holds_exactly_the_figures_and_a_table_comes_before(capsys):
    lines, said = run(capsys, "--json")
    figures = json.loads(lines[-1])
    assert list(figures) == KEYS
    assert figures["mwem"] is None
    assert {"ours_s", "peer_s"} <= set(figures["ldp"])
    assert figures["ldp"]["ours_s"] > 0
    assert any("adaptive questions of 10,000 rows" in line and "85" in line for line in lines[:-1])
    assert len(said) == len(KEYS)


def test_a_table_that_is_given_is_released(capsys, table):
    lines, _ = run(capsys, "--json", "--data", str(table))
    assert json.loads(lines[-1])["mwem"] == {"1": RELEASED | {"cpu_s": float(table.stat().st_size)}}
    assert any("release at ε = 1: mean total variation" in line and "10.0" in line for line in lines[:-1])


def test_without_json_there_is_the_table_alone(capsys):
    lines, _ = run(capsys)
    assert not any(line.startswith("{") for line in lines)
    assert any("secrets recovered from dodona" in line and "54.0" in line for line in lines)


@pytest.mark.parametrize("content", [None, "age,sex\n1,0\n", "\n"])
def test_a_table_of_another_recipe_ends_before_anything_is_measured(capsys, tmp_path, content):
    path = tmp_path / "other.csv"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    with pytest.raises(SystemExit) as ended:
        main(["--data", str(path)], pytest.fail, QUICK)
    assert ended.value.code == 2
    assert ("cannot be read" if content is None else "no column workclass") in capsys.readouterr().err
