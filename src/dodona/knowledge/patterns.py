"""What a block looks at: the combinations of classes it counts, and the vectors that its values measure.

Each attribute is divided into the coarsest classes that the block does not split. Patterns depend on the schema alone,
so equivalent questions get the same pattern.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, product
from typing import Any, assert_never

import numpy as np
from numpy.typing import NDArray

from dodona.answer.laws import ErrorLaw, half_width
from dodona.answer.sums import rounded_variance
from dodona.errors import InvalidArgument
from dodona.knowledge.sides import ClassWeight, Members, refine_set
from dodona.privacy.additive_noise import Gaussian, Laplace, Noise, RoundedGaussian
from dodona.query import query
from dodona.query.movement import Stack, atom_labels, attribute_uses, broadcast_codes, code_runs
from dodona.query.polynomial import Polynomial, evaluate_polynomial
from dodona.query.predicate import Among, And, Axes, Jointly, axis_classes, evaluate_predicate, unpack_bits
from dodona.query.query import ONE, Block, ConstantWeight, Key, ValueWeight, Weight, block_weights, group_numbers
from dodona.query.residual import Classes
from dodona.schema.attributes import Attribute
from dodona.schema.partition import Partition
from dodona.schema.schema import Domain

MOST_PATTERN_CELLS = 1 << 20
"""A block that looks at more combinations of classes is not written out."""
MOST_CLASSES = 1 << 10
"""An attribute with more cells is classed by its bins alone."""
MOST_BITS = 1 << 27
"""Of all classes of an attribute together: bins that have more of them make no classes."""


@dataclass(frozen=True, slots=True)
class CountPattern:
    """A count over classes: a product of sets of classes, or any other choice of their combinations."""

    classes: tuple[Classes, ...]
    """Of each attribute that is looked at, in the order of the names."""
    sets: tuple[Members, ...] | None
    """For each attribute the classes that are counted, or their weights; None where it is no product, or grouped."""
    grouped: bool = False
    """Whether it counts every combination of its classes by itself."""
    filters: tuple[Members | None, ...] | None = None
    """Of a marginal of some rows: for each attribute the classes that are counted; None where it is grouped by them."""

    @property
    def several(self) -> bool:
        """Whether it has a count for each group."""
        return self.grouped or self.filters is not None

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes."""
        return tuple(classing.attribute for classing in self.classes)

    @property
    def summed(self) -> Classes | None:
        """The column whose numbers are added up, if it is no count."""
        return next((classing for classing in self.classes if classing.base.sums), None)

    @property
    def weighed(self) -> bool:
        """Whether the classes of a column have weights, so that it is no count."""
        return any(isinstance(members, ClassWeight) for members in self.sets or self.filters or ())

    @property
    def size(self) -> int:
        """The number of combinations of classes."""
        return math.prod(classing.number for classing in self.classes)


@lru_cache(maxsize=1 << 12)
def list_classings(attribute: Attribute) -> tuple[Classes, ...]:
    """Return the possible classings of an attribute, the coarsest first."""
    classings = []
    declared = Partition.of(attribute)
    if not declared.single and declared.groups > 1 and declared.groups * declared.cells <= MOST_BITS:
        classings.append(Classes.grouped(declared))
    if 1 < attribute.cells <= MOST_CLASSES:
        classings.append(Classes.of(attribute))
    return tuple(classings)


def find_pattern(block: Block, domain: Domain) -> CountPattern | None:
    """Return the count pattern of a block; None if it is not a count, or if it splits a class.

    >>> from dodona.schema.attributes import Boolean
    >>> from dodona.query.predicate import among
    >>> domain = Domain((Boolean("urgent"), Boolean("planned")))
    >>> find_pattern(Block(among(domain["urgent"], [1])), domain).names
    ('urgent',)
    """
    if block.table is not None or (block.weight is not ONE and block.weight != ONE):
        return None
    if block.keys:
        return _marginal_pattern(block, domain)
    where = block.where
    parts = where.parts if type(where) is And else (where,)
    sets = [part for part in parts if type(part) is Among]
    names = [part.attribute for part in sets]
    # `conjunction` names each attribute once and in order; an And written by hand may not.
    if len(sets) == len(parts) and names == sorted({*names}):
        return _product_pattern(sets, domain)
    if type(where) is Jointly:
        labelled = zip(where.names, axis_classes(where.shape, where.codes), strict=True)
        classings = [_coarsest(domain.by_name[name], labels) for name, labels in labelled]
    else:
        seen = attribute_uses(Stack((), (block,))).items()
        columns = [(domain.by_name[name], trait) for name, trait in seen]
        classings = [_coarsest(column, atom_labels(column.cells, trait)) for column, trait in columns]
    known = tuple(classing for classing in classings if classing is not None)
    pattern = CountPattern(known, None)
    return pattern if known and len(known) == len(classings) and pattern.size <= MOST_PATTERN_CELLS else None


