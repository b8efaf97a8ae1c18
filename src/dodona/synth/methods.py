"""Methods of synthesis: annealed rounds (after AIM), MWEM, MWEM with its guarantee, and BLR."""

import math
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

import numpy as np

from dodona.errors import InvalidArgument
from dodona.knowledge.dense import DenseBelief
from dodona.knowledge.factored import FactoredBelief
from dodona.knowledge.fit import ObservedBlock
from dodona.knowledge.mixture import Mixture, MixtureBuilder
from dodona.numbers import to_integer
from dodona.privacy.accuracy import to_failure_probability, validate_count
from dodona.privacy.scores import DistanceScores, ExcessScores, distance_sensitivity, excess_sensitivity
from dodona.query.query import Block
from dodona.synth.run import SynthesisRun
from dodona.synth.workload import InvalidWorkload

# --- Error bounds of multiplicative weights with the exponential mechanism (MWEM), for declared questions. ---


MAX_THEOREM_ROUNDS = 10**6


def mwem_error(  # noqa: PLR0913  the parameters of the bound
    rows: int, *, universe: int, questions: int, rounds: int, epsilon: float, confidence: float = 0.95
) -> float:
    """Return √(ln|X|/2c) + (2/(nε))·ln(2kc/β): an error bound for all answers of the mean hypothesis, as row shares.

    Each of c rounds chooses one of the 2k questions and their negations by the exponential mechanism at ε, and updates
    the weights by e^{η·f}, η = √(8·ln|X|/c). Nothing else is paid for.

    >>> round(mwem_error(10**5, universe=1024, questions=1000, rounds=1154, epsilon=0.013), 4)
    0.082

    Theorem: mwem-accuracy
    """
    learned, choice = mwem_error_parts(rows, universe, rounds, epsilon)
    asked = validate_count(questions, argument="questions")
    return learned + choice * (math.log(2 * asked) + math.log(rounds / to_failure_probability(confidence)))


def mwem_step(*, universe: int, rounds: int) -> float:
    """Return the step η = √(8·ln|X|/c) for which the bound holds.

    Theorem: mwem-accuracy
    """
    return math.sqrt(8 * _potential(universe) / validate_count(rounds, argument="rounds", upper=MAX_THEOREM_ROUNDS))


def mwem_error_parts(rows: int, universe: int, rounds: int, epsilon: float) -> tuple[float, float]:
    """Return the error left by the weights, and the scale of the error of a choice."""
    if not 0 < epsilon < math.inf:
        raise InvalidArgument("epsilon", epsilon, "write what one choice costs, above 0")
    turns = validate_count(rounds, argument="rounds", upper=MAX_THEOREM_ROUNDS)
    learned = math.sqrt(_potential(universe) / (2 * turns))
    return learned, 2 / (validate_count(rows, argument="rows") * epsilon)


def _potential(universe: int) -> float:
    """Return ln|X|, the largest divergence from the uniform distribution."""
    if validate_count(universe, argument="universe", upper=1 << 500) == 1:
        raise InvalidArgument("universe", universe, "write at least 2 cells: one cell holds all rows")
    return math.log(universe)


# --- The four methods of releasing a workload, with their settings. ---


