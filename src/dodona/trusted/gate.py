"""The gate: the only place where exact answers become public releases.

The price is computed again from the query and the unit, the receipt must match and is redeemed, then the data is read
and noise is added. Choices, alerts and checks of predictions pass here too. No exception carries an exact value out.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby
from operator import index
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from dodona.errors import Halted, InvalidArgument
from dodona.ledger.entries import Receipt, Release, WatchUsage
from dodona.ledger.ledger import Ledger
from dodona.privacy.additive_noise import Laplace
from dodona.privacy.events import Event
from dodona.privacy.measurement import Measurement, Noise, ResidualMeasurement
from dodona.privacy.selection import Exponential, PermuteAndFlip, ScoredCandidates
from dodona.privacy.sparse_vector import EstimateChecker, SparseVector
from dodona.query.canonical import to_json
from dodona.query.query import Query
from dodona.query.sensitivity import Sensitivity, row_count_sensitivity, score_sensitivity, unit_sensitivity
from dodona.schema.schema import Domain, Unit
from dodona.trusted import samplers
from dodona.trusted.noise import draw_one, draw_runs
from dodona.trusted.source import Source, SourceFailed, Unpaid, unseal

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dodona.privacy.selection import Whole


# --- Releases: exact answers from the source, noise upon them, and nothing before the receipt is used. ---


Result = TypeVar("Result")
_LARGEST = 1 << 62  # integers up to this cannot wrap when noise is added


def release_measurement(  # noqa: PLR0913  everything that meets here is named
    measurement: Measurement | ResidualMeasurement,
    receipt: Receipt,
    *,
    ledger: Ledger,
    source: Source,
    unit: Unit,
    text: str | None = None,
) -> Release:
    """Return noisy answers, recorded; the receipt must be for exactly this measurement, and is used up.

    The text is the question as it was written, kept for people.

    Theorem: release
    """
    query = measurement.query
    check_receipt(receipt, measurement.event(unit), measurement.purpose, source)
    question, mechanism = to_json(query), measurement.mechanism
    values = run_without_traceback(
        lambda: add_noise(redeem_and_read(receipt, query, ledger=ledger, source=source), measurement)
    )
    released = Release(receipt=receipt.id, values=values, mechanism=mechanism, question=question, text=text)
    ledger.record(released)
    return released


def run_without_traceback(work: Callable[[], Result]) -> Result:
    """Return what the work returns; of whatever it raises no frame is left, as they hold exact values.

    An interrupt, or a lack of memory, may come at any moment, also between a look and its noise.

    Theorem: release
    """
    try:
        return work()
    except BaseException as fault:  # noqa: BLE001  whatever it is
        fault.__context__ = fault.__cause__ = None
        raise fault.with_traceback(None)  # noqa: B904  it is the same one


def check_receipt(receipt: Receipt, event: Event, purpose: str, source: Source) -> None:
    """Raise Unpaid unless the receipt is for this event, this question and this version of the data."""
    if (receipt.event, receipt.purpose, receipt.version) != (event, purpose, source.version):
        raise Unpaid


def redeem_and_read(receipt: Receipt, query: Query, *, ledger: Ledger, source: Source) -> NDArray[np.int64] | list[int]:
    """Return exact answers under a receipt that is used up; where the table could not be read, it may be used again.

    Then nothing was drawn, and the charge stands: the same key asks again.

    Theorem: release
    """
    ledger.redeem(receipt)
    try:
        return read_exact(source, query)
    except SourceFailed:
        ledger.unanswered(receipt)
        raise


def read_exact(source: Source, query: Query) -> NDArray[np.int64] | list[int]:
    """Return exact answers, or raise SourceFailed; no other error leaves, as it may quote a row."""
    values = _read_values(source, query)
    if values is None:  # raised here, so that neither what went wrong nor any value travels with it
        raise SourceFailed
    return values


def _read_values(source: Source, query: Query) -> NDArray[np.int64] | list[int] | None:
    try:
        values = unseal(source.exact(query))
        if len(values) != query.values:
            return None
        if isinstance(values, np.ndarray) and values.dtype == np.int64 and (abs(values // 2) < _LARGEST // 2).all():
            return values  # halved before abs, as -2^63 has no opposite in 64 bits
        return [index(value) for value in values]
    except Exception:  # noqa: BLE001  whatever it is
        return None


def add_noise(
    values: NDArray[np.int64] | Sequence[int], measurement: Measurement | ResidualMeasurement
) -> tuple[int, ...]:
    """Return the values with the noise of their blocks; of residuals, the Helmert rows with theirs."""
    if isinstance(measurement, ResidualMeasurement):
        values = measurement.turned(values)
    noise = draw_runs(_noise_runs(measurement))
    if isinstance(values, np.ndarray) and values.dtype == np.int64:
        return tuple((values + noise).tolist())
    return tuple(int(value) + drawn for value, drawn in zip(values, noise.tolist(), strict=True))


def _noise_runs(measurement: Measurement | ResidualMeasurement) -> list[tuple[Noise, int]]:
    """Return neighbouring blocks of one noise together, with how many values they have; a Helmert row has one."""
    if isinstance(measurement, ResidualMeasurement):
        return [(law, sum(1 for _ in run)) for law, run in groupby(measurement.noises)]
    paired = zip(measurement.noises, measurement.query.blocks, strict=True)
    grouped = groupby(paired, key=lambda pair: pair[0])
    return [(law, sum(block.values for _, block in run)) for law, run in grouped]


# --- The number of rows: public where a neighbour has one row replaced, as then all neighbours have as many. ---


def read_public_rows(source: Source, domain: Domain, unit: Unit) -> int | None:
    """Return how many rows there are, where that is the same for all neighbours; else None, and nothing is read.

    Theorem: public-rows
    """
    if not unit.fixed:
        return None
    return int(read_exact(source, Query.count(domain))[0])


# --- Choices: which answers are largest, told without their values. ---


_DRAWS = {Exponential: samplers.ContestLaw.GUMBEL, PermuteAndFlip: samplers.ContestLaw.EXPONENTIAL}


def release_choice(  # noqa: PLR0913  everything that meets here is named
    selection: ScoredCandidates,
    receipt: Receipt,
    *,
    ledger: Ledger,
    source: Source,
    unit: Unit,
    text: str | None = None,
) -> Release:
    """Return the numbers of the chosen answers, recorded; the receipt must be for exactly this selection.

    The text is the question as it was written, kept for people.

    Theorem: choice-privacy
    """
    check_receipt(receipt, selection.event(unit), selection.purpose, source)
    question, mechanism = to_json(selection.query), selection.spelled
    values = run_without_traceback(
        lambda: _choose_all(selection, redeem_and_read(receipt, selection.query, ledger=ledger, source=source))
    )
    released = Release(receipt=receipt.id, values=values, mechanism=mechanism, question=question, text=text)
    ledger.record(released)
    return released


def _choose_all(selection: ScoredCandidates, values: Whole) -> tuple[int, ...]:
    """Return the numbers of the chosen; exact scores end here, so that no failure to record carries them."""
    left, chosen = dict(enumerate(map(int, selection.scores(values)))), list[int]()
    for _ in range(selection.count):
        numbers = list(left)
        winner = numbers[_choose_one(selection, list(left.values()))]
        chosen.append(winner)
        del left[winner]
    return tuple(chosen)


def _choose_one(selection: ScoredCandidates, scores: list[int]) -> int:
    """Return the place of one choice; gaps beyond 2^62 are never chosen apart, so scores are drawn in to that."""
    best = max(scores)
    gaps = np.array([-min(best - score, samplers.LARGEST_VALUE) for score in scores], dtype=np.int64)
    unit, draw = 1 / selection.choice.scale, _DRAWS[type(selection.choice)]
    return int(samplers.contests(gaps, 1, unit=unit, draw=draw, rare=selection.rarities)[0])


def draw_candidate(scores: Sequence[int], rarities: Sequence[int], *, scale: Fraction) -> int:
    """Return the place of one candidate, with a chance in proportion to exp(score/scale)/rarity.

    It is for drafts, which an owner makes before there is a ledger: the draft says what it costs, and the ledger that
    is made for it begins with that. Rarities are public.

    Theorem: choice-privacy
    """
    found = samplers.contests(
        np.array(scores, dtype=np.int64),
        1,
        unit=1 / scale,
        draw=samplers.ContestLaw.GUMBEL,
        rare=[*map(Fraction, rarities)],
    )
    return int(found[0])


# --- The open threshold: which questions are above, until the last positive. Its noise is drawn here and never shown.


DrawNoise = Callable[[Fraction], int]
"""Draws one discrete Laplace value of a scale."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is told of one question."""

    above: bool
    gap: int | None = None
    """How far the noisy value passed the noisy threshold; only for positives, at no further cost."""
    answer: int | None = None
    """The value with fresh noise, where the mechanism answers."""


