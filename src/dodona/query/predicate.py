"""Predicates: which cells are meant. One canonical form, from which both the SQL and the weights are made.

A predicate is a monotone formula over sets of cells of single attributes. There is no NULL in it: SQL's three values
are resolved before, as `<missing>` is a cell like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache, reduce
from operator import and_, or_
from typing import TYPE_CHECKING, NoReturn, assert_never

import numpy as np

from dodona.domain.attribute import Attribute, cells
from dodona.errors import InvalidRequest

if TYPE_CHECKING:
    from numpy.typing import NDArray

Axes = Mapping[str, "NDArray[np.int64]"]
"""Codes by attribute: of all rows of a table, or of all cells of a product, in shapes that broadcast."""


class _Algebra:
    """What may be written between predicates: & | ~. There is no NULL here: ~ means all other rows.

    So `~(age >= 65)` has the rows without an age, which SQL's NOT leaves out; `age < 65` has not.
    """

    __slots__ = ()

    def __and__(self: Predicate, other: Predicate) -> Predicate:  # type: ignore[misc]
        return both(self, other)

    def __or__(self: Predicate, other: Predicate) -> Predicate:  # type: ignore[misc]
        return either(self, other)

    def __invert__(self: Predicate) -> Predicate:  # type: ignore[misc]
        return complement(self)

    def __bool__(self) -> NoReturn:
        raise InvalidRequest(
            "A predicate is neither true nor false by itself. Write & for and, | for or, ~ for not, with brackets "
            "around comparisons, and .between(a, b) for a <= column <= b."
        )


@dataclass(frozen=True, slots=True)
class Among(_Algebra):
    """The cells of one attribute whose bits are set."""

    attribute: str
    cells: int
    codes: int
    """Bit i stands for code i."""


@dataclass(frozen=True, slots=True)
class And(_Algebra):
    """All of the parts; without parts, everything."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or(_Algebra):
    """Any of the parts; without parts, nothing."""

    parts: tuple[Predicate, ...]


Predicate = Among | And | Or
EVERYTHING = And(())
NOTHING = Or(())
_MOST_KEPT = 1 << 12  # sets of larger attributes would fill the memory if they were kept


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
            if all(type(part) is Among for part in parts):
                return frozenset([part.attribute for part in parts if type(part) is Among])
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


def bits(codes: int, number: int) -> NDArray[np.bool_]:
    """Return the bits as an array, lowest first. It cannot be written to."""
    return _kept_bits(codes, number) if number <= _MOST_KEPT else _unpacked(codes, number)


@lru_cache(maxsize=1 << 12)
def _kept_bits(codes: int, number: int) -> NDArray[np.bool_]:
    return _unpacked(codes, number)


def _unpacked(codes: int, number: int) -> NDArray[np.bool_]:
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
