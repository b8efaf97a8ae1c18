"""Covers: a few products such that a lattice that tells them tells all of a workload.

The variance of a product hangs on how many classes it counts of each column. Of many products on the same columns only
the hardest decide, and which these are hangs on the noise. So a lattice is made for some, and those that it misses are
added, until it misses none by more than a thousandth.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from dodona.domain.unit import Unit
from dodona.online.bundle import Targets, planned
from dodona.online.purchase import Side
from dodona.query.residual import Classes, Residual

if TYPE_CHECKING:
    from numpy.typing import NDArray

Sizes = Mapping[tuple[Classes, ...], "NDArray[np.int64]"]
"""For each set of columns, how many classes are counted of each: a line for each kind of product."""
_ROUNDS = 6
_NEAR = 1e-3


def covered(products: Iterable[tuple[Side, ...]], unit: Unit) -> tuple[Targets, float]:
    """Return products that stand for all, and by how much the variance of some is larger than theirs at most.

    Theorem: residual-allotment
    """
    sizes = _sizes(products)
    targets = frozenset(_sides(scope, _hardest(scope, lines)) for scope, lines in sizes.items())
    missed = 1.0
    for _ in range(_ROUNDS):
        variances = {residual: float(own) for residual, own in planned(targets, unit)}
        worst = {scope: _variances(scope, lines, variances) for scope, lines in sizes.items()}
        missed = max(float(own.max()) for own in worst.values())
        if missed <= 1 + _NEAR:
            break
        targets |= {
            _sides(scope, sizes[scope][int(own.argmax())].tolist())
            for scope, own in worst.items()
            if own.max() > 1 + _NEAR
        }
    return targets, max(missed, 1.0)


def _sizes(products: Iterable[tuple[Side, ...]]) -> Sizes:
    found: defaultdict[tuple[Classes, ...], set[tuple[int, ...]]] = defaultdict(set)
    for sides in products:
        found[tuple(own for own, _ in sides)].add(tuple(members.bit_count() for _, members in sides))
    return {scope: np.array(sorted(lines), dtype=np.int64) for scope, lines in found.items()}


def _hardest(scope: tuple[Classes, ...], lines: NDArray[np.int64]) -> Sequence[int]:
    """Return the line that is hardest when all columns weigh alike."""
    numbers = np.array([own.number for own in scope])
    spread = (lines * (numbers - lines)).prod(axis=1, dtype=np.float64)
    found: list[int] = lines[int(np.lexsort((lines.sum(axis=1), spread))[-1])].tolist()
    return found


def _sides(scope: tuple[Classes, ...], sizes: Sequence[int]) -> tuple[Side, ...]:
    return tuple((own, (1 << number) - 1) for own, number in zip(scope, sizes, strict=True))


def _variances(
    scope: tuple[Classes, ...], lines: NDArray[np.int64], variances: Mapping[Residual, float]
) -> NDArray[np.float64]:
    """Return the variance of each product, by Σ_A σ_A²·∏ spread·∏ mean² (page residual-reconstruction)."""
    numbers = np.array([own.number for own in scope])
    spread, mean = lines * (numbers - lines) / numbers, (lines / numbers) ** 2
    total = np.zeros(len(lines))
    for size in range(len(scope) + 1):
        for inner in combinations(range(len(scope)), size):
            own = variances.get(Residual(tuple(scope[place] for place in inner)), 0.0)
            factors = [spread[:, place] if place in inner else mean[:, place] for place in range(len(scope))]
            total += own * math.prod(factors, start=np.ones(len(lines)))
    return total
