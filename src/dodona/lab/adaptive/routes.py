"""The best certificate of each route, computed from public parameters."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import assert_never

from dodona.lab.adaptive import noiseless, published
from dodona.lab.adaptive.averaged import averaged_gaussian, averaged_laplace
from dodona.lab.adaptive.certificate import Certificate, Route, Values, validate_queries, validate_rows
from dodona.lab.adaptive.grid import resolution, rounded_normal_distance, rounding_error
from dodona.lab.adaptive.noiseless import log_transcripts, union_bound_within
from dodona.lab.adaptive.stability import gaussian_stability
from dodona.lab.adaptive.transfer import concentrated_transfer, gaussian_transfer, pure_transfer, stable_transfer
from dodona.numbers import minimize_unimodal
from dodona.privacy.accuracy import to_failure_probability
from dodona.privacy.additive_noise import Gaussian, Laplace, round_scale_up

_FINE = 1e-4  # of the logarithm of a scale; widths are flat there, so they are found to about its square
_NOTHING = 10.0
_MOST = 0.25  # noise of a larger scale on answers from 0 to 1 is not looked at


@dataclass(frozen=True, slots=True)
class RouteParameters:
    """The public parameters of a certificate."""

    rows: int
    queries: int
    failing: float
    steps: int

    def mean(self, scale: float) -> float:
        """Return the scale on the mean of a scale on the sum in steps."""
        return scale / (self.rows * self.steps)


Width = Callable[[RouteParameters, float, float], float]
"""The error for a scale on the mean and the fraction of β spent on the transfer; infinite if nothing is proved."""


def certificate(
    route: Route, *, rows: int, queries: int, confidence: float = 0.95, values: Values = Values.SHARES
) -> Certificate:
    """Return the smallest error that a route proves.

    Theorem: statistical-query-oracle
    """
    count, levels = validate_rows(rows), None
    case = RouteParameters(count, validate_queries(queries), to_failure_probability(confidence), resolution(count))
    match route:
        case Route.SPLITTING:
            within, noise = _splitting_error(case, values), None
        case Route.ROUNDING:
            levels = coarseness(case)
            within, noise = _rounded_error(case, levels), None
        case Route.LAPLACE | Route.COMPOSED_LAPLACE:
            within, noise = _best_noise(case, _WIDTHS[route], Laplace)
        case (
            Route.GAUSSIAN
            | Route.CONCENTRATED
            | Route.STABILITY
            | Route.ADDED_STABILITY
            | Route.INFORMATION
            | Route.JUNG
        ):
            within, noise = _best_noise(case, _WIDTHS[route], Gaussian)
        case _:
            assert_never(route)
    return Certificate(
        route=route,
        rows=count,
        queries=case.queries,
        within=min(1.0, within),
        confidence=confidence,
        resolution=case.steps,
        noise=noise,
        levels=levels,
    )


def _splitting_error(case: RouteParameters, values: Values) -> float:
    each = case.rows // case.queries
    if each == 0:
        return 1.0
    failing = noiseless.failure_per_query(case.failing, queries=case.queries)
    if values is Values.YES_NO:  # 0 and 1 lie on the grid
        return noiseless.binomial_within(each, failing=failing)
    return noiseless.hoeffding_within(each, failing=failing) + rounding_error(case.steps)


def coarseness(case: RouteParameters) -> int:
    """Return the number of levels with the least error."""
    optimum = minimize_unimodal(
        lambda place: _rounded_error(case, round(math.exp(place))), math.log(2), math.log(10**4), near=1e-3
    )
    near = round(math.exp(optimum))
    return min(range(max(2, near - 3), near + 4), key=lambda levels: _rounded_error(case, levels))


def _rounded_error(case: RouteParameters, levels: int) -> float:
    """Return the error of rounded answers: of sampling, of the levels, and of the grid."""
    return (
        union_bound_within(case.rows, ways=log_transcripts(case.queries, levels), failing=case.failing)
        + 0.5 / levels
        + rounding_error(case.steps)
    )


def _best_noise(case: RouteParameters, width: Width, law: type[Gaussian | Laplace]) -> tuple[float, Gaussian | Laplace]:
    """Return the smallest error over scales and splits of β, with noise of a scale that can be drawn."""
    low = math.log(max(1e-3 / (case.rows * case.steps), 1e-5 * math.sqrt(case.queries) / case.rows))
    high, share, position = math.log(_MOST), 0.6, 0.0
    # Scale and split hardly interact: three rounds with narrowing brackets.
    for reach in (math.inf, 0.3, 0.1):
        near = position - reach, position + reach
        position = minimize_unimodal(
            lambda place: width(case, math.exp(place), share),  # noqa: B023  called at once
            max(low, near[0]),
            min(high, near[1]),
            near=_FINE,
        )
        share = minimize_unimodal(
            lambda part: width(case, math.exp(position), part),  # noqa: B023  called at once
            max(0.02, share - reach),
            min(0.98, share + reach),
            near=1e-3,
        )
    noise = law(scale=round_scale_up(math.exp(position) * case.rows * case.steps))
    return width(case, case.mean(float(noise.scale)), share) + rounding_error(case.steps), noise


def _gaussian(case: RouteParameters, scale: float, share: float) -> float:
    return _rounded_normal(case, scale, share, lambda mu, failing: gaussian_transfer(mu, failing=failing))


def _stability(case: RouteParameters, scale: float, share: float) -> float:
    def transfer(mu: float, failing: float) -> float:
        del mu  # the stability is said of the scale itself
        stability = gaussian_stability(rows=case.rows, scale=scale, queries=case.queries)
        return stable_transfer(stability, failing=failing)

    return _rounded_normal(case, scale, share, transfer)


def _added_stability(case: RouteParameters, scale: float, share: float) -> float:
    def transfer(mu: float, failing: float) -> float:
        del mu
        stability = case.queries * gaussian_stability(rows=case.rows, scale=scale)
        return stable_transfer(min(1.0, stability), failing=failing)

    return _rounded_normal(case, scale, share, transfer)


def _rounded_normal(
    case: RouteParameters, scale: float, share: float, transfer: Callable[[float, float], float]
) -> float:
    """Return the error of rounded normal noise, after the distance of discrete noise from it is subtracted from β.

    Theorem: rounded-normal
    """
    steps = scale * case.rows * case.steps
    failing = case.failing - rounded_normal_distance(steps, answers=case.queries)
    if failing <= 0:
        return _NOTHING - math.log(scale)
    mu = math.sqrt(case.queries) / (case.rows * scale)
    noise = averaged_gaussian(scale=scale, answers=case.queries, failing=failing * (1 - share))
    return _sum(case, scale, transfer(mu, failing * share), noise)


def _concentrated_error(case: RouteParameters, scale: float, share: float) -> float:
    """Return the error of discrete Gaussian noise, ρ = k·Δ²/(2σ²)."""
    rho = case.queries / (2 * (case.rows * scale) ** 2) * (1 + 1e-12)
    noise = averaged_gaussian(scale=scale, answers=case.queries, failing=case.failing * (1 - share))
    return _sum(case, scale, concentrated_transfer(rho, failing=case.failing * share), noise)


def _laplace(case: RouteParameters, scale: float, share: float) -> float:
    del share  # the transfer of pure privacy does not fail
    noise = averaged_laplace(scale=scale, answers=case.queries, failing=case.failing)
    return _sum(case, scale, pure_transfer(case.queries / (case.rows * scale)), noise)


def _composed_laplace(case: RouteParameters, scale: float, share: float) -> float:
    """Return the error of discrete Laplace noise, with each answer at its zCDP price."""
    width = scale * case.rows * case.steps
    each = float(_laplace_price(case.steps, width))
    noise = averaged_laplace(scale=scale, answers=case.queries, failing=case.failing * (1 - share))
    return _sum(case, scale, concentrated_transfer(case.queries * each, failing=case.failing * share), noise)


def _laplace_price(steps: int, scale: float) -> float:
    """Return the zCDP price of one answer with discrete Laplace noise, ε - (1 - e^-ε)/(b·sinh(1/b)), rounded up.

    Theorem: laplace-rho
    """
    ratio = steps / scale
    if ratio < 1e-3:  # noqa: PLR2004  ε²/2 is above it and differs by less than a part in a thousand
        return ratio**2 / 2 * (1 + 1e-12) * (1 + 1 / steps)
    inverse = 1 / scale
    return (ratio + math.expm1(-ratio) * inverse / math.sinh(inverse)) * (1 + 1e-9)


def _sum(case: RouteParameters, scale: float, gap: float, noise: float) -> float:
    """Return the total error with one step for discreteness; if the transfer proves nothing, prefer more noise."""
    return gap + noise + 1 / (case.rows * case.steps) if gap < 1 else _NOTHING - math.log(scale)


def _information(case: RouteParameters, scale: float, share: float) -> float:
    gap = published.information_gap(rows=case.rows, queries=case.queries, scale=scale, failing=case.failing * share)
    noise = published.plain_gaussian(scale=scale, answers=case.queries, failing=case.failing * (1 - share))
    return _sum(case, scale, gap, noise)


def _jung(case: RouteParameters, scale: float, share: float) -> float:
    steps = scale * case.rows * case.steps
    failing = case.failing - rounded_normal_distance(steps, answers=case.queries)
    if failing <= 0:
        return _NOTHING - math.log(scale)
    mu = math.sqrt(case.queries) / (case.rows * scale)
    gap = published.jung_gap(mu, failing=failing * share)
    noise = published.jung_noise(scale=scale, answers=case.queries, failing=failing * (1 - share))
    return _sum(case, scale, gap, noise)


_WIDTHS: dict[Route, Width] = {
    Route.GAUSSIAN: _gaussian,
    Route.CONCENTRATED: _concentrated_error,
    Route.STABILITY: _stability,
    Route.ADDED_STABILITY: _added_stability,
    Route.INFORMATION: _information,
    Route.JUNG: _jung,
    Route.LAPLACE: _laplace,
    Route.COMPOSED_LAPLACE: _composed_laplace,
}
