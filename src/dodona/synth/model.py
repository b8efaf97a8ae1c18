"""The synthetic model: a public law over the cells of some columns. Computing with it is free."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dodona.knowledge.components import CellDistribution
from dodona.knowledge.fit import ObservedBlock
from dodona.numbers import format_percent
from dodona.query.query import Block, Query
from dodona.schema.schema import Schema
from dodona.synth.methods import ErrorGuarantee
from dodona.synth.rows import SyntheticRows, round_rows, sample_rows, weight_cells
from dodona.synth.run import RunStep
from dodona.synth.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SyntheticModel:
    """A law over the cells of some columns, learned only from releases, and the steps that paid for it."""

    schema: Schema
    workload: Workload
    law: CellDistribution = field(repr=False)
    part: float = 1.0
    """The share of the declared rows that the law covers: a method may find that there are fewer."""
    seen: tuple[ObservedBlock, ...] = field(repr=False)
    """The measurements, combined for each block."""
    steps: tuple[RunStep, ...] = field(repr=False)
    method: str
    share: Fraction
    """The share of the whole budget that it took."""
    unit: str
    promise: ErrorGuarantee | None
    run: str
    head: str
    """The ledger's head after the last step."""
    version: str

    @property
    def size(self) -> int:
        """The declared number of rows of the table, or the estimated one."""
        return max(1, round(self.part * self.schema.unit.size))

    def expect(self, query: Query | Sequence[Block]) -> NDArray[np.float64]:
        """Return the model's expected counts over the released columns, in rows."""
        blocks = query.blocks if isinstance(query, Query) else tuple(query)
        return self.law.expect(self.workload.over(blocks)) * self.size

    def rounded(self, count: int | None = None) -> SyntheticRows:
        """Return whole rows, by default as many as the table has: each cell as often as its rounded weight.

        For a single dense law this is deterministic: the most faithful way to write a table.
        """
        return round_rows(self.law, self.size if count is None else count, seed=self.run)

    def sampled(self, count: int | None = None) -> SyntheticRows:
        """Return rows drawn independently from the law; the same model gives the same rows."""
        return sample_rows(self.law, self.size if count is None else count, seed=self.run)

    def weighted(self, *, least: float = 0.01) -> SyntheticRows:
        """Return one row per cell, weighted in rows; cells below `least` rows are omitted."""
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
