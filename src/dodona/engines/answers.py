"""Exact answers from any SQL engine: plan histograms, run statements, combine limbs, and seal the result.

Also fingerprints of the data files, which detect rows that changed under an old version.
"""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dodona.engines import render
from dodona.engines.files import list_files
from dodona.numbers import Doubles, Integers
from dodona.query.movement import broadcast_codes
from dodona.query.person_table import PersonTable
from dodona.query.predicate import Among, Axes, Predicate, as_box, unpack_bits
from dodona.query.query import Block, ConstantWeight, Key, PeopleWeight, Query, block_weights, group_numbers
from dodona.schema.schema import Domain
from dodona.trusted.source import Sealed

# --- Totals: exact integer sums of any size. ---


WholeNumbers = NDArray[np.int64] | list[int]
"""Exact answers: an array, or Python ints if one of them needs more than 64 bits."""
_EXACT_DOUBLE = 2**53  # integers up to here are exact doubles
_WORD_LIMIT = 2**63


def answer_block(block: Block, axes: Axes, *, counts: Integers | None, rows: int) -> WholeNumbers:
    """Return the sums of a block over rows, or over cells that each represent `counts` rows, of `rows` in total."""
    weights = block_weights(block, axes)
    groups = group_numbers(block.keys, axes)
    shape = np.broadcast_shapes(weights.shape, groups.shape, (rows,) if counts is None else counts.shape)
    flat = np.broadcast_to(groups, shape).reshape(-1)
    times = None if counts is None else np.broadcast_to(counts, shape).reshape(-1)
    return group_sums(flat, np.broadcast_to(weights, shape).reshape(-1), number=block.values, counts=times, rows=rows)


def group_sums(groups: Integers, weights: Integers, *, number: int, counts: Integers | None, rows: int) -> WholeNumbers:
    """Return the exact sum of counts·weights of each group.

    `bincount` adds doubles. Weights are split into limbs so small that no sum over rows can pass 2^53: every summand
    and every sum is then an integer that a double represents, and nothing is ever rounded.
    """
    if rows >= _EXACT_DOUBLE // 2:
        raise OverflowError("a table has fewer than 2^52 rows")
    width = 53 - max(rows, 1).bit_length()
    low, high = (int(weights.min()), int(weights.max())) if len(weights) else (0, 0)
    if low >= -(1 << width) and high <= 1 << width:
        return _bincount(groups, weights, number=number, counts=counts)
    total: list[int] = [0] * number
    scale = 1
    while low < -1 or high > 0:
        part = _bincount(groups, weights & ((1 << width) - 1), number=number, counts=counts)
        total = [before + scale * int(limb) for before, limb in zip(total, part.tolist(), strict=True)]
        weights, low, high, scale = weights >> width, low >> width, high >> width, scale << width
    part = _bincount(groups, weights, number=number, counts=counts)  # the signs: 0 or -1
    return fit_to_int64([before + scale * limb for before, limb in zip(total, part.tolist(), strict=True)])


def fit_to_int64(total: Sequence[int]) -> WholeNumbers:
    """Return integers as an array if all of them fit into 64 bits."""
    if all(-_WORD_LIMIT <= value < _WORD_LIMIT for value in total):
        return np.array(total, dtype=np.int64)
    return list(total)


def join_answers(parts: Sequence[WholeNumbers]) -> WholeNumbers:
    """Concatenate the answers of blocks."""
    arrays = [part for part in parts if isinstance(part, np.ndarray)]
    if len(arrays) == len(parts):
        return np.concatenate(arrays)
    return [int(value) for part in parts for value in part]


def _bincount(groups: Integers, weights: Integers, *, number: int, counts: Integers | None) -> Integers:
    """Return sums of counts·weights that are known to stay below 2^53."""
    if counts is None and len(weights) and weights.strides[0] == 0 and weights[0] == 1:
        return np.bincount(groups, minlength=number)
    doubles = weights.astype(np.float64)
    times = doubles if counts is None else doubles * counts
    return np.bincount(groups, weights=times, minlength=number).astype(np.int64)


