"""The owner's report: the model beside the exact table. It is not private, says so, and is never made by default."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dodona.backends.totals import answer
from dodona.domain.encoding import encode
from dodona.domain.schema import Schema
from dodona.errors import InvalidRequest
from dodona.offline.drawing import INK, WARM, Point, points
from dodona.offline.model import Model
from dodona.offline.report import Section, answer_names, listed, noise_floor, page, row_counts
from dodona.offline.rows import Rows
from dodona.offline.run import spoken

if TYPE_CHECKING:
    from numpy.typing import NDArray

_WORST = 20
_BANNER = (
    '<p class="owner">OWNER ONLY. This page compares with the exact table. It is not private: do not publish it, and '
    "do not choose what to publish by it.</p>"
)


def owner_report(model: Model, columns: Mapping[str, Sequence[object] | NDArray[Any]], rows: Rows | None = None) -> str:
    """Return as HTML how far a model, and rows of it, are from the exact table whose columns the owner hands over."""
    codes, number = encoded(model.schema, model.workload.names, columns)
    measured = {one.block: one for one in model.seen}
    spots: dict[str, list[Point]] = {"model": [], "rows": []}
    blocks: list[tuple[float, float | str, float | str, str]] = []
    cells: list[tuple[float, str, str, float, float]] = []
    total = 0.0 if rows is None else float(len(rows) if rows.weights is None else rows.weights.sum())
    for block in model.workload.query.blocks:
        truth = np.asarray(answer(block, codes, counts=None, rows=number), dtype=np.float64) / max(1, number)
        shares = model.expect([block]) / model.size
        away = 0.5 * float(np.abs(truth - shares).sum())
        own = None if rows is None else 0.5 * float(np.abs(truth - row_counts(rows, block) / total).sum())
        floor = noise_floor(measured[block]) if block in measured else None
        blocks.append((away, "-" if own is None else own, "-" if floor is None else floor, spoken(block)))
        if floor is not None:
            spots["model"].append(Point(spoken(block), floor, away))
            spots["rows"] += [] if own is None else [Point(spoken(block), floor, own)]
        names = answer_names(block, model.schema.domain)
        off = shares - truth
        cells += [
            (float(off[place]), spoken(block), names[place], float(truth[place]), float(shares[place]))
            for place in np.argsort(-np.abs(off))[:_WORST].tolist()
        ]
    blocks.sort(key=lambda row: -row[0])
    cells.sort(key=lambda row: -abs(row[0]))
    mean = sum(row[0] for row in blocks) / len(blocks)
    picture = points(
        [("model", INK, spots["model"]), ("rows", WARM, spots["rows"])],
        across="noise floor of the measurement",
        up="total variation from the table",
        title="Error against noise floor",
    )
    headings = ("model's total variation", "rows'", "noise floor", "block")
    sections = [
        Section("Blocks", f"<p>Mean total variation: {mean:.4g}.</p>{listed(headings, blocks[:_WORST])}"),
        Section("Measured blocks", picture),
        Section("Worst answers", listed(("error", "block", "answer", "exact share", "model's share"), cells[:_WORST])),
    ]
    return page(f"Release of {model.schema.table}, beside the exact table", sections, banner=_BANNER)


def encoded(
    schema: Schema, names: Sequence[str], columns: Mapping[str, Sequence[object] | NDArray[Any]]
) -> tuple[dict[str, NDArray[np.int64]], int]:
    """Return the codes of the owner's columns, and how many rows there are."""
    for name in names:
        if name not in columns:
            raise InvalidRequest(f"The table to compare with has no column {name}.")
    codes = {name: encode(schema.domain[name], columns[name]) for name in names}
    lengths = {len(own) for own in codes.values()}
    if len(lengths) != 1:
        raise InvalidRequest("The columns to compare with differ in length.")
    return codes, lengths.pop()
