"""Releases by each method: what they cost, how near they come, and what they refuse."""

from __future__ import annotations

import re
from fractions import Fraction

import numpy as np
import pytest

from dodona.curator.desk import PriceAboveMaximum
from dodona.engines.answers import answer_block
from dodona.errors import InvalidRequest
from dodona.knowledge.factored import FactoredBelief
from dodona.knowledge.mixture import Mixture
from dodona.privacy.budget import Budget
from dodona.query.query import Query
from dodona.schema.attributes import Boolean, Category
from dodona.schema.encoding import encode
from dodona.schema.schema import Schema
from dodona.sql.compile import compile_sql
from dodona.synth.methods import Annealed, Blr, Guaranteed, Mwem, SynthesisMethod, mwem_error
from dodona.synth.model import SyntheticModel
from dodona.synth.synthesize import quote_synthesis, synthesize
from dodona.synth.workload import InvalidWorkload, SynthesisTooExpensive, Workload
from tests.synth.scene import PURE, RENYI, ROWS, columns, curator_of, ledger_of, schema

SCHEMA = schema()
DOMAIN = SCHEMA.domain
TWO = Workload.ways(DOMAIN, 2)


def distance(model: SyntheticModel, held=None) -> float:
    """The mean total variation of the workload's marginals from the exact table."""
    rows = columns() if held is None else held
    codes = {name: encode(DOMAIN[name], values) for name, values in rows.items()}
    distances = []
    for block in model.workload.query.blocks:
        truth = np.asarray(answer_block(block, codes, counts=None, rows=ROWS)) / ROWS
        distances.append(0.5 * np.abs(truth - model.expect([block]) / ROWS).sum())
    return float(np.mean(distances))


METHODS: list[SynthesisMethod] = [
    Annealed(),
    Annealed(law="laplace", rounds=4),
    Mwem(rounds=6),
    Mwem(rounds=6, law="laplace"),
    Mwem(rounds=6, hypothesis="average"),
    Guaranteed(rounds=20),
]


BUDGETS = [
    pytest.param(RENYI, id="renyi"),
    pytest.param(PURE, id="pure"),
    pytest.param(Budget(2, "1e-6", "zcdp"), id="zcdp", marks=pytest.mark.slow),
    pytest.param(Budget(2, "1e-6", "either"), id="either", marks=pytest.mark.slow),
]


@pytest.mark.share(2)
@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("method", METHODS, ids=str)
def test_a_release_spends_what_was_declared_and_no_more(method: SynthesisMethod, budget: Budget):
    curator = curator_of(budget=budget)
    declared = quote_synthesis(curator, TWO, share="50%", method=method)
    assert curator.budget.spent == 0
    model = synthesize(curator, TWO, share="1/2", method=method)
    assert float(declared.share) == pytest.approx(0.5, rel=1e-6)
    assert 0 < curator.budget.spent <= declared.share
    # At the budget's own order Laplace noise costs less than its zCDP price says.
    assert float(curator.budget.spent) > (0.45 if getattr(method, "law", "") != "laplace" else 0.3)
    assert float(model.share) == pytest.approx(0.5, rel=0.05)
    assert model.expect([TWO.query.blocks[0]]).sum() == pytest.approx(model.size)
    assert model.size == pytest.approx(ROWS, rel=0.1)


def test_the_whole_budget_can_be_released_at_its_own_epsilon():
    for budget in (RENYI, PURE):
        curator = curator_of(budget=budget)
        synthesize(curator, TWO, epsilon=2)
        assert 0.99 < float(curator.budget.spent) <= 1


def test_annealed_rounds_come_near_the_table_and_nearer_with_more_budget():
    """Distances of several seeds lie from .03 to .06 at ε = .2, and from .004 to .009 at ε = 2."""
    near = distance(synthesize(curator_of(), TWO, epsilon=2))
    far = distance(synthesize(curator_of(), TWO, epsilon="0.2"))
    assert near < 0.02
    assert near < far < 0.12


def test_mwem_comes_near_the_table_with_refits_and_less_so_with_single_steps():
    refitted = distance(synthesize(curator_of(), TWO, epsilon=2, method=Mwem(rounds=8)))
    stepped = distance(synthesize(curator_of(), TWO, epsilon=2, method=Mwem(rounds=8, update="step")))
    assert refitted < 0.05
    assert refitted < stepped < 0.35


def test_conjunctions_alone_are_a_workload():
    text = "SELECT count(*) FROM stays WHERE days >= {} AND ward = '{}'"
    texts = [text.format(days, ward) for days in (1, 2, 3) for ward in ("surgery", "medicine")]
    workload = Workload.of(compile_sql(text, SCHEMA).query for text in texts)
    model = synthesize(curator_of(), workload, epsilon=2, method=Mwem(rounds=6))
    codes = {name: encode(DOMAIN[name], values) for name, values in columns().items()}
    for block in workload.query.blocks:
        truth = int(answer_block(block, codes, counts=None, rows=ROWS)[0])
        assert abs(model.expect([block])[0] - truth) < 0.08 * ROWS
    assert model.workload.names == ("ward", "days")


