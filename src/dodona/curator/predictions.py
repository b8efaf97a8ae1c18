"""Predictions of the model, and the noisy checks that confirm them.

An epoch is a sparse vector run: paid for once, it confirms predictions until the first that fails. The record of past
predictions gives the failure probability of the next one. All of it is public.
"""

from __future__ import annotations

import math
import threading
from collections import defaultdict
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from dodona.answer.laws import ConfirmedLaw, upper_quantile
from dodona.errors import InvalidArgument
from dodona.knowledge.knowledge import LearnedBlock
from dodona.knowledge.measurements import noise_variance
from dodona.knowledge.releases import ReleasedBlocks
from dodona.knowledge.tables import RowCount
from dodona.privacy.additive_noise import round_scale_down
from dodona.privacy.bounds import largest_number
from dodona.privacy.events import Event
from dodona.privacy.sparse_vector import SparseVector
from dodona.query.query import Query
from dodona.query.sensitivity import Sensitivity, score_sensitivity
from dodona.schema.schema import Unit

if TYPE_CHECKING:
    from dodona.knowledge.model import PredictionModel


# --- Epochs of checks: their noise, price, and failure probability. All of it is public. ---


_RATIOS = (1.0, 1.2, 1.4, 1.6, 1.8, 2.0)  # of the query noise to the threshold noise
_STEPS = 60
_WASTED = 0.1
_LESS = 0.99


@dataclass(frozen=True, slots=True)
class Epoch:
    """A sparse vector that confirms predictions until the first that fails."""

    mechanism: SparseVector
    event: Event

    @property
    def scales(self) -> tuple[float, float]:
        """The noise scales of the threshold and of each query."""
        return float(self.mechanism.threshold_scale), float(self.mechanism.question_scale)

    def law(self, tolerance: float, failing: float) -> ConfirmedLaw | None:
        """Return the comparison law of a count with this tolerance, in steps; None if the noise leaves no threshold.

        The threshold is the largest at which a confirmed prediction is within the tolerance, up to that probability.

        Theorem: confirmed-answer
        """
        first, second = self.scales
        within = upper_quantile(ConfirmedLaw(1, first, second).noise, failing)
        threshold = math.floor(tolerance - within) + 1
        return ConfirmedLaw(threshold, first, second) if threshold >= 1 else None

    def failing(self, law: ConfirmedLaw, error: float) -> float:
        """Return the probability that a check fails for a prediction with this error, in steps."""
        return _tail(law.threshold - error, *self.scales)


@lru_cache(maxsize=1 << 12)
def draft_epoch(tolerance: float, failing: float, unit: Unit) -> Epoch | None:
    """Return nearly the cheapest epoch for counts of this accuracy; None if the noise would be out of range.

    Its noise exceeds half of the tolerance no more often than an answer may be wrong, so the threshold can be the other
    half; and so rarely that correct predictions rejected by noise alone waste at most a tenth of the price of a single
    answer per check. It is computed for continuous noise, which is fast.
    """
    sensitivity = score_sensitivity(unit)
    single, rare = unit.rows * math.log(1 / failing) / tolerance, failing
    for _ in range(_STEPS):
        scales = min(
            ((scale := _threshold_scale(tolerance / 2, rare, ratio), ratio * scale) for ratio in _RATIOS),
            key=lambda own: 1 / own[0] + 2 / own[1],
        )
        found = _make_epoch(*scales, sensitivity)
        if found is None or rare * float(found.event.epsilon or 0) <= _WASTED * single:
            return found
        rare /= 2
    return None


@lru_cache(maxsize=1 << 8)
def design_epoch(tolerance: float, failing: float, unit: Unit) -> Epoch | None:
    """Return the draft with noise reduced until, by a proved bound, half of the tolerance is left as threshold."""
    found = draft_epoch(tolerance, failing, unit)
    for _ in range(_STEPS):
        law = None if found is None else found.law(tolerance, failing)
        if found is None or (law is not None and law.threshold >= tolerance / 2):
            return found
        first, second = found.scales
        found = _make_epoch(_LESS * first, _LESS * second, score_sensitivity(unit))
    return None


def _make_epoch(first: float, second: float, sensitivity: Sensitivity) -> Epoch | None:
    try:
        mechanism = SparseVector(threshold_scale=round_scale_down(first), question_scale=round_scale_down(second))
    except InvalidArgument:
        return None
    return Epoch(mechanism, mechanism.event(sensitivity))


def _threshold_scale(half: float, rare: float, ratio: float) -> float:
    """Return the threshold's scale at which continuous noise exceeds a distance with this probability."""

    def is_rare(scale: float) -> bool:
        return _tail(half, scale, ratio * scale) <= rare

    return largest_number(is_rare, half / 1000, half, near=1e-15, geometric=True)


def _tail(distance: float, first: float, second: float) -> float:
    """Return the probability that the difference of two continuous Laplace draws exceeds a distance."""
    if distance < 0:
        return 1 - _tail(-distance, first, second)
    if math.isclose(first, second, rel_tol=1e-6):
        return (0.5 + distance / (4 * first)) * math.exp(-distance / first)
    parts = first**2 * math.exp(-distance / first) - second**2 * math.exp(-distance / second)
    return parts / (2 * (first**2 - second**2))


# --- The model's record: the errors of its predictions, judged by later releases and checks. ---


