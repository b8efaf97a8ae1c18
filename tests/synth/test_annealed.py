"""Annealed releases: what decides how they are made, what batches cost, and what they do with odd tables."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from dodona.knowledge.factored import FactoredBelief
from dodona.knowledge.fit import ObservedBlock
from dodona.privacy.budget import Budget
from dodona.privacy.measurement import noises_from_text
from dodona.privacy.scores import DistanceScores, distance_sensitivity
from dodona.privacy.selection import Exponential
from dodona.query.query import Query
from dodona.query.spelling import from_json
from dodona.schema.attributes import Boolean, Category, Integer
from dodona.schema.partition import Partition
from dodona.schema.schema import Neighbours, Schema, Unit
from dodona.synth.annealed import _preparing_shares
from dodona.synth.candidates import coarser, list_candidates
from dodona.synth.methods import Annealed
from dodona.synth.report import public_report
from dodona.synth.run import Currency
from dodona.synth.synthesize import _make_run, synthesize
from dodona.synth.whole import SMALL_ERROR, WholePlan, plan_whole
from dodona.synth.workload import Workload, marginal_block
from dodona.trusted.gate import _choose_all
from tests.synth.scene import PURE, RENYI, ROWS, columns, curator_of, ledger_of, schema

DOMAIN = schema().domain
GAUSSIAN = Budget(1, "1e-9", "gaussian")
TWO = Workload.ways(DOMAIN, 2)


def plan_of(epsilon: float | str, held=None, *, neighbours: str = "add-remove", size: int = ROWS) -> WholePlan | None:
    declared = schema(neighbours, size=size)
    curator = curator_of(declared, columns() if held is None else held, ledger=ledger_of(declared))
    run, _ = _make_run(curator, TWO, epsilon, None, Annealed(), 1 << 20, "", lambda _part, _about: None)
    return plan_whole(run)


def test_whether_the_whole_workload_is_measured_is_decided_by_public_facts():
    """The same plan for two tables with nothing in common; with less budget, or fewer declared rows, there is none."""
    other = {name: [values[0]] * 7 for name, values in columns().items()}
    assert plan_of(1) == plan_of(1, other)
    assert plan_of(1) is not None
    assert plan_of("0.01") is None
    assert plan_of(1, size=100) is None


def test_the_error_that_a_plan_foresees_is_the_one_that_its_noise_makes():
    """12 releases of 6 marginals: their mean distance has a deviation of about 3 percent."""
    plan = plan_of(1)
    assert plan is not None
    assert plan.error <= SMALL_ERROR
    errors = []
    for number in range(12):
        model = synthesize(curator_of(), TWO, epsilon=1, name=str(number))
        assert [step.name for step in model.steps] == ["residuals"]
        for observation in model.seen:
            exact = TWO.query.blocks.index(observation.block)
            truth = np.asarray(_exact()[exact]) / ROWS
            errors.append(0.5 * np.abs(observation.values - truth).sum())
    assert float(np.mean(errors)) == pytest.approx(plan.error, rel=0.15)


def _exact() -> list[np.ndarray]:
    from dodona.engines.answers import answer_block
    from dodona.schema.encoding import encode

    codes = {name: encode(DOMAIN[name], values) for name, values in columns().items()}
    return [np.asarray(answer_block(block, codes, counts=None, rows=ROWS)) for block in TWO.query.blocks]


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize("rounds", [None, 6])
def test_a_release_of_either_kind_costs_what_was_declared_and_no_more(neighbours: str, rounds: int | None):
    declared = schema(neighbours)
    curator = curator_of(declared, ledger=ledger_of(declared))
    model = synthesize(curator, Workload.ways(declared.domain, 2), share="1/2", method=Annealed(rounds=rounds))
    assert ([step.name for step in model.steps] == ["residuals"]) is (rounds is None)
    assert 0.49 < float(curator.budget.spent) <= 0.5


def test_a_pure_budget_is_spent_in_rounds():
    model = synthesize(curator_of(budget=PURE), TWO, epsilon=2)
    assert model.steps[0].name == "singles"


@pytest.mark.parametrize("unit", ["ε", "ρ", "μ²"])
def test_larger_blocks_have_less_noise_where_that_lowers_the_sum_of_all_noises(unit):
    """The sum of values·deviation is least at these shares: even shares, or any near them, are worse."""
    values = [2, 5, 16, 42, 100]
    shares = Currency(unit).shares(values)
    assert sum(shares) == pytest.approx(1)
    power = -1 if unit == "ε" else -1 / 2

    def total(own) -> float:
        return sum(number * share**power for number, share in zip(values, own, strict=True))

    assert total(shares) < 0.95 * total([1 / len(values)] * len(values))
    for place in range(len(values)):
        for by in (0.9, 1.1):
            near = [share * (by if at == place else 1) for at, share in enumerate(shares)]
            assert total(shares) < total([share / sum(near) for share in near])


def test_columns_of_different_sizes_cost_what_their_share_allows():
    declared = Schema.of("t", Integer("wide", 0, 99, otherwise=0), Boolean("night", otherwise=False), size=50)
    held = {"wide": [1] * 50, "night": [True] * 50}
    model = synthesize(curator_of(declared, held), Workload.ways(declared.domain, 2), epsilon="1/2")
    first = model.steps[0]
    assert first.name == "singles"
    assert 0.3499 < first.price / sum(step.price for step in model.steps) < 0.3501
    wide, *runs, narrow = noises_from_text(first.mechanism)
    assert runs == [wide] * 2  # of 4 and 16 runs of values: the three share the price of the column
    assert float(narrow.scale / wide.scale) == pytest.approx((100 / 2) ** (1 / 3) / math.sqrt(3), rel=1e-3)


def test_what_only_prepares_gets_less_where_the_budget_is_ample():
    """The share is of public facts: the same for two tables with nothing in common."""
    other = {name: [values[0]] * 7 for name, values in columns().items()}
    found = []
    for size in (ROWS, 10**7):
        declared = schema(size=size)
        for held in (columns(), other):
            curator = curator_of(declared, held, ledger=ledger_of(declared))
            run, _ = _make_run(curator, TWO, "1/4", None, Annealed(rounds=4), 1 << 20, "", lambda _part, _about: None)
            found.append(_preparing_shares(run, [marginal_block(DOMAIN, [name]) for name in TWO.names]))
    assert found[0] == found[1]
    assert found[0][0] > 0.1
    assert found[0][1] == 0.1
    assert found[2] == found[3] == (0.05, 0.05)


def test_pairs_of_columns_are_candidates_in_coarse_bins_too_that_released_counts_decide():
    """An even law has five bins; where half the rows have one age, that ends a bin. The table has a single row."""
    declared = Schema.of("t", Integer("age", 0, 15, otherwise=0), Boolean("night", otherwise=False), size=ROWS)
    curator = curator_of(declared, {"age": [1], "night": [True]}, ledger=ledger_of(declared))
    pairs, found = Workload.ways(declared.domain, 2), []
    run, _ = _make_run(curator, pairs, "1/4", None, Annealed(), 1 << 20, "", lambda _part, _about: None)
    candidates = list_candidates(run)
    for counted in (np.full(16, 1 / 16), np.array([0.01] * 3 + [0.5] + [0.47 / 12] * 12)):
        one = ObservedBlock.of_shares(marginal_block(declared.domain, ["age"]), counted, 1e-12)
        (block,) = coarser(run, run.begin().joined([one]).fitted(100), candidates)
        found.append(next(key.cuts for key in block.keys if isinstance(key, Partition) and key.attribute == "age"))
    assert found == [(0, 3, 6, 9, 12), (0, 4, 9)]


def batch(count: int, overlap: int | None) -> DistanceScores:
    query = Query(DOMAIN, TWO.query.blocks)
    factors, unit = (1,) * len(query.blocks), Unit.each_row(Neighbours.ADD_REMOVE)
    choice = Exponential.for_privacy("1/2", distance_sensitivity(query, factors, unit))
    nothing = (0,) * len(query.blocks)
    return DistanceScores(query, (0,) * query.values, factors, nothing, choice, count=count, overlap=overlap)


def test_a_batch_costs_as_many_choices_as_it_has():
    unit = Unit.each_row(Neighbours.ADD_REMOVE)
    single, three = batch(1, None).event(unit), batch(3, 2).event(unit)
    assert float(three.rho()) == pytest.approx(3 * float(single.rho()), rel=1e-12)
    assert batch(3, 2).purpose != batch(3, None).purpose != batch(1, None).purpose


def test_blocks_of_a_batch_share_few_columns_and_are_never_chosen_twice():
    """All that is ruled out follows from what was chosen: pairs that share a column with a chosen pair."""
    values = np.arange(sum(block.values for block in TWO.query.blocks))
    blocks = TWO.query.blocks
    for _ in range(20):
        chosen = _choose_all(batch(6, 1), values)
        assert len(chosen) == 2  # four columns make two pairs that share none
        assert not blocks[chosen[0]].attributes & blocks[chosen[1]].attributes
        assert len(set(_choose_all(batch(6, 2), values))) == 6


def test_odd_tables_are_released():
    """One column; constant columns, one or all; a table without rows."""
    single = Schema.of("t", Integer("age", 0, 4, otherwise=0), size=500)
    for budget in (RENYI, PURE):
        model = synthesize(
            curator_of(single, {"age": [1] * 500}, budget=budget), Workload.ways(single.domain, 1), epsilon=2
        )
        assert np.bincount(model.rounded().codes["age"], minlength=5)[1] > 400
    constant = Schema.of("t", Category("kind", ["a"]), Boolean("night", otherwise=False), size=500)
    held = {"kind": ["a"] * 500, "night": [True] * 400 + [False] * 100}
    for budget in (RENYI, PURE):
        for ways in (1, 2):
            workload = Workload.ways(constant.domain, ways, values_only=ways == 2)
            rows = synthesize(curator_of(constant, held, budget=budget), workload, epsilon=2).rounded()
            assert abs(int(rows.codes["night"].sum()) - 400) < 100
    empty = {name: [] for name in columns()}
    model = synthesize(curator_of(held=empty), TWO, epsilon=2)
    assert len(model.rounded()) == ROWS


def test_a_fit_says_how_far_it_is_from_its_optimum():
    model = synthesize(curator_of(), TWO, epsilon=2, method=Annealed(rounds=6))
    assert isinstance(model.law, FactoredBelief)
    assert model.gap == model.law.gap <= 0.25
    assert model.converged
    assert "converged: answers are" in public_report(model)
    assert "ended early" not in str(model)
    early = replace(model, law=replace(model.law, gap=0.3))
    assert not early.converged
    assert "ended early: answers are 0.3 deviations" in public_report(early)
    assert "ended early, 0.3 deviations" in str(early)


def test_a_release_ends_at_the_most_probable_law():
    """A longer search moves its marginals a tenth as far as the law of most entropy is away; half is allowed.

    That is over five releases, as one in twenty alone may end at another mode.
    """
    far = near = 0.0
    for _ in range(5):
        model = synthesize(curator_of(), TWO, epsilon=2, method=Annealed(rounds=6))
        assert isinstance(model.law, FactoredBelief)
        mode, even = model.law.refined(600, tolerance=1e-3), model.law.fitted(400)
        far += float(np.abs(even.expect(TWO.query) - mode.expect(TWO.query)).sum())
        near += float(np.abs(model.law.expect(TWO.query) - mode.expect(TWO.query)).sum())
    assert near < far / 2


def test_a_table_of_thirty_columns_is_held_in_cliques():
    """A chain of 30 columns, whose 10^9 cells nobody could hold: neighbours in it agree in the rows as in the table."""
    chance, rows = np.random.default_rng(1), 5_000
    codes = [chance.integers(0, 2, rows)]
    for _ in range(29):
        codes.append(np.where(chance.random(rows) < 0.9, codes[-1], 1 - codes[-1]))
    declared = Schema.of("t", *(Boolean(f"c{place}", otherwise=False) for place in range(30)), size=rows)
    held = {f"c{place}": (column == 1).tolist() for place, column in enumerate(codes)}
    pairs = Workload.marginals(declared.domain, [[f"c{place}", f"c{place + 1}"] for place in range(29)])
    model = synthesize(curator_of(declared, held), pairs, epsilon=2, method=Annealed(rounds=40))
    made = model.rounded().codes
    agree = [float((made[f"c{place}"] == made[f"c{place + 1}"]).mean()) for place in range(29)]
    assert math.isclose(float(np.mean(agree)), 0.9, abs_tol=0.03)


def test_a_workload_that_no_model_holds_is_measured_whole_and_rows_meet_it():
    """Ten columns in a model of 64 cells: marginals outside its cliques are measured too, and rows are near them."""
    names = [f"c{place}" for place in range(10)]
    chance = np.random.default_rng(8)
    hidden = chance.normal(size=ROWS)
    held = {name: (hidden + chance.normal(size=ROWS) > 0).tolist() for name in names}
    declared = Schema.of("stays", *(Boolean(name, otherwise=False) for name in names), size=ROWS)
    curator = curator_of(declared, held, ledger=ledger_of(declared))
    model = synthesize(curator, Workload.ways(declared.domain, 2), epsilon=2, cells=64)
    assert [step.name for step in model.steps] == ["residuals"]
    assert len(model.seen) == 45
    assert isinstance(model.law, FactoredBelief)
    assert model.law.loose
    away = {"rounded": [], "sampled": []}
    for observation in model.law.loose:
        first, second = sorted(observation.block.attributes)
        truth = np.mean(np.array(held[first]) & np.array(held[second]))
        for kind, made in (("rounded", model.rounded()), ("sampled", model.sampled())):
            away[kind].append(abs(np.mean(made.codes[first] & made.codes[second]) - truth))
    assert np.mean(away["rounded"]) < 0.015
    assert np.mean(away["sampled"]) > 0.04


def test_a_wide_column_is_put_into_bins_that_released_counts_decide():
    """Of 1,000 incomes most are rare: pairs are measured in bins, and the counts of single values are as measured."""
    chance = np.random.default_rng(9)
    rich = chance.random(ROWS) < 0.5
    income = np.clip(chance.gamma(2, np.where(rich, 100, 20)).astype(int), 0, 999)
    declared = Schema.of("stays", Integer("income", 0, 999, otherwise=0), Boolean("rich", otherwise=False), size=ROWS)
    curator = curator_of(declared, {"income": income.tolist(), "rich": rich.tolist()}, ledger=ledger_of(declared))
    model = synthesize(curator, "2-way", epsilon=1)
    bins = model.bins["income"]
    assert 4 < bins.groups < 200
    assert any("income × rich in bins" in step.about for step in model.steps)
    made = model.rounded()
    assert np.mean(made.codes["income"][made.codes["rich"] == 1]) > 2 * np.mean(
        made.codes["income"][made.codes["rich"] == 0]
    )
    assert len(np.unique(made.codes["income"])) > bins.groups
    again = synthesize(curator, "2-way", epsilon=1)
    assert {step.how for step in again.steps} == {"recalled"}
    assert np.array_equal(again.rounded().codes["income"], made.codes["income"])
    assert "in bins" in public_report(model, made)
    assert len(model.weighted()) > 0


def test_runs_of_a_wide_column_are_counted_where_noise_hides_its_values():
    """A mean of 4,000 incomes at ε = 0.3, in 12 releases: single values alone leave a root mean square error of 25.

    That of the runs is 5 to 9, so its square is above 16² with probability below 1e-6.
    """
    chance = np.random.default_rng(100)
    rich = chance.random(ROWS) < 0.5
    income = np.clip(chance.lognormal(np.where(rich, 4.8, 3.8), 0.8).astype(int), 0, 999)
    declared = Schema.of("stays", Integer("income", 0, 999, otherwise=0), Boolean("rich", otherwise=False), size=ROWS)
    held, away = {"income": income.tolist(), "rich": rich.tolist()}, []
    for _ in range(12):
        model = synthesize(curator_of(declared, held, ledger=ledger_of(declared, GAUSSIAN)), "2-way", epsilon="0.3")
        away.append(float(model.rounded().codes["income"].mean() - income.mean()))
    assert np.sqrt(np.mean(np.square(away))) < 16
    blocks = [observation.block for observation in model.seen]
    runs = {
        len(key.cuts) for block in blocks for key in block.keys if len(block.keys) == 1 and key.attribute == "income"
    }
    assert {4, 16, 64, 1000} <= runs
    ample = synthesize(
        curator_of(declared, held, ledger=ledger_of(declared)), "2-way", epsilon="9/5", method=Annealed(rounds=3)
    )
    assert all(len(observation.block.keys) == 2 or observation.block.values in {2, 1000} for observation in ample.seen)


def test_a_release_in_bins_has_its_measurements_once_and_no_others():
    """What was computed of them, such as the shares of bins, is no further evidence: intervals would be too narrow."""
    chance = np.random.default_rng(9)
    held = {"income": chance.gamma(2, 50, ROWS).astype(int).clip(0, 999).tolist(), "rich": [False, True] * (ROWS // 2)}
    declared = Schema.of("stays", Integer("income", 0, 999, otherwise=0), Boolean("rich", otherwise=False), size=ROWS)
    kept = ledger_of(declared)
    model = synthesize(curator_of(declared, held, ledger=kept), "2-way", epsilon="0.5")
    assert model.bins
    texts = [release.question for _, release in kept.releases() if " choose" not in (release.text or "")]
    measured = [block for text in texts for block in from_json(text or "", declared.domain).blocks]
    assert len(model.seen) == len(set(measured))
    assert {observation.block for observation in model.seen} == set(measured)
