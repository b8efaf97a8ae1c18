"""Watches: threshold alerts over counts, charged in full when the watch is opened."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

from dodona.curator.desk import Desk, Purchase, affordable_epsilon, mark_errors_prepaid
from dodona.errors import InvalidRequest
from dodona.numbers import Exact, to_integer
from dodona.privacy.additive_noise import validate_noise_epsilon
from dodona.privacy.budget import Price
from dodona.privacy.sparse_vector import SparseVector
from dodona.query.query import Query
from dodona.query.question import Question
from dodona.query.sensitivity import row_count_sensitivity
from dodona.trusted.gate import Alerts, Verdict, watch_purpose


def single_count_query(question: Question) -> Query:
    """Return the query of a question that shows one count and nothing computed from it."""
    block = question.single_total
    if block is None or block.values != 1 or block.unit != 1 or question.having is not None:
        raise InvalidRequest("Here a question is one count of rows, such as SELECT count(*) FROM … WHERE …")
    return question.query


_FARTHEST = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """A watch: any number of counts may be asked, and it reports which exceed the threshold, until the last alert.

    It ends with this process, unless it was opened with a key: `above` with the same key resumes it.
    """

    threshold: int
    price: Price
    within: float
    """Counts further from the threshold than this are all classified correctly, at the confidence."""
    confidence: float
    questions: int
    """For how many questions that holds."""
    alerts: Alerts
    read: Callable[[object], Question]
    about: str = ""
    """What it is about, where people are protected: how many rows of each count; and whether it promises nothing."""

    def __str__(self) -> str:
        right = f"of {self.questions:,} counts, all that are {self.within:.4g} away are classified correctly"
        about = f" {self.about}" if self.about else ""
        return f"Which counts are above {self.threshold:,} ({right}, at {self.confidence:.15g}; {self.price}).{about}"

    @property
    def left(self) -> int:
        """The number of remaining alerts."""
        return self.alerts.left

    def ask(self, question: object, *, threshold: int | None = None) -> Verdict:
        """Return whether the count of a question is above the threshold, both with noise; no further charge.

        A question may override the threshold.
        """
        query = single_count_query(self.read(question))
        level = self.threshold if threshold is None else integer_threshold(threshold)
        with mark_errors_prepaid():
            return self.alerts.ask(query, level)


def integer_threshold(threshold: int) -> int:
    """Return a threshold that is an integer, as counts are."""
    return to_integer(threshold, argument="threshold", lower=-_FARTHEST, upper=_FARTHEST)


_CONFIDENCE = 0.95


def open_watch(  # noqa: PLR0913  a watch has this many sides
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
    """Return an open watch on counts; its accuracy is stated for `questions` counts, but more may be asked.

    With the key of an earlier watch, that watch is reopened and nothing is charged.
    """
    dataset = desk.dataset
    unit, ledger = dataset.schema.unit, dataset.ledger
    level = integer_threshold(threshold)
    moved = row_count_sensitivity(unit)

    def watching(price: Fraction) -> SparseVector:
        return SparseVector.for_privacy(price, moved, questions=questions, positives=alerts, confidence=_CONFIDENCE)

    mechanism = watching(validate_noise_epsilon(epsilon))
    purchase = Purchase(
        event=mechanism.event(moved),
        purpose=watch_purpose(mechanism),
        deliver=partial(Alerts, mechanism),
        max_price=most,
        affordable=lambda fits: affordable_epsilon(
            lambda tried: ledger.share(watching(tried).event(moved)), validate_noise_epsilon(epsilon), fits
        ),
    )
    bought = desk.buy(purchase, key=key)
    within = mechanism.accuracy(_CONFIDENCE, questions=questions).within
    return Watch(
        threshold=level,
        price=bought.price,
        within=within,
        confidence=_CONFIDENCE,
        questions=questions,
        alerts=bought.item,
        read=read,
        about=dataset.about_promise(empty=within >= max(level, unit.size - level)),
    )