def _product_pattern(parts: Sequence[Among], domain: Domain) -> CountPattern | None:
    """Return the pattern of a conjunction of sets, one per attribute; None if a set splits a class."""
    classes, sets = [], []
    known, scopes = _seen_before(domain)
    for part in parts:
        column = part.attribute, part.codes  # hashed faster than an attribute
        if column not in known:
            if len(known) >= _MOST_SETS:
                known.clear()
            known[column] = _coarsest_set(domain.by_name[part.attribute], part.codes)
        seen = known[column]
        if seen is None:
            return None
        classes.append(seen[0])
        sets.append(seen[1])
    if len(scopes) >= _MOST_SETS:
        scopes.clear()
    return CountPattern(scopes.setdefault(tuple(map(id, classes)), tuple(classes)), tuple(sets))


_MOST_SETS = 1 << 14


@lru_cache(maxsize=16)
def _seen_before(
    _: Domain,
) -> tuple[dict[tuple[str, int], tuple[Classes, int] | None], dict[tuple[int, ...], tuple[Classes, ...]]]:
    """Return the sets of a domain that were classed before, and the classes of patterns, which share them."""
    return {}, {}


def _coarsest_set(attribute: Attribute, codes: int) -> tuple[Classes, int] | None:
    """Return the coarsest classing that a set does not split, and the set in its classes."""
    for way in list_classings(attribute):
        chosen = [place for place, mask in enumerate(way.masks) if mask & codes]
        if sum(way.masks[place] for place in chosen) == codes:
            return way, sum(1 << place for place in chosen)
    return None


def _coarsest(attribute: Attribute, labelled: NDArray[np.int64] | tuple[int, ...]) -> Classes | None:
    """Return the coarsest classing in which every class has a single label."""
    for way in list_classings(attribute):
        if way.number == way.cells:
            return way
        classes, labels = way.labels(), np.asarray(labelled)
        firsts = np.unique(classes, return_index=True)[1]
        if (labels == labels[firsts][classes]).all():
            return way
    return None


def _marginal_pattern(block: Block, domain: Domain) -> CountPattern | None:
    """Return the pattern of a marginal: rows, all or those of a conjunction, grouped by the classes of attributes.

    A column is a condition or a key: where it is both, None.
    """
    parts = block.where.parts if type(block.where) is And else (block.where,)
    conditions = [part for part in parts if type(part) is Among]
    key_classings = [_key_classes(key, domain) for key in block.keys]
    filtered = _product_pattern(conditions, domain) if len(conditions) == len(parts) else None
    known: dict[Classes, Members | None] = {classing: None for classing in key_classings if classing is not None}
    if len(known) < len(key_classings) or filtered is None or filtered.sets is None:
        return None
    known |= dict(zip(filtered.classes, filtered.sets, strict=True))
    if len({classing.attribute for classing in known}) < len(key_classings) + len(conditions):
        return None
    classes = tuple(sorted(known, key=lambda classing: classing.attribute))
    if conditions:
        pattern = CountPattern(classes, None, filters=tuple([known[classing] for classing in classes]))
    else:
        pattern = CountPattern(classes, None, grouped=True)
    return pattern if pattern.size <= MOST_PATTERN_CELLS else None


