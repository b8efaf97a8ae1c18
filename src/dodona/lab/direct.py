"""One mechanism on a given value, without a ledger: for teaching, tests, audits and the local model.

Nothing is charged or stored; use `dodona.open` to put a table behind a budget.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import assert_never, overload

import numpy as np
from numpy.typing import NDArray

from dodona.errors import InvalidArgument
from dodona.lab import sampling
from dodona.lab.mechanisms import (
    Coins,
    Exponential,
    Gaussian,
    GridLaplace,
    IteratedSelection,
    Laplace,
    NoisyMax,
    PermuteAndFlip,
    RandomizedResponse,
    RoundedGaussian,
    SparseVector,
)
from dodona.lab.sparse_vector import EstimateVerdict, judge
from dodona.numbers import Exact, to_fraction, to_integer
from dodona.privacy.additive_noise import Noise
from dodona.privacy.sparse_vector import EstimateChecker
from dodona.trusted.entropy import SYSTEM
from dodona.trusted.gate import OpenSparseVector
from dodona.trusted.samplers import contest
from dodona.trusted.samplers.draw import draw_many, draw_one

ResponseMechanism = RandomizedResponse | Coins
SelectionMechanism = Exponential | PermuteAndFlip
Integers = Sequence[int] | NDArray[np.integer]
Booleans = Sequence[bool] | NDArray[np.bool_]
ScoreSequence = Sequence[Exact] | NDArray[np.integer]
_MOST_DRAWN = 1 << 40


@dataclass(frozen=True, slots=True)
class Winner:
    """The output of report noisy max."""

    index: int
    gap: int
    """How far the winner's noisy score is above the least that would have won."""


@dataclass(frozen=True, slots=True)
class SelectionRound:
    """The output of one round of iterated selection."""

    index: int
    value: int
    """The score with fresh noise."""


@overload
def run(mechanism: Noise, value: int, /) -> int: ...
@overload
def run(mechanism: Noise, value: Integers, /) -> NDArray[np.int64]: ...
@overload
def run(mechanism: ResponseMechanism, value: bool, /) -> bool: ...  # noqa: FBT001  the value that is asked about
@overload
def run(mechanism: ResponseMechanism, value: Booleans, /) -> NDArray[np.bool_]: ...
@overload
def run(mechanism: SelectionMechanism, value: ScoreSequence, /) -> int: ...
@overload
def run(mechanism: NoisyMax, value: Integers, /) -> Winner: ...
@overload
def run(mechanism: GridLaplace, value: Exact, /) -> Fraction: ...
@overload
def run(mechanism: IteratedSelection, value: Integers, /) -> tuple[SelectionRound, ...]: ...
def run(  # noqa: PLR0911  one case a mechanism
    mechanism: Noise | ResponseMechanism | SelectionMechanism | NoisyMax | GridLaplace | IteratedSelection,
    value: object,
    /,
) -> int | bool | Fraction | Winner | tuple[SelectionRound, ...] | NDArray[np.int64] | NDArray[np.bool_]:
    """Return the output of the mechanism on the value, with fresh randomness.

    Noise takes an integer or several, Laplace on a grid a real number; randomized response takes a boolean or several;
    selections take the candidates' scores and return an index, noisy max with its gap, iterated selection an index and
    a noisy score for each round.

    >>> type(run(Laplace(scale=2), 42))
    <class 'int'>
    >>> run(Exponential(scale="1/10"), [0, 1_000, 3])
    1
    """
    match mechanism:
        case Laplace() | Gaussian() | RoundedGaussian():
            if type(value) is int:
                return value + draw_one(mechanism)
            if isinstance(value, np.integer):
                return int(value) + draw_one(mechanism)
            values = _integers(value)
            return values + draw_many(mechanism, values.size)
        case RandomizedResponse() | Coins():
            single = isinstance(value, bool | np.bool_)
            responses = _respond(mechanism, _booleans([value] if single else value))
            return bool(responses[0]) if single else responses
        case Exponential() | PermuteAndFlip():
            return int(repeat(mechanism, value, 1)[0])
        case NoisyMax():
            index, gap = repeat(mechanism, value, 1)[0].tolist()
            return Winner(index, gap)
        case GridLaplace():
            return mechanism.grid * (mechanism.steps(_number(value)) + draw_one(mechanism.noise))
        case IteratedSelection():
            return _select(mechanism, _integers(value).tolist())
        case _:
            raise InvalidArgument(
                "mechanism", mechanism, "write one of dodona.lab.mechanisms; a sparse vector is watched"
            )


def repeat(mechanism: SelectionMechanism | NoisyMax, scores: object, times: int, /) -> NDArray[np.int64]:
    """Return `times` independent outputs of a selection on the same scores: indices, or rows of (index, gap)."""
    count = to_integer(times, argument="times", lower=1, upper=10**9)
    match mechanism:
        case Exponential():
            return contest.contests(_scores(scores), count, unit=1 / mechanism.scale, draw=contest.ContestLaw.GUMBEL)
        case PermuteAndFlip():
            return contest.contests(
                _scores(scores), count, unit=1 / mechanism.scale, draw=contest.ContestLaw.EXPONENTIAL
            )
        case NoisyMax():
            return sampling.noisy_maxima(_scores(scores), mechanism.scale, count)
        case _:
            assert_never(mechanism)


