"""Movements: the largest l1, l2 and linf change of a query's answers when one row changes.

Codes that no block distinguishes form one atom, so only one cell of each atom is examined. Results are exact while the
number of cells stays within a limit, and upper bounds beyond it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self, assert_never

import numpy as np

from dodona.numbers import Doubles, Integers
from dodona.query import query as queries
from dodona.query.polynomial import Polynomial
from dodona.query.predicate import (
    Among,
    And,
    Jointly,
    NonNegative,
    Or,
    Predicate,
    axis_classes,
    separating_sets,
    unpack_bits,
)
from dodona.schema.partition import Partition
from dodona.schema.schema import Domain

if TYPE_CHECKING:
    from numpy.typing import NDArray


# --- Stacks: blocks asked together, sorted so that the many simple ones are processed together. ---


AxisCodes = Mapping[str, Integers]
"""Codes by attribute, in order of name."""
_LARGEST_EXACT_FLOAT = 1 << 53
_WORD_BITS = 62
_LARGEST_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Boxes:
    """Keyless blocks with a constant weight on a conjunction of sets, all over the same attributes."""

    names: tuple[str, ...]
    """Sorted."""
    cells: tuple[int, ...]
    masks: list[tuple[int, ...]] = field(default_factory=list)
    """For each box, one set per attribute."""
    numbers: list[int] = field(default_factory=list)

    def factors(self, codes: AxisCodes) -> list[Doubles]:
        """Return for each attribute a 0/1 matrix: which box contains which of the codes."""
        if max(self.cells, default=0) <= _WORD_BITS:
            table = np.array(self.masks, dtype=np.int64).reshape(len(self.masks), len(self.names))
            columns = (table[:, place, None] >> codes[name] & 1 for place, name in enumerate(self.names))
            return [column.astype(np.float64) for column in columns]
        factors = []
        for name, cells, masks in zip(self.names, self.cells, zip(*self.masks, strict=True), strict=True):
            rows: dict[int, int] = {}
            places = [rows.setdefault(mask, len(rows)) for mask in masks]
            factors.append(np.array([unpack_bits(mask, cells)[codes[name]] for mask in rows], dtype=np.float64)[places])
        return factors

    def members(self, codes: AxisCodes) -> Doubles:
        """Return a 0/1 matrix, one row per box: which box contains which cell of the product of all codes."""
        members = np.ones((len(self.masks), *[1] * len(codes)))
        for name, factor in zip(self.names, self.factors(codes), strict=True):
            members = members * factor.reshape([len(self.masks), *(-1 if other == name else 1 for other in codes)])
        shape = (len(self.masks), *(len(axis_codes) for axis_codes in codes.values()))
        return np.broadcast_to(members, shape).reshape(len(self.masks), -1)

    def total(self, codes: AxisCodes, worth: Sequence[int]) -> NDArray[Any]:
        """Return for each cell the total weight of its boxes, in a shape that broadcasts to the product."""
        shape = [len(axis_codes) if name in self.names else 1 for name, axis_codes in codes.items()]
        if sum(worth) >= _LARGEST_EXACT_FLOAT:  # floats are exact up to here, and their matrices much faster
            exact = self.members({name: codes[name] for name in self.names}).astype(np.int64).astype(np.object_)
            totals: NDArray[Any] = np.array(worth, dtype=np.object_) @ exact
            return totals.reshape(shape)
        *outer, last = self.factors(codes) or [np.ones((len(self.masks), 1))]
        sizes = np.array(worth, dtype=np.float64)
        width = int(np.prod([factor.shape[1] for factor in outer]))
        step = max(1, _LARGEST_CHUNK // width)
        summed = np.zeros((width, last.shape[1]))
        for start in range(0, len(sizes), step):
            part = slice(start, start + step)
            product = sizes[part, None]
            for factor in outer:
                product = (product[:, :, None] * factor[part, None, :]).reshape(len(product), -1)
            summed += product.T @ last[part]
        return summed.astype(np.int64).reshape(shape)


@dataclass(frozen=True, slots=True)
class Stack:
    """Boxes by their attributes, and all other blocks. Block order is lost: no norm depends on it."""

    boxes: tuple[Boxes, ...]
    rest: tuple[queries.Block, ...]

    @classmethod
    def of(cls, blocks: Iterable[queries.Block]) -> Self:
        """Return the stack of these blocks."""
        by_names: dict[tuple[str, ...], Boxes] = {}
        rest = []
        for block in blocks:
            where, weight = block.where, block.weight
            parts = where.parts if type(where) is And else (where,)
            sets = [part for part in parts if type(part) is Among]
            if len(sets) == len(parts) and type(weight) is queries.ConstantWeight and not block.keys:
                names = tuple([part.attribute for part in sets])
                boxes = by_names.get(names)
                if boxes is None and all(before < after for before, after in pairwise(names)):
                    boxes = by_names[names] = Boxes(names, tuple([part.cells for part in sets]))
                if boxes is not None:
                    boxes.masks.append(tuple([part.codes for part in sets]))
                    boxes.numbers.append(weight.number)
                    continue
            rest.append(block)
        return cls(tuple(by_names.values()), tuple(rest))

    def __len__(self) -> int:
        return len(self.rest) + sum(len(boxes.masks) for boxes in self.boxes)

    def spans(self) -> Iterator[tuple[int, int]]:
        """Yield for each block a lower and an upper bound on a row's weight."""
        for boxes in self.boxes:
            for number in boxes.numbers:
                yield number, number
        for block in self.rest:
            yield queries.weight_range(block.weight, block.where)

    def parts(self) -> list[Stack]:
        """Return one stack per set of attributes in use, or one per block if there is only one set."""
        by_attributes: dict[frozenset[str], tuple[list[Boxes], list[queries.Block]]] = {}
        for boxes in self.boxes:
            by_attributes.setdefault(frozenset(boxes.names), ([], []))[0].append(boxes)
        for block in self.rest:
            by_attributes.setdefault(block.attributes, ([], []))[1].append(block)
        if len(by_attributes) > 1:
            return [Stack(tuple(boxes), tuple(rest)) for boxes, rest in by_attributes.values()]
        pairs = ((boxes, pair) for boxes in self.boxes for pair in zip(boxes.masks, boxes.numbers, strict=True))
        alone = [Boxes(boxes.names, boxes.cells, [masks], [number]) for boxes, (masks, number) in pairs]
        return [*(Stack((boxes,), ()) for boxes in alone), *(Stack((), (block,)) for block in self.rest)]


