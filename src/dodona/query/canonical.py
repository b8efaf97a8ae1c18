"""The canonical text of a query, and its digest: questions that mean the same are the same, however they were put.

The text of a block is its keys, then its weights. These are written over the attributes that they depend on, with the
codes of each attribute in classes that the weights do not tell apart: there is one coarsest way to do so, and it is
reached from every formula. Most blocks are one number on a box of sets, which is written down without looking.
A block with more than 2^16 cells, after such classes were made, is written as its formula in the order of `predicate`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, assert_never

import numpy as np

from dodona.domain.attribute import cells
from dodona.domain.domain import Domain
from dodona.domain.partition import Partition
from dodona.query.atoms import atoms, labels, spread, traits
from dodona.query.predicate import Among, And, Or, Predicate
from dodona.query.query import Block, Key, Query, block_weights, group_of
from dodona.query.recent import Recent
from dodona.query.stack import Stack
from dodona.query.weight import Cases, Constant, Value, Weight

if TYPE_CHECKING:
    from numpy.typing import NDArray

_VERSION = "query 1"
_MOST_CELLS = 1 << 16
_RECENT = Recent[tuple[str, ...]]()


def digest(query: Query) -> str:
    """Return the hash of what is measured, in the order of its answers. It is permanent: ledgers depend on it.

    What a step is worth, and what a group is called, is no part of it.
    """
    return hashlib.sha256("\n".join((_VERSION, *_texts(query))).encode()).hexdigest()


def block_digests(query: Query) -> Iterator[str]:
    """Yield the hash of each block by itself."""
    for text in _texts(query):
        yield hashlib.sha256(f"{_VERSION}\n{text}".encode()).hexdigest()


def block_digest(block: Block, domain: Domain) -> str:
    """Return the hash of a single block: the digest of the query that asks for it alone."""
    return hashlib.sha256(f"{_VERSION}\n{block_text(block, domain)}".encode()).hexdigest()


def _texts(query: Query) -> tuple[str, ...]:
    return _RECENT.of(query, None, lambda: tuple([block_text(block, query.domain) for block in query.blocks]))


def block_text(block: Block, domain: Domain) -> str:
    """Return the canonical text of a block."""
    weights = _direct(block.where, block.weight)
    if weights is None:
        weights = walked(block, domain)
    if not block.keys:
        return weights
    return f"{' '.join(_key(key, domain) for key in block.keys)} {weights}"


def walked(block: Block, domain: Domain) -> str:
    """Return the text of the weights of a block, from a walk through its cells."""
    bare = Block(block.where, (), block.weight)
    seen = traits(Stack((), (bare,)))
    codes = atoms(domain, seen, limit=_MOST_CELLS)
    if codes is None:
        return f"where {_formula(block.where)} {_weight(block.weight)}"
    shape = [len(own) for own in codes.values()]
    weights = np.broadcast_to(block_weights(bare, spread(codes)), shape)
    return _tabled(weights, {name: labels(cells(domain[name]), trait) for name, trait in seen.items()})


def _direct(where: Predicate, weight: Weight) -> str | None:
    """Return the text of one number on a box, or None where it is not seen at once to be one."""
    if type(weight) is not Constant:
        return None
    parts = where.parts if type(where) is And else (where,)
    names, texts = [], []
    for part in parts:
        if type(part) is not Among or part.codes == 0 or part.codes == (1 << part.cells) - 1:
            return None
        names.append(part.attribute)
        texts.append(f"{part.attribute}:{part.codes:x}")
    if weight.number == 0 or any(before >= after for before, after in pairwise(names)):
        return None
    return f"box {weight.number} {' '.join(texts)}"


def _tabled(weights: NDArray[np.int64], classes: Mapping[str, NDArray[np.int64]]) -> str:
    """Return the text of weights by classes of codes, after classes that make no difference were made one."""
    kept: dict[str, NDArray[np.int64]] = {}
    for name, own in classes.items():
        axis = len(kept)
        slices = np.moveaxis(weights, axis, 0).reshape(weights.shape[axis], -1)
        firsts, same = _coarsest(slices)
        if len(firsts) == 1:
            weights = np.take(weights, 0, axis=axis)
        else:
            weights = np.take(weights, firsts, axis=axis)
            kept[name] = same[own]
    places = np.argwhere(weights)
    if len(places) == 0:
        return "nothing"
    if len(places) == 1:  # so each attribute has two classes: the box, and the rest
        sets = (f"{name}:{_mask(own == place):x}" for (name, own), place in zip(kept.items(), places[0], strict=True))
        return f"box {int(weights.max() or weights.min())} {' '.join(sets)}"
    spelled = " ".join(f"{name}:{_hashed(own)}" for name, own in kept.items())
    return f"table {spelled} {_hashed(weights)}"


def _coarsest(slices: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first of each set of equal rows, in order, and for each row the number of its set."""
    _, firsts, inverse = np.unique(slices, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(firsts)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return firsts[order], rank[inverse.reshape(-1)]


def _mask(members: NDArray[np.bool_]) -> int:
    return int.from_bytes(np.packbits(members, bitorder="little").tobytes(), "little")


def _hashed(numbers: NDArray[np.int64]) -> str:
    return hashlib.sha256(np.ascontiguousarray(numbers, dtype="<i8").tobytes()).hexdigest()


def _key(key: Key, domain: Domain) -> str:
    """Return the text of a key: which cells are in which group."""
    if isinstance(key, Partition):
        groups = "each" if key.single else ",".join(map(str, key.cuts))
        return f"by {key.attribute}:{groups}"
    seen = traits(Stack((), (Block(keys=(key,)),)))
    codes = atoms(domain, seen, limit=_MOST_CELLS)
    if codes is None:
        return f"by [{' '.join(_formula(predicate) for _, predicate in key.branches)}]"
    found = np.broadcast_to(group_of((key,), spread(codes)), [len(own) for own in codes.values()])
    classes = {name: labels(cells(domain[name]), trait) for name, trait in seen.items()}
    return f"by {key.groups}[{_tabled(found, classes)}]"


def _formula(predicate: Predicate) -> str:
    match predicate:
        case Among(name, _, codes):
            return f"{name}:{codes:x}"
        case And(parts):
            return f"and({' '.join(sorted(map(_formula, parts)))})"
        case Or(parts):
            return f"or({' '.join(sorted(map(_formula, parts)))})"
        case _:
            assert_never(predicate)


def _weight(weight: Weight) -> str:
    match weight:
        case Constant(number):
            return f"number({number})"
        case Value(name, _, offset, factor, power):
            return f"value({name} {offset} {factor} {power})"
        case Cases(branches, otherwise):
            texts = (f"{_formula(predicate)} {_weight(branch)}" for predicate, branch in branches)
            return f"cases({' '.join(texts)} {_weight(otherwise)})"
        case _:
            assert_never(weight)
