"""How many queries a sample can answer, how many rows queries need, and which route is best."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dodona.lab.adaptive.certificate import MOST_QUERIES, MOST_ROWS, Certificate, Route, Values, validate_probability
from dodona.lab.adaptive.routes import certificate
from dodona.numbers import smallest_integer

SERVED = (Route.SPLITTING, Route.ROUNDING, Route.GAUSSIAN, Route.CONCENTRATED, Route.LAPLACE)
"""The routes that can be best; every other route is dominated by one of these."""


def best_certificate(
    *,
    rows: int,
    queries: int,
    confidence: float = 0.95,
    values: Values = Values.SHARES,
    routes: Iterable[Route] = SERVED,
) -> Certificate:
    """Return the certificate with the smallest error; ties go to the first route.

    Theorem: statistical-query-oracle
    """
    certificates = [
        certificate(route, rows=rows, queries=queries, confidence=confidence, values=values) for route in routes
    ]
    return min(certificates, key=lambda each: each.within)


def most_queries(
    route: Route, *, rows: int, within: float, confidence: float = 0.95, values: Values = Values.SHARES
) -> int:
    """Return the largest number of adaptive queries that a route answers within an error; 0 if not even one."""
    wanted = validate_probability(within, argument="within")

    def is_met(queries: int) -> bool:
        return certificate(route, rows=rows, queries=queries, confidence=confidence, values=values).within <= wanted

    return largest_integer(is_met, 0, MOST_QUERIES)


def rows_needed(
    *,
    queries: int,
    within: float,
    confidence: float = 0.95,
    values: Values = Values.SHARES,
    routes: Iterable[Route] = SERVED,
) -> int | None:
    """Return the least number of rows, to about 2%, that answers the queries within an error; None if out of reach."""
    wanted, tried = validate_probability(within, argument="within"), tuple(routes)

    def is_met(rows: int) -> bool:
        return (
            best_certificate(rows=rows, queries=queries, confidence=confidence, values=values, routes=tried).within
            <= wanted
        )

    low, high = 1, 16
    while not is_met(high):
        low, high = high, 4 * high
        if high > MOST_ROWS:
            return None
    while high > low * 1.02 + 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_met(middle) else (middle, high)
    return high


def largest_integer(holds: Callable[[int], bool], low: int, high: int) -> int:
    """Return the largest integer from `low` to `high` up to which a condition holds.

    It is assumed true at `low`, which is not tested. Steps double from there, so large numbers are tested only if the
    result is large.

    >>> largest_integer(lambda number: number**2 <= 50, 0, 1000)
    7
    """
    step = 1
    while low + step <= high and holds(low + step):
        low, step = low + step, 2 * step
    return smallest_integer(lambda number: not holds(number), low, min(low + step, high + 1)) - 1
