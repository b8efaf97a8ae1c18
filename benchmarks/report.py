"""A table of figures: ours, the peer's, and how many times better ours is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of ours and, where the peer has a counterpart, the peer's."""

    figure: str
    unit: str
    ours: float
    peer: float | None
    better: Literal["more", "less"]

    @property
    def ratio(self) -> float | None:
        """Ours over the peer's, or the other way round where less is better: above 1 ours is ahead."""
        if self.peer is None:
            return None
        above, below = (self.ours, self.peer) if self.better == "more" else (self.peer, self.ours)
        return above / below if below > 0 else None


_CAPTION = "Where the ratio is above 1, ours is ahead."


def show(title: str, rows: list[Row], *, note: str) -> None:
    """Print the rows as a table, and below it what a reader has to know."""
    table = Table(title=title, caption=f"{_CAPTION} {note}", caption_justify="left", title_justify="left")
    table.add_column("figure")
    for name in ("ours", "peer", "ratio"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("unit", no_wrap=True)
    for row in rows:
        table.add_row(row.figure, _digits(row.ours), _digits(row.peer), _times(row.ratio), row.unit)
    Console().print(table)


def _digits(value: float | None) -> str:
    """Return three figures that matter, without an exponent."""
    if value is None:
        return "-"
    whole = len(str(int(abs(value))))
    return f"{value:.{max(0, 3 - whole) if abs(value) >= 1 else 3}f}"


def _times(ratio: float | None) -> str:
    return "-" if ratio is None else f"{_digits(ratio)} ×"
