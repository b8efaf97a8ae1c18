"""Reconstruction by linear programming: which share of secrets it recovers from whom."""

from __future__ import annotations

from dodona.lab.attacks.catalogue import Kind, tried
from dodona.lab.attacks.suite import chance_of, ordered, without_noise


def attack(*, people: int = 200, seed: int = 1) -> dict[str, float]:
    """Return the shares: of exact answers, of Dodona whose noise was taken out, and of Dodona at ε = 1."""
    order = ordered(seed=seed, epsilon="1", delta="0", people=people, only="linear program")
    (linear,) = order.attacks
    shares = {
        kind: tried(linear, kind, chance=chance_of(order, linear, kind), budget=order.budget).share
        for kind in (Kind.EXACT, Kind.DODONA)
    }
    mutant = without_noise(order)[linear.name].share
    return {"exact": shares[Kind.EXACT], "mutant": mutant, "dodona": shares[Kind.DODONA]}
