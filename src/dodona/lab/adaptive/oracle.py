"""The statistical query oracle: adaptive queries about a population, answered from one sample."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from dodona.errors import InvalidArgument
from dodona.lab.adaptive.answer import EstimateSource, PopulationEstimate, ProcessBound, make_estimate
from dodona.lab.adaptive.answerable import best_certificate, most_queries, rows_needed
from dodona.lab.adaptive.certificate import Certificate, Route, Values, validate_probability, validate_queries
from dodona.lab.adaptive.faults import OracleClosed, QueriesUsed, QueryFault, TooFewRows, UnreachableAccuracy
from dodona.lab.adaptive.grid import grid_sum, round_to_level
from dodona.lab.adaptive.rows import Query, Rows
from dodona.privacy.accuracy import validate_count
from dodona.privacy.additive_noise import Laplace, Noise
from dodona.trusted.samplers.draw import draw_many, draw_one

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LEAST_ROWS = 2
_SOURCES: dict[Route, EstimateSource] = {Route.SPLITTING: "fresh-rows", Route.ROUNDING: "rounded"}
_KEYS = Laplace(scale=10**12)  # rows in the order of such draws are in random order


class StatisticalQueryOracle(ProcessBound):
    """Answers a declared number of adaptive queries about the population that the rows were sampled from.

    A query assigns a number from 0 to 1 to each row; the answer estimates its mean over the population. The route, the
    noise and the error are fixed before the rows are read. The oracle prevents overfitting but does not hide the rows:
    queries run on them directly.

    Theorem: statistical-query-oracle
    """

    def __init__(  # noqa: PLR0913  all that is fixed beforehand
        self,
        data: object,
        *,
        queries: int,
        within: float | None = None,
        confidence: float = 0.95,
        values: Values = Values.SHARES,
        example: object | None = None,
        draw: Callable[[Noise], int] = draw_one,
    ) -> None:
        """Plan the number of queries; without `within`, choose the smallest error these rows allow.

        A query that fails on `example`, a few rows that need not be secret, costs nothing. A query that fails on the
        data closes the oracle, because the failure reveals something that no proof covers.
        """
        super().__init__()
        self._rows = Rows(data, name="data")
        if self._rows.size < _LEAST_ROWS:
            raise TooFewRows("data", self._rows.size, _LEAST_ROWS)
        if not isinstance(values, Values):
            raise InvalidArgument("values", values, "write Values.SHARES or Values.YES_NO")
        self._values = values
        self._example = None if example is None else Rows(example, name="example")
        self.certificate = plan(
            rows=self._rows.size, queries=queries, within=within, confidence=confidence, values=values
        )
        self._order = _shuffle_rows(self._rows.size) if self.certificate.route is Route.SPLITTING else None
        self._draw, self._lock = draw, threading.Lock()
        self._asked, self._closed = 0, False

    def __repr__(self) -> str:
        return f"<StatisticalQueryOracle {self.certificate}, {self.left} left>"

    @property
    def left(self) -> int:
        """Number of queries that can still be answered."""
        return self.certificate.queries - self._asked

    def ask(self, query: Query) -> PopulationEstimate:
        """Return the mean of a query over the population, within the certificate's error."""
        return self._answer(query, None)[0]

    def ask_many(self, query: Query, *, answers: int) -> tuple[PopulationEstimate, ...]:
        """Return several means at once, for a query that returns a column for each; each column counts as a query."""
        return self._answer(query, validate_count(answers, argument="answers"))

    def _answer(self, query: Query, answers: int | None) -> tuple[PopulationEstimate, ...]:
        count, closing = answers or 1, None
        self._check_process()
        if self._example is not None:
            self._example.values(query, self._values, answers=answers)
        with self._lock:
            if self._closed:
                raise OracleClosed
            if count > self.left:
                raise QueriesUsed(self.certificate.queries, self.left)
            start, self._asked = self._asked, self._asked + count
            try:
                shares = (
                    self._answer_from_all(query, answers)
                    if self._order is None
                    else self._answer_from_fresh(query, start, answers)
                )
            except QueryFault as fault:
                self._closed, closing = True, fault.message
        if closing is not None:  # raised here, as what the query raised may quote a row
            raise OracleClosed(closing)
        certificate = self.certificate
        return tuple(
            make_estimate(
                share,
                within=certificate.within,
                confidence=certificate.confidence,
                source=_SOURCES.get(certificate.route, "noisy"),
            )
            for share in shares
        )

    def _answer_from_all(self, query: Query, answers: int | None) -> list[float]:
        """Return means over all rows, with noise on their sums or rounded to levels."""
        certificate = self.certificate
        values = self._rows.values(query, self._values, answers=answers)
        sums = [grid_sum(each, certificate.resolution) for each in ([values] if answers is None else values.T)]
        whole = self._rows.size * certificate.resolution
        if certificate.levels is not None:
            return [round_to_level(each, whole, levels=certificate.levels) for each in sums]
        assert certificate.noise is not None  # noqa: S101  narrows the type: all other routes over all rows have noise
        return [(each + self._draw(certificate.noise)) / whole for each in sums]

    def _answer_from_fresh(self, query: Query, start: int, answers: int | None) -> list[float]:
        """Return means over rows that no earlier query has used."""
        assert self._order is not None  # noqa: S101  narrows the type
        each, steps = self.certificate.rows_each, self.certificate.resolution
        shares = []
        for place in range(answers or 1):
            first = (start + place) * each
            rows = self._rows.take(self._order[first : first + each])
            values = rows.values(query, self._values, answers=answers)
            shares.append(grid_sum(values if answers is None else values[:, place], steps) / (each * steps))
        return shares


def plan(
    *, rows: int, queries: int, within: float | None = None, confidence: float = 0.95, values: Values = Values.SHARES
) -> Certificate:
    """Return the best certificate for public parameters; raise UnreachableError if it does not meet `within`.

    Theorem: statistical-query-oracle
    """
    asked = validate_queries(queries)
    certificate = best_certificate(rows=rows, queries=asked, confidence=confidence, values=values)
    wanted = 1.0 if within is None else validate_probability(within, argument="within")
    if certificate.within < 1 and certificate.within <= wanted:
        return certificate
    wanted = 0.5 if within is None else wanted
    most = most_queries(certificate.route, rows=rows, within=wanted, confidence=confidence, values=values)
    needed = rows_needed(
        queries=asked, within=wanted, confidence=confidence, values=values, routes=(certificate.route,)
    )
    raise UnreachableAccuracy(
        rows=rows,
        asked=f"{asked} adaptive questions",
        within=wanted,
        best=f"the best proof gives {certificate.within:.4g}" if certificate.within < 1 else "no proof says anything",
        instead=f"{most or 'No'} questions would do{'' if needed is None else f', or {needed} rows'}.",
    )


def _shuffle_rows(rows: int) -> NDArray[np.int64]:
    """Return the row numbers in random order, because files are often sorted."""
    keys: NDArray[Any] = draw_many(_KEYS, rows)
    return np.argsort(keys, kind="stable").astype(np.int64)
