"""Opening a watch: the whole run is charged before the first question."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from dodona.answer.price import FREE, Price
from dodona.exact import Exact
from dodona.mechanisms.scale import epsilon_of
from dodona.mechanisms.sparse_vector import SparseVector
from dodona.online.chance import paid
from dodona.online.desk import Desk, fitting_epsilon
from dodona.online.planning import epsilon_alone
from dodona.online.watch import Watch, level_of
from dodona.query.people import count_effect
from dodona.query.question import Question
from dodona.trusted.alerts import Alerts, purpose_of

_CONFIDENCE = 0.95


def watched(  # noqa: PLR0913  a watch has this many sides
    desk: Desk,
    read: Callable[[object], Question],
    threshold: int,
    *,
    epsilon: Exact,
    alerts: int,
    questions: int,
    most: Fraction,
    key: str | None,
) -> Watch:
    """Return an open watch on counts; `questions` says for how many its accuracy is stated, and more may be asked.

    Under the key of an earlier one it is that one, opened again, and nothing is charged.
    """
    dataset = desk.dataset
    unit, ledger = dataset.schema.unit, dataset.ledger
    level = level_of(threshold)
    moved = count_effect(unit)

    def watching(price: Fraction) -> SparseVector:
        return SparseVector.for_privacy(price, moved, questions=questions, positives=alerts, confidence=_CONFIDENCE)

    mechanism = watching(epsilon_of(epsilon))
    event = mechanism.event(moved)
    price = Price(ledger.share(event), epsilon_alone(event, ledger.state().total.delta))
    if key is not None and ledger.receipt(key, analyst=desk.analyst) is not None:
        price = FREE
    receipt = desk.charge(
        event,
        key=key,
        purpose=purpose_of(mechanism),
        most=most,
        best=lambda fits: fitting_epsilon(
            lambda tried: ledger.share(watching(tried).event(moved)), epsilon_of(epsilon), fits
        ),
    )
    try:
        with paid():
            opened = Alerts(mechanism, receipt, ledger=ledger, source=dataset.source, unit=unit)
    finally:
        ledger.let_go(receipt)
    return Watch(
        threshold=level,
        price=price,
        within=mechanism.accuracy(_CONFIDENCE, questions=questions).within,
        confidence=_CONFIDENCE,
        questions=questions,
        alerts=opened,
        read=read,
        about=dataset.about,
    )
