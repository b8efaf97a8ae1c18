"""What a source says when it cannot be opened."""

from __future__ import annotations

from dodona.errors import InvalidRequest


class SourceUnfit(InvalidRequest):
    """The table is not what the schema declares, as far as its names and types tell. The owner can fix it."""

    code = "source-unfit"
