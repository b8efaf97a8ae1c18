"""The follower: the model and its record, kept up with what is released. Nothing is fitted before somebody asks."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dodona.belief.counts import Rows
from dodona.belief.measurements import variance_of
from dodona.online.hindsight import Hindsight, Kind
from dodona.online.learned import Learned
from dodona.online.memory import Memory
from dodona.query.query import Query

if TYPE_CHECKING:
    from dodona.online.model import Model


@dataclass(slots=True)
class Prediction:
    """What the model says of a released count, before it was fitted to it."""

    learned: Learned
    distance: float
    """From the prediction to what was released, in rows."""


@dataclass(slots=True)
class Follower:
    """The model of one dataset. Whoever uses it holds its lock."""

    memory: Memory
    size: int
    """The declared number of rows."""
    hindsight: Hindsight = field(default_factory=Hindsight)
    predictions: list[Prediction] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock)
    _taken: int = 0
    _model: Model | None = None

    @property
    def model(self) -> Model:
        """The model; nothing is fitted at first."""
        from dodona.online.model import Model

        if self._model is None:
            self._model = Model(self.memory.knowledge.domain)
        return self._model

    @property
    def rows(self) -> float:
        """The number of rows, as well as it is known."""
        known = self.memory.knowledge.rows
        return max(1.0, float(self.size) if known is None else known.value)

    @property
    def counted(self) -> Rows | None:
        """The number of rows, where it is public or was released."""
        return self.memory.knowledge.rows

    def follow(self) -> Model:
        """Return the model after all releases so far; each single count is predicted first, and judged by."""
        with self.memory.lock:
            knowledge = self.memory.follow()
            for learned in knowledge.learned[self._taken :]:
                self._taken += 1
                if self.model.off:
                    continue
                if isinstance(learned, Learned) and learned.single:
                    self._judge(learned)
                else:
                    self.model.take_table(learned, knowledge.lattice, self.rows)
        return self.model

    def kind(self, query: Query) -> Kind:
        """Return which kind of question it is."""
        names = {name for block in query.blocks for name in block.attributes}
        return len(names), min((self.model.known[name] for name in names), default=0).bit_length()

    def _judge(self, learned: Learned) -> None:
        """Compare a released count with its prediction; then fit the model to it."""
        query, variance = Query(self.memory.knowledge.domain, (learned.block,)), variance_of(learned.noise)
        predicted = self.model.predict(query, self.rows) if learned.block.attributes else None
        if predicted is not None:
            distance = float(learned.values[0]) - float(predicted[0])
            self.hindsight.released(self.kind(query), distance, variance)
            self.predictions.append(Prediction(learned, distance))
            deviation = math.sqrt(variance) / self.rows
            self.model.take(learned.block, learned.values[0] / self.rows, deviation)
