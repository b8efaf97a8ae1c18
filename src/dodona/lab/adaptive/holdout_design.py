"""The design of a reusable holdout: its parameters and its guarantee, fixed before any row is read."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from dodona.lab.adaptive.faults import Unreachable
from dodona.lab.adaptive.grid import resolution
from dodona.lab.adaptive.quantity import chance, queries_of, rows_of
from dodona.privacy.accuracy import to_failure_probability
from dodona.privacy.additive_noise import Gaussian, Laplace
from dodona.privacy.sparse_vector import SparseVector

_WIDEST = 0.999


class Method(Enum):
    """How a holdout prevents overfitting to its rows."""

    ROUNDING = "rounding"
    """No noise: corrections are few and rounded, so that a union bound covers every query that may be asked."""
    NOISE = "noise"
    """Thresholdout: a sparse vector detects overfitting, and corrections carry fresh noise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldoutCase:
    """The public parameters of a holdout."""

    rows: int
    queries: int
    overfits: int
    failing: float

    @property
    def steps(self) -> int:
        """Number of steps between 0 and 1."""
        return resolution(self.rows)

    @property
    def whole(self) -> int:
        """The largest sum over all rows, in steps."""
        return self.rows * self.steps


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldoutDesign:
    """All answers are simultaneously within `within` of the population at `confidence`."""

    method: Method
    rows: int
    queries: int
    overfits: int
    """Number of queries answered from the holdout; after the last one it is closed."""
    within: float
    corrected: float
    """The error of corrections, which may be smaller than `within`."""
    confidence: float
    threshold: int
    """In steps of the sum: the training answer is returned unless the holdout's is, or seems, this far from it."""
    tolerates: float
    """Gaps up to this size never count as overfitting; with noise, at the confidence."""
    resolution: int
    levels: int | None = None
    """Number of possible corrections, for the design that rounds."""
    test: SparseVector | None = None
    answer: Gaussian | Laplace | None = None

    def __str__(self) -> str:
        return (
            f"±{self.within:.4g} for {self.queries} questions of which {self.overfits} overfit at "
            f"{self.confidence:.4g}, by {self.method.value}"
        )


Designer = Callable[[HoldoutCase, float], HoldoutDesign | None]
"""Returns the design for an error that tolerates the largest gap; None if the error is out of reach."""


@lru_cache(maxsize=64)
def chosen(  # noqa: PLR0913  all that is fixed beforehand
    designers: tuple[Designer, ...],
    *,
    rows: int,
    training_rows: int,
    queries: int,
    overfits: int,
    within: float | None,
    confidence: float,
) -> HoldoutDesign:
    """Return the design that tolerates most for an error; without one, the least error that tolerates honest queries.

    Queries that were fixed beforehand differ by at most √(ln(2k/β)·(1/n + 1/m)/2) between the two samples.

    Theorem: reusable-holdout
    """
    case = HoldoutCase(
        rows=rows_of(rows),
        queries=queries_of(queries),
        overfits=queries_of(overfits),
        failing=to_failure_probability(confidence),
    )
    honest = math.sqrt(math.log(2 * case.queries / case.failing) / 2 * (1 / case.rows + 1 / rows_of(training_rows)))
    if within is None:
        found = _nearest(designers, case, honest)
    else:
        wanted = chance(within, argument="within")
        found = _best(designers, case, wanted)
    if found is not None:
        return found
    nearest = None if within is None else _nearest(designers, case, honest)
    raise Unreachable(
        rows=case.rows,
        asked=f"{case.queries} questions and correct {case.overfits}",
        within=_WIDEST if within is None else within,
        best="no design promises anything" if nearest is None else f"{nearest.within:.4g} can be promised",
        instead="Hold out more rows, or declare fewer questions or overfits.",
    )


def _best(designers: tuple[Designer, ...], case: HoldoutCase, within: float) -> HoldoutDesign | None:
    """Return the design that tolerates the largest gap; None if none tolerates any."""
    found = [design for designer in designers if (design := designer(case, within)) is not None]
    kept = [design for design in found if design.tolerates > 0]
    return max(kept, key=lambda design: design.tolerates) if kept else None


def _nearest(designers: tuple[Designer, ...], case: HoldoutCase, gap: float) -> HoldoutDesign | None:
    """Return the design with the least error that tolerates a gap; None if there is none."""
    found: HoldoutDesign | None = None
    for designer in designers:
        low, high = gap, _WIDEST if found is None else found.within
        tried = designer(case, high)
        while tried is not None and tried.tolerates >= gap:
            found, high = tried, tried.within
            while high - low > 1e-3 * high:
                middle = (low + high) / 2
                tried = designer(case, middle)
                if tried is not None and tried.tolerates >= gap:
                    found, high = tried, middle
                    break
                low = middle
            else:
                break
    return found
