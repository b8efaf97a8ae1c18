"""What is possible: the range that earlier answers leave to a count that was not bought. It touches no data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction

from dodona.belief.bounds import bounds, within_noise
from dodona.belief.faults import Contradiction, TooManyCells
from dodona.belief.measurements import Released, variance_of
from dodona.online.knowledge import Knowledge
from dodona.online.learned import Learned, Marginal
from dodona.query.predicate import And, Predicate
from dodona.query.query import Block, Query

Ends = tuple[float, float]
"""The least and the largest that a value can be."""
_MOST_FACTS = 24
_MOST_CELLS = 1 << 10  # more of them take longer than a guess is worth
_MOST_VALUES = 32


def about(query: Query, learned: Iterable[Learned | Marginal]) -> list[Learned | Marginal]:
    """Return what was released about the columns of a query and no others."""
    names = {name for block in query.blocks for name in block.attributes}
    return [one for one in learned if _names(one) <= names]


def possible(query: Query, knowledge: Knowledge, failing: float) -> list[Ends] | None:
    """Return the least and the largest that each value of a block can be, given what was released about its columns.

    All released numbers are taken to be within their noise at once, but with probability `failing`. So it holds for
    all questions together, and whatever they were asked because of. None where too much would have to be looked at.

    Theorem: public-bounds
    """
    (block,) = query.blocks
    if block.values > _MOST_VALUES:
        return None
    every = sum(one.block.values for one in knowledge.learned if isinstance(one, Learned))
    known = [one for one in about(query, knowledge.learned) if isinstance(one, Learned)]
    facts = _nearest(block, [one for one in known if one.block.values <= _MOST_VALUES])
    rows, total = knowledge.rows, None
    if rows is not None and rows.noise is None:
        total = round(rows.value)
    number = min(len(facts), _MOST_FACTS)
    while number > 0 or total is not None:
        chosen = [Released(one.block, one.values, one.noise, one.receipt) for one in facts[:number]]
        drawn = sum(one.block.values for one in chosen)
        try:
            told = within_noise(chosen, confidence=1 - failing * drawn / every) if chosen else ()
            found = bounds(query, told, total=total, limit=_MOST_CELLS)
        except Contradiction:  # some noise was beyond its bound
            return None
        except TooManyCells:
            if number == 0:
                return None
            number //= 2
            continue
        return [(_end(own.low, -math.inf), _end(own.high, math.inf)) for own in found]
    return None


def _nearest(block: Block, facts: Sequence[Learned]) -> list[Learned]:
    """Return facts that are made of the conditions of a block first, those of more conditions before those of fewer."""
    parts = frozenset(_parts(block))

    def key(one: Learned) -> tuple[bool, int, float]:
        own = _parts(one.block)
        return not parts.issuperset(own), -len(own), variance_of(one.noise)

    return sorted(facts, key=key)


def _parts(block: Block) -> tuple[Predicate, ...]:
    return block.where.parts if isinstance(block.where, And) else (block.where,)


def _names(one: Learned | Marginal) -> frozenset[str]:
    return one.block.attributes if isinstance(one, Learned) else frozenset(own.attribute for own in one.classes)


def _end(value: Fraction | None, otherwise: float) -> float:
    return otherwise if value is None else float(value)
