"""The gate: the only place where exact answers become public releases.

Event and purpose are computed here from the mechanism and the unit. The receipt must match them and is used durably;
only then is the source read, and noise is added before anything leaves. Measurements, choices, watches and checks of
estimates and predictions all pass through `_Gate`. No exception carries an exact value out.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
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

    Exact = NDArray[np.int64] | list[int]

Result = TypeVar("Result")
_LARGEST = 1 << 62  # integers up to this cannot wrap when noise is added


# --- The one way to exact answers. ---


class _Gate:
    """A receipt that was checked, and the source that it opens once it has been used.

    Theorem: release
    """

    def __init__(self, receipt: Receipt, event: Event, purpose: str, *, ledger: Ledger, source: Source) -> None:
        """Raise Unpaid unless the receipt is for this event, this purpose and this version of the data."""
        if (receipt.event, receipt.purpose, receipt.version) != (event, purpose, source.version):
            raise Unpaid
        self._receipt, self._ledger, self._source = receipt, ledger, source
        self.open = False

    def redeem(self) -> None:
        """Use up the receipt: durably, and before anything is read."""
        self._ledger.redeem(self._receipt)
        self.open = True

    def arm(self, *, fresh: bool, paid: Callable[[WatchUsage], bool]) -> None:
        """Use the receipt of a watch for one more alert, likewise; it opens if all that was used was paid for."""
        self.open = paid(self._ledger.arm(self._receipt, fresh=fresh))

    def usage(self) -> WatchUsage:
        """Return what a watch has used, in any process."""
        return self._ledger.armings(self._receipt)

    def read(self, query: Query, add: Callable[[Exact], Result]) -> Result:
        """Return what `add` makes of the exact answers by adding noise. Of an error no frame is left that holds them.

        An interrupt, or a lack of memory, may come at any moment, also between the read and the noise.
        """
        if not self.open:
            raise Unpaid
        try:
            return add(read_exact(self._source, query))
        except BaseException as fault:  # noqa: BLE001  whatever it is
            fault.__context__ = fault.__cause__ = None
            raise fault.with_traceback(None)  # noqa: B904  it is the same one

    def release(
        self, query: Query, add: Callable[[Exact], tuple[int, ...]], *, mechanism: str, text: str | None
    ) -> Release:
        """Return one recorded release. Where the table could not be read, the receipt may be used again.

        Then nothing was drawn, and the charge stands: the same key asks again.
        """
        question = to_json(query)
        self.redeem()
        try:
            values = self.read(query, add)
        except SourceFailed:
            self._ledger.unanswered(self._receipt)
            raise
        released = Release(receipt=self._receipt.id, values=values, mechanism=mechanism, question=question, text=text)
        self._ledger.record(released)
        return released


def read_exact(source: Source, query: Query) -> Exact:
    """Return exact answers, or raise SourceFailed; no other error leaves, as it may quote a row."""
    values = _read_values(source, query)
    if values is None:  # raised here, so that neither what went wrong nor any value travels with it
        raise SourceFailed
    return values


def _read_values(source: Source, query: Query) -> Exact | None:
    try:
        values = unseal(source.exact(query))
        if len(values) != query.values:
            return None
        if isinstance(values, np.ndarray) and values.dtype == np.int64 and (abs(values // 2) < _LARGEST // 2).all():
            return values  # halved before abs, as -2^63 has no opposite in 64 bits
        return [index(value) for value in values]
    except Exception:  # noqa: BLE001  whatever it is
        return None


def read_public_rows(source: Source, domain: Domain, unit: Unit) -> int | None:
    """Return the number of rows where it is public, as all neighbours have as many; else None, and nothing is read.

    It needs no receipt.

    Theorem: public-rows
    """
    if not unit.fixed:
        return None
    return int(read_exact(source, Query.count(domain))[0])


# --- Measurements: values with noise. ---


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
    gate = _Gate(receipt, measurement.event(unit), measurement.purpose, ledger=ledger, source=source)
    return gate.release(
        measurement.query, lambda values: add_noise(values, measurement), mechanism=measurement.mechanism, text=text
    )


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


# --- Choices: which answers are largest, without their values. ---


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
    gate = _Gate(receipt, selection.event(unit), selection.purpose, ledger=ledger, source=source)
    return gate.release(
        selection.query, lambda values: _choose_all(selection, values), mechanism=selection.spelled, text=text
    )


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
    """Return the place of one choice. Gaps beyond 2^62 are cut to that: scores so far apart are never chosen."""
    best = max(scores)
    gaps = np.array([-min(best - score, samplers.LARGEST_VALUE) for score in scores], dtype=np.int64)
    unit, draw = 1 / selection.choice.scale, _DRAWS[type(selection.choice)]
    return int(samplers.contests(gaps, 1, unit=unit, draw=draw, rare=selection.rarities)[0])


def draw_candidate(scores: Sequence[int], rarities: Sequence[int], *, scale: Fraction) -> int:
    """Return the place of one candidate, with a chance in proportion to exp(score/scale)/rarity.

    For drafts, which an owner makes before there is a ledger: the draft states its cost, and the ledger that is created
    for it begins with that charge. Rarities are public.

    Theorem: choice-privacy
    """
    chosen = samplers.contests(
        np.array(scores, dtype=np.int64),
        1,
        unit=1 / scale,
        draw=samplers.ContestLaw.GUMBEL,
        rare=[*map(Fraction, rarities)],
    )
    return int(chosen[0])


# --- Sparse vector: which questions are above a threshold, until the last positive. ---


DrawNoise = Callable[[Fraction], int]
"""Draws one discrete Laplace value of a scale."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is released of one question."""

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
        """How many positives are left before it halts; none in a forked process, which has the same noise."""
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