# --- Histograms: many queries from one pass over the table. ---


MOST_CELLS = 2**24
_LEAST_CELLS = 2**16
_WORD_BITS = 62  # sets of up to this many cells are shifted as 64-bit integers
_ENTRIES_AT_ONCE = 2**22

# Approximate costs in nanoseconds on one core: they affect only the choice of method, never an answer.
_ROW_COUNTED = 120
_CELL_SUMMED = 30
_ROW_CONDITION = 1
_ROW_GROUPED = 15
_STATEMENT = 1_000_000
_CONDITION = 20_000


@dataclass(frozen=True, slots=True)
class HistogramPlan:
    """Which blocks are answered from which histogram, and which on their own."""

    histograms: tuple[tuple[tuple[str, ...], tuple[int, ...]], ...]
    """Attributes, and the positions of the blocks."""
    single: tuple[int, ...]
    looked_at: tuple[frozenset[str], ...] = ()
    """The attributes of each block, if there are histograms."""


def plan_histograms(query: Query, *, rows: int) -> HistogramPlan:
    """Choose the cheaper method for each block from public facts: the query, its domain and the declared size."""
    everyone = tuple(range(len(query.blocks)))
    if len(query.blocks) == 1:
        return HistogramPlan((), everyone)
    places = defaultdict[frozenset[str], list[int]](list)
    looked_at = tuple(block.attributes for block in query.blocks)
    single = [place for place, block in enumerate(query.blocks) if isinstance(block.weight, PeopleWeight)]
    for place, names in enumerate(looked_at):
        if place not in single:  # a cell does not say whose row it is
            places[names].append(place)
    most = min(MOST_CELLS, max(_LEAST_CELLS, 4 * rows))
    histograms = list[tuple[tuple[str, ...], tuple[int, ...]]]()
    for names, sets in _pack_attributes(query.domain, places, most=most):
        block_places = [place for each in sets for place in places[each]]
        product = _product_size(query.domain, names)
        keyed = sum(bool(query.blocks[place].keys) for place in block_places)
        apart = keyed * (_STATEMENT + rows * _ROW_GROUPED) + (len(block_places) - keyed) * (
            _CONDITION + rows * _ROW_CONDITION
        )
        if product <= most and _STATEMENT + rows * _ROW_COUNTED + product * _CELL_SUMMED < apart:
            ordered = sorted(names, key=lambda name: (-query.domain[name].cells, name))
            histograms.append((tuple(ordered), tuple(block_places)))
        else:
            single += block_places
    return HistogramPlan(tuple(histograms), tuple(sorted(single)), looked_at)


def _pack_attributes(
    domain: Domain, places: Mapping[frozenset[str], object], *, most: int
) -> list[tuple[frozenset[str], list[frozenset[str]]]]:
    """Merge sets of attributes while the product of each pack stays small, by first fit."""
    packs = list[tuple[frozenset[str], list[frozenset[str]]]]()
    for attributes in sorted(places, key=lambda names: (-_product_size(domain, names), sorted(names))):
        for number, (names, sets) in enumerate(packs):
            if attributes <= names or _product_size(domain, names | attributes) <= most:
                packs[number] = (names | attributes, [*sets, attributes])
                break
        else:
            packs.append((attributes, [attributes]))
    return packs


def _product_size(domain: Domain, names: frozenset[str]) -> int:
    return math.prod(domain[name].cells for name in names)


