"""Methods of synthesis: annealed rounds (after AIM), MWEM, MWEM with its guarantee, and BLR."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate, combinations
from typing import Literal, assert_never

import numpy as np

from dodona.errors import InvalidArgument
from dodona.knowledge.dense import DenseBelief
from dodona.knowledge.fit import Belief, FitState, ObservedBlock
from dodona.numbers import to_integer
from dodona.privacy.accuracy import to_failure_probability, validate_count
from dodona.privacy.additive_noise import Gaussian
from dodona.privacy.measurement import Noise
from dodona.privacy.scores import DistanceScores, ExcessScores, distance_sensitivity, excess_sensitivity
from dodona.query.query import Block
from dodona.synth.mixture import Mixture, MixtureBuilder
from dodona.synth.run import SynthesisRun
from dodona.synth.workload import InvalidWorkload, marginal_block, marginal_columns

# --- What multiplicative weights with the exponential mechanism (MWEM) promise for questions that are all declared. ---


MAX_THEOREM_ROUNDS = 10**6


def mwem_error(  # noqa: PLR0913  the sides of the promise
    rows: int, *, universe: int, questions: int, rounds: int, epsilon: float, confidence: float = 0.95
) -> float:
    """Return √(ln|X|/2c) + (2/(nε))·ln(2kc/β): all answers of the mean hypothesis are within it, as shares of the rows.

    Each of c rounds chooses one of the 2k questions and their opposites by the exponential mechanism at ε, and moves
    the weights by e^{η·f}, η = √(8·ln|X|/c). Nothing else is bought.

    >>> round(mwem_error(10**5, universe=1024, questions=1000, rounds=1154, epsilon=0.013), 4)
    0.082

    Theorem: mwem-accuracy
    """
    learned, choice = _error_parts(rows, universe, rounds, epsilon)
    asked = validate_count(questions, argument="questions")
    return learned + choice * (math.log(2 * asked) + math.log(rounds / to_failure_probability(confidence)))


def mwem_mean_error(  # noqa: PLR0913  the sides of the promise
    rows: int, *, universe: int, questions: int, rounds: int, epsilon: float, confidence: float = 0.95
) -> float:
    """Return √(ln|X|/2c) + (2/(nε))·(ln 2k + G/c), G the 1 - β quantile of the sum of c exponential variables.

    It is the same mechanism: only the mean of what the choices miss counts, and a mean is seldom far off.

    Theorem: mwem-accuracy
    """
    from scipy.special import gammainccinv

    learned, choice = _error_parts(rows, universe, rounds, epsilon)
    asked = validate_count(questions, argument="questions")
    missed = float(gammainccinv(rounds, to_failure_probability(confidence))) / rounds
    return learned + choice * (math.log(2 * asked) + missed * (1 + 1e-9))


def mwem_step(*, universe: int, rounds: int) -> float:
    """Return the step η = √(8·ln|X|/c) at which the promise holds.

    Theorem: mwem-accuracy
    """
    return math.sqrt(8 * _potential(universe) / validate_count(rounds, argument="rounds", upper=MAX_THEOREM_ROUNDS))


def _error_parts(rows: int, universe: int, rounds: int, epsilon: float) -> tuple[float, float]:
    """Return what the weights leave, and the scale of what a choice misses."""
    if not 0 < epsilon < math.inf:
        raise InvalidArgument("epsilon", epsilon, "write what one choice costs, above 0")
    learned = math.sqrt(
        _potential(universe) / (2 * validate_count(rounds, argument="rounds", upper=MAX_THEOREM_ROUNDS))
    )
    return learned, 2 / (validate_count(rows, argument="rows") * epsilon)


def _potential(universe: int) -> float:
    """Return ln|X|, the largest divergence from the even distribution."""
    if validate_count(universe, argument="universe", upper=1 << 500) == 1:
        raise InvalidArgument("universe", universe, "write at least 2 cells: one cell holds all rows")
    return math.log(universe)


# --- How a workload is released: one of four methods, with what may be set. ---


NoiseName = Literal["gaussian", "laplace"]
HypothesisKind = Literal["last", "average"]
UpdateKind = Literal["refit", "step"]
MAX_METHOD_ROUNDS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Annealed:
    """Choose the marginal that is farthest beyond its noise, measure it, fit all; noise falls when rounds bring little.

    After AIM (McKenna, Mullins, Sheldon and Miklau 2022), on a belief that keeps every cell.
    """

    rounds: int | None = None
    """At which pace it begins: the budget would last for so many rounds. Two for each column where nothing is said."""
    law: NoiseName = "gaussian"

    def __post_init__(self) -> None:
        """Refuse what is no number of rounds."""
        _check_rounds(self.rounds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mwem:
    """MWEM (Hardt, Ligett and McSherry 2012): choose the worst block, measure it, move the belief; even rounds."""

    rounds: int = 10
    law: NoiseName = "gaussian"
    hypothesis: HypothesisKind = "last"
    update: UpdateKind = "refit"
    """All measurements fitted together, or the textbook's one step e^(weight·(told - believed)/2)."""

    def __post_init__(self) -> None:
        """Refuse what is no number of rounds."""
        _check_rounds(self.rounds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Guaranteed:
    """MWEM as its theorem has it: only choices are bought, with their side, and the mean of all beliefs is released."""

    rounds: int | None = None
    """Those with the best promise where nothing is said."""
    confidence: float = 0.95

    def __post_init__(self) -> None:
        """Refuse what is no number of rounds."""
        _check_rounds(self.rounds)
        to_failure_probability(self.confidence)


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
        to_failure_probability(self.confidence)
        if self.rows is not None and self.within is not None:
            raise InvalidWorkload(
                "Both rows and within were given. Write the number of rows, or within for the lemma's."
            )
        if self.rows is not None:
            to_integer(self.rows, argument="rows", lower=1, upper=10**9)
        if self.within is not None and not 0 < self.within < 1:
            raise InvalidWorkload(f"within = {self.within} is no share of the rows. Write one between 0 and 1.")


SynthesisMethod = Annealed | Mwem | Guaranteed | Blr


def method_name(method: SynthesisMethod) -> str:
    """Return the word for a method.

    >>> method_name(Blr())
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


def _check_rounds(rounds: int | None) -> None:
    if rounds is not None:
        to_integer(rounds, argument="rounds", lower=1, upper=MAX_METHOD_ROUNDS)


# --- Annealed rounds: buy the marginal that is farthest beyond its noise, fit, and lower the noise when that is little.


_FIRST_ROUND_SHARE = 0.1
"""The part that goes into the single columns, which every marginal needs."""
_CHOICE_SHARE = 0.1
"""The part of a round that goes into the choice."""
_ANNEALING_FACTOR = 4.0
"""How many times as much a round costs, once rounds bring less than their noise: noise is halved."""
_ANNEALED_SWEEPS = 2
_ANNEALED_LAST_SWEEPS = 15
_SMALLEST = 1e-3
"""Of the whole: what is left over in the end buys nothing worth a charge."""


def run_annealed(run: SynthesisRun, method: Annealed) -> FitState:
    """Return the belief after all rounds, and what it was fitted to."""
    candidates = _candidates(run)
    singles = [marginal_block(run.workload.query.domain, [name]) for name in run.workload.names]
    fitted = FitState(run.workload.uniform(cells=run.cells))
    whole = run.total * (1 - 1e-9)
    fitted = fitted.joined(run.measure("singles", singles, _FIRST_ROUND_SHARE * whole)).swept(_ANNEALED_SWEEPS)
    rounds = 2 * len(singles) if method.rounds is None else method.rounds
    pace, number = (whole - run.spent) / rounds, 0
    while whole - run.spent > _SMALLEST * whole:
        left = whole - run.spent
        part = left if left < 2 * pace else pace
        number += 1
        fitted, gained = _annealed_round(run, fitted, candidates, number, part)
        if not gained:
            pace *= _ANNEALING_FACTOR
    return fitted.swept(_ANNEALED_LAST_SWEEPS)


def _annealed_round(
    run: SynthesisRun, fitted: FitState, candidates: list[tuple[Block, int]], number: int, part: float
) -> tuple[FitState, bool]:
    """Return the belief after one round, and whether it moved by more than the noise."""
    open_ones = [one for one in candidates if run.holds(fitted.belief, one[0])]
    blocks = [block for block, _ in open_ones]
    believed = run.believed(fitted.belief, blocks)
    factors = tuple(factor for _, factor in open_ones)
    paid = (1 - _CHOICE_SHARE) * part
    noises = [run.currency.noise(paid, run.sensitivity([block])) for block in blocks]
    lost = [
        factor * math.floor(_mean_absolute_noise(noise) * block.values)
        for block, noise, factor in zip(blocks, noises, factors, strict=True)
    ]
    query = run.asked(blocks)
    choice = run.currency.choice(_CHOICE_SHARE * part, distance_sensitivity(query, factors, run.unit))
    found = run.choose(f"{number} choose", DistanceScores(query, believed, factors, tuple(lost), choice))
    if found is None:
        return fitted, True
    block = blocks[found]
    seen = run.measure(f"{number} measure", [block], paid)
    if not seen:
        return fitted, True
    before = fitted.belief.expect(run.workload.over([block]))
    fitted = fitted.joined(seen).swept(_ANNEALED_SWEEPS, first=block)
    moved = float(np.abs(fitted.belief.expect(run.workload.over([block])) - before).sum())
    return fitted, moved > _noise_distance(seen[0])


def _noise_distance(seen: ObservedBlock) -> float:
    """Return the distance that noise alone makes, in shares."""
    return math.sqrt(2 / math.pi * seen.variance) * seen.values.size


def _mean_absolute_noise(noise: Noise) -> float:
    """Return how far noise is off on average."""
    return float(noise.scale) * (math.sqrt(2 / math.pi) if isinstance(noise, Gaussian) else 1.0)


def _candidates(run: SynthesisRun) -> list[tuple[Block, int]]:
    """Return what may be measured, and how much each distance counts.

    Of marginals, all that are part of one count for the columns that they share with those of the workload.
    """
    domain, found = run.workload.query.domain, dict[Block, int]()
    sets = [names for block in run.workload.query.blocks if (names := marginal_columns(block)) is not None]
    for names in sets:
        for ways in range(1, len(names) + 1):
            for some in combinations(names, ways):
                block = marginal_block(domain, some)
                if block not in found:
                    found[block] = sum(len(set(some) & set(other)) for other in sets)
    usual = max(found.values(), default=1)
    for block in run.workload.query.blocks:
        found.setdefault(block, usual)
    return list(found.items())


# --- MWEM in even rounds, and MWEM as its theorem has it. ---


_MWEM_SWEEPS = 3
_MWEM_LAST_SWEEPS = 30


@dataclass(frozen=True, slots=True)
class ErrorGuarantee:
    """All answers are within so much, as shares of the rows, with so much confidence."""

    within: float
    confidence: float
    theorem: str


def run_mwem(run: SynthesisRun, method: Mwem) -> tuple[FitState, Mixture | None]:
    """Return the last belief, and the mean of all where that is what is wanted.

    The mean is over the beliefs that the choices were made against, as in the theorem.
    """
    part = run.total * (1 - 1e-9) / method.rounds
    fitted, mean = FitState(run.workload.uniform(cells=run.cells)), MixtureBuilder()
    for number in range(1, method.rounds + 1):
        if method.hypothesis == "average":
            mean.add(fitted.belief)
        blocks = [block for block in run.workload.query.blocks if run.holds(fitted.belief, block)]
        if not blocks:  # every other block would tie too many cells together
            break
        found = _choose_worst_block(run, fitted.belief, blocks, number, part / 2)
        seen = () if found is None else run.measure(f"{number} measure", [found], part / 2)
        if found is not None and seen:
            fitted = _multiplicative_step(run, fitted, seen) if method.update == "step" else _refit(fitted, seen)
    if method.update == "refit":
        fitted = fitted.swept(_MWEM_LAST_SWEEPS)
    return fitted, mean.mixture() if method.hypothesis == "average" else None


def _choose_worst_block(
    run: SynthesisRun, belief: Belief, blocks: list[Block], number: int, part: float
) -> Block | None:
    """Return the block that is farthest from the belief, chosen for a part of the budget; None where it was lost."""
    query, ones, none = run.asked(blocks), (1,) * len(blocks), (0,) * len(blocks)
    choice = run.currency.choice(part, distance_sensitivity(query, ones, run.unit))
    found = run.choose(f"{number} choose", DistanceScores(query, run.believed(belief, blocks), ones, none, choice))
    return None if found is None else blocks[found]


def _refit(fitted: FitState, seen: tuple[ObservedBlock, ...]) -> FitState:
    return fitted.joined(seen).swept(_MWEM_SWEEPS, first=seen[0].block)


def _multiplicative_step(run: SynthesisRun, fitted: FitState, seen: tuple[ObservedBlock, ...]) -> FitState:
    """Return the belief after the sources' step: each cell times e^(weight·(told - believed)/2), in shares."""
    query = run.workload.over([seen[0].block])
    away = np.clip((seen[0].values - fitted.belief.expect(query)) / 2, -1.0, 1.0)
    return FitState(fitted.belief.tilted(query, exponents=away), fitted.joined(seen).seen)


def run_guaranteed(run: SynthesisRun, method: Guaranteed) -> tuple[Mixture, float, ErrorGuarantee | None]:
    """Return the mean of all beliefs, which part of the declared rows it is about, and what is promised of it.

    Each round buys one choice among all answers and their opposites. Where the table may have fewer rows than declared,
    those that are missing are in one spare cell, which no question counts and which is believed in as the others are.
    Nothing is promised where a choice was lost after its charge.

    Theorem: mwem-accuracy
    """
    query = run.workload.query
    rounds, promise = plan_rounds(run, method)
    kept: ErrorGuarantee | None = promise
    step = mwem_step(universe=_universe_size(run), rounds=rounds)
    choice = run.currency.choice(run.total * (1 - 1e-9) / rounds, excess_sensitivity(query, run.unit))
    belief: Belief = DenseBelief.uniform(run.workload.support)
    spare = 1 - run.workload.support.size / _universe_size(run)
    mean, shares = MixtureBuilder(), []
    ends = list(accumulate(block.values for block in query.blocks))
    for number in range(1, rounds + 1):
        mean.add(belief, weight=1 - spare)
        shares.append(1 - spare)
        believed = run.believed(belief, query.blocks, share=1 - spare)
        found = run.choose(f"{number} choose", ExcessScores(query, believed, choice))
        if found is None:
            kept = None
            continue
        side, answer = (1.0, found) if found < query.values else (-1.0, found - query.values)
        place = next(place for place, end in enumerate(ends) if answer < end)
        block = query.blocks[place]
        own = answer - (ends[place] - block.values)
        exponents = np.zeros(block.values)
        exponents[own] = side * step
        over = run.workload.over([block])
        counted = float(
            belief.expect(over)[own]
        )  # cells of the answer grow by e^(±step), all others and the spare do not
        grown = 1 + counted * math.expm1(side * step)
        spare = spare / (spare + (1 - spare) * grown)
        belief = belief.tilted(over, exponents=exponents)
    return mean.mixture(), sum(shares) / rounds, kept


def _universe_size(run: SynthesisRun) -> int:
    """Return the number of cells, with a spare one where not every declared row need be in one of them."""
    complete = run.unit.fixed and not run.workload.values_only
    return run.workload.support.size + (0 if complete else 1)


def plan_rounds(run: SynthesisRun, method: Guaranteed) -> tuple[int, ErrorGuarantee]:
    """Return the number of rounds with the best promise, and that promise.

    Beliefs are rounded to whole rows before they are compared, and so is how many rows there are in the end: two rows
    of the promise cover that. Where a person has several rows, a choice misses so many times as much.
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
        tried = sorted(
            {max(1, round(math.exp(step / 20))) for step in range(int(20 * math.log(MAX_METHOD_ROUNDS)) + 1)}
        )
        best = min(tried, key=within)
    return best, ErrorGuarantee(within(best), method.confidence, "mwem-accuracy")
