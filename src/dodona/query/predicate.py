"""Predicates: the cells that a query selects, in one canonical form.

Sets of codes are Python integers, one bit per code. Predicates are built with `among`, `conjunction`, `disjunction`,
`complement` and `among_combinations`, which simplify; SQL and weights are both derived from the result. There is no
NULL here: the complement contains all other rows.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from operator import and_, index, or_
from typing import NoReturn, assert_never

import numpy as np

from dodona.errors import InvalidArgument, InvalidRequest
from dodona.numbers import Booleans, Integers
from dodona.query.polynomial import Polynomial, evaluate_polynomial, reduce_comparison
from dodona.schema.attributes import Attribute

# --- Bits: sets of codes as integers, and the codes that a set of combinations distinguishes. ---


_MOST_KEPT = 1 << 12  # caching larger sets would fill the memory
_PAIR = 2


def unpack_bits(codes: int, number: int) -> Booleans:
    """Return the bits as a read-only array, lowest first."""
    return _unpack(codes, number) if number <= _MOST_KEPT else _unpack.__wrapped__(codes, number)


def pack_bits(members: Booleans) -> int:
    """Return the integer with these bits, lowest first; a table is read in row-major order.

    >>> pack_bits(np.array([[True, False], [False, True]]))
    9
    """
    return int.from_bytes(np.packbits(members, axis=None, bitorder="little").tobytes(), "little")


@lru_cache(maxsize=1 << 7)
def axis_classes(shape: tuple[int, ...], codes: int) -> tuple[tuple[int, ...], ...]:
    """Return for each axis of a table of bits the class of each position: equal slices form one class.

    Classes are numbered by their first positions.

    >>> axis_classes((2, 3), 0b101_000)
    ((0, 1), (0, 1, 0))
    """
    number = math.prod(shape)
    classes: list[tuple[int, ...]] = []
    for axis, size in enumerate(shape):
        stride = math.prod(shape[axis + 1 :])
        if size == _PAIR:  # far faster on integers than on arrays
            lower = _lower_halves(number, stride)
            classes.append((0, 0) if codes & lower == codes >> stride & lower else (0, 1))
        else:
            slices = np.moveaxis(unpack_bits(codes, number).reshape(-1, size, stride), 1, 0).reshape(size, -1)
            seen: dict[bytes, int] = {}
            classes.append(tuple([seen.setdefault(row.tobytes(), len(seen)) for row in slices]))
    return tuple(classes)


@lru_cache(maxsize=1 << 10)
def separating_sets(classes: tuple[int, ...]) -> tuple[int, ...]:
    """Return a few sets of positions, as bits, that separate exactly the positions in different classes.

    >>> [bin(one) for one in separating_sets((0, 1, 0, 2))]
    ['0b10', '0b1000']
    """
    labels = np.array(classes, dtype=np.int64)
    return tuple(pack_bits(labels >> digit & 1 == 1) for digit in range(max(classes).bit_length()))


def drop_axes(shape: tuple[int, ...], codes: int, kept: Sequence[int]) -> int:
    """Return the bits of a table without the axes not kept, which must not affect it."""
    chosen = tuple(slice(None) if axis in kept else 0 for axis in range(len(shape)))
    return pack_bits(unpack_bits(codes, math.prod(shape)).reshape(shape)[chosen])


def project_bits(shape: tuple[int, ...], codes: int, axis: int) -> int:
    """Return the positions on one axis for which any bit of a table is set."""
    slices = unpack_bits(codes, math.prod(shape)).reshape(math.prod(shape[:axis]), shape[axis], -1)
    return pack_bits(np.asarray(slices.any(axis=(0, 2))))


@lru_cache(maxsize=1 << 7)
def _lower_halves(number: int, stride: int) -> int:
    """Return the bits of the first half of each pair of slices of length `stride`."""
    bits, width = (1 << stride) - 1, 2 * stride
    while width < number:
        bits |= bits << width
        width *= 2
    return bits & ((1 << number) - 1)


@lru_cache(maxsize=1 << 12)
def _unpack(codes: int, number: int) -> Booleans:
    raw = np.frombuffer(codes.to_bytes(-(-number // 8), "little"), dtype=np.uint8)
    bits = np.unpackbits(raw, bitorder="little", count=number).view(np.bool_)
    bits.flags.writeable = False
    return bits


# --- Predicates: one canonical form, from which both the SQL and the weights are derived. ---


Axes = Mapping[str, Integers]
"""Codes by attribute: of all rows of a table, or of all cells of a product, in shapes that broadcast."""
MOST_COMBINATIONS = 1 << 20
"""The maximum number of combinations of cells in one `Jointly`."""
_FEW_COMBINATIONS = 1 << 12
"""A comparison of columns with at most this many combinations of cells is kept as their set."""
MOST_TOGETHER = 32
"""The maximum number of attributes in one `Jointly`; 20 with two cells each reach `MOST_COMBINATIONS`."""


class _Algebra:
    """The operators on predicates: & | ~. There is no NULL here: ~ means all other rows.

    So `~(age >= 65)` includes the rows without an age, which SQL's NOT leaves out; `age < 65` does not.
    """

    __slots__ = ()

    def __and__(self: Predicate, other: Predicate) -> Predicate:  # type: ignore[misc]
        return conjunction(self, other)

    def __or__(self: Predicate, other: Predicate) -> Predicate:  # type: ignore[misc]
        return disjunction(self, other)

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
    """Bit i represents code i."""


@dataclass(frozen=True, slots=True)
class Jointly(_Algebra):
    """Any set of combinations of cells of several attributes, given by its bits."""

    names: tuple[str, ...]
    """The attributes, sorted."""
    shape: tuple[int, ...]
    """The number of cells of each attribute."""
    codes: int
    """Bit i represents the i-th combination of codes, in row-major order."""

    def __repr__(self) -> str:  # too many bits for decimal digits, possibly
        return f"Jointly(names={self.names}, shape={self.shape}, codes={self.codes:#x})"


@dataclass(frozen=True, slots=True)
class NonNegative(_Algebra):
    """The rows in which all columns of a polynomial have a value, and the polynomial is at least 0."""

    polynomial: Polynomial


@dataclass(frozen=True, slots=True)
class And(_Algebra):
    """The conjunction of the parts; without parts, everything."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or(_Algebra):
    """The disjunction of the parts; without parts, nothing."""

    parts: tuple[Predicate, ...]


