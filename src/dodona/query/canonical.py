"""The canonical forms of a query: its text, its digest, and its JSON.

Queries with the same weights have the same digest, however they were written. Digests are permanent, because ledgers
depend on them. `spelling` parses the JSON form.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import groupby, pairwise
from typing import Generic, TypeVar, assert_never

import numpy as np

from dodona.numbers import Booleans, Integers
from dodona.query import query as queries
from dodona.query.movement import Stack, atom_codes, atom_labels, attribute_uses, broadcast_codes
from dodona.query.person_table import PersonColumn, PersonTable
from dodona.query.polynomial import Polynomial
from dodona.query.predicate import (
    EVERYTHING,
    Among,
    And,
    Jointly,
    NonNegative,
    Or,
    Predicate,
    axis_classes,
    pack_bits,
    unpack_bits,
)
from dodona.schema.partition import Partition
from dodona.schema.schema import Domain

# --- Cache of recent results: handling one query needs its price or digest several times. ---


ResultT = TypeVar("ResultT")
_CACHE_SIZE = 8


class RecentCache(Generic[ResultT]):
    """A small cache of recent results of a pure function of a query.

    A query is keyed by identity: it is immutable, and the cache keeps it alive, so no other object can take its
    address.
    """

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        """Start empty."""
        self._kept: tuple[tuple[queries.Query, Hashable, ResultT], ...] = ()

    def of(self, query: queries.Query, how: Hashable, work: Callable[[], ResultT]) -> ResultT:
        """Return the result for a query and further arguments, computing it only if it is not cached."""
        for known, other, result in self._kept:
            if known is query and other == how:
                return result
        computed = work()
        self._kept = ((query, how, computed), *self._kept[: _CACHE_SIZE - 1])  # one assignment, for thread safety
        return computed


# --- The canonical text of a query, and its digest: equal for queries with the same meaning. ---


_VERSION = "query 1"
_MOST_CELLS = 1 << 16
_AT_ONCE = 1 << 12
_MOST_KEPT = 1 << 20  # bytes; larger tables are not cached by their equal rows
_TEXT_CACHE = RecentCache[tuple[str, ...]]()


def query_digest(query: queries.Query) -> str:
    """Return the hash of what is measured, in the order of the answers. It is permanent: ledgers depend on it.

    The value of a step and the labels of groups are not part of it.
    """
    return hashlib.sha256("\n".join((_VERSION, *_block_texts(query))).encode()).hexdigest()


def joint_digest(asked: Iterable[queries.Query]) -> str:
    """Return the digest of several queries, in this order."""
    return hashlib.sha256("\n".join(map(query_digest, asked)).encode("ascii")).hexdigest()


def block_digests(query: queries.Query) -> Iterator[str]:
    """Yield the hash of each block on its own."""
    for text in _block_texts(query):
        yield hashlib.sha256(f"{_VERSION}\n{text}".encode()).hexdigest()


def block_digest(block: queries.Block, domain: Domain) -> str:
    """Return the hash of a single block: the digest of the query with only this block."""
    return hashlib.sha256(f"{_VERSION}\n{block_text(block, domain)}".encode()).hexdigest()


def _block_texts(query: queries.Query) -> tuple[str, ...]:
    return _TEXT_CACHE.of(query, None, lambda: tuple([block_text(block, query.domain) for block in query.blocks]))


def block_text(block: queries.Block, domain: Domain) -> str:
    """Return the canonical text of a block."""
    if block.table is not None:
        return f"{_person_table_text(block.table, domain)} {block_text(replace(block, table=None), block.table.domain)}"
    if isinstance(block.weight, queries.PeopleWeight):
        return f"people {block_text(queries.Block(block.where, block.keys), domain)}"
    weights = _box_text(block.where, block.weight) or _combinations_text(block.where, block.weight)
    if weights is None:
        weights = enumerated_text(block, domain)
    if not block.keys:
        return weights
    return f"{' '.join(key_text(key, domain) for key in block.keys)} {weights}"


def digest_hint(block: queries.Block, domain: Domain) -> str | None:
    """Return what blocks with the same digest have in common, without enumerating cells; None where that is not seen.

    It is seen of a weight in one column on a conjunction of sets: on which cells of each column it is not 0, and how
    large it is on the first and on the last of them. A digest of a sum takes a thousand times as long.
    """
    parts = block.where.parts if type(block.where) is And else (block.where,)
    weight, sets = block.weight, dict[str, int]()
    if block.table is not None or not all(isinstance(key, Partition) for key in block.keys):
        return None
    for part in parts:
        if type(part) is not Among:
            return None
        sets[part.attribute] = sets.get(part.attribute, part.codes) & part.codes
    match weight:
        case queries.ConstantWeight(number):
            ends = f"{number} {number}"
        case queries.PeopleWeight():
            ends = PEOPLE
        case queries.ValueWeight(name, size, offset, factor, power):
            codes = sets.get(name, -1) & (1 << size) - 1
            root = -offset // factor if factor else -1
            if 0 <= root < size and offset + factor * root == 0:
                codes &= ~(1 << root)
            sets[name] = codes
            first, last = (codes & -codes).bit_length() - 1, codes.bit_length() - 1
            ends = f"{(offset + factor * max(first, 0)) ** power} {(offset + factor * max(last, 0)) ** power}"
        case _:
            return None
    by = " ".join([key_text(key, domain) for key in block.keys])
    if 0 in sets.values() or ends == "0 0":
        return f"{by} nothing"
    full = {name: (1 << domain.by_name[name].cells) - 1 for name in sets}
    conditions = sorted([f"{name}:{codes:x}" for name, codes in sets.items() if codes != full[name]])
    return " ".join([by, ends, *conditions])


def _person_table_text(table: PersonTable, domain: Domain) -> str:
    """Return the text of a table of people: who is in it, and the meaning of each column by name."""
    who = block_text(queries.Block(table.where), domain)
    listed = sorted(
        f"{column.attribute.name} {column.aggregate} {column.lower} {column.width} {column.attribute.size} "
        f"{int(column.present)} [{block_text(queries.Block(column.where, (), column.weight), domain)}]"
        for column in table.columns
    )
    return f"of people in [{who}] with [{'; '.join(listed)}]"


def enumerated_text(block: queries.Block, domain: Domain) -> str:
    """Return the canonical text of a block's weights by enumerating its cells."""
    bare = queries.Block(block.where, (), block.weight)
    seen = attribute_uses(Stack((), (bare,)))
    codes = atom_codes(domain, seen, limit=_MOST_CELLS)
    if codes is None:
        return f"where {_predicate_text(block.where)} {_weight_text(block.weight)}"
    shape = [len(axis_codes) for axis_codes in codes.values()]
    weights = np.broadcast_to(queries.block_weights(bare, broadcast_codes(codes)), shape)
    return _weights_text(weights, {name: atom_labels(domain[name].cells, trait) for name, trait in seen.items()})


