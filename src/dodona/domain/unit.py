"""The privacy unit: who is protected, in the owner's words."""

from __future__ import annotations

from dataclasses import dataclass

from dodona.domain.neighbours import Neighbours


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A row, or a person with at most `rows` rows, under one neighbour relation."""

    neighbours: Neighbours
    size: int
    """How many rows there are about, declared and public: the 100% of a tolerance in percent."""
    id: str | None = None
    """The column that tells people apart; None where each row is protected by itself."""
    rows: int = 1
    """How many rows of a person count."""
