"""Numbers that follow from the same residuals: how their errors vary together."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from dodona.curator.demands import find_block_pattern
from dodona.knowledge.joint import joint_law
from dodona.knowledge.residuals import ResidualStore
from dodona.knowledge.summed import find_rows_pattern, find_sum_pattern, follow
from dodona.query.bases import Base
from dodona.query.predicate import among, conjunction
from dodona.query.query import Block, ValueWeight
from dodona.query.residual import Classes, Residual
from dodona.schema.attributes import Boolean, Category, Integer
from dodona.schema.partition import Partition
from dodona.schema.schema import Domain

DOMAIN = Domain(
    (Boolean("urgent", otherwise=False), Category("ward", ["a", "b", "c"], otherwise="a"), Integer("age", 0, 8))
)
COUNTED = [Classes.of(DOMAIN[name]) for name in ("urgent", "ward")]
AGES = [Classes.of(DOMAIN["age"]), Classes.of(DOMAIN["age"]).based(Base.RANGES)]
SUMMED = [Classes.summed(DOMAIN["age"]), Classes.summed(DOMAIN["age"], 2)]
URGENT, WARDS = among(DOMAIN["urgent"], [1]), among(DOMAIN["ward"], [0, 2])
SOME, KNOWN = among(DOMAIN["age"], [2, 3, 4]), among(DOMAIN["age"], range(9))
KEYS = (Partition.of(DOMAIN["ward"]),)
PARTS = [
    (Residual((*counted, *own)), Fraction(40 + 3 * place), base)
    for place, own in enumerate([(), *[(age,) for age in (*AGES, *SUMMED)]])
    for size in range(3)
    for counted in combinations(COUNTED, size)
    for base in [place]
]


def store_with(moved=None):
    """All residuals with numbers of 0, but for one of one of them."""
    store = ResidualStore(total=None)
    for place, (residual, variance, _) in enumerate(PARTS):
        values = np.zeros(residual.number, dtype=np.int64)
        if moved is not None and moved[0] == place:
            values[moved[1]] = 1
        store.add(residual, values, variance)
    return store


def patterns_of(blocks):
    total = find_sum_pattern(blocks[0], DOMAIN)
    second = None if total is None else find_rows_pattern(blocks[1], DOMAIN, total)
    return total or find_block_pattern(blocks[0], DOMAIN), second or find_block_pattern(blocks[1], DOMAIN)


def weighed(where, keys=(), offset=-4, power=1):
    return Block(where, keys, ValueWeight("age", 9, offset, 1, power))


@pytest.mark.parametrize(
    "blocks",
    [
        (Block(conjunction(URGENT, WARDS)), Block(WARDS)),
        (Block(conjunction(URGENT, SOME), KEYS), Block(SOME, KEYS)),
        (Block(URGENT), Block(WARDS)),
        (Block(conjunction(URGENT, SOME)), Block(conjunction(WARDS, SOME))),
        (weighed(conjunction(KNOWN, URGENT)), Block(conjunction(KNOWN, URGENT))),
        (weighed(conjunction(KNOWN, URGENT), offset=-3), Block(conjunction(KNOWN, URGENT))),
        (weighed(conjunction(SOME, URGENT), KEYS), Block(conjunction(SOME, URGENT), KEYS)),
        (weighed(conjunction(KNOWN, URGENT), power=2), Block(URGENT)),
    ],
)
def test_the_covariance_is_that_of_the_rows_that_both_are_made_of(blocks):
    """Each released row is moved by 1 in turn: what both numbers change by is how they depend on its noise."""
    patterns = patterns_of(blocks)
    store = store_with()
    found = [follow(store, block, own, DOMAIN) for block, own in zip(blocks, patterns, strict=True)]
    law = joint_law(store, found, [(0, 1)])
    both, spread, least = np.zeros(blocks[0].values), np.zeros((2, blocks[0].values)), np.inf
    factors = []
    for place, (residual, variance, _) in enumerate(PARTS):
        for row, square in enumerate(residual.squares()):
            alone = store_with((place, row))
            moved = [np.asarray(follow(alone, *own, DOMAIN).known.values) for own in zip(blocks, patterns, strict=True)]
            noise = float(variance * square)
            both += moved[0] * moved[1] * noise
            spread += np.array(moved) ** 2 * noise
            factors.append((moved, noise))
            if np.any(moved):
                least = min(least, noise)
    assert law.covariances[0, 1] == pytest.approx(both, rel=1e-6, abs=1e-6 * float(spread.max()))
    for own, expected in zip(found, spread, strict=True):
        variances = np.broadcast_to([one.variance for one in own.known.laws], len(expected))
        assert variances == pytest.approx(expected, rel=1e-6)
    assert law.share >= 1 / np.sqrt(least) * (1 - 1e-9)
    for times in (-2.5, 0.0, 0.3, 1.0, 40.0):
        deviation = np.sqrt(np.maximum(spread[0] - 2 * times * both + times**2 * spread[1], 1e-12))
        for moved, _ in factors:
            assert (np.abs(moved[0] - times * moved[1]) <= law.share * deviation * (1 + 1e-5) + 1e-9).all()


def test_what_follows_from_other_residuals_varies_by_itself():
    blocks = weighed(conjunction(KNOWN, URGENT)), Block(conjunction(KNOWN, URGENT))
    store = store_with()
    found = [follow(store, block, own, DOMAIN) for block, own in zip(blocks, patterns_of(blocks), strict=True)]
    assert joint_law(store, found, [(0, 1)]).covariances[0, 1] == 0
