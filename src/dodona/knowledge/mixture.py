"""The mean of several beliefs over one support, to which the theorem of MWEM applies."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dodona.knowledge import cells
from dodona.knowledge.binned import BinnedLaw
from dodona.knowledge.cells import Support
from dodona.knowledge.dense import DenseBelief
from dodona.knowledge.factored import FactoredBelief
from dodona.query.query import Query

Belief = DenseBelief | FactoredBelief


@dataclass(frozen=True, slots=True)
class Mixture:
    """Equally weighted beliefs over one support. It can be queried and sampled, but not updated."""

    parts: tuple[Belief, ...]

    @property
    def support(self) -> Support:
        """The cells that may have weight."""
        return self.parts[0].support

    def expect(self, query: Query) -> NDArray[np.float64]:
        """Return the mean expectation of every answer of a query, per row."""
        means: NDArray[np.float64] = sum(part.expect(query) for part in self.parts) / len(self.parts)  # type: ignore[assignment]
        return means

    def sample(self, rows: int, rng: cells.RandomSource) -> dict[str, NDArray[np.int64]]:
        """Return synthetic rows, drawn from the beliefs in equal numbers, up to one."""
        shares = [rows // len(self.parts) + (place < rows % len(self.parts)) for place in range(len(self.parts))]
        drawn = [part.sample(share, rng) for part, share in zip(self.parts, shares, strict=True)]
        return {name: np.concatenate([sample[name] for sample in drawn]) for name in self.support.domain.names}


class MixtureBuilder:
    """Accumulates beliefs: those within a limit of cells in a single vector, others one by one."""

    def __init__(self) -> None:
        """Start empty."""
        self._sum: NDArray[np.float64] | None = None
        self._support: Support | None = None
        self._parts: list[Belief] = []

    def add(self, belief: Belief, *, weight: float = 1.0) -> None:
        """Add a belief, which stays usable. Only those that are added up are weighted."""
        if isinstance(belief, FactoredBelief) and not belief.whole:
            self._parts.append(belief)
        elif self._sum is None:
            self._sum, self._support = weight * belief.probabilities(), belief.support
        else:
            self._sum += weight * belief.probabilities()

    def mixture(self) -> Mixture:
        """Return the mean of all beliefs that were added."""
        if self._sum is not None and self._support is not None:
            return Mixture((DenseBelief(self._support, self._sum),))
        return Mixture(tuple(self._parts))


CellDistribution = Belief | BinnedLaw | Mixture
