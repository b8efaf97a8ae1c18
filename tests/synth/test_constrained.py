"""Releases under public constraints, conditional rows and made-up people, through the public door."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dodona
from dodona import Boolean, Budget, Category, Constraint, Integer, Schema
from dodona.curator.curator import Curator
from dodona.errors import InvalidRequest
from dodona.knowledge.constraints import InvalidConstraint
from dodona.synth.report import public_report

pytestmark = pytest.mark.filterwarnings("ignore:The ledger is in memory")
COUNT = 3000
CHILD = Constraint(when="age < 3", then="status = 'single'")


def frame() -> pd.DataFrame:
    chance = np.random.default_rng(2)
    age = chance.integers(0, 10, COUNT)
    married = (age >= 3) & (chance.random(COUNT) < 0.6)
    return pd.DataFrame(
        {
            "patient": np.arange(COUNT) // 2,
            "age": age,
            "status": np.where(married, "married", "single"),
            "pupil": (age < 6) & (chance.random(COUNT) < 0.7),
        }
    )


def schema(*constraints: Constraint, **unit: object) -> Schema:
    return Schema.of(
        "people",
        Integer("age", 0, 9, otherwise=0),
        Category("status", ["single", "married"], otherwise="single"),
        Boolean("pupil", otherwise=False),
        size=COUNT,
        constraints=constraints,
        **unit,  # type: ignore[arg-type]
    )


def opened(declared: Schema) -> Curator:
    return dodona.open(frame(), schema=declared, budget=Budget(1, "1e-6"))


def broken(made: pd.DataFrame) -> int:
    return int(((made.age < 3) & (made.status != "single")).sum())


def test_a_constraint_holds_in_every_row_also_where_the_model_does_not_know_it():
    """Of single columns alone, the model knows nothing of the pair: about a fifth of its rows would break it."""
    free = dodona.synthesize(opened(schema()), "1-way", share="1/2")
    assert broken(free.rounded().to_pandas()) > 200
    model = dodona.synthesize(opened(schema(CHILD)), "1-way", share="1/2")
    for rows in (model.rounded(), model.sampled(), model.weighted()):
        assert broken(rows.to_pandas()) == 0
    rows = model.rounded()
    assert len(rows) == COUNT
    page = public_report(model, rows)
    assert "when age &lt; 3 then status = &#x27;single&#x27;" in page
    assert f"({rows.redrawn:,} rows were drawn anew for them)" in page or not rows.redrawn


def test_a_constraint_on_columns_that_were_not_released_is_left_alone():
    model = dodona.synthesize(opened(schema(CHILD)), "1-way", columns=["age", "pupil"], share="1/2")
    assert model.rounded().redrawn == 0


def test_contradictory_constraints_are_refused_before_any_charge():
    curator = opened(schema(CHILD, Constraint(when="age < 2", then="status = 'married'")))
    with pytest.raises(InvalidConstraint, match="contradict each other"):
        dodona.synthesize(curator, "1-way", share="1/2")
    assert curator.budget.charges == 0


def test_rows_may_be_drawn_under_a_condition():
    """About 1,800 rows expected; the model's count is off by more than 300 with probability far below 10^-6."""
    model = dodona.synthesize(opened(schema(CHILD)), "2-way", share="1/2")
    made = model.sampled(where="age >= 4 AND NOT pupil").to_pandas()
    assert made.age.min() >= 4
    assert not made.pupil.any()
    exact = frame()
    assert abs(len(made) - ((exact.age >= 4) & ~exact.pupil).sum()) < 300
    assert len(model.sampled(50, where="status = 'married'").to_pandas().query("status == 'married'")) == 50


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("height > 3", "no column"),
        ("pupil", "pupil is no part of the release of age, status"),
        ("age < 0 AND age > 1", "almost no weight"),
    ],
)
def test_a_condition_that_no_row_can_meet_is_refused(where: str, said: str):
    model = dodona.synthesize(opened(schema()), "2-way", columns=["age", "status"], share="1/2")
    with pytest.raises(InvalidRequest, match=said):
        model.sampled(where=where)


def test_rows_of_people_have_made_up_ids_and_not_more_rows_each_than_count():
    model = dodona.synthesize(opened(schema(id="patient", rows=2)), "1-way", share="1/2")
    made = model.rounded(people=2000).to_pandas()
    assert made.columns[0] == "patient"
    assert made.patient.str.startswith("synthetic-").all()
    assert made.groupby("patient").size().max() <= 2
    assert abs(made.patient.nunique() - 2000) < 150
    assert model.rounded().to_pandas().patient.tolist() == model.rounded().to_pandas().patient.tolist()
    with pytest.raises(InvalidRequest, match="each row is"):
        dodona.synthesize(opened(schema()), "1-way", share="1/2").rounded(people=3)
