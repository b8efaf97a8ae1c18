"""Renting or buying, by its prices alone: no table is there, and every noisy number is nought."""

import math
from dataclasses import dataclass, field
from itertools import combinations

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from dodona.curator.bundles import plan_unit_variance
from dodona.curator.demands import CountDemand
from dodona.curator.planner import widest_noise
from dodona.curator.rent_or_buy import RentOrBuyRule
from dodona.knowledge.asked import BundleLevel, LeastPrices, class_sets
from dodona.knowledge.knowledge import Knowledge
from dodona.ledger.entries import Receipt
from dodona.privacy.accuracy import to_failure_probability
from dodona.privacy.additive_noise import Gaussian, Laplace
from dodona.privacy.measurement import Measurement, ResidualMeasurement
from dodona.query.bases import Base, base_rows
from dodona.query.predicate import EVERYTHING, Predicate, among, conjunction, disjunction
from dodona.query.query import Block, Query
from dodona.schema.attributes import Category, Integer
from dodona.schema.partition import Partition
from dodona.schema.schema import Domain, Neighbours, Unit
from tests.house.shares import examples

FOUND = (Phase.explicit, Phase.reuse, Phase.generate)
CONFIDENCE = 0.99
WIDE, TABLES = {BundleLevel.LATTICE, BundleLevel.TABLE}, {BundleLevel.SCOPE_TABLE, BundleLevel.TABLE}


def columns(*sizes: int):
    """Columns of so many cells each."""
    labels = [[str(code) for code in range(size)] for size in sizes]
    return Domain(tuple(Category(f"c{place}", values, otherwise="0") for place, values in enumerate(labels)))


def pure(event):
    return math.inf if event.epsilon is None else float(event.epsilon)


def gaussian(event):
    return float(event.rho())


