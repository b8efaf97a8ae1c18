"""Choices: which answers are largest, told without their values."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dodona.domain.unit import Unit
from dodona.ledger.contract import Ledger
from dodona.ledger.receipt import Receipt
from dodona.ledger.release import Release
from dodona.mechanisms.exponential import Exponential
from dodona.mechanisms.permute_and_flip import PermuteAndFlip
from dodona.mechanisms.selection import Scored
from dodona.query.spelling import to_json
from dodona.trusted import samplers
from dodona.trusted.release import hold, paid, unseen
from dodona.trusted.source import Source

if TYPE_CHECKING:
    from dodona.mechanisms.selection import Whole

_DRAWS = {Exponential: samplers.Draw.GUMBEL, PermuteAndFlip: samplers.Draw.EXPONENTIAL}


def choose(  # noqa: PLR0913  everything that meets here is named
    selection: Scored,
    receipt: Receipt,
    *,
    ledger: Ledger,
    source: Source,
    unit: Unit,
    text: str | None = None,
) -> Release:
    """Return the numbers of the chosen answers, recorded; the receipt must be for exactly this selection.

    The text is the question as it was written, kept for people.

    Theorem: choice-privacy
    """
    hold(receipt, selection.event(unit), selection.purpose, source)
    question, mechanism = to_json(selection.query), selection.spelled
    values = unseen(lambda: _chosen(selection, paid(receipt, selection.query, ledger=ledger, source=source)))
    released = Release(receipt=receipt.id, values=values, mechanism=mechanism, question=question, text=text)
    ledger.record(released)
    return released


def _chosen(selection: Scored, values: Whole) -> tuple[int, ...]:
    """Return the numbers of the chosen; exact scores end here, so that no failure to record carries them."""
    left, chosen = dict(enumerate(map(int, selection.scores(values)))), list[int]()
    for _ in range(selection.count):
        numbers = list(left)
        winner = numbers[_winner(selection, list(left.values()))]
        chosen.append(winner)
        del left[winner]
    return tuple(chosen)


def _winner(selection: Scored, scores: list[int]) -> int:
    """Return the place of one choice; gaps beyond 2^62 are never chosen apart, so scores are drawn in to that."""
    best = max(scores)
    gaps = np.array([-min(best - score, samplers.LARGEST_VALUE) for score in scores], dtype=np.int64)
    unit, draw = 1 / selection.choice.scale, _DRAWS[type(selection.choice)]
    return int(samplers.contests(gaps, 1, unit=unit, draw=draw, rare=selection.rarities)[0])


def draft_choice(scores: Sequence[int], rarities: Sequence[int], *, scale: Fraction) -> int:
    """Return the place of one candidate, with a chance in proportion to exp(score/scale)/rarity.

    It is for drafts, which an owner makes before there is a ledger: the draft says what it costs, and the ledger that
    is made for it begins with that. Rarities are public.

    Theorem: choice-privacy
    """
    found = samplers.contests(
        np.array(scores, dtype=np.int64), 1, unit=1 / scale, draw=samplers.Draw.GUMBEL, rare=[*map(Fraction, rarities)]
    )
    return int(found[0])
