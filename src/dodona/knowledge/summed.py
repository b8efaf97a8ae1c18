"""Sums of a column's own numbers by the classes of other columns, and the rows that have a number.

Both are products like counts, with another base for the column that is added up, so residuals tell them too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from dodona.answer.laws import ErrorLaw, GaussianSumBound, NoiseSum
from dodona.knowledge.asked import PARTS, PRESENT, SUM
from dodona.knowledge.patterns import CountPattern, KnownValues, find_pattern, refine_pattern
from dodona.knowledge.residuals import ResidualStore
from dodona.query.bases import Base, farthest_step, middle_code
from dodona.query.predicate import Among, And, Predicate, conjunction
from dodona.query.query import ONE, Block, ValueWeight
from dodona.query.residual import Classes
from dodona.schema.attributes import Attribute
from dodona.schema.partition import Partition
from dodona.schema.schema import Domain

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_GROUPS = 1 << 12
"""Of a product that is estimated for each group by itself."""


@dataclass(frozen=True, slots=True)
class SumPattern:
    """factor · Σ (steps of the number from its middle) + constant · (rows that have a number), by classes of others."""

    counted: CountPattern
    """The rows and groups, by other columns than the one that is added up."""
    value: Classes
    """The column that is added up."""
    factor: int
    constant: int

    @property
    def reach(self) -> int:
        """What a sum whose largest step is 1 is multiplied with."""
        return self.factor * farthest_step(self.value.side[1])

    @property
    def size(self) -> float:
        """How many times as far off it may be as a count that costs the same."""
        return abs(self.reach or self.constant)

    @property
    def members(self) -> int:
        """Its two parts as one product, over its size; the weight of the rows is rounded up to a 64th.

        The rows of an average, which are counted beside its sum, weigh as much as that.
        """
        if not self.factor:
            return SUM | PRESENT
        return SUM | 2 * -(-PARTS * abs(self.constant) // abs(self.reach))

    @property
    def centred(self) -> bool:
        """Whether it is made of sums alone: then its noise is independent of that of any count."""
        return self.constant == 0

    def pattern(self, part: int = SUM) -> CountPattern:
        """Return one of its parts, or both together, as a product, or as a product for each group."""
        counted = self.counted
        if self.value.base is Base.NUMBERS and part == PRESENT:
            return counted
        classes = tuple(sorted((*counted.classes, self.value), key=lambda own: own.attribute))
        place = classes.index(self.value)
        if counted.sets is not None:
            return CountPattern(classes, (*counted.sets[:place], part, *counted.sets[place:]))
        filters = counted.filters or (None,) * len(counted.classes)
        return CountPattern(classes, None, filters=(*filters[:place], part, *filters[place:]))


@lru_cache(maxsize=1 << 10)
def _summed(attribute: Attribute) -> Classes | None:
    return Classes.summed(attribute)


def find_sum_pattern(block: Block, domain: Domain, of: str | None = None) -> SumPattern | None:
    """Return the pattern of a sum of one column's numbers by others; None if it is no such sum.

    A condition on the column itself may only say that it has a number. A count of the rows in which the column `of` has
    one is such a sum too.

    >>> from dodona.schema.attributes import Integer
    >>> domain = Domain((Integer("age", 0, 110),))
    >>> find_sum_pattern(Block(weight=ValueWeight("age", 111, 0, 1)), domain).constant
    55
    """
    weight = block.weight
    if block.table is not None:
        return None
    if type(weight) is ValueWeight and weight.power == 1 and weight.factor:
        name, factor, offset = weight.attribute, weight.factor, weight.offset
    elif of is not None and weight == ONE:
        name, factor, offset = of, 0, 1
    else:
        return None
    value = _summed(domain[name])
    rest = None if value is None else _without(block.where, domain[name])
    if value is None or rest is None or any(_is_keyed(block, name)):
        return None
    if factor == 0 and value.base is Base.VALUES and rest == block.where:
        return None  # rows without a number are counted too
    counted = find_pattern(Block(rest, block.keys), domain)
    if counted is None or (counted.sets is None and not counted.several) or name in counted.names:
        return None
    return SumPattern(counted, value, factor, offset + factor * middle_code(value.side[1]))


def find_sum_patterns(blocks: Sequence[Block], domain: Domain) -> list[SumPattern | None]:
    """Return the pattern of each block that is a sum, or counts the rows of an average among them."""
    sums = [find_sum_pattern(block, domain) for block in blocks]
    names = {own.value.attribute for own in sums if own is not None and own.value.base is Base.VALUES}
    for place, block in enumerate(blocks if names else ()):
        if sums[place] is None and block.weight == ONE:
            of = (find_sum_pattern(block, domain, name) for name in names)
            sums[place] = next((own for own in of if own is not None), None)
    return sums


def _is_keyed(block: Block, name: str) -> list[bool]:
    return [not isinstance(key, Partition) or key.attribute == name for key in block.keys]


def _without(where: Predicate, attribute: Attribute) -> Predicate | None:
    """Return a conjunction without the condition that a column has a number; None for another condition on it."""
    parts = where.parts if type(where) is And else (where,)
    kept = []
    for part in parts:
        if type(part) is not Among:
            return None
        if part.attribute != attribute.name:
            kept.append(part)
        elif part.codes != (1 << attribute.size) - 1:
            return None
    return where if len(kept) == len(parts) else conjunction(*kept)


def group_products(block: Block, pattern: CountPattern) -> list[CountPattern]:
    """Return the product of each group, in the order of the keys: the last one varies fastest."""
    if pattern.sets is not None:
        return [pattern]
    places, groups = key_places(block, pattern), []
    filters = pattern.filters or (None,) * len(pattern.classes)
    for chosen in product(*(range(pattern.classes[place].number) for place in places)):
        sets = [0 if own is None else own for own in filters]
        for place, group in zip(places, chosen, strict=True):
            sets[place] = 1 << group
        groups.append(CountPattern(pattern.classes, tuple(sets)))
    return groups


def key_places(block: Block, pattern: CountPattern) -> list[int]:
    """Return the place of each key among the attributes of a pattern."""
    names = [key.attribute for key in block.keys if isinstance(key, Partition)]
    return [pattern.names.index(name) for name in names]


def look_up_sums(residuals: ResidualStore, block: Block, pattern: SumPattern, domain: Domain) -> KnownValues | None:
    """Return the sums of all groups as they follow from residuals; None if they do not.

    Theorem: residual-reconstruction, column-base
    """
    if block.values > MOST_GROUPS:
        return None
    groups = group_products(block, pattern.counted)
    for finer in (False, True):
        own = [refine_pattern(one, domain) or one for one in groups] if finer else groups
        found = _estimate(residuals, [replace(pattern, counted=one) for one in own])
        if found is not None:
            return found
    return None


def _estimate(residuals: ResidualStore, sums: Sequence[SumPattern]) -> KnownValues | None:
    """Return sums over the same classes: the two parts have independent noise."""
    values: NDArray[np.float64] = np.zeros(len(sums))
    terms: list[list[tuple[float, ErrorLaw]]] = [[] for _ in sums]
    for part, factor in ((SUM, sums[0].reach), (PRESENT, sums[0].constant)):
        known = residuals.lookup_all([own.pattern(part) for own in sums]) if factor else []
        for place, one in enumerate(known):
            if one is None:
                return None
            values[place] += factor * float(one.values[0])
            terms[place].append((float(factor), one.laws[0]))
    laws = [_combined(own) for own in terms]
    return KnownValues(values, (laws[0],) if all(law == laws[0] for law in laws) else tuple(laws))


def _combined(terms: Sequence[tuple[float, ErrorLaw]]) -> ErrorLaw:
    """Return the law of a sum of independent estimates from residuals."""
    bounds = [(factor, law) for factor, law in terms if isinstance(law, GaussianSumBound)]
    if not bounds:
        return NoiseSum(())  # a public number of rows
    return GaussianSumBound(
        sum(factor**2 * law.variance for factor, law in bounds), max(abs(factor) * law.reach for factor, law in bounds)
    )