class OpenSparseVector:
    """A sparse vector in use. It was charged in full when it was opened; questions cost nothing more.

    Theorem: sparse-vector-privacy
    """

    def __init__(self, mechanism: SparseVector, noise: DrawNoise) -> None:
        """Draw the threshold's noise."""
        self._mechanism = mechanism
        self._noise = noise
        self._lock = threading.Lock()
        self._left, self._owner = mechanism.positives, os.getpid()
        self._shift = noise(mechanism.threshold_scale)

    @property
    def positives_left(self) -> int:
        """How many positives it may still tell before it halts; none in a process that was forked from its own."""
        return self._left if self._owner == os.getpid() else 0

    def ask(self, value: int, threshold: int) -> Verdict:
        """Return whether the value, with noise, is at or above the threshold, with noise."""
        for name, number in (("value", value), ("threshold", threshold)):
            if type(number) is not int:  # a fraction would shine through the gap; the value itself is not shown
                raise InvalidArgument(name, type(number), "write an integer")
        with self._lock:
            if self.positives_left == 0:
                raise Halted(self._mechanism.positives)
            gap = value + self._noise(self._mechanism.question_scale) - threshold - self._shift
            if gap < 0:
                return Verdict(above=False)
            left, self._left = self._left - 1, 0  # should chance fail now, the old noise must not serve again
            if self._mechanism.restarts:
                self._shift = self._noise(self._mechanism.threshold_scale)
            self._left = left
            scale = self._mechanism.answer_scale
            return Verdict(above=True, gap=gap, answer=None if scale is None else value + self._noise(scale))


