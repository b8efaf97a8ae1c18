"""Made-up rows: as near to the law as whole rows can be, with their labels, in three kinds of file."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.feather as pf
import pyarrow.parquet as pq
import pytest

from dodona.errors import InvalidRequest
from dodona.knowledge.cells import Support, TooManyCells
from dodona.knowledge.components import ComponentBelief
from dodona.knowledge.dense import DenseBelief
from dodona.schema.attributes import Boolean, Category, Date, Integer, Number
from dodona.schema.schema import Domain
from dodona.synth.rows import round_rows, sample_rows, weight_cells, weight_column_name

SEED = "00ff00ff00ff00ff"
DOMAIN = Domain(
    (
        Category("ward", ["surgery", "medicine"]),
        Integer("age", 18, 20),
        Number("stay", 0, 1, "0.5"),
        Date("day", dt.date(2024, 1, 1), dt.date(2024, 1, 2)),
        Boolean("emergency"),
    )
)


def law(seed: int = 1) -> DenseBelief:
    support = Support.of(DOMAIN)
    return DenseBelief(support, np.random.default_rng(seed).dirichlet(np.full(support.size, 0.1)))


def shares(rows, law: DenseBelief) -> np.ndarray:
    shape = law.support.shape
    cells = np.ravel_multi_index([rows.codes[name] for name in DOMAIN.names], shape)
    return np.bincount(cells, weights=rows.weights, minlength=law.support.size)


def test_rounded_rows_have_each_cell_as_often_as_it_weighs_to_one_row():
    belief = law()
    rows = round_rows(belief, 1000, seed=SEED)
    assert len(rows) == 1000
    assert np.abs(shares(rows, belief) - 1000 * belief.probabilities().reshape(-1)).max() <= 1


def test_sampled_rows_follow_the_law_and_can_be_repeated():
    """10^5 rows; a share is off by more than .008 with probability below 10^-6."""
    belief = law()
    rows = sample_rows(belief, 100_000, seed=SEED)
    assert np.abs(shares(rows, belief) / 100_000 - belief.probabilities().reshape(-1)).max() < 0.008
    again, other = sample_rows(belief, 50, seed=SEED), sample_rows(belief, 50, seed="01" + SEED)
    np.testing.assert_array_equal(again.codes["age"], sample_rows(belief, 50, seed=SEED).codes["age"])
    assert (again.codes["age"] != other.codes["age"]).any()


def test_weighted_rows_add_up_to_the_size_and_leave_little_out():
    belief = law()
    rows = weight_cells(belief, 1000, least=0.5)
    assert rows.weights is not None
    assert rows.weights.sum() == pytest.approx(1000)
    assert len(rows) < belief.support.size
    assert 0.5 * np.abs(shares(rows, belief) / 1000 - belief.probabilities().reshape(-1)).sum() < 0.1


def test_components_are_rounded_each_and_met_by_chance():
    belief = ComponentBelief.uniform(DOMAIN)
    rows = round_rows(belief, 5000, seed=SEED)
    for name in DOMAIN.names:
        counts = np.bincount(rows.codes[name])
        assert counts.max() - counts.min() <= 1
    both = np.histogram2d(rows.codes["ward"], rows.codes["age"], bins=(4, 5))[0]
    assert np.abs(both - 250).max() < 100  # six deviations of 15.4, and more
    assert weight_cells(belief, 5000, least=0).weights is not None


def test_a_row_for_each_cell_of_a_huge_universe_is_refused():
    huge = Domain(tuple(Integer(f"c{place}", 0, 99) for place in range(10)))
    with pytest.raises(TooManyCells, match="rounded or sampled"):
        weight_cells(ComponentBelief.uniform(huge), 100, least=0.1)
    assert len(round_rows(ComponentBelief.uniform(huge), 10, seed=SEED)) == 10


def test_labels_come_back_with_their_types_and_missing_is_null():
    codes = {name: np.array(values) for name, values in zip(DOMAIN.names, (
        [0, 1, 2, 3], [0, 2, 3, 4], [0, 1, 2, 3], [0, 1, 2, 3], [0, 1, 2, 3]), strict=True)}  # fmt: skip
    from dodona.synth.rows import SyntheticRows

    table = SyntheticRows(DOMAIN, codes).to_arrow()
    assert table.schema.types == [pa.string(), pa.int64(), pa.float64(), pa.date32(), pa.bool_()]
    assert table.to_pydict() == {
        "ward": ["surgery", "medicine", None, "<outside>"],
        "age": [18, 20, None, None],
        "stay": [0.0, 0.5, 1.0, None],
        "day": [dt.date(2024, 1, 1), dt.date(2024, 1, 2), None, None],
        "emergency": [False, True, None, None],
    }


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".arrow"])
def test_files_hold_what_was_written(suffix: str, tmp_path: Path):
    rows = weight_cells(law(), 1000, least=1)
    path = rows.write(tmp_path / f"rows{suffix}")
    readers = {".parquet": pq.read_table, ".csv": pc.read_csv, ".arrow": pf.read_table}
    table = readers[suffix](path)
    assert table.column_names == [*DOMAIN.names, "weight"]
    assert table.num_rows == len(rows)
    assert sum(table.column("weight").to_pylist()) == pytest.approx(1000)
    assert len(rows.to_pandas()) == len(rows)


@pytest.mark.parametrize("name", ["rows.xlsx", "nowhere/rows.csv"])
def test_places_that_cannot_hold_rows_are_refused(name: str, tmp_path: Path):
    with pytest.raises(InvalidRequest, match="no place for rows"):
        round_rows(law(), 10, seed=SEED).write(tmp_path / name)


def test_the_column_of_weights_has_a_name_of_its_own():
    assert weight_column_name(Domain((Boolean("Weight"),))) == "weight_"


@pytest.mark.parametrize("count", [0, -1, 1.5])
def test_a_number_of_rows_is_a_whole_number_from_one(count: float):
    with pytest.raises(InvalidRequest):
        round_rows(law(), count, seed=SEED)  # type: ignore[arg-type]
