"""How many adaptive queries are answered within a tenth at 95%, by the best route with the noise that is drawn."""

from __future__ import annotations

from dodona.lab.adaptive.answerable import SERVED, most_queries

WITHIN = 0.1
ROWS = (10**4, 10**5, 10**6)


def adaptive_k() -> dict[str, int]:
    """Return the number of queries for each number of rows."""
    return {str(rows): max(most_queries(route, rows=rows, within=WITHIN) for route in SERVED) for rows in ROWS}