def watch(mechanism: SparseVector) -> OpenSparseVector:
    """Return an open sparse vector that answers until its last positive.

    >>> from dodona.lab.sparse_vector import above_threshold
    >>> from dodona.schema.schema import Neighbours
    >>> from dodona.query.sensitivity import Sensitivity
    >>> opened = watch(above_threshold(100, Sensitivity.count(Neighbours.ADD_REMOVE)))
    >>> opened.ask(3, threshold=1_000).above, opened.ask(2_000, threshold=1_000).above
    (False, True)
    """
    return OpenSparseVector(mechanism, lambda scale: draw_one(Laplace(scale=scale)))


class Interactive:
    """The open interactive mechanism: checks estimates against exact counts, and gives a fresh answer if far off.

    Theorem: private-multiplicative-weights
    """

    def __init__(self, checker: EstimateChecker) -> None:
        """Open its test."""
        self._checker = checker
        self._watch = watch(checker.test)

    def ask(self, count: int, estimate: int) -> tuple[EstimateVerdict, int | None]:
        """Return the noisy verdict on an estimate, and a fresh noisy count if it is not correct.

        After as many fresh answers as the checker has updates, the next verdict that is not correct raises Halted.
        """
        return judge(self._checker, count, estimate, watch=self._watch, draw=draw_one)


def interactive(checker: EstimateChecker) -> Interactive:
    """Return the open interactive mechanism of the notes: a noisy three-way checker with at most k fresh answers.

    >>> from dodona.lab.weights import interactive_design as design
    >>> opened = interactive(design(0.1, rows=10**6, universe=2**10, questions=10**3).checker)
    >>> opened.ask(500_000, 500_100)[0].value, opened.ask(100_000, 900_000)[0].value
    ('correct', 'too high')
    """
    return Interactive(checker)


def coins(probability: Exact, words: int) -> NDArray[np.uint64]:
    """Return words of 64 independent coins each, which are 1 with exactly this rational probability.

    >>> coins(1, 2).tolist() == [2**64 - 1] * 2
    True
    """
    chosen = to_fraction(probability, argument="probability", lower=Fraction(0), upper=Fraction(1))
    return sampling.toss_coins(chosen, to_integer(words, argument="words", lower=0, upper=_MOST_DRAWN))


def dice(faces: int, count: int) -> NDArray[np.uint64]:
    """Return independent uniform integers from 0 to faces - 1."""
    sides = to_integer(faces, argument="faces", lower=1, upper=1 << 63)
    return sampling.roll_dice(sides, to_integer(count, argument="count", lower=0, upper=_MOST_DRAWN))


def _respond(mechanism: ResponseMechanism, truth: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return each truth, or its opposite with the mechanism's probability."""
    words = SYSTEM.words(truth.size)
    match mechanism:
        case RandomizedResponse(epsilon=epsilon):
            honest = sampling.truths(epsilon, words, SYSTEM.word)
            return np.equal(truth, honest)
        case Coins():
            heads, second = (words & np.uint64(1)) > 0, (words & np.uint64(2)) > 0
            responses: NDArray[np.bool_] = np.where(heads, second, truth)
            return responses
        case _:
            assert_never(mechanism)


def _select(mechanism: IteratedSelection, scores: list[int]) -> tuple[SelectionRound, ...]:
    """Return distinct candidates, each selected among the remaining ones, with a fresh noisy score."""
    if mechanism.rounds > len(scores):
        raise InvalidArgument("rounds", mechanism.rounds, f"write at most {len(scores)}, the number of candidates")
    left, rounds = list(range(len(scores))), []
    for _ in range(mechanism.rounds):
        index = left.pop(run(mechanism.choice, [scores[place] for place in left]))
        rounds.append(SelectionRound(index, scores[index] + draw_one(mechanism.answer)))
    return tuple(rounds)


def _number(value: object) -> Exact:
    if isinstance(value, bool) or not isinstance(value, int | str | Fraction | Decimal | float):
        raise InvalidArgument("value", value, "write one number, such as 2.5, '1/3' or Fraction(1, 3)")
    return value


def _integers(value: object) -> NDArray[np.int64]:
    if not isinstance(value, Sequence | np.ndarray) or isinstance(value, str):
        accepted = "write an integer, or a flat list of integers; put other numbers on a grid of your choice first"
        raise InvalidArgument("value", value, accepted)
    return contest.integers(value, argument="value")


def _booleans(value: object) -> NDArray[np.bool_]:
    truths = np.asarray(value)
    if truths.ndim != 1 or truths.size == 0 or truths.dtype != np.bool_:
        raise InvalidArgument("value", value, "write True or False, or a flat list of them")
    return truths


def _scores(scores: object) -> ScoreSequence:
    if isinstance(scores, str) or not isinstance(scores, Sequence | np.ndarray):
        raise InvalidArgument("scores", scores, "write a flat list with the score of each candidate")
    return scores
