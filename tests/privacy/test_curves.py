"""Prices against sums and formulas of another form, in a hundred and fifty digits."""

import decimal
from decimal import Decimal
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dodona.privacy import events

mp = mpmath.mp.clone()
mp.dps = 150

ORDERS = [1 + Fraction(1, 10**6), Fraction(9, 8), Fraction(2), Fraction(22), Fraction(10**6)]
LOSSES = [Fraction(1, 10**15), Fraction(1, 10**6), Fraction(1, 10), Fraction(1), Fraction(4), Fraction(1000)]
SMALL = [(1, Fraction(1)), (2, Fraction(2)), (3, Fraction(1, 2)), (10, Fraction(10)), (7, Fraction(7, 3))]
WIDE = [(1, Fraction(10**15)), (3, Fraction(10**12)), (1000, Fraction(10**12)), (50, Fraction(1, 1000))]


def real(number: Fraction) -> mpmath.mpf:
    return mp.mpf(number.numerator) / number.denominator


def is_just_above(stated: Decimal, truth: mpmath.mpf) -> bool:
    """Whether a price is not below the truth and at most 10^-20 above it, relative."""
    return bool(truth <= mp.mpf(str(stated)) <= truth * (1 + mp.mpf(10) ** -20))


def laws(distance: int, scale: Fraction) -> list[tuple[mpmath.mpf, mpmath.mpf]]:
    """The probabilities of all integers under two laws a distance apart, down to 10^-120."""
    ratio = mp.exp(-1 / real(scale))
    norm = (1 - ratio) / (1 + ratio)
    reach = int(280 * scale) + distance + 2
    return [(norm * ratio ** abs(x), norm * ratio ** abs(x - distance)) for x in range(-reach, reach + distance + 1)]


@pytest.mark.parametrize("loss", LOSSES)
def test_the_pure_price_is_that_of_randomized_response(loss: Fraction) -> None:
    epsilon = real(loss)
    honest, lie = 1 / (1 + mp.exp(-epsilon)), 1 / (1 + mp.exp(epsilon))
    pairs = [(honest, lie), (lie, honest)]
    assert is_just_above(events.pure_rho(loss), mp.fsum(p * mp.log(p / q) for p, q in pairs))
    for order in ORDERS:
        alpha = real(order)
        logs = [alpha * mp.log(p) + (1 - alpha) * mp.log(q) for p, q in pairs]
        truth = (max(logs) + mp.log(mp.fsum(mp.exp(each - max(logs)) for each in logs))) / (alpha - 1)
        assert is_just_above(events.pure_renyi(loss, order), truth)


@pytest.mark.parametrize(("distance", "scale"), SMALL)
def test_the_laplace_price_is_the_sum_over_the_discrete_law(distance: int, scale: Fraction) -> None:
    pairs = laws(distance, scale)
    assert is_just_above(events.laplace_rho(distance, scale), mp.fsum(p * mp.log(p / q) for p, q in pairs))
    for order in (Fraction(9, 8), Fraction(2), Fraction(22)):
        alpha = real(order)
        truth = mp.log(mp.fsum(p * (p / q) ** (alpha - 1) for p, q in pairs)) / (alpha - 1)
        assert is_just_above(events.laplace_renyi(distance, scale, order), truth)


@pytest.mark.parametrize(("distance", "scale"), WIDE)
def test_the_laplace_price_keeps_its_digits_at_the_ends_of_its_range(distance: int, scale: Fraction) -> None:
    """Against the same divergence with the middle terms as a plain geometric sum."""
    width = real(scale)
    ratio = mp.exp(-1 / width)
    middle = mp.fsum(ratio**x * (2 * x - distance) / width for x in range(1, distance)) * (1 - ratio) / (1 + ratio)
    ends = distance / width * (1 - ratio**distance) / (1 + ratio)
    truth = ends - middle
    assert is_just_above(events.laplace_rho(distance, scale), truth)
    for order in ORDERS:
        alpha = real(order)
        # Everything over q^{-(α-1)d}, the largest term.
        edge = (1 + ratio ** ((2 * alpha - 1) * distance)) / (1 + ratio)
        inner = mp.fsum(ratio ** ((2 * alpha - 1) * x) for x in range(1, distance)) * (1 - ratio) / (1 + ratio)
        divergence = distance / width + mp.log(edge + inner) / (alpha - 1)
        assert is_just_above(events.laplace_renyi(distance, scale, order), divergence)


@pytest.mark.share(2)
@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES)
def test_the_price_of_bounded_range_is_that_of_the_worst_pair(loss: Fraction) -> None:
    epsilon = real(loss)

    def divergence(top: mpmath.mpf, alpha: mpmath.mpf) -> mpmath.mpf:
        """D_α of the pair with losses top and top - ε."""
        likely = (1 - mp.exp(-top)) / (1 - mp.exp(-epsilon))  # probability of the lower loss under the second law
        rest = (mp.exp(-top) - mp.exp(-epsilon)) / (1 - mp.exp(-epsilon))
        terms = [mp.log(rest) + alpha * top, mp.log(likely) + alpha * (top - epsilon)]
        return (max(terms) + mp.log(mp.fsum(mp.exp(term - max(terms)) for term in terms))) / (alpha - 1)

    for order in ORDERS[1:]:
        alpha = real(order)
        stated = events.range_renyi(loss, order)
        tops = [epsilon * share / 400 for share in range(1, 400)]
        largest = max(divergence(top, alpha) for top in tops)
        assert largest <= mp.mpf(str(stated))
        best = tops[max(range(len(tops)), key=lambda index: divergence(tops[index], alpha))]
        step = epsilon / 400
        for _ in range(120):  # golden section, to the last digits that a flat top has
            left, right = best - step, best + step
            best = max((max(left, step / 9), best, min(right, epsilon - step / 9)), key=lambda t: divergence(t, alpha))
            step *= mp.mpf("0.6")
        assert is_just_above(stated, divergence(best, alpha))
    top = mp.log(mp.expm1(epsilon) / epsilon)
    assert is_just_above(events.range_rho(loss), top - epsilon * mp.expm1(top) / mp.expm1(epsilon))


