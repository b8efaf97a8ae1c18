"""The adaptive composition game (definition 3.7): an adversary picks neighbours and mechanisms after each answer.

`worst_delta` solves the game backwards over all adversaries with a given set of moves; `play` runs one adversary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

from dodona.errors import InvalidArgument
from dodona.numbers import to_integer
from dodona.privacy.accountants import PrivacyFilter, Spending
from dodona.privacy.events import Event, ExponentialEvent, LaplaceEvent, PureEvent, PureMechanism
from dodona.schema.schema import Neighbours

_LONGEST = 10**6


@dataclass(frozen=True, slots=True)
class Move:
    """A mechanism on two chosen neighbours: its event, and each loss with its probability on the second."""

    event: Event
    outcomes: tuple[tuple[Fraction, float], ...]

    def swap(self) -> Move:
        """Return the same mechanism with the neighbours exchanged."""
        return Move(self.event, tuple((-loss, math.exp(loss) * probability) for loss, probability in self.outcomes))


def response_move(epsilon: Fraction, neighbours: Neighbours = Neighbours.REPLACE) -> Move:
    """Return randomized response; AboveThreshold at its worst is a post-processing of it."""
    keep = 1 / (1 + math.exp(-epsilon))
    return Move(PureEvent(PureMechanism.SPARSE_VECTOR, epsilon, neighbours), ((epsilon, 1 - keep), (-epsilon, keep)))


def laplace_move(distance: int, scale: Fraction, neighbours: Neighbours = Neighbours.REPLACE) -> Move:
    """Return discrete Laplace noise on an integer that changes by the distance."""
    ratio = math.exp(-1 / scale)
    outcomes = []
    for step in range(distance + 1):
        inner = 1 if step in (0, distance) else 1 - ratio
        loss = Fraction(distance - 2 * step) / scale
        outcomes.append((loss, inner * ratio**step / (1 + ratio) * math.exp(-loss)))
    return Move(LaplaceEvent(distance, scale, neighbours), tuple(outcomes))


def exponential_move(epsilon: Fraction, part: Fraction, neighbours: Neighbours = Neighbours.REPLACE) -> Move:
    """Return the exponential mechanism between two candidates, whose losses are part·ε and (part - 1)·ε."""
    high, low = part * epsilon, (part - 1) * epsilon
    probability = (1 - math.exp(low)) / (math.exp(high) - math.exp(low))
    return Move(ExponentialEvent(epsilon, neighbours), ((high, probability), (low, 1 - probability)))


def worst_delta(budget: PrivacyFilter, moves: Sequence[Move], rounds: int) -> float:
    """Return the largest Σ (P - e^ε·Q)₊ over views that any adversary reaches against a filter in `rounds` rounds.

    Each move may be made in either direction, and stopping is allowed. Exact apart from floating-point rounding. The
    work grows with the number of distinct totals that moves can reach, so choose losses on a grid.

    >>> from dodona.privacy.accountants import Accountant, budget_filter
    >>> pure = budget_filter(Accountant.PURE, Fraction(1), Fraction(0))
    >>> worst_delta(pure, [response_move(Fraction(1, 2))], 3) < 1e-12
    True

    Theorem: filters
    """
    last = to_integer(rounds, argument="rounds", lower=0, upper=_LONGEST)
    menu = [either for move in moves for either in (move, move.swap())]

    @cache
    def value(spent: Spending, loss: Fraction, done: int) -> float:
        best = max(0.0, math.exp(loss) - math.exp(budget.epsilon))
        if done == last:
            return best
        for move in menu:
            after = budget.after(spent, move.event)
            if after is not None:
                outcomes = ((probability, value(after, loss + more, done + 1)) for more, probability in move.outcomes)
                best = max(best, math.fsum(probability * worth for probability, worth in outcomes))
        return best

    return value(Spending(), Fraction(0), 0)


@dataclass(frozen=True, slots=True)
class Turn:
    """An adversary's choice in one round: a mechanism with its event, and two neighbouring inputs."""

    event: Event
    mechanism: Callable[[Any], object]
    left: object
    right: object


Adversary = Callable[[tuple[object, ...]], Turn | None]
"""Sees all answers so far and picks the next turn; None ends the game."""


def play(adversary: Adversary, budget: PrivacyFilter, *, side: str, rounds: int) -> tuple[object, ...]:
    """Return the adversary's view: the output of each chosen mechanism on its left or right input.

    A turn that the filter cannot afford is refused and ends the game, which depends on prices only.

    Theorem: filters
    """
    if side not in {"left", "right"}:
        raise InvalidArgument("side", side, 'write "left" or "right"')
    view: tuple[object, ...] = ()
    spent = Spending()
    for _ in range(to_integer(rounds, argument="rounds", lower=0, upper=_LONGEST)):
        turn = adversary(view)
        after = None if turn is None else budget.after(spent, turn.event)
        if turn is None or after is None:
            break
        spent = after
        view = (*view, turn.mechanism(turn.left if side == "left" else turn.right))
    return view
