"""The gate: the only place where exact answers become public releases.

Event and purpose are computed here from the mechanism and the unit. The receipt must match them and is used durably;
only then is the source read, and noise is added before anything is returned. Measurements, choices, watches and checks
of estimates all pass through `_Gate`. No exception carries an exact value out.
"""

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby
from operator import index
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dodona.errors import Halted, InvalidArgument
from dodona.ledger.entries import Receipt, Release, WatchUsage
from dodona.ledger.ledger import Ledger
from dodona.privacy.additive_noise import Laplace, Noise
from dodona.privacy.events import Event
from dodona.privacy.measurement import Measurement, ResidualMeasurement
from dodona.privacy.selection import Exponential, PermuteAndFlip, ScoredCandidates, Whole
from dodona.privacy.sparse_vector import EstimateChecker, SparseVector
from dodona.query.canonical import to_json
from dodona.query.query import Query
from dodona.query.sensitivity import Sensitivity, row_count_sensitivity, score_sensitivity, unit_sensitivity
from dodona.schema.schema import Domain, Unit
from dodona.trusted.samplers import contest
from dodona.trusted.samplers.draw import draw_one, draw_runs
from dodona.trusted.source import Sealed, Source, SourceFailed, Unpaid

Exact = NDArray[np.int64] | list[int]

Result = TypeVar("Result")
_LARGEST = 1 << 62  # integers up to this cannot overflow when noise is added


# --- The only access to exact answers. ---


def unseal(sealed: Sealed) -> NDArray[np.int64] | Sequence[int]:
    """Return the exact answers."""
    return sealed._values  # noqa: SLF001