def _box_text(where: Predicate, weight: queries.Weight) -> str | None:
    """Return the text of a constant weight on a box, or None if it is not obviously one."""
    if type(weight) is not queries.ConstantWeight:
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


def _combinations_text(where: Predicate, weight: queries.Weight) -> str | None:
    """Return the text of a constant weight on a set of combinations; None if it is not one or is too large."""
    if type(where) is not Jointly or type(weight) is not queries.ConstantWeight or weight.number == 0:
        return None
    classed = axis_classes(where.shape, where.codes)
    if math.prod([max(labels) + 1 for labels in classed]) > _MOST_CELLS:
        return None
    table = unpack_bits(where.codes, math.prod(where.shape)).reshape(where.shape)
    kept: dict[str, tuple[int, ...]] = {}
    for name, labels in zip(where.names, classed, strict=True):
        axis, classes = len(kept), max(labels) + 1
        if classes < len(labels):
            firsts = [labels.index(number) for number in range(classes)] if classes > 1 else 0
            table = table.take(firsts, axis=axis)
        if classes > 1:
            kept[name] = labels
    return _table_text(table, weight.number, kept)


def _weights_text(weights: Integers, classes: Mapping[str, Integers]) -> str:
    """Return the text of weights by classes of codes, after merging classes with equal weights."""
    kept: dict[str, tuple[int, ...]] = {}
    for name, labels in classes.items():
        axis = len(kept)
        slices = np.moveaxis(weights, axis, 0).reshape(weights.shape[axis], -1)
        firsts, same = _merge_equal_rows(slices)
        if len(firsts) == 1:
            weights = np.take(weights, 0, axis=axis)
        else:
            weights = np.take(weights, firsts, axis=axis)
            kept[name] = tuple(same[labels].tolist())
    return _table_text(weights, 1, kept)


