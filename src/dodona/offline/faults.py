"""What is said about a release that cannot be made. Nothing was charged in any of these cases."""

from __future__ import annotations

from fractions import Fraction

from dodona.belief.faults import written
from dodona.errors import InvalidRequest, Refused
from dodona.exact import decimal_below, percent


class WorkloadUnfit(InvalidRequest):
    """A workload contradicts itself, the schema, or the method."""

    code = "workload-unfit"


class UniverseTooLarge(InvalidRequest):
    """More databases would have to be compared than can be walked through."""

    code = "release-universe-too-large"

    def __init__(self, *, cells: int, rows: int, needed: int, limit: int) -> None:
        """Say what it would need, what is possible, and what to use instead."""
        self.needed = needed
        super().__init__(
            f"All databases of {rows} rows over {written(cells)} cells are {written(needed)}, and {written(limit)} are "
            "compared at most. Use fewer or coarser columns or fewer rows, or method 'annealed' or 'mwem', which keep "
            "one number a cell."
        )


class ReleaseTooDear(Refused):
    """A release does not fit what is left of the budget."""

    code = "release-too-dear"

    def __init__(self, *, asked: Fraction, left: Fraction) -> None:
        """Say what was asked, what is left, and what would fit."""
        self.asked, self.left = asked, left
        fits = f'write share = "{decimal_below(left)}" or less' if left > 0 else "the owner can raise the budget"
        super().__init__(f"This release takes {percent(asked)} of the budget; {percent(left)} is left: {fits}.")


class ReleaseStopped(Refused):
    """The budget ran out in the middle of a release: somebody else has spent of it meanwhile."""

    code = "release-stopped"

    def __init__(self, *, steps: int, left: float) -> None:
        """Say how far it came, and how to go on."""
        self.steps = steps
        super().__init__(
            f"The budget ran out after {steps} steps of this release, as others spent of it too; {percent(left)} is "
            "left. These steps are recorded. Raise the budget and call the same release with the same epsilon= again, "
            "and it goes on; a share= would be one of the new whole, and begin anew.",
            charged=True,
        )
