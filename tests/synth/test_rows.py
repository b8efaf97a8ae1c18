"""Made-up rows: as near to the law as whole rows can be, with their labels, in three kinds of file."""

from __future__ import annotations

import datetime as dt
import resource
import tracemalloc
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.feather as pf
import pyarrow.parquet as pq
import pytest

from dodona.errors import InvalidRequest
from dodona.knowledge.cells import Support, TooManyCells
from dodona.knowledge.dense import DenseBelief
from dodona.knowledge.factored import IMPOSSIBLE, FactoredBelief
from dodona.knowledge.fit import ObservedBlock
from dodona.query.predicate import among
from dodona.query.query import Query
from dodona.schema.attributes import Boolean, Category, Date, Integer, Number, Timestamp
from dodona.schema.encoding import encode
from dodona.schema.schema import Domain, Unit
from dodona.synth.matching import match_rows
from dodona.synth.people import draw_people
from dodona.synth.rows import redraw_rows, round_rows, sample_rows, weight_cells
from dodona.synth.table import RowsNotWritten, SyntheticRows, weight_column_name
from dodona.synth.values import decode
from dodona.synth.workload import marginal_block

SEED = "00ff00ff00ff00ff"
MIDNIGHT = dt.datetime.fromisoformat("2024-01-01T00:00")
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


def test_columns_that_nothing_ties_are_rounded_each_and_met_by_chance():
    belief = FactoredBelief(Support.of(DOMAIN), 1 << 20)
    rows = round_rows(belief, 5000, seed=SEED)
    for name in DOMAIN.names:
        counts = np.bincount(rows.codes[name])
        assert counts.max() - counts.min() <= 1
    both = np.histogram2d(rows.codes["ward"], rows.codes["age"], bins=(4, 5))[0]
    assert np.abs(both - 250).max() < 100  # six deviations of 15.4, and more
    assert weight_cells(belief, 5000, least=0).weights is not None


def test_rounded_rows_match_the_marginals_of_a_factored_law_better_than_drawn_ones():
    """Independent rows are off by about ten rows in every cell, matched ones by less than one. The seeds are fixed."""
    chance = np.random.default_rng(4)
    blocks = [marginal_block(DOMAIN, names) for names in (["ward", "age"], ["age", "stay"], ["ward", "stay"])]
    seen = [ObservedBlock.of_shares(block, chance.dirichlet(np.ones(block.values)), 1e-6) for block in blocks]
    belief = FactoredBelief(Support.of(DOMAIN), 1 << 20).joined(seen).fitted(200)

    def off(codes) -> float:
        errors = []
        for block in blocks:
            names = [key.attribute for key in block.keys]
            shape = [DOMAIN[name].cells for name in names]
            counts = np.bincount(np.ravel_multi_index([codes[name] for name in names], shape), minlength=block.values)
            errors.append(np.abs(counts - 5000 * belief.expect(Query(DOMAIN, (block,)))).mean())
        return float(np.mean(errors))

    drawn = belief.rows(5000, np.random.default_rng(1))
    spread = off({name: drawn[:, place] for place, name in enumerate(DOMAIN.names)})
    matched = off(round_rows(belief, 5000, seed=SEED).codes)
    assert matched < 0.8 * spread
    assert matched < 0.1 * off(belief.sample(5000, np.random.default_rng(1)))


def test_no_row_is_moved_to_a_cell_without_weight():
    chance = np.random.default_rng(4)
    block = marginal_block(DOMAIN, ["ward", "age"])
    seen = [ObservedBlock.of_shares(block, chance.dirichlet(np.ones(block.values)), 1e-6)]
    table = np.zeros((DOMAIN["ward"].cells, DOMAIN["age"].cells))
    table[:, :3] = IMPOSSIBLE
    belief = FactoredBelief(Support.of(DOMAIN), 1 << 20, {("ward", "age"): table}).joined(seen).fitted(50)
    assert round_rows(belief, 5000, seed=SEED).codes["age"].min() == 3


def test_a_row_for_each_cell_of_a_huge_universe_is_refused():
    huge = FactoredBelief(Support.of(Domain(tuple(Integer(f"c{place}", 0, 99) for place in range(10)))), 1 << 20)
    with pytest.raises(TooManyCells, match="rounded or sampled"):
        weight_cells(huge, 100, least=0.1)
    assert len(round_rows(huge, 10, seed=SEED)) == 10


def test_labels_come_back_with_their_types_and_missing_is_null():
    codes = {name: np.array(values) for name, values in zip(DOMAIN.names, (
        [0, 1, 2, 3], [0, 2, 3, 4], [0, 1, 2, 3], [0, 1, 2, 3], [0, 1, 2, 3]), strict=True)}  # fmt: skip
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


