"""`python -m benchmarks engines` prints a table, and as its last line the figures of each engine."""

import json

import pytest

from benchmarks.engine_run import ENGINES
from benchmarks.engines import main
from tests.engines.spark import MARKS

# To start a server or Spark for the names of figures alone is for the soak.
MORE = {"duckdb": (), "postgres": [pytest.mark.soak], "spark": [*MARKS, pytest.mark.soak]}

FIGURES = {"ratio", "opened_ratio", "own_seconds", "overhead_ms", "rows_returned", "cells", "peak_mb", "asked_seconds"}
KEPT = {"kept_ratio", "kept_seconds"}


@pytest.mark.slow
@pytest.mark.parametrize("engine", [pytest.param(engine, marks=MORE[engine]) for engine in ENGINES])
def test_the_last_line_has_the_figures_of_an_engine(engine: str, capsys: pytest.CaptureFixture[str]):
    main(["--json", "--engine", engine, "--rows", "20000"], lambda _: None)
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert figures.keys() == {engine}
    assert figures[engine].keys() == (FIGURES if engine == "duckdb" else FIGURES | KEPT)
    assert 0 < figures[engine]["rows_returned"] <= figures[engine]["cells"] == 1002
    assert figures[engine]["ratio"] > 0


@pytest.mark.slow
def test_a_run_that_is_cut_short_leaves_the_figures_of_the_engines_before(capfd: pytest.CaptureFixture[str]):
    said: list[str] = []

    def cut(engine: str) -> None:
        said.append(engine)
        if len(said) > 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        main(["--engine", "duckdb", "--engine", "postgres", "--rows", "20000"], cut)
    (line,) = capfd.readouterr().out.splitlines()
    assert said == ["duckdb", "postgres"]
    assert json.loads(line)["duckdb"].keys() == FIGURES
