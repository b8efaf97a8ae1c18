"""Releases: exact answers from the source, noise upon them, and nothing before the receipt is used.

Whatever planned a release, its price is computed here again, from the query and the unit alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from operator import index
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from dodona.accounting.event import Event
from dodona.domain.unit import Unit
from dodona.ledger.contract import Ledger
from dodona.ledger.receipt import Receipt
from dodona.ledger.release import Release
from dodona.mechanisms.measurement import Measurement, Noise
from dodona.mechanisms.residual import Residuals
from dodona.query.query import Query
from dodona.query.spelling import to_json
from dodona.trusted.faults import SourceFailed, Unpaid
from dodona.trusted.noise import in_runs
from dodona.trusted.source import Source, opened

if TYPE_CHECKING:
    from numpy.typing import NDArray

Told = TypeVar("Told")
_LARGEST = 1 << 62  # integers up to this cannot wrap when noise is added


def release(  # noqa: PLR0913  everything that meets here is named
    measurement: Measurement | Residuals,
    receipt: Receipt,
    *,
    ledger: Ledger,
    source: Source,
    unit: Unit,
    text: str | None = None,
) -> Release:
    """Return noisy answers, recorded; the receipt must be for exactly this measurement, and is used up.

    The text is the question as it was written, kept for people.

    Theorem: release
    """
    query = measurement.query
    hold(receipt, measurement.event(unit), measurement.purpose, source)
    question, mechanism = to_json(query), measurement.mechanism
    values = unseen(lambda: noisy(paid(receipt, query, ledger=ledger, source=source), measurement))
    released = Release(receipt=receipt.id, values=values, mechanism=mechanism, question=question, text=text)
    ledger.record(released)
    return released


def unseen(work: Callable[[], Told]) -> Told:
    """Return what the work returns; of whatever it raises no frame is left, as they hold exact values.

    An interrupt, or a lack of memory, may come at any moment, also between a look and its noise.

    Theorem: release
    """
    try:
        return work()
    except BaseException as fault:  # noqa: BLE001  whatever it is
        fault.__context__ = fault.__cause__ = None
        raise fault.with_traceback(None)  # noqa: B904  it is the same one


def hold(receipt: Receipt, event: Event, purpose: str, source: Source) -> None:
    """Raise Unpaid unless the receipt is for this event, this question and this version of the data."""
    if (receipt.event, receipt.purpose, receipt.version) != (event, purpose, source.version):
        raise Unpaid


def paid(receipt: Receipt, query: Query, *, ledger: Ledger, source: Source) -> NDArray[np.int64] | list[int]:
    """Return exact answers under a receipt that is used up; where the table could not be read, it may be used again.

    Then nothing was drawn, and the charge stands: the same key asks again.

    Theorem: release
    """
    ledger.redeem(receipt)
    try:
        return exact(source, query)
    except SourceFailed:
        ledger.unanswered(receipt)
        raise


def exact(source: Source, query: Query) -> NDArray[np.int64] | list[int]:
    """Return exact answers, or raise SourceFailed; no other error leaves, as it may quote a row."""
    values = _answered(source, query)
    if values is None:  # raised here, so that neither what went wrong nor any value travels with it
        raise SourceFailed
    return values


def _answered(source: Source, query: Query) -> NDArray[np.int64] | list[int] | None:
    try:
        values = opened(source.exact(query))
        if len(values) != query.values:
            return None
        if isinstance(values, np.ndarray) and values.dtype == np.int64 and (abs(values // 2) < _LARGEST // 2).all():
            return values  # halved before abs, as -2^63 has no opposite in 64 bits
        return [index(value) for value in values]
    except Exception:  # noqa: BLE001  whatever it is
        return None


def noisy(values: NDArray[np.int64] | Sequence[int], measurement: Measurement | Residuals) -> tuple[int, ...]:
    """Return the values with the noise of their blocks; of residuals, the Helmert rows with theirs."""
    if isinstance(measurement, Residuals):
        values = measurement.turned(values)
    noise = in_runs(_runs(measurement))
    if isinstance(values, np.ndarray) and values.dtype == np.int64:
        return tuple((values + noise).tolist())
    return tuple(int(value) + drawn for value, drawn in zip(values, noise.tolist(), strict=True))


def _runs(measurement: Measurement | Residuals) -> list[tuple[Noise, int]]:
    """Return neighbouring blocks of one noise together, with how many values they have; a Helmert row has one."""
    if isinstance(measurement, Residuals):
        return [(law, sum(1 for _ in run)) for law, run in groupby(measurement.noises)]
    paired = zip(measurement.noises, measurement.query.blocks, strict=True)
    grouped = groupby(paired, key=lambda pair: pair[0])
    return [(law, sum(block.values for _, block in run)) for law, run in grouped]
