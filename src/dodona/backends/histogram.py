"""Histograms: many questions from one pass over the table.

The rows are counted once by their cells in a product of attributes. What any block over these attributes asks is a sum
over cells, so all of them follow from the counts, through marginals that are shared. It is exact: counts and their sums
are whole numbers below 2^53.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dodona.backends.totals import Whole, answer
from dodona.domain.attribute import cells
from dodona.domain.domain import Domain
from dodona.query.bits import bits
from dodona.query.predicate import Among, box
from dodona.query.query import Block, Query
from dodona.query.weight import Constant, People

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_CELLS = 2**24
_LEAST_CELLS = 2**16
_WORD = 62  # sets of this many cells are shifted as whole numbers of 64 bits
_AT_ONCE = 2**22

# What things cost, in nanoseconds, about, on one core: only the choice between two ways hangs on it, never an answer.
_ROW_COUNTED = 120
_CELL_SUMMED = 30
_ROW_CONDITION = 1
_ROW_GROUPED = 15
_STATEMENT = 1_000_000
_CONDITION = 20_000


@dataclass(frozen=True, slots=True)
class Plan:
    """Which blocks are answered from which histogram, and which by themselves."""

    histograms: tuple[tuple[tuple[str, ...], tuple[int, ...]], ...]
    """Attributes, and the places of the blocks."""
    single: tuple[int, ...]
    looked_at: tuple[frozenset[str], ...] = ()
    """The attributes of each block, where there are histograms."""


def planned(query: Query, *, rows: int) -> Plan:
    """Return the cheaper way for each block, from public facts: the query, its domain and the declared size."""
    everyone = tuple(range(len(query.blocks)))
    if len(query.blocks) == 1:
        return Plan((), everyone)
    places = defaultdict[frozenset[str], list[int]](list)
    looked_at = tuple(block.attributes for block in query.blocks)
    single = [place for place, block in enumerate(query.blocks) if isinstance(block.weight, People)]
    for place, names in enumerate(looked_at):
        if place not in single:  # who a row is of is not in its cell
            places[names].append(place)
    most = min(MOST_CELLS, max(_LEAST_CELLS, 4 * rows))
    histograms = list[tuple[tuple[str, ...], tuple[int, ...]]]()
    for names, sets in _packed(query.domain, places, most=most):
        own = [place for each in sets for place in places[each]]
        product = _product(query.domain, names)
        apart = sum(_cost(query.blocks[place], rows=rows) for place in own)
        if product <= most and _STATEMENT + rows * _ROW_COUNTED + product * _CELL_SUMMED < apart:
            ordered = sorted(names, key=lambda name: (-cells(query.domain[name]), name))
            histograms.append((tuple(ordered), tuple(own)))
        else:
            single += own
    return Plan(tuple(histograms), tuple(sorted(single)), looked_at)


def _packed(
    domain: Domain, places: Mapping[frozenset[str], object], *, most: int
) -> list[tuple[frozenset[str], list[frozenset[str]]]]:
    """Return sets of attributes, put together as long as the product of each pack stays small; first fit."""
    packs = list[tuple[frozenset[str], list[frozenset[str]]]]()
    for own in sorted(places, key=lambda names: (-_product(domain, names), sorted(names))):
        for number, (names, sets) in enumerate(packs):
            if own <= names or _product(domain, names | own) <= most:
                packs[number] = (names | own, [*sets, own]) if not own <= names else (names, sets)
                if own <= names:
                    sets.append(own)
                break
        else:
            packs.append((own, [own]))
    return packs


def _product(domain: Domain, names: frozenset[str]) -> int:
    return math.prod(cells(domain[name]) for name in names)


def _cost(block: Block, *, rows: int) -> int:
    if block.keys:
        return _STATEMENT + rows * _ROW_GROUPED
    return _CONDITION + rows * _ROW_CONDITION


@dataclass(frozen=True)
class Histogram:
    """How many rows each cell of a product of attributes has."""

    names: tuple[str, ...]
    counts: NDArray[np.int64]
    """One axis an attribute, in the order of the names."""

    def __repr__(self) -> str:
        return "<sealed>"

    @cached_property
    def rows(self) -> int:
        """How many rows there are."""
        return int(self.counts.sum())

    def answers(self, query: Query, plan: Plan, places: Sequence[int]) -> dict[int, Whole]:
        """Return the answers of some blocks, all over these attributes, by their places."""
        wanted = defaultdict[int, list[int]](list)
        bit = {name: 1 << axis for axis, name in enumerate(self.names)}
        for place in places:
            wanted[sum([bit[name] for name in plan.looked_at[place]])].append(place)
        found = dict[int, Whole]()
        for chosen, marginal in self._marginals(self.counts, 0, 0, list(wanted)):
            names = tuple(name for name in self.names if chosen & bit[name])
            blocks = [query.blocks[place] for place in wanted[chosen]]
            own = _from_marginal(query.domain, names, marginal, blocks, rows=self.rows)
            found.update(zip(wanted[chosen], own, strict=True))
        return found

    def _marginals(
        self, counts: NDArray[np.int64], kept: int, axis: int, wanted: list[int]
    ) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """Yield each wanted set of attributes with its counts; what sets have in common is summed once.

        `counts` has the axes that were kept before `axis`, then all from there on.
        """
        if max(wanted) >> axis == 0:
            shape = counts.shape[: kept.bit_count()]
            yield kept, counts.reshape(math.prod(shape), -1).sum(axis=1).reshape(shape)
            return
        bit = 1 << axis
        without = [own for own in wanted if not own & bit]
        if without:
            yield from self._marginals(counts.sum(axis=kept.bit_count()), kept, axis + 1, without)
        if len(without) < len(wanted):
            yield from self._marginals(counts, kept | bit, axis + 1, [own for own in wanted if own & bit])


def _from_marginal(
    domain: Domain, names: tuple[str, ...], counts: NDArray[np.int64], blocks: Sequence[Block], *, rows: int
) -> list[Whole]:
    """Return the answers of blocks that look at just these attributes."""
    found: list[Whole] = [[]] * len(blocks)
    boxes = {place: own for place, block in enumerate(blocks) if (own := _counted(block)) is not None}
    if boxes:
        numbers = np.array([_number(blocks[place]) for place in boxes], dtype=np.int64)
        values = _box_counts(domain, names, counts, list(boxes.values())) * numbers
        for turn, place in enumerate(boxes):
            found[place] = values[turn : turn + 1]
    axes = {
        name: np.arange(cells(domain[name]), dtype=np.int64).reshape([-1 if other == name else 1 for other in names])
        for name in names
    }
    for place, block in enumerate(blocks):
        if place not in boxes:
            found[place] = answer(block, axes, counts=counts, rows=rows)
    return found


def _counted(block: Block) -> tuple[Among, ...] | None:
    """Return the sets of a count of a box; None for any other block."""
    if block.keys or not isinstance(block.weight, Constant) or abs(block.weight.number) > 2**10:
        return None
    return box(block.where)


def _number(block: Block) -> int:
    return block.weight.number if isinstance(block.weight, Constant) else 0


def _box_counts(
    domain: Domain, names: tuple[str, ...], counts: NDArray[np.int64], boxes: Sequence[tuple[Among, ...]]
) -> NDArray[np.int64]:
    """Return how many rows each box has.

    The products are of doubles, for their speed, and exact in any order of adding: every number that can come up is a
    count of rows, so a whole number below 2^53.
    """
    if not names:
        return np.full(len(boxes), int(counts), dtype=np.int64)
    parts = [{part.attribute: part.codes for part in own} for own in boxes]
    masks = [_masks([own[name] for own in parts], cells(domain[name])) for name in names]
    table = counts.astype(np.float64).reshape(counts.shape[0], -1)
    step = max(1, _AT_ONCE // table.shape[1])
    found = [
        _contracted(table, [mask[start : start + step] for mask in masks], counts.shape)
        for start in range(0, len(boxes), step)
    ]
    return np.concatenate(found).astype(np.int64)


def _contracted(
    table: NDArray[np.float64], masks: Sequence[NDArray[np.float64]], shape: tuple[int, ...]
) -> NDArray[np.float64]:
    """Return the sum over all axes of table·mask·mask..., one for each row of the masks."""
    left = masks[0] @ table
    for size, mask in zip(shape[1:], masks[1:], strict=True):
        left = np.matmul(mask[:, None, :], left.reshape(len(mask), size, -1))[:, 0, :]
    return left.reshape(-1)


def _masks(codes: Sequence[int], number: int) -> NDArray[np.float64]:
    """Return one row of zeros and ones for each set."""
    if number <= _WORD:
        found = np.array(codes, dtype=np.int64)[:, None] >> np.arange(number)
        return (found & 1).astype(np.float64)
    return np.array([bits(own, number) for own in codes], dtype=np.float64)
