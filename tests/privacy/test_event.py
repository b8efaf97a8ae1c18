"""Events: what they accept, and that prices of several add."""

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dodona.errors import InvalidArgument
from dodona.privacy.events import (
    ComposedEvent,
    Event,
    ExponentialEvent,
    GaussianEvent,
    LaplaceEvent,
    PureEvent,
    PureMechanism,
    pure_rho,
    validate_order,
)
from dodona.schema.schema import Neighbours
from tests.privacy import laws

HERE = Neighbours.REPLACE
losses = st.fractions(Fraction(1, 10**6), 10)
events = st.one_of(
    st.builds(PureEvent, st.sampled_from(PureMechanism), losses, st.just(HERE)),
    st.builds(LaplaceEvent, st.integers(1, 100), losses, st.just(HERE)),
    st.builds(GaussianEvent, st.integers(1, 100), losses, st.just(HERE)),
    st.builds(ExponentialEvent, losses, st.just(HERE)),
)


@given(st.lists(st.tuples(events, st.integers(1, 1000)), min_size=1, max_size=4), st.fractions(Fraction(9, 8), 100))
def test_prices_of_several_events_add(parts: list[tuple[Event, int]], order: Fraction) -> None:
    together = ComposedEvent(tuple(parts))
    for stated, prices in (
        (together.rho(), [(event.rho(), times) for event, times in parts]),
        (together.renyi(order), [(event.renyi(order), times) for event, times in parts]),
    ):
        truth = sum(Fraction(price) * times for price, times in prices)
        assert truth <= Fraction(stated) <= truth * (1 + Fraction(1, 10**23))
    pure = [event.epsilon for event, _ in parts]
    if None in pure:
        assert together.epsilon is None
    else:
        assert together.epsilon == sum(event.epsilon * times for event, times in parts if event.epsilon is not None)
    assert ComposedEvent(((together, 2),)).rho() >= 2 * together.rho() * (1 - Decimal("1e-30"))


def test_two_releases_tell_the_sum_of_what_each_tells() -> None:
    """The product of two laws: losses and divergences add, and reach what the two events say together."""
    first = laws.exponential_law((0, 1, 5), 2.0), laws.exponential_law((1, 0, 4), 2.0)
    second = laws.permute_and_flip_law((0, 2), 3.0), laws.permute_and_flip_law((1, 1), 3.0)
    here, there = ({(a, b): law[a] * two[b] for a in law for b in two} for law, two in zip(first, second, strict=True))
    price = ComposedEvent(
        ((ExponentialEvent(Fraction(1), HERE), 1), (PureEvent(PureMechanism.NOISY_MAX, Fraction(2, 3), HERE), 1))
    )
    assert price.epsilon is not None
    assert laws.largest_loss(here, there) <= float(price.epsilon)
    assert laws.kullback_leibler(here, there) <= float(price.rho())
    parts = laws.renyi(*first, Fraction(3)) + laws.renyi(*second, Fraction(3))
    assert laws.renyi(here, there, Fraction(3)) <= parts * (1 + 1e-12) <= float(price.renyi(Fraction(3)))


def test_three_releases_cost_more_than_two() -> None:
    once = PureEvent(PureMechanism.SPARSE_VECTOR, Fraction(1, 10), HERE)
    assert ComposedEvent(((once, 3),)).epsilon == Fraction(3, 10)
    assert ComposedEvent(((once, 3),)).rho() > Decimal("2.99") * pure_rho(Fraction(1, 10))


def test_events_under_two_relations_do_not_add() -> None:
    mixed = tuple((PureEvent(PureMechanism.NOISY_MAX, Fraction(1), relation), 1) for relation in Neighbours)
    with pytest.raises(InvalidArgument, match=r"parts = .*one relation"):
        ComposedEvent(mixed)


ONE = PureEvent(PureMechanism.NOISY_MAX, Fraction(1), HERE)


@pytest.mark.parametrize("parts", [(), ((ONE, 0),), ((ONE, -1),), ((ONE, 1.5),), ((ONE, True),)])
def test_nothing_and_part_of_an_event_are_no_events(parts: tuple[tuple[Event, int], ...]) -> None:
    with pytest.raises(InvalidArgument, match="parts = "):
        ComposedEvent(parts)


@pytest.mark.parametrize("loss", [0, -1, Fraction(1, 10**16), Fraction(10**31), 0.5, "1", True, None, float("nan")])
def test_a_loss_that_is_not_priced_reliably_is_refused(loss: object) -> None:
    with pytest.raises(InvalidArgument, match=r"epsilon = .*10\^-15"):
        PureEvent(PureMechanism.NOISY_MAX, loss, HERE)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match=r"epsilon = .*10\^-15"):
        ExponentialEvent(loss, HERE)  # type: ignore[arg-type]


@pytest.mark.parametrize("distance", [0, -1, 1.5, "x", True, None, 1 << 63])
def test_a_distance_is_a_whole_number_from_one_up(distance: object) -> None:
    with pytest.raises(InvalidArgument, match="distance = "):
        LaplaceEvent(distance, Fraction(1), HERE)  # type: ignore[arg-type]
    if distance != 1 << 63:
        with pytest.raises(InvalidArgument, match="squared_distance = "):
            GaussianEvent(distance, Fraction(1), HERE)  # type: ignore[arg-type]


@pytest.mark.parametrize("scale", [0, -1, 0.5, "2", Fraction(1, 10**40), Fraction(10**40), None])
def test_a_scale_is_an_exact_number_above_nothing(scale: object) -> None:
    with pytest.raises(InvalidArgument, match="scale = "):
        LaplaceEvent(1, scale, HERE)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="variance = "):
        GaussianEvent(1, scale, HERE)  # type: ignore[arg-type]


@pytest.mark.parametrize("relation", ["replace", None, 1])
def test_a_relation_in_other_words_is_refused(relation: object) -> None:
    with pytest.raises(InvalidArgument, match="neighbours = "):
        PureEvent(PureMechanism.NOISY_MAX, Fraction(1), relation)  # type: ignore[arg-type]


@pytest.mark.parametrize("order", [1, Fraction(1), 1 + Fraction(1, 10**7), 0, -2, 10**6 + 1, 2.5, "2", None])
def test_an_order_outside_the_priced_range_is_refused(order: object) -> None:
    with pytest.raises(InvalidArgument, match=r"order = .*10\^-6"):
        validate_order(order)


def test_whole_numbers_are_taken_as_fractions() -> None:
    event = LaplaceEvent(1, 10, HERE)  # type: ignore[arg-type]
    assert event.epsilon == Fraction(1, 10)
    assert isinstance(event.epsilon, Fraction)
