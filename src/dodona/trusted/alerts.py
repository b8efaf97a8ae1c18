"""Alerts: an open threshold over a source. It was paid for in full before the first question."""

from __future__ import annotations

from dodona.domain.unit import Unit
from dodona.errors import InvalidArgument
from dodona.ledger.contract import Ledger
from dodona.ledger.receipt import Receipt
from dodona.mechanisms.laplace import Laplace
from dodona.mechanisms.sparse_vector import SparseVector
from dodona.query.effect import sensitivity_of
from dodona.query.query import Query
from dodona.query.sensitivity import Sensitivity
from dodona.trusted.noise import one
from dodona.trusted.release import exact, hold
from dodona.trusted.source import Source
from dodona.trusted.threshold import Verdict, Watch

PURPOSE = "above"


class Alerts:
    """Tells which counts are above a threshold, until the last alert. It lives in this process alone.

    Theorem: sparse-vector-privacy
    """

    def __init__(
        self, mechanism: SparseVector, receipt: Receipt, *, ledger: Ledger, source: Source, unit: Unit
    ) -> None:
        """Use the receipt, which must be for the whole run, and draw the threshold's noise."""
        self._unit, self._source = unit, source
        hold(receipt, mechanism.event(Sensitivity.count(unit.neighbours)), PURPOSE, source)
        ledger.redeem(receipt)
        self._watch = Watch(mechanism, lambda scale: one(Laplace(scale=scale)))

    @property
    def left(self) -> int:
        """How many alerts it may still tell."""
        return self._watch.positives_left

    def ask(self, query: Query, threshold: int) -> Verdict:
        """Return whether one count, with noise, is at or above the threshold, with noise."""
        paid, moved = Sensitivity.count(self._unit.neighbours), sensitivity_of(query, self._unit.neighbours)
        if query.values != 1 or moved.linf > paid.linf or moved.monotone < paid.monotone:
            raise InvalidArgument("query", f"{query.values} answers", "ask for one count of rows")
        return self._watch.ask(int(exact(self._source, query)[0]), threshold)
