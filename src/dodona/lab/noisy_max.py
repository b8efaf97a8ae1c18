"""Report noisy max: add Laplace noise to every score; release the index of the largest and, on request, the gap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from dodona.lab.theorems import noisy_max_error
from dodona.privacy.accuracy import Accuracy, validate_table_target
from dodona.privacy.additive_noise import round_scale_down
from dodona.privacy.events import PureEvent, PureMechanism
from dodona.privacy.selection import ScaledChoice, choice_epsilon
from dodona.query.sensitivity import Sensitivity


@dataclass(frozen=True, slots=True, init=False)
class NoisyMax(ScaledChoice):
    """Chooses the candidate with the largest score plus discrete Laplace noise; the gap to the runner-up is free.

    The winning score itself is not released: that needs a separate charge.

    Theorem: choice-privacy
    """

    @classmethod
    def for_accuracy(cls, target: Accuracy, *, candidates: int) -> Self:
        """Return the mechanism whose winner's score is within the target's tolerance of the best one."""
        # On the grid, each of the two draws may exceed its real-valued bound by one step.
        room = max(validate_table_target(target).within - 2, 0.0)
        per_scale = noisy_max_error(1.0, confidence=target.confidence, candidates=candidates)
        return cls(scale=round_scale_down(room / per_scale))

    def event(self, sensitivity: Sensitivity) -> PureEvent:
        """Return the event of one report, with or without the gap."""
        return PureEvent(PureMechanism.NOISY_MAX, choice_epsilon(self.scale, sensitivity), sensitivity.neighbours)

    def accuracy(self, confidence: float = 0.95, *, candidates: int) -> Accuracy:
        """Return how far the winner's score may be below the best one."""
        within = noisy_max_error(float(self.scale), confidence=confidence, candidates=candidates)
        return Accuracy(within=within + 2, confidence=confidence)
