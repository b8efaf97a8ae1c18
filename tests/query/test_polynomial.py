"""Polynomials of columns: their one form, their bounds, and the sensitivity of sums of them."""

import itertools
from fractions import Fraction

import pytest
from hypothesis import given, settings

from dodona.errors import InvalidArgument
from dodona.query.canonical import query_digest
from dodona.query.polynomial import LARGEST_VALUE, Polynomial, reduce_comparison
from dodona.query.predicate import EVERYTHING, NOTHING, NonNegative, among_mask, complement, conjunction, non_negative
from dodona.query.query import Block, PolynomialWeight, Query, TableWeight, ValueWeight
from dodona.query.sensitivity import row_sensitivity
from dodona.schema.attributes import Boolean, Category, Integer, Number
from dodona.schema.partition import Partition
from dodona.schema.schema import Domain, Neighbours
from tests.house.shares import examples
from tests.query.drawing import DOMAIN, is_meant, polynomial_in, polynomials
from tests.query.test_effect import norms, paired

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE
ORDERS = Domain(
    (
        Integer("quantity", 1, 50),
        Number("price", Fraction(0), Fraction(1000), Fraction(1, 100)),
        Integer("discount", 0, 10),
        Category("region", ["north", "south"]),
    )
)
SMALL = Domain((Integer("a", -3, 4), Integer("b", 1, 6), Boolean("late")))


def columns(domain: Domain, *names: str) -> dict[str, tuple[int, int]]:
    return {name: (domain[name].size, domain[name].cells) for name in names}


REVENUE = Polynomial.of(columns(ORDERS, "quantity", "price"), {(("quantity", 1), ("price", 1)): 1, (("price", 1),): 1})
"""quantity * price in cents: quantities begin with 1, so a code of 0 means one."""


@settings(max_examples=examples(150), deadline=None)
@given(polynomials())
def test_the_bounds_hold_for_all_codes_and_are_attained_by_products(polynomial: Polynomial) -> None:
    values = [polynomial.at(codes) for codes in itertools.product(*map(range, polynomial.sizes))]
    low, high = polynomial.bounds()
    assert low <= min(values)
    assert max(values) <= high
    assert polynomial.magnitude >= max(map(abs, values))
    if max(polynomial.degrees) <= 1:
        assert (low, high) == (min(values), max(values))


@settings(max_examples=examples(100), deadline=None)
@given(polynomials())
def test_a_comparison_and_all_other_rows_are_told_apart(polynomial: Polynomial) -> None:
    simple, reduced = non_negative(polynomial), NonNegative(reduce_comparison(polynomial))
    other = complement(NonNegative(polynomial))
    cells = itertools.product(*(range(DOMAIN[name].cells) for name in polynomial.names))
    for codes in cells:
        row = dict(zip(polynomial.names, codes, strict=True))
        value = polynomial_in(polynomial, row)
        true = value is not None and value >= 0
        assert is_meant(simple, row) == is_meant(reduced, row) == true
        assert is_meant(other, row) == (not true)


