"""The benchmark of synthetic rows: its figures are distances of all three-way marginals."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.synthetic import CodedTable, made_up, measure


def test_rows_come_nearer_to_a_table_as_the_budget_grows():
    """Releases of 6 columns: mean distances are about .03 at ε = 1, and .004 at ε = 10."""
    table = made_up(20_000)["narrow"]
    table = CodedTable(table.codes[:, :4], table.shape[:4])
    far, near = (measure(table, epsilon) for epsilon in ("0.1", "10"))
    assert near["mean_tv"] < far["mean_tv"]
    assert near["mean_tv"] < 0.02
    assert 0 < near["max_cell"] <= 2 * near["mean_tv"]


def test_made_up_tables_are_the_same_each_time():
    first, second = made_up(100), made_up(100)
    for name, table in first.items():
        np.testing.assert_array_equal(table.codes, second[name].codes)
        assert table.codes.max(axis=0) == pytest.approx(np.array(table.shape) - 1, abs=8)