# --- Alerts and checks: open thresholds over a source. They were paid for in full before the first question. ---


WATCHING, CHECKING = "above", "weights"


def watch_purpose(mechanism: SparseVector) -> str:
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
        self._unit, self._source, self._moved = unit, source, row_count_sensitivity(unit)
        self._watch: OpenSparseVector | None = None
        self._armed = False
        self._lock = threading.Lock()
        check_receipt(receipt, mechanism.event(self._moved), watch_purpose(mechanism), source)

    @property
    def left(self) -> int:
        """How many alerts it may still tell; none in a process that was forked from its own."""
        if self._watch is not None and self._watch.positives_left == 0:
            return 0
        return self._armed + self._left(self._ledger.armings(self._receipt))

    def ask(self, query: Query, threshold: int) -> Verdict:
        """Return whether one count, with noise, is at or above the threshold, with noise."""
        validate_count_query(query, self._moved, self._unit)
        with self._lock, suppress(Halted):
            watch = self._ready()
            verdict = run_without_traceback(lambda: watch.ask(int(read_exact(self._source, query)[0]), threshold))
            self._armed = not verdict.above
            return verdict
        raise Halted(self._mechanism.positives)  # here, so that no exact count travels in the frames of an error

    def _ready(self) -> OpenSparseVector:
        """Return the open threshold, armed: paid for and durable before anything is read or drawn."""
        if not self._armed:
            fresh = self._watch is None or self._mechanism.restarts
            if self._left(self._ledger.armings(self._receipt)) == 0 or self._over(self._arm(fresh=fresh)):
                raise Halted(self._mechanism.positives)
            self._armed = True
        if self._watch is None:
            self._watch = OpenSparseVector(self._mechanism, lambda scale: draw_one(Laplace(scale=scale)))
        return self._watch

    def _arm(self, *, fresh: bool) -> WatchUsage:
        return self._ledger.arm(self._receipt, fresh=fresh)

    def _left(self, used: WatchUsage) -> int:
        kept = self._watch is not None
        return self._mechanism.alerts_left(self._moved, armed=used.alerts, thresholds=used.thresholds, kept=kept)

    def _over(self, used: WatchUsage) -> bool:
        """Return whether more was used than paid for, as another process took the last of it at the same moment."""
        before = WatchUsage(used.alerts - 1, used.thresholds - (self._watch is None or self._mechanism.restarts))
        return self._left(before) == 0


