"""Methods of synthesis: annealed rounds (after AIM), MWEM, MWEM with its guarantee, and BLR."""

import math
from dataclasses import dataclass
from itertools import accumulate, combinations
from typing import Literal

import numpy as np

from dodona.errors import InvalidArgument
from dodona.knowledge.components import Belief, Mixture, MixtureBuilder
from dodona.knowledge.dense import DenseBelief
from dodona.knowledge.fit import FitState, ObservedBlock
from dodona.numbers import to_integer
from dodona.privacy.accuracy import to_failure_probability, validate_count
from dodona.privacy.additive_noise import Gaussian
from dodona.privacy.measurement import Noise
from dodona.privacy.scores import DistanceScores, ExcessScores, distance_sensitivity, excess_sensitivity
from dodona.query.query import Block
from dodona.synth.run import SynthesisRun
from dodona.synth.workload import InvalidWorkload, marginal_block, marginal_columns

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

    After AIM (McKenna, Mullins, Sheldon and Miklau 2022), on a belief that keeps every cell.
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


# --- Annealed rounds: measure the marginal farthest beyond its noise, refit, and lower the noise when gains are small.


_FIRST_ROUND_SHARE = 0.1
"""The share for the single columns, which every marginal needs."""
_CHOICE_SHARE = 0.1
"""The share of a round that pays for the choice."""
_ANNEALING_FACTOR = 4.0
"""The factor on the cost of a round once rounds gain less than their noise: it halves the noise."""
_ANNEALED_SWEEPS = 2
_ANNEALED_LAST_SWEEPS = 15
_SMALLEST = 1e-3
"""As a share of the whole: a smaller remainder is not worth a charge."""


def run_annealed(run: SynthesisRun, method: Annealed) -> FitState:
    """Return the belief after all rounds, and its measurements."""
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
    """Return the distance that noise alone causes, as a share of the rows."""
    return math.sqrt(2 / math.pi * seen.variance) * seen.values.size


def _mean_absolute_noise(noise: Noise) -> float:
    """Return the mean absolute value of the noise."""
    return float(noise.scale) * (math.sqrt(2 / math.pi) if isinstance(noise, Gaussian) else 1.0)


def _candidates(run: SynthesisRun) -> list[tuple[Block, int]]:
    """Return the blocks that may be measured, and the weight of each distance.

    For marginals: all subsets of workload marginals, weighted by the columns that they share with these.
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


# --- MWEM in equal rounds, and MWEM as in its theorem. ---


_MWEM_SWEEPS = 3
_MWEM_LAST_SWEEPS = 30


@dataclass(frozen=True, slots=True)
class ErrorGuarantee:
    """All answers are within a tolerance, as a share of the rows, with the given confidence."""

    within: float
    confidence: float
    theorem: str


def run_mwem(run: SynthesisRun, method: Mwem) -> tuple[FitState, Mixture | None]:
    """Return the last belief, and the mean of all beliefs if requested.

    The mean is over the beliefs that the choices were compared with, as in the theorem.
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
    """Return the block farthest from the belief, chosen for a share of the budget; None if the choice was lost."""
    query, ones, none = run.asked(blocks), (1,) * len(blocks), (0,) * len(blocks)
    choice = run.currency.choice(part, distance_sensitivity(query, ones, run.unit))
    found = run.choose(f"{number} choose", DistanceScores(query, run.believed(belief, blocks), ones, none, choice))
    return None if found is None else blocks[found]


def _refit(fitted: FitState, seen: tuple[ObservedBlock, ...]) -> FitState:
    return fitted.joined(seen).swept(_MWEM_SWEEPS, first=seen[0].block)


def _multiplicative_step(run: SynthesisRun, fitted: FitState, seen: tuple[ObservedBlock, ...]) -> FitState:
    """Return the belief after the literature's step: each cell times e^(weight·(measured - believed)/2), in shares."""
    query = run.workload.over([seen[0].block])
    away = np.clip((seen[0].values - fitted.belief.expect(query)) / 2, -1.0, 1.0)
    return FitState(fitted.belief.tilted(query, exponents=away), fitted.joined(seen).seen)


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
        # Cells of the answer grow by e^(±step); all others and the spare cell do not.
        counted = float(belief.expect(over)[own])
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