def test_a_polynomial_has_one_form_however_it_is_written() -> None:
    known = columns(SMALL, "b", "late", "a")
    polynomial = Polynomial.of(known, {(("late", 2), ("a", 1)): 3, (("b", 1),): 0, (): 5, (("a", 1), ("late", 1)): -1})
    two = Polynomial.of(dict(reversed(known.items())), {(): 5, (("a", 1), ("late", 1)): 2})
    assert polynomial == two
    assert polynomial.terms == (((0, 0, 0), 5), ((1, 0, 1), 2))


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ((("b", "a"), (2, 3), (4, 5), (((0, 1), 1),)), "in order"),
        ((("a",), (9,), (11,), (((1,), 0),)), "no term of 0"),
        ((("a",), (9,), (11,), (((2,), 1), ((1,), 1))), "terms in order"),
        ((("a",), (9,), (11,), (((9,), 1),)), "degree 0 to 8"),
        ((("a",), (2,), (4,), (((2,), 1),)), "first power"),
        ((("a",), (9,), (11,), (((1,), LARGEST_VALUE),)), "2\\^61"),
        ((("a",), (9,), (11,), (((1,), True),)), "whole numbers"),
        (((), (), (), ()), "at least one"),
    ],
)
def test_what_is_not_in_the_one_form_is_refused(parts: tuple[tuple[object, ...], ...], words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        Polynomial(*parts)  # type: ignore[arg-type]


def test_a_polynomial_for_other_columns_of_the_same_names_is_refused() -> None:
    other = Polynomial.of({"a": (9, 11)}, {(("a", 1),): 1})
    for block in (Block(weight=PolynomialWeight(other)), Block(NonNegative(other))):
        with pytest.raises(InvalidArgument, match="8 values and 10 cells"):
            Query(SMALL, (block,))
    with pytest.raises(InvalidArgument, match="a number for each combination"):
        Query(SMALL, (Block(weight=TableWeight(("a",), (10,), (1, 2))),))


@pytest.mark.parametrize(("relation", "largest"), [(ADD, 5_000_000), (REPLACE, 5_000_000)])
def test_a_product_of_wide_columns_moves_by_its_largest_corner(relation: Neighbours, largest: int) -> None:
    """Fifty pieces at 1,000.00 are five million cents; five million combinations are not walked through."""
    weight = PolynomialWeight(REVENUE)
    assert norms(row_sensitivity(Query(ORDERS, (Block(weight=weight),)), relation)) == (largest, largest**2, largest)
    few = conjunction(among_mask(ORDERS["quantity"], 0b111), among_mask(ORDERS["price"], (1 << 1001) - 1))
    assert row_sensitivity(Query(ORDERS, (Block(few, weight=weight),)), relation).linf == 3 * 1000
    by = (Partition.of(ORDERS["region"]),)
    grouped = row_sensitivity(Query(ORDERS, (Block(keys=by, weight=weight),)), relation)
    assert grouped.l1 == (largest if relation is ADD else 2 * largest)


def test_a_power_among_wide_columns_is_never_priced_too_low() -> None:
    """x² - 10x is largest in size inside its range, at 5, and the columns beside it are too many to walk through."""
    domain = Domain((Integer("x", 0, 9), Integer("y", 0, 90), Integer("z", 0, 150)))
    terms = {(("x", 2),): 1, (("x", 1),): -10, (("y", 1), ("z", 1)): 0}
    weight = PolynomialWeight(Polynomial.of(columns(domain, "x", "y", "z"), terms))
    for relation in Neighbours:
        assert row_sensitivity(Query(domain, (Block(weight=weight),)), relation).linf >= 25
    alone = PolynomialWeight(Polynomial.of(columns(domain, "x"), {(("x", 2),): 1, (("x", 1),): -10}))
    wide = among_mask(domain["y"], 1) | among_mask(domain["z"], 1)
    assert row_sensitivity(Query(domain, (Block(wide, (), alone),)), ADD).linf == 25


def test_a_comparison_of_wide_columns_leaves_the_price_of_a_sum_as_it_is() -> None:
    """More combinations than are walked through: the sum is priced by its own range."""
    dear = NonNegative(
        Polynomial.of(columns(ORDERS, "quantity", "price"), {(("price", 1),): 1, (("quantity", 1),): -7})
    )
    weight = ValueWeight("discount", 11, 0, 1)
    for relation in Neighbours:
        assert norms(row_sensitivity(Query(ORDERS, (Block(dear, (), weight),)), relation)) == (10, 100, 10)
        assert row_sensitivity(Query(ORDERS, (Block(dear),)), relation).l1 == 1


FIELD = Domain((Integer("a", 0, 60), Integer("b", 0, 60)))
"""More cells than are all taken without a reason, and few enough to be walked through."""


def test_a_comparison_decides_which_codes_are_the_largest() -> None:
    """A is at most half of b, so at most 30, which is neither an end of a run nor next to 0."""
    half = NonNegative(Polynomial.of(columns(FIELD, "a", "b"), {(("b", 1),): 1, (("a", 1),): -2}))
    query = Query(FIELD, (Block(half, (), ValueWeight("a", 61, 0, 1)),))
    assert norms(row_sensitivity(query, ADD)) == (30, 900, 30)
    assert norms(row_sensitivity(query, REPLACE)) == (30, 900, 30)


def test_one_combination_of_a_table_decides_its_price() -> None:
    numbers = [0] * 63 * 63
    numbers[17 * 63 + 23] = 100
    query = Query(FIELD, (Block(weight=TableWeight(("a", "b"), (63, 63), tuple(numbers))),))
    for relation in Neighbours:
        assert norms(row_sensitivity(query, relation)) == (100, 10_000, 100)


@pytest.mark.parametrize("relation", Neighbours)
def test_sums_products_and_their_rows_together_move_as_a_walk_says(relation: Neighbours) -> None:
    product = Polynomial.of(
        columns(SMALL, "a", "b"), {(("a", 1), ("b", 1)): 1, (("a", 1),): 1, (("b", 1),): -3, (): -3}
    )
    above = non_negative(Polynomial.of(columns(SMALL, "a", "b"), {(("a", 1),): 1, (("b", 1),): -1}))
    blocks = (
        Block(above, (Partition.of(SMALL["late"]),), PolynomialWeight(product)),
        Block(complement(above), (), PolynomialWeight(product.negative())),
        Block(above),
    )
    for chosen in (blocks[:1], blocks[1:2], blocks):
        query = Query(SMALL, chosen)
        assert norms(row_sensitivity(query, relation)) == paired(query, relation)


def test_the_same_product_is_the_same_question_with_few_cells_and_with_many() -> None:
    few = columns(SMALL, "a", "b")
    polynomial = Polynomial.of(few, {(("a", 1), ("b", 1)): 1})
    table = [a * b if a < 8 and b < 6 else 0 for a in range(10) for b in range(8)]
    listed = TableWeight(("a", "b"), (10, 8), tuple(table))
    blocks = [Block(weight=PolynomialWeight(polynomial)), Block(weight=listed)]
    assert len({query_digest(Query(SMALL, (block,))) for block in blocks}) == 1
    assert query_digest(Query(ORDERS, (Block(weight=PolynomialWeight(REVENUE)),))) != query_digest(
        Query(ORDERS, (Block(weight=PolynomialWeight(REVENUE.plus(1))),))
    )


def test_a_comparison_that_always_or_never_holds_is_simplified() -> None:
    always = Polynomial.of(columns(ORDERS, "quantity", "price"), {(("price", 1),): 1, (): 3})
    present = conjunction(*(among_mask(ORDERS[name], (1 << ORDERS[name].size) - 1) for name in ("quantity", "price")))
    assert non_negative(always) == present
    assert non_negative(always.negative()) == NOTHING
    whole = Domain((Integer("a", 0, 4, otherwise=0), Integer("b", 0, 4, otherwise=1)))
    assert non_negative(Polynomial.of(columns(whole, "a", "b"), {(): 0})) == EVERYTHING
