"""Predictions of the model, and the record of its errors, by which the next one is judged. All of it is public."""

from __future__ import annotations

import math
import threading
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dodona.knowledge.knowledge import LearnedBlock
from dodona.knowledge.patterns import noise_variance
from dodona.knowledge.releases import ReleasedBlocks
from dodona.knowledge.tables import RowCount
from dodona.query.query import Query

if TYPE_CHECKING:
    from dodona.knowledge.model import PredictionModel


# --- The model's record: the errors of its predictions, judged by later releases. ---


QuestionKind = tuple[int, int]
"""How many columns a question is about, and how many doublings of releases the least known of them was in."""
_ENOUGH = 4


@dataclass(slots=True)
class PredictionRecord:
    """The model's record, by kind of question."""

    _kinds: defaultdict[QuestionKind, list[float]] = field(default_factory=lambda: defaultdict(list))
    """The distances of predictions from released values, in their order."""
    _all: list[float] = field(default_factory=list)
    """Those of all kinds."""

    def released(self, kind: QuestionKind, distance: float) -> None:
        """Record the distance of a prediction from a released value."""
        self._kinds[kind].append(distance)
        self._all.append(distance)

    def deviation(self, kind: QuestionKind) -> float:
        """Return the typical error of a prediction of this kind; infinite if too few were compared.

        It uses the later half of its kind or, if there are few, of all kinds. Distances are to released values, so they
        include noise: a model is not considered exact where noise hides its errors.
        """
        distances = self._kinds[kind][len(self._kinds[kind]) // 2 :]
        if len(distances) < _ENOUGH:
            distances = self._all[len(self._all) // 2 :]
        number = len(distances)
        if number < _ENOUGH:
            return math.inf
        return math.sqrt(sum(distance**2 for distance in distances) / (number - 2))  # the spread of Student's law


# --- The model, kept up to date with the releases. It is fitted lazily. ---


@dataclass(slots=True)
class ModelTracker:
    """The model of one dataset. Hold its lock while using it."""

    memory: ReleasedBlocks
    size: int
    """The declared number of rows."""
    hindsight: PredictionRecord = field(default_factory=PredictionRecord)
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
            self.memory.read_all()  # a shortlist leaves out most counts
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
            self.hindsight.released(self.kind(query), distance)
            deviation = math.sqrt(variance) / self.rows
            self.model.take(learned.block, learned.values[0] / self.rows, deviation)