def test_the_promise_of_mwem_holds_and_is_the_theorems():
    """3 runs; the promise at 95% is far from tight, so that a failure is a fault."""
    workload = Workload.ways(DOMAIN, 1)
    curator = curator_of(budget=PURE)
    promise = quote_synthesis(curator, workload, epsilon=2, method=Guaranteed(rounds=40)).promise
    assert promise is not None
    expected = mwem_error(ROWS, universe=61, questions=12, rounds=40, epsilon=2 / 40) + 2 / ROWS
    assert promise.within == pytest.approx(expected, rel=1e-5)
    best = quote_synthesis(curator, workload, epsilon=2, method=Guaranteed()).promise
    assert best is not None
    assert best.within <= promise.within
    codes = {name: encode(DOMAIN[name], values) for name, values in columns().items()}
    truth = (
        np.concatenate([answer_block(block, codes, counts=None, rows=ROWS) for block in workload.query.blocks]) / ROWS
    )
    for number in range(3):
        model = synthesize(curator_of(budget=PURE), workload, epsilon=2, method=Guaranteed(), name=str(number))
        assert isinstance(model.law, Mixture)
        assert np.abs(model.expect(workload.query) / ROWS - truth).max() <= best.within


@pytest.mark.parametrize("part", [0.3, 0.85])
def test_the_promise_of_mwem_holds_where_there_are_fewer_rows_than_declared(part):
    """2 runs a part, at a promise of a quarter of the rows or less; errors are half of it and hardly differ."""
    rows, declared = 40_000, schema(size=40_000)
    held = columns(int(part * rows))
    workload = Workload.ways(DOMAIN, 1)
    codes = {name: encode(DOMAIN[name], values) for name, values in held.items()}
    truth = np.concatenate(
        [answer_block(block, codes, counts=None, rows=len(codes["sex"])) for block in workload.query.blocks]
    )
    for number in range(2):
        curator = curator_of(declared, held, budget=PURE)
        model = synthesize(curator, workload, epsilon=2, method=Guaranteed(rounds=60), name=str(number))
        assert model.promise is not None
        assert model.promise.within < 0.25
        assert np.abs(model.expect(workload.query) - truth).max() <= model.promise.within * rows
        assert abs(model.size - part * rows) <= model.promise.within * rows


def test_large_universes_are_held_in_cliques_and_marginals_that_tie_too_many_cells_are_left_out():
    curator = curator_of()
    model = synthesize(curator, TWO, epsilon=2, cells=40, method=Annealed(rounds=8))
    assert isinstance(model.law, FactoredBelief)
    assert model.law.tree.cells <= 40
    assert len(model.law.tree.cliques) > 1
    assert distance(model) < 0.1


@pytest.mark.parametrize("only", [False, True])
def test_missing_values_have_their_share_unless_rows_are_taken_to_be_complete(*, only: bool):
    declared = Schema.of("stays", Category("ward", ["a", "b"]), Boolean("night"), size=3000)
    held = {"ward": ["a", "b", None] * 1000, "night": [True, False, None] * 1000}
    workload = Workload.ways(declared.domain, 2, values_only=only)
    assert workload.support.size == (4 if only else 16)
    model = synthesize(curator_of(declared, held), workload, epsilon=2)
    rows = model.rounded().to_arrow().to_pydict()
    missing = sum(ward is None for ward in rows["ward"])
    assert missing == 0 if only else 800 < missing < 1200
    pairs = [(ward, night) for ward, night in zip(rows["ward"], rows["night"], strict=True) if ward == "a"]
    assert sum(night is True for _, night in pairs) > 0.85 * len(pairs)


def test_a_budget_beyond_the_least_noise_is_no_error():
    curator = curator_of(budget=Budget(9000, "1e-6", "renyi"))
    assert distance(synthesize(curator, TWO, epsilon=9000)) < 0.006  # residuals have noise of four rows at least


def test_the_mean_of_beliefs_that_are_too_large_to_add_up_is_a_mixture():
    model = synthesize(curator_of(), TWO, epsilon=2, cells=30, method=Mwem(rounds=3, hypothesis="average"))
    assert isinstance(model.law, Mixture)
    assert len(model.law.parts) == 3
    assert len(model.sampled(100)) == 100
    with pytest.raises(InvalidRequest, match="sampled"):
        model.rounded()


def test_a_release_under_the_same_name_is_told_again_and_under_another_is_new():
    curator = curator_of()
    first = synthesize(curator, TWO, share="1/4")
    spent = curator.budget.spent
    again = synthesize(curator, TWO, share="1/4")
    assert curator.budget.spent == spent
    assert {step.how for step in again.steps} == {"recalled"}
    query = Query(DOMAIN, TWO.query.blocks)
    np.testing.assert_array_equal(first.expect(query), again.expect(query))
    synthesize(curator, TWO, share="1/4", name="another")
    assert float(curator.budget.spent) == pytest.approx(2 * float(spent), rel=0.1)


