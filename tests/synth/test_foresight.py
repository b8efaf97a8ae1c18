"""No release fails after a charge: what cannot be done is refused before."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dodona.curator.curator import Curator
from dodona.errors import InvalidRequest
from dodona.privacy.budget import Budget
from dodona.query.predicate import among, conjunction
from dodona.query.query import Query
from dodona.schema.attributes import Category, Integer
from dodona.schema.schema import Constraint, Schema
from dodona.synth.methods import Annealed, Mwem, SynthesisMethod
from dodona.synth.synthesize import synthesize
from dodona.synth.workload import Workload
from tests.house.shares import examples
from tests.synth.scene import curator_of, ledger_of


class Declared(NamedTuple):
    """A release of a made-up table."""

    curator: Curator
    workload: Workload
    method: SynthesisMethod
    share: Fraction
    cells: int


def declared(seed: int) -> Declared:
    """A random domain with constant columns among others, constraints, workload, price, unit and limit of cells."""
    chance = np.random.default_rng(seed)

    def drawn(low: int, high: int) -> int:
        return int(chance.integers(low, high + 1))

    wide, rows = drawn(2, 12), drawn(0, 60)
    tops = [0 if chance.random() < 0.1 else drawn(1, wide) for _ in range(drawn(1, 7))]
    columns = [
        Integer(f"c{place}", 0, top, otherwise=0 if chance.random() < 0.8 else None)
        if top
        else Category(f"c{place}", ["0"])
        for place, top in enumerate(tops)
    ]
    numbers = [place for place, top in enumerate(tops) if top]
    constraints = [
        Constraint(never=f"c{place} = {tops[place]} AND c{numbers[drawn(0, len(numbers) - 1)]} = 0")
        for place in numbers
        if chance.random() < 0.1
    ]
    size = drawn(1, 10**12) if chance.random() < 0.1 else max(1, rows)
    neighbours = ("add-remove", "replace")[drawn(0, 1)]
    schema = Schema.of("t", *columns, size=size, neighbours=neighbours, constraints=constraints)
    held = {
        f"c{place}": chance.integers(0, top + 1, rows).tolist() if top else ["0"] * rows
        for place, top in enumerate(tops)
    }
    epsilon = round(10 ** float(chance.uniform(-1, 3)), 3)
    share = Fraction(1) if chance.random() < 0.8 else Fraction(10) ** -drawn(1, 9)
    accountant = ("pure", "renyi", "gaussian")[drawn(0, 2)]
    budget = Budget(str(epsilon), 0 if accountant == "pure" else "1e-6", accountant)
    ways = min(len(tops), drawn(1, 3))
    sets = {
        tuple(sorted(chance.choice(len(tops), ways, replace=False).tolist())) for _ in range(drawn(1, 4 * len(tops)))
    }
    workload = Workload.marginals(schema.domain, [[f"c{place}" for place in places] for places in sorted(sets)])
    if tops[0] and tops[-1] and chance.random() < 0.2:
        ends = [
            among(attribute, range(-(-attribute.size // 2)))
            for attribute in (schema.domain["c0"], schema.domain[f"c{len(tops) - 1}"])
        ]
        more = [Query.count(schema.domain, conjunction(*ends))]
        workload = Workload.of([workload.query, *more], values_only=bool(drawn(0, 1)))
    rounds = drawn(1, 5)
    method = (
        Mwem(rounds=rounds) if chance.random() < 0.2 else Annealed(rounds=None if chance.random() < 0.4 else rounds)
    )
    held_at_least = max(sum(workload.support.shape), *(block.values for block in workload.query.blocks))
    return Declared(
        curator_of(schema, held, ledger=ledger_of(schema, budget)),
        workload,
        method,
        share,
        round(held_at_least * float(chance.uniform(0.95, 4))),
    )


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(0, 1 << 32))
def test_a_release_is_made_or_refused_before_its_first_charge(seed: int):
    """With a limit of cells that only just holds the largest marginal, so that every batch meets it."""
    scenario = declared(seed)
    try:
        model = synthesize(
            scenario.curator, scenario.workload, share=scenario.share, method=scenario.method, cells=scenario.cells
        )
    except InvalidRequest:
        assert scenario.curator.budget.charges == 0
    else:
        assert all(step.how == "paid" for step in model.steps)
        assert float(scenario.curator.budget.spent) <= 1


def test_more_noise_than_can_be_drawn_is_refused_before_the_first_charge():
    """Single columns would have noise that can be drawn; a choice among candidates, at a part of a round, would not."""
    schema = Schema.of("t", *(Integer(f"c{place}", 0, 9, otherwise=0) for place in range(5)), size=100)
    held = {f"c{place}": [1] * 100 for place in range(5)}
    curator = curator_of(schema, held, ledger=ledger_of(schema, Budget(1, 0, "pure")))
    workload = Workload.ways(schema.domain, 2)
    with pytest.raises(InvalidRequest, match="noise of scale"):
        synthesize(curator, workload, share=Fraction(1, 10**9), method=Annealed(rounds=1_000))
    assert curator.budget.charges == 0


def test_subsets_that_could_not_be_asked_for_at_once_are_no_candidates(monkeypatch: pytest.MonkeyPatch):
    """A workload that a query just holds: with all subsets of its marginals it would be too large."""
    schema = Schema.of("t", *(Integer(f"c{place}", 0, 5, otherwise=0) for place in range(4)), size=100)
    held = {f"c{place}": [1] * 100 for place in range(4)}
    workload = Workload.ways(schema.domain, 3)
    for module in ("dodona.query.query", "dodona.synth.annealed", "dodona.synth.candidates"):
        monkeypatch.setattr(f"{module}.MOST_VALUES", workload.query.values + 50)
    model = synthesize(curator_of(schema, held), workload, epsilon=1, method=Annealed(rounds=6))
    assert len(model.steps) > 2
