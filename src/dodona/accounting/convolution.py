"""Laws of privacy loss composed: a Fourier transform of laws tilted towards the tail that is asked for.

Where the laws share a lattice that is coarse enough, only rounding is left. Else losses are spread over the two nearest
points of a finer lattice, which never makes δ smaller.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from dodona.accounting.losses import Array, Indices, Law, binomial, log_moment, tilted
from dodona.accounting.tail import Tail

Parts = Sequence[tuple[Law, int]]

_LONGEST = 2**19  # points of the laws' own lattice
_FINEST = 2**18  # points of a lattice that is made for them
_DEVIATIONS = 32  # width of the window, in standard deviations of the tilted loss
_GOLDEN = (math.sqrt(5) - 1) / 2


def composed(parts: Parts, tilt: float) -> Tail:
    """Return the tail of the sum of independent losses. Any tilt > 0 is sound; the right one makes it sharp.

    Theorem: loss-convolution
    """
    shapes = [tilted(law, tilt) for law, _ in parts]
    window = _window(parts, shapes)
    grid = _lattice(parts, window)
    size = 1 << math.ceil(math.log2(float(window / grid) + 2))
    spectrum = np.ones(size // 2 + 1, dtype=np.complex128)
    factors, growth = 0, 0.0
    for (law, times), shape in zip(parts, shapes, strict=True):
        # Of two losses the sum is binomial, and needs no power of a transform.
        two = len(shape) == 2  # noqa: PLR2004
        one, power = (binomial(float(law.top) * (1 + 2 * tilt), times), 1) if two else (shape, times)
        placed = _placed(one, law.step, grid, tilt, size)
        spectrum *= np.fft.rfft(placed) ** power
        factors += power
        growth += power * math.log(max(1.0, float(placed.sum())))
    weights = np.maximum(np.fft.irfft(spectrum, size), 0.0)
    top = sum((law.top * times for law, times in parts), Fraction(0))
    full = sum((law.width * times for law, times in parts), Fraction(0))
    centre = sum(
        (float(law.top) - _mean(law, shape)) * times for (law, times), shape in zip(parts, shapes, strict=True)
    )
    start = 0 if full <= window else max(0, math.floor((float(top) - centre - float(window) / 2) / float(grid)))
    # The transform is periodic: what lies below the window comes in again at its top, which only adds to δ; what lies
    # above it has to be counted.
    weights = np.roll(weights, -(start % size))
    losses: Array = float(top - start * grid) - float(grid) * np.arange(size, dtype=np.float64)
    lost = sum(law.lost * times for law, times in parts)
    if start > 0:
        lost += _past(parts, float(losses[0]), tilt, float(window) / _DEVIATIONS)
    return Tail(
        losses=losses,
        weights=weights,
        tilt=tilt,
        scale=sum(log_moment(law, tilt) * times for law, times in parts),
        # Normwise error of one transform: below 7·log2(size)·2^-53 (Higham 2002, theorem 24.2).
        spread=10 * math.log2(size) * 2.0**-53 * (factors + 2) * math.exp(growth),
        beyond=lost,
    )


def delta(parts: Parts, epsilon: float) -> float:
    """Return an upper bound of δ(ε) of the composed losses.

    Theorem: loss-convolution
    """
    tilt = _least(parts, lambda value: _moments(parts, value) - value * epsilon)
    return composed(parts, tilt).delta(epsilon)


def epsilon(parts: Parts, delta: float) -> float:
    """Return an upper bound of ε(δ) of the composed losses.

    Theorem: loss-convolution
    """

    def objective(value: float) -> float:  # the conversion at the order 1 + tilt
        moments = _moments(parts, value) - math.log(delta) - math.log1p(value)
        return moments / value + math.log(value) - math.log1p(value)

    return composed(parts, _least(parts, objective)).epsilon(delta)


def _moments(parts: Parts, tilt: float) -> float:
    return math.fsum(log_moment(law, tilt) * times for law, times in parts)


def _least(parts: Parts, objective: Callable[[float], float]) -> float:
    """Return about where a function of one valley is least; nothing but sharpness rests on it.

    Tilts go up to 10^6/top, so that e^{tilt·loss} keeps nine digits.
    """
    top = math.log(float(sum((law.top * times for law, times in parts), Fraction(0))))
    low, high = math.log(1e-3) - top, math.log(1e6) - top
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = objective(math.exp(left)), objective(math.exp(right))
    while high - low > 1e-3:  # noqa: PLR2004  the valley is flat
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = objective(math.exp(left))
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = objective(math.exp(right))
    return math.exp((low + high) / 2)


def _mean(law: Law, shape: Array) -> float:
    """Return how far the tilted mean lies below the top."""
    return float(law.step) * float(shape @ np.arange(len(shape)))


def _window(parts: Parts, shapes: Sequence[Array]) -> Fraction:
    """Return the width of the losses that are kept apart: all of them, or many standard deviations."""
    full = sum((law.width * times for law, times in parts), Fraction(0))
    variance = 0.0
    for (law, times), shape in zip(parts, shapes, strict=True):
        place = float(law.step) * np.arange(len(shape))
        variance += times * float(shape @ (place - _mean(law, shape)) ** 2)
    widest = max(law.width for law, _ in parts)
    return min(full, max(Fraction(_DEVIATIONS * math.sqrt(variance)), 4 * widest))


def _lattice(parts: Parts, window: Fraction) -> Fraction:
    """Return the common step of all laws, or a finer lattice that fits the law that is used most often."""
    common = parts[0][0].step
    for law, _ in parts[1:]:
        if window / common > _LONGEST:
            break
        common = Fraction(
            math.gcd(common.numerator * law.step.denominator, law.step.numerator * common.denominator),
            common.denominator * law.step.denominator,
        )
    if window / common <= _LONGEST - 2:
        return common
    # With many laws each transform has to be short.
    points = max(_FINEST >> max(0, len(parts).bit_length() - 4), 2**14) - 2
    wanted = window / points
    anchor = max(parts, key=lambda each: (len(each[0].weights) > 2, each[1]))[0].step  # noqa: PLR2004
    return anchor / math.ceil(anchor / wanted) if anchor > wanted else wanted


def _placed(shape: Array, step: Fraction, grid: Fraction, tilt: float, size: int) -> Array:
    """Return weights on the lattice, round and round; each is spread so that P and Q keep their mass.

    Theorem: loss-convolution
    """
    ratio = step / grid
    place = np.arange(len(shape))
    if ratio.denominator == 1:
        return _gathered(place * int(ratio) % size, shape, size)
    exact = place * float(ratio) * (1 - 2.0**-50)  # towards larger losses
    lower = np.floor(exact)
    gap, part = float(grid), exact - lower
    share = np.expm1(-(1 - part) * gap) / math.expm1(-gap)
    index = lower.astype(np.int64)
    high = _gathered(index % size, shape * share * np.exp(tilt * part * gap), size)
    low = _gathered((index + 1) % size, shape * (1 - share) * np.exp(-tilt * (1 - part) * gap), size)
    return high + low


def _gathered(index: Indices, weights: Array, size: int) -> Array:
    return np.bincount(index, weights=weights, minlength=size).astype(np.float64)


def _past(parts: Parts, highest: float, tilt: float, deviation: float) -> float:
    """Return a bound on P(loss > highest), by Chernoff at a few larger tilts."""
    tilts = (tilt + factor / deviation for factor in (2, 4, 8, 16))
    return math.exp(min(0.0, *(_moments(parts, value) - value * highest for value in tilts)) + 1e-6)
