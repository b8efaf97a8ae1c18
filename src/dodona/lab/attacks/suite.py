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
from dodona.lab.attacks.catalogue import Attack, Kind, Outcome, attacks, tried
from dodona.lab.attacks.chance import Chance, seeded
from dodona.lab.attacks.mutant import NOISE_OFF
from dodona.numbers import to_fraction

ERROR = 1e-6
"""The false-alarm rate for one run of an attack on Dodona."""
NEARLY_ALL = 0.99
"""The share that an attack must recover without noise; otherwise it proves nothing."""

Progress = Callable[[int, int, str], None]
"""Called with the number of finished attacks, their total, and the name of the last one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What an attack recovered from one target."""

    attack: str
    target: Kind
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
        if self.target is Kind.DODONA:
            return not self.beyond
        return self.beyond and (self.target is Kind.UNDER_NOISED or self.outcome.share >= NEARLY_ALL)


@dataclass(frozen=True, slots=True)
class Order:
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


def ordered(*, seed: int, epsilon: str, delta: str, people: int, only: str | None) -> Order:
    """Return what to attack, validated before anything runs."""
    seeded(seed)
    names = tuple(attack.name for attack in attacks(people=people) if only is None or only.casefold() in attack.name)
    if names == ():
        known = ", ".join(attack.name for attack in attacks())
        raise InvalidArgument("only", only, f"write (part of) one of {known}")
    order = Order(seed, epsilon, delta, people, names)
    largest_share(float(order.budget.epsilon), delta=float(order.budget.delta))
    return order


def attacked(order: Order, *, progress: Progress) -> tuple[Finding, ...]:
    """Return what every attack recovers from every target; the copy without noise runs in a separate process."""
    budget, found = order.budget, dict[tuple[str, Kind], Outcome]()
    steps = [(attack, kind) for attack in order.attacks for kind in Kind if kind is not Kind.MUTANT]
    with ThreadPoolExecutor(max_workers=1) as pool:
        mutated: Future[dict[str, Outcome]] = pool.submit(without_noise, order)
        for number, (attack, kind) in enumerate(steps, start=1):
            found[attack.name, kind] = tried(attack, kind, chance=chance_of(order, attack, kind), budget=budget)
            progress(number, len(steps) + 1, f"{attack.name}: {kind}")
        found.update({(name, Kind.MUTANT): outcome for name, outcome in mutated.result().items()})
        progress(len(steps) + 1, len(steps) + 1, "the mutant without noise")
    return tuple(_finding(attack, kind, found[attack.name, kind], budget) for attack in order.attacks for kind in Kind)


def without_noise(order: Order) -> dict[str, Outcome]:
    """Return what attacks recover from a copy of Dodona without noise, in a fresh process."""
    written = json.dumps({**asdict(order), "patches": [asdict(NOISE_OFF)]})
    command = [sys.executable, "-m", "dodona.lab.attacks.trial", written]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  our own module
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    found = {line["attack"]: Outcome(line["recovered"], line["total"]) for line in lines}
    if done.returncode != 0 or set(found) != set(order.names):
        reason = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise InvariantBroken(f"The trial without noise did not finish: {reason}")
    return found


def chance_of(order: Order, attack: Attack, kind: Kind) -> Chance:
    """Return an attack's own random generator, so that leaving out others does not change it."""
    place = [one.name for one in attacks()].index(attack.name)
    return seeded(order.seed).spawn((place + 1) * len(Kind))[place * len(Kind) + list(Kind).index(kind)]


def _finding(attack: Attack, kind: Kind, outcome: Outcome, budget: Budget) -> Finding:
    epsilon, delta = float(budget.epsilon), float(budget.delta)
    return Finding(
        attack=attack.name,
        target=kind,
        outcome=outcome,
        bound=largest_share(epsilon, delta=delta, values=attack.values),
        luck=luck(outcome.recovered, outcome.total, epsilon=epsilon, delta=delta, values=attack.values),
        about=attack.weak if kind is Kind.UNDER_NOISED else "",
    )


def failed(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return the results that are not as expected."""
    return tuple(finding for finding in findings if not finding.passed)