NoiseName = Literal["gaussian", "laplace"]
HypothesisKind = Literal["last", "average"]
UpdateKind = Literal["refit", "step"]
MAX_METHOD_ROUNDS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Annealed:
    """Choose the marginal farthest beyond its noise, measure it, refit; noise decreases once rounds bring little.

    After AIM (McKenna, Mullins, Sheldon and Miklau 2022), in batches. Where the whole workload can be measured with
    little noise, it is, at once, unless a number of rounds is given.
    """

    rounds: int | None = None
    """The initial pace: the number of rounds that the budget would last. The default is two per column."""
    law: NoiseName = "gaussian"

    def __post_init__(self) -> None:
        """Validate the number of rounds."""
        _check_rounds(self.rounds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mwem:
    """MWEM (Hardt, Ligett and McSherry 2012): choose the worst block, measure it, update the belief; equal rounds."""

    rounds: int = 10
    law: NoiseName = "gaussian"
    hypothesis: HypothesisKind = "last"
    update: UpdateKind = "refit"
    """Refit to all measurements, or take the textbook's single step e^(weight·(measured - believed)/2)."""

    def __post_init__(self) -> None:
        """Validate the number of rounds."""
        _check_rounds(self.rounds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Guaranteed:
    """MWEM as in its theorem: only choices and their signs are paid for, and the mean of all beliefs is released."""

    rounds: int | None = None
    """The default is the number with the best guarantee."""
    confidence: float = 0.95

    def __post_init__(self) -> None:
        """Validate the number of rounds."""
        _check_rounds(self.rounds)
        to_failure_probability(self.confidence)


@dataclass(frozen=True, slots=True, kw_only=True)
class Blr:
    """The exponential mechanism over all small databases (Blum, Ligett and Roth 2008), for toy universes."""

    rows: int | None = None
    """The number of rows of a database."""
    within: float | None = None
    """The distance of the best database from the table: rows > ln(2k)/(2·within²), by the lemma."""
    confidence: float = 0.95

    def __post_init__(self) -> None:
        """Refuse `rows` and `within` together."""
        to_failure_probability(self.confidence)
        if self.rows is not None and self.within is not None:
            instead = "Write the number of rows, or within for the lemma's."
            raise InvalidWorkload(f"Both rows and within were given. {instead}")
        if self.rows is not None:
            to_integer(self.rows, argument="rows", lower=1, upper=10**9)
        if self.within is not None and not 0 < self.within < 1:
            raise InvalidWorkload(f"within = {self.within} is no share of the rows. Write one between 0 and 1.")


SynthesisMethod = Annealed | Mwem | Guaranteed | Blr


def method_name(method: SynthesisMethod) -> str:
    """Return the name of a method.

    >>> method_name(Blr())
    'blr'
    """
    return type(method).__name__.lower()


def _check_rounds(rounds: int | None) -> None:
    if rounds is not None:
        to_integer(rounds, argument="rounds", lower=1, upper=MAX_METHOD_ROUNDS)


# --- MWEM in equal rounds, and MWEM as in its theorem. ---


_MWEM_STEPS = 30
_MWEM_LAST_STEPS = 200


@dataclass(frozen=True, slots=True)
class ErrorGuarantee:
    """All answers are within a tolerance, as a share of the rows, with the given confidence."""

    within: float
    confidence: float
    theorem: str


def run_mwem(run: SynthesisRun, method: Mwem) -> tuple[FactoredBelief, Mixture | None]:
    """Return the last belief, and the mean of all beliefs if requested.

    The mean is over the beliefs that the choices were compared with, as in the theorem.
    """
    part = run.total * (1 - 1e-9) / method.rounds
    for block in run.workload.query.blocks:  # more noise than can be drawn is refused before the first charge
        run.currency.noise(part / 2, run.sensitivity([block]))
    belief, mean = run.begin(), MixtureBuilder()
    for number in range(1, method.rounds + 1):
        if method.hypothesis == "average":
            mean.add(belief)
        blocks = [block for block in run.workload.query.blocks if belief.holds([block])]
        if not blocks:  # every other block would tie too many cells together
            break
        worst = _choose_worst_block(run, belief, blocks, number, part / 2)
        seen = () if worst is None else run.measure(f"{number} measure", [worst], part / 2)
        if worst is not None and seen and belief.holds([seen[0].block]):
            belief = _multiplicative_step(run, belief, seen[0]) if method.update == "step" else _refit(belief, seen)
    if method.update == "refit":
        belief = belief.fitted(_MWEM_LAST_STEPS)
    return belief, mean.mixture() if method.hypothesis == "average" else None


def _choose_worst_block(
    run: SynthesisRun, belief: FactoredBelief, blocks: list[Block], number: int, part: float
) -> Block | None:
    """Return the block farthest from the belief, chosen for a share of the budget; None if the choice was lost."""
    query, ones, none = run.asked(blocks), (1,) * len(blocks), (0,) * len(blocks)
    choice = run.currency.choice(part, distance_sensitivity(query, ones, run.unit))
    scores = DistanceScores(query, run.believed(belief, blocks), ones, none, choice)
    chosen = run.choose_blocks(f"{number} choose", scores)
    return chosen[0] if chosen else None


def _refit(belief: FactoredBelief, seen: tuple[ObservedBlock, ...]) -> FactoredBelief:
    return belief.joined(seen).fitted(_MWEM_STEPS)


def _multiplicative_step(run: SynthesisRun, belief: FactoredBelief, seen: ObservedBlock) -> FactoredBelief:
    """Return the belief after the literature's step: each cell times e^(weight·(measured - believed)/2), in shares."""
    away = np.clip((seen.values - belief.expect(run.workload.over([seen.block]))) / 2, -1.0, 1.0)
    return belief.joined([seen]).tilted(seen.block, away)


def run_guaranteed(run: SynthesisRun, method: Guaranteed) -> tuple[Mixture, float, ErrorGuarantee | None]:
    """Return the mean of all beliefs, the share of the declared rows that it covers, and its guarantee.

    Each round pays for one choice among all answers and their negations. If the table may have fewer rows than
    declared, the missing rows are in one spare cell, which no question counts and which is modelled like the others.
    There is no guarantee if a choice was lost after its charge.

    Theorem: mwem-accuracy
    """
    query = run.workload.query
    rounds, promise = plan_rounds(run, method)
    kept: ErrorGuarantee | None = promise
    step = mwem_step(universe=_universe_size(run), rounds=rounds)
    choice = run.currency.choice(run.total * (1 - 1e-9) / rounds, excess_sensitivity(query, run.unit))
    belief = DenseBelief.uniform(run.workload.support)
    spare = 1 - run.workload.support.size / _universe_size(run)
    mean, shares = MixtureBuilder(), []
    ends = list(accumulate(block.values for block in query.blocks))
    for number in range(1, rounds + 1):
        mean.add(belief, weight=1 - spare)
        shares.append(1 - spare)
        believed = run.believed(belief, query.blocks, share=1 - spare)
        chosen = run.choose(f"{number} choose", ExcessScores(query, believed, choice))
        if not chosen:
            kept = None
            continue
        side, answer = (1.0, chosen[0]) if chosen[0] < query.values else (-1.0, chosen[0] - query.values)
        place = next(place for place, end in enumerate(ends) if answer < end)
        block = query.blocks[place]
        position = answer - (ends[place] - block.values)
        exponents = np.zeros(block.values)
        exponents[position] = side * step
        over = run.workload.over([block])
        # Cells of the answer grow by e^(±step); all others and the spare cell do not.
        counted = float(belief.expect(over)[position])
        grown = 1 + counted * math.expm1(side * step)
        spare = spare / (spare + (1 - spare) * grown)
        belief = belief.tilted(over, exponents=exponents)
    return mean.mixture(), sum(shares) / rounds, kept


def _universe_size(run: SynthesisRun) -> int:
    """Return the number of cells, including a spare one if some declared rows may be in none of them."""
    complete = run.unit.fixed and not run.workload.values_only
    return run.workload.support.size + (0 if complete else 1)


def plan_rounds(run: SynthesisRun, method: Guaranteed) -> tuple[int, ErrorGuarantee]:
    """Return the number of rounds with the best guarantee, and that guarantee.

    Beliefs are rounded to whole rows before they are compared, and so is the final number of rows: two rows of the
    bound cover that. If a person has several rows, the error of a choice is multiplied by their number.
    """
    moved = excess_sensitivity(run.workload.query, run.unit)

    def within(rounds: int) -> float:
        event = run.currency.choice(run.total / rounds, moved).event(moved)
        error = mwem_error(
            run.size,
            universe=_universe_size(run),
            questions=run.workload.query.values,
            rounds=rounds,
            epsilon=float(event.epsilon) / moved.linf,
            confidence=method.confidence,
        )
        return error + 2 / run.size

    if method.rounds is not None:
        best = method.rounds
    else:
        steps = range(int(20 * math.log(MAX_METHOD_ROUNDS)) + 1)
        tried = sorted({max(1, round(math.exp(step / 20))) for step in steps})
        best = min(tried, key=within)
    return best, ErrorGuarantee(within(best), method.confidence, "mwem-accuracy")
