"""Beliefs read the slow way: every cell a row of its own, every answer a sum over all of them."""

import itertools

import numpy as np

from dodona.knowledge.cells import Support
from dodona.query.predicate import Predicate
from dodona.query.query import Block, Query
from dodona.schema.attributes import Boolean, Category
from dodona.schema.schema import Domain
from tests.query.drawing import contribution, is_meant


def bits(number: int) -> Domain:
    return Domain(tuple(Boolean(f"b{place:02}") for place in range(number)))


def cells_of(size: int) -> Domain:
    return Domain((Category("cell", [str(place) for place in range(size)]),))


def rows(support: Support):
    names = support.domain.names
    for codes in itertools.product(*(support.codes[name].tolist() for name in names)):
        yield dict(zip(names, codes, strict=True))


def inside(where: Predicate, support: Support) -> np.ndarray:
    return np.array([is_meant(where, row) for row in rows(support)])


def matrix(block: Block, support: Support) -> np.ndarray:
    """What each cell adds to each answer."""
    weights = np.zeros((block.values, support.size))
    for place, row in enumerate(rows(support)):
        groups, weight = contribution(block, row)
        number = 0
        for key, group in zip(block.keys, groups, strict=True):
            number = number * key.groups + group
        weights[number, place] += weight
    return weights


def answers(query: Query, support: Support, law: np.ndarray) -> np.ndarray:
    return np.concatenate([matrix(block, support) @ law.reshape(-1) for block in query.blocks])


def relative_entropy(first: np.ndarray, second: np.ndarray) -> float:
    first, second = first.reshape(-1), second.reshape(-1)
    seen = first > 0
    return float((first[seen] * np.log(first[seen] / second[seen])).sum())


def random_law(support: Support, rng: np.random.Generator, *, sharpness: float = 1.0) -> np.ndarray:
    law = rng.gamma(1 / sharpness, size=support.size) + 1e-9
    return law / law.sum()
