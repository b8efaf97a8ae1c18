"""Bounds on an answer that follow from releases and public facts, by linear programming with exact certificates.

No data are touched. The program's multipliers are rounded to fractions, so each bound is proved exactly.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dodona.errors import InvalidArgument
from dodona.knowledge.cells import Contradiction, TooManyCells
from dodona.knowledge.patterns import BlockMeasurement
from dodona.query.movement import AxisCodes, Stack, atom_labels, attribute_uses, broadcast_codes
from dodona.query.query import Block, Query, block_weights, group_numbers
from dodona.schema.schema import Domain

MOST_CELLS = 1 << 14
_FINEST = (10**3, 10**9)  # largest denominators of multipliers, tried in turn: small fractions usually suffice
_UNBOUNDED = 3


@dataclass(frozen=True, slots=True)
class KnownRange:
    """A block whose answers are known to lie in closed intervals, in steps."""

    block: Block
    low: tuple[Fraction, ...]
    high: tuple[Fraction, ...]

    def __post_init__(self) -> None:
        """Raise if the number of intervals does not match the block or an interval is empty."""
        if not len(self.low) == len(self.high) == self.block.values:
            raise InvalidArgument("low", len(self.low), f"write one interval for each of {self.block.values} answers")
        for low, high in zip(self.low, self.high, strict=True):
            if low > high:
                raise InvalidArgument("low", low, f"write no more than the upper end, {high}")


@dataclass(frozen=True, slots=True)
class AnswerBounds:
    """The least and greatest possible values of an answer, in steps; None where it is unbounded."""

    low: Fraction | None
    high: Fraction | None


def ranges_within_noise(releases: Sequence[BlockMeasurement], *, confidence: float) -> tuple[KnownRange, ...]:
    """Return intervals that contain all released values simultaneously with at least this probability.

    Theorem: public-bounds
    """
    if not 0 < confidence < 1:
        raise InvalidArgument("confidence", confidence, "write a number between 0 and 1")
    number = sum(release.block.values for release in releases)
    ranges = []
    for release in releases:
        failing = (1 - confidence) * release.block.values / number
        room = math.ceil(release.noise.width(failing, release.block.values))
        low = tuple(Fraction(value - room) for value in release.values)
        ranges.append(KnownRange(release.block, low, tuple(Fraction(value + room) for value in release.values)))
    return tuple(ranges)


def bound_answers(
    query: Query, ranges: Iterable[KnownRange], *, total: int | None = None, limit: int = MOST_CELLS
) -> tuple[AnswerBounds, ...]:
    """Return the range of each answer of a query: no table consistent with these facts lies outside it.

    >>> from dodona.schema.attributes import Boolean
    >>> from dodona.query.predicate import among
    >>> domain = Domain((Boolean("urgent"), Boolean("young")))
    >>> urgent, young = among(domain["urgent"], [1]), among(domain["young"], [1])
    >>> numbers = ((urgent, (Fraction(40),)), (young, (Fraction(70),)))
    >>> known = [KnownRange(Block(one), number, number) for one, number in numbers]
    >>> (found,) = bound_answers(Query.count(domain, urgent | young), known, total=100)
    >>> str(found.low), str(found.high)
    ('70', '100')

    Theorem: public-bounds
    """
    facts = [*ranges]
    if total is not None:
        facts.append(KnownRange(Block(), (Fraction(total),), (Fraction(total),)))
    blocks = [fact.block for fact in facts]
    Query(query.domain, (*query.blocks, *blocks))  # raises if a block belongs to another domain
    codes = _codes(query.domain, (*query.blocks, *blocks), limit)
    empty = np.zeros((0, math.prod(map(len, codes.values()))), dtype=object)
    rows = np.concatenate([empty, *(_lines(block, codes) for block in blocks)])
    program = _Program(
        rows, [low for fact in facts for low in fact.low], [high for fact in facts for high in fact.high]
    )
    bounds = []
    for block in query.blocks:
        for wanted in _lines(block, codes):
            least = program.most(-wanted)
            bounds.append(AnswerBounds(None if least is None else -least, program.most(wanted)))
    return tuple(bounds)


@dataclass(frozen=True, slots=True)
class _Program:
    """All tables x ≥ 0 with low ≤ rows·x ≤ high."""

    rows: NDArray[Any]
    low: Sequence[Fraction]
    high: Sequence[Fraction]

    def most(self, wanted: NDArray[Any]) -> Fraction | None:
        """Return an upper bound on wanted·x, the least one up to rounding; None if there is none.

        For any multipliers y with wanted ≤ y·rows in every cell, wanted·x ≤ y·rows·x, which is at most the sum of
        y·high where y > 0 and of y·low elsewhere.
        """
        if len(self.rows) == 0:
            return Fraction(0) if max(wanted.tolist()) <= 0 else None
        multipliers = self._multipliers(wanted)
        if multipliers is None:
            return None
        rounded = ([Fraction(multiplier).limit_denominator(finest) for multiplier in multipliers] for finest in _FINEST)
        held = (self._proven_bound(wanted, numbers) for numbers in rounded)
        return min((bound for bound in held if bound is not None), default=None)

    def _proven_bound(self, wanted: NDArray[Any], numbers: list[Fraction]) -> Fraction | None:
        """Return the bound that multipliers prove, after a row that counts every cell absorbs their rounding error."""
        short = wanted - np.array(numbers, dtype=object) @ self.rows
        missing = max(*short.tolist(), Fraction(0))
        if missing > 0:
            whole = [place for place, row in enumerate(self.rows.tolist()) if min(row) > 0]
            if not whole:
                return None
            numbers[whole[-1]] += missing / min(self.rows[whole[-1]].tolist())
        ends = zip(numbers, self.low, self.high, strict=True)
        return sum((multiplier * (high if multiplier > 0 else low) for multiplier, low, high in ends), Fraction(0))

    def _multipliers(self, wanted: NDArray[Any]) -> NDArray[np.float64] | None:
        """Return nearly optimal multipliers, from the dual program in doubles."""
        from scipy.optimize import linprog

        rows = self.rows.astype(np.float64)
        costs = np.array([*map(float, self.high), *(-float(low) for low in self.low)])
        solved = linprog(costs, A_ub=-np.concatenate([rows, -rows]).T, b_ub=-wanted.astype(np.float64), method="highs")
        if solved.status == _UNBOUNDED:
            raise Contradiction("No table has all of these numbers at once. Leave some out, or widen their intervals.")
        if solved.x is None:
            return None
        half = len(rows)
        multipliers: NDArray[np.float64] = solved.x[:half] - solved.x[half:]
        return multipliers


def _codes(domain: Domain, blocks: Sequence[Block], limit: int) -> AxisCodes:
    """Return one representative code for each class of codes that no block distinguishes."""
    codes = {}
    for name, trait in attribute_uses(Stack((), tuple(blocks))).items():
        _, firsts = np.unique(atom_labels(domain[name].cells, trait), return_index=True)
        codes[name] = firsts.astype(np.int64)
    number = math.prod(map(len, codes.values()))
    if number > limit:
        instead = "Give fewer of the blocks: those about the columns that are asked for."
        raise TooManyCells("The product of all classes", cells=number, limit=limit, instead=instead)
    return codes


def _lines(block: Block, codes: AxisCodes) -> NDArray[Any]:
    """Return the weight of each cell in each group."""
    axes, shape = broadcast_codes(codes), tuple(map(len, codes.values()))
    weights = np.broadcast_to(block_weights(block, axes), shape).reshape(-1)
    groups = np.broadcast_to(group_numbers(block.keys, axes), shape).reshape(-1)
    table = np.zeros((block.values, len(weights)), dtype=object)
    table[groups, np.arange(len(weights))] = [int(weight) for weight in weights.tolist()]
    return table
