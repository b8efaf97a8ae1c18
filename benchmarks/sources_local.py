"""Optimized unary encoding of a million respondents over a thousand labels, beside multi-freq-ldpy if it is there.

The peer is no dependency of the project. To measure it, put it beside the project first:

    pip install --no-deps --target build/peers multi-freq-ldpy xxhash
    PYTHONPATH=build/peers python -m benchmarks sources
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.clock import once
from dodona.lab.local import Encoder, SurveyQuestion

if TYPE_CHECKING:
    from numpy.typing import NDArray

RESPONDENTS, LABELS, EPSILON = 1_000_000, 1_000, 1
_PEER = "multi_freq_ldpy"
_WARM = 10_000


def ldp(respondents: int = RESPONDENTS) -> dict[str, float | None]:
    """Return the CPU seconds of all reports and their counts, of both, and the variances over what theory says.

    A report is materialised for every respondent: ours in blocks of packed bits, the peer's one by one, as its client
    returns them. Both are added up as they come, because a million of the peer's reports take eight gigabytes.
    """
    values = np.random.default_rng(8).integers(0, LABELS, respondents)
    question = SurveyQuestion.choice("value", map(str, range(LABELS)), epsilon=EPSILON, encoder=Encoder.OPTIMIZED)
    figures: dict[str, float | None] = {}

    def ours() -> None:
        estimates = question.collect(question.batches(values))
        shares = [float(estimates.support.share(marks, respondents)) for marks in estimates.marks]
        figures["ours_variance"] = _spread(np.array(shares), values, question)

    question.collect(question.batches(values[:_WARM]))
    figures["ours_s"] = once(ours)
    figures["peer_s"] = figures["peer_variance"] = None
    if find_spec(_PEER) is not None:
        randomize = import_module(f"{_PEER}.pure_frequency_oracles.UE").UE_Client
        _added(randomize, values[:_WARM])  # compiles it

        def peer() -> None:
            marks = _added(randomize, values)
            support = question.channel.support
            shares = (marks / respondents - float(support.lend)) / float(support.keep - support.lend)
            figures["peer_variance"] = _spread(shares, values, question)

        figures["peer_s"] = once(peer)
    return figures


def _added(randomize: Any, values: NDArray[np.int64]) -> NDArray[np.float64]:  # noqa: ANN401  the peer has no types
    total = np.zeros(LABELS)
    for value in values.tolist():
        total += randomize(value, LABELS, float(EPSILON), True)  # noqa: FBT003  the peer's own argument: optimal
    return total


def _spread(shares: NDArray[np.float64], values: NDArray[np.int64], question: SurveyQuestion) -> float:
    """Return the mean squared error over what theory says: near 1 for both, give or take 5%."""
    truth = np.bincount(values, minlength=LABELS) / values.size
    wanted = question.channel.support.variance(1 / LABELS, values.size)
    return float(np.mean((shares - truth) ** 2) / wanted)


if __name__ == "__main__":
    print(ldp())