QuestionKind = tuple[int, int]
"""How many columns a question is about, and how many doublings of releases the least known of them was in."""
_ENOUGH = 4


@dataclass(slots=True)
class _KindRecord:
    """The outcomes of predictions of one kind."""

    released: list[tuple[float, float]] = field(default_factory=list)
    """The distance to what was released, and the variance of the noise in that."""
    checks: int = 0
    failures: int = 0

    def later(self) -> list[float]:
        """Return the later half of the distances to released values."""
        return [distance for distance, _ in self.released[len(self.released) // 2 :]]

    def errors(self) -> list[float]:
        """Return the later half of the distances, corrected for the variance of the noise."""
        later = self.released[len(self.released) // 2 :]
        seen = sum(distance**2 for distance, _ in later)
        real = max(seen - sum(variance for _, variance in later), 0.0)
        return [abs(distance) * math.sqrt(real / seen) if seen else 0.0 for distance, _ in later]


@dataclass(slots=True)
class PredictionRecord:
    """The model's record, by kind of question."""

    _records: defaultdict[QuestionKind, _KindRecord] = field(default_factory=lambda: defaultdict(_KindRecord))
    _all: list[float] = field(default_factory=list)
    """The distances of all kinds, in their order."""

    def released(self, kind: QuestionKind, distance: float, variance: float) -> None:
        """Record the distance of a prediction from a released value, and the noise variance of that value."""
        self._records[kind].released.append((distance, variance))
        self._all.append(distance)

    def checked(self, kind: QuestionKind, near: bool) -> None:  # noqa: FBT001  a verdict
        """Record the verdict of a check on a prediction."""
        record = self._records[kind]
        record.checks += 1
        record.failures += not near

    def failing(self, kind: QuestionKind, epoch: Epoch, law: ConfirmedLaw) -> float:
        """Return the estimated failure probability of a check, from earlier errors and checks.

        Each counts as one trial, and half a failure is added (Krichevsky and Trofimov 1981), so that a short record
        does not look reliable.
        """
        record = self._records[kind]
        errors = record.errors()
        expected = sum(epoch.failing(law, error) for error in errors) + record.failures + 0.5
        return expected / (len(errors) + record.checks + 1)

    def deviation(self, kind: QuestionKind) -> float:
        """Return the typical error of a prediction of this kind; infinite if too few were compared.

        It uses the later half of its kind or, if there are few, of all kinds. Distances are to released values, so they
        include noise: a model is not considered exact where noise hides its errors.
        """
        distances = self._records[kind].later()
        if len(distances) < _ENOUGH:
            distances = self._all[len(self._all) // 2 :]
        number = len(distances)
        if number < _ENOUGH:
            return math.inf
        return math.sqrt(sum(distance**2 for distance in distances) / (number - 2))  # the spread of Student's law


# --- The model, kept up to date with the releases. It is fitted lazily. ---


@dataclass(slots=True)
class Prediction:
    """The model's prediction of a released count, made before fitting to it."""

    learned: LearnedBlock
    distance: float
    """From the prediction to what was released, in rows."""


@dataclass(slots=True)
class ModelTracker:
    """The model of one dataset. Hold its lock while using it."""

    memory: ReleasedBlocks
    size: int
    """The declared number of rows."""
    hindsight: PredictionRecord = field(default_factory=PredictionRecord)
    predictions: list[Prediction] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock)
    _taken: int = 0
    _model: PredictionModel | None = None

    @property
    def model(self) -> PredictionModel:
        """The model; it is not fitted at first."""
        from dodona.knowledge.model import PredictionModel

        if self._model is None:
            self._model = PredictionModel(self.memory.knowledge.domain)
        return self._model

    @property
    def rows(self) -> float:
        """The best available number of rows."""
        known = self.memory.knowledge.rows
        return max(1.0, float(self.size) if known is None else known.value)

    @property
    def counted(self) -> RowCount | None:
        """The number of rows, if it is public or was released."""
        return self.memory.knowledge.rows

    def follow(self) -> PredictionModel:
        """Return the model after all releases so far; each single count is predicted first, for the record."""
        with self.memory.lock:
            knowledge = self.memory.follow()
            for learned in knowledge.learned[self._taken :]:
                self._taken += 1
                if self.model.off:
                    continue
                if isinstance(learned, LearnedBlock) and learned.single:
                    self._judge(learned)
                else:
                    self.model.take_table(learned, knowledge.residuals, self.rows)
        return self.model

    def kind(self, query: Query) -> QuestionKind:
        """Return the kind of a question."""
        names = {name for block in query.blocks for name in block.attributes}
        return len(names), min((self.model.known[name] for name in names), default=0).bit_length()

    def _judge(self, learned: LearnedBlock) -> None:
        """Compare a released count with its prediction; then fit the model to it."""
        query, variance = Query(self.memory.knowledge.domain, (learned.block,)), noise_variance(learned.noise)
        predicted = self.model.predict(query, self.rows) if learned.block.attributes else None
        if predicted is not None:
            distance = float(learned.values[0]) - float(predicted[0])
            self.hindsight.released(self.kind(query), distance, variance)
            self.predictions.append(Prediction(learned, distance))
            deviation = math.sqrt(variance) / self.rows
            self.model.take(learned.block, learned.values[0] / self.rows, deviation)
