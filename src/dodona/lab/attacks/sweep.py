"""What is recovered by noise and by ε: the points of the picture."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dodona import Budget
from dodona.lab.attacks import averaging, linear_program
from dodona.lab.attacks.catalogue import Outcome, score_guess
from dodona.lab.attacks.door import DodonaTarget
from dodona.lab.attacks.target import (
    AttackTarget,
    Exact,
    RandomGenerator,
    Secrets,
    Sets,
    UnderNoised,
    laplace_noise,
    random_secrets,
)

SCALES = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 256.0)
EPSILONS = (1.0, 10.0, 100.0)
ALONE = (0.5, 1.0, 2.0)
TOGETHER = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0)
_TABLES = 100
_RUNS = 4
_TOGETHER = 1000

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPoint:
    """What was recovered at one noise level or one ε."""

    outcome: Outcome
    noise: float
    """The root mean square of the noise in an answer."""
    epsilon: float
    """Infinity if nothing is accounted for."""

    @property
    def share(self) -> float:
        """The share of the secrets that was recovered."""
        return self.outcome.share

    @property
    def total(self) -> int:
        """The number of secrets."""
        return self.outcome.total


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """Points by noise and by ε."""

    people: int
    questions: int
    tables: int
    noised: tuple[SweepPoint, ...]
    """Linear programming against noise without accounting."""
    served: tuple[SweepPoint, ...]
    """Linear programming against Dodona."""
    alone: tuple[SweepPoint, ...]
    """One person, for Dodona's whole budget."""
    together: tuple[SweepPoint, ...]
    """A count for every person, for Dodona's whole budget."""


def sweep_noise(generator: RandomGenerator, *, progress: Progress, people: int = 128, tables: int = _TABLES) -> Sweep:
    """Return the points of the picture."""
    total, done = len(SCALES) + len(EPSILONS) + len(ALONE) + len(TOGETHER), 0

    def step(name: str) -> None:
        nonlocal done
        done += 1
        progress(done, total, name)

    noised, served, alone, together = [], [], [], []
    for scale in SCALES:
        noised.append(_add_points([_attack_with_noise(people, scale, generator) for _ in range(_RUNS)]))
        step(f"noise of scale {scale:g}")
    for epsilon in EPSILONS:
        served.append(_add_points([_attack_dodona(people, epsilon, generator) for _ in range(_RUNS)]))
        step(f"linear program at ε = {epsilon:g}")
    for epsilon in ALONE:
        alone.append(_add_points([_alone(epsilon, generator) for _ in range(tables)]))
        step(f"one person at ε = {epsilon:g}")
    for epsilon in TOGETHER:
        together.append(_together(epsilon, generator))
        step(f"everybody at ε = {epsilon:g}")
    return Sweep(
        people=people,
        questions=linear_program.PER_PERSON * people,
        tables=tables,
        noised=tuple(noised),
        served=tuple(served),
        alone=tuple(alone),
        together=tuple(together),
    )


def _attack_with_noise(people: int, scale: float, generator: RandomGenerator) -> SweepPoint:
    secrets = random_secrets(people, generator)
    target = Exact(secrets) if scale == 0 else UnderNoised(Exact(secrets), laplace_noise(scale, generator))
    return _attack_target(secrets, target, np.inf, generator)


def _attack_dodona(people: int, epsilon: float, generator: RandomGenerator) -> SweepPoint:
    secrets = random_secrets(people, generator)
    with DodonaTarget(secrets, Budget(epsilon, 0, "pure")) as target:
        return _attack_target(secrets, target, epsilon, generator)


def _attack_target(secrets: Secrets, target: AttackTarget, epsilon: float, generator: RandomGenerator) -> SweepPoint:
    questions = linear_program.PER_PERSON * secrets.size
    sets = linear_program.random_sets(secrets.size, questions=questions, generator=generator)
    answers = target.counts(sets)
    noise = float(np.sqrt(np.mean((answers - Exact(secrets).counts(sets)) ** 2)))
    return SweepPoint(
        outcome=score_guess(linear_program.reconstruct(sets, answers), secrets), noise=noise, epsilon=epsilon
    )


def _alone(epsilon: float, generator: RandomGenerator) -> SweepPoint:
    """Return what one count reveals about one person in a small table."""
    secrets = random_secrets(5, generator)
    with DodonaTarget(secrets, Budget(epsilon, 0, "pure")) as target:
        only_first: Sets = np.eye(1, secrets.size, dtype=np.bool_)
        guess = (target.counts(only_first) > 0).astype(np.int64)
    return SweepPoint(outcome=score_guess(guess, secrets[:1]), noise=0.0, epsilon=epsilon)


def _together(epsilon: float, generator: RandomGenerator) -> SweepPoint:
    secrets = random_secrets(_TOGETHER, generator)
    with DodonaTarget(secrets, Budget(epsilon, 0, "pure")) as target:
        guess = averaging.averaging_attack(target, times=1)
    return SweepPoint(outcome=score_guess(guess, secrets), noise=0.0, epsilon=epsilon)


def _add_points(points: list[SweepPoint]) -> SweepPoint:
    outcome = sum((point.outcome for point in points[1:]), start=points[0].outcome)
    noise = float(np.sqrt(np.mean([point.noise**2 for point in points])))
    return SweepPoint(outcome=outcome, noise=noise, epsilon=points[0].epsilon)
