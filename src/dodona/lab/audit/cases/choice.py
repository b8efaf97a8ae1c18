"""Randomized response, and the selection mechanisms."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from dodona.lab.audit.cases.case import AuditCase, LossMeasure, pure_epsilon, sample_both
from dodona.lab.audit.features import INDEX, VALUE, Outputs, pair
from dodona.lab.direct import ResponseMechanism, repeat, run
from dodona.lab.mechanisms import Coins, Exponential, NoisyMax, PermuteAndFlip, RandomizedResponse
from dodona.query.sensitivity import Sensitivity
from dodona.schema.schema import Neighbours

Scores = tuple[int, ...]
_REACH = 400
_BLOCK = 1 << 20  # noisy scores that are in memory at a time
_MANY = 100


def cases() -> Iterator[AuditCase]:
    """Yield the audits of responses and selections."""
    yield from _responses()
    for neighbours in Neighbours:
        yield from _choices(neighbours)
    yield from _maxima()


def _responses() -> Iterator[AuditCase]:
    """One person's answer is replaced by the opposite one."""
    audited: tuple[tuple[str, str, ResponseMechanism], ...] = (
        ("randomized_response", "", RandomizedResponse(epsilon=1)),
        ("randomized_response", " at ε = 3", RandomizedResponse(epsilon=3)),
        ("coins", "", Coins()),
    )
    for kind, note, mechanism in audited:
        event = mechanism.event()
        name = kind.replace("_", " ") + note
        for way, sample, share in (("", _respond_many, 1), (" singly", _respond_singly, 10)):
            yield AuditCase(
                name=name + way,
                mechanism=kind,
                neighbours=event.neighbours,
                claim=pure_epsilon(event),
                draw=sample_both(partial(sample, mechanism), (0,), (1,)),
                features=(VALUE,),
                share=share,
            )
        yield AuditCase(
            name=f"{name} in zCDP",
            mechanism=kind,
            neighbours=event.neighbours,
            claim=float(event.rho()),
            draw=sample_both(partial(_respond_many, mechanism), (0,), (1,)),
            features=(VALUE,),
            measure=LossMeasure.RHO,
        )


def _choices(neighbours: Neighbours) -> Iterator[AuditCase]:
    """Under add-remove scores are monotone counts; under replace one rises while another falls."""
    monotone = neighbours is Neighbours.ADD_REMOVE
    sensitivity = Sensitivity.scores(1, neighbours, monotone=monotone)
    tables: dict[str, tuple[Scores, Scores]] = {
        "of two": ((0, 0), (1, 0) if monotone else (1, -1)),
        "of two, one behind": ((0, 5), (1, 5) if monotone else (1, 4)),
        "of twenty": ((0,) * 20, (0, *(1,) * 19) if monotone else (-1, *(1,) * 19)),
    }
    for kind, mechanism in (
        ("exponential", Exponential.for_privacy(1, sensitivity)),
        ("permute_and_flip", PermuteAndFlip.for_privacy(1, sensitivity)),
    ):
        event = mechanism.event(sensitivity)
        claims = ((LossMeasure.EPSILON, "", pure_epsilon(event)), (LossMeasure.RHO, " in zCDP", float(event.rho())))
        for name, (first, second) in tables.items():
            for measure, note, claim in claims if name == "of two" else claims[:1]:
                yield AuditCase(
                    name=f"{kind.replace('_', ' ')} {name}{note}",
                    mechanism=kind,
                    neighbours=neighbours,
                    claim=claim,
                    draw=sample_both(partial(repeat, mechanism), first, second),
                    features=(VALUE,),
                    measure=measure,
                )


def _maxima() -> Iterator[AuditCase]:
    """Noisy max, observed with and without its gap."""
    general, added = (
        Sensitivity.scores(1, neighbours, monotone=monotone)
        for neighbours, monotone in ((Neighbours.REPLACE, False), (Neighbours.ADD_REMOVE, True))
    )
    anyhow = Sensitivity.scores(1, Neighbours.ADD_REMOVE)
    audited = (
        ("of two", general, (0, 0), (1, -1), 1),
        ("of eight", general, (0,) * 8, (-1, *(1,) * 7), 1),
        ("of many", general, (0,) * _MANY, (-1, *(1,) * (_MANY - 1)), 2),
        ("of two, monotone", added, (0, 0), (0, 1), 1),
        ("of five that all rise", added, (0,) * 5, (1,) * 5, 1),
        ("of eight, monotone", added, (0,) * 8, (0, *(1,) * 7), 1),
        ("of two, not monotone", anyhow, (0, 0), (1, -1), 1),
    )
    for name, sensitivity, first, second, share in audited:
        mechanism = NoisyMax.for_privacy(1, sensitivity)
        yield AuditCase(
            name=f"noisy max {name}",
            mechanism="noisy_max",
            neighbours=sensitivity.neighbours,
            claim=pure_epsilon(mechanism.event(sensitivity)),
            draw=sample_both(partial(_report_many, mechanism), first, second),
            features=(INDEX, pair(_REACH)),
            share=share,
        )


def _respond_many(mechanism: ResponseMechanism, truth: tuple[int, ...], times: int) -> Outputs:
    return run(mechanism, np.full(times, bool(truth[0])))


def _respond_singly(mechanism: ResponseMechanism, truth: tuple[int, ...], times: int) -> Outputs:
    return np.array([run(mechanism, bool(truth[0])) for _ in range(times)])


def _report_many(mechanism: NoisyMax, scores: Scores, times: int) -> Outputs:
    rows = max(1, _BLOCK // len(scores))
    return np.concatenate([repeat(mechanism, scores, min(rows, times - at)) for at in range(0, times, rows)])
