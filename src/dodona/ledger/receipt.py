"""A receipt: proof that a charge is durable. It buys one release."""

from __future__ import annotations

from dataclasses import dataclass

from dodona.accounting.event import Event


@dataclass(frozen=True, slots=True)
class Armings:
    """What a watch has used of what was paid for it."""

    alerts: int
    """How often it was armed for one more alert."""
    thresholds: int
    """How often noise for its threshold was drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """All that was charged for, under the hash of the entry that charged it.

    The hash covers the whole ledger up to that entry, so a receipt of another ledger is not found in this one.
    """

    id: str
    dataset: str
    analyst: str | None
    key: str | None
    """The analyst's own name for the question: the same key is never charged twice."""
    purpose: str
    """The digest of the canonical question."""
    version: str
    """The version of the data."""
    event: Event
    plan: str | None = None
    """The id of the plan that the event was taken out of."""