def _key_classes(key: Key, domain: Domain) -> Classes | None:
    """Return the classing whose classes are the groups of a key; no classing is built just to rule it out."""
    if not isinstance(key, Partition):
        return None
    ways = list_classings(domain.by_name[key.attribute])
    return next((classing for classing in ways if classing.number == key.groups and _same(classing, key)), None)


@lru_cache(maxsize=1 << 10)
def _same(classes: Classes, key: Partition) -> bool:
    return classes == Classes.grouped(key)


def refine_pattern(pattern: CountPattern, domain: Domain) -> CountPattern | None:
    """Return a product in the finest classings of its attributes; None if it already is. Sums of numbers stay."""
    if pattern.sets is None:
        return None
    finest = tuple(
        [each if each.base.sums else list_classings(domain.by_name[each.attribute])[-1] for each in pattern.classes]
    )
    if finest == pattern.classes:
        return None
    sets = zip(pattern.classes, pattern.sets, finest, strict=True)
    return CountPattern(finest, tuple([refine_set(*side) for side in sets]))


def member_classes(block: Block, classes: tuple[Classes, ...]) -> NDArray[np.bool_] | None:
    """Return which combinations of classes a set of cells counts; None for other counts.

    If every attribute is classed cell by cell, these are the bits of the set.
    """
    where = block.where
    if type(where) is not Jointly or block.weight != ONE or block.keys or block.table is not None:
        return None
    shape = tuple(classing.number for classing in classes)
    axes = [place for place, classing in enumerate(classes) if classing.attribute in where.names]
    if len(axes) < len(where.names) or not all(_single(classes[place]) for place in axes):
        return None
    order = [where.names.index(classes[place].attribute) for place in axes]
    table = unpack_bits(where.codes, math.prod(where.shape)).reshape(where.shape).transpose(order)
    spread = table.reshape([number if place in axes else 1 for place, number in enumerate(shape)])
    return np.broadcast_to(spread, shape).reshape(-1)


@dataclass(frozen=True, slots=True)
class ClassWeights:
    """The weight and the group of each combination of classes."""

    weights: NDArray[np.int64]
    groups: NDArray[np.int64]
    number: int
    """Of groups."""


def weigh_classes(block: Block, classes: tuple[Classes, ...]) -> ClassWeights | None:
    """Return how a block counts combinations of classes; None if it splits a class.

    Attributes that the block does not depend on are allowed and make no difference.
    """
    if not block.attributes <= {classing.attribute for classing in classes}:
        return None
    shape = tuple(classing.number for classing in classes)
    firsts, whole = {}, True
    for place, classing in enumerate(classes):
        codes = _first_codes(classing)
        whole = whole and len(codes) == classing.cells
        firsts[classing.attribute] = codes.reshape([-1 if other == place else 1 for other in range(len(classes))])
    if not whole and not _respects(block, classes):
        return None
    weights = np.broadcast_to(block_weights(block, firsts), shape).reshape(-1)
    groups = np.broadcast_to(group_numbers(block.keys, firsts) if block.keys else np.int64(0), shape).reshape(-1)
    return ClassWeights(weights, groups, block.values)


@lru_cache(maxsize=1 << 10)
def _single(classes: Classes) -> bool:
    """Return whether each cell is its own class, in the order of the codes."""
    return all(mask == 1 << code for code, mask in enumerate(classes.masks))


@lru_cache(maxsize=1 << 10)
def _first_codes(classes: Classes) -> NDArray[np.int64]:
    """Return the first code of each class."""
    return np.array([(mask & -mask).bit_length() - 1 for mask in classes.masks], dtype=np.int64)


def _respects(block: Block, classes: tuple[Classes, ...]) -> bool:
    """Return whether a block splits no class."""
    seen = attribute_uses(Stack((), (block,)))
    for classing in classes:
        trait = seen.get(classing.attribute)
        if trait is not None:
            atoms, places = atom_labels(classing.cells, trait), classing.labels()
            if (atoms != atoms[_first_codes(classing)][places]).any():
                return False
    return True


def class_mask(classes: Classes, members: int) -> NDArray[np.bool_]:
    """Return the mask of the classes in a bit set."""
    return unpack_bits(members, classes.number)


# --- Releases as linear measurements: noisy values, their variance, and the vector each one measures. ---