def test_a_release_that_does_not_fit_is_refused_with_what_would_and_nothing_is_charged():
    curator = curator_of()
    synthesize(curator, TWO, share="3/4")
    spent = curator.budget.spent
    for price in ({"share": "1/2"}, {"epsilon": 3}, {"epsilon": 2}):
        with pytest.raises(SynthesisTooExpensive, match=r"share = .*Nothing was charged"):
            synthesize(curator, TWO, **price, name="second")
    assert curator.budget.spent == spent


def test_the_share_that_a_refusal_names_fits():
    """Two thirds may be taken: rounded to nearest, 0.667 would be refused again."""
    curator, most = curator_of(), Fraction(2, 3)
    with pytest.raises(PriceAboveMaximum) as refused:
        synthesize(curator, TWO, share="0.9", max_price=most)
    named = re.findall(r"share=\"?([\d.]+)\b", str(refused.value))[0]
    assert f'share = "{named}" or less' in str(SynthesisTooExpensive(asked=Fraction(1), left=most))
    assert synthesize(curator, TWO, share=named, max_price=most).share <= most


@pytest.mark.parametrize("price", [{}, {"epsilon": 1, "share": "1/2"}])
def test_a_price_is_said_once(price: dict[str, object]):
    with pytest.raises(InvalidRequest, match="one of epsilon"):
        synthesize(curator_of(), TWO, **price)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: Workload.ways(DOMAIN, 5), "ways = 5"),
        (lambda: Workload.ways(DOMAIN, 1, ["sex", "sex"]), "twice"),
        (lambda: Workload.marginals(DOMAIN, [["sex", "nothing"]]), "nothing"),
        (lambda: Workload.marginals(DOMAIN, [["sex"], ["sex"]]), "twice"),
        (lambda: Workload.marginals(DOMAIN, [[]]), "no marginal"),
        (lambda: Workload.of([]), "empty"),
        (lambda: Workload.of([Query.sum(DOMAIN, "days")]), "adds up"),
        (lambda: Workload.of([Query.count(DOMAIN)]), "public"),
        (lambda: Workload.of("SELECT count(*) FROM stays"), "no Query"),
        (lambda: Workload.marginals(DOMAIN, ["sex", "days"]), r"such as \['sex'\]"),
        (lambda: Workload.ways(DOMAIN, 1, "sex"), r"such as \['sex'\]"),
    ],
)
def test_contradictory_workloads_are_refused(made, said: str):
    with pytest.raises(InvalidWorkload, match=said):
        made()


@pytest.mark.parametrize("given", ["SELECT sex, count(*) FROM stays GROUP BY sex", ["sex"], None])
@pytest.mark.parametrize("call", [synthesize, quote_synthesis])
def test_what_is_no_workload_is_refused_with_what_to_write(given, call):
    curator = curator_of()
    with pytest.raises(
        InvalidWorkload, match=r"what the release should answer|is no workload\. Write one of '1-way', '2-way', '3-way'"
    ):
        call(curator, given, epsilon=1)
    assert curator.budget.charges == 0


def test_a_workload_wider_than_a_belief_is_refused_before_any_charge():
    curator = curator_of()
    with pytest.raises(
        InvalidWorkload,
        match=r"ward × days looks at 15 cells.*no more than 10.*The largest of this workload that fits is sex × days",
    ):
        synthesize(curator, TWO, epsilon=1, cells=10)
    with pytest.raises(InvalidWorkload, match=r"Of these columns .* fit together"):
        synthesize(curator, Workload.ways(DOMAIN, 4), epsilon=1, cells=30)
    with pytest.raises(InvalidWorkload, match="guaranteed"):
        synthesize(curator, TWO, epsilon=1, cells=10, method=Guaranteed())
    other = Workload.ways(schema(size=ROWS).domain.project(["sex", "ward"]), 1)
    with pytest.raises(InvalidWorkload, match="another table"):
        synthesize(curator, other, epsilon=1)
    assert curator.budget.charges == 0


def test_settings_that_mean_nothing_are_refused():
    for made in (lambda: Mwem(rounds=0), lambda: Annealed(rounds=10**9), lambda: Blr(within=2), lambda: Blr(rows=0)):
        with pytest.raises(InvalidRequest):
            made()


def test_progress_is_told_from_the_first_charge_to_the_last():
    parts: list[float] = []
    synthesize(curator_of(), TWO, share="1/2", progress=lambda part, _: parts.append(part), method=Annealed(rounds=6))
    assert parts == sorted(parts)
    assert len(parts) > 5
    assert parts[-1] == pytest.approx(1, rel=0.02)


def test_replace_one_costs_twice_the_squares():
    """The same noise for half the price: marginals move by two counts when a row is replaced."""
    variances = {}
    for relation in ("add-remove", "replace"):
        declared = schema(relation)
        curator = curator_of(declared, ledger=ledger_of(declared))
        model = synthesize(curator, Workload.ways(declared.domain, 1), share="1/2", method=Mwem(rounds=1))
        variances[relation] = float(model.seen[0].variance)
    assert variances["replace"] == pytest.approx(2 * variances["add-remove"], rel=1e-3)
