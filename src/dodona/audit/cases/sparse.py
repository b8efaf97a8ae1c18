"""The sparse vector technique on the streams that broke its faulty variants (Lyu, Su and Li 2017)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from dodona.audit.cases.case import Case, on_both, pure
from dodona.audit.features import PATTERN, PATTERN_AND_ANSWER, PATTERN_AND_GAP, Feature, Outputs
from dodona.direct import watch
from dodona.domain.neighbours import Neighbours
from dodona.errors import Halted
from dodona.mechanisms import SparseVector
from dodona.query.sensitivity import Sensitivity

Stream = tuple[int, ...]
_SHARE = 5
_BELOW, _UNASKED = (0, 0, 0), (-1, 0, 0)


def cases() -> Iterator[Case]:
    """Return every audit of a sparse vector."""
    for neighbours in Neighbours:
        yield from _everywhere(neighbours)
    yield from _swapped()


def _everywhere(neighbours: Neighbours) -> Iterator[Case]:
    """Streams on which one person counts everywhere; under replace the last question falls while others rise."""
    sensitivity = Sensitivity.counts(6, neighbours)
    rising: tuple[Stream, Stream] = ((0,) * 6, (1,) * 6)
    mixed: tuple[Stream, Stream] = ((0, 0, 0, 0, 0, 1), (1, 1, 1, 1, 1, 0))
    tables = rising if neighbours is Neighbours.ADD_REMOVE else mixed

    def case(name: str, mechanism: SparseVector, *features: Feature) -> Case:
        return _case(name, mechanism, sensitivity, tables, *features)

    yield case("above threshold", SparseVector.above_threshold(1, sensitivity), PATTERN, PATTERN_AND_GAP)
    yield case("sparse, 3 positives", SparseVector.sparse(6, sensitivity, positives=3), PATTERN, PATTERN_AND_GAP)
    numeric = SparseVector.numeric_sparse(2, sensitivity, positives=1)
    yield case("numeric", numeric, PATTERN_AND_ANSWER, PATTERN_AND_GAP)
    best = SparseVector.for_privacy(1, sensitivity, questions=6)
    yield case("one threshold", best, PATTERN, PATTERN_AND_GAP)
    several = SparseVector.for_privacy(3, sensitivity, questions=6, positives=3)
    yield case("one threshold, 3 positives", several, PATTERN, PATTERN_AND_GAP)


def _swapped() -> Iterator[Case]:
    """The streams of the paper's counterexamples, whose halves move in opposite directions."""
    neighbours = Neighbours.REPLACE
    sensitivity = Sensitivity.counts(12, neighbours)
    six = SparseVector.for_privacy(1, sensitivity, questions=12, positives=6)
    yield _case("six positives", six, sensitivity, ((0,) * 12, (1,) * 6 + (-1,) * 6), PATTERN)
    one = SparseVector.for_privacy(1, sensitivity, questions=12)
    for half in (5, 10):
        tables = ((0,) * half + (1,) * half, (1,) * half + (0,) * half)
        yield _case(f"{2 * half} questions, halves swapped", one, sensitivity, tables, PATTERN)


def _case(
    name: str, mechanism: SparseVector, sensitivity: Sensitivity, tables: tuple[Stream, Stream], *features: Feature
) -> Case:
    return Case(
        name=f"sparse vector: {name}",
        mechanism="sparse_vector",
        neighbours=sensitivity.neighbours,
        claim=pure(mechanism.event(sensitivity)),
        draw=on_both(partial(_watched, mechanism), *tables),
        features=features,
        share=_SHARE,
    )


def _watched(mechanism: SparseVector, stream: Stream, times: int) -> Outputs:
    """Return for each run and question (above, gap, answer), and (-1, 0, 0) for what it no longer answers."""
    told: list[int] = []
    for _ in range(times):
        opened = watch(mechanism)
        for asked, value in enumerate(stream):
            try:
                verdict = opened.ask(value, threshold=0)
            except Halted:
                told.extend(_UNASKED * (len(stream) - asked))
                break
            told.extend((1, verdict.gap or 0, verdict.answer or 0) if verdict.above else _BELOW)
    return np.array(told).reshape(times, len(stream), 3)
