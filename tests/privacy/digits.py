"""Fifty digits of everything in the table of references, by formulas and searches that share nothing with ours."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise

from mpmath import mp, mpf

DELTA = "1e-6"
Digits = dict[str, Callable[[], mpf]]
Curve = Callable[[mpf], mpf]


def all_digits() -> Digits:
    """Return what computes each value that has a closed form, an optimum over orders or a finite sum, by name."""
    mp.dps = 50
    values: Digits = {}
    for epsilon, delta, order in (
        ("0.1", "1e-6", "165.5"),
        ("0.5", "1e-6", "40"),
        ("1", "1e-6", "22"),
        ("1", "1e-9", "34.875"),
        ("2", "1e-6", "12.375"),
        ("4", "1e-6", "7.1875"),
        ("8", "1e-6", "4.4375"),
        ("10", "1e-5", "3.375"),
    ):
        values |= _limits(epsilon, delta, order)
    for epsilon, times in (("0.1", 100), ("0.01", 100), ("0.1", 10_000), ("0.01", 10_000)):
        values |= _repeated(epsilon, times)
    for deviation, times in (
        *((1, 1), (2, 1), (5, 1), (10, 1), (10, 100), (100, 10_000)),
        *((20, 1_000), (50, 100), (50, 10_000)),
    ):
        values |= _gaussians(deviation, times)
    return values | _pure_mixture() | _mixture()


def _limits(epsilon: str, delta: str, order: str) -> Digits:
    pair, loss, logarithm = f"({epsilon}, {delta})", mpf(epsilon), mp.log(mpf(delta))

    def limit(alpha: mpf) -> mpf:
        return loss + mp.log(alpha / (alpha - 1)) + (logarithm + mp.log(alpha)) / (alpha - 1)

    return {
        f"rho of {pair}": lambda: -_least(lambda alpha: -limit(alpha) / alpha),
        f"textbook rho of {pair}": lambda: (mp.sqrt(loss - logarithm) - mp.sqrt(-logarithm)) ** 2,
        f"limit of {pair} at {order}": lambda: limit(mpf(order)),
        f"mu of {pair}": lambda: _root(lambda mu: normal_delta(mu, loss) - mpf(delta), mpf("1e-6"), mpf(100)),
    }


def _repeated(epsilon: str, times: int) -> Digits:
    loss, shown = mpf(epsilon), f"{times} of {epsilon}"
    half = times * loss**2 / 2
    deviation = mp.sqrt(2 * mp.log(1 / mpf(DELTA)) * times) * loss
    return {
        f"{shown}, basic": lambda: times * loss,
        f"{shown}, advanced": lambda: deviation + times * loss * mp.expm1(loss),
        f"{shown}, sharp advanced": lambda: deviation + times * loss * mp.tanh(loss / 2),
        f"{shown}, textbook zCDP": lambda: _textbook(half),
        f"{shown}, half the square": lambda: _converted(lambda alpha: alpha * half),
        f"{shown}, zCDP": lambda: _converted(lambda alpha: alpha * times * loss * mp.tanh(loss / 2)),
        f"{shown}, Rényi": lambda: _converted(lambda alpha: times * _response(loss, alpha)),
        f"{shown}, plan": lambda: _composed([(loss, times)]),
        f"{shown}, continuous Laplace, zCDP": lambda: _converted(
            lambda alpha: alpha * times * (loss + mp.exp(-loss) - 1)
        ),
        f"{shown}, continuous Laplace, Rényi": lambda: _converted(lambda alpha: times * _laplace(loss, alpha)),
    }


def _gaussians(deviation: int, times: int) -> Digits:
    shown, squared = f"{times} Gaussian of {deviation}", mpf(times) / deviation**2
    mu = mp.sqrt(squared)
    return {
        f"{shown}, continuous": lambda: _root(lambda loss: mpf(DELTA) - normal_delta(mu, loss), mpf("1e-3"), mpf(1000)),
        f"{shown}, zCDP": lambda: _converted(lambda alpha: alpha * squared / 2),
        f"{shown}, textbook zCDP": lambda: _textbook(squared / 2),
    }


def _pure_mixture() -> Digits:
    parts = [(mpf("0.02"), 50), (mpf("0.05"), 50), (mpf("0.1"), 20)]
    half = sum((times * loss**2 / 2 for loss, times in parts), mpf(0))
    drift = sum((times * loss * mp.expm1(loss) for loss, times in parts), mpf(0))
    sharp = sum((times * loss * mp.tanh(loss / 2) for loss, times in parts), mpf(0))
    return {
        "pure mixture, basic": lambda: mpf("5.5"),
        "pure mixture, advanced": lambda: mp.sqrt(4 * mp.log(1 / mpf(DELTA)) * half) + drift,
        "pure mixture, textbook zCDP": lambda: _textbook(half),
        "pure mixture, half the square": lambda: _converted(lambda alpha: alpha * half),
        "pure mixture, zCDP": lambda: _converted(lambda alpha: alpha * sharp),
        "pure mixture, Rényi": lambda: _converted(
            lambda alpha: sum((times * _response(loss, alpha) for loss, times in parts), mpf(0))
        ),
        "pure mixture, plan": lambda: _composed(parts),
    }


def _mixture() -> Digits:
    laplace, sparse, chosen = mpf("0.05"), mpf("0.2"), mpf("0.1")
    ratio = chosen / -mp.expm1(-chosen)
    rest = mpf("0.125") + 5 * sparse * mp.tanh(sparse / 2)
    choice, smooth = 10 * (ratio - 1 - mp.log(ratio)), 100 * (laplace + mp.expm1(-laplace))

    def others(alpha: mpf) -> mpf:
        return alpha * mpf("0.125") + 5 * _response(sparse, alpha) + 10 * _range(chosen, alpha)

    return {
        "mixture, basic": lambda: (
            7 + 100 * _root(lambda loss: mpf("5e-9") - normal_delta(mpf("0.05"), loss), mpf("1e-3"), mpf(10))
        ),
        "mixture, half the square": lambda: _converted(lambda alpha: alpha * mpf("0.4")),
        "mixture, zCDP": lambda: _converted(
            lambda alpha: alpha * (rest + choice + 100 * laplace * mp.tanh(laplace / 2))
        ),
        "mixture, Rényi": lambda: _converted(lambda alpha: others(alpha) + 100 * _response(laplace, alpha)),
        "mixture, continuous Laplace, an eighth of the square": lambda: _converted(
            lambda alpha: alpha * (rest + mpf("0.0125") + smooth)
        ),
        "mixture, continuous Laplace, zCDP": lambda: _converted(lambda alpha: alpha * (rest + choice + smooth)),
        "mixture, continuous Laplace, Rényi": lambda: _converted(
            lambda alpha: others(alpha) + 100 * _laplace(laplace, alpha)
        ),
    }


def normal_delta(mu: mpf, loss: mpf) -> mpf:
    """Return δ(ε) of continuous Gaussian noise."""
    return mp.ncdf(mu / 2 - loss / mu) - mp.exp(loss) * mp.ncdf(-mu / 2 - loss / mu)


def _textbook(rho: mpf) -> mpf:
    return rho + 2 * mp.sqrt(rho * mp.log(1 / mpf(DELTA)))


def _response(loss: mpf, alpha: mpf) -> mpf:
    high, low = 1 / (1 + mp.exp(-loss)), 1 / (1 + mp.exp(loss))
    return mp.log(high**alpha * low ** (1 - alpha) + low**alpha * high ** (1 - alpha)) / (alpha - 1)


def _laplace(loss: mpf, alpha: mpf) -> mpf:
    first, second = alpha * mp.exp((alpha - 1) * loss), (alpha - 1) * mp.exp(-alpha * loss)
    return mp.log((first + second) / (2 * alpha - 1)) / (alpha - 1)


def _range(loss: mpf, alpha: mpf) -> mpf:
    """Return the largest divergence of two outcomes whose losses are t and t - ε, by a search over t."""

    def negative(shift: mpf) -> mpf:
        top = mp.exp(shift)
        likely = top * (1 - mp.exp(shift - loss)) / (top - mp.exp(shift - loss))  # P of the outcome with loss t
        other = (1 - mp.exp(shift - loss)) / (top - mp.exp(shift - loss))
        return -mp.log(likely**alpha * other ** (1 - alpha) + (1 - likely) ** alpha * (1 - other) ** (1 - alpha))

    return -_valley(negative, loss * mpf("1e-6"), loss * (1 - mpf("1e-6"))) / (alpha - 1)


def _converted(curve: Curve) -> mpf:
    """Return the least ε that any order proves."""

    def epsilon(alpha: mpf) -> mpf:
        return curve(alpha) + mp.log((alpha - 1) / alpha) - (mp.log(mpf(DELTA)) + mp.log(alpha)) / (alpha - 1)

    return _least(epsilon)


def _least(bound: Curve) -> mpf:
    """Return the least value over the orders: a coarse grid, then thirds around its best place."""
    positions = [mpf(step) / 2 for step in range(-12, 15)]
    best = min(positions, key=lambda position: bound(1 + mp.exp(position)))
    return _valley(lambda position: bound(1 + mp.exp(position)), best - 1, best + 1)


def _valley(curve: Curve, low: mpf, high: mpf) -> mpf:
    """Return the least value by golden section; after 50 steps the place is known to 10^-10, the value to 10^-20."""
    golden = (mp.sqrt(5) - 1) / 2
    left, right = high - golden * (high - low), low + golden * (high - low)
    at_left, at_right = curve(left), curve(right)
    for _ in range(50):
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - golden * (high - low)
            at_left = curve(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + golden * (high - low)
            at_right = curve(right)
    return min(at_left, at_right)


def _composed(parts: Iterable[tuple[mpf, int]]) -> mpf:
    """Return ε of randomized responses at 1e-6: the law of the sum of losses, then the root of δ(ε)."""
    step = mpf("0.01")
    law = {0: mpf(1)}
    for loss, times in parts:
        move, flip = int(mp.nint(loss / step)), 1 / (1 + mp.exp(loss))
        weight, binomial = (1 - flip) ** times, {}
        for flips in range(times + 1):
            binomial[move * (times - 2 * flips)] = weight
            weight *= mpf(times - flips) / (flips + 1) * flip / (1 - flip)
        summed: dict[int, mpf] = {}
        for at, probability in law.items():
            for by, other in binomial.items():
                summed[at + by] = summed.get(at + by, mpf(0)) + probability * other
        law = summed
    # Above the k-th loss δ(ε) is a_k - b_k·e^ε, with a_k and b_k sums over the losses above: solve for ε there.
    above, weighted = mpf(0), mpf(0)
    ordered = sorted(law, reverse=True)
    for this, following in pairwise(ordered):
        above += law[this]
        weighted += law[this] * mp.exp(-this * step)
        if above - weighted * mp.exp(following * step) >= mpf(DELTA):
            return mp.log((above - mpf(DELTA)) / weighted)
    raise AssertionError


def _root(rising: Curve, low: mpf, high: mpf) -> mpf:
    """Return where a rising function is 0, by halving on the scale of logarithms."""
    for _ in range(120):
        middle = mp.sqrt(low * high)
        low, high = (low, middle) if rising(middle) >= 0 else (middle, high)
    return low
