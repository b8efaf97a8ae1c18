"""Made-up queries over a tiny domain, and a slow reading of them, one row at a time."""

import itertools
import math
from fractions import Fraction

import numpy as np
from hypothesis import strategies as st

from dodona.query import query as weights
from dodona.query.polynomial import MOST_DEGREE, Polynomial
from dodona.query.predicate import (
    EVERYTHING,
    NOTHING,
    Among,
    And,
    Jointly,
    NonNegative,
    Or,
    Predicate,
    among_mask,
    complement,
    conjunction,
    disjunction,
    non_negative,
    simplify_combinations,
)
from dodona.query.query import Block, CaseKey, ConstantWeight, Key, Query, ValueWeight, Weight
from dodona.schema.attributes import Attribute, Boolean, Category, Integer, Number
from dodona.schema.partition import Partition
from dodona.schema.schema import Domain

DOMAIN = Domain((Boolean("emergency"), Category("sex", ["female"]), Integer("age", 3, 7, bins=[3, 5, 7])))
MIXED = Domain(
    (
        Boolean("emergency", otherwise=True),
        Category("sex", ["female"]),
        Integer("age", 3, 7, bins=[3, 5, 7], otherwise=4),
        Category("ward", ["a", "b", "c"], otherwise="b"),
    )
)
"""Some of its columns have no `<missing>` and `<outside>`."""
LARGE = Domain(
    (*DOMAIN.attributes, Number("stay", Fraction(0), Fraction(20), Fraction(1, 4)), Integer("visits", 0, 97))
)
Row = dict[str, int]


def tables(domain: Domain = DOMAIN, *, largest: int = 1 << 12) -> st.SearchStrategy[Predicate]:
    """Any set of combinations of cells of two or three columns; as it is written, and in its simplest form."""

    def drawn(chosen: tuple[Attribute, ...]) -> st.SearchStrategy[Predicate]:
        names, shape = tuple(attribute.name for attribute in chosen), tuple(attribute.cells for attribute in chosen)
        bits = st.integers(0, (1 << math.prod(shape)) - 1)
        raw = bits.map(lambda codes: Jointly(names, shape, codes))
        return raw | bits.map(lambda codes: simplify_combinations(Jointly(names, shape, codes)))

    ordered = sorted(domain, key=lambda own: own.name)
    several = [chosen for size in (2, 3) for chosen in itertools.combinations(ordered, size)]
    return st.sampled_from(
        [attributes for attributes in several if math.prod(each.cells for each in attributes) <= largest]
    ).flatmap(drawn)


def polynomials(domain: Domain = DOMAIN, *, largest: int = 5) -> st.SearchStrategy[Polynomial]:
    """Any polynomial of one to three columns; mostly products of first powers, as SQL makes them."""

    def drawn(chosen: list[Attribute]) -> st.SearchStrategy[Polynomial]:
        columns = {attribute.name: (attribute.size, attribute.cells) for attribute in chosen}
        powers = st.sampled_from([0, 0, 1, 1, 1, 2])
        terms = st.tuples(*[powers] * len(chosen)).map(lambda found: tuple(zip(columns, found, strict=True)))
        allowed = terms.filter(lambda found: sum(power for _, power in found) <= MOST_DEGREE)
        numbers = st.dictionaries(allowed, st.integers(-largest, largest), max_size=4)
        return numbers.map(lambda found: Polynomial.of(columns, found))

    several = st.lists(st.sampled_from(domain.attributes), min_size=1, max_size=3, unique_by=lambda own: own.name)
    return several.flatmap(drawn)


def predicates(domain: Domain = DOMAIN) -> st.SearchStrategy[Predicate]:
    sets = st.sampled_from(domain.attributes).flatmap(
        lambda attribute: st.integers(0, (1 << attribute.cells) - 1).map(lambda codes: among_mask(attribute, codes))
    )
    raw = st.sampled_from(domain.attributes).flatmap(
        lambda attribute: st.integers(0, (1 << attribute.cells) - 1).map(
            lambda codes: Among(attribute.name, attribute.cells, codes)
        )
    )
    compared = polynomials(domain).map(NonNegative) | polynomials(domain).map(non_negative)
    fixed = st.sampled_from([EVERYTHING, NOTHING])
    leaves: st.SearchStrategy[Predicate] = sets | raw | tables(domain) | compared | fixed
    return st.recursive(
        leaves,
        lambda parts: (
            st.lists(parts, max_size=3).map(lambda found: conjunction(*found))
            | st.lists(parts, max_size=3).map(lambda found: disjunction(*found))
            | st.lists(parts, max_size=3).map(lambda found: And(tuple(found)))
            | st.lists(parts, max_size=3).map(lambda found: Or(tuple(found)))
            | parts.map(complement)
        ),
        max_leaves=6,
    )