# --- Atoms: codes of an attribute that no block distinguishes. One code represents each atom. ---


_FEW_CELLS = 1 << 10


@dataclass(slots=True)
class AttributeUse:
    """Everything that some blocks use of one attribute."""

    masks: set[int] = field(default_factory=set)
    partitions: set[Partition] = field(default_factory=set)
    values: set[queries.ValueWeight] = field(default_factory=set)
    bent: bool = False
    """Whether a polynomial has a power of it, so that no few codes include the extremes."""
    apart: bool = False
    """Whether a comparison with other attributes may distinguish all its codes."""


def attribute_uses(stack: Stack) -> dict[str, AttributeUse]:
    """Return what the blocks use of each attribute, in order of name."""
    uses: dict[str, AttributeUse] = {}
    for boxes in stack.boxes:
        for name, masks in zip(boxes.names, zip(*boxes.masks, strict=True), strict=True):
            uses.setdefault(name, AttributeUse()).masks.update(masks)
    for block in stack.rest:
        _add_predicate(block.where, uses)
        _add_weight(block.weight, uses)
        for key in block.keys:
            if isinstance(key, Partition):
                uses.setdefault(key.attribute, AttributeUse()).partitions.add(key)
            else:
                for _, predicate in key.branches:
                    _add_predicate(predicate, uses)
    return dict(sorted(uses.items()))


