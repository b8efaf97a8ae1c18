"""Checks of predictions: whether a count is near what a model says. Paid for in full before the first one."""

from __future__ import annotations

from contextlib import suppress

from dodona.domain.unit import Unit
from dodona.errors import Halted, InvalidArgument
from dodona.ledger.contract import Ledger
from dodona.ledger.receipt import Receipt
from dodona.mechanisms.laplace import Laplace
from dodona.mechanisms.sparse_vector import SparseVector
from dodona.query.people import effect_of, score_effect
from dodona.query.query import Query
from dodona.trusted.noise import one
from dodona.trusted.release import exact, hold, unseen
from dodona.trusted.source import Source
from dodona.trusted.threshold import Watch

CONFIRMING = "confirm"


class Check:
    """Tells whether counts are near predictions, until the first that is not. It lives in this process alone.

    A distance moves both ways with a count, so there is no discount for monotone answers. Nothing but the verdict is
    told: neither the gap nor a value.

    Theorem: sparse-vector-privacy
    """

    def __init__(
        self, mechanism: SparseVector, receipt: Receipt, *, ledger: Ledger, source: Source, unit: Unit
    ) -> None:
        """Use the receipt, which must be for the whole run, and draw the threshold's noise."""
        if mechanism.positives != 1 or mechanism.answer_scale is not None:
            raise InvalidArgument("mechanism", mechanism, "write a sparse vector of one positive, without answers")
        self._moved, self._source, self._unit = score_effect(unit), source, unit
        hold(receipt, mechanism.event(self._moved), CONFIRMING, source)
        ledger.redeem(receipt)
        self._watch = Watch(mechanism, lambda scale: one(Laplace(scale=scale)))

    @property
    def open(self) -> bool:
        """Whether it may still tell."""
        return self._watch.positives_left > 0

    def near(self, query: Query, prediction: int, threshold: int) -> bool:
        """Return whether one count, with noise, is nearer to a prediction than a threshold, with noise.

        After the first that is not, it is closed.
        """
        if type(prediction) is not int:  # a fraction would be compared as one
            raise InvalidArgument("prediction", type(prediction), "write an integer")
        if query.values != 1 or effect_of(query, self._unit).linf > self._moved.linf:
            raise InvalidArgument("query", f"{query.values} answers", "ask for one count of rows")
        with suppress(Halted):
            return not unseen(
                lambda: self._watch.ask(abs(int(exact(self._source, query)[0]) - prediction), threshold)
            ).above
        raise Halted(1)  # here, so that no exact count travels in the frames of an error
