"""Derivation: questions whose answers follow from what was told before. No data is touched, and it is free."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from dodona.accuracy import failure
from dodona.answer.law import Term as Draws
from dodona.answer.law import upper_quantile
from dodona.belief.measurements import Released, Vector, variance_of, vectors
from dodona.belief.system import System
from dodona.domain.domain import Domain
from dodona.errors import InvalidArgument
from dodona.exact import whole
from dodona.mechanisms.measurement import Noise
from dodona.query.query import Query

MOST_VALUES = 1024
"""What is told beyond so many numbers is left out: what follows from the others still does."""
_MOST_ROWS = 1 << 62


@dataclass(frozen=True, slots=True)
class Term:
    """A number that was told, and how often it counts."""

    coefficient: Fraction
    release: int
    """Which of the releases it is of, in the order in which they were taken."""
    group: int
    value: int
    noise: Noise


@dataclass(frozen=True, slots=True)
class Derived:
    """The best unbiased combination of what was told before, in steps of the block."""

    terms: tuple[Term, ...]
    constant: Fraction
    """What is added for the public number of rows."""
    variance: float

    @property
    def value(self) -> Fraction:
        """The estimate, exact as a combination of released integers."""
        return self.constant + sum((term.coefficient * term.value for term in self.terms), Fraction(0))

    def within(self, confidence: float) -> float:
        """Return how far off the estimate may be, in steps, with this probability.

        Theorem: sum-of-noises
        """
        number = Counter((abs(term.coefficient), term.noise) for term in self.terms)
        draws = tuple(Draws.of(float(own), noise, times) for (own, noise), times in number.items())
        return upper_quantile(draws, failure(confidence) / 2)


class Derivation:
    """All that was told of one table, ready to be combined. It grows with each release, and threads may share it.

    What was taken in stays as it is, whatever comes later; a release is only taken in when a question is asked.
    """

    def __init__(self, domain: Domain, *, total: int | None = None) -> None:
        """Take the number of rows where it is exact and public, as it is where rows are replaced."""
        self._domain = domain
        self._total = None if total is None else whole(total, argument="total", lower=0, upper=_MOST_ROWS)
        self._released: list[Released] = []
        self._again: set[int] = set()  # releases that came before: their noise is not drawn anew
        self._known: set[int | Released] = set()
        self._system = System()
        self._places: list[tuple[int, int, int]] = []  # release, group, and how often it has the number of rows
        self._taken = 0
        self._lock = threading.Lock()

    def add(self, released: Released) -> None:
        """Take a release; one that was taken before, by its receipt or as the same object, tells nothing more."""
        Query(self._domain, (released.block,))  # refuses a block of another domain
        known = id(released) if released.origin is None else released
        if known in self._known:
            self._again.add(len(self._released))
        self._known.add(known)
        self._released.append(released)

    def derive(self, query: Query) -> tuple[Derived, ...] | None:
        """Return for each answer of a query its best unbiased combination; None where one does not follow.

        Theorem: derivation
        """
        if query.domain is not self._domain and query.domain != self._domain:
            raise InvalidArgument("query", query.domain.names, f"ask about {', '.join(self._domain.names)}")
        found = []
        with self._lock:
            while self._taken < len(self._released):
                self._taken += 1
                self._take(self._taken - 1)
            for block in query.blocks:
                for vector in vectors(block, self._domain) or (None,):
                    one = None if vector is None else self._derived(vector)
                    if one is None:
                        return None
                    found.append(one)
        return tuple(found)

    def _derived(self, vector: Vector) -> Derived | None:
        coefficients = self._system.combination(self._varying(vector))
        if coefficients is None:
            return None
        constant, variance, terms = Fraction(vector.get((), 0)), 0.0, []
        for place, own in coefficients.items():
            release, group, rows = self._places[place]
            source = self._released[release]
            constant -= own * rows
            variance += float(own) ** 2 * variance_of(source.noise)
            terms.append(Term(own, release, group, source.values[group], source.noise))
        return Derived(tuple(terms), constant * (self._total or 0), variance)

    def _varying(self, vector: Vector) -> Vector:
        """Return the part of a question that is not public."""
        return vector if self._total is None else {column: value for column, value in vector.items() if column}

    def _take(self, release: int) -> None:
        """Take a release in, unless it is too large to be written out or all of them would be too much work."""
        known = None if release in self._again else vectors(self._released[release].block, self._domain)
        if known is None or len(self._system) + len(known) > MOST_VALUES:
            return
        varying = [self._varying(vector) for vector in known]
        if not self._system.fits(varying):
            return
        variance = variance_of(self._released[release].noise)
        for group in sorted(range(len(known)), key=lambda one: len(known[one])):  # short ones make others short
            self._system.add(varying[group], variance)
            self._places.append((release, group, known[group].get((), 0)))


def derive(query: Query, releases: Iterable[Released], *, total: int | None = None) -> tuple[Derived, ...] | None:
    """Return for each answer of a query the best unbiased combination of releases; None where one does not follow.

    >>> from dodona.domain.attribute import Boolean
    >>> from dodona.mechanisms.laplace import Laplace
    >>> from dodona.query.predicate import among
    >>> domain = Domain((Boolean("urgent"),))
    >>> urgent, calm = (Query.count(domain, among(domain["urgent"], [code])) for code in (1, 0))
    >>> both = Query.count(domain, among(domain["urgent"], [0, 1]))
    >>> told = [Released(one.blocks[0], (value,), Laplace(scale=2)) for one, value in ((both, 30), (urgent, 12))]
    >>> derive(calm, told)[0].value
    Fraction(18, 1)

    Theorem: derivation
    """
    learned = Derivation(query.domain, total=total)
    for released in releases:
        learned.add(released)
    return learned.derive(query)