MOST_ENTRIES = 1 << 18
"""Blocks whose groups times products of runs of codes are more than this are not written out."""
MOST_STEPS = 1 << 12
"""So long is a vector at most."""
_WRITTEN_OUT = 256
"""Values of an attribute with more cells are added up as polynomials: no released block tells all of them apart."""
_LARGEST = 1 << 40  # sums of weights up to this cannot overflow 2^63
_LEAST = 1e-300  # variance of noise that is negligible
_SUMMED = 4.0  # from this scale on, the variance of a discrete Gaussian is σ² to double precision

CodeStep = tuple[str, int, int]
"""Of an attribute: from which code on, and the power of the code that is added up from there."""
StepProduct = tuple[CodeStep, ...]
"""A product of steps, by the names of their attributes; without any, the number of rows."""
StepVector = dict[StepProduct, int]
"""A linear question, by its coefficients that are not 0."""


@dataclass(frozen=True, slots=True)
class KnownValues:
    """Estimates of the values of one block, in steps, and the laws of their errors."""

    values: Sequence[float] | NDArray[np.float64]
    laws: tuple[ErrorLaw, ...]
    """One for each value, or one for all."""

    def within(self, failing: float) -> float:
        """Return the largest half-width of the estimates, each at this failure probability."""
        if len(self.laws) == 1:
            return half_width(self.laws[0], failing)
        return max(half_width(law, failing) for law in dict.fromkeys(self.laws))


@dataclass(frozen=True, slots=True)
class BlockMeasurement:
    """The noisy integers of one block, in steps, and the noise of each."""

    block: Block
    values: tuple[int, ...]
    noise: Noise
    origin: str | None = None
    """The receipt that it was told under, where that is known: what comes twice under one is one release."""

    def __post_init__(self) -> None:
        """Raise if the values do not match the block or cannot come from a release."""
        if len(self.values) != self.block.values:
            raise InvalidArgument("values", len(self.values), f"the block has {self.block.values}")
        for value in self.values:
            if type(value) is not int:
                raise InvalidArgument("values", value, "write whole numbers, as they were released")


@lru_cache(maxsize=4096)
def noise_variance(noise: Noise) -> float:
    """Return the variance of the discrete noise law.

    >>> round(noise_variance(Laplace(scale=10)), 6), noise_variance(Gaussian(scale=10))
    (199.833417, 100.0)
    """
    scale = float(noise.scale)
    match noise:
        case Laplace():
            half = math.exp(-0.5 / scale)  # 2q/(1 - q)² with q its square
            return max(2 * (half / -math.expm1(-1 / scale)) ** 2, _LEAST)
        case Gaussian():
            if scale >= _SUMMED:
                return scale**2
            steps = np.arange(1, math.ceil(40 * scale) + 2)
            weights = np.exp(-((steps / scale) ** 2) / 2)
            return max(float(2 * (steps**2 * weights).sum() / (1 + 2 * weights.sum())), _LEAST)
        case RoundedGaussian():
            return max(rounded_variance(scale), _LEAST)
        case _:
            assert_never(noise)


def block_vectors(block: Block, domain: Domain) -> list[StepVector] | None:
    """Return the vectors of a block, one for each group; None if it is too large or not a sum over rows.

    >>> from dodona.schema.attributes import Integer
    >>> from dodona.query.predicate import among
    >>> age = Integer("age", 0, 110)
    >>> block_vectors(Block(among(age, range(20, 30))), Domain((age,)))
    [{(('age', 20, 0),): 1, (('age', 30, 0),): -1}]
    """
    if block.about_people:
        return None
    boxes = _group_boxes(block)
    if boxes is not None and type(block.weight) is ConstantWeight:
        box_vectors = [_box_vector(sets, block.weight.number) for sets in boxes]
        vectors = [vector for vector in box_vectors if vector is not None]
        return vectors if len(vectors) == len(box_vectors) else None
    if not _is_sum(block.weight):
        return None
    codes = code_runs(block, domain, written_out=_WRITTEN_OUT)
    if math.prod(map(len, codes.values())) * block.values > MOST_ENTRIES:
        return None
    axes, shape = broadcast_codes(codes), tuple(map(len, codes.values()))
    groups = np.broadcast_to(query.group_numbers(block.keys, axes), shape).reshape(-1)
    meant = evaluate_predicate(block.where, axes)
    several: list[StepVector] = [{} for _ in range(block.values)]
    for powers, weights in _pieces(block.weight, axes, {name: domain.by_name[name].cells for name in codes}).items():
        coefficients = np.broadcast_to(np.where(meant, weights, 0), shape).reshape(-1)
        table = np.zeros((block.values, len(coefficients)), dtype=coefficients.dtype)
        table[groups, np.arange(len(coefficients))] = coefficients
        for group, column, value in _jumps(table.reshape(block.values, *shape), codes, dict(powers)):
            several[group][column] = value
    return several if max(map(len, several)) <= MOST_STEPS else None