Predicate = Among | Jointly | NonNegative | And | Or
_Junction = type[And | Or]
EVERYTHING = And(())
NOTHING = Or(())


def among(attribute: Attribute, codes: Iterable[int]) -> Predicate:
    """Return the rows whose code is one of these.

    >>> from dodona.schema.attributes import Boolean
    >>> among(Boolean("emergency"), [1])
    Among(attribute='emergency', cells=4, codes=2)
    """
    return among_mask(attribute, reduce(or_, (1 << code for code in codes), 0))


def among_mask(attribute: Attribute, codes: int) -> Predicate:
    """Return the rows whose code has its bit set; all or no bits give everything or nothing."""
    return _simplify_among(Among(attribute.name, attribute.cells, codes))


def conjunction(*parts: Predicate) -> Predicate:
    """Return the conjunction: flat, one set per attribute, no duplicates, in a fixed order."""
    return _combine(parts, And, Or, and_)


def disjunction(*parts: Predicate) -> Predicate:
    """Return the disjunction: flat, one set per attribute, no duplicates, in a fixed order."""
    return _combine(parts, Or, And, or_)


def complement(predicate: Predicate) -> Predicate:
    """Return all cells outside the predicate."""
    match predicate:
        case Among(name, number, codes):
            return _simplify_among(Among(name, number, ~codes & ((1 << number) - 1)))
        case Jointly(names, shape, codes):
            return simplify_combinations(Jointly(names, shape, ~codes & ((1 << math.prod(shape)) - 1)))
        case NonNegative(polynomial):
            below = non_negative(polynomial.negative().plus(-1))
            return disjunction(below, *map(complement, _rows_with_values(polynomial)))
        case And(parts):
            return disjunction(*map(complement, parts))
        case Or(parts):
            return conjunction(*map(complement, parts))
        case _:
            assert_never(predicate)


def non_negative(polynomial: Polynomial) -> Predicate:
    """Return the rows in which all columns have a value and the polynomial is at least 0, as simply as possible."""
    low, high = polynomial.bounds()
    if low >= 0 or high < 0:
        return conjunction(*_rows_with_values(polynomial)) if low >= 0 else NOTHING
    if len(polynomial.cells) > 1 and math.prod(polynomial.cells) > _FEW_COMBINATIONS:
        return NonNegative(reduce_comparison(polynomial))
    axes = {
        name: np.arange(number).reshape([-1 if name == other else 1 for other in polynomial.names])
        for name, number in zip(polynomial.names, polynomial.cells, strict=True)
    }
    values, held = evaluate_polynomial(polynomial, axes)
    members = np.broadcast_to(held & (values >= 0), polynomial.cells)
    if len(polynomial.cells) == 1:
        return _simplify_among(Among(polynomial.names[0], polynomial.cells[0], pack_bits(members)))
    return simplify_combinations(Jointly(polynomial.names, polynomial.cells, pack_bits(members)))


def _rows_with_values(polynomial: Polynomial) -> list[Predicate]:
    """Return for each column of a polynomial the rows in which it has a value."""
    listed = zip(polynomial.names, polynomial.cells, polynomial.sizes, strict=True)
    return [_simplify_among(Among(name, cells, (1 << size) - 1)) for name, cells, size in listed]


