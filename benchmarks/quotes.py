"""How well quotes foresee the widths of averages, spreads, quantiles and quotients, on many random tables.

Each table is opened as an analyst would, quoted and then asked: nothing but the quote is judged, against the intervals
of the answer that follows. A case is one row of an answer whose group has rows; the rows of one answer count as one
case together. A quote of one number holds where the width is within a factor of 1.5 of it, a range where the width is
in the range; of a quantile, to a step of its column.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa

import dodona
from benchmarks.report import Row
from dodona.answer.estimate import Estimate
from dodona.errors import Refused

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dodona.answer.answer import Answer
    from dodona.answer.offer import ExpectedAccuracy
    from dodona.curator.curator import Curator

SEED = 5
TABLES = 40
FACTOR = 1.5
NARROW = 5
"""How many times the lower end the upper end of a range may be, to count as a forecast."""
BINS = 10
STEP = 1
"""Quantiles are values of the column, which are whole numbers here: a width is not told more finely than that."""
NOTE = (
    "Share of quotes that hold: one number within a factor of 1.5 of the width that was got, or a range that has it in "
    "it. `narrow` are ranges up to a factor of 5 wide, and single numbers; wider ones are counted apart."
)
AGGREGATES = {
    "average": ("avg(x)",),
    "spread": ("stddev(x)", "var_pop(x)"),
    "quantile": ("median(x)", "quantile(x, 0.9)"),
    "quotient": ("sum(x) / count(*)", "count(*) FILTER (WHERE x < 10) / count(*)"),
}
FORMS = {
    "all rows": "SELECT {} FROM t",
    "where": "SELECT {} FROM t WHERE flag",
    "one group": "SELECT {} FROM t WHERE g = 'b'",
    "by group": "SELECT g, {} FROM t GROUP BY g",
    "by group, where": "SELECT g, {} FROM t WHERE flag GROUP BY g",
}
_GROUPS, _BINS = "SELECT g, flag, count(*) FROM t GROUP BY g, flag", "SELECT x, count(*) FROM t GROUP BY x"
STATES = {"cold": (), "counted": (_GROUPS,), "counted by value": (_GROUPS, _BINS)}
"""What was released before."""


@dataclass(frozen=True, slots=True)
class Case:
    """How one quote did."""

    kind: str
    form: str
    state: str
    narrow: bool
    holds: float
    """The share of the rows of the answer in which the width was as quoted."""


@dataclass(frozen=True, slots=True)
class Scene:
    """A random table."""

    upper: int
    labels: tuple[str, ...]
    size: int
    groups: NDArray[np.int64]
    flags: NDArray[np.bool_]
    values: NDArray[np.int64]
    missing: NDArray[np.bool_]

    def opened(self) -> Curator:
        """Return a curator with an ample budget and nothing told."""
        frame = pa.table(
            {
                "g": pa.array([self.labels[group] for group in self.groups]),
                "flag": pa.array(self.flags),
                "x": pa.array(self.values, mask=self.missing),
            }
        )
        schema = dodona.Schema.of(
            "t",
            dodona.Category("g", self.labels),
            dodona.Boolean("flag"),
            dodona.Integer("x", 0, self.upper, bins=range(0, self.upper + 1, self.upper // BINS)),
            size=self.size,
            neighbours="add-remove",
        )
        return dodona.open(frame, schema=schema, budget=dodona.Budget(10_000, "1e-6", "zcdp"))

    def filled(self, form: str) -> set[str | None]:
        """Return the groups of a form that have rows."""
        kept = ~self.missing
        if "where" in form:
            kept = kept & self.flags
        if form == "one group":
            kept = kept & (self.groups == 1)
        if "by group" in form:
            return {self.labels[group] for group in np.unique(self.groups[kept])}
        return {None} if kept.any() else set()


def scene(draw: np.random.Generator) -> Scene:
    """Return a table with skewed groups, a flag, and values of a random shape, some of them missing."""
    rows = int(np.exp(draw.uniform(np.log(500), np.log(50_000))))
    labels = tuple("abcdefgh"[: int(draw.integers(3, 9))])
    shares = draw.permutation(1.0 / np.arange(1, len(labels) + 1) ** draw.uniform(0, 1.5))
    upper = int(draw.choice([20, 100, 1_000, 10_000]))
    shape = draw.integers(3)
    if shape == 0:
        values = draw.normal(draw.uniform(0.2, 0.8), draw.uniform(0.05, 0.3), rows)
    elif shape == 1:
        values = draw.lognormal(np.log(draw.uniform(0.05, 0.4)), draw.uniform(0.3, 1), rows)
    else:
        first, last = np.sort(draw.uniform(0, 1, 2)).tolist()
        values = draw.uniform(first, last, rows)
    return Scene(
        upper=upper,
        labels=labels,
        size=rows if draw.random() < 0.5 else int(float(f"{rows:.1g}")),  # noqa: PLR2004  declared to the row, or about
        groups=draw.choice(len(labels), rows, p=shares / shares.sum()),
        flags=draw.random(rows) < draw.uniform(0.05, 0.95),
        values=np.clip(np.round(values * upper), 0, upper).astype(np.int64),
        missing=draw.random(rows) < draw.choice([0, draw.uniform(0, 0.2)]),
    )


def cases(tables: int, *, seed: int) -> Iterator[Case]:
    """Yield how quotes did on so many tables."""
    draw = np.random.default_rng(seed)
    for _ in range(tables):
        table = scene(draw)
        for (kind, aggregates), state in product(AGGREGATES.items(), STATES):
            curator = table.opened()
            for released in STATES[state]:
                curator.ask(released, within="1%")
            for form, text in FORMS.items():
                within = f"{draw.choice([1, 3])}%"
                question = text.format(draw.choice(aggregates))
                try:
                    offer = curator.quote(question, within=within)
                    answer = curator.ask(question, within=within)
                except Refused:  # a few rows tell no value that precisely, with any noise or for any usual price
                    continue
                widths = _widths(cast("Answer", answer), table.filled(form))
                if widths:
                    yield _judged(offer.accuracy[0], widths, (kind, form, state))


def _widths(answer: Answer, filled: set[str | None]) -> list[float]:
    """Return the widths of the rows whose groups have rows."""
    widths = []
    for row in answer.rows:
        estimate = row.cells[-1]
        group = row.cells[0] if len(row.cells) > 1 else None
        if isinstance(estimate, Estimate) and group in filled:
            widths.append(estimate.within)
    return widths


def _judged(quoted: ExpectedAccuracy, widths: list[float], names: tuple[str, str, str]) -> Case:
    least, most, narrow = quoted.within / FACTOR, quoted.within * FACTOR, True
    if quoted.low is not None and quoted.high is not None:
        least, most, narrow = quoted.low, quoted.high, quoted.high <= NARROW * quoted.low
    slack = STEP if names[0] == "quantile" else 1e-9
    holds = float(np.mean([least - slack <= width <= most + slack for width in widths]))
    return Case(*names, narrow=narrow, holds=holds)


def measure(say: Callable[[str], None]) -> dict[str, object]:
    """Return for each kind and state the share that holds and the share that is narrow, and both for all."""
    say(f"the quotes of {TABLES} tables")
    by: defaultdict[str, list[Case]] = defaultdict(list)
    for case in cases(TABLES, seed=SEED):
        widths = "narrow" if case.narrow else "wide"
        for name in (f"all, {widths}", f"{case.kind}, {widths}", f"{case.state}, {case.form}, {widths}"):
            by[name].append(case)
    return {
        name: {"quotes": len(group), "hold": round(float(np.mean([case.holds for case in group])), 3)}
        for name, group in sorted(by.items())
    }


def rows(figures: dict[str, object]) -> list[Row]:
    """Return the figures as rows."""
    rows = []
    for name, entry in figures.items():
        if isinstance(entry, dict):
            rows.append(Row(f"{name} ({entry['quotes']})", "share that holds", entry["hold"], None, "more"))
    return rows
