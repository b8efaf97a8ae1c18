"""Workloads with columns of so many values that only bins of these have room."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest

import dodona
from dodona.engines.answers import answer_block
from dodona.privacy.budget import Budget
from dodona.query.query import MOST_VALUES, Query
from dodona.query.spelling import from_json
from dodona.schema.attributes import Boolean, Integer
from dodona.schema.schema import Constraint, Domain, Schema
from dodona.synth.methods import Annealed, Mwem
from dodona.synth.report import marginal_errors, public_report
from dodona.synth.synthesize import _make_run, quote_synthesis, synthesize
from dodona.synth.whole import plan_whole
from dodona.synth.workload import InvalidWorkload, Room, Workload, limit_groups, marginal_block
from tests.synth.scene import curator_of, failing, ledger_of, schema

ROWS = 4_000
INCOME, AGE = Integer("income", 0, 20_002, otherwise=0), Integer("age", 0, 299, otherwise=0)
RICH = Boolean("rich", otherwise=False)
GAUSSIAN = Budget(4, "1e-9", "gaussian")


def declared(*constraints: Constraint) -> Schema:
    return Schema.of("stays", INCOME, AGE, RICH, size=ROWS, constraints=constraints)


def held() -> dict[str, list[object]]:
    """Incomes that rise with age, and are higher of the rich."""
    chance = np.random.default_rng(7)
    age, rich = chance.integers(0, 300, ROWS), chance.random(ROWS) < 0.5
    income = np.clip(chance.gamma(2, np.where(rich, 3_000, 800) * (0.5 + age / 300)), 0, 20_002).astype(int)
    return {"income": income.tolist(), "age": age.tolist(), "rich": rich.tolist()}


def test_a_pair_of_more_cells_than_a_model_holds_is_released_in_bins():
    """20,003 incomes by 300 ages are 6 million cells: more than are counted or held."""
    kept = ledger_of(declared(), GAUSSIAN)
    curator = curator_of(declared(), held(), ledger=kept)
    offer = quote_synthesis(curator, "2-way", epsilon=1)
    assert offer.effort.seconds < 60
    model = synthesize(curator, "2-way", epsilon=1)
    assert float(curator.budget.spent) <= float(offer.share)
    assert 16 < model.bins["income"].groups < 2_000
    for _, release in kept.releases():  # every count that was compared or measured is of single columns or of bins
        query = from_json(release.question or "", declared().domain)
        assert query.values < MOST_VALUES
        assert all(block.values <= 20_005 for block in query.blocks if len(block.attributes) > 1)
    made, exact = model.rounded(), held()
    incomes, rich = made.codes["income"], made.codes["rich"] == 1
    assert np.mean(incomes[rich]) > 2 * np.mean(incomes[~rich])
    assert np.mean(incomes) == pytest.approx(np.mean(np.array(exact["income"])), rel=0.1)
    assert len(np.unique(incomes)) > model.bins["income"].groups
    again = synthesize(curator, "2-way", epsilon=1)
    assert {step.how for step in again.steps} == {"recalled"}
    assert np.array_equal(again.rounded().codes["income"], incomes)


def test_marginals_in_bins_have_intervals_that_hold():
    """Distances are at 0.37 of the length of the intervals, with a deviation of 0.09 in 60: none of 9 is outside.

    An interval of .95 has to be wide enough for any table, as it is by the triangle inequality.
    """
    codes = {name: np.asarray(values).astype(np.int64) for name, values in held().items()}
    missed = 0
    for _ in range(3):
        model = synthesize(curator_of(declared(), held(), ledger=ledger_of(declared(), GAUSSIAN)), "2-way", epsilon=3)
        errors = marginal_errors(model)
        assert len(errors) == 3
        for error in errors:
            block = marginal_block(model.schema.domain, error.columns, {runs.attribute: runs for runs in error.bins})
            truth = np.asarray(answer_block(block, codes, counts=None, rows=ROWS)) / ROWS
            distance = 0.5 * np.abs(truth - model.expect([block]) / ROWS).sum()
            missed += not error.low <= distance <= error.high
        assert any(error.bins and error.distance is not None for error in errors)
        assert "in bins" in public_report(model, model.rounded())
    assert not missed


def test_how_many_bins_there_may_be_is_decided_by_public_facts():
    """It is the same for two tables with nothing in common, and so is the price."""
    other = {name: [values[0]] * 7 for name, values in held().items()}
    runs = []
    for rows in (held(), other):
        curator = curator_of(declared(), rows, ledger=ledger_of(declared(), GAUSSIAN))
        workload = Workload.ways(declared().domain, 2)
        run, _ = _make_run(curator, workload, 1, None, Annealed(), 1 << 21, "", lambda _part, _about: None)
        runs.append((run.workload, run.limit_bins(), run.digest))
        assert curator.budget.charges == 0
    assert runs[0] == runs[1]
    assert 100 < runs[0][1]["income"] < 20_003


def test_a_workload_that_fits_value_by_value_is_asked_so():
    """So that a release that an earlier version began is taken up under the same name."""
    domain = schema().domain
    workload = Workload.ways(domain, 2)
    assert workload.fitting(1 << 21) == workload
    assert not workload.runs
    assert workload.query == Query(
        domain, tuple(marginal_block(domain, some) for some in combinations(domain.names, 2))
    )


def test_runs_are_as_many_as_there_is_room_for():
    chance = np.random.default_rng(3)
    for _ in range(50):
        sizes = [int(size) for size in np.exp(chance.uniform(0.7, 9, 4))]
        domain = Domain(tuple(Integer(f"c{place}", 0, size, otherwise=0) for place, size in enumerate(sizes)))
        sets, each = list(combinations(domain.names, 2)), int(np.exp(chance.uniform(5, 15)))
        groups = limit_groups(domain, sets, Room(each))

        def largest(number: int | None, domain=domain, sets=sets) -> int:
            cells = {
                name: domain[name].cells
                if number is None or domain[name].size <= 64
                else min(domain[name].size, number)
                for name in domain.names
            }
            return max(math.prod([cells[name] for name in some]) for some in sets)

        if groups is None:
            assert largest(16) > each
        elif groups:
            (number,) = set(groups.values())
            assert largest(number) <= each < largest(number + 1)
        else:
            assert largest(None) <= each


def test_counts_of_a_wide_column_that_were_lost_after_their_charge_leave_even_runs():
    kept = ledger_of(declared(), GAUSSIAN)
    with pytest.raises(OSError, match="record"):
        synthesize(curator_of(declared(), held(), ledger=failing(kept, at=3, after=False)), "2-way", epsilon=1)
    model = synthesize(curator_of(declared(), held(), ledger=kept), "2-way", epsilon=1)
    assert [step.how for step in model.steps][:2] == ["lost", "paid"]
    assert {int(length) for length in np.diff(model.bins["income"].cuts)} <= {2, 3}
    assert len(model.rounded()) == ROWS
    assert float(kept.state().spent) <= 1


def test_a_release_starts_from_one_whose_columns_were_in_bins():
    kept = ledger_of(declared(), GAUSSIAN)
    curator = curator_of(declared(), held(), ledger=kept)
    first = synthesize(curator, "2-way", epsilon=1)
    second = synthesize(curator, "2-way", epsilon=1, name="more", start=first)
    assert second.bins["income"].groups > 16
    assert second.marginal(["income"]).within.max() < first.marginal(["income"]).within.max()


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda curator: synthesize(curator, "2-way", epsilon=1, cells=20_000),
            "20,305 cells one by one.*perhaps without income",
        ),
        (
            lambda curator: synthesize(curator, "2-way", epsilon=1, cells=400),
            "20,305 cells one by one.*no more than 400.*perhaps without income",
        ),
        (lambda curator: synthesize(curator, "2-way", epsilon=1, method=Mwem()), "'mwem' has no bins"),
    ],
)
def test_what_no_bins_make_fit_is_refused_before_any_charge(call, said: str):
    curator = curator_of(declared(), held(), ledger=ledger_of(declared(), GAUSSIAN))
    with pytest.raises(InvalidWorkload, match=said):
        call(curator)
    assert curator.budget.charges == 0


def test_a_column_that_must_keep_its_values_is_named_where_they_do_not_fit():
    known = declared(Constraint(when="income > 15000", then="rich"))
    curator = curator_of(known, held(), ledger=ledger_of(known, GAUSSIAN))
    with pytest.raises(InvalidWorkload, match="Of income all values are kept, as constraints"):
        synthesize(curator, "2-way", epsilon=1, cells=100_000)
    assert curator.budget.charges == 0
    assert synthesize(curator, "2-way", epsilon=1).bins.keys() == {"age"}


def test_thirty_columns_with_five_of_a_thousand_values_are_a_workload():
    domain = Domain(
        (
            *(Integer(f"wide{place}", 0, 999, otherwise=0) for place in range(5)),
            *(Integer(f"c{place}", 0, 5, otherwise=0) for place in range(25)),
        )
    )
    workload = dodona.Workload.ways(domain, 2)
    assert len(workload.query.blocks) == math.comb(30, 2)
    assert {runs.attribute for runs in workload.runs} == {f"wide{place}" for place in range(5)}
    assert workload.query.values <= MOST_VALUES


def test_a_wide_column_is_measured_in_rounds_where_residuals_would_leave_most_of_the_price():
    """The noise of residuals has a least width. Of 10^6 declared rows a narrow table is still measured at once."""
    plans = []
    for top in (999, 9):
        known = Schema.of("t", Integer("income", 0, top, otherwise=0), RICH, size=10**6)
        rows: dict[str, list[object]] = {"income": [1] * 50, "rich": [True] * 50}
        curator = curator_of(known, rows, ledger=ledger_of(known, Budget(20, "1e-9", "gaussian")))
        workload = Workload.ways(known.domain, 2)
        run, _ = _make_run(curator, workload, 10, None, Annealed(), 1 << 21, "", lambda _part, _about: None)
        plans.append((plan_whole(run), plan_whole(run, most=math.inf)))
    assert plans[0][0] is None
    assert plans[0][1] is not None  # what was begun in that way goes on
    assert plans[1][0] == plans[1][1]
    assert plans[1][0] is not None
