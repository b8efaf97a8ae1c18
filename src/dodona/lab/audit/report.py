"""Reports of an audit, for people and for programs."""

from __future__ import annotations

from dodona.lab.audit.audit import Audit
from dodona.lab.audit.examine import AuditResult

Row = tuple[str, ...]
CASE_HEADINGS = ("case", "neighbours", "claim", "certified", "certified/claim", "verdict")
MUTANT_HEADINGS = ("mutant", "caught by", "claim", "certified", "certified/claim", "verdict")
_SYMBOLS = {"epsilon": "ε", "mu": "μ", "rho": "ρ"}


def summary(audit: Audit) -> dict[str, object]:
    """Return the audit as plain data: tightness is the best ratio of a mechanism's cases."""
    tightness: dict[str, float] = {}
    for result in audit.results:
        tightness[result.mechanism] = max(result.tightness, tightness.get(result.mechanism, 0.0))
    return {
        "mechanisms": len(audit.results),
        "violations": len(audit.violations),
        "mutants": len(audit.captures),
        "caught": sum(capture.caught for capture in audit.captures),
        "tightness": {name: round(tightness[name], 4) for name in sorted(tightness)},
    }


def case_rows(audit: Audit) -> list[Row]:
    """Return a table row for each correct case."""
    return [
        (result.case, result.neighbours, *_numbers(result), "VIOLATED" if result.violated else "holds")
        for result in audit.results
    ]


def mutant_rows(audit: Audit) -> list[Row]:
    """Return a table row for each mutant, with its clearest result."""
    return [
        (
            capture.mutant.name,
            f"{capture.clearest.case}, {capture.clearest.neighbours}: {capture.clearest.feature}",
            *_numbers(capture.clearest),
            "caught" if capture.caught else "MISSED",
        )
        for capture in audit.captures
    ]


def _numbers(result: AuditResult) -> tuple[str, str, str]:
    symbol = _SYMBOLS[result.measure]
    return f"{symbol} = {result.claim:.4g}", f"{result.certified:.4g}", f"{result.tightness:.3f}"
