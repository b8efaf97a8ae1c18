"""Reading releases: the integers that were recorded, as the values of the questions that they answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise

from dodona.answer.measured import Measured
from dodona.answer.price import Price
from dodona.ledger.release import Release
from dodona.mechanisms.measurement import noises_from
from dodona.online.finding import Held
from dodona.query.question import Question


def read_release(released: Release, asked: Sequence[Question], price: Price) -> Iterator[Held]:
    """Yield a release's integers by question; noisy answers are never fractions."""
    values, noises = tuple(int(value) for value in released.values), noises_from(released.mechanism)
    blocks = _spans(len(question.query.blocks) for question in asked)
    numbers = _spans(question.query.values for question in asked)
    for question, (start, after), (first, last) in zip(asked, blocks, numbers, strict=True):
        measured = Measured(question, values[first:last], noises[start:after])
        yield Held(measured, "measured", released.receipt, price)


def _spans(sizes: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Return begin and end of parts that stand one after the other.

    >>> list(_spans([2, 3]))
    [(0, 2), (2, 5)]
    """
    return pairwise(accumulate(sizes, initial=0))
