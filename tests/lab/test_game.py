"""The adaptive composition game: solved against every adversary with a menu of moves, and played with real noise."""

import math
from fractions import Fraction

import pytest

from dodona.errors import InvalidArgument
from dodona.lab import direct
from dodona.lab.composition_game import Move, Turn, exponential_move, laplace_move, play, response_move, worst_delta
from dodona.lab.mechanisms import RandomizedResponse
from dodona.privacy.accountants import Accountant, PrivacyFilter, budget_filter
from dodona.privacy.events import PureEvent, PureMechanism
from dodona.schema.schema import Neighbours


def moves(epsilon: Fraction) -> list[Move]:
    """Mechanisms of four kinds, as fractions of the budget's ε so that losses meet on a grid."""
    return [
        response_move(epsilon / 3),
        laplace_move(2, 6 / epsilon),
        laplace_move(3, 9 / epsilon),
        exponential_move(epsilon / 2, Fraction(1, 2)),
        exponential_move(epsilon / 2, Fraction(1, 3)),
    ]


@pytest.mark.parametrize("move", moves(Fraction(1)))
def test_a_move_is_a_pair_of_laws_within_its_price(move: Move):
    """Both laws sum to one, and neither direction passes the pure price or the zCDP price of its event."""
    for either in (move, move.swap()):
        assert math.fsum(chance for _, chance in either.outcomes) == pytest.approx(1)
        assert math.fsum(math.exp(loss) * chance for loss, chance in either.outcomes) == pytest.approx(1)
        assert max(loss for loss, _ in either.outcomes) <= move.event.epsilon
        mean = math.fsum(loss * math.exp(loss) * chance for loss, chance in either.outcomes)
        assert mean <= float(move.event.rho()) * (1 + 1e-12)


@pytest.mark.slow
@pytest.mark.share(3)
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
    loose = PrivacyFilter(honest.accountant, honest.epsilon, honest.delta, honest.order, 3 * honest.limit)
    assert worst_delta(loose, moves(Fraction(1)), 7) > loose.delta


def asks_again(_view: tuple[object, ...]) -> Turn:
    """The averaging adversary: the same randomized response about the same two people, as often as it is let."""
    response = RandomizedResponse(epsilon="1/2")
    event = PureEvent(PureMechanism.RANDOMIZED_RESPONSE, Fraction(1, 2), Neighbours.REPLACE)
    return Turn(event, lambda secret: direct.run(response, secret), left=False, right=True)


def test_the_experiment_ends_where_the_filter_does_and_tells_as_much_as_was_charged():
    """4,000 plays a side. The view "always yes" has probability (1-p)^4 on the left and p^4 on the right.

    Each frequency is within .05 of its probability but with probability 2·2e^(-2·4000·.05²) < 9e-9.
    """
    budget = budget_filter(Accountant.PURE, Fraction(2), Fraction(0))
    plays, keep = 4000, 1 / (1 + math.exp(-0.5))
    for side, yes in (("left", 1 - keep), ("right", keep)):
        views = [play(asks_again, budget, side=side, rounds=50) for _ in range(plays)]
        assert {len(view) for view in views} == {4}
        assert sum(all(view) for view in views) / plays == pytest.approx(yes**4, abs=0.05)
    assert math.log(keep**4 / (1 - keep) ** 4) == pytest.approx(float(budget.epsilon))


def test_an_adversary_may_stop_and_sees_its_own_answers():
    seen = []

    def once(view: tuple[object, ...]) -> Turn | None:
        seen.append(view)
        return asks_again(view) if not view else None

    budget = budget_filter(Accountant.PURE, Fraction(2), Fraction(0))
    view = play(once, budget, side="left", rounds=9)
    assert len(view) == 1
    assert seen == [(), view]


def test_there_are_two_sides():
    budget = budget_filter(Accountant.PURE, Fraction(2), Fraction(0))
    with pytest.raises(InvalidArgument, match="side"):
        play(asks_again, budget, side="both", rounds=1)
