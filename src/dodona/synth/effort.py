"""How long a release takes and how much memory it needs, about, from public facts and before anything is charged."""

import math
from dataclasses import dataclass
from itertools import combinations

from dodona.synth.methods import Annealed, Guaranteed, Mwem, SynthesisMethod
from dodona.synth.workload import Workload

# Measured on one core of a server of 2024; a release takes up to three times more or less.
_START = 0.5
_CELL_STEP = 5e-9
_CANDIDATE = 1.5e-3
_VALUE = 8e-7
_STEPS, _LAST_STEPS = 30, 200
_USUAL_ROUNDS = 16
_MOST_CANDIDATES = 1 << 14
_PROGRAM = 200 << 20
_CELL_BYTES, _VALUE_BYTES = 32, 24
_MINUTE, _HOUR = 60, 3600


@dataclass(frozen=True, slots=True)
class Effort:
    """What a release takes of a machine, about."""

    seconds: float
    """Of one processor."""
    memory: int
    """In bytes, at most at one time."""

    def __str__(self) -> str:
        """Return the time and the memory in words.

        >>> print(Effort(7.3, 283_000_000)), print(Effort(150.0, 3_200_000_000))
        about 7 seconds and 0.3 GB of memory
        about 3 minutes and 3.2 GB of memory
        (None, None)
        """
        return f"about {_duration(self.seconds)} and {self.memory / 1e9:.1f} GB of memory"


def estimate_effort(workload: Workload, method: SynthesisMethod, *, cells: int, rows: int) -> Effort:
    """Return what a release of a workload takes, and so many rows of it.

    >>> from dodona.schema.attributes import Boolean
    >>> from dodona.schema.schema import Domain
    >>> small = Workload.ways(Domain(tuple(Boolean(name) for name in "abcd")), 2)
    >>> estimate_effort(small, Annealed(), cells=1 << 21, rows=1000).seconds < 5
    True
    """
    held, columns = min(workload.support.size, cells), len(workload.names)
    rounds = _rounds(method)
    fits = rounds * _STEPS + _LAST_STEPS
    scored = rounds * min(_MOST_CANDIDATES, _candidates(workload)) * _CANDIDATE
    seconds = _START + fits * held * _CELL_STEP + scored + rows * columns * _VALUE
    return Effort(seconds, _PROGRAM + held * _CELL_BYTES + rows * columns * _VALUE_BYTES)


def _rounds(method: SynthesisMethod) -> int:
    match method:
        case Annealed(rounds=rounds) | Mwem(rounds=rounds) | Guaranteed(rounds=rounds):
            return _USUAL_ROUNDS if rounds is None else rounds
        case _:
            return 1


def _candidates(workload: Workload) -> int:
    """Return how many marginals a round compares: those of the workload and of fewer of their columns."""
    marginals = set[frozenset[str]]()
    for block in workload.query.blocks:
        names = workload.marginal(block)
        if names is None:
            marginals.add(block.attributes)
        elif len(names) <= 3:  # noqa: PLR2004  more are rare, and their subsets many
            marginals.update(frozenset(some) for ways in range(1, len(names) + 1) for some in combinations(names, ways))
        if len(marginals) > _MOST_CANDIDATES:
            break
    return len(marginals)


def _duration(seconds: float) -> str:
    for unit, name in ((_HOUR, "hours"), (_MINUTE, "minutes")):
        if seconds > 2 * unit:
            return f"{math.ceil(seconds / unit)} {name}"
    whole = max(1, round(seconds))
    return "1 second" if whole == 1 else f"{whole} seconds"
