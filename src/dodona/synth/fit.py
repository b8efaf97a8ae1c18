"""Fitting a distribution over cells to noisy counts, one block at a time.

Minimises anchor·KL(law ‖ uniform) + Σ (answer - observed)²/(2·deviation²) by visiting blocks in turn: iterative
proportional fitting that allows for noise. Also the mixture of several distributions, which MWEM's theorem is about.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

import numpy as np

from dodona.knowledge.cells import RandomSource, Support
from dodona.knowledge.dense import DenseBelief
from dodona.knowledge.fit import Belief
from dodona.knowledge.measurements import noise_variance
from dodona.privacy.measurement import Noise
from dodona.query.query import Block, Query

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray


# --- Fitting a belief to noisy counts, one block at a time. ---


ANCHOR = 0.5
"""How far one nat of a multiplier may pull the most accurate answers, in deviations of their noise."""
_LEAST = 1e-290
_MOST = 100.0  # nats of a multiplier: e^-100 of a cell is nothing
_CLOSE = 1e-11
_SOME = 0.1  # of the rows: with less, noise and not missing values may have taken the others
_ROUNDS = 100


@dataclass(frozen=True, slots=True, eq=False)
class ObservedBlock:
    """One block as it was observed, all of its measurements together, and its multipliers."""

    block: Block
    values: NDArray[np.float64]
    """Shares of the rows."""
    variance: float
    """Of the noise, in shares."""
    multipliers: NDArray[np.float64]

    @classmethod
    def of(cls, block: Block, counts: Sequence[int], noise: Noise, *, size: int) -> Self:
        """Return what noisy counts of a table of so many rows say."""
        values = np.array([float(one) for one in counts]) / size
        return cls(block, values, max(noise_variance(noise), 1e-12) / size**2, np.zeros(values.size))

    def joined(self, other: Self) -> Self:
        """Return two measurements of one block as one, weighed by their precision; the multipliers are kept."""
        own, others = 1 / self.variance, 1 / other.variance
        values = (self.values * own + other.values * others) / (own + others)
        return replace(self, values=values, variance=1 / (own + others))


@dataclass(frozen=True, slots=True, eq=False)
class FitState:
    """A belief and all that it was fitted to. A later one takes its weights over."""

    belief: Belief
    seen: tuple[ObservedBlock, ...] = ()
    gap: float = 0.0
    """How far, in shares, the last visit moved the answers of the block that was farthest off."""

    def joined(self, more: Iterable[ObservedBlock]) -> Self:
        """Return the same belief with more to fit; another measurement of a block is joined to the first."""
        found = {one.block: one for one in self.seen}
        for one in more:
            found[one.block] = found[one.block].joined(one) if one.block in found else one
        return replace(self, seen=tuple(found.values()))

    def swept(self, times: int, *, tolerance: float = 1e-6, first: Block | None = None) -> Self:
        """Return the belief after so many visits of every block, or fewer where nothing moves any more."""
        if not self.seen:
            return self
        anchor = ANCHOR / math.sqrt(min(one.variance for one in self.seen))
        belief, seen, gap = self.belief, list(self.seen), 0.0
        order = list(range(len(seen)))
        if first is not None:
            order = [place for place in order if seen[place].block == first] + order
        for _ in range(times):
            gap = 0.0
            for place in order:
                belief, seen[place], moved = _fit_block(belief, seen[place], max(anchor, 1.0))
                gap = max(gap, moved)
            order = list(range(len(seen)))
            if gap <= tolerance:
                break
        return replace(self, belief=belief, seen=tuple(seen), gap=gap)


def _fit_block(belief: Belief, one: ObservedBlock, anchor: float) -> tuple[Belief, ObservedBlock, float]:
    """Return the belief with the best multipliers of one block, and how far its answers moved."""
    query = Query(belief.support.domain, (one.block,))
    answers = belief.expect(query)
    alive = answers > 0
    outside = max(0.0, 1.0 - float(answers.sum()))
    whole = outside < _CLOSE
    values = one.values[alive]
    if whole:  # all rows that are believed in are in some group: the shares add up to 1
        total = float(values.sum())
        if not alive.all() and total > _SOME:  # rows in cells without weight, missing values, count for nothing
            values = values / total
        values = values + (1.0 - values.sum()) / values.size
        outside = 0.0
    own, reached = _solve_multipliers(
        np.log(np.maximum(answers[alive], _LEAST)) - one.multipliers[alive], values, anchor * one.variance, outside
    )
    multipliers = one.multipliers.copy()
    multipliers[alive] = np.clip(own, -_MOST, _MOST)
    moved = float(np.abs(reached - answers[alive]).sum())
    tilted = belief.tilted(query, exponents=multipliers - one.multipliers)
    return tilted, replace(one, multipliers=multipliers), moved


def _solve_multipliers(
    logs: NDArray[np.float64], values: NDArray[np.float64], ridge: float, outside: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return multipliers t and answers π with π = e^(logs+t-λ) = values - ridge·t and Σ π + outside·e^-λ = 1.

    The sum falls in λ and is convex, so that Newton's steps from its left end do not pass the root.
    """
    from scipy.special import wrightomega

    base = values / ridge + logs - math.log(ridge)
    shift = 0.0
    for _ in range(_ROUNDS):
        omega = wrightomega(base - shift).real
        rest = outside * math.exp(-shift)
        excess = ridge * float(omega.sum()) + rest - 1.0
        if abs(excess) <= _CLOSE:
            break
        shift += min(max(excess / (ridge * float((omega / (1 + omega)).sum()) + rest), -_MOST), _MOST)
    return (values - ridge * omega) / ridge, ridge * omega


# --- The mean of several beliefs: what MWEM's theorem is about. ---


@dataclass(frozen=True, slots=True)
class Mixture:
    """Beliefs over one support, each as likely as the others. It is asked and drawn from, and no longer moved."""

    parts: tuple[Belief, ...]

    @property
    def support(self) -> Support:
        """The cells that may have weight."""
        return self.parts[0].support

    def expect(self, query: Query) -> NDArray[np.float64]:
        """Return the mean weight of a row for every answer of a query."""
        found: NDArray[np.float64] = sum(part.expect(query) for part in self.parts) / len(self.parts)  # type: ignore[assignment]
        return found

    def sample(self, rows: int, rng: RandomSource) -> dict[str, NDArray[np.int64]]:
        """Return made-up rows: each from one of the beliefs, in equal numbers up to one."""
        shares = [rows // len(self.parts) + (place < rows % len(self.parts)) for place in range(len(self.parts))]
        drawn = [part.sample(share, rng) for part, share in zip(self.parts, shares, strict=True)]
        return {name: np.concatenate([one[name] for one in drawn]) for name in self.support.domain.names}


class MixtureBuilder:
    """Adds beliefs up, one after the other: dense ones as one vector, others as copies."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._sum: NDArray[np.float64] | None = None
        self._support: Support | None = None
        self._parts: list[Belief] = []

    def add(self, belief: Belief, *, weight: float = 1.0) -> None:
        """Take a belief in; it stays usable. Only dense ones are weighed."""
        if not isinstance(belief, DenseBelief):
            self._parts.append(belief.copied())
        elif self._sum is None:
            self._sum, self._support = weight * belief.probabilities(), belief.support
        else:
            self._sum += weight * belief.probabilities()

    def mixture(self) -> Mixture:
        """Return the mean of all that came."""
        if self._sum is not None and self._support is not None:
            return Mixture((DenseBelief(self._support, self._sum),))
        return Mixture(tuple(self._parts))
