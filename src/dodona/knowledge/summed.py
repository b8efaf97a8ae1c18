"""Sums: of a column's own numbers, of their squares, or of a weight for each class, by the classes of other columns.

All are products like counts, with another base or other weights for one of the columns, so residuals tell them too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from dodona.answer.laws import ErrorLaw, GaussianSumBound, NoiseSum
from dodona.knowledge.patterns import (
    MOST_CLASSES,
    CountPattern,
    KnownValues,
    find_pattern,
    list_classings,
    refine_pattern,
)
from dodona.knowledge.residuals import ResidualStore
from dodona.knowledge.sides import PARTS, PRESENT, SUM, ClassWeight, Members, members_of, refine_set
from dodona.query.bases import middle_code, row_reach
from dodona.query.predicate import Among, And, Predicate, among_mask, conjunction
from dodona.query.query import ONE, Block, ValueWeight, Weight, block_weights, weight_attributes
from dodona.query.residual import Classes
from dodona.schema.attributes import Attribute
from dodona.schema.partition import Partition
from dodona.schema.schema import Domain

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_GROUPS = 1 << 12
"""Of a product that is estimated for each group by itself."""
_FEW = 2
"""Numbers of a column: their sums are counts of the rows that have one of them."""
Exact = int | Fraction


@dataclass(frozen=True, slots=True)
class SumPattern:
    """What a row counts for depends on one column; which rows are counted, and in which groups, on others.

    It is factor · Σ (steps of the number from its middle) + constant · (rows that have a number), or the same with the
    row of squares in place of the steps; or factor · Σ (weights of the classes).
    """

    counted: CountPattern
    """The rows and groups, by other columns than the one that is added up."""
    value: Classes
    """The column that is added up."""
    factor: Exact
    constant: Exact
    weights: Members | None = None
    """Of the classes of the column, where these are added up and not its own number."""

    @property
    def reach(self) -> Fraction:
        """What a sum whose largest step is 1 is multiplied with."""
        return Fraction(self.factor) * (1 if self.weights is not None else row_reach(*self.value.side))

    @property
    def is_balanced(self) -> bool:
        """Whether the weights of all classes add up to 0."""
        return isinstance(self.weights, ClassWeight) and sum(self.weights.numbers) == 0

    @property
    def size(self) -> float:
        """How many times as far off it may be as a count that costs the same."""
        return float(abs(self.reach or self.constant))

    @property
    def members(self) -> Members:
        """Its two parts as one product, over its size; the weight of the rows is rounded up to a 64th.

        The rows of an average, which are counted beside its sum, weigh as much as that.
        """
        if self.weights is not None:
            return self.weights
        if not self.factor:
            return SUM | PRESENT
        return SUM | 2 * math.ceil(PARTS * abs(Fraction(self.constant)) / abs(self.reach))

    @property
    def parts(self) -> tuple[tuple[Exact, Members], ...]:
        """Its parts, each with its factor: they are products of their own, and add up."""
        if self.weights is not None:
            return ((self.factor, self.weights),)
        return tuple([part for part in ((self.reach, SUM), (self.constant, PRESENT)) if part[0]])

    def pattern(self, part: Members = SUM) -> CountPattern:
        """Return one of its parts, or both together, as a product, or as a product for each group."""
        counted = self.counted
        if self.value.base.sums and not self.value.base.gaps and part == PRESENT:
            return counted
        classes = tuple(sorted((*counted.classes, self.value), key=lambda classing: classing.attribute))
        place = classes.index(self.value)
        if counted.sets is not None:
            return CountPattern(classes, (*counted.sets[:place], part, *counted.sets[place:]))
        filters = counted.filters or (None,) * len(counted.classes)
        return CountPattern(classes, None, filters=(*filters[:place], part, *filters[place:]))


Pattern = CountPattern | SumPattern
"""A count or a sum that is a product, or one for each group."""


@lru_cache(maxsize=1 << 10)
def _summed(attribute: Attribute, power: int) -> Classes | None:
    return Classes.summed(attribute, power)


def find_sum_pattern(block: Block, domain: Domain) -> SumPattern | None:
    """Return the pattern of a sum of what one column counts for, by others; None if it is no such sum.

    >>> from dodona.schema.attributes import Integer
    >>> domain = Domain((Integer("age", 0, 110),))
    >>> find_sum_pattern(Block(weight=ValueWeight("age", 111, 0, 1)), domain).constant
    55
    """
    names = frozenset() if block.table is not None or block.weight == ONE else weight_attributes(block.weight)
    if len(names) != 1:
        return None
    (name,) = names
    split = _split_condition(block, domain[name])
    counted = None if split is None else _counted(split[0], block, domain, name)
    if split is None or counted is None:
        return None
    numbers = (1 << domain[name].size) - 1
    pattern = _of_numbers(block, domain[name], counted) if split[1] & numbers == numbers else None
    return pattern or _of_weights(block, domain[name], counted, split[1])


def find_rows_pattern(block: Block, domain: Domain, total: SumPattern) -> Pattern | None:
    """Return the pattern of the rows that a sum is divided by: of those in which its column has a number.

    They are counted by the residuals that the sum needs, so that their noise is independent of that of steps.
    """
    name = total.value.attribute
    split = None if block.weight != ONE or block.table is not None else _split_condition(block, domain[name])
    if split is None:
        return None
    rest, codes = split
    if not total.value.base.sums or codes != (1 << domain[name].size) - 1:
        return find_pattern(block, domain)  # rows without a number are counted too, or some that have one are not
    counted = _counted(rest, block, domain, name)
    return None if counted is None else SumPattern(counted, total.value, 0, 1)


def find_patterns(blocks: Sequence[Block], domain: Domain) -> list[SumPattern | None]:
    """Return the pattern of each block that is a sum, or counts the rows of an average of numbers among them."""
    sums = [find_sum_pattern(block, domain) for block in blocks]
    totals = {pattern.value.attribute: pattern for pattern in sums if pattern is not None and pattern.value.base.gaps}
    for place, block in enumerate(blocks if totals else ()):
        if sums[place] is None and block.weight == ONE:
            of = (find_rows_pattern(block, domain, total) for total in totals.values())
            sums[place] = next((pattern for pattern in of if isinstance(pattern, SumPattern)), None)
    return sums


def _counted(where: Predicate, block: Block, domain: Domain, name: str) -> CountPattern | None:
    """Return the pattern of the rows that are added up; None if they depend on the column that is."""
    counted = find_pattern(Block(where, block.keys), domain)
    if counted is None or (counted.sets is None and not counted.several) or name in counted.names:
        return None
    return counted


def _of_numbers(block: Block, attribute: Attribute, counted: CountPattern) -> SumPattern | None:
    """Return a sum of the column's own numbers, or of squares of their steps from the middle."""
    weight = block.weight
    if type(weight) is not ValueWeight or not weight.factor or attribute.size <= _FEW:
        return None
    value = _summed(attribute, weight.power) if weight.power in {1, 2} else None
    if value is None:
        return None
    factor, away = weight.factor, weight.offset + weight.factor * middle_code(value.side[1])
    if weight.power == 1:
        return SumPattern(counted, value, factor, away)
    if away:
        return None
    half = Fraction(factor**2, 2)  # the row of squares is twice the square less the largest
    return SumPattern(counted, value, half, half * row_reach(*value.side))


