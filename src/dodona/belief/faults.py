"""What is said about a belief that cannot be held, moved or used."""

from __future__ import annotations

import math

from dodona.errors import InvalidRequest


class TooManyCells(InvalidRequest):
    """A vector of weights would be larger than its limit."""

    code = "too-many-cells"

    def __init__(self, what: str, *, cells: int, limit: int, instead: str) -> None:
        """Say how large it would be, how large it may be, and what to use instead."""
        self.cells = cells
        self.limit = limit
        super().__init__(f"{what} has {written(cells)} cells, and at most {written(limit)} are held. {instead}")


class Contradiction(InvalidRequest):
    """No law that the belief can move to has the value that was asked for."""

    code = "contradiction"


class SpentBelief(InvalidRequest):
    """A belief was used after it had been moved."""

    code = "spent-belief"

    def __init__(self) -> None:
        """Say which one to use."""
        super().__init__(
            "This belief was moved: its weights are in the belief that `updated` or `tilted` returned. "
            "Use that one, or take a `copied()` before the step."
        )


def written(cells: int) -> str:
    """Return a number of cells as people say it.

    >>> written(1 << 27), written(1_000_000), written(10**20 + 7)
    ('2^27', '1,000,000', 'about 10^20.0')
    """
    if cells > 1 << 10 and cells & (cells - 1) == 0:
        return f"2^{cells.bit_length() - 1}"
    if cells < 10**9:
        return f"{cells:,}"
    digits = str(cells)[:15]
    return f"about 10^{len(str(cells)) - len(digits) + math.log10(int(digits)):.1f}"
