"""The number of rows: public where a neighbour has one row replaced, as then all neighbours have as many."""

from __future__ import annotations

from dodona.domain.domain import Domain
from dodona.domain.unit import Unit
from dodona.query.query import Query
from dodona.trusted.release import exact
from dodona.trusted.source import Source


def public_rows(source: Source, domain: Domain, unit: Unit) -> int | None:
    """Return how many rows there are, where that is the same for all neighbours; else None, and nothing is read.

    Theorem: public-rows
    """
    if not unit.fixed:
        return None
    return int(exact(source, Query.count(domain))[0])