def test_columns_have_the_types_of_the_source_where_these_hold_all_values():
    domain = Domain(
        (
            Category("ward", ["surgery", "medicine"]),
            Integer("age", 0, 110),
            Integer("wide", 0, 1000),
            Number("price", 0, 10, "0.01"),
            Number("third", 0, 1, "1/3"),
            Date("day", dt.date(2024, 1, 1), dt.date(2024, 1, 2)),
            Timestamp("seen", MIDNIGHT, MIDNIGHT + dt.timedelta(hours=23), "1 hour"),
            Boolean("urgent", source="is_urgent"),
        )
    )
    source = pa.schema(
        {
            "ward": pa.dictionary(pa.int8(), pa.string()),
            "age": pa.int8(),
            "wide": pa.int8(),
            "price": pa.decimal128(6, 2),
            "third": pa.decimal128(6, 2),
            "day": pa.timestamp("us"),
            "seen": pa.timestamp("ms", "UTC"),
            "is_urgent": pa.int8(),
        }
    )
    codes = {name: np.array([1, 0, domain[name].size]) for name in domain.names}
    codes["price"] = np.array([7, 1000, 1001])
    table = SyntheticRows(domain, codes).to_arrow(source)
    assert dict(zip(table.column_names, table.schema.types, strict=True)) == {
        "ward": pa.dictionary(pa.int8(), pa.string()),
        "age": pa.int8(),
        "wide": pa.int64(),
        "price": pa.decimal128(6, 2),
        "third": pa.float64(),
        "day": pa.timestamp("us"),
        "seen": pa.timestamp("ms", "UTC"),
        "urgent": pa.int8(),
    }
    assert table.column("price").to_pylist() == [Decimal("0.07"), Decimal("10.00"), None]
    assert table.column("ward").to_pylist() == ["medicine", "surgery", None]
    assert table.column("urgent").to_pylist() == [1, 0, None]
    assert table.column("seen").to_pylist()[0] == dt.datetime(2024, 1, 1, 1, tzinfo=dt.UTC)


def test_every_code_comes_back_as_a_value_of_the_same_code():
    domain = Domain((*DOMAIN, Timestamp("seen", MIDNIGHT, MIDNIGHT + dt.timedelta(hours=5), "1 hour")))
    for attribute in domain:
        codes = np.arange(attribute.size + 1)  # and missing
        assert encode(attribute, decode(attribute, codes).to_pylist()).tolist() == codes.tolist()


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".arrow"])
def test_a_full_disk_leaves_what_was_there_before_and_says_how_to_go_on(suffix: str, tmp_path: Path):
    """Files of this process may be at most 4,096 bytes long for a moment, as on a disk that fills."""
    path = tmp_path / f"rows{suffix}"
    path.write_text("what was there before")
    rows = sample_rows(law(), 100_000, seed=SEED)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(RowsNotWritten, match=r"could not be written: File too large.*pays for nothing twice"):
            rows.write(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert path.read_text() == "what was there before"
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    assert rows.write(path) == path


@pytest.mark.parametrize(("cap", "people"), [(1, None), (4, None), (4, 400), (4, 1000), (4, 250)])
def test_made_up_people_have_no_more_rows_than_the_cap_and_are_about_as_many_as_said(cap: int, people: int | None):
    """1,000 rows; the number of people is off by more than 120 with probability below 10^-6."""
    unit = Unit(neighbours="add-remove", size=1000, id="patient", rows=cap)
    owners = draw_people(1000, unit, np.random.default_rng(5), people=people)
    assert len(owners) == 1000
    counts = np.bincount(owners)
    assert counts.min() >= 1
    assert counts.max() <= cap
    assert abs(len(counts) - (people or 2000 / (1 + cap))) < 120
    assert draw_people(0, unit, np.random.default_rng(5)).size == 0


def test_a_number_of_people_that_the_cap_does_not_allow_is_refused():
    unit = Unit(neighbours="add-remove", size=1000, id="patient", rows=4)
    with pytest.raises(InvalidRequest, match="people"):
        draw_people(1000, unit, np.random.default_rng(5), people=249)


def test_ids_are_made_up_as_texts_or_as_numbers_if_the_source_has_such():
    rows = sample_rows(law(), 5, seed=SEED)
    named = replace(rows, id="patient", people=np.array([0, 1, 0, 2, 1]))
    assert named.to_arrow().column("patient").to_pylist()[:3] == ["synthetic-1", "synthetic-2", "synthetic-1"]
    assert named.to_arrow({"patient": pa.int32()}).column("patient").to_pylist() == [1, 2, 1, 3, 2]


def test_rows_that_are_refused_are_drawn_anew_from_the_law():
    """20,000 draws; a share is off by more than .025 with probability below 10^-6."""
    belief = law()
    refused = among(DOMAIN["age"], [0, 1])
    rows = redraw_rows(sample_rows(belief, 20_000, seed=SEED), belief, refused, seed="77" + SEED)
    weights = belief.probabilities().copy()
    weights[:, :2] = 0
    weights /= weights.sum()
    assert np.abs(shares(rows, belief) / 20_000 - weights.reshape(-1)).max() < 0.025
    assert set(np.unique(rows.codes["age"])) <= {2, 3, 4}
    assert 0 < rows.redrawn < 20_000
    light = redraw_rows(weight_cells(belief, 1000, least=0), belief, refused, seed=SEED)
    assert light.weights is not None
    assert light.weights.sum() == pytest.approx(1000)
    assert set(np.unique(light.codes["age"])) <= {2, 3, 4}


def test_what_the_law_never_draws_is_refused():
    belief = law()
    weights = belief.probabilities().copy()
    weights[:, 0] = 0
    none = DenseBelief(belief.support, weights.reshape(-1))
    with pytest.raises(InvalidRequest, match="almost no weight"):
        redraw_rows(sample_rows(none, 10, seed=SEED), none, among(DOMAIN["age"], [1, 2, 3, 4]), seed=SEED)


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


def test_rows_with_a_wide_column_are_matched_in_little_memory():
    """One number for each row and each of 3,000 codes would be 300 MB."""
    chance = np.random.default_rng(4)
    shape, rows = (3_000, 2), np.stack([chance.integers(0, 3_000, 100_000), chance.integers(0, 2, 100_000)], axis=1)
    law = chance.dirichlet(np.ones(6_000)).reshape(shape)
    tracemalloc.start()
    match_rows(rows, shape, {(0, 1): law}, chance)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 30e6
    counts = np.bincount(rows[:, 0] * 2 + rows[:, 1], minlength=law.size)
    assert np.abs(counts - 100_000 * law.reshape(-1)).mean() < 10  # 13 before