def _table_text(table: Integers | Booleans, number: int, classes: Mapping[str, tuple[int, ...]]) -> str:
    """Return the text of number·table, in which no two classes are equal."""
    count = int(np.count_nonzero(table))
    if count == 0:
        return "nothing"
    if count == 1:  # so each attribute has two classes: the box and the rest
        (place,) = np.argwhere(table)
        cells = zip(classes.items(), place, strict=True)
        sets = (f"{name}:{pack_bits(np.array(labels, dtype=np.int64) == code):x}" for (name, labels), code in cells)
        return f"box {number * int(table[tuple(place)])} {' '.join(sets)}"
    spelled = " ".join([f"{name}:{_classes_text(labels)}" for name, labels in classes.items()])
    return f"table {spelled} {_hash_table(table, number)}"


def _merge_equal_rows(slices: Integers) -> tuple[Integers, Integers]:
    """Return the first of each set of equal rows, in order, and the set number of each row."""
    if slices.dtype == np.int64 and slices.nbytes <= _MOST_KEPT:
        return _merge_equal_rows_cached(slices.tobytes(), len(slices))
    return _compute_equal_rows(slices)


@lru_cache(maxsize=1 << 6)
def _merge_equal_rows_cached(content: bytes, rows: int) -> tuple[Integers, Integers]:
    """Cached `_merge_equal_rows`: sums of one column have the same rows, whatever their conditions."""
    return _compute_equal_rows(np.frombuffer(content, dtype=np.int64).reshape(rows, -1))


def _compute_equal_rows(slices: Integers) -> tuple[Integers, Integers]:
    seen: dict[bytes, int] = {}  # for long rows, a lookup is far faster than sorting
    same = np.array([seen.setdefault(row.tobytes(), len(seen)) for row in slices], dtype=np.int64)
    firsts = np.unique(same, return_index=True)[1]
    firsts.flags.writeable = same.flags.writeable = False  # the cache shares them
    return firsts, same


@lru_cache(maxsize=1 << 8)
def _classes_text(classes: tuple[int, ...]) -> str:
    return _hash_table(np.array(classes, dtype=np.int64))


def _hash_table(table: Integers | Booleans, number: int = 1) -> str:
    """Return the hash of number·table, in row-major order."""
    flat, digest = table.reshape(-1), hashlib.sha256()
    for start in range(0, flat.size, _AT_ONCE):  # allocating one large copy would take longer than hashing it
        part = np.multiply(flat[start : start + _AT_ONCE], number, dtype="<i8")
        digest.update(part.data)
    return digest.hexdigest()


def key_text(key: queries.Key, domain: Domain) -> str:
    """Return the canonical text of a key: which cells belong to which group."""
    if isinstance(key, Partition):
        groups = "each" if key.single else ",".join(map(str, key.cuts))
        return f"by {key.attribute}:{groups}"
    seen = attribute_uses(Stack((), (queries.Block(keys=(key,)),)))
    codes = atom_codes(domain, seen, limit=_MOST_CELLS)
    if codes is None:
        return f"by [{' '.join(_predicate_text(predicate) for _, predicate in key.branches)}]"
    numbers = np.broadcast_to(
        queries.group_numbers((key,), broadcast_codes(codes)), [len(axis_codes) for axis_codes in codes.values()]
    )
    classes = {name: atom_labels(domain[name].cells, trait) for name, trait in seen.items()}
    return f"by {key.groups}[{_weights_text(numbers, classes)}]"


def _predicate_text(predicate: Predicate) -> str:
    match predicate:
        case Among(name, _, codes):
            return f"{name}:{codes:x}"
        case Jointly(names, _, codes):
            return f"jointly({' '.join(names)} {codes:x})"
        case NonNegative(polynomial):
            return f"non_negative({_polynomial_text(polynomial)})"
        case And(parts):
            return f"and({' '.join(sorted(map(_predicate_text, parts)))})"
        case Or(parts):
            return f"or({' '.join(sorted(map(_predicate_text, parts)))})"
        case _:
            assert_never(predicate)


def _polynomial_text(polynomial: Polynomial) -> str:
    terms = (f"{number}*{','.join(map(str, exponents))}" for exponents, number in polynomial.terms)
    return f"polynomial({' '.join(polynomial.names)}: {' '.join(terms)})"