def dependence(block: Block) -> frozenset[str] | None:
    """Return the columns on which each of a block's numbers depends, if it is seen without expanding it; else None.

    A product of factors of different columns depends on all of them, if none of the factors is constant.
    """
    where, weight = block.where, block.weight
    parts = where.parts if type(where) is And else (where,)
    sets = {part.attribute: part for part in parts if type(part) is Among and 0 < part.codes < (1 << part.cells) - 1}
    keys = {key.attribute for key in block.keys if isinstance(key, Partition) and key.groups > 1}
    if len(sets) < len(parts) or len(keys) < len(block.keys) or not keys.isdisjoint(sets):
        return None
    if type(weight) is ConstantWeight and weight.number:
        return frozenset(keys.union(sets))
    if type(weight) is not ValueWeight or weight.power != 1 or not weight.factor or weight.attribute in keys:
        return None
    condition = sets.get(weight.attribute)
    codes = (1 << weight.size) - 1 if condition is None else condition.codes & (1 << weight.size) - 1
    return (
        frozenset(keys.union(sets, [weight.attribute])) if codes.bit_count() > 1 else None
    )  # of two numbers one is not 0


CodeSets = dict[str, tuple[int, int]]
"""A conjunction: of each attribute the number of its cells, and the codes that are meant, as bits."""


def _group_boxes(block: Block) -> list[CodeSets] | None:
    """Return the conjunction that each group of a block selects; None if a group is not one, or if there are too many.

    The last key varies fastest, as in `group_numbers`.
    """
    parts = block.where.parts if type(block.where) is And else (block.where,)
    sets = [part for part in parts if type(part) is Among]
    keys = [key for key in block.keys if isinstance(key, Partition)]
    if len(sets) < len(parts) or len(keys) < len(block.keys) or block.values > _WRITTEN_OUT:
        return None
    meant = [(part.attribute, part.cells, part.codes) for part in sets]
    groups = [
        [(key.attribute, key.cells, (1 << after) - (1 << first)) for first, after in pairwise(_edges(key))]
        for key in keys
    ]
    boxes: list[CodeSets] = []
    for chosen in product(*groups):
        box: CodeSets = {}
        for name, cells, codes in (*meant, *chosen):
            box[name] = (cells, codes & box[name][1] if name in box else codes)
        boxes.append(box)
    return boxes


def _edges(key: Partition) -> list[int]:
    """Return where the groups of a key begin, and the end of the last one."""
    return [*key.cuts, *range(key.size, key.cells + 1)]


def _box_vector(box: CodeSets, weight: int) -> StepVector | None:
    """Return the vector of a conjunction; None if it is too long."""
    steps = [_set_steps(name, *box[name]) for name in sorted(box)] if weight else [[]]
    if math.prod(map(len, steps)) > MOST_STEPS:
        return None
    vector: StepVector = {}
    for chosen in product(*steps):
        vector[tuple([step for step, _ in chosen if step is not None])] = weight * math.prod(
            [jump for _, jump in chosen]
        )
    return vector


def _set_steps(name: str, cells: int, codes: int) -> list[tuple[CodeStep | None, int]]:
    """Return the steps up and down where the runs of a set begin and end; no more than make a vector too long."""
    changes = (codes ^ codes << 1) & ((1 << cells) - 1)
    steps: list[tuple[CodeStep | None, int]] = []
    while changes and len(steps) <= MOST_STEPS:
        code = (changes & -changes).bit_length() - 1
        changes &= changes - 1
        steps.append(((name, code, 0) if code else None, 1 if codes >> code & 1 else -1))
    return steps


