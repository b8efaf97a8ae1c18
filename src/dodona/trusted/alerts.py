"""Alerts and checks: open thresholds over a source. They were paid for in full before the first question."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from dodona.domain.unit import Unit
from dodona.errors import Halted, InvalidArgument
from dodona.ledger.contract import Ledger
from dodona.ledger.receipt import Armings, Receipt
from dodona.mechanisms.estimate_checker import EstimateChecker
from dodona.mechanisms.laplace import Laplace
from dodona.mechanisms.sparse_vector import SparseVector
from dodona.query.people import count_effect, effect_of, score_effect
from dodona.query.query import Query
from dodona.query.sensitivity import Sensitivity
from dodona.trusted.noise import one
from dodona.trusted.release import exact, hold, unseen
from dodona.trusted.source import Source
from dodona.trusted.threshold import Verdict, Watch

WATCHING, CHECKING = "above", "weights"


def purpose_of(mechanism: SparseVector) -> str:
    """Return what a watch's receipt is for: all its numbers, as what was used of it is counted in them.

    Theorem: reopened-watch
    """
    again = "again after each" if mechanism.restarts else "once"
    scales = f"threshold {mechanism.threshold_scale} {again}, question {mechanism.question_scale}"
    return f"{WATCHING} {scales}, answer {mechanism.answer_scale}, alerts {mechanism.positives}"


class Alerts:
    """Tells which counts are above a threshold, until the last alert that was paid for.

    It is armed for one alert at a time, in the ledger, before the first count that is compared for it is read. The
    threshold's noise stays in this process. So whoever opens it again, here or after a crash, draws noise anew, and
    what that costs is given up in alerts.

    Theorem: reopened-watch
    """

    def __init__(
        self, mechanism: SparseVector, receipt: Receipt, *, ledger: Ledger, source: Source, unit: Unit
    ) -> None:
        """Take the receipt, which must be for the whole run; others may have used a part of it."""
        self._mechanism, self._receipt, self._ledger = mechanism, receipt, ledger
        self._unit, self._source, self._moved = unit, source, count_effect(unit)
        self._watch: Watch | None = None
        self._armed = False
        self._lock = threading.Lock()
        hold(receipt, mechanism.event(self._moved), purpose_of(mechanism), source)

    @property
    def left(self) -> int:
        """How many alerts it may still tell; none in a process that was forked from its own."""
        if self._watch is not None and self._watch.positives_left == 0:
            return 0
        return self._armed + self._left(self._ledger.armings(self._receipt))

    def ask(self, query: Query, threshold: int) -> Verdict:
        """Return whether one count, with noise, is at or above the threshold, with noise."""
        hold_count(query, self._moved, self._unit)
        with self._lock, suppress(Halted):
            watch = self._ready()
            verdict = unseen(lambda: watch.ask(int(exact(self._source, query)[0]), threshold))
            self._armed = not verdict.above
            return verdict
        raise Halted(self._mechanism.positives)  # here, so that no exact count travels in the frames of an error

    def _ready(self) -> Watch:
        """Return the open threshold, armed: paid for and durable before anything is read or drawn."""
        if not self._armed:
            fresh = self._watch is None or self._mechanism.restarts
            if self._left(self._ledger.armings(self._receipt)) == 0 or self._over(self._arm(fresh=fresh)):
                raise Halted(self._mechanism.positives)
            self._armed = True
        if self._watch is None:
            self._watch = Watch(self._mechanism, lambda scale: one(Laplace(scale=scale)))
        return self._watch

    def _arm(self, *, fresh: bool) -> Armings:
        return self._ledger.arm(self._receipt, fresh=fresh)

    def _left(self, used: Armings) -> int:
        kept = self._watch is not None
        return self._mechanism.alerts_left(self._moved, armed=used.alerts, thresholds=used.thresholds, kept=kept)

    def _over(self, used: Armings) -> bool:
        """Return whether more was used than paid for, as another process took the last of it at the same moment."""
        before = Armings(used.alerts - 1, used.thresholds - (self._watch is None or self._mechanism.restarts))
        return self._left(before) == 0


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
        hold_count(query, score_effect(unit), unit)
        with suppress(Halted):
            return unseen(lambda: checker.fresh(int(exact(source, query)[0]), estimate, watch=watch, draw=one))
        raise Halted(checker.test.positives)  # here, so that no exact count travels in the frames of an error

    return check


def hold_count(query: Query, paid: Sensitivity, unit: Unit) -> None:
    """Refuse what is not one count, or may move more than was paid for."""
    moved = effect_of(query, unit)
    if query.values != 1 or moved.linf > paid.linf or moved.monotone < paid.monotone:
        raise InvalidArgument("query", f"{query.values} answers", "ask for one count of rows")
