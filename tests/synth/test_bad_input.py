"""What owners may give by mistake: empty tables, one column, constant columns; and the effort that is told before."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dodona
from dodona import Boolean, Budget, Category, Integer, Schema, Workload
from dodona.synth.effort import estimate_effort
from dodona.synth.methods import Annealed
from dodona.synth.report import public_report
from dodona.synth.workload import InvalidWorkload

pytestmark = pytest.mark.filterwarnings("ignore:The ledger is in memory")


def released(frame: pd.DataFrame, *columns: object, word: str, size: int = 500):
    schema = Schema.of("stays", *columns, size=size)  # type: ignore[arg-type]
    curator = dodona.open(frame, schema=schema, budget=Budget(1, "1e-6"))
    return dodona.synthesize(curator, word, share="1/2")


def test_an_empty_table_is_released_like_any_other_and_its_emptiness_does_not_show():
    empty = pd.DataFrame({"days": np.zeros(0, dtype=int), "night": np.zeros(0, dtype=bool)})
    model = released(empty, Integer("days", 0, 3), Boolean("night"), word="2-way")
    rows = model.rounded()
    assert len(rows) == 500  # the declared number: the true one is protected
    assert rows.to_arrow().num_rows == 500
    assert "How far each marginal may be off" in public_report(model, rows)


def test_one_column_is_released_by_itself_and_two_are_not_asked_of_it():
    frame = pd.DataFrame({"days": np.arange(500) % 4})
    model = released(frame, Integer("days", 0, 3, otherwise=0), word="1-way")
    assert set(model.rounded().to_pandas().days) == {0, 1, 2, 3}
    with pytest.raises(InvalidWorkload, match="Write '1-way'"):
        released(frame, Integer("days", 0, 3, otherwise=0), word="2-way")


def test_columns_with_one_value_are_released_as_that_value():
    frame = pd.DataFrame({"ward": ["surgery"] * 500, "days": np.arange(500) % 4, "night": [True] * 500})
    columns = (
        Category("ward", ["surgery"]),  # by declaration
        Integer("days", 0, 3, otherwise=0),
        Boolean("night", otherwise=False),  # by its rows, which is not public
    )
    model = released(frame, *columns, word="2-way")
    made = model.rounded().to_pandas()
    assert (made.ward == "surgery").mean() > 0.7
    assert made.night.mean() > 0.7
    assert "How far each marginal may be off" in public_report(model, model.rounded())
    alone = released(frame, columns[0], word="1-way")
    assert (alone.rounded().to_pandas().ward == "surgery").mean() > 0.7


def test_the_effort_is_told_before_anything_is_charged_and_grows_with_what_is_asked():
    schema = Schema.of("stays", *(Integer(f"c{place}", 0, 9, otherwise=0) for place in range(12)), size=500)
    frame = pd.DataFrame({name: np.zeros(500, dtype=int) for name in schema.domain.names})
    curator = dodona.open(frame, schema=schema, budget=Budget(1, "1e-6"))
    offers = [dodona.quote_synthesis(curator, word, share="1/2").effort for word in ("1-way", "2-way", "3-way")]
    assert offers[0].seconds < offers[1].seconds < offers[2].seconds
    assert "of memory" in str(dodona.quote_synthesis(curator, "2-way", share="1/2"))
    assert curator.budget.charges == 0
    two = Workload.ways(schema.domain, 2)
    few, many = (estimate_effort(two, Annealed(), cells=1 << 21, rows=rows) for rows in (1000, 10**7))
    assert many.memory > few.memory + (1 << 30)
    assert many.seconds > few.seconds