@pytest.mark.parametrize(
    ("price", "figure"),
    [
        (events.laplace_rho(1, Fraction(1)), "0.46212"),
        (events.laplace_rho(2, Fraction(2)), "0.39347"),
        (events.laplace_rho(10, Fraction(10)), "0.36893"),
        (events.laplace_rho(1000, Fraction(1000)), "0.36788"),
        (events.pure_rho(Fraction(1)), "0.46212"),
    ],
)
def test_prices_have_the_figures_of_the_reference(price: Decimal, figure: str) -> None:
    assert abs(price - Decimal(figure)) <= Decimal("0.000005")


def test_a_count_under_laplace_noise_is_randomized_response() -> None:
    for loss in LOSSES[1:]:
        assert abs(events.laplace_rho(1, 1 / loss) - events.pure_rho(loss)) <= events.pure_rho(loss) * Decimal("1e-20")


@given(st.fractions(Fraction(1, 10**9), 50))
def test_the_price_of_bounded_range_is_at_most_an_eighth_of_the_square(loss: Fraction) -> None:
    assert events.range_rho(loss) <= events.price_as_decimal(loss**2 / 8)
    assert events.range_rho(loss) <= events.pure_rho(loss) <= events.price_as_decimal(loss**2 / 2)


@given(
    st.fractions(Fraction(1, 100), 20),
    st.fractions(1 + Fraction(1, 10**4), 200),
    st.integers(1, 30),
)
def test_no_order_costs_more_than_the_order_times_rho(loss: Fraction, order: Fraction, distance: int) -> None:
    times = Decimal(order.numerator) / Decimal(order.denominator) * (1 + Decimal("1e-20"))
    assert events.pure_renyi(loss, order) <= times * events.pure_rho(loss)
    assert events.range_renyi(loss, order) <= times * events.range_rho(loss)
    assert events.laplace_renyi(distance, 1 / loss, order) <= times * events.laplace_rho(distance, 1 / loss)


@given(st.integers(1, 40), st.integers(1, 40), st.fractions(Fraction(1, 5), 50), st.fractions(Fraction(5, 4), 60))
def test_one_long_move_is_never_cheaper_than_two_short_ones(
    first: int, second: int, scale: Fraction, order: Fraction
) -> None:
    both = 1 + Decimal("1e-20")
    together = events.laplace_rho(first + second, scale) * both
    assert events.laplace_rho(first, scale) + events.laplace_rho(second, scale) <= together
    joined = events.laplace_renyi(first + second, scale, order) * both
    assert events.laplace_renyi(first, scale, order) + events.laplace_renyi(second, scale, order) <= joined


def test_prices_do_not_depend_on_the_callers_decimal_context() -> None:
    def prices() -> list[Decimal]:
        return [
            events.price_as_decimal(Fraction(1, 3)),
            events.sum_of_prices([(Decimal("0.123456789"), 7), (Decimal("0.0009765625"), 3)]),
            events.pure_rho(Fraction(1, 3)),
            events.range_renyi(Fraction(1, 3), Fraction(7, 3)),
        ]

    honest = prices()
    with decimal.localcontext(decimal.Context(prec=3, rounding=decimal.ROUND_FLOOR)):
        assert prices() == honest


@given(st.fractions(min_value=Fraction(1, 10**12), max_value=10**12))
def test_an_exact_price_is_rounded_up(price: Fraction) -> None:
    stated = Fraction(events.price_as_decimal(price))
    assert price <= stated <= price * (1 + Fraction(1, 10**24))


@given(st.lists(st.tuples(st.fractions(Fraction(1, 10**9), 10), st.integers(1, 10**9)), min_size=1, max_size=5))
def test_a_total_is_rounded_up(parts: list[tuple[Fraction, int]]) -> None:
    truth = sum(price * times for price, times in parts)
    stated = Fraction(events.sum_of_prices((events.price_as_decimal(price), times) for price, times in parts))
    assert truth <= stated <= truth * (1 + Fraction(1, 10**23))


def test_a_loss_beyond_all_measure_is_still_priced() -> None:
    loss = Fraction(10**29)
    for price in (events.pure_renyi(loss, Fraction(2)), events.range_renyi(loss, Fraction(2))):
        assert loss <= Fraction(price) + 1
        assert Fraction(price) <= loss * (1 + Fraction(1, 10**24))
    assert events.laplace_renyi(1 << 62, Fraction(1, 10**15), Fraction(10**6)) > 0
