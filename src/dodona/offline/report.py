"""The report of a release: one HTML file with its pictures inside. It is computed from public facts alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from dodona.domain.attribute import label
from dodona.domain.domain import Domain
from dodona.domain.partition import Partition, group_label
from dodona.exact import percent
from dodona.offline.drawing import INK, Bar, Point, bars, points
from dodona.offline.fitting import Seen
from dodona.offline.model import Model
from dodona.offline.rows import Rows
from dodona.offline.run import spoken
from dodona.offline.workload import marginal
from dodona.query.query import Block, block_weights, group_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SHOWN_VALUES = 40
_WORST = 20
_NINETY_FIVE = 1.96
_STYLE = (
    "body{font-family:sans-serif;margin:2em auto;max-width:70em;padding:0 1em;color:#222}"
    "table{border-collapse:collapse}td,th{padding:2px 10px;border-bottom:1px solid #e5e5e5;text-align:left}"
    "td.n{text-align:right;font-variant-numeric:tabular-nums}svg{margin:0 1em 1em 0;vertical-align:top}"
    ".owner{background:#D55E00;color:white;padding:.8em 1em;font-weight:bold}.note{color:#666}"
)


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a report."""

    title: str
    body: str


def report(model: Model, rows: Rows | None = None) -> str:
    """Return the report of a model, and of the rows that were written from it, as HTML.

    It says how far the model is from what was measured, never how far from the table.
    """
    sections = [_about(model), _marginals(model), _fit(model), _worst(model)]
    if rows is not None:
        sections.append(_written(model, rows))
    sections.append(_steps(model))
    return page(f"Release of {model.schema.table}", sections)


def page(title: str, sections: Iterable[Section], *, banner: str = "") -> str:
    """Return a whole page that loads nothing from elsewhere."""
    body = "".join(f"<h2>{escape(one.title)}</h2>{one.body}" for one in sections)
    return (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style></head><body>{banner}<h1>{escape(title)}</h1>{body}</body></html>\n"
    )