def _of_weights(block: Block, attribute: Attribute, counted: CountPattern, codes: int) -> SumPattern | None:
    """Return a sum of a weight for each class of a column, of which only some codes may be counted."""
    if attribute.cells > MOST_CLASSES:
        return None
    weights, factor = _cell_weights(block.weight, codes, attribute)
    if factor == 0 or weights == (1 << attribute.cells) - 1:
        return None
    if isinstance(weights, ClassWeight):
        return SumPattern(counted, Classes.of(attribute), factor, 0, weights)
    pattern = find_pattern(Block(among_mask(attribute, weights)), Domain((attribute,)))
    if pattern is None or pattern.sets is None:
        return None
    return SumPattern(counted, pattern.classes[0], factor, 0, pattern.sets[0])


@lru_cache(maxsize=1 << 10)
def _cell_weights(weight: Weight, codes: int, attribute: Attribute) -> tuple[Members, int]:
    axes = {attribute.name: np.arange(attribute.cells, dtype=np.int64)}
    numbers = np.broadcast_to(block_weights(Block(weight=weight), axes), attribute.cells).tolist()
    selected = [number if codes >> code & 1 else 0 for code, number in enumerate(numbers)]
    return members_of(selected, int(max(map(abs, numbers))))


def _split_condition(block: Block, attribute: Attribute) -> tuple[Predicate, int] | None:
    """Return a conjunction without the conditions on a column, and the codes that these select.

    None for other predicates, and where the column is a key too.
    """
    parts = block.where.parts if type(block.where) is And else (block.where,)
    kept, codes = [], (1 << attribute.cells) - 1
    for part in parts:
        if type(part) is not Among:
            return None
        if part.attribute == attribute.name:
            codes &= part.codes
        else:
            kept.append(part)
    if any(not isinstance(key, Partition) or key.attribute == attribute.name for key in block.keys):
        return None
    return block.where if len(kept) == len(parts) else conjunction(*kept), codes


