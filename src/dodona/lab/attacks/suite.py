"""All attacks on all targets: what they recover, beside what differential privacy allows."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from fractions import Fraction

from dodona import Budget
from dodona.errors import InvalidArgument, InvariantBroken
from dodona.lab.attacks.bound import largest_share, luck
from dodona.lab.attacks.catalogue import Attack, Outcome, TargetKind, attacks, run_attack
from dodona.lab.attacks.target import RandomGenerator, seeded_generator
from dodona.lab.audit.patch import replace_lines
from dodona.numbers import to_fraction

_DRAWN = "    noise = draw_runs(_noise_runs(measurement))"

NOISE_OFF = replace_lines("dodona.trusted.gate", _DRAWN, f"{_DRAWN} * 0", symbol="add_noise")


ERROR = 1e-6
"""The false-alarm rate for one run of an attack on Dodona."""
NEARLY_ALL = 0.99
"""The share that an attack must recover without noise; otherwise it proves nothing."""

Progress = Callable[[int, int, str], None]
"""Called with the number of finished attacks, their total, and the name of the last one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackResult:
    """What an attack recovered from one target."""

    attack: str
    target: TargetKind
    outcome: Outcome
    bound: float
    """The largest expected share at the budget's ε and δ."""
    luck: float
    """The largest probability of this outcome at the budget's ε and δ."""
    about: str = ""

    @property
    def beyond(self) -> bool:
        """Whether more was recovered than the budget can explain."""
        return self.luck < ERROR

    @property
    def passed(self) -> bool:
        """Whether nearly everything is recovered without noise, too much with little noise, and no more from Dodona."""
        if self.target is TargetKind.DODONA:
            return not self.beyond
        return self.beyond and (self.target is TargetKind.UNDER_NOISED or self.outcome.share >= NEARLY_ALL)


@dataclass(frozen=True, slots=True)
class AttackRequest:
    """What to attack, in one process."""

    seed: int
    epsilon: str
    delta: str
    people: int
    names: tuple[str, ...]

    @property
    def budget(self) -> Budget:
        """Dodona's budget: pure, or with Rényi accounting if δ > 0."""
        delta = to_fraction(self.delta, argument="delta", lower=Fraction(0), upper=Fraction(1))
        return Budget(self.epsilon, delta, "pure" if delta == 0 else "renyi")

    @property
    def attacks(self) -> tuple[Attack, ...]:
        """The selected attacks."""
        return tuple(attack for attack in attacks(people=self.people) if attack.name in self.names)


def make_request(*, seed: int, epsilon: str, delta: str, people: int, only: str | None) -> AttackRequest:
    """Return what to attack, validated before anything runs."""
    seeded_generator(seed)
    names = tuple(attack.name for attack in attacks(people=people) if only is None or only.casefold() in attack.name)
    if names == ():
        known = ", ".join(attack.name for attack in attacks())
        raise InvalidArgument("only", only, f"write (part of) one of {known}")
    request = AttackRequest(seed, epsilon, delta, people, names)
    largest_share(float(request.budget.epsilon), delta=float(request.budget.delta))
    return request


def run_attacks(request: AttackRequest, *, progress: Progress) -> tuple[AttackResult, ...]:
    """Return what every attack recovers from every target; the copy without noise runs in a separate process."""
    budget, outcomes = request.budget, dict[tuple[str, TargetKind], Outcome]()
    steps = [(attack, kind) for attack in request.attacks for kind in TargetKind if kind is not TargetKind.MUTANT]
    with ThreadPoolExecutor(max_workers=1) as pool:
        mutated: Future[dict[str, Outcome]] = pool.submit(without_noise, request)
        for number, (attack, kind) in enumerate(steps, start=1):
            outcomes[attack.name, kind] = run_attack(
                attack, kind, generator=attack_generator(request, attack, kind), budget=budget
            )
            progress(number, len(steps) + 1, f"{attack.name}: {kind}")
        outcomes.update({(name, TargetKind.MUTANT): outcome for name, outcome in mutated.result().items()})
        progress(len(steps) + 1, len(steps) + 1, "the mutant without noise")
    return tuple(
        _result(attack, kind, outcomes[attack.name, kind], budget) for attack in request.attacks for kind in TargetKind
    )


def without_noise(request: AttackRequest) -> dict[str, Outcome]:
    """Return what attacks recover from a copy of Dodona without noise, in a fresh process."""
    written = json.dumps({**asdict(request), "patches": [asdict(NOISE_OFF)]})
    command = [sys.executable, "-m", "dodona.lab.attacks.trial", written]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  our own module
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    outcomes = {line["attack"]: Outcome(line["recovered"], line["total"]) for line in lines}
    if done.returncode != 0 or set(outcomes) != set(request.names):
        reason = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise InvariantBroken(f"The trial without noise did not finish: {reason}")
    return outcomes


def attack_generator(request: AttackRequest, attack: Attack, kind: TargetKind) -> RandomGenerator:
    """Return an attack's own random generator, so that leaving out others does not change it."""
    place = [other.name for other in attacks()].index(attack.name)
    return seeded_generator(request.seed).spawn((place + 1) * len(TargetKind))[
        place * len(TargetKind) + list(TargetKind).index(kind)
    ]


def _result(attack: Attack, kind: TargetKind, outcome: Outcome, budget: Budget) -> AttackResult:
    epsilon, delta = float(budget.epsilon), float(budget.delta)
    return AttackResult(
        attack=attack.name,
        target=kind,
        outcome=outcome,
        bound=largest_share(epsilon, delta=delta, values=attack.values),
        luck=luck(outcome.recovered, outcome.total, epsilon=epsilon, delta=delta, values=attack.values),
        about=attack.weak if kind is TargetKind.UNDER_NOISED else "",
    )


def failures(results: Sequence[AttackResult]) -> tuple[AttackResult, ...]:
    """Return the results that are not as expected."""
    return tuple(result for result in results if not result.passed)
