"""How a workload is released: one of four methods, with what may be set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, assert_never

from dodona.accuracy import failure
from dodona.exact import whole
from dodona.offline.faults import WorkloadUnfit

Law = Literal["gaussian", "laplace"]
Hypothesis = Literal["last", "average"]
Update = Literal["refit", "step"]
MOST_ROUNDS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Annealed:
    """Choose the marginal that is farthest beyond its noise, measure it, fit all; noise falls when rounds bring little.

    After AIM (McKenna, Mullins, Sheldon and Miklau 2022), on a belief that keeps every cell.
    """

    rounds: int | None = None
    """At which pace it begins: the budget would last for so many rounds. Two for each column where nothing is said."""
    law: Law = "gaussian"

    def __post_init__(self) -> None:
        """Refuse what is no number of rounds."""
        _rounds(self.rounds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mwem:
    """MWEM (Hardt, Ligett and McSherry 2012): choose the worst block, measure it, move the belief; even rounds."""

    rounds: int = 10
    law: Law = "gaussian"
    hypothesis: Hypothesis = "last"
    update: Update = "refit"
    """All measurements fitted together, or the textbook's one step e^(weight·(told - believed)/2)."""

    def __post_init__(self) -> None:
        """Refuse what is no number of rounds."""
        _rounds(self.rounds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Guaranteed:
    """MWEM as its theorem has it: only choices are bought, with their side, and the mean of all beliefs is released."""

    rounds: int | None = None
    """Those with the best promise where nothing is said."""
    confidence: float = 0.95

    def __post_init__(self) -> None:
        """Refuse what is no number of rounds."""
        _rounds(self.rounds)
        failure(self.confidence)


@dataclass(frozen=True, slots=True, kw_only=True)
class Blr:
    """The exponential mechanism over all small databases (Blum, Ligett and Roth 2008), for toy universes."""

    rows: int | None = None
    """Of a database."""
    within: float | None = None
    """How near the best database is to be: rows > ln(2k)/(2·within²), as the lemma has it."""
    confidence: float = 0.95

    def __post_init__(self) -> None:
        """Refuse two ways to say one thing."""
        failure(self.confidence)
        if self.rows is not None and self.within is not None:
            raise WorkloadUnfit("Both rows and within were given. Write the number of rows, or within for the lemma's.")
        if self.rows is not None:
            whole(self.rows, argument="rows", lower=1, upper=10**9)
        if self.within is not None and not 0 < self.within < 1:
            raise WorkloadUnfit(f"within = {self.within} is no share of the rows. Write one between 0 and 1.")


Method = Annealed | Mwem | Guaranteed | Blr


def named(method: Method) -> str:
    """Return the word for a method.

    >>> named(Blr())
    'blr'
    """
    match method:
        case Annealed():
            return "annealed"
        case Mwem():
            return "mwem"
        case Guaranteed():
            return "guaranteed"
        case Blr():
            return "blr"
        case _:
            assert_never(method)


def _rounds(rounds: int | None) -> None:
    if rounds is not None:
        whole(rounds, argument="rounds", lower=1, upper=MOST_ROUNDS)
