"""Selection for study: report noisy max, and iterated selection, which measures each candidate it chooses."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self

from dodona.errors import InvalidArgument
from dodona.lab.theorems import noisy_max_error
from dodona.numbers import Exact, to_fraction, to_integer
from dodona.privacy.accuracy import Accuracy, to_failure_probability, validate_table_target
from dodona.privacy.additive_noise import Gaussian, Laplace, round_scale_down, validate_noise_epsilon
from dodona.privacy.events import ComposedEvent, PureEvent, PureMechanism
from dodona.privacy.selection import Exponential, PermuteAndFlip, ScaledChoice, choice_epsilon, exponential_error
from dodona.query.sensitivity import Sensitivity

MAX_SELECTION_ROUNDS = 10**6


@dataclass(frozen=True, slots=True)
class IteratedSelection:
    """Repeats `rounds` times: selects one of the remaining candidates, and releases its score with fresh noise.

    All questions are known in advance; for questions that arrive one by one there is the sparse vector.

    Theorem: iterated-selection
    """

    theorem: ClassVar[str] = "iterated-selection"
    choice: Exponential | PermuteAndFlip
    answer: Laplace | Gaussian
    rounds: int

    def __post_init__(self) -> None:
        """Validate the selection, the noise and the number of rounds."""
        for name, value, kinds in (
            ("choice", self.choice, (Exponential, PermuteAndFlip)),
            ("answer", self.answer, (Laplace, Gaussian)),
        ):
            if not isinstance(value, kinds):
                raise InvalidArgument(name, value, f"write {' or '.join(kind.__name__ for kind in kinds)}")
        to_integer(self.rounds, argument="rounds", lower=1, upper=MAX_SELECTION_ROUNDS)

    @classmethod
    def for_privacy(
        cls, epsilon: Exact, sensitivity: Sensitivity, *, rounds: int, share: Exact = Fraction(1, 2)
    ) -> Self:
        """Return exponential selections and Laplace answers that cost exactly ε in total, a share of it for selections.

        >>> from dodona.schema.schema import Neighbours
        >>> found = IteratedSelection.for_privacy(1, Sensitivity.count(Neighbours.ADD_REMOVE), rounds=5)
        >>> found.event(Sensitivity.count(Neighbours.ADD_REMOVE)).epsilon
        Fraction(1, 1)
        """
        least = Fraction(1, 10**6)
        part = to_fraction(share, argument="share", lower=least, upper=1 - least)
        each = validate_noise_epsilon(epsilon) / to_integer(
            rounds, argument="rounds", lower=1, upper=MAX_SELECTION_ROUNDS
        )
        return cls(
            Exponential.for_privacy(each * part, sensitivity),
            Laplace.for_privacy(each * (1 - part), _single(sensitivity)),
            rounds,
        )

    def event(self, sensitivity: Sensitivity) -> ComposedEvent:
        """Return the event of all rounds: a selection and an answer each, whatever is selected."""
        choice, answer = self.choice.event(sensitivity), self.answer.event(_single(sensitivity))
        return ComposedEvent(((choice, self.rounds), (answer, self.rounds)))

    def accuracy(self, confidence: float = 0.95, *, candidates: int) -> Accuracy:
        """Return the α to which it finds what is above any threshold, if fewer than `rounds` come within α of it.

        The larger of half the loss of a selection and the error of an answer.
        """
        half = to_failure_probability(confidence) / 2
        missed = exponential_error(float(self.choice.scale), confidence=1 - half / self.rounds, candidates=candidates)
        off = self.answer.accuracy(1 - half, answers=self.rounds).within
        return Accuracy(within=max(missed / 2, off), confidence=confidence)


def _single(sensitivity: Sensitivity) -> Sensitivity:
    """Return the sensitivity of one selected score."""
    moved = sensitivity.linf
    return Sensitivity(
        l1=moved,
        l2_squared=moved**2,
        linf=moved,
        neighbours=sensitivity.neighbours,
        monotone=sensitivity.monotone,
    )


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
