"""Auditing one case: sample, try every feature, and compare the certified loss with the claim."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

from dodona.lab.audit.bound import ERROR, Codes, certified_epsilon, certified_mu, certified_rho
from dodona.lab.audit.cases import batch, choice, ladder, local, noise, path, people, served, sparse, watched
from dodona.lab.audit.cases.case import AuditCase, LossMeasure


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditResult:
    """The result of one audit."""

    case: str
    mechanism: str
    neighbours: str
    measure: str
    claim: float
    certified: float
    feature: str
    """The feature with the largest certified loss."""
    count: int

    @property
    def violated(self) -> bool:
        """Whether the certified loss is above the claim."""
        return self.certified > self.claim

    @property
    def tightness(self) -> float:
        """The share of the claim that the audit certifies."""
        return self.certified / self.claim


def all_cases() -> Iterator[AuditCase]:
    """Yield every case, the slow families first."""
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


def examine(case: AuditCase, count: int) -> AuditResult:
    """Audit a case with `count` samples per table, or its share of that; the features split the error."""
    samples = max(count // case.share, 1)
    first, second = case.draw(samples)
    error = ERROR / len(case.features)
    proved = [(_certify(case, feature.of(first), feature.of(second), error), feature) for feature in case.features]
    certified, feature = max(proved, key=lambda entry: entry[0])
    return AuditResult(
        case=case.name,
        mechanism=case.mechanism,
        neighbours=case.neighbours.value,
        measure=case.measure.value,
        claim=case.claim_value(),
        certified=certified,
        feature=feature.name,
        count=samples,
    )


def _certify(case: AuditCase, first: Codes, second: Codes, error: float) -> float:
    match case.measure:
        case LossMeasure.EPSILON:
            return certified_epsilon(first, second, delta=case.delta, error=error)
        case LossMeasure.MU:
            return certified_mu(first, second, error=error)
        case LossMeasure.RHO:
            return certified_rho(first, second, error=error)
        case _:
            assert_never(case.measure)