def _weight_text(weight: queries.Weight) -> str:
    match weight:
        case queries.ConstantWeight(number):
            return f"number({number})"
        case queries.ValueWeight(name, _, offset, factor, power):
            return f"value({name} {offset} {factor} {power})"
        case queries.TableWeight(names, _, numbers):
            return f"table({' '.join(names)} {_hash_table(np.array(numbers, dtype=np.int64))})"
        case queries.PolynomialWeight(polynomial):
            return _polynomial_text(polynomial)
        case queries.CaseWeight(branches, otherwise):
            texts = (f"{_predicate_text(predicate)} {_weight_text(branch)}" for predicate, branch in branches)
            return f"cases({' '.join(texts)} {_weight_text(otherwise)})"
        case queries.PeopleWeight():
            return "people"
        case _:
            assert_never(weight)


# --- The permanent JSON form of a query, as releases record it; `spelling` parses it. ---


FORMAT = 1
PEOPLE = "people"
JsonValue = str | int | list["JsonValue"] | dict[str, "JsonValue"]


def to_json(query: queries.Query) -> str:
    """Return the unique JSON form of a query.

    >>> from dodona import Boolean, Domain, Query
    >>> to_json(Query.histogram(Domain((Boolean("emergency"),)), ["emergency"]))
    '{"format":1,"blocks":[{"by":[{"column":"emergency"}]}]}'
    """
    written: JsonValue = {"format": FORMAT, "blocks": [_block_json(block) for block in query.blocks]}
    return json.dumps(written, ensure_ascii=True, separators=(",", ":"), check_circular=False)


def _block_json(block: queries.Block) -> JsonValue:
    written: dict[str, JsonValue] = {}
    if block.where is not EVERYTHING and block.where != EVERYTHING:
        written["where"] = _predicate_json(block.where)
    if block.keys:
        written["by"] = [_key_json(key) for key in block.keys]
    if block.weight is not queries.ONE and block.weight != queries.ONE:
        written["weight"] = _weight_json(block.weight)
    if block.unit.numerator != block.unit.denominator:
        written["unit"] = str(block.unit)
    if block.table is not None:
        written["people"] = _person_table_json(block.table)
    return written


def _person_table_json(table: PersonTable) -> JsonValue:
    return {"where": _predicate_json(table.where), "columns": [_person_column_json(column) for column in table.columns]}


def _person_column_json(column: PersonColumn) -> JsonValue:
    written: dict[str, JsonValue] = {"aggregate": column.aggregate, "where": _predicate_json(column.where)}
    if column.copied is not None:
        return written | {"column": column.copied}
    numbers: dict[str, JsonValue] = {
        "bounds": list(column.bounds),
        "width": column.width,
        "present": int(column.present),
    }
    return written | {"weight": _weight_json(column.weight), "unit": str(column.unit)} | numbers


def _predicate_json(predicate: Predicate) -> JsonValue:
    match predicate:
        case Among():
            return f"{predicate.attribute}:{predicate.codes:x}"
        case Jointly(names, _, codes):
            return {"jointly": list(names), "bits": f"{codes:x}"}
        case NonNegative(polynomial):
            return {"non_negative": _polynomial_json(polynomial)}
        case And(parts):
            return {"and": [_predicate_json(part) for part in parts]}
        case Or(parts):
            return {"or": [_predicate_json(part) for part in parts]}
        case _:
            assert_never(predicate)


def _polynomial_json(polynomial: Polynomial) -> JsonValue:
    terms: list[JsonValue] = [[list(exponents), number] for exponents, number in polynomial.terms]
    return {"columns": list(polynomial.names), "terms": terms}


def _key_json(key: queries.Key) -> JsonValue:
    if isinstance(key, queries.CaseKey):
        branches: list[JsonValue] = [[label, _predicate_json(predicate)] for label, predicate in key.branches]
        return {"cases": branches, "otherwise": key.otherwise}
    return {"column": key.attribute} if key.single else {"column": key.attribute, "cuts": list(key.cuts)}


def _weight_json(weight: queries.Weight) -> JsonValue:
    match weight:
        case queries.ConstantWeight(number):
            return number
        case queries.ValueWeight(name, _, offset, factor, power):
            return {"value": name, "offset": offset, "factor": factor, "power": power}
        case queries.TableWeight(names, _, numbers):
            runs: list[JsonValue] = [[len(list(same)), number] for number, same in groupby(numbers)]
            return {"table": list(names), "runs": runs}
        case queries.PolynomialWeight(polynomial):
            return {"polynomial": _polynomial_json(polynomial)}
        case queries.CaseWeight(branches, otherwise):
            cases: list[JsonValue] = [[_predicate_json(where), _weight_json(branch)] for where, branch in branches]
            return {"cases": cases, "otherwise": _weight_json(otherwise)}
        case queries.PeopleWeight():
            return PEOPLE
        case _:
            assert_never(weight)
