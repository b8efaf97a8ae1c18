"""Error bars in the terminal: a dot for the value, a line for its interval, all rows on one scale."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from dodona.answer.estimate import Estimate, as_number

_DOT, _LINE = "●", "─"


def bars(estimates: Sequence[Estimate], *, width: int = 32) -> list[str]:
    """Return one picture for each estimate; an end that is not known runs to the edge.

    >>> for bar in bars([Estimate(2, 1, 3), Estimate(8, 6, 10)], width=19):
    ...     print(bar.rstrip())
      ──●─
               ───●────
    """
    ends = [as_number(end) for one in estimates for end in (one.low, one.high) if math.isfinite(as_number(end))]
    low, high = min([0.0, *ends]), max([0.0, *ends])
    if high <= low:
        return [" " * width for _ in estimates]

    def place(number: float) -> int:
        clipped = min(max(number, low), high)
        return round((clipped - low) / (high - low) * (width - 1))

    return [_bar(one, place, width) for one in estimates]


def _bar(one: Estimate, place: Callable[[float], int], width: int) -> str:
    drawn = [" "] * width
    first, last = place(as_number(one.low)), place(as_number(one.high))
    drawn[first : last + 1] = _LINE * (last - first + 1)
    if one.value is not None:
        drawn[place(as_number(one.value))] = _DOT
    return "".join(drawn)