def _draw_laplace(scale: Fraction) -> int:
    return draw_one(Laplace(scale=scale))


def validate_count_query(query: Query, paid: Sensitivity, unit: Unit) -> None:
    """Refuse what is not one count, or may move more than was paid for."""
    moved = unit_sensitivity(query, unit)
    if query.values != 1 or moved.linf > paid.linf or moved.monotone < paid.monotone:
        raise InvalidArgument("query", f"{query.values} answers", "ask for one count of rows")


# --- Watches and checks: sparse vectors over a source, paid for in full before the first question. ---


WATCHING, CHECKING, CONFIRMING = "above", "weights", "confirm"


def watch_purpose(mechanism: SparseVector) -> str:
    """Return the purpose of a watch's receipt: all its numbers, as what was used of it is counted in them.

    Theorem: reopened-watch
    """
    again = "again after each" if mechanism.restarts else "once"
    scales = f"threshold {mechanism.threshold_scale} {again}, question {mechanism.question_scale}"
    return f"{WATCHING} {scales}, answer {mechanism.answer_scale}, alerts {mechanism.positives}"


class Alerts:
    """Reports which counts are above a threshold, until the last alert that was paid for.

    It is armed for one alert at a time, in the ledger, before the first count that is compared for it is read. The
    noise of the threshold stays in this process. So a watch that is opened again, here or after a crash, draws new
    noise, and what that costs is given up in alerts.

    Theorem: reopened-watch
    """

    def __init__(
        self, mechanism: SparseVector, receipt: Receipt, *, ledger: Ledger, source: Source, unit: Unit
    ) -> None:
        """Take the receipt, which must be for the whole run; others may have used a part of it."""
        self._mechanism, self._unit, self._moved = mechanism, unit, row_count_sensitivity(unit)
        self._watch: OpenSparseVector | None = None
        self._lock = threading.Lock()
        event, purpose = mechanism.event(self._moved), watch_purpose(mechanism)
        self._gate = _Gate(receipt, event, purpose, ledger=ledger, source=source)

    @property
    def left(self) -> int:
        """How many alerts are left; none in a forked process."""
        if self._watch is not None and self._watch.positives_left == 0:
            return 0
        return self._gate.open + self._left(self._gate.usage())

    def ask(self, query: Query, threshold: int) -> Verdict:
        """Return whether one count, with noise, is at or above the threshold, with noise."""
        validate_count_query(query, self._moved, self._unit)
        with self._lock:
            watch = self._ready()
            verdict = self._gate.read(query, lambda values: watch.ask(int(values[0]), threshold))
            self._gate.open = not verdict.above
            return verdict

    def _ready(self) -> OpenSparseVector:
        """Return the open threshold, armed: paid for and durable before anything is read or drawn."""
        if not self._gate.open:
            fresh = self._watch is None or self._mechanism.restarts
            if self._left(self._gate.usage()) > 0:
                self._gate.arm(fresh=fresh, paid=self._paid)
            if not self._gate.open:
                raise Halted(self._mechanism.positives)
        if self._watch is None:
            self._watch = OpenSparseVector(self._mechanism, _draw_laplace)
        return self._watch

    def _left(self, used: WatchUsage) -> int:
        kept = self._watch is not None
        return self._mechanism.alerts_left(self._moved, armed=used.alerts, thresholds=used.thresholds, kept=kept)

    def _paid(self, used: WatchUsage) -> bool:
        """Return whether the last arming was paid for; another process may have taken the rest at the same moment."""
        before = WatchUsage(used.alerts - 1, used.thresholds - (self._watch is None or self._mechanism.restarts))
        return self._left(before) > 0