def simplify_combinations(part: Jointly) -> Predicate:
    """Rewrite as a conjunction or disjunction of one set per attribute if possible, else drop unused attributes."""
    names, shape, codes = part.names, part.shape, part.codes
    everything = (1 << math.prod(shape)) - 1
    if codes in {0, everything}:
        return EVERYTHING if codes else NOTHING
    classes = axis_classes(shape, codes)
    kept = [axis for axis, labels in enumerate(classes) if any(labels)]
    if len(kept) < len(names):
        codes = drop_axes(shape, codes, kept)
        names, shape, classes = (tuple(values[axis] for axis in kept) for values in (names, shape, classes))  # type: ignore[assignment]
        everything = (1 << math.prod(shape)) - 1
    sets = _product_sets(shape, classes, codes)
    if sets is not None:
        return conjunction(*(Among(*arguments) for arguments in zip(names, shape, sets, strict=True)))
    sets = _product_sets(shape, classes, everything ^ codes)
    if sets is not None:
        return disjunction(*(complement(Among(*arguments)) for arguments in zip(names, shape, sets, strict=True)))
    return Jointly(names, shape, codes)


def _product_sets(shape: tuple[int, ...], classes: tuple[tuple[int, ...], ...], codes: int) -> list[int] | None:
    """Return one set of positions per axis if the bits of a table are their product; otherwise None."""
    first = np.unravel_index((codes & -codes).bit_length() - 1, shape)
    alike = [labels.count(labels[place]) for labels, place in zip(classes, first, strict=True)]
    if math.prod(alike) != codes.bit_count():  # not a product of classes
        return None
    return [pack_bits(np.array(labels) == labels[place]) for labels, place in zip(classes, first, strict=True)]


def evaluate_predicate(predicate: Predicate, axes: Axes) -> Booleans:
    """Return where the predicate is true, for rows or for the cells of a product."""
    match predicate:
        case Among(name, number, codes):
            selected: Booleans = unpack_bits(codes, number)[axes[name]]
            return selected
        case Jointly(names, shape, codes):
            place = np.asarray(0, dtype=np.int64)
            for name, number in zip(names, shape, strict=True):
                place = place * number + axes[name]
            members: Booleans = unpack_bits(codes, math.prod(shape))[place]
            return members
        case NonNegative(polynomial):
            values, held = evaluate_polynomial(polynomial, axes)
            return held & (values >= 0)
        case And(parts):
            return reduce(np.logical_and, (evaluate_predicate(part, axes) for part in parts), np.asarray(True))  # noqa: FBT003
        case Or(parts):
            return reduce(np.logical_or, (evaluate_predicate(part, axes) for part in parts), np.asarray(False))  # noqa: FBT003
        case _:
            assert_never(predicate)


def predicate_attributes(predicate: Predicate) -> frozenset[str]:
    """Return the names of the attributes that a predicate uses."""
    match predicate:
        case Among(name):
            return frozenset((name,))
        case Jointly(names):
            return frozenset(names)
        case NonNegative(polynomial):
            return frozenset(polynomial.names)
        case And(parts) | Or(parts):
            if all(type(part) is Among for part in parts):
                return frozenset([part.attribute for part in parts if type(part) is Among])
            return frozenset().union(*map(predicate_attributes, parts))
        case _:
            assert_never(predicate)


def count_parts(predicates: Iterable[Predicate], *, most: int) -> int:
    """Return how many parts some predicates have in all; counting ends where there are more than `most`."""
    waiting = list(predicates)
    for predicate in waiting:
        if isinstance(predicate, And | Or):
            waiting.extend(predicate.parts)
        if len(waiting) > most:
            break
    return len(waiting)


def as_box(predicate: Predicate) -> tuple[Among, ...] | None:
    """Return one set per attribute if the predicate is a conjunction of such sets; otherwise None."""
    match predicate:
        case Among():
            return (predicate,)
        case And(parts):
            sets = tuple(part for part in parts if isinstance(part, Among))
            return sets if len(sets) == len(parts) else None
        case Jointly() | NonNegative() | Or():
            return None
        case _:
            assert_never(predicate)


def allowed_codes(where: Predicate, attribute: Attribute) -> int:
    """Return the cells of an attribute that a condition allows, judging by its simple parts."""
    codes = (1 << attribute.cells) - 1
    for part in where.parts if isinstance(where, And) else (where,):
        if isinstance(part, Among) and part.attribute == attribute.name:
            codes &= part.codes
        elif isinstance(part, Jointly) and attribute.name in part.names:
            codes &= project_bits(part.shape, part.codes, part.names.index(attribute.name))
        elif isinstance(part, NonNegative) and attribute.name in part.polynomial.names:
            codes &= (1 << attribute.size) - 1
        elif part == NOTHING:
            codes = 0
    return codes


