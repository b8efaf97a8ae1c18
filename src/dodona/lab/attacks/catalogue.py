"""Every attack with the tables it runs on, against exact answers, too little noise, and Dodona."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

import numpy as np

from dodona import Budget
from dodona.lab.attacks import averaging, differencing, exponential, linear_program, linkage, published, tracing
from dodona.lab.attacks.chance import Chance
from dodona.lab.attacks.door import Served
from dodona.lab.attacks.target import Exact, Noise, Secrets, Target, UnderNoised, bounded, laplace, made_up


class Kind(StrEnum):
    """What is attacked."""

    EXACT = "exact"
    UNDER_NOISED = "under-noised"
    MUTANT = "mutant"
    """Dodona without its noise, through the same interface, which shows that the attack works there."""
    DODONA = "dodona"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The number of secrets recovered, out of the total."""

    recovered: int
    total: int

    def __add__(self, other: Outcome) -> Outcome:
        return Outcome(self.recovered + other.recovered, self.total + other.total)

    @property
    def share(self) -> float:
        """The share of the secrets that was recovered."""
        return self.recovered / self.total

    @property
    def wrong(self) -> int:
        """The number of secrets that were not recovered."""
        return self.total - self.recovered


Tried = Callable[[Kind, Chance, Budget], Outcome]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """An attack, the number of values of a secret, and the number of tables it runs on."""

    name: str
    tried: Tried
    runs: int
    values: int = 2
    weak: str
    """A description of the under-noised target."""


UNIFORM = 1
"""The largest error of the answers given to the exponential adversary."""
MEMBERS = 5
"""The k of the k-anonymous tables."""
_SCALE = 1.0
_EXPONENTIAL, _LINEAR, _AVERAGED, _DIFFERENCED, _PAIRS, _WARD = 10, 128, 200, 60, 25, 200
_MARKS = 16 * _PAIRS
_TIMES = {Kind.EXACT: 1, Kind.UNDER_NOISED: 400, Kind.MUTANT: 8, Kind.DODONA: 8}
_CROWDS = {Kind.EXACT: 1, Kind.UNDER_NOISED: 100, Kind.MUTANT: 1, Kind.DODONA: 1}
_WEAK = "noise for ε = 1 on each answer, and no account"


def _differenced(target: Target, kind: Kind, chance: Chance) -> Secrets:
    return differencing.attack(target, number=_CROWDS[kind], chance=chance)


def attacks(*, people: int = _LINEAR) -> tuple[Attack, ...]:
    """Return all attacks; `people` is the size of the tables for linear programming."""
    linear_program.checked(people)
    return (
        Attack(
            name="exponential adversary",
            tried=_on_sets(_EXPONENTIAL, lambda target, _, __: exponential.attack(target), noise=_bounded),
            runs=10,
            weak=f"every answer is within {UNIFORM}",
        ),
        Attack(
            name="linear program",
            tried=_on_sets(people, lambda target, _, chance: linear_program.attack(target, chance=chance)),
            runs=max(2, 200 // people),
            weak=_WEAK,
        ),
        Attack(
            name="averaging",
            tried=_on_sets(_AVERAGED, lambda target, kind, _: averaging.attack(target, times=_TIMES[kind])),
            runs=2,
            weak=_WEAK,
        ),
        Attack(
            name="differencing",
            tried=_on_sets(_DIFFERENCED, _differenced),
            runs=2,
            weak=_WEAK,
        ),
        Attack(name="membership tracing", tried=_traced, runs=4, weak=_WEAK),
        Attack(name="linkage", tried=_linked, runs=1, values=linkage.VALUES, weak=f"two {MEMBERS}-anonymous tables"),
    )


def tried(attack: Attack, kind: Kind, *, chance: Chance, budget: Budget) -> Outcome:
    """Return what an attack recovers on all its tables together."""
    outcomes = [attack.tried(kind, chance, budget) for _ in range(attack.runs)]
    return sum(outcomes[1:], start=outcomes[0])


def counted(guess: Secrets, secrets: Secrets) -> Outcome:
    """Return how many guesses are right."""
    return Outcome(int(np.sum(guess == secrets)), secrets.size)


def _laplace(chance: Chance) -> Noise:
    return laplace(_SCALE, chance)


def _bounded(chance: Chance) -> Noise:
    return bounded(UNIFORM, chance)


def _on_sets(
    people: int, attack: Callable[[Target, Kind, Chance], Secrets], *, noise: Callable[[Chance], Noise] = _laplace
) -> Tried:
    """Return an attack on answers about sets of people."""

    def run(kind: Kind, chance: Chance, budget: Budget) -> Outcome:
        secrets = made_up(people, chance)
        match kind:
            case Kind.EXACT:
                guess = attack(Exact(secrets), kind, chance)
            case Kind.UNDER_NOISED:
                guess = attack(UnderNoised(Exact(secrets), noise(chance)), kind, chance)
            case Kind.MUTANT | Kind.DODONA:
                with Served(secrets, budget) as served:
                    guess = attack(served, kind, chance)
            case _:
                assert_never(kind)
        return counted(guess, secrets)

    return run


def _traced(kind: Kind, chance: Chance, budget: Budget) -> Outcome:
    study = tracing.made_up(_PAIRS, marks=_MARKS, chance=chance)
    match kind:
        case Kind.EXACT:
            told: tracing.Published = tracing.exact
        case Kind.UNDER_NOISED:
            told = tracing.under_noised(_laplace(chance))
        case Kind.MUTANT | Kind.DODONA:
            told = published.marks(budget)
        case _:
            assert_never(kind)
    return counted(tracing.attack(study, told), study.member)


def _linked(kind: Kind, chance: Chance, budget: Budget) -> Outcome:
    ward = linkage.made_up(_WARD, chance=chance)
    match kind:
        case Kind.EXACT:
            guess = linkage.linked(linkage.without_names(ward)(ward.traits))
        case Kind.UNDER_NOISED:
            guess = linkage.crossed(linkage.releases(ward, k=MEMBERS), ward.traits)
        case Kind.MUTANT | Kind.DODONA:
            guess = linkage.linked(published.ward(ward, budget)(ward.traits))
        case _:
            assert_never(kind)
    return counted(guess, ward.secrets)