# --- A sum less a multiple of a count, as one product: what an average is tested by. ---


def combine_patterns(first: Pattern, second: Pattern, times: Fraction, domain: Domain) -> SumPattern | None:
    """Return one pattern for `first` - `times` · `second`; None if they differ in more than one column."""
    if isinstance(first, SumPattern) and first.value.base.sums:
        return _less_rows(first, second, times)
    upper, lower = _sides(first), _sides(second)
    if upper is None or lower is None:
        return None
    (top, above), (bottom, below) = upper, lower
    different = [name for name in {**top, **bottom} if top.get(name) != bottom.get(name)]
    if len(different) != 1 or any(sides.get(different[0], _NOTHING)[1] is None for sides in (top, bottom)):
        return None
    (name,) = different
    value, numbers, divisor = _difference(top.get(name), bottom.get(name), above, times * below, domain[name])
    weights, factor = members_of(numbers, math.ceil((abs(Fraction(above)) + abs(times * below)) * divisor))
    if not factor:
        return None
    kept = sorted([side for other, side in top.items() if other != name], key=_by_name)
    return SumPattern(_pattern_of(kept), value, Fraction(factor, divisor), 0, weights)


def _less_rows(total: SumPattern, rows: Pattern, times: Fraction) -> SumPattern | None:
    """Return a sum of numbers less a multiple of the rows that have one."""
    if isinstance(rows, SumPattern):
        same = rows.value == total.value and rows.counted == total.counted and not rows.factor
        return replace(total, constant=total.constant - times * rows.constant) if same else None
    whole = not total.value.base.gaps and rows == total.counted
    return replace(total, constant=total.constant - times) if whole else None


def _pattern_of(sides: Sequence[_Side]) -> CountPattern:
    classes, members = tuple([classing for classing, _ in sides]), tuple([members for _, members in sides])
    if None in members:
        return CountPattern(classes, None, filters=members)
    return CountPattern(classes, tuple([selection for selection in members if selection is not None]))


_Side = tuple[Classes, Members | None]
_NOTHING = None, 0


def _by_name(side: _Side) -> str:
    return side[0].attribute


def _sides(pattern: Pattern) -> tuple[dict[str, _Side], Exact] | None:
    """Return the columns of a product and what it is multiplied with; of a key, None in place of a set."""
    factor: Exact = 1
    if isinstance(pattern, SumPattern):
        if pattern.weights is None:
            return None
        factor, pattern = pattern.factor, pattern.pattern(pattern.weights)
    members: Sequence[Members | None] = pattern.filters or (None,) * len(pattern.classes)
    if pattern.sets is not None:
        members = pattern.sets
    elif not pattern.several:
        return None
    return {
        classing.attribute: (classing, selection) for classing, selection in zip(pattern.classes, members, strict=True)
    }, factor


