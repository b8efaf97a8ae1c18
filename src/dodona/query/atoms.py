"""Atoms: codes of an attribute that nothing in some blocks tells apart. One of them stands for all.

A product of atoms is far smaller than the product of cells that it stands for, and shows the same weights and groups.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, assert_never

import numpy as np

from dodona.domain.attribute import cells
from dodona.domain.domain import Domain
from dodona.domain.partition import Partition
from dodona.query.bits import bits, splitting, told_apart
from dodona.query.predicate import Among, And, Jointly, Or, Predicate
from dodona.query.stack import Codes, Stack
from dodona.query.weight import Cases, Constant, People, Value, Weight

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FEW_CELLS = 1 << 10


@dataclass(slots=True)
class Trait:
    """All that some blocks look at in one attribute."""

    masks: set[int] = field(default_factory=set)
    partitions: set[Partition] = field(default_factory=set)
    values: set[Value] = field(default_factory=set)


def traits(stack: Stack) -> dict[str, Trait]:
    """Return what blocks look at, by attribute, in the order of the names."""
    found: dict[str, Trait] = {}
    for boxes in stack.boxes:
        for name, masks in zip(boxes.names, zip(*boxes.masks, strict=True), strict=True):
            found.setdefault(name, Trait()).masks.update(masks)
    for block in stack.rest:
        _add_predicate(block.where, found)
        _add_weight(block.weight, found)
        for key in block.keys:
            if isinstance(key, Partition):
                found.setdefault(key.attribute, Trait()).partitions.add(key)
            else:
                for _, predicate in key.branches:
                    _add_predicate(predicate, found)
    return dict(sorted(found.items()))


def atoms(domain: Domain, seen: Mapping[str, Trait], *, limit: int) -> Codes | None:
    """Return one code of each atom: the first; None where their product is beyond the limit.

    Where values are added up, every code is an atom.
    """
    found = {}
    for name, trait in seen.items():
        number = cells(domain[name])
        if trait.values and number > limit:
            return None
        found[name] = np.arange(number, dtype=np.int64) if trait.values else _firsts(number, trait)
    return found if size(found) <= limit else None


def corners(domain: Domain, seen: Mapping[str, Trait]) -> Codes:
    """Return codes among which are those of the largest and the least weight, whatever else is fixed.

    Where values are added up, these are the ends of each run of codes that nothing else tells apart, and the codes
    next to the value 0: a power rises, falls or does both around 0.
    """
    shape = {name: cells(domain[name]) for name in seen}
    if math.prod(shape.values()) <= _FEW_CELLS:  # cheaper than to make fewer of them
        return {name: np.arange(number, dtype=np.int64) for name, number in shape.items()}
    found = {}
    for name, trait in seen.items():
        number = shape[name]
        if not trait.values:
            found[name] = _firsts(number, trait)
            continue
        firsts = starts(number, trait)
        ends = np.append(firsts[1:], number) - 1
        zeros = [-value.offset // value.factor for value in trait.values if value.factor != 0]
        around = [code for zero in zeros for code in (zero, zero + 1) if 0 <= code < number]
        found[name] = np.unique(np.concatenate([firsts, ends, np.array(around, dtype=np.int64)]))
    return found


def labels(number: int, trait: Trait) -> NDArray[np.int64]:
    """Return the number of the atom of each code, atoms in the order of their first codes."""
    if trait.values:
        return np.arange(number, dtype=np.int64)
    runs = starts(number, trait)
    _, inverse = _merged(runs, number, trait)
    return np.repeat(inverse, np.diff(np.append(runs, number)))


def size(codes: Codes) -> int:
    """Return how many cells the product of the codes has."""
    return math.prod(len(own) for own in codes.values())


def spread(codes: Codes) -> dict[str, NDArray[np.int64]]:
    """Return the codes in shapes that broadcast to their product."""
    axes = {}
    for place, (name, own) in enumerate(codes.items()):
        axes[name] = own.reshape([-1 if other == place else 1 for other in range(len(codes))])
    return axes


def _add_predicate(predicate: Predicate, found: dict[str, Trait]) -> None:
    match predicate:
        case Among(name, _, codes):
            trait = found.get(name)
            if trait is None:
                trait = found[name] = Trait()
            trait.masks.add(codes)
        case Jointly(names, shape, codes):
            for name, own in zip(names, told_apart(shape, codes), strict=True):
                found.setdefault(name, Trait()).masks.update(splitting(own))
        case And(parts) | Or(parts):
            for part in parts:
                _add_predicate(part, found)
        case _:
            assert_never(predicate)


def _add_weight(weight: Weight, found: dict[str, Trait]) -> None:
    match weight:
        case Constant() | People():
            pass
        case Value(name):
            found.setdefault(name, Trait()).values.add(weight)
        case Cases(branches, otherwise):
            for predicate, branch in branches:
                _add_predicate(predicate, found)
                _add_weight(branch, found)
            _add_weight(otherwise, found)
        case _:
            assert_never(weight)


def starts(number: int, trait: Trait) -> NDArray[np.int64]:
    """Return the first code of each run of codes that nothing tells apart but the values."""
    changes = reduce(lambda before, mask: before | (mask ^ mask << 1), trait.masks, 1)
    for value in trait.values:  # what is no value counts for nothing
        changes |= 0b11 << value.size
    flags = bits(changes & (1 << number) - 1, number).copy()
    for partition in trait.partitions:
        flags[list(partition.cuts)] = True
        flags[partition.size :] = True
    return np.flatnonzero(flags).astype(np.int64)


def _firsts(number: int, trait: Trait) -> NDArray[np.int64]:
    runs = starts(number, trait)
    firsts, _ = _merged(runs, number, trait)
    return runs[firsts]


def _merged(runs: NDArray[np.int64], number: int, trait: Trait) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first run of each atom, and the atom of each run."""
    columns = [bits(mask, number)[runs].astype(np.int64) for mask in trait.masks]
    columns += [
        np.searchsorted(np.asarray(p.cuts), runs, side="right") + 2 * (runs >= p.size) * runs for p in trait.partitions
    ]
    if not columns:
        return np.zeros(1, dtype=np.int64), np.zeros(len(runs), dtype=np.int64)
    _, firsts, inverse = np.unique(np.stack(columns), axis=1, return_index=True, return_inverse=True)
    order = np.argsort(firsts)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return firsts[order], place[inverse.reshape(-1)]
