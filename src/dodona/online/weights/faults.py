"""What multiplicative weights refuse."""

from __future__ import annotations

import math

from dodona.errors import InvalidRequest, Refused


class UpdatesUsed(Refused):
    """The last update was made, and a further one would be needed."""

    code = "updates-used"

    def __init__(self, updates: int) -> None:
        """Say how many there were."""
        super().__init__(
            f"These weights were opened for {updates} updates and have made them all. Open new ones; what these have "
            "learned is in their hypothesis, without a guarantee."
        )


class UniverseTooLarge(InvalidRequest):
    """More cells than are kept one by one."""

    code = "universe-too-large"

    def __init__(self, cells: int, most: int) -> None:
        """Say how many cells there are and how many are kept."""
        super().__init__(
            f"These columns have {cells} cells together, and weights are kept for {most} at most. Name fewer columns, "
            "or ask the curator, which measures each question."
        )


class Hopeless(Refused):
    """So few rows, or so small a price, that nothing is promised."""

    code = "hopeless"

    def __init__(self, within: float, *, independent: float = math.inf, table: float = math.inf) -> None:
        """Say what could be promised, and what promises more."""
        best = min(independent, table)
        way = "ask for one table of all cells by GROUP BY" if table <= independent else "ask them all with ask_many"
        better = f" At the same price within {best:.3g} is promised if you {way}." if best < 1 else ""
        super().__init__(
            f"For so few rows at this price an answer could be off by {within:.3g} of all rows: no promise.{better} "
            "Raise epsilon, ask fewer questions or name fewer columns."
        )
