"""Reconstruction by linear programming: which share of secrets it recovers from whom."""

from __future__ import annotations

from dodona.lab.attacks.catalogue import TargetKind, run_attack
from dodona.lab.attacks.suite import attack_generator, make_request, without_noise


def attack(*, people: int = 200, seed: int = 1) -> dict[str, float]:
    """Return the shares: of exact answers, of Dodona whose noise was taken out, and of Dodona at ε = 1."""
    order = make_request(seed=seed, epsilon="1", delta="0", people=people, only="linear program")
    (linear,) = order.attacks
    shares = {
        kind: run_attack(linear, kind, generator=attack_generator(order, linear, kind), budget=order.budget).share
        for kind in (TargetKind.EXACT, TargetKind.DODONA)
    }
    mutant = without_noise(order)[linear.name].share
    return {"exact": shares[TargetKind.EXACT], "mutant": mutant, "dodona": shares[TargetKind.DODONA]}