@dataclass
class Market:
    """Somebody who asks by the rule, and notes what each purchase cost and what the single would have cost."""

    domain: Domain
    neighbours: Neighbours
    price: object
    left: float = math.inf
    bought: list[tuple[BundleLevel | None, float, float]] = field(default_factory=list)
    told: dict[Predicate, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.knowledge = Knowledge(self.domain)
        self.knowledge.begin(5000 if self.neighbours is Neighbours.REPLACE else None)
        self.rule = RentOrBuyRule(self.domain, Unit(neighbours=self.neighbours, size=5000), self)

    def free(self, block, tolerance):
        if self.told.get(block.where, math.inf) <= tolerance:
            return True  # a single is told again
        enough = lambda found: found.within(to_failure_probability(CONFIDENCE)) <= tolerance  # noqa: E731
        return self.knowledge.lookup(block, self.knowledge.pattern(block), enough) is not None

    def wanted(self, block, tolerance):
        return CountDemand(block, self.knowledge.pattern(block), tolerance, to_failure_probability(CONFIDENCE))

    def least(self, where, tolerance, single):
        """What bundles cost at least, before they are designed, and what those that are designed cost."""
        wanted = self.wanted(Block(where), tolerance)
        public = LeastPrices(self.rule.unit, Gaussian, tolerance, wanted.failing)
        least = public.by_level(wanted.pattern, self.knowledge.asked, self.knowledge.residuals, self.price, single)
        return [(least[bundle.level], bundle.price) for bundle in self.rule.bundles(wanted, self.price)]

    def ask(self, where, tolerance=100.0):
        """Return the level that was bought; None for a single, and for what is free."""
        block = Block(where)
        if self.free(block, tolerance):
            return None
        singles = [
            Measurement(Query(self.domain, (block,)), (widest_noise(law, tolerance, CONFIDENCE),))
            for law in (Laplace, Gaussian)
        ]
        costs = [self.price(measurement.event(Unit.each_row(self.neighbours))) for measurement in singles]
        bundle = self.rule.choose(self.wanted(block, tolerance), min(costs), self.price, self.left)
        chosen = singles[costs.index(min(costs))] if bundle is None else bundle.measurement(self.domain, Gaussian)
        cost = self.price(chosen.event(Unit.each_row(self.neighbours)))
        self.bought.append((None if bundle is None else bundle.level, cost, min(costs)))
        receipt = Receipt(
            id=str(len(self.bought)),
            dataset="d",
            analyst=None,
            key=None,
            purpose=chosen.purpose,
            version="1",
            event=chosen.event(Unit.each_row(self.neighbours)),
        )
        if isinstance(chosen, ResidualMeasurement):
            self.knowledge.learn_residuals(receipt, chosen, [0] * len(chosen.noises))
        else:
            self.knowledge.learn(receipt, chosen, [0] * chosen.query.values)
        self.told[where] = tolerance if bundle is None else self.told.get(where, math.inf)
        assert self.free(block, tolerance), "what was bought does not answer the question"
        return None if bundle is None else bundle.level

    def spent(self, *levels: BundleLevel):
        return sum(cost for level, cost, _ in self.bought if level in levels)

    @property
    def total(self):
        return sum(cost for _, cost, _ in self.bought)

    @property
    def rent(self):
        return sum(single for _, _, single in self.bought)


@st.composite
def conditions(draw, domain):
    """A product of sets on up to three columns; now and then a union."""
    chosen = draw(st.lists(st.sampled_from(domain.attributes), min_size=1, max_size=3, unique_by=lambda own: own.name))
    sides = [
        among(attribute, draw(st.sets(st.integers(0, attribute.size - 1), min_size=1, max_size=attribute.size - 1)))
        for attribute in chosen
    ]
    return disjunction(*sides) if draw(st.integers(0, 9)) == 0 else conjunction(*sides)


SMALL = columns(2, 3, 4)


@pytest.mark.parametrize("price", [pure, gaussian])
@pytest.mark.parametrize("neighbours", list(Neighbours), ids=lambda own: own.value)
@settings(deadline=None, max_examples=4, phases=FOUND)
@given(st.lists(st.tuples(conditions(SMALL), st.sampled_from([100.0, 100.0, 60.0])), min_size=5, max_size=50))
def test_everything_spent_is_within_the_factors_of_what_singles_would_have_cost(neighbours, price, stream):
    market = Market(SMALL, neighbours, price)
    for where, tolerance in stream:
        market.ask(where, tolerance)
        narrow = market.spent(BundleLevel.SCOPE_LATTICE) + market.spent(BundleLevel.SCOPE_TABLE)
        rent, slack = market.rent, 1 + 1e-9
        assert market.spent(BundleLevel.SCOPE_LATTICE) <= rent * slack
        assert market.spent(BundleLevel.SCOPE_TABLE) <= 2 * rent * slack
        assert market.spent(BundleLevel.LATTICE) <= 2.5 * (rent + narrow) * slack
        assert market.spent(BundleLevel.TABLE) <= 2 * (rent + narrow) * slack
        assert market.total <= 22 * rent * slack


def products(domain, most):
    """All products of one class a column, of up to so many columns."""
    return [
        conjunction(*(among(attribute, [1]) for attribute in chosen))
        for size in range(1, most + 1)
        for chosen in combinations(domain.attributes, size)
    ]


BINARY = columns(2, 2, 2, 2, 2)


@pytest.mark.parametrize("price", [pure, gaussian])
@settings(deadline=None, max_examples=8, phases=FOUND)
@given(st.lists(st.sampled_from(products(BINARY, 3)), min_size=10, max_size=60), st.sampled_from([80.0, 200.0]))
def test_where_bundles_stand_fixed_the_whole_is_within_five_times_the_best_plan(price, stream, tolerance):
    market = Market(BINARY, Neighbours.REPLACE, price)
    for where in products(BINARY, 3):
        market.knowledge.asked.see(market.knowledge.pattern(Block(where)))
    offered = market.rule.bundles(market.wanted(Block(stream[0]), tolerance), price)
    best, level = min((bundle.price, bundle.level.name) for bundle in offered if bundle.level in WIDE)
    factor, wide = 0.4 if level == BundleLevel.LATTICE.name else 1.0, False
    base, rest = factor, 0.0
    for where in stream:
        before, number = market.total, len(market.bought)
        level = market.ask(where, tolerance)
        if len(market.bought) == number:
            continue
        assert not wide, "what is wide answers everything"
        if level in WIDE:
            wide = True
            assert market.total <= (factor + (2 if level is BundleLevel.TABLE else 1)) * best * (1 + 1e-3) + rest
        else:
            single = market.bought[-1][2]
            assert before / base + single <= best * (1 + 1e-3)  # allotments are within a thousandth of the least
            factor = max(factor, base + (0 if level is None else 2 if level in TABLES else 1))
            rest = max(rest, 0.6 * single)
            assert market.total <= factor * best * (1 + 1e-3) + rest
    assert market.total <= 5 * best * (1 + 1e-3)


def test_rent_is_used_once_a_level():
    market = Market(columns(6, 6), Neighbours.REPLACE, gaussian)
    first, second = market.domain.attributes
    stream = [
        conjunction(among(first, codes), among(second, others))
        for codes in combinations(range(6), 3)
        for others in combinations(range(6), 2)
    ]
    levels = [market.ask(where) for where in stream[:120]]
    bought = [level for level in levels if level is not None]
    assert bought, "nothing was bought"
    assert len([level for level in bought if level in WIDE]) <= 1  # after it everything is free
    for rent in market.knowledge.asked.rents:
        if rent.noise is not None and class_sets(rent.pattern) is not None:
            assert bought[0] in rent.used


def test_columns_that_come_one_by_one_do_not_buy_with_the_same_rent():
    """A lattice of a new column alone looks like one of the question's own columns: its receipt tells them apart."""
    market = Market(columns(8, 8, 8), Neighbours.REPLACE, gaussian)
    prices = []
    for attribute in market.domain.attributes:
        asked = 0
        for codes in combinations(range(8), 4):
            asked += 1
            if market.ask(among(attribute, codes)) is not None:
                break
        prices.append(asked)
    assert prices[0] > 2
    assert prices[1] > 1, "the first question about a column bought a lattice with rent that was used before"


def test_where_a_wide_lattice_is_too_large_only_rent_for_its_columns_counts():
    """Pairs of columns of 80 classes have too many residuals together, and none of them is asked about again."""
    market = Market(columns(*[80] * 24), Neighbours.ADD_REMOVE, gaussian)
    for first, second in combinations(market.domain.attributes[:16], 2):
        market.ask(conjunction(among(first, [1, 2]), among(second, [1, 2])))
    assert market.total <= 1.05 * market.rent
    assert all(not rent.used for rent in market.knowledge.asked.rents[-5:])


def test_a_bundle_that_costs_more_than_is_left_is_not_bought():
    rich, poor = (Market(columns(6, 4), Neighbours.REPLACE, gaussian) for _ in range(2))
    first, second = rich.domain.attributes
    stream = [
        conjunction(among(first, codes), among(second, [code]))
        for codes in combinations(range(6), 3)
        for code in range(4)
    ]
    assert any(rich.ask(where) is not None for where in stream)
    price = next(cost for level, cost, _ in rich.bought if level is not None)
    poor.left = price * 0.5
    assert all(poor.ask(where) is None for where in stream[: len(rich.bought)])


def test_a_table_is_widened_to_at_most_twice_its_price_and_to_what_is_left():
    for left in (math.inf, 1.3):
        market = Market(columns(3, 3, 2, 2, 2), Neighbours.REPLACE, pure)
        first, second = market.domain.attributes[:2]
        stream = [disjunction(among(first, [code]), among(second, [other])) for code in range(3) for other in range(3)]
        alone = next(
            bundle.price
            for bundle in market.rule.bundles(market.wanted(Block(stream[0]), 100.0), pure)
            if bundle.level is BundleLevel.TABLE
        )
        market.left = left * alone
        levels = [market.ask(where) for where in stream]
        assert BundleLevel.TABLE in levels
        cost = next(cost for level, cost, _ in market.bought if level is BundleLevel.TABLE)
        assert cost <= min(2, left) * alone * (1 + 1e-9)
        names = {classing.attribute for classing in market.knowledge.tables[0].classes}
        assert ({"c0", "c1"} < names) == (cost > alone) == (left > 2)


@pytest.mark.parametrize("neighbours", Neighbours)
def test_a_bundle_that_does_not_answer_a_count_accurately_enough_is_seen_before_it_is_bought(neighbours):
    market = Market(columns(3, 2, 2), neighbours, gaussian)
    first, second, third = market.domain.attributes
    narrow = market.wanted(Block(conjunction(among(first, [1]), among(second, [0]))), 100.0)
    other = market.wanted(Block(conjunction(among(first, [1]), among(third, [0]))), 100.0)
    sharper = market.wanted(narrow.block, 60.0)
    offered = list(market.rule.bundles(narrow, gaussian))
    assert {bundle.level for bundle in offered} >= {BundleLevel.SCOPE_LATTICE, BundleLevel.LATTICE, BundleLevel.TABLE}
    for bundle in offered:
        assert market.rule.answers(bundle, [narrow])
        assert not market.rule.answers(bundle, [narrow, other])
        assert not market.rule.answers(bundle, [sharper])


@pytest.mark.parametrize("neighbours", Neighbours)
def test_of_several_counts_each_is_bought_as_accurately_as_it_is_wanted_and_no_more(neighbours):
    market = Market(columns(3, 4, 5), neighbours, gaussian)
    first, second, third = market.domain.attributes
    blocks = [Block(conjunction(among(first, [0]), among(attribute, [1]))) for attribute in (second, third)]

    def cheapest(*tolerances: float):
        wanted = [market.wanted(block, tolerance) for block, tolerance in zip(blocks, tolerances, strict=True)]
        bundle = min(market.rule.whole(wanted, (gaussian,)), key=lambda own: own.price)
        assert market.rule.answers(bundle, wanted)
        return bundle

    mixed = cheapest(60.0, 240.0)
    assert not market.rule.answers(mixed, [market.wanted(blocks[1], 60.0)])
    assert cheapest(240.0, 240.0).price < mixed.price < 0.9 * cheapest(60.0, 60.0).price


@pytest.mark.parametrize("price", [pure, gaussian])
@pytest.mark.parametrize("neighbours", Neighbours)
def test_the_number_of_rows_is_answered_by_whatever_is_bought_for_it(neighbours, price):
    market = Market(columns(2, 2, 2), neighbours, price)
    market.ask(conjunction(*(among(attribute, [1]) for attribute in market.domain.attributes)))
    market.ask(EVERYTHING)  # asserts that it is answered
    assert market.free(Block(), 100.0)


def test_a_table_that_is_asked_for_is_bought_as_residuals_where_these_are_much_cheaper():
    for size, level in ((3, BundleLevel.LATTICE), (60, None), (900, None)):
        market = Market(columns(size, 2), Neighbours.REPLACE, gaussian)
        wanted = market.wanted(Block(keys=(Partition.of(market.domain.attributes[0]),)), 100.0)
        noise = widest_noise(Gaussian, 100.0, CONFIDENCE)
        single = gaussian(Measurement(Query(market.domain, (wanted.block,)), (noise,)).event(market.rule.unit))
        bundle = market.rule.choose(wanted, single, gaussian, math.inf)
        assert (None if bundle is None else bundle.level) is level


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("price", [pure, gaussian])
@settings(max_examples=examples(25), deadline=None, phases=FOUND)
@given(data=st.data())
def test_no_bundle_costs_less_than_what_is_said_before_it_is_designed(neighbours, price, data):
    domain = Domain((*columns(2, 3, 5).attributes, Integer("age", 0, 19)))
    market = Market(domain, neighbours, price)
    for _ in range(6):
        where = data.draw(conditions(domain))
        tolerance = data.draw(st.sampled_from([30.0, 100.0, 101.5, 400.0]))
        block = Block(where)
        costs = [
            price(
                Measurement(Query(domain, (block,)), (widest_noise(law, tolerance, CONFIDENCE),)).event(
                    market.rule.unit
                )
            )
            for law in (Laplace, Gaussian)
        ]
        for least, cost in market.least(where, tolerance, min(costs)):
            assert least <= cost * (1 + 1e-9)
        market.ask(where, tolerance)


def test_nothing_is_designed_before_the_rent_reaches_the_least_price_of_a_bundle():
    """A range of a wide column, counted by another: residuals cost several times as much as the answer itself."""
    domain = Domain((Integer("age", 0, 110), Category("sex", ["f", "m"])))
    market = Market(domain, Neighbours.ADD_REMOVE, gaussian)
    block = Block(among(domain["age"], range(65, 111)), (Partition.every(domain["sex"], 1),))
    wanted, noise = market.wanted(block, 100.0), widest_noise(Gaussian, 100.0, CONFIDENCE)
    single = gaussian(Measurement(Query(domain, (block,)), (noise,)).event(market.rule.unit))
    designs = plan_unit_variance.cache_info()
    assert market.rule.choose(wanted, single, gaussian, math.inf) is None
    assert plan_unit_variance.cache_info() == designs
    levels = {bundle.level for bundle in market.rule.bundles(wanted, gaussian)}
    assert levels == {BundleLevel.LATTICE, BundleLevel.TABLE, BundleLevel.SCOPE_LATTICE}
    assert plan_unit_variance.cache_info() != designs


@pytest.mark.parametrize("number", [8, 9, 16, 37, 85, 113, 256, 640])
def test_the_classes_of_a_column_weigh_nearly_the_same_in_waves(number):
    rows = base_rows(Base.RANGES, number).astype(float)
    weights = (rows**2).sum(axis=0)
    assert weights.mean() >= 0.98 * weights.max()
