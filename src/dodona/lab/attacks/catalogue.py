"""Every attack with the tables it runs on, against exact answers, too little noise, and Dodona."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

import numpy as np

from dodona import Budget
from dodona.lab.attacks import averaging, exponential, linear_program, linkage, published, tracing
from dodona.lab.attacks.door import DodonaTarget
from dodona.lab.attacks.target import (
    AttackTarget,
    Exact,
    NoiseFunction,
    RandomGenerator,
    Secrets,
    UnderNoised,
    bounded_noise,
    laplace_noise,
    random_secrets,
)


class TargetKind(StrEnum):
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


AttackFunction = Callable[[TargetKind, RandomGenerator, Budget], Outcome]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """An attack, the number of values of a secret, and the number of tables it runs on."""

    name: str
    run: AttackFunction
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
_TIMES = {TargetKind.EXACT: 1, TargetKind.UNDER_NOISED: 400, TargetKind.MUTANT: 8, TargetKind.DODONA: 8}
_CROWDS = {TargetKind.EXACT: 1, TargetKind.UNDER_NOISED: 100, TargetKind.MUTANT: 1, TargetKind.DODONA: 1}
_WEAK = "noise for ε = 1 on each answer, and no account"


def _difference(target: AttackTarget, kind: TargetKind, generator: RandomGenerator) -> Secrets:
    return averaging.differencing_attack(target, number=_CROWDS[kind], generator=generator)


def attacks(*, people: int = _LINEAR) -> tuple[Attack, ...]:
    """Return all attacks; `people` is the size of the tables for linear programming."""
    linear_program.validate_people(people)
    return (
        Attack(
            name="exponential adversary",
            run=_on_sets(_EXPONENTIAL, lambda target, _, __: exponential.attack(target), noise=_bounded_noise),
            runs=10,
            weak=f"every answer is within {UNIFORM}",
        ),
        Attack(
            name="linear program",
            run=_on_sets(people, lambda target, _, generator: linear_program.attack(target, generator=generator)),
            runs=max(2, 200 // people),
            weak=_WEAK,
        ),
        Attack(
            name="averaging",
            run=_on_sets(_AVERAGED, lambda target, kind, _: averaging.averaging_attack(target, times=_TIMES[kind])),
            runs=2,
            weak=_WEAK,
        ),
        Attack(
            name="differencing",
            run=_on_sets(_DIFFERENCED, _difference),
            runs=2,
            weak=_WEAK,
        ),
        Attack(name="membership tracing", run=_trace, runs=4, weak=_WEAK),
        Attack(name="linkage", run=_link, runs=1, values=linkage.VALUES, weak=f"two {MEMBERS}-anonymous tables"),
    )


def run_attack(attack: Attack, kind: TargetKind, *, generator: RandomGenerator, budget: Budget) -> Outcome:
    """Return what an attack recovers on all its tables together."""
    outcomes = [attack.run(kind, generator, budget) for _ in range(attack.runs)]
    return sum(outcomes[1:], start=outcomes[0])


def score_guess(guess: Secrets, secrets: Secrets) -> Outcome:
    """Return how many guesses are right."""
    return Outcome(int(np.sum(guess == secrets)), secrets.size)


def _laplace_noise(generator: RandomGenerator) -> NoiseFunction:
    return laplace_noise(_SCALE, generator)


def _bounded_noise(generator: RandomGenerator) -> NoiseFunction:
    return bounded_noise(UNIFORM, generator)


def _on_sets(
    people: int,
    attack: Callable[[AttackTarget, TargetKind, RandomGenerator], Secrets],
    *,
    noise: Callable[[RandomGenerator], NoiseFunction] = _laplace_noise,
) -> AttackFunction:
    """Return an attack on answers about sets of people."""

    def run(kind: TargetKind, generator: RandomGenerator, budget: Budget) -> Outcome:
        secrets = random_secrets(people, generator)
        match kind:
            case TargetKind.EXACT:
                guess = attack(Exact(secrets), kind, generator)
            case TargetKind.UNDER_NOISED:
                guess = attack(UnderNoised(Exact(secrets), noise(generator)), kind, generator)
            case TargetKind.MUTANT | TargetKind.DODONA:
                with DodonaTarget(secrets, budget) as served:
                    guess = attack(served, kind, generator)
            case _:
                assert_never(kind)
        return score_guess(guess, secrets)

    return run


def _trace(kind: TargetKind, generator: RandomGenerator, budget: Budget) -> Outcome:
    study = tracing.random_study(_PAIRS, marks=_MARKS, generator=generator)
    match kind:
        case TargetKind.EXACT:
            publish: tracing.CountMarks = tracing.exact_counts
        case TargetKind.UNDER_NOISED:
            publish = tracing.noisy_counts(_laplace_noise(generator))
        case TargetKind.MUTANT | TargetKind.DODONA:
            publish = published.marks(budget)
        case _:
            assert_never(kind)
    return score_guess(tracing.attack(study, publish), study.member)


def _link(kind: TargetKind, generator: RandomGenerator, budget: Budget) -> Outcome:
    ward = linkage.random_ward(_WARD, generator=generator)
    match kind:
        case TargetKind.EXACT:
            guess = linkage.link(linkage.without_names(ward)(ward.traits))
        case TargetKind.UNDER_NOISED:
            guess = linkage.intersect_tables(linkage.anonymous_tables(ward, k=MEMBERS), ward.traits)
        case TargetKind.MUTANT | TargetKind.DODONA:
            guess = linkage.link(published.ward(ward, budget)(ward.traits))
        case _:
            assert_never(kind)
    return score_guess(guess, ward.secrets)
