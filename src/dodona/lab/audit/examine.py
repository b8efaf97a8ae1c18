"""Auditing one case: draw, look at every feature, and compare what is proved with what is claimed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

from dodona.lab.audit.bound import ERROR, Codes, certified_epsilon, certified_mu, certified_rho
from dodona.lab.audit.cases import batch, choice, ladder, local, noise, path, people, served, sparse, watched
from dodona.lab.audit.cases.case import Case, Currency


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one audit found."""

    case: str
    mechanism: str
    neighbours: str
    currency: str
    claim: float
    certified: float
    feature: str
    """The one that proves most."""
    count: int

    @property
    def violated(self) -> bool:
        """Whether more is proved to be lost than is claimed."""
        return self.certified > self.claim

    @property
    def tightness(self) -> float:
        """How much of the claim the audit confirms."""
        return self.certified / self.claim


def all_cases() -> Iterator[Case]:
    """Return every case, the slow families first."""
    yield from watched.cases()
    yield from batch.cases()
    yield from served.cases()
    yield from people.cases()
    yield from ladder.cases()
    yield from sparse.cases()
    yield from choice.cases()
    yield from noise.cases()
    yield from path.cases()
    yield from local.cases()


def examine(case: Case, count: int) -> Finding:
    """Return what `count` samples of each table, or the case's share of that, prove; the features split the error."""
    samples = max(count // case.share, 1)
    first, second = case.draw(samples)
    error = ERROR / len(case.features)
    proved = [(_proved(case, feature.of(first), feature.of(second), error), feature) for feature in case.features]
    certified, feature = max(proved, key=lambda entry: entry[0])
    return Finding(
        case=case.name,
        mechanism=case.mechanism,
        neighbours=case.neighbours.value,
        currency=case.currency.value,
        claim=case.claimed(),
        certified=certified,
        feature=feature.name,
        count=samples,
    )


def _proved(case: Case, first: Codes, second: Codes, error: float) -> float:
    match case.currency:
        case Currency.EPSILON:
            return certified_epsilon(first, second, delta=case.delta, error=error)
        case Currency.MU:
            return certified_mu(first, second, error=error)
        case Currency.RHO:
            return certified_rho(first, second, error=error)
        case _:
            assert_never(case.currency)