def _difference(
    first: _Side | None, second: _Side | None, above: Exact, below: Exact, attribute: Attribute
) -> tuple[Classes, list[int], int]:
    """Return above · first - below · second as whole numbers by class over a divisor; without a side, it is 1."""
    known = [side for side in (first, second) if side is not None]
    classes = known[0][0]
    if any(classing != classes for classing, _ in known):
        classes = list_classings(attribute)[-1]
    weights: list[Sequence[Exact]] = []
    for side in (first, second):
        if side is None or side[1] is None:
            weights.append([1] * classes.number)
        else:
            weights.append(_class_numbers(refine_set(side[0], side[1], classes), classes.number))
    numbers = [above * Fraction(weight) - below * Fraction(other) for weight, other in zip(*weights, strict=True)]
    divisor = math.lcm(*[number.denominator for number in numbers])
    return classes, [int(number * divisor) for number in numbers], divisor


def _class_numbers(members: Members, number: int) -> Sequence[Exact]:
    return members.parts if isinstance(members, ClassWeight) else [members >> place & 1 for place in range(number)]


# --- What follows from residuals, group by group. ---


@dataclass(frozen=True, slots=True)
class FollowedValues:
    """The values of a block as they follow from residuals alone, and the products that they are made of."""

    known: KnownValues
    terms: tuple[tuple[float, Sequence[CountPattern]], ...]
    """Factors, each with a product for each group: over the same classes."""


def group_products(block: Block, pattern: CountPattern) -> list[CountPattern]:
    """Return the product of each group, in the order of the keys: the last one varies fastest."""
    if pattern.sets is not None:
        return [pattern]
    places, groups = key_places(block, pattern), []
    filters = pattern.filters or (None,) * len(pattern.classes)
    for chosen in product(*(range(pattern.classes[place].number) for place in places)):
        sets: list[Members] = [0 if members is None else members for members in filters]
        for place, group in zip(places, chosen, strict=True):
            sets[place] = 1 << group
        groups.append(CountPattern(pattern.classes, tuple(sets)))
    return groups


def key_places(block: Block, pattern: CountPattern) -> list[int]:
    """Return the place of each key among the attributes of a pattern."""
    names = [key.attribute for key in block.keys if isinstance(key, Partition)]
    return [pattern.names.index(name) for name in names]


def follow(residuals: ResidualStore, block: Block, pattern: Pattern, domain: Domain) -> FollowedValues | None:
    """Return the values of all groups as they follow from residuals; None if they do not.

    Theorem: residual-reconstruction, column-base
    """
    if block.values > MOST_GROUPS or (
        isinstance(pattern, CountPattern) and not (pattern.sets is not None or pattern.several)
    ):
        return None
    parts = (
        [(1, pattern)]
        if isinstance(pattern, CountPattern)
        else [(factor, pattern.pattern(part)) for factor, part in pattern.parts]
    )
    terms = [(float(factor), group_products(block, part_pattern)) for factor, part_pattern in parts]
    for finer in (False, True):
        trial_terms = (
            [(factor, [refine_pattern(group, domain) or group for group in groups]) for factor, groups in terms]
            if finer
            else terms
        )
        known = _estimate(residuals, trial_terms, block.values)
        if known is not None:
            return FollowedValues(known, tuple(trial_terms))
    return None


def _estimate(
    residuals: ResidualStore, terms: Sequence[tuple[float, Sequence[CountPattern]]], groups: int
) -> KnownValues | None:
    """Return sums of products with independent noise, for each group."""
    values: NDArray[np.float64] = np.zeros(groups)
    laws: list[list[tuple[float, ErrorLaw]]] = [[] for _ in range(groups)]
    for factor, products in terms:
        for place, known in enumerate(residuals.lookup_all(products)):
            if known is None:
                return None
            values[place] += factor * float(known.values[0])
            laws[place].append((factor, known.laws[0]))
    combined = [_combined(group_laws) for group_laws in laws]
    return KnownValues(values, (combined[0],) if all(law == combined[0] for law in combined) else tuple(combined))


def _combined(terms: Sequence[tuple[float, ErrorLaw]]) -> ErrorLaw:
    """Return the law of a sum of independent estimates from residuals."""
    bounds = [(factor, law) for factor, law in terms if isinstance(law, GaussianSumBound)]
    if not bounds:
        return NoiseSum(())  # a public number of rows
    if len(bounds) == 1 and abs(bounds[0][0]) == 1:
        return bounds[0][1]
    return GaussianSumBound(
        sum(factor**2 * law.variance for factor, law in bounds), max(abs(factor) * law.reach for factor, law in bounds)
    )