def _is_sum(weight: Weight) -> bool:
    match weight:
        case query.PeopleWeight():
            return False
        case query.CaseWeight(branches, otherwise):
            return _is_sum(otherwise) and all(_is_sum(branch) for _, branch in branches)
        case ConstantWeight() | ValueWeight() | query.TableWeight() | query.PolynomialWeight():
            return True
        case _:
            assert_never(weight)


Powers = tuple[tuple[str, int], ...]
"""Attributes whose codes are added up, each to a power from 1."""


def _pieces(weight: Weight, axes: Axes, sizes: Mapping[str, int]) -> dict[Powers, NDArray[Any]]:
    """Return the coefficients of a weight as a polynomial in the codes of large attributes, run by run."""
    match weight:
        case ValueWeight(name, size, offset, factor, power) if sizes[name] > _WRITTEN_OUT:
            present = axes[name] < size
            largest = (abs(offset) + abs(factor)) ** power * math.comb(power, power // 2)
            kind = np.int64 if largest < _LARGEST else object
            numbers = [math.comb(power, k) * factor**k * offset ** (power - k) for k in range(power + 1)]
            return {
                ((name, k),) if k else (): np.where(present, np.array(number, dtype=kind), 0)
                for k, number in enumerate(numbers)
                if number
            }
        case query.PolynomialWeight(polynomial) if any(sizes[name] > _WRITTEN_OUT for name in polynomial.names):
            return _polynomial_pieces(polynomial, axes, sizes)
        case query.CaseWeight(branches, otherwise):
            pieces = _pieces(otherwise, axes, sizes)
            for predicate, branch in reversed(branches):
                meant, branch_pieces = evaluate_predicate(predicate, axes), _pieces(branch, axes, sizes)
                pieces = {
                    powers: np.where(meant, branch_pieces.get(powers, np.int64(0)), pieces.get(powers, np.int64(0)))
                    for powers in branch_pieces.keys() | pieces.keys()
                }
            return pieces
        case _:
            return {(): query.evaluate_weight(weight, axes)}


def _polynomial_pieces(polynomial: Polynomial, axes: Axes, sizes: Mapping[str, int]) -> dict[Powers, NDArray[Any]]:
    """Return the coefficients of a polynomial in the codes of its large attributes."""
    held = evaluate_polynomial(polynomial, axes)[1]
    pieces: dict[Powers, NDArray[Any]] = {}
    for exponents, number in polynomial.terms:
        named = list(zip(polynomial.names, exponents, strict=True))
        powers = tuple([(name, power) for name, power in named if power and sizes[name] > _WRITTEN_OUT])
        coefficient: NDArray[Any] = np.asarray(number, dtype=np.int64)
        for name, power in named:
            if sizes[name] <= _WRITTEN_OUT:
                coefficient = coefficient * axes[name] ** power
        pieces[powers] = pieces.get(powers, np.int64(0)) + np.where(held, coefficient, np.int64(0))
    return pieces


def _jumps(
    table: NDArray[Any], codes: Mapping[str, NDArray[np.int64]], powers: Mapping[str, int]
) -> Iterator[tuple[int, StepProduct, int]]:
    """Yield the jump of each group's coefficients at each product of steps, where it is not zero."""
    largest = max(abs(int(table.min())), abs(int(table.max())))
    if table.dtype != object and largest << len(codes) > _LARGEST:
        table = table.astype(object)
    for axis in range(1, table.ndim):
        table = np.concatenate([np.take(table, [0], axis=axis), np.diff(table, axis=axis)], axis=axis)
    steps = [(name, starts.tolist(), powers.get(name, 0)) for name, starts in codes.items()]
    for (group, *index), value in zip(np.argwhere(table).tolist(), table[table != 0].tolist(), strict=True):
        named = zip(steps, index, strict=True)
        yield group, tuple((name, starts[at], power) for (name, starts, power), at in named if at or power), value
