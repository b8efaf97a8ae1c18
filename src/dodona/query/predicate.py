"""Predicates: which cells are meant. One canonical form, from which both the SQL and the weights are made.

A predicate is a monotone formula over sets of cells of single attributes. There is no NULL in it: SQL's three values
are resolved before, as `<missing>` is a cell like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache, reduce
from operator import and_, or_
from typing import TYPE_CHECKING, assert_never

import numpy as np

from dodona.domain.attribute import Attribute, cells

if TYPE_CHECKING:
    from numpy.typing import NDArray

Axes = Mapping[str, "NDArray[np.int64]"]
"""Codes by attribute: of all rows of a table, or of all cells of a product, in shapes that broadcast."""


@dataclass(frozen=True, slots=True)
class Among:
    """The cells of one attribute whose bits are set."""

    attribute: str
    cells: int
    codes: int
    """Bit i stands for code i."""


@dataclass(frozen=True, slots=True)
class And:
    """All of the parts; without parts, everything."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Any of the parts; without parts, nothing."""

    parts: tuple[Predicate, ...]


Predicate = Among | And | Or
EVERYTHING = And(())
NOTHING = Or(())


def among(attribute: Attribute, codes: Iterable[int]) -> Predicate:
    """Return the rows whose code is one of these.

    >>> from dodona.domain.attribute import Boolean
    >>> among(Boolean("emergency"), [1])
    Among(attribute='emergency', cells=4, codes=2)
    """
    return masked(attribute, reduce(or_, (1 << code for code in codes), 0))


def masked(attribute: Attribute, codes: int) -> Predicate:
    """Return the rows whose code has its bit set; all or no bits mean everything or nothing."""
    return _simple(Among(attribute.name, cells(attribute), codes))


def both(*parts: Predicate) -> Predicate:
    """Return the conjunction: flat, one set an attribute, each part once, in a fixed order."""
    return _joined(parts, And, Or, and_)


def either(*parts: Predicate) -> Predicate:
    """Return the disjunction: flat, one set an attribute, each part once, in a fixed order."""
    return _joined(parts, Or, And, or_)


def complement(predicate: Predicate) -> Predicate:
    """Return the cells that are not meant."""
    match predicate:
        case Among(name, number, codes):
            return _simple(Among(name, number, ~codes & ((1 << number) - 1)))
        case And(parts):
            return either(*map(complement, parts))
        case Or(parts):
            return both(*map(complement, parts))
        case _:
            assert_never(predicate)


def holds(predicate: Predicate, axes: Axes) -> NDArray[np.bool_]:
    """Return where the predicate is true: of rows, or of the cells of a product."""
    match predicate:
        case Among(name, number, codes):
            found: NDArray[np.bool_] = bits(codes, number)[axes[name]]
            return found
        case And(parts):
            return reduce(np.logical_and, (holds(part, axes) for part in parts), np.asarray(True))  # noqa: FBT003
        case Or(parts):
            return reduce(np.logical_or, (holds(part, axes) for part in parts), np.asarray(False))  # noqa: FBT003
        case _:
            assert_never(predicate)


def used(predicate: Predicate) -> frozenset[str]:
    """Return the names of the attributes that a predicate looks at."""
    match predicate:
        case Among(name):
            return frozenset((name,))
        case And(parts) | Or(parts):
            return frozenset().union(*map(used, parts))
        case _:
            assert_never(predicate)


def box(predicate: Predicate) -> tuple[Among, ...] | None:
    """Return one set an attribute where the predicate is a conjunction of such; None where it is more."""
    match predicate:
        case Among():
            return (predicate,)
        case And(parts):
            sets = tuple(part for part in parts if isinstance(part, Among))
            return sets if len(sets) == len(parts) else None
        case Or():
            return None
        case _:
            assert_never(predicate)


@lru_cache(maxsize=1 << 14)
def bits(codes: int, number: int) -> NDArray[np.bool_]:
    """Return the bits as an array, lowest first."""
    raw = np.frombuffer(codes.to_bytes(-(-number // 8), "little"), dtype=np.uint8)
    found = np.unpackbits(raw, bitorder="little", count=number).astype(np.bool_)
    found.flags.writeable = False
    return found


def _simple(part: Among) -> Predicate:
    if part.codes == 0:
        return NOTHING
    return EVERYTHING if part.codes == (1 << part.cells) - 1 else part


def _joined(
    parts: Iterable[Predicate],
    outer: type[And | Or],
    inner: type[And | Or],
    merge: Callable[[int, int], int],
) -> Predicate:
    """Return parts under `outer`, by rewriting: flatten, merge sets, drop repeats and what others imply, sort."""
    sets: dict[str, Among] = {}
    rest: dict[Predicate, None] = {}
    waiting = list(parts)
    for part in waiting:
        if isinstance(part, outer):
            waiting.extend(part.parts)
        elif isinstance(part, Among):
            before = sets.get(part.attribute)
            codes = part.codes if before is None else merge(before.codes, part.codes)
            sets[part.attribute] = Among(part.attribute, part.cells, codes)
        else:
            rest[part] = None
    found = [_simple(part) for part in sets.values()]
    whole = inner(())  # swallows everything else: nothing in a conjunction, everything in a disjunction
    if whole in found or whole in rest:
        return whole
    kept = [part for part in found if part != outer(())]
    held = frozenset(kept) | frozenset(rest)
    kept += [part for part in rest if not held & frozenset(getattr(part, "parts", ()))]  # a and (a or b) is a
    if len(kept) == 1:
        return kept[0]
    return outer(tuple(sorted(kept, key=_rank)))


def _rank(part: Predicate) -> tuple[int, str]:
    return (0, part.attribute) if isinstance(part, Among) else (1, repr(part))
