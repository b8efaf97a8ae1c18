import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dodona.errors import InvalidArgument
from dodona.knowledge.cells import Contradiction, SpentBelief, Support, TooManyCells
from dodona.knowledge.components import ComponentBelief
from dodona.knowledge.dense import DenseBelief
from dodona.lab.projection import project
from dodona.query.predicate import EVERYTHING, among, conjunction, disjunction
from dodona.query.query import Query
from dodona.schema.attributes import Category, Integer, Number
from dodona.schema.schema import Domain
from tests.knowledge.explicit import bits, random_law
from tests.query.drawing import DOMAIN, blocks, queries

STEPS = st.lists(st.tuples(blocks(), st.floats(0.05, 0.95)), max_size=3)


def product(components: ComponentBelief) -> DenseBelief:
    """The same law, all in one."""
    law = np.ones([1] * len(components.support.shape))
    for part in components.parts:
        places = components.support.places(part.support.domain.names)
        shape = [length if place in places else 1 for place, length in enumerate(components.support.shape)]
        law = law * part.probabilities().reshape(shape)
    return DenseBelief(components.support, law)


def started(seed: int) -> ComponentBelief:
    support, rng = Support.of(DOMAIN), np.random.default_rng(seed)
    parts = [support.project([name]) for name in DOMAIN.names]
    return ComponentBelief(support, [DenseBelief(part, random_law(part, rng)) for part in parts])


@given(st.integers(0, 2**32), STEPS, queries())
@settings(deadline=None)
def test_a_product_of_components_is_the_dense_law(seed, steps, query):
    components = started(seed)
    dense = product(components)
    for block, size in steps:
        step = Query(DOMAIN, (block,))
        exponents = np.full(block.values, size / 100)
        components, dense = components.tilted(step, exponents=exponents), dense.tilted(step, exponents=exponents)
        if block.keys:
            continue
        low, high = (dense.copied().tilted(step, exponents=[way * size / 50]).expect(step)[0] for way in (-1, 1))
        if high - low > 1e-6:  # the target lies between what two tilts give, so it can be reached
            target = low + size * (high - low)
            try:
                moved = project(dense.copied(), step, target=target)
            except (Contradiction, InvalidArgument):
                continue
            components, dense = project(components, step, target=target), moved
    assert components.expect(query) == pytest.approx(dense.expect(query), rel=1e-8, abs=1e-12)
    assert product(components).probabilities() == pytest.approx(dense.probabilities(), rel=1e-8, abs=1e-14)


def test_attributes_are_tied_only_as_steps_ask_about_them_together():
    domain = bits(5)
    a, b, c, _, e = domain
    components = ComponentBelief.uniform(domain)
    wide = Query.count(domain, conjunction(*(among(one, [1]) for one in domain)))
    assert components.expect(wide) == pytest.approx([4.0**-5])
    assert len(components.parts) == 5, "looking ties nothing"
    components = project(components, Query.count(domain, among(a, [1])), target=0.9)
    assert len(components.parts) == 5
    components = project(components, Query.count(domain, conjunction(among(a, [1]), among(c, [0]))), target=0.5)
    components = project(components, Query.count(domain, disjunction(among(b, [1]), among(e, [0]))), target=0.6)
    assert sorted(part.support.domain.names for part in components.parts) == [("b00", "b02"), ("b01", "b04"), ("b03",)]
    components = project(components, Query.count(domain, conjunction(among(a, [0]), among(e, [0]))), target=0.05)
    assert sorted(part.support.size for part in components.parts) == [4, 256]


WIDE = Domain(tuple(Category(f"c{place:02}", [str(code) for code in range(8)]) for place in range(20)))
"""20 columns of 10 cells: 10^20 cells."""


def test_a_universe_of_many_cells_is_learned_and_drawn_from():
    """10,000 rows: the share of 0.3 within 5.5 deviations; a false alarm in 4e-8 of seeds."""
    assert WIDE.size == 10**20
    components = ComponentBelief.uniform(WIDE)
    rng = np.random.default_rng(0)
    asked = []
    for first in range(0, 20, 2):
        where = conjunction(
            *(among(WIDE.attributes[place], range(int(rng.integers(1, 9)))) for place in (first, first + 1))
        )
        asked.append((Query.count(WIDE, where), float(rng.uniform(0.2, 0.8))))
    asked[0] = (asked[0][0], 0.3)
    for query, target in asked:
        components = project(components, query, target=target)
    for query, target in asked:
        assert components.expect(query) == pytest.approx([target], rel=1e-9)
    together = Query.count(WIDE, conjunction(*(query.blocks[0].where for query, _ in asked)))
    assert components.expect(together) == pytest.approx([np.prod([target for _, target in asked])], rel=1e-9)
    drawn = components.sample(10_000, rng)
    assert list(drawn) == list(WIDE.names)
    names = sorted(asked[0][0].blocks[0].attributes)
    sets = {part.attribute: part.codes for part in asked[0][0].blocks[0].where.parts}
    share = np.mean(np.logical_and.reduce([sets[name] >> drawn[name] & 1 == 1 for name in names]))
    assert abs(share - 0.3) < 5.5 * np.sqrt(0.21 / 10_000)


