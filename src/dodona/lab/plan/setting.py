"""A setting: the public parameters that a guarantee depends on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Self

from dodona.errors import InvalidArgument
from dodona.lab.conversion import validate_delta
from dodona.lab.plan.marginals import Marginals
from dodona.numbers import Exact
from dodona.privacy.accuracy import to_failure_probability, validate_count
from dodona.privacy.additive_noise import validate_noise_epsilon
from dodona.schema.schema import Neighbours

MOST_ROWS = 10**11
MOST_QUESTIONS = 10**15
MOST_CELLS = (1 << 500) - 1


@dataclass(frozen=True, slots=True, init=False)
class Setting:
    """The number of counts and rows, the price, and the confidence for all counts together.

    >>> Setting(rows=10**5, questions=1000, cells=1024, epsilon=1, delta="1e-6").universe
    1024
    """

    rows: int
    """The declared size: the number of rows, or under add-remove an upper bound on it."""
    questions: int
    epsilon: Fraction
    delta: Fraction
    """0 for pure privacy."""
    cells: int | None
    """The number of different rows there can be; None if unknown."""
    confidence: float
    neighbours: Neighbours
    positives: int
    """The number of questions that may be above a threshold, for that task."""
    workload: Marginals | None
    """The questions, if they are marginals."""

    def __init__(  # noqa: PLR0913  the sides of a promise
        self,
        *,
        rows: int,
        questions: int | None = None,
        epsilon: Exact,
        delta: Exact = 0,
        cells: int | None = None,
        confidence: float = 0.95,
        neighbours: Neighbours = Neighbours.REPLACE,
        positives: int = 1,
        workload: Marginals | None = None,
    ) -> None:
        """Refuse contradictions; a workload determines the number of questions and cells."""
        put = object.__setattr__
        put(self, "rows", validate_count(rows, argument="rows", upper=MOST_ROWS))
        put(self, "epsilon", validate_noise_epsilon(epsilon))
        put(self, "delta", validate_delta(delta))
        to_failure_probability(confidence)
        put(self, "confidence", confidence)
        if not isinstance(neighbours, Neighbours):
            raise InvalidArgument("neighbours", neighbours, "write Neighbours.ADD_REMOVE or Neighbours.REPLACE")
        put(self, "neighbours", neighbours)
        put(self, "workload", workload)
        asked = _agree("questions", questions, None if workload is None else workload.questions)
        if asked is None:
            raise InvalidArgument("questions", None, "write how many questions there are, or a workload of marginals")
        put(self, "questions", validate_count(asked, argument="questions", upper=MOST_QUESTIONS))
        known = _agree("cells", cells, None if workload is None else workload.cells)
        if known is not None and validate_count(known, argument="cells", upper=MOST_CELLS) == 1:
            raise InvalidArgument("cells", known, "write at least 2: one cell holds all rows")
        put(self, "cells", known)
        put(self, "positives", validate_count(positives, argument="positives", upper=min(self.questions, 10**6)))

    @property
    def failing(self) -> float:
        """β: the probability that some answer has a larger error than guaranteed."""
        return to_failure_probability(self.confidence)

    @property
    def universe(self) -> int | None:
        """|X|: the number of cells, plus one under add-remove for rows missing from the declared size."""
        if self.cells is None:
            return None
        return self.cells + (1 if self.neighbours is Neighbours.ADD_REMOVE else 0)

    def with_rows(self, rows: int) -> Self:
        """Return the same setting with another number of rows."""
        return replace(self, rows=rows)

    def with_confidence(self, confidence: float) -> Self:
        """Return the same setting at another confidence."""
        return replace(self, confidence=confidence)

    def with_epsilon(self, epsilon: Exact) -> Self:
        """Return the same setting at another price."""
        return replace(self, epsilon=validate_noise_epsilon(epsilon))

    def with_questions(self, questions: int) -> Self:
        """Return the same setting with another number of questions, which a workload does not allow."""
        return replace(self, questions=questions, positives=min(self.positives, max(1, questions)))


def _agree(argument: str, said: int | None, workload: int | None) -> int | None:
    """Return a number that may be given twice, if both values agree."""
    if said is not None and workload is not None and said != workload:
        accepted = f"the columns and ways make {workload} of them: leave this out, or leave the columns out"
        raise InvalidArgument(argument, said, accepted)
    return workload if said is None else said
