"""Laplace, Gaussian and rounded normal noise: counts, sums, histograms and vectors, on both paths of `direct.run`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from dodona.lab.audit.cases.case import Case, Currency, on_both, pure
from dodona.lab.audit.cases.forked import answered_across_a_fork
from dodona.lab.audit.features import DIFFERENCE, LOWEST_BIT, VALUE, Feature, Outputs, compared, pair
from dodona.lab.direct import run
from dodona.lab.mechanisms import Gaussian, Laplace, RoundedGaussian
from dodona.privacy.additive_noise import Noise
from dodona.privacy.events import ComposedEvent, Event
from dodona.query.sensitivity import Sensitivity
from dodona.schema.schema import Neighbours

Row = tuple[int, ...]
Pair = tuple[Row, Row]
_REACH = 200
_AHEAD = 1 << 9  # half of what is drawn ahead, so that a child could hand out what its parent does
_SINGLY = 5  # a call for each sample is about ten times as slow as a call for all, less what a bound costs


def cases() -> Iterator[Case]:
    """Yield the audits of noise."""
    for neighbours in Neighbours:
        yield from _laplace(neighbours)
        yield from _gaussian(neighbours)
        yield from _rounded(neighbours)
    yield from _twice()


def _laplace(neighbours: Neighbours) -> Iterator[Case]:
    count, total = Sensitivity.count(neighbours), Sensitivity(l1=7, l2_squared=49, linf=7, neighbours=neighbours)
    histogram, vector = Sensitivity.histogram(neighbours), Sensitivity.counts(4, neighbours)
    moved = ((5, 5), (5, 6)) if neighbours is Neighbours.ADD_REMOVE else ((5, 5), (4, 6))

    def case(name: str, sensitivity: Sensitivity, tables: Pair, *features: Feature, epsilon: str = "1") -> Case:
        mechanism = Laplace.for_privacy(epsilon, sensitivity)
        return _pure(f"laplace {name}", mechanism, mechanism.event(sensitivity), tables, *features)

    yield case("count", count, ((0,), (1,)), VALUE, LOWEST_BIT)
    yield case("count at ε = 1/10", count, ((3,), (4,)), VALUE, epsilon="1/10")
    yield case("count at ε = 3", count, ((3,), (4,)), VALUE, epsilon="3")
    yield case("sum", total, ((100,), (107,)), VALUE, LOWEST_BIT)
    yield case("histogram", histogram, moved, pair(_REACH), compared(5, 6), DIFFERENCE)
    yield case("vector", vector, ((4,) * 4, (5,) * 4), compared(5, 5, 5, 5))
    # Above a scale of 32 another branch draws.
    wide = Sensitivity(l1=33, l2_squared=33**2, linf=33, neighbours=neighbours)
    yield case("wide sum", wide, ((0,), (33,)), VALUE)
    mechanism = Laplace.for_privacy(1, count)
    singly = on_both(partial(_singly, mechanism), (10,), (11,))
    clamped = on_both(lambda row, times: np.maximum(_answers(mechanism, row, times), 0), (2,), (3,))
    for name, draw, share in (("laplace singly", singly, _SINGLY), ("laplace behind max(0, ·)", clamped, 1)):
        yield Case(
            name=name,
            mechanism="laplace",
            neighbours=neighbours,
            claim=pure(mechanism.event(count)),
            draw=draw,
            features=(VALUE,),
            share=share,
        )


def _gaussian(neighbours: Neighbours) -> Iterator[Case]:
    count, total = Sensitivity.count(neighbours), Sensitivity(l1=8, l2_squared=64, linf=8, neighbours=neighbours)
    histogram = Sensitivity.histogram(neighbours)
    moved = ((5, 5), (5, 6)) if neighbours is Neighbours.ADD_REMOVE else ((5, 5), (4, 6))
    audited = (
        ("count", count, Gaussian(scale=2), ((0,), (1,)), (VALUE,), _answers, 1),
        ("sum", total, Gaussian(scale=8), ((100,), (108,)), (VALUE,), _answers, 1),
        ("wide", total, Gaussian(scale=40), ((100,), (108,)), (VALUE,), _answers, 1),
        ("histogram", histogram, Gaussian(scale=4), moved, (DIFFERENCE, pair(_REACH)), _answers, 1),
        ("singly", total, Gaussian(scale=8), ((100,), (108,)), (VALUE,), _singly, _SINGLY),
    )
    for name, sensitivity, mechanism, tables, features, sample, share in audited:
        # The discrete distribution is not exactly μ-Gaussian. Below a scale of 2 it has too few steps; from there on
        # its curve exceeds that of μ = √(2ρ) by a factor of at most 1 + 1/(22·scale²).
        excess = 1 + 1 / (22 * float(mechanism.scale) ** 2)
        yield Case(
            name=f"gaussian {name}",
            mechanism="gaussian",
            neighbours=neighbours,
            claim=math.sqrt(2 * float(mechanism.event(sensitivity).rho())) * excess,
            draw=_drawn(mechanism, sample, tables),
            features=features,
            currency=Currency.MU,
            share=share,
        )
    sum_tables, sum_noise = ((100,), (108,)), Gaussian(scale=8)
    yield Case(
        name="gaussian sum in zCDP",
        mechanism="gaussian",
        neighbours=neighbours,
        claim=float(sum_noise.event(total).rho()),
        draw=_drawn(sum_noise, _answers, sum_tables),
        features=(VALUE,),
        currency=Currency.RHO,
    )
    epsilon = 1
    calibrated = Gaussian.for_privacy(epsilon, "1/100", total)
    yield Case(
        name="gaussian sum at δ = 1/100",
        mechanism="gaussian",
        neighbours=neighbours,
        claim=float(epsilon),
        delta=calibrated.delta(epsilon, total),
        draw=_drawn(calibrated, _answers, sum_tables),
        features=(VALUE,),
    )


def _rounded(neighbours: Neighbours) -> Iterator[Case]:
    """Yield audits of rounded normal noise, whose μ is exact: rounding reveals no more than the normal distribution."""
    large = Sensitivity(l1=24, l2_squared=24**2, linf=24, neighbours=neighbours)  # μ = 3, where a few percent show
    count, total = Sensitivity.count(neighbours), Sensitivity(l1=8, l2_squared=64, linf=8, neighbours=neighbours)
    moved = ((5, 5), (5, 6)) if neighbours is Neighbours.ADD_REMOVE else ((5, 5), (4, 6))
    audited = (
        ("count", count, RoundedGaussian(scale=2), ((0,), (1,)), (VALUE,), _answers, 1),
        ("narrow count", count, RoundedGaussian(scale="1/2"), ((0,), (1,)), (VALUE,), _answers, 1),
        ("sum", total, RoundedGaussian(scale=8), ((100,), (108,)), (VALUE, LOWEST_BIT), _answers, 1),
        ("wide", total, RoundedGaussian(scale=40), ((100,), (108,)), (VALUE,), _answers, 1),
        ("large sum", large, RoundedGaussian(scale=8), ((100,), (124,)), (VALUE,), _answers, 1),
        (
            "histogram",
            Sensitivity.histogram(neighbours),
            RoundedGaussian(scale=4),
            moved,
            (DIFFERENCE, pair(_REACH)),
            _answers,
            1,
        ),
        ("singly", total, RoundedGaussian(scale=8), ((100,), (108,)), (VALUE,), _singly, _SINGLY),
    )
    for name, sensitivity, mechanism, tables, features, sample, share in audited:
        yield Case(
            name=f"rounded {name}",
            mechanism="rounded-gaussian",
            neighbours=neighbours,
            claim=math.sqrt(float(mechanism.event(sensitivity).mu_squared())),
            draw=_drawn(mechanism, sample, tables),
            features=features,
            currency=Currency.MU,
            share=share,
        )


def _twice() -> Iterator[Case]:
    """Two counts in two calls: one person leaves the first group and joins the second."""
    neighbours = Neighbours.REPLACE
    count = Sensitivity.count(neighbours)
    mechanism = Laplace.for_privacy("1/2", count)
    ways: tuple[tuple[str, Callable[[Row, int], Outputs], int], ...] = (
        ("in two calls", partial(_in_two_calls, mechanism), 1),
        ("in two single calls", partial(_in_two_single_calls, mechanism), _SINGLY),
        ("across a fork", partial(answered_across_a_fork, _answers, 1 << 17, mechanism), 1),
        ("singly across a fork", partial(answered_across_a_fork, _singly, _AHEAD, mechanism), _SINGLY),
    )
    for name, sample, share in ways:
        yield Case(
            name=f"laplace {name}",
            mechanism="laplace",
            neighbours=neighbours,
            claim=pure(ComposedEvent(((mechanism.event(count), 2),))),
            draw=on_both(sample, (5, 5), (4, 6)),
            features=(DIFFERENCE, compared(5, 6)),
            share=share,
        )


def _pure(name: str, mechanism: Laplace, event: Event, tables: Pair, *features: Feature) -> Case:
    return Case(
        name=name,
        mechanism="laplace",
        neighbours=event.neighbours,
        claim=pure(event),
        draw=_drawn(mechanism, _answers, tables),
        features=features,
    )


def _drawn(
    mechanism: Noise, sample: Callable[[Noise, Row, int], Outputs], tables: Pair
) -> Callable[[int], tuple[Outputs, Outputs]]:
    return on_both(partial(sample, mechanism), *tables)


def _answers(mechanism: Noise, row: Row, times: int) -> Outputs:
    """Return the noisy row `times` times, from one call."""
    noisy = run(mechanism, np.tile(np.array(row), times))
    return noisy if len(row) == 1 else noisy.reshape(times, len(row))


def _singly(mechanism: Noise, row: Row, times: int) -> Outputs:
    """Return the noisy number `times` times, from one call each."""
    return np.array([run(mechanism, row[0]) for _ in range(times)])


def _in_two_calls(mechanism: Noise, row: Row, times: int) -> Outputs:
    return np.stack([run(mechanism, np.full(times, value)) for value in row], axis=1)


def _in_two_single_calls(mechanism: Noise, row: Row, times: int) -> Outputs:
    return np.array([[run(mechanism, value) for value in row] for _ in range(times)])