def _simplify_among(part: Among) -> Predicate:
    if part.codes == 0:
        return NOTHING
    return EVERYTHING if part.codes == (1 << part.cells) - 1 else part


def _combine(
    parts: Iterable[Predicate], outer: _Junction, inner: _Junction, merge: Callable[[int, int], int]
) -> Predicate:
    """Combine parts under `outer`: flatten, merge sets, drop duplicates and implied parts, sort."""
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
    for alike in tables.values():  # merge tables of the same attributes; the result may be simpler
        if len(alike) > 1:
            for part in alike:
                del rest[part]
            codes = reduce(merge, (part.codes for part in alike))
            merged = simplify_combinations(Jointly(alike[0].names, alike[0].shape, codes))
            return _combine((*sets.values(), *rest, merged), outer, inner, merge)
    simplified = [_simplify_among(part) for part in sets.values()]
    whole = inner(())  # absorbs all else: nothing in a conjunction, everything in a disjunction
    if whole in simplified or whole in rest:
        return whole
    kept = [part for part in simplified if part != outer(())]
    held = frozenset(kept) | frozenset(rest)
    kept += [part for part in rest if not held & frozenset(getattr(part, "parts", ()))]  # a and (a or b) is a
    if len(kept) == 1:
        return kept[0]
    return outer(tuple(sorted(kept, key=_sort_key)))


def _sort_key(part: Predicate) -> tuple[int, str]:
    return (0, part.attribute) if isinstance(part, Among) else (1, _sort_text(part))


def _sort_text(part: Predicate) -> str:
    """Return a sort key as text. There may be too many bits for decimal digits."""
    match part:
        case Among(name, _, codes):
            return f"among({name}:{codes:x})"
        case Jointly(names, _, codes):
            return f"jointly({','.join(names)}:{codes:x})"
        case NonNegative(polynomial):
            return f"non_negative({polynomial})"
        case And(parts) | Or(parts):
            return f"{type(part).__name__}({','.join(map(_sort_text, parts))})"
        case _:
            assert_never(part)


# --- Sets of combinations of cells of a few attributes, from a table or a list. ---


def among_combinations(attributes: Sequence[Attribute], members: Booleans | Iterable[Sequence[int]]) -> Predicate:
    """Return the rows whose combination of codes is one of these.

    Members are a boolean table with one axis per attribute in the given order, or a list with one code per attribute.
    The predicate is the simplest one: attributes without effect are dropped, and a product of sets becomes a
    conjunction.

    >>> from dodona.schema.attributes import Boolean
    >>> planned, urgent = Boolean("planned", otherwise=False), Boolean("urgent", otherwise=False)
    >>> among_combinations([urgent, planned], [(0, 1), (1, 0)])
    Jointly(names=('planned', 'urgent'), shape=(2, 2), codes=0x6)
    """
    shape = combination_shape(attributes)
    names = [attribute.name for attribute in attributes]
    table = _membership_table(shape, members)
    order = sorted(range(len(names)), key=names.__getitem__)
    codes = pack_bits(table.transpose(order))
    ordered = tuple(names[place] for place in order), tuple(shape[place] for place in order)
    return simplify_combinations(Jointly(*ordered, codes))


def combination_shape(attributes: Sequence[Attribute]) -> tuple[int, ...]:
    """Return the number of cells of each attribute; refuses duplicates and too many combinations."""
    names, shape = [attribute.name for attribute in attributes], tuple([attribute.cells for attribute in attributes])
    if len(set(names)) < len(names):
        raise InvalidArgument("attributes", names, "write each attribute once")
    if math.prod(shape) > MOST_COMBINATIONS or len(names) > MOST_TOGETHER:
        accepted = f"look at no more than {MOST_COMBINATIONS} combinations of cells together, or join sets with & and |"
        raise InvalidArgument("attributes", f"{math.prod(shape)} combinations", accepted)
    return shape


def _membership_table(shape: tuple[int, ...], members: Booleans | Iterable[Sequence[int]]) -> Booleans:
    """Return the members as a boolean table."""
    if isinstance(members, np.ndarray) and members.dtype == np.bool_:
        if members.shape not in {shape, (math.prod(shape),)}:
            raise InvalidArgument("members", f"a table of shape {members.shape}", f"write one of shape {shape}")
        return members.reshape(shape)
    table = np.zeros(shape, dtype=np.bool_)
    for member in members:
        codes = tuple(map(index, member))
        if len(codes) != len(shape) or not all(0 <= code < number for code, number in zip(codes, shape, strict=True)):
            accepted = f"write a code of each attribute, below {', '.join(map(str, shape))}"
            raise InvalidArgument("members", codes, accepted)
        table[codes] = True
    return table
