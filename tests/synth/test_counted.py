"""Tables of which fewer or more rows count than were declared."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dodona.privacy.budget import Budget
from dodona.schema.attributes import Integer
from dodona.schema.schema import Schema
from dodona.synth.report import marginal_errors
from dodona.synth.synthesize import synthesize
from dodona.synth.workload import Workload
from tests.synth.scene import ROWS, columns, curator_of, ledger_of, schema

EMERGENCY, DAYS = (float(np.mean(columns()[name])) for name in ("emergency", "days"))


@pytest.mark.parametrize("size", [1_000, 3_000, 6_000])
@pytest.mark.parametrize("epsilon", ["1/4", 1])
def test_shares_are_of_the_rows_that_count_where_another_number_was_declared(size: int, epsilon: int | str):
    """By rounds and by residuals. At ε = 1/4 a share has a deviation of about 0.01, the number of rows one of 60."""
    declared = schema(size=size)
    model = synthesize(curator_of(declared, ledger=ledger_of(declared)), "2-way", epsilon=epsilon)
    assert model.size == pytest.approx(ROWS, rel=0.1)
    made = model.rounded()
    assert len(made) == size
    assert np.mean(made.codes["emergency"]) == pytest.approx(EMERGENCY, abs=0.06)
    assert np.mean(made.codes["days"]) == pytest.approx(DAYS, abs=0.15)
    counted = model.marginal(["emergency"])
    assert counted.source == "measured"
    assert counted.values[1] == pytest.approx(ROWS * EMERGENCY, rel=0.12)
    assert all(error.low < 0.1 for error in marginal_errors(model, made))


def test_a_declared_number_that_noise_explains_is_kept():
    """Of 10 releases one has another number with probability below 10^-3, as four deviations are asked for."""
    declared = schema(size=ROWS + 5)
    models = [synthesize(curator_of(declared, ledger=ledger_of(declared)), "2-way", epsilon="1/4") for _ in range(10)]
    assert sum(model.part != 1 for model in models) <= 1


def test_a_release_starts_from_one_of_another_number_of_rows_and_is_of_the_same():
    declared = schema(size=2_000)
    curator = curator_of(declared, ledger=ledger_of(declared))
    first = synthesize(curator, "2-way", epsilon="1/4")
    second = synthesize(curator, "2-way", epsilon="1/4", name="more", start=first)
    assert second.size == pytest.approx(ROWS, rel=0.1)
    assert second.marginal(["emergency"]).values[1] == pytest.approx(ROWS * EMERGENCY, rel=0.12)
    assert second.marginal(["emergency"]).within.max() < first.marginal(["emergency"]).within.max()
    other = synthesize(curator, "2-way", epsilon="1/4", name="other", start=replace(first, version="of last year"))
    assert np.mean(other.rounded().codes["emergency"]) == pytest.approx(EMERGENCY, abs=0.06)


def test_counts_of_a_table_without_rows_are_few():
    declared = schema(size=2_000)
    curator = curator_of(declared, {name: [] for name in columns()}, ledger=ledger_of(declared))
    model = synthesize(curator, "2-way", epsilon=1)
    assert model.size < 400
    assert len(model.rounded()) == 2_000


def test_a_wide_column_keeps_its_mean_where_fewer_rows_count():
    """Its noise hides how many rows there are; narrow columns tell."""
    chance = np.random.default_rng(2)
    income = np.clip(chance.gamma(2, 50, ROWS), 0, 999).astype(int)
    declared = Schema.of("t", Integer("income", 0, 999, otherwise=0), Integer("days", 0, 4, otherwise=0), size=5_000)
    held = {"income": income.tolist(), "days": columns()["days"]}
    kept = ledger_of(declared, Budget(1, "1e-9", "gaussian"))
    model = synthesize(curator_of(declared, held, ledger=kept), Workload.ways(declared.domain, 2), share=1)
    assert np.mean(model.rounded().codes["income"]) == pytest.approx(income.mean(), rel=0.15)