@dataclass(frozen=True)
class Histogram:
    """The number of rows in each cell of a product of attributes."""

    names: tuple[str, ...]
    counts: Integers
    """One axis per attribute, in the order of the names."""

    def __repr__(self) -> str:
        return "<sealed>"

    @cached_property
    def rows(self) -> int:
        """The number of rows."""
        return int(self.counts.sum())

    def answers(self, query: Query, plan: HistogramPlan, places: Sequence[int]) -> dict[int, WholeNumbers]:
        """Return the answers of some blocks, all over these attributes, by position."""
        wanted = defaultdict[int, list[int]](list)
        bit = {name: 1 << axis for axis, name in enumerate(self.names)}
        for place in places:
            wanted[sum([bit[name] for name in plan.looked_at[place]])].append(place)
        by_place = dict[int, WholeNumbers]()
        for chosen, marginal in self._marginals(self.counts, 0, 0, list(wanted)):
            names = tuple(name for name in self.names if chosen & bit[name])
            blocks = [query.blocks[place] for place in wanted[chosen]]
            answers = _from_marginal(query.domain, names, marginal, blocks, rows=self.rows)
            by_place.update(zip(wanted[chosen], answers, strict=True))
        return by_place

    def _marginals(self, counts: Integers, kept: int, axis: int, wanted: list[int]) -> Iterator[tuple[int, Integers]]:
        """Yield each wanted set of attributes with its marginal counts; shared partial sums are computed once.

        `counts` has the axes kept before `axis`, then all from there on.
        """
        if max(wanted) >> axis == 0:
            shape = counts.shape[: kept.bit_count()]
            yield kept, counts.reshape(math.prod(shape), -1).sum(axis=1).reshape(shape)
            return
        bit = 1 << axis
        without = [mask for mask in wanted if not mask & bit]
        if without:
            yield from self._marginals(counts.sum(axis=kept.bit_count()), kept, axis + 1, without)
        if len(without) < len(wanted):
            yield from self._marginals(counts, kept | bit, axis + 1, [mask for mask in wanted if mask & bit])


def _from_marginal(
    domain: Domain, names: tuple[str, ...], counts: Integers, blocks: Sequence[Block], *, rows: int
) -> list[WholeNumbers]:
    """Return the answers of blocks that use exactly these attributes."""
    answers: list[WholeNumbers] = [[]] * len(blocks)
    boxes = {place: box for place, block in enumerate(blocks) if (box := _counted_box(block)) is not None}
    if boxes:
        numbers = np.array([_number(blocks[place]) for place in boxes], dtype=np.int64)
        values = _box_counts(domain, names, counts, list(boxes.values())) * numbers
        for turn, place in enumerate(boxes):
            answers[place] = values[turn : turn + 1]
    axes = broadcast_codes({name: np.arange(domain[name].cells, dtype=np.int64) for name in names})
    for place, block in enumerate(blocks):
        if place not in boxes:
            answers[place] = answer_block(block, axes, counts=counts, rows=rows)
    return answers


def _counted_box(block: Block) -> tuple[Among, ...] | None:
    """Return the sets of a block that counts a box; None for any other block."""
    if block.keys or not isinstance(block.weight, ConstantWeight) or abs(block.weight.number) > 2**10:
        return None
    return as_box(block.where)


def _number(block: Block) -> int:
    return block.weight.number if isinstance(block.weight, ConstantWeight) else 0


