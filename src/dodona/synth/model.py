"""The synthetic model: a public law over the cells of some columns. Computing with it is free."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dodona.errors import InvalidRequest
from dodona.knowledge.binned import BinnedLaw, Bins
from dodona.knowledge.constraints import compile_constraints, compile_where, forbidden_rows
from dodona.knowledge.factored import FactoredBelief
from dodona.knowledge.fit import ObservedBlock
from dodona.knowledge.loglinear import NEGLIGIBLE
from dodona.knowledge.mixture import CellDistribution
from dodona.numbers import format_percent
from dodona.query.predicate import NOTHING, Predicate, complement, disjunction, predicate_attributes
from dodona.query.query import Block, Query
from dodona.schema.schema import Schema
from dodona.synth.accuracy import ReleasedCounts, released_counts
from dodona.synth.linked import split_tables
from dodona.synth.methods import ErrorGuarantee
from dodona.synth.people import draw_people
from dodona.synth.rows import make_generator, redraw_rows, round_rows, sample_rows, weight_cells
from dodona.synth.run import RunStep
from dodona.synth.table import SyntheticRows
from dodona.synth.workload import Workload, marginal_block


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SyntheticModel:
    """A law over the cells of some columns, learned only from releases, and the steps that paid for it."""

    schema: Schema
    workload: Workload
    law: CellDistribution = field(repr=False)
    part: float = 1.0
    """The share of the declared rows that the law covers: what was released may say that fewer count, or more."""
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
        """The number of rows that counts add up to: the declared one of all tables, or what was released says."""
        return max(1, round(self.part * self.schema.size))

    @property
    def rows(self) -> int:
        """How many rows are made up by default: the declared number, which moves with no row of the table."""
        return max(1, self.schema.size) if self.seen else self.size

    @property
    def bins(self) -> Bins:
        """The bins of wide columns: what was measured of them together with others was measured bin by bin."""
        return self.law.bins if isinstance(self.law, BinnedLaw) else {}

    @property
    def gap(self) -> float | None:
        """How far answers are from the best fit, in deviations of their noise, root mean square; None without a fit."""
        return self.law.gap if self.seen and isinstance(self.law, FactoredBelief | BinnedLaw) else None

    @property
    def converged(self) -> bool:
        """Whether the fit ended at its optimum, as far as noise lets it matter."""
        return self.gap is None or self.gap <= NEGLIGIBLE

    def expect(self, query: Query | Sequence[Block]) -> NDArray[np.float64]:
        """Return the model's expected counts over the released columns, in rows."""
        blocks = query.blocks if isinstance(query, Query) else tuple(query)
        return self.law.expect(self.workload.over(blocks)) * self.size

    def marginal(self, columns: Sequence[str], *, confidence: float = 0.95) -> ReleasedCounts:
        """Return the counts of all value combinations of some columns, from measured tables if these have them."""
        return self._counted(marginal_block(self.schema.domain, columns), confidence)

    def count(self, where: str, *, confidence: float = 0.95) -> ReleasedCounts:
        """Return the number of rows that meet a condition in SQL, from measured tables if it follows from them."""
        return self._counted(Block(compile_where(where, self.schema)), confidence)

    def _counted(self, block: Block, confidence: float) -> ReleasedCounts:
        self._require_released(block.attributes)
        domain = self.schema.domain
        counts = released_counts(domain, self.seen, block, size=self.size, confidence=confidence)
        return counts or ReleasedCounts(block, domain, self.expect([block]), None, confidence)

    def _require_released(self, names: Iterable[str]) -> None:
        unknown = sorted(set(names) - set(self.workload.names))
        if unknown:
            raise InvalidRequest(f"{', '.join(unknown)} is no part of the release of {', '.join(self.workload.names)}.")

    def rounded(self, count: int | None = None, *, people: int | None = None) -> SyntheticRows:
        """Return whole rows, by default as many as the table has: each cell as often as its rounded weight.

        For a single dense law this is deterministic: the most faithful way to write a table. Where people are
        protected, rows have made-up ids, of about as many `people` as you say.
        """
        places = self.law.support.places
        wanted = [places(block.attributes) for block in self.workload.query.blocks]
        rows = round_rows(self.law, self.rows if count is None else count, seed=self.run, wanted=wanted)
        return self._with_people(self._possible(rows), people)

    def sampled(
        self, count: int | None = None, *, where: str | None = None, people: int | None = None
    ) -> SyntheticRows:
        """Return rows drawn independently from the law; the same model gives the same rows.

        With `where`, a condition in SQL, only rows that meet it, by default as many as the model expects.
        """
        if where is None:
            rows = sample_rows(self.law, self.rows if count is None else count, seed=self.run)
            return self._with_people(self._possible(rows), people)
        wanted = compile_where(where, self.schema)
        self._require_released(predicate_attributes(wanted))
        expected = max(1, round(float(self.expect([Block(wanted)])[0])))
        rows = sample_rows(self.law, expected if count is None else count, seed=self.run)
        return self._with_people(self._possible(rows, complement(wanted)), people)

    def weighted(self, *, least: float = 0.01) -> SyntheticRows:
        """Return one row per cell, weighted in rows; cells below `least` rows are omitted."""
        return self._possible(weight_cells(self.law, self.size, least=least))

    def tables(self, count: int | None = None) -> dict[str, SyntheticRows]:
        """Return the rows of each private table of a dataset with several, linked by made-up ids; `count` is of all."""
        number = self.rows if count is None else count
        rows = self._possible(sample_rows(self.law, number, seed=self.run))
        return split_tables(self.schema, rows, make_generator(self.run[32:]))

    def _possible(self, rows: SyntheticRows, refused: Predicate = NOTHING) -> SyntheticRows:
        """Return rows that meet all public constraints, and none that are refused."""
        forbidden = forbidden_rows(compile_constraints(self.schema), self.workload.names)
        return redraw_rows(rows, self.law, disjunction(forbidden, refused), seed=self.run[16:])

    def _with_people(self, rows: SyntheticRows, people: int | None) -> SyntheticRows:
        """Return rows with made-up people, if people are protected."""
        unit = self.schema.unit
        if self.schema.linked:
            if people is not None:
                raise InvalidRequest("people= is for one table. With several, tables() makes up who their rows are of.")
            return rows
        if unit.id is None:
            if people is not None:
                raise InvalidRequest("people= is for tables in which people are protected; here each row is.")
            return rows
        owners = draw_people(len(rows), unit, make_generator(self.run[32:]), people=people)
        return replace(rows, id=unit.id, people=owners)

    def __str__(self) -> str:
        promised = ""
        if self.promise is not None:
            promised = f" All answers are within {self.promise.within:.4g} at {self.promise.confidence:.15g}."
        lost = sum(step.how == "lost" for step in self.steps)
        without = f" {lost} steps were lost after their charge." if lost else ""
        columns = ", ".join(self.workload.names)
        early = (
            ""
            if self.converged
            else f" The fit ended early, {self.gap:.2g} deviations of noise from its best on average."
        )
        return (
            f"A model of {columns}, by method {self.method}: {len(self.steps)} charges, "
            f"{format_percent(self.share)} of the budget.{promised}{without}{early}"
        )
