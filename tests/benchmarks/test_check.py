"""`python -m benchmarks check` fails where a figure is out of its bound, and says which."""

from pathlib import Path

import pytest

from benchmarks.check import BOUNDS, bounds_of, main
from benchmarks.check_areas import AREAS

QUICK = {"noise": lambda _: {"draw_ratio": 0.5}, "sql": lambda _: {"groupby_ratio": 1.2, "rate": 40.0}}
TEXT = """
[[bound]]
area = "noise"
figure = "draw_ratio"
most = 1
why = "ours is the faster one"
[[bound]]
area = "sql"
figure = "groupby_ratio"
most = 1.8
why = "it was 1.2"
[[bound]]
area = "sql"
figure = "rate"
least = 30
why = "it was 40"
"""


@pytest.fixture
def bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)  # scratch files go to build/ of the working folder
    path = tmp_path / "bounds.toml"
    path.write_text(TEXT, encoding="utf-8")
    return str(path)


def test_figures_within_their_bounds_are_shown_in_a_table(bounds: str, capsys: pytest.CaptureFixture[str]):
    said: list[str] = []
    main(["--bounds", bounds], said.append, areas=QUICK)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    shown = {line[3]: line for line in lines if "yes" in line}
    assert shown.keys() == {"draw_ratio", "groupby_ratio", "rate"}
    assert [word for word in shown["rate"] if word != "│"] == ["sql", "rate", "≥", "30", "40", "yes"]
    assert [line.split(",")[0] for line in said[:2]] == ["noise", "sql"]


@pytest.mark.parametrize("planted", ["groupby_ratio=2", "rate=2", "draw_ratio=2.1"])
def test_a_planted_slow_figure_fails(planted: str, bounds: str, capsys: pytest.CaptureFixture[str]):
    figure = planted.split("=", maxsplit=1)[0]
    with pytest.raises(SystemExit, match=f"1 of 3 figures are out of bounds: {figure}"):
        main(["--bounds", bounds, "--planted", planted], lambda _: None, areas=QUICK)
    (row,) = [line for line in capsys.readouterr().out.splitlines() if figure in line]
    assert "NO" in row


def test_a_figure_that_is_missing_fails_and_areas_that_are_left_out_do_not(bounds: str):
    with pytest.raises(SystemExit, match="2 of 3 figures are out of bounds: groupby_ratio, rate"):
        main(["--bounds", bounds], lambda _: None, areas=QUICK | {"sql": lambda _: {}})
    main(["--bounds", bounds, "--area", "noise"], lambda _: None, areas=QUICK | {"sql": lambda _: {}})
    with pytest.raises(SystemExit):
        main(["--bounds", bounds, "--planted", "unknown=2"], lambda _: None, areas=QUICK)


def test_every_bound_says_why_and_every_area_has_one():
    entries = bounds_of(BOUNDS)
    assert {bound.area for bound in entries} == set(AREAS)
    assert len({bound.figure for bound in entries}) == len(entries)
    assert all(bound.limit >= 0 and len(bound.why) > 20 for bound in entries)


@pytest.mark.slow
@pytest.mark.parametrize("area", ["accounting", "weights"])
def test_quick_areas_measure_what_is_bounded(area: str, tmp_path: Path):
    figures = AREAS[area](tmp_path)
    assert figures.keys() == {bound.figure for bound in bounds_of(BOUNDS) if bound.area == area}
    assert all(value > 0 for value in figures.values())
