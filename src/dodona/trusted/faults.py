"""What `trusted` says when it fails. The text is constant: a failure must not carry data."""

from __future__ import annotations

from dodona.errors import InvariantBroken, Unavailable


class SourceFailed(Unavailable):
    """The table could not be read: after the charge, or where something public was to be read."""

    code = "source-failed"

    def __init__(self, *, charged: bool = True) -> None:
        """Say it in constant words."""
        super().__init__("The table could not be read. The owner can find out why; ask again later.", charged=charged)


class Unpaid(InvariantBroken):
    """What is to be released is not what the receipt was written for."""

    code = "unpaid"

    def __init__(self) -> None:
        """Say it in constant words."""
        super().__init__("The receipt is for something else. Nothing was released.", charged=True)