class _Gate:
    """A validated receipt, and the source that can be read once the receipt has been used.

    Theorem: release
    """

    def __init__(self, receipt: Receipt, event: Event, purpose: str, *, ledger: Ledger, source: Source) -> None:
        """Raise Unpaid unless the receipt is for this event, this purpose and this version of the data."""
        if (receipt.event, receipt.purpose, receipt.version) != (event, purpose, source.version):
            raise Unpaid
        self._receipt, self._ledger, self._source = receipt, ledger, source
        self.open = False

    def redeem(self) -> None:
        """Use the receipt: durably, and before anything is read."""
        self._ledger.redeem(self._receipt)
        self.open = True

    def arm(self, *, fresh: bool, paid: Callable[[WatchUsage], bool]) -> None:
        """Use a watch's receipt for one more alert, likewise durably; the gate opens if all usage was paid for."""
        self.open = paid(self._ledger.arm(self._receipt, fresh=fresh))

    def usage(self) -> WatchUsage:
        """Return the usage of a watch over all processes."""
        return self._ledger.armings(self._receipt)

    def read(self, query: Query, add: Callable[[Exact], Result]) -> Result:
        """Return the result of `add`, which adds noise to the exact answers. Errors keep no frame that holds these.

        An interrupt or an out-of-memory error may occur at any moment, even between the read and the noise.
        """
        if not self.open:
            raise Unpaid
        try:
            return add(read_exact(self._source, query))
        except BaseException as fault:  # noqa: BLE001  any exception
            fault.__context__ = fault.__cause__ = None
            raise fault.with_traceback(None)  # noqa: B904  the same exception

    def release(
        self, query: Query, add: Callable[[Exact], tuple[int, ...]], *, mechanism: str, text: str | None
    ) -> Release:
        """Return one recorded release. If the table could not be read, the receipt may be reused.

        Nothing was drawn in that case, and the charge stands: ask again with the same key.
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
    """Return exact answers, or raise SourceFailed; other errors are suppressed, as they may quote a row."""
    values = _read_values(source, query)
    if values is None:  # raised here, so that neither the cause nor any value is attached to it
        raise SourceFailed
    return values


def _read_values(source: Source, query: Query) -> Exact | None:
    try:
        values = unseal(source.exact(query))
        if len(values) != query.values:
            return None
        if isinstance(values, np.ndarray) and values.dtype == np.int64 and (abs(values // 2) < _LARGEST // 2).all():
            return values  # halved before abs, as -2^63 has no negative in 64 bits
        return [index(value) for value in values]
    except Exception:  # noqa: BLE001  any exception
        return None


def read_public_rows(source: Source, domain: Domain, unit: Unit) -> int | None:
    """Return the number of rows if it is public, because all neighbours share it; else None, and nothing is read.

    No receipt is needed.

    Theorem: public-rows
    """
    if not unit.fixed:
        return None
    return int(read_exact(source, Query.count(domain))[0])


# --- Measurements: values with noise. ---


def release_measurement(  # noqa: PLR0913  all inputs of a release are named
    measurement: Measurement | ResidualMeasurement,
    receipt: Receipt,
    *,
    ledger: Ledger,
    source: Source,
    unit: Unit,
    text: str | None = None,
) -> Release:
    """Return noisy answers, recorded; the receipt must be for exactly this measurement, and is used up.

    `text` is the question as the analyst wrote it, kept for readers.

    Theorem: release
    """
    event, mechanism, purpose = measurement.event(unit), measurement.mechanism, measurement.purpose
    gate = _Gate(receipt, event, purpose, ledger=ledger, source=source)
    return gate.release(
        measurement.query, lambda values: add_noise(values, measurement), mechanism=mechanism, text=text
    )


def add_noise(
    values: NDArray[np.int64] | Sequence[int], measurement: Measurement | ResidualMeasurement
) -> tuple[int, ...]:
    """Return the values with the noise of their blocks; for residuals, their noisy rows."""
    if isinstance(measurement, ResidualMeasurement):
        values = measurement.turned(values)
    noise = draw_runs(_noise_runs(measurement))
    if isinstance(values, np.ndarray) and values.dtype == np.int64:
        return tuple((values + noise).tolist())
    return tuple(int(value) + drawn for value, drawn in zip(values, noise.tolist(), strict=True))


def _noise_runs(measurement: Measurement | ResidualMeasurement) -> list[tuple[Noise, int]]:
    """Group adjacent blocks with the same noise, with their numbers of values; a Helmert row has one value."""
    if isinstance(measurement, ResidualMeasurement):
        return [(law, sum(1 for _ in run)) for law, run in groupby(measurement.noises)]
    paired = zip(measurement.noises, measurement.query.blocks, strict=True)
    grouped = groupby(paired, key=lambda pair: pair[0])
    return [(law, sum(block.values for _, block in run)) for law, run in grouped]


# --- Choices: which answers are largest, without their values. ---


_DRAWS = {Exponential: contest.ContestLaw.GUMBEL, PermuteAndFlip: contest.ContestLaw.EXPONENTIAL}


def release_choice(  # noqa: PLR0913  all inputs of a release are named
    selection: ScoredCandidates,
    receipt: Receipt,
    *,
    ledger: Ledger,
    source: Source,
    unit: Unit,
    text: str | None = None,
) -> Release:
    """Return the indices of the chosen answers, recorded; the receipt must be for exactly this selection.

    `text` is the question as the analyst wrote it, kept for readers.

    Theorem: choice-privacy
    """
    gate = _Gate(receipt, selection.event(unit), selection.purpose, ledger=ledger, source=source)
    return gate.release(
        selection.query, lambda values: _choose_all(selection, values), mechanism=selection.spelled, text=text
    )


def _choose_all(selection: ScoredCandidates, values: Whole) -> tuple[int, ...]:
    """Return the chosen indices; exact scores stay in this function, so that no recording error carries them."""
    left, chosen = dict(enumerate(map(int, selection.scores(values)))), list[int]()
    while left and len(chosen) < selection.count:
        numbers = list(left)
        winner = numbers[_choose_one(selection, list(left.values()))]
        chosen.append(winner)
        for number in (winner, *selection.ruled_out(winner)):  # a function of what was chosen, and so released
            left.pop(number, None)
    return tuple(chosen)


def _choose_one(selection: ScoredCandidates, scores: list[int]) -> int:
    """Return the index of one choice. Gaps are capped at 2^62: candidates that far behind are never chosen."""
    best = max(scores)
    gaps = np.array([-min(best - score, contest.LARGEST_VALUE) for score in scores], dtype=np.int64)
    unit, draw = 1 / selection.choice.scale, _DRAWS[type(selection.choice)]
    return int(contest.contests(gaps, 1, unit=unit, draw=draw, rare=selection.rarities)[0])


def draw_candidate(scores: Sequence[int], rarities: Sequence[int], *, scale: Fraction) -> int:
    """Return the index of one candidate, chosen with probability ∝ exp(score/scale)/rarity.

    For drafts that an owner makes before there is a ledger: the draft states its cost, and the ledger created for it
    starts with that charge. Rarities are public.

    Theorem: choice-privacy
    """
    chosen = contest.contests(
        np.array(scores, dtype=np.int64),
        1,
        unit=1 / scale,
        draw=contest.ContestLaw.GUMBEL,
        rare=[*map(Fraction, rarities)],
    )
    return int(chosen[0])


# --- Sparse vector: which questions are above a threshold, until the last positive. ---


DrawNoise = Callable[[Fraction], int]
"""Draws one discrete Laplace value at the given scale."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The release for one question."""

    above: bool
    gap: int | None = None
    """By how much the noisy value exceeds the noisy threshold; only for positives, at no extra cost."""
    answer: int | None = None
    """The value with fresh noise, if the mechanism answers."""


