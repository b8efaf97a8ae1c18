"""Hindsight: how far off the model's predictions were, judged by what was released or checked after them.

Questions are alike that are about as many columns, of which the least known one was released about as often. A model
gets better as more is released, so of what was released the later half counts. All of it is public.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field

from dodona.answer.claim import Checked
from dodona.online.epoch import Epoch

Kind = tuple[int, int]
"""How many columns a question is about, and how many doublings of releases the least known of them was in."""
_ENOUGH = 4


@dataclass(slots=True)
class _Record:
    """What became of predictions of one kind."""

    released: list[tuple[float, float]] = field(default_factory=list)
    """The distance to what was released, and the variance of the noise in that."""
    checks: int = 0
    failures: int = 0

    def later(self) -> list[float]:
        """Return the later half of the distances to what was released."""
        return [distance for distance, _ in self.released[len(self.released) // 2 :]]

    def errors(self) -> list[float]:
        """Return the later half of the distances, made smaller by as much as noise has made their squares larger."""
        later = self.released[len(self.released) // 2 :]
        seen = sum(distance**2 for distance, _ in later)
        real = max(seen - sum(variance for _, variance in later), 0.0)
        return [abs(distance) * math.sqrt(real / seen) if seen else 0.0 for distance, _ in later]


@dataclass(slots=True)
class Hindsight:
    """The model's record, by kinds of questions."""

    _records: defaultdict[Kind, _Record] = field(default_factory=lambda: defaultdict(_Record))
    _all: list[float] = field(default_factory=list)
    """The distances of all kinds, in their order."""

    def released(self, kind: Kind, distance: float, variance: float) -> None:
        """Take the distance of a prediction to what was released, and the variance of the noise in that."""
        self._records[kind].released.append((distance, variance))
        self._all.append(distance)

    def checked(self, kind: Kind, near: bool) -> None:  # noqa: FBT001  a verdict
        """Take what a check told of a prediction."""
        record = self._records[kind]
        record.checks += 1
        record.failures += not near

    def failing(self, kind: Kind, epoch: Epoch, law: Checked) -> float:
        """Return how likely a check fails, going by earlier errors and by the checks themselves.

        Each of them counts as one trial, and half a failure is added to all (Krichevsky and Trofimov 1981), so that
        little experience is no confidence.
        """
        record = self._records[kind]
        errors = record.errors()
        expected = sum(epoch.failing(law, error) for error in errors) + record.failures + 0.5
        return expected / (len(errors) + record.checks + 1)

    def deviation(self, kind: Kind) -> float:
        """Return how far off a prediction of this kind is about; infinite where too few were ever compared to say.

        Going by the later half of its kind, and where these are few, of all kinds. The distances are to what was
        released, so its noise is in them: a model is not taken to be exact where noise hides its errors.
        """
        distances = self._records[kind].later()
        if len(distances) < _ENOUGH:
            distances = self._all[len(self._all) // 2 :]
        number = len(distances)
        if number < _ENOUGH:
            return math.inf
        return math.sqrt(sum(distance**2 for distance in distances) / (number - 2))  # as Student's law spreads