def atom_codes(domain: Domain, seen: Mapping[str, AttributeUse], *, limit: int) -> AxisCodes | None:
    """Return the first code of each atom; None if their product exceeds the limit.

    If values are summed or compared with those of other attributes, every code is an atom.
    """
    codes = {}
    for name, trait in seen.items():
        number, every = domain[name].cells, trait.values or trait.apart
        if every and number > limit:
            return None
        codes[name] = np.arange(number, dtype=np.int64) if every else _first_codes(number, trait)
    return codes if product_size(codes) <= limit else None


def extreme_codes(domain: Domain, seen: Mapping[str, AttributeUse]) -> AxisCodes:
    """Return codes that include those of the largest and the smallest weight, whatever else is fixed.

    If values are summed, these are the ends of each run of codes that nothing else distinguishes, and the codes next to
    the value 0: a power rises, falls, or does both around 0. All codes of an attribute that occurs in a polynomial in a
    power, or that is compared with others, are included.
    """
    shape = {name: domain[name].cells for name in seen}
    if math.prod(shape.values()) <= _FEW_CELLS:  # cheaper than reducing them
        return {name: np.arange(number, dtype=np.int64) for name, number in shape.items()}
    codes = {}
    for name, trait in seen.items():
        number = shape[name]
        if trait.bent or trait.apart:
            codes[name] = np.arange(number, dtype=np.int64)
            continue
        if not trait.values:
            codes[name] = _first_codes(number, trait)
            continue
        firsts = run_starts(number, trait)
        ends = np.append(firsts[1:], number) - 1
        zeros = [-value.offset // value.factor for value in trait.values if value.factor != 0]
        around = [code for zero in zeros for code in (zero, zero + 1) if 0 <= code < number]
        codes[name] = np.unique(np.concatenate([firsts, ends, np.array(around, dtype=np.int64)]))
    return codes


def atom_labels(number: int, trait: AttributeUse) -> Integers:
    """Return the atom number of each code, with atoms numbered by their first codes."""
    if trait.values or trait.apart:
        return np.arange(number, dtype=np.int64)
    runs = run_starts(number, trait)
    _, inverse = _merge_runs(runs, number, trait)
    return np.repeat(inverse, np.diff(np.append(runs, number)))


def product_size(codes: AxisCodes) -> int:
    """Return the number of cells in the product of the codes."""
    return math.prod(len(axis_codes) for axis_codes in codes.values())


def broadcast_codes(codes: AxisCodes) -> dict[str, Integers]:
    """Return the codes in shapes that broadcast to their product."""
    return {
        name: axis_codes.reshape([-1 if other == name else 1 for other in codes]) for name, axis_codes in codes.items()
    }


def _add_predicate(predicate: Predicate, uses: dict[str, AttributeUse]) -> None:
    match predicate:
        case Among(name, _, codes):
            uses.setdefault(name, AttributeUse()).masks.add(codes)
        case Jointly(names, shape, codes):
            for name, classes in zip(names, axis_classes(shape, codes), strict=True):
                uses.setdefault(name, AttributeUse()).masks.update(separating_sets(classes))
        case NonNegative(polynomial):
            for name in polynomial.names:
                uses.setdefault(name, AttributeUse()).apart = True
        case And(parts) | Or(parts):
            for part in parts:
                _add_predicate(part, uses)
        case _:
            assert_never(predicate)


def _add_weight(weight: queries.Weight, uses: dict[str, AttributeUse]) -> None:
    match weight:
        case queries.ConstantWeight() | queries.PeopleWeight():
            pass
        case queries.ValueWeight(name):
            uses.setdefault(name, AttributeUse()).values.add(weight)
        case queries.TableWeight(names, shape, numbers):
            table = np.array(numbers, dtype=np.int64).reshape(shape)
            for axis, name in enumerate(names):
                slices = np.moveaxis(table, axis, 0).reshape(shape[axis], -1)
                places: dict[bytes, int] = {}
                classes = tuple([places.setdefault(row.tobytes(), len(places)) for row in slices])
                uses.setdefault(name, AttributeUse()).masks.update(separating_sets(classes))
        case queries.PolynomialWeight(polynomial):
            _add_polynomial(polynomial, uses)
        case queries.CaseWeight(branches, otherwise):
            for predicate, branch in branches:
                _add_predicate(predicate, uses)
                _add_weight(branch, uses)
            _add_weight(otherwise, uses)
        case _:
            assert_never(weight)


def _add_polynomial(polynomial: Polynomial, uses: dict[str, AttributeUse]) -> None:
    """Add the codes that a polynomial adds up; it is straight in a column that occurs in no power."""
    for name, size, degree in zip(polynomial.names, polynomial.sizes, polynomial.degrees, strict=True):
        trait = uses.setdefault(name, AttributeUse())
        trait.values.add(queries.ValueWeight(name, size, 0, 1))
        trait.bent |= degree > 1


def run_starts(number: int, trait: AttributeUse) -> Integers:
    """Return the first code of each run of codes that only their values distinguish."""
    if trait.apart:
        return np.arange(number, dtype=np.int64)
    changes = reduce(lambda before, mask: before | (mask ^ mask << 1), trait.masks, 1)
    for value in trait.values:  # cells without a value have weight 0
        changes |= 0b11 << value.size
    flags = unpack_bits(changes & (1 << number) - 1, number).copy()
    for partition in trait.partitions:
        flags[list(partition.cuts)] = True
        flags[partition.size :] = True
    return np.flatnonzero(flags).astype(np.int64)


def code_runs(block: queries.Block, domain: Domain, *, written_out: int) -> AxisCodes:
    """Return, for each attribute of a block, the first code of each run on which its weights are one polynomial.

    If an attribute's values are summed and it has at most `written_out` cells, every code is a run.
    """
    runs = {}
    for name, trait in attribute_uses(Stack((), (block,))).items():
        number = domain.by_name[name].cells
        summed = trait.values and number <= written_out
        runs[name] = np.arange(number, dtype=np.int64) if summed else run_starts(number, trait)
    return runs


def _first_codes(number: int, trait: AttributeUse) -> Integers:
    runs = run_starts(number, trait)
    firsts, _ = _merge_runs(runs, number, trait)
    return runs[firsts]


def _merge_runs(runs: Integers, number: int, trait: AttributeUse) -> tuple[Integers, Integers]:
    """Return the first run of each atom, and the atom of each run."""
    columns = [unpack_bits(mask, number)[runs].astype(np.int64) for mask in trait.masks]
    parts = ((np.asarray(partition.cuts), partition.size) for partition in trait.partitions)
    columns += [np.searchsorted(cuts, runs, side="right") + 2 * (runs >= size) * runs for cuts, size in parts]
    if not columns:
        return np.zeros(1, dtype=np.int64), np.zeros(len(runs), dtype=np.int64)
    _, firsts, inverse = np.unique(np.stack(columns), axis=1, return_index=True, return_inverse=True)
    order = np.argsort(firsts)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return firsts[order], place[inverse.reshape(-1)]


# --- Movement: how far the answers of a stack change when one row is added, removed or replaced. ---


_MOST_SIGNATURES = 1 << 10
_FEW_SIGNATURES = 1 << 7
_MOST_ENTRIES = 1 << 22
_MOST_WORK = 1 << 25
_EXACT_INTEGER = 1 << 62


@dataclass(frozen=True, slots=True)
class Movement:
    """The largest l1, squared l2 and linf norm of a change, each on its own."""

    l1: int
    squares: int
    linf: int

    def within(self, other: Movement) -> Movement:
        """Return the smaller norm of two bounds, for each norm."""
        return Movement(min(self.l1, other.l1), min(self.squares, other.squares), min(self.linf, other.linf))


def combine_movements(movements: Iterable[Movement]) -> Movement:
    """Return a bound for blocks asked together from a bound for each part."""
    l1 = squares = linf = 0
    for movement in movements:
        l1, squares, linf = l1 + movement.l1, squares + movement.squares, max(linf, movement.linf)
    return Movement(l1, squares, linf)


def added_row_movement(domain: Domain, stack: Stack, *, limit: int) -> Movement:
    """Return how far one added row moves the answers: exact if the product of corners is within the limit."""
    codes = extreme_codes(domain, attribute_uses(stack))
    if product_size(codes) <= limit:
        return _largest_norms(stack, codes)
    if len(stack) > 1:
        return combine_movements(added_row_movement(domain, part, limit=limit) for part in stack.parts())
    largest = max(max(-low, high) for low, high in stack.spans())
    return Movement(largest, largest**2, largest)


def replaced_row_movement(domain: Domain, stack: Stack, *, limit: int) -> Movement:
    """Return how far replacing one row moves the answers: exact within the limits, otherwise a bound."""
    seen = attribute_uses(stack)
    alone = len(stack) == 1 and len(stack.rest) == 1
    straight = all(value.power == 1 for trait in seen.values() for value in trait.values)
    most = limit if alone else min(limit, _MOST_ENTRIES // len(stack))
    codes = extreme_codes(domain, seen) if alone or straight else atom_codes(domain, seen, limit=most)
    if codes is not None and product_size(codes) <= most:
        joint = _pairwise_movement if stack.rest else _boxes_movement
        exact = _single_block_movement(stack.rest[0], codes) if alone else joint(stack, codes)
        if exact is not None:
            return exact
    if len(stack) > 1:
        return combine_movements(replaced_row_movement(domain, part, limit=limit) for part in stack.parts())
    return _loose_bound(stack)


def _loose_bound(stack: Stack) -> Movement:
    """Return a bound for one block from its weight alone."""
    ((low, high),) = stack.spans()
    low, high = min(low, 0), max(high, 0)
    largest, width = max(-low, high), high - low
    if not any(block.keys for block in stack.rest):
        return Movement(width, width**2, width)
    return Movement(2 * largest, max(width**2, 2 * largest**2), width)


def _largest_norms(stack: Stack, codes: AxisCodes) -> Movement:
    """Return the largest norms over all cells of a product."""
    largest = sum(max(-low, high) ** 2 for low, high in stack.spans())
    kind = np.int64 if largest < _EXACT_INTEGER else np.object_
    l1: NDArray[Any] = np.zeros([len(axis_codes) for axis_codes in codes.values()], dtype=kind)
    squares, linf = l1.copy(), 0
    for boxes in stack.boxes:
        sizes = [0 if 0 in masks else abs(number) for masks, number in zip(boxes.masks, boxes.numbers, strict=True)]
        once = boxes.total(codes, sizes)
        l1 += once
        squares += once if max(sizes) <= 1 else boxes.total(codes, [size * size for size in sizes])
        linf = max(linf, *sizes)
    axes = broadcast_codes(codes)
    for block in stack.rest:
        weights: NDArray[Any] = np.asarray(np.abs(queries.block_weights(block, axes)), dtype=kind)
        l1 += weights
        squares += weights * weights
        linf = max(linf, int(weights.max()))
    return Movement(int(l1.max()), int(squares.max()), linf)


def _single_block_movement(block: queries.Block, codes: AxisCodes) -> Movement:
    """Return the exact movement of one block: within a group from one extreme to the other, or between groups."""
    axes, shape = broadcast_codes(codes), [len(axis_codes) for axis_codes in codes.values()]
    weights = np.broadcast_to(queries.block_weights(block, axes), shape).reshape(-1)
    groups = np.broadcast_to(queries.group_numbers(block.keys, axes), shape).reshape(-1)
    present, groups = np.unique(groups, return_inverse=True)
    low = np.full(len(present), np.iinfo(np.int64).max)
    high = np.full(len(present), np.iinfo(np.int64).min)
    np.minimum.at(low, groups, weights)
    np.maximum.at(high, groups, weights)
    inside = int((high - low).max())
    first, second = (*sorted(map(int, np.maximum(-low, high)), reverse=True), 0)[:2]
    if len(present) == 1:
        return Movement(inside, inside**2, inside)
    return Movement(max(inside, first + second), max(inside**2, first**2 + second**2), max(inside, first))


def _boxes_movement(stack: Stack, codes: AxisCodes) -> Movement | None:
    """Return the exact movement of boxes, with the norms of all differences from one matrix product."""
    numbers = [abs(number) for boxes in stack.boxes for number in boxes.numbers]
    held = np.concatenate([boxes.members(codes) for boxes in stack.boxes])
    if held.shape[1] > _FEW_SIGNATURES:
        held = np.unique(held, axis=1)
    if held.shape[1] > _MOST_SIGNATURES or 4 * sum(number**2 for number in numbers) >= _LARGEST_EXACT_FLOAT:
        return None
    sizes = np.array(numbers, dtype=np.float64)
    norms = []
    for worth in (sizes, sizes * sizes)[: 1 + (max(numbers) > 1)]:
        shared = (held * worth[:, None]).T @ held
        diagonal = shared.diagonal()
        norms.append(int((diagonal[:, None] + diagonal[None, :] - 2 * shared).max()))
    shares = held.mean(axis=1)
    moved = sizes[(shares > 0) & (shares < 1)]
    return Movement(norms[0], norms[-1], int(moved.max(initial=0)))


def _pairwise_movement(stack: Stack, codes: AxisCodes) -> Movement | None:
    """Return the exact movement over all pairs of cells, or None if there are too many."""
    weights, groups = _signatures(stack, codes)
    if weights.shape[1] > _FEW_SIGNATURES:
        _, firsts = np.unique(np.concatenate([weights, groups]), axis=1, return_index=True)
        weights, groups = weights[:, firsts], groups[:, firsts]
    number = weights.shape[1]
    if number > _MOST_SIGNATURES or number**2 * len(stack) > _MOST_WORK:
        return None
    if 4 * sum(max(-low, high) ** 2 for low, high in stack.spans()) >= _EXACT_INTEGER:
        return _signatures_movement(weights.astype(np.object_), groups)
    return _signatures_movement(weights, groups)


def _signatures(stack: Stack, codes: AxisCodes) -> tuple[Integers, Integers]:
    """Return the weight and the group of each cell, one row per block; a weight of 0 belongs to no group."""
    axes, shape = broadcast_codes(codes), [len(axis_codes) for axis_codes in codes.values()]
    members = [(boxes.members(codes).astype(np.int64), boxes.numbers) for boxes in stack.boxes]
    weights = [matrix * np.array(numbers, dtype=np.int64)[:, None] for matrix, numbers in members]
    groups = [np.zeros_like(matrix) for matrix in weights]
    for block in stack.rest:
        weights.append(np.broadcast_to(queries.block_weights(block, axes), shape).reshape(1, -1))
        groups.append(np.broadcast_to(queries.group_numbers(block.keys, axes), shape).reshape(1, -1))
    all_weights = np.concatenate(weights)
    return all_weights, np.where(all_weights == 0, np.int64(-1), np.concatenate(groups))


def _signatures_movement(weights: NDArray[Any], groups: Integers) -> Movement:
    """Return the movement by enumerating all pairs of signatures."""
    l1 = squares = linf = 0
    for place in range(weights.shape[1]):
        here, there = weights[:, place, None], weights[:, place:]
        same = groups[:, place, None] == groups[:, place:]
        first, second, step = np.abs(here), np.abs(there), np.abs(here - there)
        l1 = max(l1, int(np.where(same, step, first + second).sum(axis=0).max()))
        squares = max(squares, int(np.where(same, step * step, first * first + second * second).sum(axis=0).max()))
        linf = max(linf, int(np.where(same, step, np.maximum(first, second)).max()))
    return Movement(l1, squares, linf)