class OpenSparseVector:
    """A running sparse vector. It was charged in full when it was opened; questions cost nothing more.

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
        """The number of positives left before it halts; none in a forked process, which has the same noise."""
        return self._left if self._owner == os.getpid() else 0

    def ask(self, value: int, threshold: int) -> Verdict:
        """Return whether the noisy value is at or above the noisy threshold."""
        for name, number in (("value", value), ("threshold", threshold)):
            if type(number) is not int:  # a fraction would be visible in the gap; the value itself is not shown
                raise InvalidArgument(name, type(number), "write an integer")
        with self._lock:
            if self.positives_left == 0:
                raise Halted(self._mechanism.positives)
            gap = value + self._noise(self._mechanism.question_scale) - threshold - self._shift
            if gap < 0:
                return Verdict(above=False)
            left, self._left = self._left - 1, 0  # if drawing fails now, the old noise must not be reused
            if self._mechanism.restarts:
                self._shift = self._noise(self._mechanism.threshold_scale)
            self._left = left
            scale = self._mechanism.answer_scale
            return Verdict(above=True, gap=gap, answer=None if scale is None else value + self._noise(scale))


def _draw_laplace(scale: Fraction) -> int:
    return draw_one(Laplace(scale=scale))


def validate_count_query(query: Query, paid: Sensitivity, unit: Unit) -> None:
    """Refuse a query that is not a single count, or whose sensitivity exceeds what was paid for."""
    moved = unit_sensitivity(query, unit)
    if query.values != 1 or moved.linf > paid.linf or moved.monotone < paid.monotone:
        raise InvalidArgument("query", f"{query.values} answers", "ask for one count of rows")


# --- Watches and checks: sparse vectors over a source, paid for in full before the first question. ---


WATCHING, CHECKING = "above", "weights"


def watch_purpose(mechanism: SparseVector) -> str:
    """Return the purpose of a watch's receipt: all its parameters, as its usage is counted in terms of them.

    Theorem: reopened-watch
    """
    again = "again after each" if mechanism.restarts else "once"
    scales = f"threshold {mechanism.threshold_scale} {again}, question {mechanism.question_scale}"
    return f"{WATCHING} {scales}, answer {mechanism.answer_scale}, alerts {mechanism.positives}"


class Alerts:
    """Reports which counts are above a threshold, until the last alert that was paid for.

    The ledger records an arming for each alert before the first count for it is read. The threshold noise stays in
    this process. So a watch that is reopened, here or after a crash, draws new noise, and pays for it by giving up
    alerts.

    Theorem: reopened-watch
    """

    def __init__(
        self, mechanism: SparseVector, receipt: Receipt, *, ledger: Ledger, source: Source, unit: Unit
    ) -> None:
        """Take the receipt, which must be for the whole run; part of it may have been used before."""
        self._mechanism, self._unit, self._moved = mechanism, unit, row_count_sensitivity(unit)
        self._watch: OpenSparseVector | None = None
        self._lock = threading.Lock()
        event, purpose = mechanism.event(self._moved), watch_purpose(mechanism)
        self._gate = _Gate(receipt, event, purpose, ledger=ledger, source=source)

    @property
    def left(self) -> int:
        """The number of alerts left; none in a forked process."""
        if self._watch is not None and self._watch.positives_left == 0:
            return 0
        return self._gate.open + self._left(self._gate.usage())

    def ask(self, query: Query, threshold: int) -> Verdict:
        """Return whether one noisy count is at or above the noisy threshold."""
        validate_count_query(query, self._moved, self._unit)
        with self._lock:
            watch = self._ready()
            verdict = self._gate.read(query, lambda values: watch.ask(int(values[0]), threshold))
            self._gate.open = not verdict.above
            return verdict

    def _ready(self) -> OpenSparseVector:
        """Return the armed threshold: paid for and durable before anything is read or drawn."""
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
        """Return whether the last arming was paid for; another process may have used up the rest at the same moment."""
        before = WatchUsage(used.alerts - 1, used.thresholds - (self._watch is None or self._mechanism.restarts))
        return self._left(before) > 0


def open_estimate_check(
    checker: EstimateChecker, receipt: Receipt, *, ledger: Ledger, source: Source, unit: Unit
) -> Callable[[Query, int], int | None]:
    """Return a function that returns one count with fresh noise if its estimate seems far off, and None otherwise.

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
