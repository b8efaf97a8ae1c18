"""The benchmark of releases: its recipe is the fixed one, and its figures are what they say."""

from __future__ import annotations

import csv
import hashlib
from pathlib import Path

import numpy as np
import pytest

from benchmarks.sources_mwem import COLUMNS, EPSILONS, _conjunctions, mwem


def test_the_conjunctions_are_those_of_the_recipe():
    digest = hashlib.sha256()
    for conjunction in _conjunctions():
        for place, values in conjunction:
            digest.update(bytes([place]) + np.packbits(values).tobytes())
    assert digest.hexdigest()[:16] == "96b2949b8e91087a"


@pytest.mark.soak
def test_the_figures_fall_as_the_budget_grows(tmp_path: Path):
    chance = np.random.default_rng(2)
    first = chance.integers(0, 9, 20_000)
    columns = {name: (first + chance.integers(0, 2, 20_000)) % size for name, size in COLUMNS.items()}
    with (tmp_path / "made-up.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*(values.tolist() for values in columns.values()), strict=True))
    figures = mwem(tmp_path / "made-up.csv")
    assert list(figures) == list(EPSILONS)
    for figure in figures.values():
        assert set(figure) == {"mean_tv", "max_error", "cpu_s"}
    distances = [figures[epsilon]["mean_tv"] for epsilon in EPSILONS]
    assert distances == sorted(distances, reverse=True)
    assert distances[-1] < 0.03
