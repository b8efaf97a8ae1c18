"""The reusable holdout: a holdout set that can be queried many times without overfitting to it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, assert_never

import numpy as np

from dodona.errors import InvalidArgument
from dodona.lab.adaptive.answer import PopulationEstimate, ProcessBound, make_estimate
from dodona.lab.adaptive.certificate import Values
from dodona.lab.adaptive.faults import OracleClosed, OverfitsUsed, QueriesUsed, QueryFault, TooFewRows
from dodona.lab.adaptive.grid import grid_sum, round_to_level
from dodona.lab.adaptive.holdout_design import (
    Designer,
    HoldoutDesign,
    HoldoutMethod,
    choose_design,
    noise_design,
    rounding_design,
)
from dodona.lab.adaptive.rows import Query, Rows, RowValues
from dodona.privacy.accuracy import validate_count
from dodona.privacy.additive_noise import Laplace, Noise
from dodona.trusted.gate import OpenSparseVector
from dodona.trusted.samplers.draw import draw_one

if TYPE_CHECKING:
    from numpy.typing import NDArray

PerRow = Callable[[Any, Any, Any], Any]
"""Assigns a number from 0 to 1 to each row for a model: (estimator, X, y) -> array."""

_LEAST_HOLDOUT = 2
_DESIGNERS: dict[HoldoutMethod, Designer] = {HoldoutMethod.ROUNDING: rounding_design, HoldoutMethod.NOISE: noise_design}


def correct(estimator: Any, features: Any, labels: Any) -> NDArray[np.bool_]:  # noqa: ANN401  any model, any rows
    """Return which rows a model predicts correctly: its accuracy, row by row."""
    right: NDArray[np.bool_] = np.asarray(estimator.predict(features)) == np.asarray(labels)
    return right


class ReusableHoldout(ProcessBound):
    """Returns the training score while it generalizes, and corrects it from the holdout when it overfits.

    All answers are within `design.within` of the population, however queries depend on answers. The training rows may
    be inspected freely. The holdout rows must be an independent sample and must not be used for anything else.

    Theorem: reusable-holdout
    """

    def __init__(  # noqa: PLR0913  all that is fixed beforehand
        self,
        train: object,
        holdout: object,
        *,
        queries: int,
        overfits: int = 1,
        within: float | None = None,
        confidence: float = 0.95,
        values: Values = Values.SHARES,
        methods: Iterable[HoldoutMethod] = tuple(HoldoutMethod),
        draw: Callable[[Noise], int] = draw_one,
    ) -> None:
        """Plan the number of queries and of corrections; without `within`, choose the smallest error these rows allow.

        Queries run on the training rows first, where a fault costs nothing.
        """
        super().__init__()
        self._train, self._holdout = Rows(train, name="train"), Rows(holdout, name="holdout")
        for rows, least in ((self._train, 1), (self._holdout, _LEAST_HOLDOUT)):
            if rows.size < least:
                raise TooFewRows(rows.name, rows.size, least)
        if not isinstance(values, Values):
            raise InvalidArgument("values", values, "write Values.SHARES or Values.YES_NO")
        self._values = values
        self.design: HoldoutDesign = choose_design(
            tuple(_DESIGNERS[HoldoutMethod(method)] for method in methods),
            rows=self._holdout.size,
            training_rows=self._train.size,
            queries=queries,
            overfits=overfits,
            within=within,
            confidence=confidence,
        )
        self._draw, self._lock = draw, threading.Lock()
        self._asked, self._corrected, self._closed = 0, 0, False
        test = self.design.test
        self._watch = None if test is None else OpenSparseVector(test, lambda scale: draw(Laplace(scale=scale)))

    def __repr__(self) -> str:
        return f"<ReusableHoldout {self.design}, {self.left} and {self.overfits_left} left>"

    @property
    def left(self) -> int:
        """Number of queries that can still be answered."""
        return self.design.queries - self._asked if self.overfits_left else 0

    @property
    def overfits_left(self) -> int:
        """Number of corrections left; after the last one the holdout is closed."""
        return self.design.overfits - self._corrected

    def ask(self, query: Query) -> PopulationEstimate:
        """Return the mean of a query over the population, within the design's error.

        A query takes the rows, as (X, y) if they were given as a tuple, and returns a number from 0 to 1 for each.
        """
        return self._answer(query, None)[0]

    def ask_many(self, query: Query, *, answers: int) -> tuple[PopulationEstimate, ...]:
        """Return a mean for each column that a query returns; fewer if the corrections run out."""
        return self._answer(query, validate_count(answers, argument="answers"))

    def score(self, estimator: Any, *, per_row: PerRow = correct) -> PopulationEstimate:  # noqa: ANN401  any model
        """Return the accuracy of a model on the population, or the mean of what `per_row` returns."""
        return self.ask(lambda features, labels: per_row(estimator, features, labels))

    def scorer(self, *, per_row: PerRow = correct) -> Callable[..., float]:
        """Return a scorer for scikit-learn; it queries the holdout and ignores the rows that it is handed."""

        def score_estimator(estimator: Any, features: object = None, labels: object = None) -> float:  # noqa: ANN401
            del features, labels
            return float(self.score(estimator, per_row=per_row))

        return score_estimator

    def _answer(self, query: Query, answers: int | None) -> tuple[PopulationEstimate, ...]:
        count = answers or 1
        self._check_process()
        trained = self._train.values(query, self._values, answers=answers).reshape(self._train.size, count)
        with self._lock:
            if self._closed:
                raise OracleClosed
            if self.overfits_left == 0:
                raise OverfitsUsed(self.design.overfits)
            if count > self.left:
                raise QueriesUsed(self.design.queries, self.left)
            self._asked += count
            held = self._holdout_values(query, answers)
            if isinstance(held, str):  # raised here, as what the query raised may quote a row
                self._closed = True
                raise OracleClosed(held)
            estimates: list[PopulationEstimate] = []
            while len(estimates) < count and self.overfits_left:
                estimates.append(self._answer_one(trained[:, len(estimates)], held[:, len(estimates)]))
            return tuple(estimates)

    def _holdout_values(self, query: Query, answers: int | None) -> RowValues | str:
        """Return the query's values on the holdout, one column for each answer; a message if it failed there."""
        try:
            return self._holdout.values(query, self._values, answers=answers).reshape(self._holdout.size, -1)
        except QueryFault as fault:
            return fault.message

    def _answer_one(self, trained: RowValues, held: RowValues) -> PopulationEstimate:
        """Return the training mean, or a correction if it is, or seems, far from the holdout mean."""
        design = self.design
        whole = self._holdout.size * design.resolution
        total = grid_sum(held, design.resolution)
        # The training sum, rounded to the holdout's steps.
        estimate = (2 * grid_sum(trained, design.resolution) * self._holdout.size + self._train.size) // (
            2 * self._train.size
        )
        if not self._is_far(abs(total - estimate)):
            return make_estimate(
                float(trained.mean()), within=design.within, confidence=design.confidence, source="train"
            )
        self._corrected += 1
        match design.method:
            case HoldoutMethod.ROUNDING:
                assert design.levels is not None  # noqa: S101  narrows the type
                share = round_to_level(total, whole, levels=design.levels)
            case HoldoutMethod.NOISE:
                assert design.answer is not None  # noqa: S101  narrows the type
                share = (total + self._draw(design.answer)) / whole
            case _:
                assert_never(design.method)
        return make_estimate(share, within=design.corrected, confidence=design.confidence, source="holdout")

    def _is_far(self, gap: int) -> bool:
        if self._watch is None:
            return gap >= self.design.threshold
        return self._watch.ask(gap, self.design.threshold).above