def open_estimate_check(
    checker: EstimateChecker, receipt: Receipt, *, ledger: Ledger, source: Source, unit: Unit
) -> Callable[[Query, int], int | None]:
    """Return a function that gives one count with fresh noise where an estimate of it seems far off, and else None.

    The receipt must be for the whole run, until the last update, and is used up. The check ends with this process.

    Theorem: private-multiplicative-weights
    """
    gate = _Gate(receipt, checker.event(unit), CHECKING, ledger=ledger, source=source)
    gate.redeem()
    watch = OpenSparseVector(checker.test, _draw_laplace)

    def check(query: Query, estimate: int) -> int | None:
        validate_count_query(query, score_sensitivity(unit), unit)
        return gate.read(query, lambda values: checker.fresh(int(values[0]), estimate, watch=watch, draw=draw_one))

    return check


class PredictionCheck:
    """Reports whether counts are near predictions, until the first that is not. It ends with this process.

    A distance moves both ways with a count, so there is no discount for monotone answers. Only the verdict is
    released: neither the gap nor a value.

    Theorem: sparse-vector-privacy
    """

    def __init__(
        self, mechanism: SparseVector, receipt: Receipt, *, ledger: Ledger, source: Source, unit: Unit
    ) -> None:
        """Use the receipt, which must be for the whole run, and draw the threshold's noise."""
        if mechanism.positives != 1 or mechanism.answer_scale is not None:
            raise InvalidArgument("mechanism", mechanism, "write a sparse vector of one positive, without answers")
        self._moved, self._unit = score_sensitivity(unit), unit
        self._gate = _Gate(receipt, mechanism.event(self._moved), CONFIRMING, ledger=ledger, source=source)
        self._gate.redeem()
        self._watch = OpenSparseVector(mechanism, _draw_laplace)

    @property
    def open(self) -> bool:
        """Whether another prediction may be checked."""
        return self._watch.positives_left > 0

    def near(self, query: Query, prediction: int, threshold: int) -> bool:
        """Return whether one count, with noise, is nearer to a prediction than a threshold, with noise.

        After the first that is not, it is closed.
        """
        if type(prediction) is not int:  # a fraction would be compared as one
            raise InvalidArgument("prediction", type(prediction), "write an integer")
        validate_count_query(query, self._moved, self._unit)
        ask = self._watch.ask
        return not self._gate.read(query, lambda values: ask(abs(int(values[0]) - prediction), threshold)).above
