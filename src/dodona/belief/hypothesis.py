"""The hypothesis: a public belief about the table, a law over the domain's cells, learned from releases alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dodona.belief.support import Support
from dodona.query.query import Query

Numbers: TypeAlias = float | Sequence[float] | NDArray[np.float64]
"""One number, or one for each answer."""


class Chance(Protocol):
    """Where made-up rows take their chance from: NumPy's generators are such."""

    def random(self, size: int, /) -> NDArray[np.float64]:
        """Return uniform numbers from 0, below 1."""


class Hypothesis(Protocol):
    """A law over cells that can be asked, moved and drawn from.

    Moving it hands its weights on: `updated` and `tilted` work in place and return the moved belief, and the one
    before it is spent (`SpentBelief`). A vector of 2^27 weights is a gigabyte, and a copy at each step would be
    slower than the step. `copied` gives a belief of one's own.
    """

    @property
    def support(self) -> Support:
        """The cells that may have weight."""

    def expect(self, query: Query) -> NDArray[np.float64]:
        """Return the mean weight of a row for every answer of a query: for a count, the share of the rows, in steps."""

    def updated(self, query: Query, *, target: Numbers) -> Self:
        """Return the nearest law, in relative entropy, whose answers to a query of one block are the targets.

        The block counts rows, in groups or not, or adds up one number.

        Theorem: kl-projection
        """

    def tilted(self, query: Query, *, exponents: Numbers) -> Self:
        """Return the law with each cell times e^(exponent·weight), for a query of one block, one exponent an answer."""

    def sample(self, rows: int, rng: Chance) -> dict[str, NDArray[np.int64]]:
        """Return made-up rows: for each attribute the codes, drawn independently from the law."""

    def copied(self) -> Self:
        """Return a belief with weights of its own."""
