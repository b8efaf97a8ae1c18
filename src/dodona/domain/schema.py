"""The schema: which table, what its columns may hold, and who is protected. All of it is public."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from dodona.domain.domain import Domain
from dodona.domain.unit import Unit


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """What an analyst may know of a table beforehand."""

    table: str
    """The name that analysts use."""
    domain: Domain
    unit: Unit

    @property
    def digest(self) -> str:
        """The hash that a ledger is bound to: it changes with any declaration."""
        return hashlib.sha256(repr((self.table, self.domain.attributes, self.unit)).encode()).hexdigest()
