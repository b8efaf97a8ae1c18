"""Predicates: which cells are meant. One canonical form, from which both the SQL and the weights are made.

A predicate is a monotone formula over sets of cells, of single attributes or of a few together. There is no NULL in
it: SQL's three values are resolved before, as `<missing>` is a cell like any other.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING, NoReturn, assert_never

import numpy as np

from dodona.domain.attribute import Attribute, cells
from dodona.errors import InvalidRequest
from dodona.query.bits import bits, packed, told_apart, without

if TYPE_CHECKING:
    from numpy.typing import NDArray

Axes = Mapping[str, "NDArray[np.int64]"]
"""Codes by attribute: of all rows of a table, or of all cells of a product, in shapes that broadcast."""
MOST_COMBINATIONS = 1 << 20
"""Of the cells of attributes that are looked at together."""
MOST_TOGETHER = 32
"""Attributes that are looked at together; 20 of two cells each have as many combinations as there may be."""


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
class Jointly(_Algebra):
    """The combinations of cells of some attributes whose bits are set: any set of them."""

    names: tuple[str, ...]
    """Of the attributes, rising."""
    shape: tuple[int, ...]
    """How many cells each of them has."""
    codes: int
    """Bit i stands for the i-th combination of codes, in row-major order."""

    def __repr__(self) -> str:  # the bits may be too many for decimal digits
        return f"Jointly(names={self.names}, shape={self.shape}, codes={self.codes:#x})"


@dataclass(frozen=True, slots=True)
class And(_Algebra):
    """All of the parts; without parts, everything."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or(_Algebra):
    """Any of the parts; without parts, nothing."""

    parts: tuple[Predicate, ...]


Predicate = Among | Jointly | And | Or
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
        case Jointly(names, shape, codes):
            return simplest(Jointly(names, shape, ~codes & ((1 << math.prod(shape)) - 1)))
        case And(parts):
            return either(*map(complement, parts))
        case Or(parts):
            return both(*map(complement, parts))
        case _:
            assert_never(predicate)


def simplest(part: Jointly) -> Predicate:
    """Return the same rows by one set an attribute, all or any of them, where that does; else without idle ones."""
    names, shape, codes = part.names, part.shape, part.codes
    everything = (1 << math.prod(shape)) - 1
    if codes in {0, everything}:
        return EVERYTHING if codes else NOTHING
    told = told_apart(shape, codes)
    kept = [axis for axis, own in enumerate(told) if any(own)]
    if len(kept) < len(names):
        codes = without(shape, codes, kept)
        names, shape, told = (tuple(own[axis] for axis in kept) for own in (names, shape, told))  # type: ignore[assignment]
        everything = (1 << math.prod(shape)) - 1
    sets = _product(shape, told, codes)
    if sets is not None:
        return both(*(Among(*own) for own in zip(names, shape, sets, strict=True)))
    sets = _product(shape, told, everything ^ codes)
    if sets is not None:
        return either(*(complement(Among(*own)) for own in zip(names, shape, sets, strict=True)))
    return Jointly(names, shape, codes)


def _product(shape: tuple[int, ...], told: tuple[tuple[int, ...], ...], codes: int) -> list[int] | None:
    """Return one set of places an axis where the bits of a table are the product of such; None where they are not."""
    first = np.unravel_index((codes & -codes).bit_length() - 1, shape)
    alike = [own.count(own[place]) for own, place in zip(told, first, strict=True)]
    if math.prod(alike) != codes.bit_count():  # what is alike with the first of them is all of them, or it is none
        return None
    return [packed(np.array(own) == own[place]) for own, place in zip(told, first, strict=True)]


def holds(predicate: Predicate, axes: Axes) -> NDArray[np.bool_]:
    """Return where the predicate is true: of rows, or of the cells of a product."""
    match predicate:
        case Among(name, number, codes):
            found: NDArray[np.bool_] = bits(codes, number)[axes[name]]
            return found
        case Jointly(names, shape, codes):
            place = np.asarray(0, dtype=np.int64)
            for name, number in zip(names, shape, strict=True):
                place = place * number + axes[name]
            members: NDArray[np.bool_] = bits(codes, math.prod(shape))[place]
            return members
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
        case Jointly(names):
            return frozenset(names)
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
        case Jointly() | Or():
            return None
        case _:
            assert_never(predicate)


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
    tables = defaultdict[tuple[str, ...], list[Jointly]](list)
    for part in waiting:
        if isinstance(part, outer):
            waiting.extend(part.parts)
        elif isinstance(part, Among):
            before = sets.get(part.attribute)
            codes = part.codes if before is None else merge(before.codes, part.codes)
            sets[part.attribute] = Among(part.attribute, part.cells, codes)
        elif isinstance(part, Jointly) and part not in rest:
            tables[part.names].append(part)
            rest[part] = None
        else:
            rest[part] = None
    for alike in tables.values():  # tables of the same attributes are one; it may be simpler than they were
        if len(alike) > 1:
            for part in alike:
                del rest[part]
            merged = simplest(Jointly(alike[0].names, alike[0].shape, reduce(merge, (one.codes for one in alike))))
            return _joined((*sets.values(), *rest, merged), outer, inner, merge)
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
    return (0, part.attribute) if isinstance(part, Among) else (1, _text(part))


def _text(part: Predicate) -> str:
    """Return a text to sort by. Bits may be too many for decimal digits."""
    match part:
        case Among(name, _, codes):
            return f"among({name}:{codes:x})"
        case Jointly(names, _, codes):
            return f"jointly({','.join(names)}:{codes:x})"
        case And(parts) | Or(parts):
            return f"{type(part).__name__}({','.join(map(_text, parts))})"
        case _:
            assert_never(part)
