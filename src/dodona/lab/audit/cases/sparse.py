"""The sparse vector technique on the streams that broke its faulty variants (Lyu, Su and Li 2017)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from dodona.errors import Halted
from dodona.lab.audit.cases.case import AuditCase, pure_epsilon, sample_both
from dodona.lab.audit.features import PATTERN, PATTERN_AND_ANSWER, PATTERN_AND_GAP, Feature, Outputs, tally
from dodona.lab.direct import watch
from dodona.lab.mechanisms import SparseVector
from dodona.lab.sparse_vector import above_threshold, numeric_sparse, sparse
from dodona.query.sensitivity import Sensitivity
from dodona.schema.schema import Neighbours

Stream = tuple[int, ...]
_SHARE = 5
_BELOW, _UNASKED = (0, 0, 0), (-1, 0, 0)


def cases() -> Iterator[AuditCase]:
    """Yield the audits of sparse vectors."""
    for neighbours in Neighbours:
        yield from _common_streams(neighbours)
    yield from _swapped_streams()


def _common_streams(neighbours: Neighbours) -> Iterator[AuditCase]:
    """Streams in which one person counts everywhere; under replace the last query falls while others rise."""
    questions = 6
    sensitivity = Sensitivity.counts(questions, neighbours)
    last = 0 if neighbours is Neighbours.ADD_REMOVE else -2
    # One step below the threshold and on it, where the grid makes the comparison most revealing.
    tables = ((-1,) * questions, (0,) * (questions - 1) + (last,))
    mechanisms = {
        "above threshold": above_threshold(1, sensitivity),
        "one threshold": SparseVector.for_privacy(1, sensitivity, questions=questions),
    }
    for name, mechanism in mechanisms.items():
        yield _case(name, mechanism, sensitivity, tables, PATTERN, PATTERN_AND_GAP)
    longer = Sensitivity.counts(16, neighbours)
    numeric = numeric_sparse(4, longer, positives=1)
    # A long run of negatives reveals a faulty answer; that is rare, so this stream is longer and run more often.
    streams = ((-1,) * 16, (0,) * 15 + (last,))
    yield replace(_case("numeric", numeric, longer, streams, PATTERN_AND_ANSWER, PATTERN_AND_GAP), share=2)


def _swapped_streams() -> Iterator[AuditCase]:
    """Streams in which some queries rise and others fall, as in the paper's counterexamples."""
    for neighbours in Neighbours:
        sensitivity = Sensitivity.counts(16, neighbours)
        falling = 0 if neighbours is Neighbours.ADD_REMOVE else -1
        tables: tuple[Stream, Stream] = ((-1, 0) * 8, (0, falling) * 8)
        restarting = sparse(16, sensitivity, positives=8)
        yield _case("8 positives, restarting", restarting, sensitivity, tables, PATTERN)
        standing = SparseVector.for_privacy(3, sensitivity, questions=16, positives=3)
        yield _case("3 positives, one threshold", standing, sensitivity, tables, PATTERN, PATTERN_AND_GAP)
    sensitivity = Sensitivity.counts(12, Neighbours.REPLACE)
    six = SparseVector.for_privacy(3, sensitivity, questions=12, positives=6)
    yield _case("6 positives, halves moved apart", six, sensitivity, ((0,) * 12, (1,) * 6 + (-1,) * 6), PATTERN)
    single_positive = SparseVector.for_privacy(1, sensitivity, questions=12)
    for half in (5, 10):
        swapped = ((0,) * half + (1,) * half, (1,) * half + (0,) * half)
        yield _case(f"{2 * half} questions, halves swapped", single_positive, sensitivity, swapped, PATTERN)


def _case(
    name: str, mechanism: SparseVector, sensitivity: Sensitivity, tables: tuple[Stream, Stream], *features: Feature
) -> AuditCase:
    rising = tuple(after > before for before, after in zip(*tables, strict=True))
    return AuditCase(
        name=f"sparse vector: {name}",
        mechanism="sparse_vector",
        neighbours=sensitivity.neighbours,
        claim=pure_epsilon(mechanism.event(sensitivity)),
        draw=sample_both(partial(_run_watch, mechanism), *tables),
        features=(*features, tally(rising)),
        share=_SHARE,
    )


def _run_watch(mechanism: SparseVector, stream: Stream, times: int) -> Outputs:
    """Return for each run and query (above, gap, answer), and (-1, 0, 0) after it has halted."""
    rows: list[int] = []
    for _ in range(times):
        opened = watch(mechanism)
        for asked, value in enumerate(stream):
            try:
                verdict = opened.ask(value, threshold=0)
            except Halted:
                rows.extend(_UNASKED * (len(stream) - asked))
                break
            rows.extend((1, verdict.gap or 0, verdict.answer or 0) if verdict.above else _BELOW)
    return np.array(rows).reshape(times, len(stream), 3)
