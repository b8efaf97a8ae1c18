"""Opening a watch: the whole run is charged before the first question."""

from __future__ import annotations

from collections.abc import Callable

from dodona.answer.price import Price
from dodona.exact import Exact, whole
from dodona.mechanisms.sparse_vector import SparseVector
from dodona.online.chance import paid
from dodona.online.dataset import Dataset
from dodona.online.planning import epsilon_alone
from dodona.online.watch import Watch
from dodona.query.people import count_effect
from dodona.query.question import Question
from dodona.trusted.alerts import PURPOSE, Alerts

_CONFIDENCE = 0.95
_FARTHEST = 1 << 62


def watched(  # noqa: PLR0913  a watch has this many sides
    dataset: Dataset,
    read: Callable[[object], Question],
    threshold: int,
    *,
    epsilon: Exact,
    alerts: int,
    questions: int,
    analyst: str | None,
) -> Watch:
    """Return an open watch on counts; `questions` says for how many its accuracy is stated, and more may be asked."""
    unit, ledger = dataset.schema.unit, dataset.ledger
    level = whole(threshold, argument="threshold", lower=-_FARTHEST, upper=_FARTHEST)
    moved = count_effect(unit)
    mechanism = SparseVector.for_privacy(epsilon, moved, questions=questions, positives=alerts, confidence=_CONFIDENCE)
    event = mechanism.event(moved)
    receipt = ledger.reserve(event, analyst=analyst, key=None, purpose=PURPOSE, version=dataset.source.version)
    with paid():
        opened = Alerts(mechanism, receipt, ledger=ledger, source=dataset.source, unit=unit)
    return Watch(
        threshold=level,
        price=Price(ledger.share(event), epsilon_alone(event, ledger.state().total.delta)),
        within=mechanism.accuracy(_CONFIDENCE, questions=questions).within,
        confidence=_CONFIDENCE,
        questions=questions,
        alerts=opened,
        read=read,
    )