def listed(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table; numbers stand to the right."""
    head = "".join(f"<th>{escape(one)}</th>" for one in headings)
    body = "".join("<tr>" + "".join(map(_cell, row)) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def row_counts(rows: Rows, block: Block) -> NDArray[np.float64]:
    """Return the answers of a block on made-up rows."""
    number = len(rows)
    weights = np.broadcast_to(block_weights(block, rows.codes), (number,)).astype(np.float64)
    weights = weights if rows.weights is None else weights * rows.weights
    groups = np.broadcast_to(group_of(block.keys, rows.codes), (number,))
    return np.bincount(groups, weights=weights, minlength=block.values).astype(np.float64)


def answer_names(block: Block, domain: Domain) -> list[str]:
    """Return what each answer of a block is called."""
    keys = [key for key in block.keys if isinstance(key, Partition)]
    if not keys or len(keys) != len(block.keys):
        return [
            f"{spoken(block)} {number + 1}" if block.values > 1 else spoken(block) for number in range(block.values)
        ]
    labels = [[str(group_label(key, domain[key.attribute], group)) for group in range(key.groups)] for key in keys]
    return [", ".join(one) for one in product(*labels)]


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f'<td class="n">{value:.4g}</td>'
    return f"<td>{escape(str(value))}</td>"


def _about(model: Model) -> Section:
    support = model.workload.support
    facts = [
        ("Columns", ", ".join(model.workload.names)),
        ("Cells", f"{support.size:,}" if support.size < 10**15 else f"{float(support.size):.3g}"),
        ("Method", model.method),
        ("Share of the budget", percent(model.share)),
        ("Charges", str(len(model.steps))),
        ("Version of the data", model.version),
        ("Ledger after it", model.head),
    ]
    if model.promise is not None:
        within, sure = model.promise.within, model.promise.confidence
        facts.append(
            ("Promise", f"all answers within {within:.4g} of all rows, at {sure:.0%} ({model.promise.theorem})")
        )
    note = "<p class='note'>Everything here is computed from what was released. It says nothing more about anybody.</p>"
    return Section("What was released", note + listed(("", ""), facts))


def _marginals(model: Model) -> Section:
    """Draw each column by itself: the model's shares, and what was measured of them."""
    measured = {one.block: one for one in model.seen}
    pictures = []
    for name in model.workload.names:
        attribute = model.schema.domain[name]
        block = marginal(model.schema.domain, [name])
        shares = model.expect([block]) / model.size
        names = [str(label(attribute, code)) for code in range(len(shares))]
        seen = measured.get(block)
        order = (
            np.argsort(-shares, kind="stable")[:_SHOWN_VALUES] if len(shares) > _SHOWN_VALUES else range(len(shares))
        )
        drawn = [_bar(names[place], float(shares[place]), seen, place) for place in map(int, order)]
        pictures.append(bars(drawn, title=name))
    note = "<p class='note'>Bars are the model; lines are 95% intervals of what was measured.</p>"
    return Section("Columns one by one", note + "".join(pictures))


def _bar(name: str, share: float, seen: Seen | None, place: int) -> Bar:
    if seen is None:
        return Bar(name, share)
    reach = _NINETY_FIVE * math.sqrt(seen.variance)
    return Bar(name, share, float(seen.values[place]) - reach, float(seen.values[place]) + reach)


def _fit(model: Model) -> Section:
    """Draw how far the model is from each measured block against what noise alone does."""
    if not model.seen:
        return Section("Error against noise floor", "<p>This method measures nothing: it only chooses.</p>")
    note = (
        "<p class='note'>On the line a model is as far from a measurement as noise is from the truth, which is as near "
        "as can be known. Far above it the model does not fit; far below, it follows the noise.</p>"
    )
    return Section("Error against noise floor", note + noise_floor_picture(model))


def noise_floor_picture(model: Model) -> str:
    """Return as SVG how far the model is from each measured block, against what noise alone does."""
    spots = []
    for one in model.seen:
        away = 0.5 * float(np.abs(model.expect([one.block]) / model.size - one.values).sum())
        spots.append(Point(spoken(one.block), noise_floor(one), away))
    return points(
        [("measured blocks", INK, spots)],
        across="noise floor: total variation that noise alone makes",
        up="model against measurement",
        title="Error against noise floor",
    )


def noise_floor(seen: Seen) -> float:
    """Return the total variation that noise alone makes on average."""
    return 0.5 * math.sqrt(2 / math.pi * seen.variance) * seen.values.size


def _worst(model: Model) -> Section:
    """List the answers that the model is farthest from, in deviations of their noise."""
    found: list[tuple[float, str, str, float, float]] = []
    for one in model.seen:
        expected = model.expect([one.block])
        away = (expected / model.size - one.values) / math.sqrt(one.variance)
        names = answer_names(one.block, model.schema.domain)
        for place in np.argsort(-np.abs(away))[:_WORST].tolist():
            told = float(one.values[place]) * model.size
            found.append((float(away[place]), spoken(one.block), names[place], told, float(expected[place])))
    found.sort(key=lambda row: -abs(row[0]))
    headings = ("deviations", "block", "answer", "measured rows", "model's rows")
    return Section("Worst answers", listed(headings, found[:_WORST]) if found else "<p>Nothing was measured.</p>")


def _written(model: Model, rows: Rows) -> Section:
    """Say how far the written rows are from the model, block by block of the workload."""
    total = float(len(rows)) if rows.weights is None else float(rows.weights.sum())
    away = []
    for block in model.workload.query.blocks:
        shares = model.expect([block]) / model.size
        away.append((0.5 * float(np.abs(row_counts(rows, block) / total - shares).sum()), spoken(block)))
    away.sort(reverse=True)
    mean = sum(one for one, _ in away) / len(away)
    note = f"<p>{len(rows):,} rows. Their mean total variation from the model is {mean:.4g}.</p>"
    return Section("Rows against model", note + listed(("total variation", "block"), away[:_WORST]))


def _steps(model: Model) -> Section:
    rows = [(step.name, step.about[:200], step.mechanism, step.price, step.how) for step in model.steps]
    return Section("Charges", listed(("step", "what", "mechanism", f"price in {model.unit}", "how"), rows))