def _box_counts(
    domain: Domain, names: tuple[str, ...], counts: Integers, boxes: Sequence[tuple[Among, ...]]
) -> Integers:
    """Return the number of rows in each box.

    The products use doubles for speed, and are exact in any order of summation: every intermediate number is a count of
    rows, so an integer below 2^53.
    """
    if not names:
        return np.full(len(boxes), int(counts), dtype=np.int64)
    parts = [{part.attribute: part.codes for part in box} for box in boxes]
    masks = [_masks([codes[name] for codes in parts], domain[name].cells) for name in names]
    table = counts.astype(np.float64).reshape(counts.shape[0], -1)
    step = max(1, _ENTRIES_AT_ONCE // table.shape[1])
    chunks = (slice(start, start + step) for start in range(0, len(boxes), step))
    chunk_counts = [_contract(table, [mask[part] for mask in masks], counts.shape) for part in chunks]
    return np.concatenate(chunk_counts).astype(np.int64)


def _contract(table: Doubles, masks: Sequence[Doubles], shape: tuple[int, ...]) -> Doubles:
    """Return the sum over all axes of table·mask·mask..., one for each row of the masks."""
    left = masks[0] @ table
    for size, mask in zip(shape[1:], masks[1:], strict=True):
        left = np.matmul(mask[:, None, :], left.reshape(len(mask), size, -1))[:, 0, :]
    return left.reshape(-1)


def _masks(codes: Sequence[int], number: int) -> Doubles:
    """Return one 0/1 row per set."""
    if number <= _WORD_BITS:
        bits = np.array(codes, dtype=np.int64)[:, None] >> np.arange(number)
        return (bits & 1).astype(np.float64)
    return np.array([unpack_bits(code_set, number) for code_set in codes], dtype=np.float64)


# --- Answers from any SQL engine: which statements share a pass, and how to combine the returned columns. ---


Fetch = Callable[[render.GroupedSql], "list[Integers]"]
"""Runs a statement and returns its result columns: the group, then the limbs. Raises SourceFailed."""
_CONDITIONS_AT_ONCE = 200  # beyond this, each condition in a statement costs more
_FEW_CONDITIONS = 2
_WEIGHTS_AT_ONCE = 500  # each is at most two columns, and PostgreSQL returns up to 1,664


def answer_query(query: Query, table: render.Table, *, rows: int, fetch: Fetch) -> Sealed:
    """Return all answers of a query, sealed; `rows` is the declared size."""
    by_place = dict[int, WholeNumbers]()
    for people, places, part in split_by_table(query):
        part_table = table if people is None else render.person_rows(table, people)
        by_place.update(zip(places, _answer_blocks(part, part_table, rows=rows, fetch=fetch), strict=True))
    return Sealed(join_answers([by_place[place] for place in range(len(query.blocks))]))


def split_by_table(query: Query) -> list[tuple[PersonTable | None, Sequence[int], Query]]:
    """Return for each table that a query is about the numbers of its blocks, and the query of these alone."""
    if all(block.table is None for block in query.blocks):
        return [(None, range(len(query.blocks)), query)]
    places = defaultdict[PersonTable | None, list[int]](list)
    for place, block in enumerate(query.blocks):
        places[block.table].append(place)
    return [
        (
            table,
            block_places,
            Query(
                query.domain if table is None else table.domain,
                tuple(replace(query.blocks[place], table=None) for place in block_places),
            ),
        )
        for table, block_places in places.items()
    ]


def _answer_blocks(query: Query, table: render.Table, *, rows: int, fetch: Fetch) -> list[WholeNumbers]:
    """Return the answers of each block over one table."""
    plan = plan_histograms(query, rows=rows)
    by_place = dict[int, WholeNumbers]()
    for names, places in plan.histograms:
        by_place |= _fetch_histogram(query, names, table, fetch).answers(query, plan, places)
    for answered, asked in _statements(table, query.blocks, plan.single):
        by_place.update(zip(answered, _fetch_sums(asked, fetch), strict=True))
    return [by_place[place] for place in range(len(query.blocks))]


def rows_digest(table: render.Table, fetch: Fetch) -> str:
    """Return a digest of everything an answer can depend on: the cells of the counted rows, in any order.

    The engine hashes each row's cells as text, and the hashes are summed. This detects accidental changes; for tables
    in files, `fingerprint_files` is stronger.
    """
    _, *limbs = fetch(render.digest_statement(table))
    return hashlib.sha256(repr([int(limb[0]) for limb in limbs]).encode("ascii")).hexdigest()


def unread_columns(table: render.Table, fetch: Fetch) -> tuple[str, ...]:
    """Return the columns that have values in some rows, but no declared value in any row."""
    columns = render.readings_with_outside(table)
    if not columns:
        return ()
    _, *figures = fetch(render.unread_statement(table))
    counts = [int(column[0]) for column in figures]
    pairs = zip(columns, counts[::2], counts[1::2], strict=True)
    return tuple(reading.attribute.name for reading, within, beyond in pairs if within == 0 < beyond)


def _fetch_histogram(query: Query, names: Sequence[str], table: render.Table, fetch: Fetch) -> Histogram:
    shape = tuple(query.domain[name].cells for name in names)
    columns = fetch(render.histogram_statement(table, names))
    counts = np.zeros(int(np.prod(shape, dtype=np.int64)), dtype=np.int64)
    counts[columns[0]] = columns[1]
    return Histogram(tuple(names), counts.reshape(shape))


def _fetch_sums(asked: render.GroupedSql, fetch: Fetch) -> list[WholeNumbers]:
    """Return the answers of each weight of a statement, for all of its groups."""
    group, *columns = fetch(asked)
    answers = list[Any]()
    for scales in asked.scales:
        limbs, columns = columns[: len(scales)], columns[len(scales) :]
        answers.append(_combine_limbs(group, limbs, scales, groups=asked.groups))
    return answers


def _statements(
    table: render.Table, blocks: Sequence[Block], places: Sequence[int]
) -> list[tuple[list[int], render.GroupedSql]]:
    """Return statements for blocks, each with the positions it answers; blocks share a pass if possible."""
    alike = defaultdict[tuple[Predicate, tuple[Key, ...]], list[int]](list)
    statements = list[tuple[list[int], render.GroupedSql]]()
    for place in places:
        block = blocks[place]
        if isinstance(block.weight, PeopleWeight):
            statements.append(([place], render.people_statement(table, block.where, block.keys)))
        else:
            alike[block.where, block.keys].append(place)
    alone = [block_places for (_, keys), block_places in alike.items() if not keys]
    for (where, keys), block_places in alike.items():
        if keys or len(alone) <= _FEW_CONDITIONS:
            for start in range(0, len(block_places), _WEIGHTS_AT_ONCE):
                some = block_places[start : start + _WEIGHTS_AT_ONCE]
                statements.append(
                    (some, render.sum_statement(table, where, keys, [blocks[place].weight for place in some]))
                )
    if len(alone) > _FEW_CONDITIONS:
        listed = [place for block_places in alone for place in block_places]
        for start in range(0, len(listed), _CONDITIONS_AT_ONCE):
            block_places = listed[start : start + _CONDITIONS_AT_ONCE]
            statements.append(
                (block_places, render.conditional_statement(table, [blocks[place] for place in block_places]))
            )
    return statements


def _combine_limbs(group: Integers, columns: Sequence[Integers], scales: Sequence[int], *, groups: int) -> WholeNumbers:
    """Combine limbs into one number per group; groups that were not returned have 0."""
    *high, low = columns
    if scales[-1] == 1 and not any(limb.any() for limb in high):
        dense = np.zeros(groups, dtype=np.int64)
        dense[group] = low
        return dense
    total = [0] * groups
    limbs = zip(*(column.tolist() for column in columns), strict=True)
    for place, parts in zip(group.tolist(), limbs, strict=True):
        total[place] = sum(scale * part for scale, part in zip(scales, parts, strict=True))
    return fit_to_int64(total)


# --- Fingerprints: whether the rows are still those first opened under a version. ---


_BYTES_AT_ONCE = 2**20


def fingerprint_files(paths: str | Path | Iterable[str | Path], *, further: str = "") -> str:
    """Return a digest of the contents of files, given by paths or patterns, independent of names and order.

    `further` is anything else that determines what is read from them.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "a").write_bytes(b"1"), Path(folder, "b").write_bytes(b"2")
    ...     a, b = Path(folder, "a"), Path(folder, "b")
    ...     fingerprint_files([a, b]) == fingerprint_files([b, a])
    True
    """
    listed = [paths] if isinstance(paths, str | Path) else list(paths)
    files = {name for path in listed for name in list_files(path)}
    digests = "".join(sorted(_file_digest(Path(name)) for name in files))
    return hashlib.sha256(f"{digests}{further}".encode()).hexdigest()


def _file_digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while part := file.read(_BYTES_AT_ONCE):
            digest.update(part)
    return digest.hexdigest()
