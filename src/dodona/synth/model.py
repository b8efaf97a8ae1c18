"""The synthetic model: a public law over the cells of some columns. Whatever is computed from it is free."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

from dodona.knowledge.components import ComponentBelief
from dodona.knowledge.dense import DenseBelief
from dodona.knowledge.fit import ObservedBlock
from dodona.numbers import format_percent
from dodona.query.query import Block, Query
from dodona.schema.schema import Schema
from dodona.synth.methods import ErrorGuarantee
from dodona.synth.mixture import Mixture
from dodona.synth.rows import SyntheticRows, round_rows, sample_rows, weight_cells
from dodona.synth.run import RunStep
from dodona.synth.workload import Workload

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

CellDistribution = DenseBelief | ComponentBelief | Mixture


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SyntheticModel:
    """A law over the cells of some columns, learned from releases alone, and how it was bought."""

    schema: Schema
    workload: Workload
    law: CellDistribution = field(repr=False)
    part: float = 1.0
    """Which part of the declared rows the law is about: the method may find that there are fewer."""
    seen: tuple[ObservedBlock, ...] = field(repr=False)
    """What was measured, all measurements of a block together."""
    steps: tuple[RunStep, ...] = field(repr=False)
    method: str
    share: Fraction
    """Which part of the whole budget it took."""
    unit: str
    promise: ErrorGuarantee | None
    run: str
    head: str
    """The ledger's head after the last step."""
    version: str

    @property
    def size(self) -> int:
        """How many rows the table is said to have, or was found to have."""
        return max(1, round(self.part * self.schema.unit.size))

    def expect(self, query: Query | Sequence[Block]) -> NDArray[np.float64]:
        """Return what the model says of counts over the released columns, in rows."""
        blocks = query.blocks if isinstance(query, Query) else tuple(query)
        return self.law.expect(self.workload.over(blocks)) * self.size

    def rounded(self, count: int | None = None) -> SyntheticRows:
        """Return whole rows, as many as the table has unless said otherwise: each cell as often as it weighs, rounded.

        It takes no chance for one dense law: it is the most faithful way to write a table.
        """
        return round_rows(self.law, self.size if count is None else count, seed=self.run)

    def sampled(self, count: int | None = None) -> SyntheticRows:
        """Return rows drawn independently from the law; the same model gives the same rows."""
        return sample_rows(self.law, self.size if count is None else count, seed=self.run)

    def weighted(self, *, least: float = 0.01) -> SyntheticRows:
        """Return one row a cell, with its weight in rows; cells of less than `least` rows are left out."""
        return weight_cells(self.law, self.size, least=least)

    def __str__(self) -> str:
        promised = ""
        if self.promise is not None:
            promised = f" All answers are within {self.promise.within:.4g} at {self.promise.confidence:.0%}."
        lost = sum(step.how == "lost" for step in self.steps)
        without = f" {lost} steps were lost after their charge." if lost else ""
        columns = ", ".join(self.workload.names)
        return (
            f"A model of {columns}, by method {self.method}: {len(self.steps)} charges, "
            f"{format_percent(self.share)} of the budget.{promised}{without}"
        )
