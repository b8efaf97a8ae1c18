"""What a polynomial can be where a condition compares it with numbers, and what a clamp of a product costs."""

from __future__ import annotations

import itertools
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dodona.query.polynomial import MOST_DEGREE, Polynomial, Powers
from dodona.query.predicate import EVERYTHING, And, NonNegative, Or, Predicate, complement, conjunction
from dodona.query.query import Block, CaseWeight, PolynomialWeight, Query, weight_range
from dodona.query.ranges import polynomial_range
from dodona.query.sensitivity import row_sensitivity
from dodona.schema.attributes import Integer, Number
from dodona.schema.schema import Neighbours, Schema
from dodona.sql.compile import compile_sql
from tests.house.shares import examples
from tests.query.drawing import DOMAIN, all_weights, contribution, is_meant, polynomial_in, polynomials, predicates


def squared(polynomial: Polynomial) -> Polynomial:
    """Return the square, or the polynomial itself if its degree is too high."""
    terms: dict[Powers, int] = {}
    listed = list(zip(polynomial.powers(), (number for _, number in polynomial.terms), strict=True))
    for (monomial, first), (other, second) in itertools.product(listed, repeat=2):
        powers = dict(monomial)
        for name, power in other:
            powers[name] = powers.get(name, 0) + power
        if sum(powers.values()) > MOST_DEGREE:
            return polynomial
        both = tuple(sorted(powers.items()))
        terms[both] = terms.get(both, 0) + first * second
    sizes = dict(zip(polynomial.names, zip(polynomial.sizes, polynomial.cells, strict=True), strict=True))
    return Polynomial.of(sizes, terms)


@st.composite
def compared(draw: st.DrawFn) -> tuple[Polynomial, Predicate]:
    """A polynomial, and a condition that compares it or a multiple of it with numbers, among other things."""
    polynomial = draw(polynomials())

    def comparison(least: int, *, negative: bool) -> Predicate:
        moved = (polynomial.negative() if negative else polynomial).plus(least)
        return NonNegative(moved) if moved.terms else EVERYTHING

    tests = st.builds(comparison, st.integers(-30, 30), negative=st.booleans())
    some = st.recursive(
        tests | tests.map(complement) | predicates(),
        lambda parts: (
            st.lists(parts, min_size=1, max_size=3).map(lambda found: And(tuple(found)))
            | st.lists(parts, min_size=1, max_size=3).map(lambda found: Or(tuple(found)))
            | parts.map(complement)
        ),
        max_leaves=5,
    )
    changed = draw(
        st.sampled_from(
            [polynomial, polynomial.plus(3), polynomial.negative(), squared(polynomial), squared(polynomial.plus(-2))]
        )
    )
    return changed, draw(some)


@given(compared())
@settings(max_examples=examples(120), deadline=None)
def test_no_row_of_the_condition_has_a_value_beyond_the_range(drawn: tuple[Polynomial, Predicate]) -> None:
    polynomial, where = drawn
    low, high = polynomial_range(polynomial, where)
    for codes in itertools.product(*(range(attribute.cells) for attribute in DOMAIN)):
        row = dict(zip(DOMAIN.names, codes, strict=True))
        value = polynomial_in(polynomial, row)
        if value is not None and is_meant(where, row):
            assert low <= value <= high


@given(all_weights(), predicates())
@settings(max_examples=examples(80), deadline=None)
def test_no_row_of_a_block_has_a_weight_beyond_its_range(weight: object, where: Predicate) -> None:
    low, high = weight_range(weight, where)  # type: ignore[arg-type]
    block = Block(where, (), weight)  # type: ignore[arg-type]
    for codes in itertools.product(*(range(attribute.cells) for attribute in DOMAIN)):
        row = dict(zip(DOMAIN.names, codes, strict=True))
        if is_meant(where, row):
            assert low <= contribution(block, row)[1] <= high


WIDE = Schema.of(
    "orders", Integer("quantity", 1, 1000), Number("price", 0, 2000, "0.5"), Integer("weight", 0, 100_000), size=1_000
)


@pytest.mark.parametrize(
    ("sql", "largest"),
    [
        ("sum(quantity * price)", 2_000_000),
        ("sum(least(greatest(quantity * price, 0), 1000))", 1_000),
        ("sum(least(quantity * price, 1000))", 1_000),
        ("sum(greatest(-50, least(50, quantity - weight)))", 50),
        ("sum(CASE WHEN quantity * price < 500 THEN quantity * price END)", Fraction(999, 2)),
        ("sum(quantity * price) FILTER (WHERE quantity * price <= 300)", 300),
        ("sum(CASE WHEN quantity * price > 500 THEN 500 ELSE quantity * price END)", 500),
        ("sum(CASE WHEN quantity * price > 500 THEN quantity * price ELSE 0 END)", 2_000_000),
    ],
)
def test_a_sum_of_clamped_products_costs_what_the_clamp_allows(sql: str, largest: Fraction) -> None:
    question = compile_sql(f"SELECT {sql} FROM orders", WIDE)  # noqa: S608  written above
    (block,) = question.query.blocks
    assert row_sensitivity(question.query, Neighbours.ADD_REMOVE).linf * block.unit == largest


def test_a_spread_of_clamped_differences_costs_the_square_of_the_clamp() -> None:
    query = compile_sql("SELECT var_pop(least(greatest(quantity - weight, -10), 10)) FROM orders", WIDE).query
    assert [row_sensitivity(query.part(place), Neighbours.ADD_REMOVE).linf for place in range(3)] == [10, 1, 100]


def test_a_later_branch_is_bounded_by_those_before_it_and_an_earlier_one_is_not() -> None:
    product = Polynomial.of({"quantity": (1000, 1002), "price": (4001, 4003)}, {(("price", 1), ("quantity", 1)): 1})
    small = NonNegative(product.negative().plus(100))
    inside = CaseWeight(((small, PolynomialWeight(product)),), PolynomialWeight(product))
    assert weight_range(inside) == (0, product.bounds()[1])
    assert weight_range(inside, small) == (0, 100)
    large = NonNegative(product.plus(-5000))
    assert weight_range(PolynomialWeight(product), Or((small, large))) == (0, product.bounds()[1])
    assert weight_range(PolynomialWeight(product), Or((small, And((large, small))))) == (0, 100)
    query = Query(WIDE.domain, (Block(conjunction(small), (), PolynomialWeight(product)),))
    assert row_sensitivity(query, Neighbours.ADD_REMOVE).linf == 100
