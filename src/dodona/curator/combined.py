"""What averages, shares, spreads and arithmetic demand of the blocks that they are computed from.

They count as answered if their noise is no wider than if they were measured by themselves, wherever the interval is
decided. So their demands are limits for a few combinations of the blocks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from dodona.answer.bands import LinearForm, linear_form
from dodona.answer.laws import GaussianSumBound, JointLaw
from dodona.answer.ratios import numerator_and_denominator
from dodona.answer.sums import gaussian_sum_quantile
from dodona.knowledge.patterns import KnownValues, find_pattern
from dodona.knowledge.summed import (
    Pattern,
    SumPattern,
    combine_patterns,
    find_rows_pattern,
    find_sum_pattern,
)
from dodona.numbers import Doubles
from dodona.query.query import ONE, Block, weight_range
from dodona.query.question import (
    AnswerColumn,
    Arithmetic,
    Comparison,
    Expression,
    Logic,
    Mean,
    Question,
    Total,
)

if TYPE_CHECKING:
    from dodona.knowledge.knowledge import Knowledge

_STEPS = 64  # in which candidate averages are rounded, away from 0
_SLACK = 1 + 1e-9  # variances are known to as many digits
_PAIR = 2


def find_block_patterns(question: Question) -> tuple[Pattern, ...]:
    """Return the pattern of each block of a question computed from sums; none if one of them follows from no residuals.

    The rows of an average are counted by the residuals of its sum.
    """
    blocks, domain = question.query.blocks, question.query.domain
    if all(isinstance(column.expression, Total) for column, _ in question.noisy_columns):
        return ()
    if not question.from_sums or any(block.keys != question.keys for block in blocks):
        return ()
    by_block: dict[int, Pattern | None] = {
        number: find_sum_pattern(block, domain) for number, block in enumerate(blocks) if block.weight != ONE
    }
    totals = [pattern for pattern in by_block.values() if isinstance(pattern, SumPattern) and pattern.value.base.sums]
    for number, block in enumerate(blocks):
        if number not in by_block:
            rows = (find_rows_pattern(block, domain, total) for total in totals)
            summed = next((pattern for pattern in rows if isinstance(pattern, SumPattern)), None)
            by_block[number] = summed or find_pattern(block, domain)
    patterns = [by_block[number] for number in range(len(blocks))]
    known = tuple([pattern for pattern in patterns if pattern is not None and _is_product(pattern)])
    return known if len(known) == len(blocks) else ()


def _is_product(pattern: Pattern) -> bool:
    return isinstance(pattern, SumPattern) or pattern.sets is not None or pattern.several


@dataclass(frozen=True, slots=True)
class Combination:
    """A combination of blocks, and how far off it may be."""

    factors: tuple[tuple[int, Fraction], ...]
    """By block, in steps."""
    limit: float


@dataclass(frozen=True, slots=True)
class CombinedDemand:
    """What a question computed from several blocks demands of them."""

    question: Question
    patterns: tuple[Pattern, ...]
    combinations: tuple[Combination, ...]
    failing: float
    alone: float
    """How far off a block would be if it were measured, over what its rows count for at most: the least of all."""

    def follow(self, knowledge: Knowledge) -> tuple[list[KnownValues], JointLaw] | None:
        """Return the values of all blocks as they follow from residuals, and how they vary together.

        Blocks that are only shown may follow from tables as well.
        """
        return follow_blocks(self.question, self.patterns, knowledge)

    def met(self, known: Sequence[KnownValues], law: JointLaw) -> bool:
        """Return whether all combinations are within their limits.

        Theorem: honest-ratio, joint-law
        """
        return all(
            self._within(combination, known, law) <= combination.limit * _SLACK for combination in self.combinations
        )

    def _within(self, combination: Combination, known: Sequence[KnownValues], law: JointLaw) -> float:
        if len(combination.factors) == 1:
            ((block, factor),) = combination.factors
            return float(abs(factor)) * known[block].within(self.failing)
        variance: float | Doubles = 0.0
        reach = 0.0
        for block, factor in combination.factors:
            laws = [bound for bound in known[block].laws if isinstance(bound, GaussianSumBound)]
            variance = variance + float(factor) ** 2 * np.array([bound.variance for bound in laws] or [0.0])
            reach += float(abs(factor)) * max((bound.reach for bound in laws), default=0.0)
        for (first, factor), (other, times) in combinations(combination.factors, 2):
            variance = variance + 2 * float(factor * times) * law.covariances[min(first, other), max(first, other)]
        widest = float(np.max(variance))
        if widest <= 0 or reach == 0:
            return 0.0
        return gaussian_sum_quantile(widest, min(reach, law.share * math.sqrt(widest)), self.failing / 2)

    def products(self) -> list[tuple[Pattern, float, Block]]:
        """Return patterns, how far off each may be so that all limits are kept, and a block of each.

        Of sums of numbers that differ in how often they have the rows alone, the one with most of them stands for all,
        as both parts have independent noise.
        """
        products: dict[tuple[Pattern, float], tuple[Pattern, float, Block]] = {}
        for pattern, room, block in self._each_product():
            key, widest = (pattern, room), pattern
            if isinstance(pattern, SumPattern) and pattern.value.base.sums:
                key = replace(pattern, constant=0), room
                before = products.get(key, (pattern,))[0]
                known = before.constant if isinstance(before, SumPattern) else 0
                widest = replace(pattern, constant=max(abs(Fraction(pattern.constant)), abs(Fraction(known))))
            products[key] = widest, room, block
        return [*products.values()]

    def _each_product(self) -> Iterator[tuple[Pattern, float, Block]]:
        blocks, domain = self.question.query.blocks, self.question.query.domain
        for combination in self.combinations:
            first, factor = combination.factors[0]
            if len(combination.factors) == 1:
                yield self.patterns[first], combination.limit / float(abs(factor)), blocks[first]
                continue
            together = None
            if len(combination.factors) == _PAIR:
                second, times = combination.factors[1]
                pair = self.patterns[first], self.patterns[second]
                together = combine_patterns(*pair, -times / factor, domain)
            if together is not None:
                room = combination.limit / float(abs(factor))
                yield together, room, blocks[first]
                if together.is_balanced:  # tells nothing of the rows in which the column does not matter
                    yield self.patterns[first], room, blocks[first]
                continue
            # However their errors vary together, the combination is as accurate as all of them at once.
            for block, factor in combination.factors:
                yield (
                    self.patterns[block],
                    combination.limit / float(abs(factor)) / len(combination.factors),
                    blocks[block],
                )


def follow_blocks(
    question: Question, patterns: Sequence[Pattern], knowledge: Knowledge
) -> tuple[list[KnownValues], JointLaw] | None:
    """Return the values of all blocks as they follow, and how they vary together; None if they do not.

    Blocks that are only shown may follow from tables as well.
    """
    pairs = block_pairs(question)
    combined = {block for pair in pairs for block in pair}
    known, followed = [], []
    for number, (block, pattern) in enumerate(zip(question.query.blocks, patterns, strict=True)):
        followed_values = knowledge.follow(block, pattern)
        known_values = followed_values.known if followed_values is not None else None
        if known_values is None and number not in combined:
            known_values = knowledge.lookup(block, pattern, lambda _: True)
        if known_values is None:
            return None
        known.append(known_values)
        followed.append(followed_values)
    return known, knowledge.joint_law(followed, pairs)


def block_pairs(question: Question) -> list[tuple[int, int]]:
    """Return the pairs of blocks whose errors have to be known together, the smaller number first."""
    pairs: dict[tuple[int, int], None] = {}
    for column, _ in question.noisy_columns:
        for blocks in _combined_blocks(column.expression, question):
            pairs |= dict.fromkeys(combinations(sorted(blocks), 2))
    return [*pairs]


def _combined_blocks(expression: Expression, question: Question) -> Iterator[set[int]]:
    match expression:
        case Mean(total, rows):
            yield {total, rows}
        case Arithmetic(_, left, right):
            forms = _forms(expression, question)
            if forms is None:
                yield from _combined_blocks(left, question)
                yield from _combined_blocks(right, question)
            else:
                yield {block for form in forms for block, _ in form.factors}
        case _:
            return


def _forms(expression: Expression, question: Question) -> tuple[LinearForm, ...] | None:
    """Return a linear form, or those above and below of a quotient; None for any other expression."""
    form = linear_form(expression, question.query)
    return numerator_and_denominator(expression, question.query) if form is None else (form,)


@dataclass(frozen=True, slots=True)
class BlockAims:
    """How accurate a question is to be: what its blocks demand is worked out from it."""

    question: Question
    rows: float
    """Of each group, as predictions take them: the same in all."""
    width: Callable[[AnswerColumn, Mapping[int, float]], float]
    """How far off a column may be, in its unit."""
    planned: Callable[[], Sequence[float]]
    """How far off each block would be if the question were measured, in steps: this takes long, and spreads need it."""

    def combinations(self) -> Iterator[Combination]:
        """Yield the combinations of blocks in which the intervals end, each with its limit.

        Theorem: honest-ratio
        """
        for column, shape in self.question.noisy_columns:
            forms = _forms(column.expression, self.question)
            match column.expression:
                case Total(block):
                    unit = float(self.question.query.blocks[block].unit)
                    yield Combination(((block, Fraction(1)),), self.width(column, shape) / unit)
                case Mean() as mean if self._is_bounded(column, shape):
                    yield from self._of_mean(mean, self.width(column, shape))
                case _ if forms is not None and len(forms) == 1:
                    yield Combination(_factors(dict(forms[0].factors)), self.width(column, shape))
                case _ if forms is not None and all(form.factors for form in forms) and self._is_bounded(column, shape):
                    yield from self._of_quotient(forms[0], forms[1], shape, self.width(column, shape))
                case expression:
                    for block in shape if _has_noise(expression) else ():
                        yield Combination(((block, Fraction(1)),), self.planned()[block])

    def _is_bounded(self, column: AnswerColumn, shape: Mapping[int, float]) -> bool:
        """Return whether its predicted half-width is finite; of few rows, a denominator may be zero."""
        return math.isfinite(self.width(column, shape))

    def _of_mean(self, mean: Mean, width: float) -> Iterator[Combination]:
        """Yield the sum less a candidate average times the rows, for the candidates at which its interval would end.

        Its half-width is predicted for numbers at the bound: of n rows, an average that is less by the width is then
        rejected where this combination is within n times it. Averages in the middle are rejected at half of the range
        from it at least.
        """
        unit = self.question.query.blocks[mean.total].unit
        lower, upper = (mean.lower - mean.centre) / unit, (mean.upper - mean.centre) / unit
        away = Fraction(width) / unit
        limit = float(away) * self.rows
        if mean.total == mean.rows:
            yield Combination(((mean.total, Fraction(1)),), limit)
            return
        for candidate in (max(upper - away, upper / 2), min(lower + away, lower / 2)):
            rounded = Fraction(math.ceil(abs(candidate) * _STEPS), _STEPS) * (1 if candidate > 0 else -1)
            yield Combination(_factors({mean.total: Fraction(1), mean.rows: -rounded}), limit)

    def _of_quotient(
        self, above: LinearForm, below: LinearForm, shape: Mapping[int, float], width: float
    ) -> Iterator[Combination]:
        """Yield the numerator less a candidate times the denominator, for the candidates 0 and the largest.

        The half-width is predicted for rows that count for as much as they can. Each block has the part of it that it
        would have if it were measured.
        """
        top, bottom = (self._largest(form) for form in (above, below))
        largest = top / max(bottom, Fraction(1, 10**9))
        wide = _less(above, below, largest + Fraction(width))
        together = math.hypot(*[float(factor) * shape[block] for block, factor in wide.items()])
        alone = width * float(bottom) * self.rows / max(together, _LEAST)
        blocks = self.question.query.blocks
        signed = any(
            factor * weight < 0 for block, factor in above.factors for weight in weight_range(blocks[block].weight)
        )
        for candidate in (Fraction(0), largest, *([-largest] if signed else [])):
            factors = _factors(_less(above, below, candidate))
            limit = alone * math.hypot(*[float(factor) * shape[block] for block, factor in factors])
            if factors:
                yield Combination(factors, limit)

    def _largest(self, form: LinearForm) -> Fraction:
        """Return what a row counts for at most in a form."""
        largest = Fraction(0)
        for block, factor in form.factors:
            largest += abs(factor) * max(map(abs, weight_range(self.question.query.blocks[block].weight)))
        return largest


_LEAST = 1e-300


def _factors(factors: Mapping[int, Fraction]) -> tuple[tuple[int, Fraction], ...]:
    return tuple([(block, factor) for block, factor in sorted(factors.items()) if factor])


def _less(above: LinearForm, below: LinearForm, times: Fraction) -> dict[int, Fraction]:
    difference = dict(above.factors)
    for block, factor in below.factors:
        difference[block] = difference.get(block, Fraction(0)) - times * factor
    return difference


def _has_noise(expression: Expression) -> bool:
    return not isinstance(expression, Comparison | Logic)


def demand_of_blocks(patterns: tuple[Pattern, ...], aims: BlockAims, failing: float) -> CombinedDemand:
    """Return what a question demands of its blocks."""
    distinct_combinations = tuple(dict.fromkeys(aims.combinations()))
    alone = math.inf
    for combination in distinct_combinations:
        parts = [(float(abs(factor)), patterns[block]) for block, factor in combination.factors]
        sizes = [factor * (pattern.size if isinstance(pattern, SumPattern) else 1) for factor, pattern in parts]
        alone = min(alone, combination.limit / math.hypot(*sizes))
    return CombinedDemand(aims.question, patterns, distinct_combinations, failing, alone)
