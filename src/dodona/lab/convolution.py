"""The exact price of a list of events that is fixed before the first answer.

Privacy loss distributions are composed by a Fourier transform; discretisation and rounding never lower δ. Queries may
still depend on earlier answers. No ledger opens such plans: the figures are for planning and comparison.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dodona.errors import InvalidArgument
from dodona.lab.conversion import (
    MOST_TIMES,
    EpsilonDelta,
    float_below,
    renyi_delta,
    validate_delta,
    validate_epsilon,
    validate_repetitions,
)
from dodona.numbers import Exact, float_above, minimize_unimodal
from dodona.privacy.conversion import renyi_epsilon
from dodona.privacy.events import ComposedEvent, Event, GaussianEvent, LaplaceEvent
from dodona.schema.schema import Neighbours

# --- The distribution of the privacy loss of one mechanism, on a lattice. ---


Array = NDArray[np.float64]
Indices = NDArray[np.int64]

_LEAST_WEIGHT = 1e-300  # in place of a probability that is no float; more at a loss that is there never makes δ smaller
_WIDEST = 20  # standard deviations of a discrete Gaussian that are kept; what is left has probability below e^-200
MOST_LOSSES = 2**20
"""The largest number of losses in a distribution."""


@dataclass(frozen=True, slots=True, eq=False)
class LossDistribution:
    """P(loss = top - j·step) = weights[j], and infinity with probability `lost`."""

    top: Fraction
    step: Fraction
    weights: Array
    lost: float = 0.0

    @property
    def width(self) -> Fraction:
        """The distance from the largest to the smallest loss."""
        return self.step * (len(self.weights) - 1)


def pure_loss_distribution(epsilon: Fraction) -> LossDistribution:
    """Return the loss of randomized response, which no ε-differentially private mechanism exceeds.

    Theorem: dominating-losses
    """
    loss = float(epsilon)
    kept = 1 / (1 + math.exp(-loss))
    return LossDistribution(epsilon, 2 * epsilon, np.array([kept, max(math.exp(-loss) * kept, _LEAST_WEIGHT)]))


def laplace_loss_distribution(distance: int, scale: Fraction) -> LossDistribution:
    """Return the loss of discrete Laplace noise on integers whose changes sum to at most `distance`.

    A single integer that changes by the whole distance is the worst case.

    Theorem: dominating-losses
    """
    if distance > MOST_LOSSES:
        return pure_loss_distribution(distance / scale)
    ratio = math.exp(-1 / scale)
    weights = np.exp(-np.arange(distance + 1) / float(scale)) / (1 + ratio)
    weights[1:-1] *= -math.expm1(-1 / scale)
    return LossDistribution(distance / scale, 2 / scale, np.maximum(weights, _LEAST_WEIGHT))


def gaussian_loss_distribution(variance: Fraction) -> LossDistribution:
    """Return the loss of discrete Gaussian noise on an integer that changes by one.

    Theorem: dominating-losses
    """
    scale = math.sqrt(variance)
    edge = math.ceil(_WIDEST * scale) + 1
    if 2 * edge >= MOST_LOSSES:
        raise InvalidArgument("variance", variance, "the loss is written out only up to a scale of 26,000")
    noise = np.arange(-edge, edge + 1, dtype=np.float64)
    weights = np.exp(-(noise**2) / (2 * float(variance)))
    beyond = math.exp(-(edge**2) / (2 * float(variance)) * (1 - 1e-12))
    weights /= weights.sum()
    weights[-1] += beyond  # what is below the smallest loss is raised to it
    return LossDistribution((1 + 2 * edge) / (2 * variance), 1 / variance, np.maximum(weights, _LEAST_WEIGHT), beyond)


def log_moment(law: LossDistribution, tilt: float) -> float:
    """Return ln E[e^{tilt·loss}] of the finite losses."""
    fall = np.log(law.weights) - tilt * float(law.step) * np.arange(len(law.weights))
    largest = float(fall.max())
    return tilt * float(law.top) + largest + math.log(float(np.exp(fall - largest).sum()))


def tilt_weights(law: LossDistribution, tilt: float) -> Array:
    """Return the weights multiplied by e^{tilt·loss} and normalized."""
    fall = np.log(law.weights) - tilt * float(law.step) * np.arange(len(law.weights))
    weights: Array = np.exp(fall - fall.max())
    return weights / float(weights.sum())


def binomial_probabilities(log_odds: float, times: int) -> Array:
    """Return P(j failures in `times` trials) for j = 0…times, where success has these log odds (Loader 2000).

    The relative error is below 10^-8 up to a million trials, wherever a value is a normal float.
    """
    log_good, log_bad = -_softplus(-log_odds), -_softplus(log_odds)
    good, bad = math.exp(log_good), max(math.exp(log_bad), _LEAST_WEIGHT)
    failures = np.arange(1, times, dtype=np.float64)
    successes = times - failures
    exponent = (
        _stirling(np.array([float(times)]))[0]
        - _stirling(failures)
        - _stirling(successes)
        - _deviance(failures, times * bad)
        - _deviance(successes, times * good)
    )
    inside = np.exp(exponent) * np.sqrt(times / (2 * math.pi * failures * successes))
    law: Array = np.concatenate([[math.exp(times * log_good)], inside, [math.exp(times * log_bad)]])
    return law


def _softplus(value: float) -> float:
    return max(value, 0.0) + math.log1p(math.exp(-abs(value)))


def _stirling(number: Array) -> Array:
    """Return ln n! - [(n + 1/2) ln n - n + ln(2π)/2]."""
    exact: Array = np.array([0.0, *(_remainder(n) for n in range(1, 16))])
    square = np.maximum(number, 1.0) ** 2
    series: Array = (
        1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680 - 1 / (1188 * square)) / square) / square) / square
    ) / number
    small = number < len(exact)
    series[small] = exact[number[small].astype(np.int64)]
    return series


def _remainder(number: int) -> float:
    return math.log(math.factorial(number)) - (number + 0.5) * math.log(number) + number - math.log(2 * math.pi) / 2


def _deviance(count: Array, mean: float) -> Array:
    """Return count·ln(count/mean) + mean - count, with an error of the order of |count - mean|·2^-53."""
    excess = (count - mean) / mean
    deviance: Array = mean * ((1 + excess) * np.log1p(excess) - excess)
    return deviance


# --- The tail of a composed privacy loss, and its two functions: δ(ε) and ε(δ). ---


MARGIN = 1e-8
"""Covered relative rounding error of a probability: a few parts in 10^9 for a million mechanisms."""
_LEAST_DELTA = 1e-290  # no δ below it is promised
_NUDGE = 2.0**-48  # relative rounding error of a loss that is covered


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class LossTail:
    """P(loss = losses[i]) = weights[i]·e^{scale - tilt·losses[i]}, up to a bounded error; losses are decreasing.

    `spread` bounds the Euclidean norm of the error of the weights; `beyond` is probability that counts fully as δ.
    """

    losses: Array
    weights: Array
    tilt: float = 0.0
    scale: float = 0.0
    spread: float = 0.0
    beyond: float = 0.0

    def delta(self, epsilon: float) -> float:
        """Return an upper bound on E[(1 - e^{ε - loss})₊].

        Theorem: loss-convolution
        """
        level = epsilon - _NUDGE * (abs(epsilon) + float(np.abs(self.losses).max()))
        above = self.losses > level
        losses, weights = self.losses[above], self.weights[above]
        inside = float((weights * np.exp(-self.tilt * (losses - level)) * -np.expm1(level - losses)).sum())
        inside += self.spread * math.sqrt(self._geometric())
        total = math.exp(min(0.0, math.log(inside) + self.scale - self.tilt * level)) if inside > 0 else 0.0
        return min(1.0, max(total * (1 + MARGIN) + self.beyond, _LEAST_DELTA))

    def epsilon(self, delta: float) -> float:
        """Return an upper bound, at least 0, on the least ε with δ(ε) ≤ delta; infinity if there is none.

        Theorem: loss-convolution
        """
        if self.delta(0.0) <= delta:
            return 0.0
        wanted = delta - self.beyond
        if wanted <= _LEAST_DELTA:
            return math.inf
        # The answer is the largest ε over the sets S = {loss ≥ l}: ε = ln((P(S) - δ)/Q(S)).
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            masses = np.log(self.weights) + self.scale - self.tilt * self.losses
            first = np.logaddexp.accumulate(masses)
            second = np.logaddexp.accumulate(masses - self.losses)
            needed = first + np.log1p(-wanted * np.exp(-first)) - second
        needed = needed[np.isfinite(needed)]
        guess = max(float(needed.max()), 0.0) if len(needed) else 0.0
        step = 1e-10 * (1 + guess)
        while self.delta(guess) > delta:  # the margin moves the answer by about margin/slope
            guess, step = guess + step, 2 * step
        return guess

    def _geometric(self) -> float:
        """Return an upper bound on Σ e^{-2·tilt·(loss - ε)} over the losses above any ε."""
        if len(self.losses) == 1:
            return 1.0
        gap = float(self.losses[0] - self.losses[-1]) / (len(self.losses) - 1)
        every = float(len(self.losses))
        return min(every, -1 / math.expm1(-2 * self.tilt * gap)) if self.tilt > 0 else every


# --- Composition: a Fourier transform of distributions that are tilted towards the tail of interest. ---


LossParts = Sequence[tuple[LossDistribution, int]]

_LONGEST = 2**19  # points of the laws' own lattice
_FINEST = 2**18  # points of a lattice that is made for them
_DEVIATIONS = 32  # width of the window, in standard deviations of the tilted loss


def compose_losses(parts: LossParts, tilt: float) -> LossTail:
    """Return the tail of the sum of independent losses. Any tilt > 0 is sound; the right one makes it sharp.

    Theorem: loss-convolution
    """
    shapes = [tilt_weights(law, tilt) for law, _ in parts]
    window = _window(parts, shapes)
    grid = _grid_step(parts, window)
    size = 1 << math.ceil(math.log2(float(window / grid) + 2))
    spectrum = np.ones(size // 2 + 1, dtype=np.complex128)
    factors, growth = 0, 0.0
    for (law, times), shape in zip(parts, shapes, strict=True):
        # With two losses the sum is binomial, and needs no power of a transform.
        two = len(shape) == 2  # noqa: PLR2004
        probabilities, power = (
            (binomial_probabilities(float(law.top) * (1 + 2 * tilt), times), 1) if two else (shape, times)
        )
        placed = _place_on_grid(probabilities, law.step, grid, tilt, size)
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
    # The transform is periodic: what lies below the window wraps around to its top, which only adds to δ; what lies
    # above it is added explicitly.
    weights = np.roll(weights, -(start % size))
    losses: Array = float(top - start * grid) - float(grid) * np.arange(size, dtype=np.float64)
    lost = sum(law.lost * times for law, times in parts)
    if start > 0:
        lost += _chernoff_tail(parts, float(losses[0]), tilt, float(window) / _DEVIATIONS)
    return LossTail(
        losses=losses,
        weights=weights,
        tilt=tilt,
        scale=sum(log_moment(law, tilt) * times for law, times in parts),
        # Normwise error of one transform: below 7·log2(size)·2^-53 (Higham 2002, theorem 24.2).
        spread=10 * math.log2(size) * 2.0**-53 * (factors + 2) * math.exp(growth),
        beyond=lost,
    )


def composed_loss_delta(parts: LossParts, epsilon: float) -> float:
    """Return an upper bound on δ(ε) of the composed losses.

    Theorem: loss-convolution
    """
    tilt = _least(parts, lambda value: _moments(parts, value) - value * epsilon)
    return compose_losses(parts, tilt).delta(epsilon)


def composed_loss_epsilon(parts: LossParts, delta: float) -> float:
    """Return an upper bound on ε(δ) of the composed losses.

    Theorem: loss-convolution
    """

    def objective(value: float) -> float:  # the conversion at the order 1 + tilt
        moments = _moments(parts, value) - math.log(delta) - math.log1p(value)
        return moments / value + math.log(value) - math.log1p(value)

    return compose_losses(parts, _least(parts, objective)).epsilon(delta)


def _moments(parts: LossParts, tilt: float) -> float:
    return math.fsum(log_moment(law, tilt) * times for law, times in parts)


def _least(parts: LossParts, objective: Callable[[float], float]) -> float:
    """Return an approximate minimum of a unimodal function; it affects only sharpness.

    Tilts go up to 10^6/top, so that e^{tilt·loss} keeps nine digits.
    """
    top = math.log(float(sum((law.top * times for law, times in parts), Fraction(0))))
    low, high = math.log(1e-3) - top, math.log(1e6) - top
    return math.exp(minimize_unimodal(lambda place: objective(math.exp(place)), low, high, near=1e-3))


def _mean(law: LossDistribution, shape: Array) -> float:
    """Return how far the tilted mean lies below the top."""
    return float(law.step) * float(shape @ np.arange(len(shape)))


def _window(parts: LossParts, shapes: Sequence[Array]) -> Fraction:
    """Return the width of the window of losses: all of them, or many standard deviations."""
    full = sum((law.width * times for law, times in parts), Fraction(0))
    variance = 0.0
    for (law, times), shape in zip(parts, shapes, strict=True):
        place = float(law.step) * np.arange(len(shape))
        variance += times * float(shape @ (place - _mean(law, shape)) ** 2)
    widest = max(law.width for law, _ in parts)
    return min(full, max(Fraction(_DEVIATIONS * math.sqrt(variance)), 4 * widest))


def _grid_step(parts: LossParts, window: Fraction) -> Fraction:
    """Return the common step of all distributions, or a finer lattice that fits the most frequent one."""
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
    # With many distributions each transform has to be short.
    points = max(_FINEST >> max(0, len(parts).bit_length() - 4), 2**14) - 2
    wanted = window / points
    anchor = max(parts, key=lambda each: (len(each[0].weights) > 2, each[1]))[0].step  # noqa: PLR2004
    return anchor / math.ceil(anchor / wanted) if anchor > wanted else wanted


def _place_on_grid(shape: Array, step: Fraction, grid: Fraction, tilt: float, size: int) -> Array:
    """Return weights on the lattice, modulo its size; each is split so that P and Q keep their mass.

    Theorem: loss-convolution
    """
    ratio = step / grid
    place = np.arange(len(shape))
    if ratio.denominator == 1:
        return _gather(place * int(ratio) % size, shape, size)
    exact = place * float(ratio) * (1 - 2.0**-50)  # towards larger losses
    lower = np.floor(exact)
    gap, part = float(grid), exact - lower
    share = np.expm1(-(1 - part) * gap) / math.expm1(-gap)
    index = lower.astype(np.int64)
    high = _gather(index % size, shape * share * np.exp(tilt * part * gap), size)
    low = _gather((index + 1) % size, shape * (1 - share) * np.exp(-tilt * (1 - part) * gap), size)
    return high + low


def _gather(index: Indices, weights: Array, size: int) -> Array:
    return np.bincount(index, weights=weights, minlength=size).astype(np.float64)


def _chernoff_tail(parts: LossParts, highest: float, tilt: float, deviation: float) -> float:
    """Return a bound on P(loss > highest), by Chernoff at a few larger tilts."""
    tilts = (tilt + factor / deviation for factor in (2, 4, 8, 16))
    return math.exp(min(0.0, *(_moments(parts, value) - value * highest for value in tilts)) + 1e-6)


# --- Declared plans: events fixed before the first answer, so that they can be priced together, exactly. ---


_UNIT_MOVES = 3  # up to a squared distance of 3 every integer that moves moves by one
_WIDEST_VARIANCE = Fraction(2**28)


@dataclass(frozen=True, slots=True)
class DeclaredPlan:
    """Events, each repeated any number of times, declared in advance under one neighbour relation.

    Theorem: declared-plan
    """

    parts: tuple[tuple[Event, int], ...]

    def __post_init__(self) -> None:
        """Refuse an empty plan, repetitions below 1 and mixed relations."""
        if not self.parts:
            raise InvalidArgument("parts", self.parts, "write at least one event and how many times it happens")
        for _, times in self.parts:
            validate_repetitions(times)
        if len({event.neighbours for event, _ in self.parts}) > 1:
            accepted = "events under add-remove and under replace do not add; state all of them under one relation"
            raise InvalidArgument("parts", self.parts, accepted)
        if sum(times for _, times in _flatten(self.parts)) > MOST_TIMES:
            raise InvalidArgument("parts", self.parts, f"write at most {MOST_TIMES} events in all")

    @property
    def neighbours(self) -> Neighbours:
        """The relation that all events share."""
        return self.parts[0][0].neighbours

    def delta(self, epsilon: Exact) -> float:
        """Return a δ at which the whole plan is (ε, δ)-differentially private, rounded up; 0 from the pure sum on.

        Theorem: declared-plan
        """
        level, total = validate_epsilon(epsilon), self._together.epsilon
        if total is not None and level >= total:
            return 0.0
        laws = _loss_distributions(self.parts)
        by_losses = 1.0 if laws is None else composed_loss_delta(laws, float_below(level))
        return min(by_losses, renyi_delta(self._together.renyi, epsilon=level))

    def epsilon(self, delta: Exact) -> float:
        """Return an ε at which the whole plan is (ε, δ)-differentially private, rounded up.

        Theorem: declared-plan
        """
        wanted, total = validate_delta(delta), self._together.epsilon
        pure = math.inf if total is None else float_above(total)
        if wanted == 0:
            if total is None:
                raise InvalidArgument("delta", delta, "a plan with Gaussian noise needs a delta above 0")
            return pure
        laws = _loss_distributions(self.parts)
        by_losses = math.inf if laws is None else composed_loss_epsilon(laws, float_below(wanted))
        return min(pure, by_losses, renyi_epsilon(self._together.renyi, delta=wanted))

    def cost(self, delta: Exact) -> EpsilonDelta:
        """Return the cost of the plan under basic composition: its ε at this δ, and this δ.

        Theorem: declared-plan
        """
        total, epsilon = self._together.epsilon, self.epsilon(delta)
        if total is not None and epsilon >= total:
            return EpsilonDelta(total, Fraction(0))  # the pure sum is as good, and costs no δ
        return EpsilonDelta(Fraction(epsilon), validate_delta(delta))

    @property
    def _together(self) -> ComposedEvent:
        return ComposedEvent(self.parts)


def _flatten(parts: tuple[tuple[Event, int], ...], outer: int = 1) -> Iterator[tuple[Event, int]]:
    """Yield the elementary events with their repetitions."""
    for event, times in parts:
        if isinstance(event, ComposedEvent):
            yield from _flatten(event.parts, outer * times)
        else:
            yield event, outer * times


def _loss_distributions(parts: tuple[tuple[Event, int], ...]) -> list[tuple[LossDistribution, int]] | None:
    """Return dominating loss distributions of the events, with equal ones merged; None if some event has none."""
    distributions: dict[tuple[Fraction, Fraction, int], tuple[LossDistribution, int]] = {}
    for event, times in _flatten(parts):
        part = _loss_distribution(event)
        if part is None:
            return None
        law, each = part
        key = (law.top, law.step, len(law.weights))
        distributions[key] = (law, times * each + (distributions[key][1] if key in distributions else 0))
    return list(distributions.values())


def _loss_distribution(event: Event) -> tuple[LossDistribution, int] | None:
    """Return a dominating loss distribution of the event and its multiplicity; None if none is known.

    Theorem: dominating-losses
    """
    match event:
        case LaplaceEvent(distance, scale):
            return laplace_loss_distribution(distance, scale), 1
        case GaussianEvent(squared_distance, variance) if (
            squared_distance <= _UNIT_MOVES and variance <= _WIDEST_VARIANCE
        ):
            return gaussian_loss_distribution(variance), squared_distance
        case _:
            return None if event.epsilon is None else (pure_loss_distribution(event.epsilon), 1)
