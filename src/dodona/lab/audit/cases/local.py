"""Local-model channels: one respondent's answer is replaced by another, and only the report is observed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from dodona.lab.audit.cases.case import AuditCase, pure_epsilon, sample_both
from dodona.lab.audit.features import VALUE, Outputs
from dodona.lab.local.bloom import Bloom
from dodona.lab.local.encoder import Encoder
from dodona.lab.local.hashed import LocalHashing
from dodona.lab.local.hashing import SEED_WORDS, hash_keys
from dodona.lab.local.question import SurveyQuestion

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Reports = NDArray[np.uint64]

_LABELS = ("red", "green", "blue")
_BLOOM = (32, 2)


def cases() -> Iterator[AuditCase]:
    """Yield the audits of reports."""
    questions = {
        "yes and no": (SurveyQuestion.yes_no("q", epsilon=1), _whole),
        "k-ary response": (SurveyQuestion.choice("q", _LABELS, epsilon=1, encoder=Encoder.KARY), _whole),
        "symmetric unary": (SurveyQuestion.choice("q", _LABELS, epsilon=1, encoder=Encoder.SYMMETRIC), _whole),
        "optimized unary": (SurveyQuestion.choice("q", _LABELS, epsilon=1, encoder=Encoder.OPTIMIZED), _whole),
        "k-ary response twice": (SurveyQuestion.choice("q", _LABELS, epsilon=2, each=2, encoder=Encoder.KARY), _whole),
        "local hashing": (SurveyQuestion.choice("q", _LABELS, epsilon=1, encoder=Encoder.HASHED), _bucket),
        "Bloom filter": (SurveyQuestion.text("q", epsilon=1, encoder=Encoder.BLOOM, shape=_BLOOM), _bits),
    }
    for name, (question, view) in questions.items():
        event = question.event()
        yield AuditCase(
            name=f"report by {name}",
            mechanism="local_report",
            neighbours=event.neighbours,
            claim=pure_epsilon(event),
            draw=sample_both(partial(_observe, question, view), (0,), (1,)),
            features=(VALUE,),
        )


def _observe(
    question: SurveyQuestion, view: Callable[[SurveyQuestion, Reports], Outputs], answer: tuple[int, ...], count: int
) -> Outputs:
    """Return what a collector who distinguishes the first two answers sees in the reports of one of them."""
    known = question.alphabet.labels
    value = (_LABELS if known is None else known)[answer[0]]
    return np.concatenate([view(question, batch.words) for batch in question.batches([value] * count)])


def _whole(question: SurveyQuestion, words: Reports) -> Outputs:
    del question
    return words[:, 0]


def _bucket(question: SurveyQuestion, words: Reports) -> Outputs:
    """Return which of the two answers a report supports, under its own hash function."""
    channel = question.channel
    assert isinstance(channel, LocalHashing)  # noqa: S101  narrows the type; the question above names the encoder
    first, second = (
        hash_keys(words, key, channel.buckets) == words[:, SEED_WORDS] for key in question.keys(_LABELS[:2])
    )
    code: Outputs = first + 2 * second
    return code


def _bits(question: SurveyQuestion, words: Reports) -> Outputs:
    """Return the bits of the two answers in both rows."""
    channel = question.channel
    assert isinstance(channel, Bloom)  # noqa: S101  narrows the type; the question above names the encoder
    code = np.zeros(words.shape[0], dtype=np.uint64)
    for row in range(channel.hashes):
        function, bits = (
            words[:, row * SEED_WORDS : (row + 1) * SEED_WORDS],
            words[:, channel.hashes * SEED_WORDS + row],
        )
        for key in question.keys(_LABELS[:2]):
            code = 2 * code + (bits >> hash_keys(function, key, channel.bits) & np.uint64(1))
    return code