def all_weights(domain: Domain = DOMAIN, *, largest: int = 5) -> st.SearchStrategy[Weight]:
    constants = st.integers(-largest, largest).map(ConstantWeight)
    values = st.builds(
        lambda attribute, offset, factor, power: ValueWeight(attribute.name, attribute.size, offset, factor, power),
        st.sampled_from(domain.attributes),
        st.integers(-largest, largest),
        st.integers(-3, 3),
        st.integers(1, 3),
    )
    several = st.lists(st.sampled_from(domain.attributes), min_size=1, max_size=2, unique_by=lambda own: own.name)
    listed = several.flatmap(lambda chosen: number_tables(chosen, largest=largest))
    return st.recursive(
        constants | values | listed | polynomials(domain, largest=largest).map(weights.PolynomialWeight),
        lambda parts: st.builds(
            lambda branches, otherwise: weights.CaseWeight(tuple(branches), otherwise),
            st.lists(st.tuples(predicates(domain), parts), max_size=2),
            parts,
        ),
        max_leaves=3,
    )


def number_tables(chosen: list[Attribute], *, largest: int) -> st.SearchStrategy[Weight]:
    """A number for each combination of cells; often the same one."""
    ordered = sorted(chosen, key=lambda own: own.name)
    names, shape = tuple(attribute.name for attribute in ordered), tuple(attribute.cells for attribute in ordered)
    arguments = st.tuples(st.integers(0, 1 << 32), st.lists(st.integers(-largest, largest), min_size=1, max_size=4))

    def filled(seed: int, numbers: list[int]) -> Weight:
        places = np.random.default_rng(seed).integers(len(numbers), size=math.prod(shape))
        return weights.TableWeight(names, shape, tuple(numbers[place] for place in places))

    return arguments.map(lambda drawn: filled(*drawn))


def all_keys(domain: Domain = DOMAIN) -> st.SearchStrategy[tuple[Key, ...]]:
    partitions = st.builds(Partition.every, st.sampled_from(domain.attributes), st.integers(1, 3)) | st.sampled_from(
        domain.attributes
    ).map(Partition.of)
    cases = st.lists(predicates(domain), max_size=3).map(
        lambda found: CaseKey(tuple((f"case {number}", predicate) for number, predicate in enumerate(found)), "else")
    )
    return st.lists(partitions | cases, max_size=2, unique_by=lambda key: getattr(key, "attribute", key)).map(tuple)


def blocks(domain: Domain = DOMAIN) -> st.SearchStrategy[Block]:
    weighed = all_weights(domain) | st.just(ConstantWeight(1))
    return st.builds(Block, predicates(domain), st.just(()) | all_keys(domain), weighed)


def queries(domain: Domain = DOMAIN, *, most: int = 3) -> st.SearchStrategy[Query]:
    return st.lists(blocks(domain), min_size=1, max_size=most).map(lambda found: Query(domain, tuple(found)))


def is_meant(predicate: Predicate, row: Row) -> bool:
    match predicate:
        case Among(name, _, codes):
            return codes >> row[name] & 1 == 1
        case Jointly(names, shape, codes):
            place = 0
            for name, number in zip(names, shape, strict=True):
                place = place * number + row[name]
            return codes >> place & 1 == 1
        case NonNegative(polynomial):
            return (polynomial_in(polynomial, row) or 0) >= 0 and polynomial_in(polynomial, row) is not None
        case And(parts):
            return all(is_meant(part, row) for part in parts)
        case Or(parts):
            return any(is_meant(part, row) for part in parts)


def polynomial_in(polynomial: Polynomial, row: Row) -> int | None:
    """The value in one row; None where a column has no value."""
    if any(row[name] >= size for name, size in zip(polynomial.names, polynomial.sizes, strict=True)):
        return None
    total = 0
    for exponents, number in polynomial.terms:
        for name, power in zip(polynomial.names, exponents, strict=True):
            number *= row[name] ** power  # noqa: PLW2901
        total += number
    return total


def weight_in(weight: Weight, row: Row) -> int:
    match weight:
        case ConstantWeight(number):
            return number
        case ValueWeight(name, size, offset, factor, power):
            return (offset + factor * row[name]) ** power if row[name] < size else 0
        case weights.TableWeight(names, shape, numbers):
            place = 0
            for name, number in zip(names, shape, strict=True):
                place = place * number + row[name]
            return numbers[place]
        case weights.PolynomialWeight(polynomial):
            return polynomial_in(polynomial, row) or 0
        case weights.CaseWeight(branches, otherwise):
            return next(
                (weight_in(branch, row) for where, branch in branches if is_meant(where, row)),
                weight_in(otherwise, row),
            )


def group_in(key: Key, row: Row) -> int:
    if isinstance(key, CaseKey):
        matching = (number for number, (_, where) in enumerate(key.branches) if is_meant(where, row))
        return next(matching, len(key.branches))
    code = row[key.attribute]
    if code >= key.size:
        return len(key.cuts) + code - key.size
    return sum(cut <= code for cut in key.cuts) - 1


def contribution(block: Block, row: Row) -> tuple[tuple[int, ...], int]:
    """The group of a row, and what it adds there."""
    number = weight_in(block.weight, row) if is_meant(block.where, row) else 0
    return tuple(group_in(key, row) for key in block.keys), number
