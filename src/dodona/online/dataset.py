"""A dataset that is open: what a curator serves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from dodona.domain.schema import Schema
from dodona.errors import InvalidArgument
from dodona.ledger.contract import Ledger
from dodona.online.after import After
from dodona.online.request import Request
from dodona.trusted.source import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """A schema, its source, and the ledger that questions are charged to."""

    name: str
    """As the ledger knows it."""
    schema: Schema
    source: Source
    ledger: Ledger
    default: Request
    """What is asked for where a question does not say."""
    after: After = "refuse"
    """What becomes of questions that the budget cannot buy."""
    left_out: str = ""
    """What was published of the rows that the cap leaves out, in words."""

    @property
    def about(self) -> str:
        """What answers are about, where people are protected; else nothing."""
        return " ".join(part for part in (self.schema.unit.about, self.left_out) if part)

    def __post_init__(self) -> None:
        """Refuse what is no choice."""
        if self.after not in get_args(After):
            raise InvalidArgument("after", self.after, 'write "refuse" or "model"')
