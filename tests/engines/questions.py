"""Random questions: predicates, keys, weights and blocks."""

from __future__ import annotations

import math

from dodona.query.polynomial import Polynomial
from dodona.query.predicate import (
    NonNegative,
    Predicate,
    among_combinations,
    among_mask,
    complement,
    conjunction,
    disjunction,
)
from dodona.query.query import (
    MOST_TABLE,
    Block,
    CaseKey,
    ConstantWeight,
    Key,
    PolynomialWeight,
    TableWeight,
    ValueWeight,
    Weight,
)
from dodona.query.query import CaseWeight as WeightCases
from dodona.schema.attributes import Attribute
from dodona.schema.partition import Partition
from dodona.schema.schema import Domain
from tests.engines.columns import Draw, pick

_MOST_COMBINATIONS = 1 << 11


def predicate(domain: Domain, generator: Draw, *, depth: int = 2) -> Predicate:
    """A random formula over random sets of cells."""
    if depth == 0 or generator.random() < 0.3:
        attribute = domain.attributes[int(generator.integers(len(domain.attributes)))]
        chance = generator.choice([0.1, 0.5, 0.9])
        return among_mask(attribute, sum(1 << code for code in range(attribute.cells) if generator.random() < chance))
    join = conjunction if generator.random() < 0.5 else disjunction
    return join(*(predicate(domain, generator, depth=depth - 1) for _ in range(int(generator.integers(1, 4)))))


def table(domain: Domain, generator: Draw) -> Predicate:
    """A random set of combinations of cells of a few columns, as many as there is room for."""
    chosen: list[Attribute] = []
    for place in generator.permutation(len(domain.attributes))[:3]:
        attribute = domain.attributes[int(place)]
        if math.prod(column.cells for column in [*chosen, attribute]) <= _MOST_COMBINATIONS:
            chosen.append(attribute)
    members = generator.random(tuple(column.cells for column in chosen)) < generator.choice([0.1, 0.5, 0.9])
    return among_combinations(chosen, members)


def polynomial(domain: Domain, generator: Draw, *, degree: int = 2) -> Polynomial:
    """A random polynomial of two or three columns, with coefficients as large as 64 bits allow, or small ones."""
    chosen = [domain.attributes[int(place)] for place in generator.permutation(len(domain.attributes))[:3]]
    columns = {attribute.name: (attribute.size, attribute.cells) for attribute in chosen}
    largest = math.prod(attribute.size for attribute in chosen) ** degree
    size = int(pick(generator, [3, max(3, (1 << 58) // largest)]))
    terms = {}
    for _ in range(int(generator.integers(1, 5))):
        powers = tuple((attribute.name, int(generator.integers(degree + 1))) for attribute in chosen)
        terms[powers] = int(generator.integers(-size, size + 1))
    return Polynomial.of(columns, terms)


def comparison(domain: Domain, generator: Draw) -> Predicate:
    """A random comparison of columns, or all other rows."""
    nonnegative = NonNegative(polynomial(domain, generator, degree=1))
    return nonnegative if generator.random() < 0.5 else complement(nonnegative)


def key(domain: Domain, generator: Draw) -> Key:
    """A random key of any kind."""
    attribute = domain.attributes[int(generator.integers(len(domain.attributes)))]
    match int(generator.integers(4)):
        case 0:
            return CaseKey(
                tuple((f"case {i}", predicate(domain, generator)) for i in range(int(generator.integers(4)))), "no"
            )
        case 1:
            return Partition.of(attribute)
        case 2:
            return Partition.every(attribute, int(generator.integers(1, attribute.size + 1)))
        case _:
            cuts = sorted({0, *(int(cut) for cut in generator.integers(0, attribute.size, size=4))})
            return Partition.cut(attribute, tuple(cuts))


def weight(domain: Domain, generator: Draw, *, depth: int = 1) -> Weight:
    """A random weight of any kind, within 64 bits."""
    attribute = domain.attributes[int(generator.integers(len(domain.attributes)))]
    match int(generator.integers(4 if depth else 3)):
        case 0:
            return ConstantWeight(int(pick(generator, [1, 1, 1, -3, 0, 2**58, -(2**58) + 1])))
        case 1:
            return ValueWeight(
                attribute.name, attribute.size, int(generator.integers(-9, 9)), int(generator.integers(-9, 9)), 2
            )
        case 2:
            offset = int(pick(generator, [0, -5, 2**31, 2**53, 2**58, -(2**58)]))
            return ValueWeight(attribute.name, attribute.size, offset, int(pick(generator, [1, -1, 2**20])), 1)
        case _:
            branches = ((predicate(domain, generator), weight(domain, generator, depth=0)) for _ in range(2))
            return WeightCases(tuple(branches), weight(domain, generator, depth=0))


def computed(domain: Domain, generator: Draw) -> Weight:
    """A random polynomial, or a random number for each cell of a column."""
    chosen = [domain.attributes[int(place)] for place in generator.permutation(len(domain.attributes))[:2]]
    chosen.sort(key=lambda own: own.name)
    shape = tuple(attribute.cells for attribute in chosen)
    if generator.random() < 0.5 or math.prod(shape) > MOST_TABLE:
        return PolynomialWeight(polynomial(domain, generator))
    largest = int(pick(generator, [3, 1 << 58]))
    numbers = tuple(map(int, generator.integers(-largest, largest, size=math.prod(shape))))
    return TableWeight(tuple(attribute.name for attribute in chosen), shape, numbers)


def block(domain: Domain, generator: Draw, *, weights: str = "any") -> Block:
    """A random block; with small weights, many of them fit into one query."""
    keys = tuple(key(domain, generator) for _ in range(int(generator.choice([0, 0, 1, 1, 2]))))
    if weights == "small":
        return Block(predicate(domain, generator), keys, ConstantWeight(int(pick(generator, [1, 1, 1, -3, 5000]))))
    return Block(predicate(domain, generator), keys, weight(domain, generator))
