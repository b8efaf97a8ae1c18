"""What the ladder buys: a table of counts, a lattice of residuals, and a short stream answered from a table."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, partial
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from dodona.answer.estimate import to_float
from dodona.curator.bundles import design_count_table
from dodona.curator.desk import WHOLE_BUDGET, Desk, Purchase
from dodona.errors import InvariantBroken
from dodona.lab.audit.cases.asking import Rows, Tables
from dodona.lab.audit.cases.case import AuditCase, LossMeasure, pure_epsilon
from dodona.lab.audit.cases.scene import dataset_of, last_event, ledger_of, make_curator, schema_of, source_of
from dodona.lab.audit.cases.served import CROWD, FEMALE, neighbouring_tables
from dodona.lab.audit.features import DIFFERENCE, VALUE, Feature, Outputs, pair
from dodona.ledger.ledger import Ledger
from dodona.privacy.additive_noise import Laplace
from dodona.privacy.events import Event
from dodona.privacy.measurement import Measurement, ResidualMeasurement
from dodona.query.bases import Base
from dodona.query.predicate import among
from dodona.query.query import Query
from dodona.query.residual import Classes, Residual
from dodona.schema.schema import Neighbours
from dodona.trusted.gate import read_exact, release_measurement
from dodona.trusted.source import Source

if TYPE_CHECKING:
    from numpy.typing import NDArray

_CHARGES = 500  # of one ledger
_REACH = 200
_WITHIN = 6
_SETS = ([0], [1, 2, 3, 4])  # women, and all others
_LONG_STAY = ("female", 2.0, math.nan)
_LONGEST_STAY = ("female", 3.0, math.nan)


def cases() -> Iterator[AuditCase]:
    """Yield the audits of bundles."""
    for neighbours in Neighbours:
        tables = neighbouring_tables(neighbours, CROWD, FEMALE)
        yield _table(neighbours, tables)
        for base in (Base.POINTS, Base.RANGES):
            yield _lattice(neighbours, neighbouring_tables(neighbours, CROWD, _LONG_STAY), base)
        yield _lattice(neighbours, neighbouring_tables(neighbours, CROWD, _LONGEST_STAY), Base.VALUES)
        yield _stream(neighbours, tables)


@dataclass(frozen=True, slots=True)
class _RepeatedPurchase:
    """A measurement that is bought repeatedly, with a separate charge each time."""

    neighbours: Neighbours
    tables: Tables
    measurement: Measurement | ResidualMeasurement
    delta: str

    def event(self) -> Event:
        """Return the event in the ledger after one charge."""
        ledger = self._ledger()
        self._once(ledger, source_of(schema_of(self.neighbours), self.tables[0]))
        return last_event(ledger)

    def draw(self, count: int) -> tuple[Outputs, Outputs]:
        """Return `count` releases on each of the two tables."""
        first, second = (self._outputs(rows, count) for rows in self.tables)
        return first, second

    def _outputs(self, rows: Rows, count: int) -> Outputs:
        outputs: list[tuple[int, ...]] = []
        source = source_of(schema_of(self.neighbours), rows)
        while len(outputs) < count:
            ledger = self._ledger()
            outputs += [self._once(ledger, source) for _ in range(min(_CHARGES, count - len(outputs)))]
        return np.array(outputs, dtype=np.int64)

    def _once(self, ledger: Ledger, source: Source) -> tuple[int, ...]:
        bought, unit = self.measurement, schema_of(self.neighbours).unit
        desk = Desk(dataset_of(schema_of(self.neighbours), source, ledger), analyst=None)
        deliver = partial(release_measurement, bought)
        purchase = Purchase(event=bought.event(unit), purpose=bought.purpose, deliver=deliver, max_price=WHOLE_BUDGET)
        return tuple(int(value) for value in desk.buy(purchase).item.values)

    def _ledger(self) -> Ledger:
        return ledger_of(schema_of(self.neighbours), self.delta)


def _table(neighbours: Neighbours, tables: Tables) -> AuditCase:
    domain, unit = schema_of(neighbours).domain, schema_of(neighbours).unit
    design = design_count_table(domain, unit, (Classes.of(domain["sex"]),), Laplace, tolerance=_WITHIN, failing=0.05)
    if design is None:
        raise InvariantBroken("No table is within the room.")
    bought = _RepeatedPurchase(neighbours, tables, design, "0")
    two = Feature("two groups", lambda outputs: pair(_REACH).of(outputs[:, :2]))
    return AuditCase(
        name="table of the ladder",
        mechanism="served",
        neighbours=neighbours,
        claim=lambda: pure_epsilon(bought.event()),
        draw=bought.draw,
        features=(
            Feature("first group", lambda outputs: VALUE.of(outputs[:, 0])),
            two,
            Feature("difference", lambda outputs: DIFFERENCE.of(outputs[:, :2])),
        ),
        share=80,
    )


def _lattice(neighbours: Neighbours, tables: Tables, base: Base) -> AuditCase:
    """Return the audit of residuals of two columns, projected on the direction in which the neighbours differ most.

    For ranges only residuals with waves are measured, because the others would hide a wrong price of waves.
    """
    schema = schema_of(neighbours)
    stay = schema.domain["stay"]
    stays = {
        Base.POINTS: Classes.split(stay, 0b11),
        Base.RANGES: Classes.of(stay).based(Base.RANGES),
        Base.VALUES: Classes.summed(stay),
    }[base]
    if stays is None:
        raise InvariantBroken("A stay is a number of days.")
    ways = (Classes.of(schema.domain["sex"]), stays)
    every = [Residual(inner) for size in range(3) for inner in combinations(ways, size)]
    kept = [residual for residual in every if residual.classes or neighbours is Neighbours.ADD_REMOVE]
    if base is Base.RANGES:
        kept = [residual for residual in kept if stays in residual.classes]
    residuals = ResidualMeasurement(schema.domain, tuple((residual, Fraction(2)) for residual in kept))
    bought = _RepeatedPurchase(neighbours, tables, residuals, "1e-6")

    @cache  # when it is looked at: a fault in reading is no fault of listing the cases
    def line() -> NDArray[np.float64]:
        first, second = (residuals.turned(_exact_marginals(residuals, neighbours, rows)) for rows in tables)
        scales = np.array([float(noise.scale) for noise in residuals.noises])
        apart: NDArray[np.float64] = (second - first).astype(np.float64) / scales**2
        return apart

    return AuditCase(
        name="lattice of the ladder" if base is Base.POINTS else f"lattice of {base.value}",
        mechanism="served",
        neighbours=neighbours,
        claim=lambda: _mu(bought),
        draw=bought.draw,
        features=(Feature("along the difference", lambda outputs: _along(outputs, line=line())),),
        measure=LossMeasure.MU,
        share=80,
    )


def _stream(neighbours: Neighbours, tables: Tables) -> AuditCase:
    def claim() -> float:
        ledger = ledger_of(schema_of(neighbours))
        _ask_counts(neighbours, tables[0], ledger)
        return pure_epsilon(last_event(ledger))

    draw_outputs: Callable[[Rows, int], Outputs] = lambda rows, count: np.array(  # noqa: E731
        [_ask_counts(neighbours, rows, ledger_of(schema_of(neighbours))) for _ in range(count)], dtype=np.int64
    )
    return AuditCase(
        name="stream of the ladder",
        mechanism="served",
        neighbours=neighbours,
        claim=claim,
        draw=lambda count: (draw_outputs(tables[0], count), draw_outputs(tables[1], count)),
        features=(
            Feature("first answer", lambda outputs: VALUE.of(outputs[:, 0])),
            Feature("sum of both", lambda outputs: VALUE.of(outputs[:, 1])),
        ),
        share=800,
    )


def _ask_counts(neighbours: Neighbours, rows: Rows, ledger: Ledger) -> tuple[int, ...]:
    """Return two counts that follow from one table, in thousandths, and their sum."""
    schema = schema_of(neighbours)
    curator = make_curator(schema, source_of(schema, rows), ledger)
    curator.prepare(["SELECT sex, count(*) FROM stays GROUP BY sex"], within=_WITHIN)
    counts = []
    for codes in _SETS:
        shown = curator.ask(Query.count(schema.domain, among(schema.domain["sex"], codes)), within=20 * _WITHIN).value
        if shown.value is None:
            raise InvariantBroken("A count is no number.")
        counts.append(float(to_float(shown.value)))
    return (round(1000 * counts[0]), round(1000 * sum(counts)))


def _exact_marginals(residuals: ResidualMeasurement, neighbours: Neighbours, rows: Rows) -> list[int]:
    """Return the exact marginals of a synthetic table, which the audit may know."""
    return [int(value) for value in read_exact(source_of(schema_of(neighbours), rows), residuals.query)]


def _mu(bought: _RepeatedPurchase) -> float:
    """Return the μ of the event; `noise` explains why it is not √(2ρ)."""
    rho = float(bought.event().rho())
    return math.sqrt(2 * rho) * (1 + 2 * rho / 22)


def _along(outputs: Outputs, *, line: NDArray[np.float64]) -> NDArray[np.int64]:
    return np.round(outputs.astype(np.float64) @ line * 20).astype(np.int64)
