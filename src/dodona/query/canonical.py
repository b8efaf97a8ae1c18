"""The canonical text of a query, and its digest: questions that mean the same are the same, however they were put.

The text of a block is its keys, then its weights. These are written over the attributes that they depend on, with the
codes of each attribute in classes that the weights do not tell apart: there is one coarsest way to do so, and it is
reached from every formula. Most blocks are one number on a box of sets, which is written down without looking, or on
a set of combinations, which is the table that is sought, up to its classes.
A block with more than 2^16 cells, after such classes were made, is written as its formula in the order of `predicate`.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, assert_never

import numpy as np

from dodona.domain.attribute import cells
from dodona.domain.domain import Domain
from dodona.domain.partition import Partition
from dodona.query.atoms import atoms, labels, spread, traits
from dodona.query.bits import bits, packed, told_apart
from dodona.query.predicate import Among, And, Jointly, Or, Predicate
from dodona.query.query import Block, Key, Query, block_weights, group_of
from dodona.query.recent import Recent
from dodona.query.stack import Stack
from dodona.query.weight import Cases, Constant, People, Value, Weight

if TYPE_CHECKING:
    from numpy.typing import NDArray

_VERSION = "query 1"
_MOST_CELLS = 1 << 16
_AT_ONCE = 1 << 12
_MOST_KEPT = 1 << 20  # bytes of a table whose equal rows are remembered
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
    if isinstance(block.weight, People):
        return f"people {block_text(Block(block.where, block.keys), domain)}"
    weights = _direct(block.where, block.weight) or _jointly(block.where, block.weight)
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


def _jointly(where: Predicate, weight: Weight) -> str | None:
    """Return the text of one number on a set of combinations, or None where it is not one, or too large."""
    if type(where) is not Jointly or type(weight) is not Constant or weight.number == 0:
        return None
    told = told_apart(where.shape, where.codes)
    if math.prod([max(own) + 1 for own in told]) > _MOST_CELLS:
        return None
    table = bits(where.codes, math.prod(where.shape)).reshape(where.shape)
    kept: dict[str, tuple[int, ...]] = {}
    for name, own in zip(where.names, told, strict=True):
        axis, classes = len(kept), max(own) + 1
        if classes < len(own):
            firsts = [own.index(number) for number in range(classes)] if classes > 1 else 0
            table = table.take(firsts, axis=axis)
        if classes > 1:
            kept[name] = own
    return _written(table, weight.number, kept)


def _tabled(weights: NDArray[np.int64], classes: Mapping[str, NDArray[np.int64]]) -> str:
    """Return the text of weights by classes of codes, after classes that make no difference were made one."""
    kept: dict[str, tuple[int, ...]] = {}
    for name, own in classes.items():
        axis = len(kept)
        slices = np.moveaxis(weights, axis, 0).reshape(weights.shape[axis], -1)
        firsts, same = _coarsest(slices)
        if len(firsts) == 1:
            weights = np.take(weights, 0, axis=axis)
        else:
            weights = np.take(weights, firsts, axis=axis)
            kept[name] = tuple(same[own].tolist())
    return _written(weights, 1, kept)


def _written(table: NDArray[np.int64] | NDArray[np.bool_], number: int, classes: Mapping[str, tuple[int, ...]]) -> str:
    """Return the text of number·table, of which no two classes are alike."""
    found = int(np.count_nonzero(table))
    if found == 0:
        return "nothing"
    if found == 1:  # so each attribute has two classes: the box, and the rest
        (place,) = np.argwhere(table)
        sets = (f"{name}:{_class(own, int(code)):x}" for (name, own), code in zip(classes.items(), place, strict=True))
        return f"box {number * int(table[tuple(place)])} {' '.join(sets)}"
    spelled = " ".join([f"{name}:{_labelled(own)}" for name, own in classes.items()])
    return f"table {spelled} {_hashed(table, number)}"


def _coarsest(slices: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first of each set of equal rows, in order, and for each row the number of its set."""
    if slices.dtype == np.int64 and slices.nbytes <= _MOST_KEPT:
        return _kept_coarsest(slices.tobytes(), len(slices))
    return _found_coarsest(slices)


@lru_cache(maxsize=1 << 6)
def _kept_coarsest(content: bytes, rows: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return them from memory: sums of one column have the same rows, whatever their conditions."""
    return _found_coarsest(np.frombuffer(content, dtype=np.int64).reshape(rows, -1))


def _found_coarsest(slices: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    seen: dict[bytes, int] = {}  # sorting long rows would take far longer than looking them up
    same = np.array([seen.setdefault(row.tobytes(), len(seen)) for row in slices], dtype=np.int64)
    firsts = np.unique(same, return_index=True)[1]
    firsts.flags.writeable = same.flags.writeable = False  # they may be kept
    return firsts, same


def _class(classes: tuple[int, ...], number: int) -> int:
    return packed(np.array(classes, dtype=np.int64) == number)


@lru_cache(maxsize=1 << 8)
def _labelled(classes: tuple[int, ...]) -> str:
    return _hashed(np.array(classes, dtype=np.int64))


def _hashed(table: NDArray[np.int64] | NDArray[np.bool_], number: int = 1) -> str:
    """Return the hash of number·table, in row-major order."""
    flat, found = table.reshape(-1), hashlib.sha256()
    for start in range(0, flat.size, _AT_ONCE):  # pages for a large copy would take longer than its hash
        part = np.multiply(flat[start : start + _AT_ONCE], number, dtype="<i8")
        found.update(part.data)
    return found.hexdigest()


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
        case Jointly(names, _, codes):
            return f"jointly({' '.join(names)} {codes:x})"
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
        case People():
            return "people"
        case _:
            assert_never(weight)