def open_estimate_check(
    checker: EstimateChecker, receipt: Receipt, *, ledger: Ledger, source: Source, unit: Unit
) -> Callable[[Query, int], int | None]:
    """Return what tells one count anew, with fresh noise, where an estimate of it seems far off, and else None.

    The receipt must be for the whole run, until the last update, and is used up. It lives in this process alone.

    Theorem: private-multiplicative-weights
    """
    check_receipt(receipt, checker.event(unit), CHECKING, source)
    ledger.redeem(receipt)
    watch = OpenSparseVector(checker.test, lambda scale: draw_one(Laplace(scale=scale)))

    def check(query: Query, estimate: int) -> int | None:
        validate_count_query(query, score_sensitivity(unit), unit)
        with suppress(Halted):
            return run_without_traceback(
                lambda: checker.fresh(int(read_exact(source, query)[0]), estimate, watch=watch, draw=draw_one)
            )
        raise Halted(checker.test.positives)  # here, so that no exact count travels in the frames of an error

    return check


def validate_count_query(query: Query, paid: Sensitivity, unit: Unit) -> None:
    """Refuse what is not one count, or may move more than was paid for."""
    moved = unit_sensitivity(query, unit)
    if query.values != 1 or moved.linf > paid.linf or moved.monotone < paid.monotone:
        raise InvalidArgument("query", f"{query.values} answers", "ask for one count of rows")


# --- Checks of predictions: whether a count is near what a model says. Paid for in full before the first one. ---


CONFIRMING = "confirm"


class PredictionCheck:
    """Tells whether counts are near predictions, until the first that is not. It lives in this process alone.

    A distance moves both ways with a count, so there is no discount for monotone answers. Nothing but the verdict is
    told: neither the gap nor a value.

    Theorem: sparse-vector-privacy
    """

    def __init__(
        self, mechanism: SparseVector, receipt: Receipt, *, ledger: Ledger, source: Source, unit: Unit
    ) -> None:
        """Use the receipt, which must be for the whole run, and draw the threshold's noise."""
        if mechanism.positives != 1 or mechanism.answer_scale is not None:
            raise InvalidArgument("mechanism", mechanism, "write a sparse vector of one positive, without answers")
        self._moved, self._source, self._unit = score_sensitivity(unit), source, unit
        check_receipt(receipt, mechanism.event(self._moved), CONFIRMING, source)
        ledger.redeem(receipt)
        self._watch = OpenSparseVector(mechanism, lambda scale: draw_one(Laplace(scale=scale)))

    @property
    def open(self) -> bool:
        """Whether it may still tell."""
        return self._watch.positives_left > 0

    def near(self, query: Query, prediction: int, threshold: int) -> bool:
        """Return whether one count, with noise, is nearer to a prediction than a threshold, with noise.

        After the first that is not, it is closed.
        """
        if type(prediction) is not int:  # a fraction would be compared as one
            raise InvalidArgument("prediction", type(prediction), "write an integer")
        if query.values != 1 or unit_sensitivity(query, self._unit).linf > self._moved.linf:
            raise InvalidArgument("query", f"{query.values} answers", "ask for one count of rows")
        with suppress(Halted):
            return not run_without_traceback(
                lambda: self._watch.ask(abs(int(read_exact(self._source, query)[0]) - prediction), threshold)
            ).above
        raise Halted(1)  # here, so that no exact count travels in the frames of an error
