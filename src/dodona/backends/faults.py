"""What a source says when it cannot answer."""

from __future__ import annotations

from dodona.errors import InvalidRequest, Unavailable


class SourceFailed(Unavailable):
    """The database failed while it was asked. The words are constant, so that a failure cannot carry data."""

    code = "source-failed"

    def __init__(self) -> None:
        """Say it in constant words: the charge was made durable before the table was asked."""
        super().__init__("The database that holds the table failed. Nothing was answered.", charged=True)


class SourceUnfit(InvalidRequest):
    """The table is not what the schema declares, as far as its names and types tell. The owner can fix it."""

    code = "source-unfit"
