"""Releases as linear measurements: noisy values, their variance, and the vector each one measures.

Vectors are written in products of steps "the code is at least t", which are linearly independent; equal vectors mean
equal queries.
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
from dodona.errors import InvalidArgument
from dodona.privacy.additive_noise import Gaussian, Laplace
from dodona.privacy.measurement import Noise
from dodona.query import query
from dodona.query.movement import broadcast_codes, code_runs
from dodona.query.polynomial import Polynomial, evaluate_polynomial
from dodona.query.predicate import Among, And, Axes, evaluate_predicate
from dodona.query.query import Block, ConstantWeight, ValueWeight, Weight
from dodona.schema.partition import Partition
from dodona.schema.schema import Domain

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
        found = [_box_vector(sets, block.weight.number) for sets in boxes]
        vectors = [vector for vector in found if vector is not None]
        return vectors if len(vectors) == len(found) else None
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
        own = np.broadcast_to(np.where(meant, weights, 0), shape).reshape(-1)
        table = np.zeros((block.values, len(own)), dtype=own.dtype)
        table[groups, np.arange(len(own))] = own
        for group, column, value in _jumps(table.reshape(block.values, *shape), codes, dict(powers)):
            several[group][column] = value
    return several if max(map(len, several)) <= MOST_STEPS else None


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
    found: list[CodeSets] = []
    for chosen in product(*groups):
        box: CodeSets = {}
        for name, cells, codes in (*meant, *chosen):
            box[name] = (cells, codes & box[name][1] if name in box else codes)
        found.append(box)
    return found


def _edges(key: Partition) -> list[int]:
    """Return where the groups of a key begin, and the end of the last one."""
    return [*key.cuts, *range(key.size, key.cells + 1)]


def _box_vector(box: CodeSets, weight: int) -> StepVector | None:
    """Return the vector of a conjunction; None if it is too long."""
    steps = [_set_steps(name, *box[name]) for name in sorted(box)] if weight else [[]]
    if math.prod(map(len, steps)) > MOST_STEPS:
        return None
    found: StepVector = {}
    for chosen in product(*steps):
        found[tuple([step for step, _ in chosen if step is not None])] = weight * math.prod(
            [jump for _, jump in chosen]
        )
    return found


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
            found = _pieces(otherwise, axes, sizes)
            for predicate, branch in reversed(branches):
                meant, own = evaluate_predicate(predicate, axes), _pieces(branch, axes, sizes)
                found = {
                    powers: np.where(meant, own.get(powers, np.int64(0)), found.get(powers, np.int64(0)))
                    for powers in own.keys() | found.keys()
                }
            return found
        case _:
            return {(): query.evaluate_weight(weight, axes)}


def _polynomial_pieces(polynomial: Polynomial, axes: Axes, sizes: Mapping[str, int]) -> dict[Powers, NDArray[Any]]:
    """Return the coefficients of a polynomial in the codes of its large attributes."""
    held = evaluate_polynomial(polynomial, axes)[1]
    found: dict[Powers, NDArray[Any]] = {}
    for exponents, number in polynomial.terms:
        named = list(zip(polynomial.names, exponents, strict=True))
        powers = tuple([(name, power) for name, power in named if power and sizes[name] > _WRITTEN_OUT])
        own: NDArray[Any] = np.asarray(number, dtype=np.int64)
        for name, power in named:
            if sizes[name] <= _WRITTEN_OUT:
                own = own * axes[name] ** power
        found[powers] = found.get(powers, np.int64(0)) + np.where(held, own, np.int64(0))
    return found


def _jumps(
    table: NDArray[Any], codes: Mapping[str, NDArray[np.int64]], powers: Mapping[str, int]
) -> Iterator[tuple[int, StepProduct, int]]:
    """Yield the jump of each group's coefficients at each product of steps, where it is not zero."""
    largest = max(abs(int(table.min())), abs(int(table.max())))
    if table.dtype != object and largest << len(codes) > _LARGEST:
        table = table.astype(object)
    for axis in range(1, table.ndim):
        table = np.concatenate([np.take(table, [0], axis=axis), np.diff(table, axis=axis)], axis=axis)
    steps = [(name, own.tolist(), powers.get(name, 0)) for name, own in codes.items()]
    for (group, *index), value in zip(np.argwhere(table).tolist(), table[table != 0].tolist(), strict=True):
        named = zip(steps, index, strict=True)
        yield group, tuple((name, own[at], power) for (name, own, power), at in named if at or power), value
