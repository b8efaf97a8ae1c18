"""Reports of attacks, for people and for programs."""

from __future__ import annotations

from collections.abc import Sequence

from dodona.lab.attacks.catalogue import UNIFORM, TargetKind
from dodona.lab.attacks.exponential import most_wrong
from dodona.lab.attacks.suite import AttackRequest, AttackResult, failures
from dodona.lab.plan.person import Exposure

Row = tuple[str, ...]
HEADINGS = ("attack", "target", "recovered", "share", "bound", "verdict", "about")
_NAMES = {
    TargetKind.EXACT: "exact",
    TargetKind.UNDER_NOISED: "under-noised",
    TargetKind.MUTANT: "Dodona without noise",
    TargetKind.DODONA: "Dodona",
}


def rows(results: Sequence[AttackResult]) -> list[Row]:
    """Return a table row for each attack and target."""
    return [
        (
            result.attack if result.target is TargetKind.EXACT else "",
            _NAMES[result.target],
            f"{result.outcome.recovered}/{result.outcome.total}",
            f"{result.outcome.share:.3f}",
            f"{result.bound:.3f}",
            _verdict(result),
            result.about,
        )
        for result in results
    ]


def notes(request: AttackRequest, results: Sequence[AttackResult]) -> list[str]:
    """Return notes that explain the table, one line each."""
    budget = request.budget
    epsilon, delta = float(budget.epsilon), float(budget.delta)
    promise = f"ε = {epsilon:g}" + (f", δ = {delta:g}" if delta else "")
    lines = [
        f"bound: the largest expected share of any attack if answers are private with {promise}.",
        "beyond: if answers were private with it, this would happen in less than one run in a million.",
    ]
    if any(result.attack == "exponential adversary" for result in results):
        wrong = most_wrong(UNIFORM)
        lines.append(f"exponential adversary: at most 4E = {wrong} secrets of a table are wrong where E = {UNIFORM}.")
    if any(result.attack == "membership tracing" for result in results):
        advantage = Exposure(budget.epsilon, delta=budget.delta).advantage
        lines.append(f"membership tracing: the bound is an advantage of {advantage:.3f} (2 × share - 1).")
    return lines


def summary(request: AttackRequest, results: Sequence[AttackResult]) -> dict[str, object]:
    """Return the results as plain data."""
    return {
        "epsilon": float(request.budget.epsilon),
        "delta": float(request.budget.delta),
        "seed": request.seed,
        "attacks": [
            {
                "attack": result.attack,
                "target": result.target.value,
                "recovered": result.outcome.recovered,
                "total": result.outcome.total,
                "share": round(result.outcome.share, 4),
                "bound": round(result.bound, 4),
                "luck": result.luck,
                "beyond": result.beyond,
                "passed": result.passed,
            }
            for result in results
        ],
        "passed": failures(results) == (),
    }


def _verdict(result: AttackResult) -> str:
    """Return the verdict, in capitals if the result is not as expected."""
    words = "beyond" if result.beyond else "within"
    return words if result.passed else words.upper()
