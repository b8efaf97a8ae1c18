"""Random questions: predicates, keys, weights and blocks."""

from __future__ import annotations

import math

from dodona.domain.attribute import Attribute, cells
from dodona.domain.domain import Domain
from dodona.domain.partition import Partition
from dodona.query.jointly import jointly
from dodona.query.predicate import Predicate, both, either, masked
from dodona.query.query import Block, Cases, Key
from dodona.query.weight import Cases as WeightCases
from dodona.query.weight import Constant, Value, Weight
from tests.backends.columns import Draw, pick

_MOST_COMBINATIONS = 1 << 11


def predicate(domain: Domain, generator: Draw, *, depth: int = 2) -> Predicate:
    """A random formula over random sets of cells."""
    if depth == 0 or generator.random() < 0.3:
        attribute = domain.attributes[int(generator.integers(len(domain.attributes)))]
        chance = generator.choice([0.1, 0.5, 0.9])
        return masked(attribute, sum(1 << code for code in range(cells(attribute)) if generator.random() < chance))
    join = both if generator.random() < 0.5 else either
    return join(*(predicate(domain, generator, depth=depth - 1) for _ in range(int(generator.integers(1, 4)))))


def table(domain: Domain, generator: Draw) -> Predicate:
    """A random set of combinations of cells of a few columns, as many as there is room for."""
    chosen: list[Attribute] = []
    for place in generator.permutation(len(domain.attributes))[:3]:
        attribute = domain.attributes[int(place)]
        if math.prod(map(cells, [*chosen, attribute])) <= _MOST_COMBINATIONS:
            chosen.append(attribute)
    members = generator.random(tuple(map(cells, chosen))) < generator.choice([0.1, 0.5, 0.9])
    return jointly(chosen, members)


def key(domain: Domain, generator: Draw) -> Key:
    """A random key of any kind."""
    attribute = domain.attributes[int(generator.integers(len(domain.attributes)))]
    match int(generator.integers(4)):
        case 0:
            return Cases(
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
            return Constant(int(pick(generator, [1, 1, 1, -3, 0, 2**58, -(2**58) + 1])))
        case 1:
            return Value(
                attribute.name, attribute.size, int(generator.integers(-9, 9)), int(generator.integers(-9, 9)), 2
            )
        case 2:
            offset = int(pick(generator, [0, -5, 2**31, 2**53, 2**58, -(2**58)]))
            return Value(attribute.name, attribute.size, offset, int(pick(generator, [1, -1, 2**20])), 1)
        case _:
            branches = ((predicate(domain, generator), weight(domain, generator, depth=0)) for _ in range(2))
            return WeightCases(tuple(branches), weight(domain, generator, depth=0))


def block(domain: Domain, generator: Draw, *, weights: str = "any") -> Block:
    """A random block; with small weights, many of them fit into one query."""
    keys = tuple(key(domain, generator) for _ in range(int(generator.choice([0, 0, 1, 1, 2]))))
    if weights == "small":
        return Block(predicate(domain, generator), keys, Constant(int(pick(generator, [1, 1, 1, -3, 5000]))))
    return Block(predicate(domain, generator), keys, weight(domain, generator))
