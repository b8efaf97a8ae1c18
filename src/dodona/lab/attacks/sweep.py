"""What is recovered by noise and by ε: the points of the picture."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dodona import Budget
from dodona.lab.attacks import averaging, linear_program
from dodona.lab.attacks.catalogue import Outcome, counted
from dodona.lab.attacks.chance import Chance
from dodona.lab.attacks.door import Served
from dodona.lab.attacks.target import Exact, Secrets, Sets, Target, UnderNoised, laplace, made_up

SCALES = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 256.0)
EPSILONS = (1.0, 10.0, 100.0)
ALONE = (0.5, 1.0, 2.0)
TOGETHER = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0)
_TABLES = 100
_RUNS = 4
_TOGETHER = 1000

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
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
    noised: tuple[Point, ...]
    """Linear programming against noise without accounting."""
    served: tuple[Point, ...]
    """Linear programming against Dodona."""
    alone: tuple[Point, ...]
    """One person, for Dodona's whole budget."""
    together: tuple[Point, ...]
    """A count for every person, for Dodona's whole budget."""


def swept(chance: Chance, *, progress: Progress, people: int = 128, tables: int = _TABLES) -> Sweep:
    """Return the points of the picture."""
    total, done = len(SCALES) + len(EPSILONS) + len(ALONE) + len(TOGETHER), 0

    def step(name: str) -> None:
        nonlocal done
        done += 1
        progress(done, total, name)

    noised, served, alone, together = [], [], [], []
    for scale in SCALES:
        noised.append(_summed([_noised(people, scale, chance) for _ in range(_RUNS)]))
        step(f"noise of scale {scale:g}")
    for epsilon in EPSILONS:
        served.append(_summed([_served(people, epsilon, chance) for _ in range(_RUNS)]))
        step(f"linear program at ε = {epsilon:g}")
    for epsilon in ALONE:
        alone.append(_summed([_alone(epsilon, chance) for _ in range(tables)]))
        step(f"one person at ε = {epsilon:g}")
    for epsilon in TOGETHER:
        together.append(_together(epsilon, chance))
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


def _noised(people: int, scale: float, chance: Chance) -> Point:
    secrets = made_up(people, chance)
    target = Exact(secrets) if scale == 0 else UnderNoised(Exact(secrets), laplace(scale, chance))
    return _programmed(secrets, target, np.inf, chance)


def _served(people: int, epsilon: float, chance: Chance) -> Point:
    secrets = made_up(people, chance)
    with Served(secrets, Budget(epsilon, 0, "pure")) as target:
        return _programmed(secrets, target, epsilon, chance)


def _programmed(secrets: Secrets, target: Target, epsilon: float, chance: Chance) -> Point:
    questions = linear_program.PER_PERSON * secrets.size
    sets = linear_program.random_sets(secrets.size, questions=questions, chance=chance)
    answers = target.counts(sets)
    noise = float(np.sqrt(np.mean((answers - Exact(secrets).counts(sets)) ** 2)))
    return Point(outcome=counted(linear_program.reconstructed(sets, answers), secrets), noise=noise, epsilon=epsilon)


def _alone(epsilon: float, chance: Chance) -> Point:
    """Return what one count reveals about one person in a small table."""
    secrets = made_up(5, chance)
    with Served(secrets, Budget(epsilon, 0, "pure")) as target:
        only_first: Sets = np.eye(1, secrets.size, dtype=np.bool_)
        guess = (target.counts(only_first) > 0).astype(np.int64)
    return Point(outcome=counted(guess, secrets[:1]), noise=0.0, epsilon=epsilon)


def _together(epsilon: float, chance: Chance) -> Point:
    secrets = made_up(_TOGETHER, chance)
    with Served(secrets, Budget(epsilon, 0, "pure")) as target:
        guess = averaging.attack(target, times=1)
    return Point(outcome=counted(guess, secrets), noise=0.0, epsilon=epsilon)


def _summed(points: list[Point]) -> Point:
    outcome = sum((point.outcome for point in points[1:]), start=points[0].outcome)
    noise = float(np.sqrt(np.mean([point.noise**2 for point in points])))
    return Point(outcome=outcome, noise=noise, epsilon=points[0].epsilon)