def test_a_component_that_would_be_too_large_is_refused_and_the_belief_stays():
    components = ComponentBelief.uniform(WIDE, limit=1000)
    components = project(
        components,
        Query.count(WIDE, conjunction(*(among(WIDE.attributes[place], [0]) for place in range(3)))),
        target=0.1,
    )
    fourth = Query.count(WIDE, conjunction(among(WIDE.attributes[0], [0]), among(WIDE.attributes[3], [0])))
    with pytest.raises(TooManyCells, match=r"10,000 cells.*1,000.*fewer of c00, c01, c02, c03") as caught:
        project(components, fourth, target=0.1)
    assert caught.value.cells == 10_000
    assert components.expect(fourth) == pytest.approx([0.1 * 0.19 / 1.9 + 0.9 * 0.99 / 9.99 * 0.1], rel=0.2)
    with pytest.raises(TooManyCells, match="The law that this question is about"):
        components.expect(Query.marginal(WIDE, ["c05", "c06", "c07", "c08"]))


def test_sums_and_groups_across_components_are_products_of_their_laws():
    domain = Domain((Category("sex", ["f", "m"]), Integer("age", 0, 9), Number("stay", 0, 5, "0.5")))
    components = ComponentBelief.uniform(domain)
    components = project(components, Query.sum(domain, "age"), target=4.0)
    components = project(components, Query.histogram(domain, "sex"), target=[0.5, 0.3, 0.1, 0.1])
    dense = product(components)
    query = Query.sum(domain, "stay", among(domain["sex"], [0])).stacked(
        Query.histogram(domain, ["sex", "age"]), Query.count(domain, EVERYTHING)
    )
    assert components.expect(query) == pytest.approx(dense.expect(query), rel=1e-12)


@pytest.mark.parametrize("make", [DenseBelief.uniform, ComponentBelief.uniform], ids=["dense", "components"])
def test_every_hypothesis_keeps_the_contract(make):
    hypothesis = make(Support.values(DOMAIN))
    query = Query.count(DOMAIN, conjunction(among(DOMAIN["emergency"], [1]), among(DOMAIN["age"], [0, 1])))
    assert hypothesis.support == Support.values(DOMAIN)
    assert hypothesis.expect(query) == pytest.approx([0.2])
    spare = hypothesis.copied()
    moved = project(hypothesis, query, target=0.4)
    tilted = moved.tilted(query, exponents=np.log(2))
    assert tilted.expect(query) == pytest.approx([0.8 / 1.4])
    assert spare.expect(query) == pytest.approx([0.2])
    for spent in (hypothesis, moved):
        with pytest.raises(SpentBelief):
            spent.expect(query)
    first, second = (tilted.sample(50, np.random.default_rng(3)) for _ in range(2))
    assert list(first) == list(DOMAIN.names)
    assert all((first[name] == second[name]).all() and len(first[name]) == 50 for name in first)
    with pytest.raises(InvalidArgument, match="rows"):
        tilted.sample(-1, np.random.default_rng(3))
    with pytest.raises(Contradiction, match="all weight"):
        project(tilted, Query.count(DOMAIN), target=0.5)
    with pytest.raises(InvalidArgument, match="ask about"):
        tilted.expect(Query.count(WIDE))
    assert tilted.expect(query) == pytest.approx([0.8 / 1.4])


def test_parts_that_are_no_partition_of_the_attributes_are_refused():
    support = Support.of(DOMAIN)
    sex, age = (DenseBelief.uniform(support.project([name])) for name in ("sex", "age"))
    for parts in ([sex, age], [sex, sex, age], [sex, age, DenseBelief.uniform(bits(1))]):
        with pytest.raises(InvalidArgument, match="parts"):
            ComponentBelief(support, parts)
    with pytest.raises(InvalidArgument, match="projections"):
        ComponentBelief(support.project(["sex"]), [DenseBelief.uniform(Support.values(DOMAIN).project(["sex"]))])
    for limit in (0, 1 << 28):
        with pytest.raises(InvalidArgument, match="limit"):
            ComponentBelief.uniform(DOMAIN, limit=limit)
