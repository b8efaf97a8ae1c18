"""Promises by brute force, written without the planner: grids instead of searches, SciPy's laws instead of formulas."""

import math
from functools import cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammainccinv, gammaln
from scipy.stats import dlaplace, norm


@cache
def rho(epsilon: float, delta: float) -> float:
    """Return the zCDP price for (ε, δ): the best of many orders."""
    order = 1 + np.geomspace(1e-3, 1e6, 200_000)
    limit = epsilon - np.log((order - 1) / order) + (math.log(delta) + np.log(order)) / (order - 1)
    return float((limit / order).max())


def one_of(failing: float, answers: int) -> float:
    """Return how often one of independent answers may fail."""
    return -math.expm1(math.log1p(-failing) / answers)


def laplace(loss: float, answers: int, failing: float) -> float:
    """Return the least whole m that all of some discrete Laplace noises stay within."""
    share = one_of(failing, answers)
    guess = max(0, math.floor(-math.log(share) / loss) - 3)
    law = dlaplace(loss)
    while 2 * law.sf(guess) > share:
        guess += 1
    return float(guess)


def gaussian(scale: float, answers: int, failing: float) -> float:
    """Return the normal quantile of the largest of some errors: a step of the grid apart from the discrete one's."""
    return float(norm.isf(one_of(failing, answers) / 2) * scale)


def tanh_loss(price: float) -> float:
    return float(brentq(lambda loss: loss * math.tanh(loss / 2) - price, 1e-15, 1e5, xtol=1e-18, rtol=1e-12))


def advanced(epsilon: float, delta: float, times: int) -> float:
    return float(
        brentq(
            lambda loss: (
                math.sqrt(2 * math.log(1 / delta) * times) * loss + times * loss * math.tanh(loss / 2) - epsilon
            ),
            1e-15,
            epsilon,
            xtol=1e-18,
            rtol=1e-12,
        )
    )


def composed_delta(loss: float, epsilon: float, times: int) -> float:
    """Return δ(ε) of k randomized responses, by the binomial sum."""
    flips = np.arange(times + 1)
    logs = gammaln(times + 1) - gammaln(flips + 1) - gammaln(times - flips + 1) - times * np.logaddexp(0, loss)
    first, second = logs + (times - flips) * loss, logs + epsilon + flips * loss
    above = first > second
    return float((np.exp(first[above]) * -np.expm1(second[above] - first[above])).sum())


def optimal(epsilon: float, delta: float, times: int) -> float:
    low, high = epsilon / times, max(2 * epsilon, 1.0)
    if composed_delta(low * (1 + 1e-9), epsilon, times) > delta:
        return low
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if composed_delta(middle, epsilon, times) <= delta else (low, middle)
    return low


def normal_ratio(epsilon: float, delta: float) -> float:
    """Return the μ of Gaussian differential privacy at (ε, δ)."""

    def excess(mu: float) -> float:
        return norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu) - delta

    return float(brentq(excess, 1e-4, 50, xtol=1e-14))


def blr(rows: int, universe: int, questions: int, epsilon: float, failing: float) -> float:
    """Return the best over all sizes of the table up to a thousand million, on a fine grid."""
    size = np.unique(np.round(np.geomspace(1, 1e9, 200_000)))
    tables = gammaln(universe + size) - gammaln(size + 1) - gammaln(universe)
    if universe > 1e9:  # where that loses its digits
        tables = size * math.log(universe) - gammaln(size + 1)
    error = np.sqrt(math.log(2 * questions) / (2 * size)) + 2 / (rows * epsilon) * (tables + math.log(1 / failing))
    return float(error.min())


def mwem(rows: int, universe: int, questions: int, losses: list, failing: float) -> tuple[float, float]:
    """Return both promises at the best of a grid of rounds; `losses` are ε of a choice by the number of rounds."""
    rounds = np.unique(np.round(np.geomspace(1, 1e6, 5000)))
    learned = np.sqrt(math.log(universe) / (2 * rounds))
    quantile = gammainccinv(rounds, failing) / rounds
    every, mean = math.inf, math.inf
    for loss in losses:
        scale = 2 / (rows * loss(rounds))
        every = min(every, float((learned + scale * np.log(2 * questions * rounds / failing)).min()))
        mean = min(mean, float((learned + scale * (math.log(2 * questions) + quantile)).min()))
    return every, mean


def pmw(rows: int, universe: int, questions: int, price: float, failing: float) -> float:
    """Return γ + 2e by separate union bounds, at the best of a grid of updates: what weights must not exceed."""
    updates = np.unique(np.round(np.geomspace(1, 1e5, 4000)))
    gap = np.sqrt(math.log(universe) / (2 * updates))
    best = math.inf
    for part in (0.3, 0.5, 0.7, 0.8, 0.9):
        # c Gaussian answers within γn but with probability β/100: σ = γn/√(2·ln(200c/β)), at c/2σ².
        spent = updates * np.log(200 * updates / failing) / (gap * rows) ** 2
        left = np.maximum(price - spent, 1e-300) / (updates + 1)
        loss = np.sqrt(2 * left)
        question, threshold = failing * 0.99 * part, failing * 0.99 * (1 - part)
        noise = (math.sqrt(2 * math.log(questions / question)) + np.sqrt(np.log((updates + 1) / threshold))) ** 2
        best = min(best, float((gap + 2 * noise / (rows * loss)).min()))
    return best


def sparse(  # noqa: PLR0913, PLR0917  the sides of a promise
    loss: float, questions: int, thresholds: int, spread: int, sides: int, failing: float
) -> float:
    """Return the error of verdicts at the best of a grid of divisions of ε and of β."""
    share, part = np.meshgrid(np.linspace(0.002, 0.998, 499), np.arange(1, 100) / 100)
    threshold = np.log(thresholds / (failing * (1 - part))) / (loss * share)
    question = sides * spread * np.log(questions / (failing * part)) / (loss * (1 - share))
    return float((threshold + question).min())
