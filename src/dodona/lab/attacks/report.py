"""Reports of attacks, for people and for programs."""

from __future__ import annotations

from collections.abc import Sequence

from dodona.lab.attacks.catalogue import UNIFORM, Kind
from dodona.lab.attacks.exponential import most_wrong
from dodona.lab.attacks.suite import Finding, Order, failed
from dodona.lab.plan.person import Exposure

Row = tuple[str, ...]
HEADINGS = ("attack", "target", "recovered", "share", "bound", "verdict", "about")
_NAMES = {
    Kind.EXACT: "exact",
    Kind.UNDER_NOISED: "under-noised",
    Kind.MUTANT: "Dodona, its noise taken out",
    Kind.DODONA: "Dodona",
}


def rows(findings: Sequence[Finding]) -> list[Row]:
    """Return a table row for each attack and target."""
    return [
        (
            finding.attack if finding.target is Kind.EXACT else "",
            _NAMES[finding.target],
            f"{finding.outcome.recovered}/{finding.outcome.total}",
            f"{finding.outcome.share:.3f}",
            f"{finding.bound:.3f}",
            _verdict(finding),
            finding.about,
        )
        for finding in findings
    ]


def notes(order: Order, findings: Sequence[Finding]) -> list[str]:
    """Return notes that explain the table, one line each."""
    budget = order.budget
    epsilon, delta = float(budget.epsilon), float(budget.delta)
    promise = f"ε = {epsilon:g}" + (f", δ = {delta:g}" if delta else "")
    lines = [
        f"bound: the largest share that can be expected of any attack at all where answers are private with {promise}.",
        "beyond: so much would be luck of less than one in a million, if answers were private with it.",
    ]
    if any(finding.attack == "exponential adversary" for finding in findings):
        wrong = most_wrong(UNIFORM)
        lines.append(f"exponential adversary: at most 4E = {wrong} secrets of a table are wrong where E = {UNIFORM}.")
    if any(finding.attack == "membership tracing" for finding in findings):
        advantage = Exposure(budget.epsilon, delta=budget.delta).advantage
        lines.append(f"membership tracing: the bound is an advantage of {advantage:.3f} (2 × share - 1).")
    return lines


def summary(order: Order, findings: Sequence[Finding]) -> dict[str, object]:
    """Return the results as plain data."""
    return {
        "epsilon": float(order.budget.epsilon),
        "delta": float(order.budget.delta),
        "seed": order.seed,
        "attacks": [
            {
                "attack": finding.attack,
                "target": finding.target.value,
                "recovered": finding.outcome.recovered,
                "total": finding.outcome.total,
                "share": round(finding.outcome.share, 4),
                "bound": round(finding.bound, 4),
                "luck": finding.luck,
                "beyond": finding.beyond,
                "passed": finding.passed,
            }
            for finding in findings
        ],
        "passed": failed(findings) == (),
    }


def _verdict(finding: Finding) -> str:
    """Return the verdict, in capitals if the result is not as expected."""
    words = "beyond" if finding.beyond else "within"
    return words if finding.passed else words.upper()
