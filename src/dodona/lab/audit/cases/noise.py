"""Laplace, Gaussian and rounded normal noise: counts, sums, histograms and vectors, on both paths of `direct.run`."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from dodona.errors import InvariantBroken
from dodona.lab.audit.cases.case import AuditCase, LossMeasure, pure_epsilon, sample_both
from dodona.lab.audit.features import DIFFERENCE, LOWEST_BIT, VALUE, Feature, Outputs, comparison, pair
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


def cases() -> Iterator[AuditCase]:
    """Yield the audits of noise."""
    for neighbours in Neighbours:
        yield from _laplace(neighbours)
        yield from _gaussian(neighbours)
        yield from _rounded_gaussian(neighbours)
    yield from _twice()


def _laplace(neighbours: Neighbours) -> Iterator[AuditCase]:
    count, total = Sensitivity.count(neighbours), Sensitivity(l1=7, l2_squared=49, linf=7, neighbours=neighbours)
    histogram, vector = Sensitivity.histogram(neighbours), Sensitivity.counts(4, neighbours)
    moved = ((5, 5), (5, 6)) if neighbours is Neighbours.ADD_REMOVE else ((5, 5), (4, 6))

    def case(name: str, sensitivity: Sensitivity, tables: Pair, *features: Feature, epsilon: str = "1") -> AuditCase:
        mechanism = Laplace.for_privacy(epsilon, sensitivity)
        return _pure(f"laplace {name}", mechanism, mechanism.event(sensitivity), tables, *features)

    yield case("count", count, ((0,), (1,)), VALUE, LOWEST_BIT)
    yield case("count at ε = 1/10", count, ((3,), (4,)), VALUE, epsilon="1/10")
    yield case("count at ε = 3", count, ((3,), (4,)), VALUE, epsilon="3")
    yield case("sum", total, ((100,), (107,)), VALUE, LOWEST_BIT)
    yield case("histogram", histogram, moved, pair(_REACH), comparison(5, 6), DIFFERENCE)
    yield case("vector", vector, ((4,) * 4, (5,) * 4), comparison(5, 5, 5, 5))
    # Above a scale of 32 another branch draws.
    wide = Sensitivity(l1=33, l2_squared=33**2, linf=33, neighbours=neighbours)
    yield case("wide sum", wide, ((0,), (33,)), VALUE)
    mechanism = Laplace.for_privacy(1, count)
    singly = sample_both(partial(_singly, mechanism), (10,), (11,))
    clamped = sample_both(lambda row, times: np.maximum(_answers(mechanism, row, times), 0), (2,), (3,))
    for name, draw, share in (("laplace singly", singly, _SINGLY), ("laplace behind max(0, ·)", clamped, 1)):
        yield AuditCase(
            name=name,
            mechanism="laplace",
            neighbours=neighbours,
            claim=pure_epsilon(mechanism.event(count)),
            draw=draw,
            features=(VALUE,),
            share=share,
        )


def _gaussian(neighbours: Neighbours) -> Iterator[AuditCase]:
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
        yield AuditCase(
            name=f"gaussian {name}",
            mechanism="gaussian",
            neighbours=neighbours,
            claim=math.sqrt(2 * float(mechanism.event(sensitivity).rho())) * excess,
            draw=_sample_tables(mechanism, sample, tables),
            features=features,
            measure=LossMeasure.MU,
            share=share,
        )
    sum_tables, sum_noise = ((100,), (108,)), Gaussian(scale=8)
    yield AuditCase(
        name="gaussian sum in zCDP",
        mechanism="gaussian",
        neighbours=neighbours,
        claim=float(sum_noise.event(total).rho()),
        draw=_sample_tables(sum_noise, _answers, sum_tables),
        features=(VALUE,),
        measure=LossMeasure.RHO,
    )
    epsilon = 1
    calibrated = Gaussian.for_privacy(epsilon, "1/100", total)
    yield AuditCase(
        name="gaussian sum at δ = 1/100",
        mechanism="gaussian",
        neighbours=neighbours,
        claim=float(epsilon),
        delta=calibrated.delta(epsilon, total),
        draw=_sample_tables(calibrated, _answers, sum_tables),
        features=(VALUE,),
    )


def _rounded_gaussian(neighbours: Neighbours) -> Iterator[AuditCase]:
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
        yield AuditCase(
            name=f"rounded {name}",
            mechanism="rounded-gaussian",
            neighbours=neighbours,
            claim=math.sqrt(float(mechanism.event(sensitivity).mu_squared())),
            draw=_sample_tables(mechanism, sample, tables),
            features=features,
            measure=LossMeasure.MU,
            share=share,
        )


def _twice() -> Iterator[AuditCase]:
    """Two counts in two calls: one person leaves the first group and joins the second."""
    neighbours = Neighbours.REPLACE
    count = Sensitivity.count(neighbours)
    mechanism = Laplace.for_privacy("1/2", count)
    ways: tuple[tuple[str, Callable[[Row, int], Outputs], int], ...] = (
        ("in two calls", partial(_in_two_calls, mechanism), 1),
        ("in two single calls", partial(_in_two_single_calls, mechanism), _SINGLY),
        ("across a fork", partial(answer_across_fork, _answers, 1 << 17, mechanism), 1),
        ("singly across a fork", partial(answer_across_fork, _singly, _AHEAD, mechanism), _SINGLY),
    )
    for name, sample, share in ways:
        yield AuditCase(
            name=f"laplace {name}",
            mechanism="laplace",
            neighbours=neighbours,
            claim=pure_epsilon(ComposedEvent(((mechanism.event(count), 2),))),
            draw=sample_both(sample, (5, 5), (4, 6)),
            features=(DIFFERENCE, comparison(5, 6)),
            share=share,
        )


def _pure(name: str, mechanism: Laplace, event: Event, tables: Pair, *features: Feature) -> AuditCase:
    return AuditCase(
        name=name,
        mechanism="laplace",
        neighbours=event.neighbours,
        claim=pure_epsilon(event),
        draw=_sample_tables(mechanism, _answers, tables),
        features=features,
    )


def _sample_tables(
    mechanism: Noise, sample: Callable[[Noise, Row, int], Outputs], tables: Pair
) -> Callable[[int], tuple[Outputs, Outputs]]:
    return sample_both(partial(sample, mechanism), *tables)


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


Sample = Callable[[Noise, tuple[int, ...], int], Outputs]


def answer_across_fork(sample: Sample, few: int, mechanism: Noise, row: tuple[int, ...], times: int) -> Outputs:
    """Return pairs of answers, one from this process and one from a child, with a new child for every `few` pairs."""
    return np.concatenate([_answer_few(sample, mechanism, row, min(few, times - at)) for at in range(0, times, few)])


def _answer_few(sample: Sample, mechanism: Noise, row: tuple[int, ...], times: int) -> Outputs:
    sample(mechanism, row[:1], 1)  # a key is drawn before the fork, so that there is something to inherit
    receiving, sending = os.pipe()
    child = os.fork()
    if child == 0:
        _send_answers(sample, mechanism, row[1], times, sending)
    os.close(sending)
    mine = sample(mechanism, row[:1], times)
    with os.fdopen(receiving, "rb") as pipe:
        theirs = np.frombuffer(pipe.read(), dtype=mine.dtype)
    if os.waitpid(child, 0)[1] != 0 or theirs.size != mine.size:
        raise InvariantBroken("A forked process did not answer.")
    return np.stack((mine, theirs), axis=1)


def _send_answers(sample: Sample, mechanism: Noise, value: int, times: int, sending: int) -> None:
    """Answer in the child and leave without running the parent's exit handlers."""
    code = 1
    try:
        with os.fdopen(sending, "wb") as pipe:
            pipe.write(sample(mechanism, (value,), times).tobytes())
        code = 0
    finally:
        os._exit(code)
