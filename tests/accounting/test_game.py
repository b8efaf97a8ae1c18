"""The adaptive composition game: an adversary picks mechanism, parameters and neighbours by all it has seen.

Each move is a finite mechanism with its exact law of losses, in either direction: which of the two neighbours holds the
secret is the adversary's choice too. The best adversary is found by solving the game from its end.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import pytest

from dodona.accounting.event import Event, ExponentialEvent, Kind, LaplaceEvent, PureEvent
from dodona.accounting.filter import Accountant, Filter, Spent, budget_filter
from dodona.domain.neighbours import Neighbours

REPLACE = Neighbours.REPLACE


@dataclass(frozen=True, slots=True)
class Move:
    """A mechanism on two chosen neighbours: what is charged, and each loss with its probability on the second."""

    event: Event
    outcomes: tuple[tuple[Fraction, float], ...]

    def turned(self) -> "Move":
        """The same mechanism with the neighbours exchanged."""
        return Move(self.event, tuple((-loss, math.exp(loss) * chance) for loss, chance in self.outcomes))


def response(epsilon: Fraction) -> Move:
    """Randomized response; also AboveThreshold at its worst, which is a post-processing of it."""
    keep = 1 / (1 + math.exp(-epsilon))
    return Move(PureEvent(Kind.SPARSE_VECTOR, epsilon, REPLACE), ((epsilon, 1 - keep), (-epsilon, keep)))


def laplace(distance: int, scale: Fraction) -> Move:
    """Discrete Laplace noise on an integer that moves by the distance."""
    ratio = math.exp(-1 / scale)
    outcomes = []
    for step in range(distance + 1):
        inner = 1 if step in (0, distance) else 1 - ratio
        loss = Fraction(distance - 2 * step) / scale
        outcomes.append((loss, inner * ratio**step / (1 + ratio) * math.exp(-loss)))
    return Move(LaplaceEvent(distance, scale, REPLACE), tuple(outcomes))


def exponential(epsilon: Fraction, part: Fraction) -> Move:
    """The exponential mechanism between two candidates, whose losses are part·ε and (part - 1)·ε."""
    high, low = part * epsilon, (part - 1) * epsilon
    chance = (1 - math.exp(low)) / (math.exp(high) - math.exp(low))
    return Move(ExponentialEvent(epsilon, REPLACE), ((high, chance), (low, 1 - chance)))


def worst_delta(budget: Filter, moves: list[Move], longest: int) -> float:
    """The largest Σ (P - e^ε·Q)₊ over transcripts that an adversary reaches against the filter."""
    menu = [turned for move in moves for turned in (move, move.turned())]

    @cache
    def value(spent: Spent, loss: Fraction, steps: int) -> float:
        best = max(0.0, math.exp(loss) - math.exp(budget.epsilon))
        if steps == longest:
            return best
        for move in menu:
            after = budget.after(spent, move.event)
            if after is not None:
                outcomes = ((chance, value(after, loss + more, steps + 1)) for more, chance in move.outcomes)
                best = max(best, math.fsum(chance * worth for chance, worth in outcomes))
        return best

    return value(Spent(), Fraction(0), 0)


def moves(epsilon: Fraction) -> list[Move]:
    """Mechanisms of four kinds, as fractions of the budget's ε so that losses meet on a grid."""
    return [
        response(epsilon / 3),
        laplace(2, 6 / epsilon),
        laplace(3, 9 / epsilon),
        exponential(epsilon / 2, Fraction(1, 2)),
        exponential(epsilon / 2, Fraction(1, 3)),
    ]


@pytest.mark.parametrize("move", moves(Fraction(1)))
def test_a_move_is_a_pair_of_laws_within_its_price(move: Move):
    """Both laws sum to one, and neither direction passes the pure price or the zCDP price of its event."""
    for turned in (move, move.turned()):
        assert math.fsum(chance for _, chance in turned.outcomes) == pytest.approx(1)
        assert math.fsum(math.exp(loss) * chance for loss, chance in turned.outcomes) == pytest.approx(1)
        assert max(loss for loss, _ in turned.outcomes) <= move.event.epsilon
        mean = math.fsum(loss * math.exp(loss) * chance for loss, chance in turned.outcomes)
        assert mean <= float(move.event.rho()) * (1 + 1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("accountant", [Accountant.RENYI, Accountant.ZCDP, Accountant.EITHER])
@pytest.mark.parametrize(("epsilon", "delta"), [("1", "1/100"), ("1/2", "1/20"), ("2", "1/1000")])
def test_no_adversary_with_mechanisms_of_four_kinds_passes_a_filter(accountant: Accountant, epsilon: str, delta: str):
    budget = budget_filter(accountant, Fraction(epsilon), Fraction(delta))
    assert worst_delta(budget, moves(Fraction(epsilon)), 7) <= budget.delta


def test_no_adversary_with_mechanisms_of_four_kinds_passes_a_pure_budget():
    budget = budget_filter(Accountant.PURE, Fraction(1), Fraction(0))
    assert worst_delta(budget, moves(Fraction(1)), 7) < 1e-12


@pytest.mark.slow
def test_the_game_finds_an_adversary_where_a_filter_charges_a_third():
    """The check can fail: a limit three times as large is a filter that charges a third."""
    honest = budget_filter(Accountant.RENYI, Fraction(1), Fraction(1, 100))
    loose = Filter(honest.accountant, honest.epsilon, honest.delta, honest.order, 3 * honest.limit)
    assert worst_delta(loose, moves(Fraction(1)), 7) > loose.delta
