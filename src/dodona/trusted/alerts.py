"""Alerts and checks: open thresholds over a source. They were paid for in full before the first question."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from dodona.domain.unit import Unit
from dodona.errors import Halted, InvalidArgument
from dodona.ledger.contract import Ledger
from dodona.ledger.receipt import Receipt
from dodona.mechanisms.estimate_checker import EstimateChecker
from dodona.mechanisms.laplace import Laplace
from dodona.mechanisms.sparse_vector import SparseVector
from dodona.query.people import count_effect, effect_of, score_effect
from dodona.query.query import Query
from dodona.query.sensitivity import Sensitivity
from dodona.trusted.noise import one
from dodona.trusted.release import exact, hold
from dodona.trusted.source import Source
from dodona.trusted.threshold import Verdict, Watch

PURPOSE, CHECKING = "above", "weights"


class Alerts:
    """Tells which counts are above a threshold, until the last alert. It lives in this process alone.

    Theorem: sparse-vector-privacy
    """

    def __init__(
        self, mechanism: SparseVector, receipt: Receipt, *, ledger: Ledger, source: Source, unit: Unit
    ) -> None:
        """Use the receipt, which must be for the whole run, and draw the threshold's noise."""
        self._unit, self._source, self._positives = unit, source, mechanism.positives
        hold(receipt, mechanism.event(count_effect(unit)), PURPOSE, source)
        ledger.redeem(receipt)
        self._watch = Watch(mechanism, lambda scale: one(Laplace(scale=scale)))

    @property
    def left(self) -> int:
        """How many alerts it may still tell."""
        return self._watch.positives_left

    def ask(self, query: Query, threshold: int) -> Verdict:
        """Return whether one count, with noise, is at or above the threshold, with noise."""
        with suppress(Halted):
            return self._watch.ask(_count(query, count_effect(self._unit), self._unit, self._source), threshold)
        raise Halted(self._positives)  # here, so that no exact count travels in the frames of an error


def checks(
    checker: EstimateChecker, receipt: Receipt, *, ledger: Ledger, source: Source, unit: Unit
) -> Callable[[Query, int], int | None]:
    """Return what tells one count anew, with fresh noise, where an estimate of it seems far off, and else None.

    The receipt must be for the whole run, until the last update, and is used up. It lives in this process alone.

    Theorem: private-multiplicative-weights
    """
    hold(receipt, checker.event(unit), CHECKING, source)
    ledger.redeem(receipt)
    watch = Watch(checker.test, lambda scale: one(Laplace(scale=scale)))

    def check(query: Query, estimate: int) -> int | None:
        with suppress(Halted):
            return checker.fresh(_count(query, score_effect(unit), unit, source), estimate, watch=watch, draw=one)
        raise Halted(checker.test.positives)  # here, so that no exact count travels in the frames of an error

    return check


def _count(query: Query, paid: Sensitivity, unit: Unit, source: Source) -> int:
    """Return one exact count, which may not move more than was paid for."""
    moved = effect_of(query, unit)
    if query.values != 1 or moved.linf > paid.linf or moved.monotone < paid.monotone:
        raise InvalidArgument("query", f"{query.values} answers", "ask for one count of rows")
    return int(exact(source, query)[0])
