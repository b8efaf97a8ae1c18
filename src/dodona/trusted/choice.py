"""Choices: which answers are largest, told without their values."""

from __future__ import annotations

from typing import assert_never

import numpy as np

from dodona.domain.unit import Unit
from dodona.ledger.contract import Ledger
from dodona.ledger.receipt import Receipt
from dodona.ledger.release import Release
from dodona.mechanisms.exponential import Exponential
from dodona.mechanisms.permute_and_flip import PermuteAndFlip
from dodona.mechanisms.selection import Selection
from dodona.query.spelling import to_json
from dodona.trusted import samplers
from dodona.trusted.release import exact, hold
from dodona.trusted.source import Source


def choose(  # noqa: PLR0913  everything that meets here is named
    selection: Selection,
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
    hold(receipt, selection.event(unit.neighbours), selection.purpose, source)
    question = to_json(selection.query)
    ledger.redeem(receipt)
    left = {number: int(score) for number, score in enumerate(exact(source, selection.query))}
    chosen = []
    for _ in range(selection.count):
        numbers = list(left)
        winner = numbers[_winner(selection, list(left.values()))]
        chosen.append(winner)
        del left[winner]
    mechanism = selection.spelled
    released = Release(receipt=receipt.id, values=tuple(chosen), mechanism=mechanism, question=question, text=text)
    ledger.record(released)
    return released


def _winner(selection: Selection, scores: list[int]) -> int:
    """Return the place of one choice; gaps beyond 2^62 are never chosen apart, so scores are drawn in to that."""
    best = max(scores)
    gaps = np.array([-min(best - score, samplers.LARGEST_VALUE) for score in scores], dtype=np.int64)
    unit = 1 / selection.choice.scale
    match selection.choice:
        case Exponential():
            return samplers.choose(gaps, unit=unit)
        case PermuteAndFlip():
            return samplers.permute_and_flip(gaps, unit=unit)
        case _:
            assert_never(selection.choice)
