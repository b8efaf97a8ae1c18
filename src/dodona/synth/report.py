"""Reports of a synthesis as one HTML file.

The public report uses only public facts. The owner's report compares with the exact table: it is not private, says so,
and is written only on request.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dodona.engines.answers import answer_block
from dodona.errors import InvalidRequest
from dodona.knowledge.binned import Bins
from dodona.knowledge.fit import ObservedBlock
from dodona.numbers import format_percent
from dodona.query.predicate import EVERYTHING
from dodona.query.query import Block, block_weights, group_numbers
from dodona.schema.attributes import Attribute, Category
from dodona.schema.encoding import encode
from dodona.schema.partition import Partition, group_label
from dodona.schema.schema import Domain, Schema
from dodona.synth.accuracy import MarginalError, label_text, marginal_error, released_counts
from dodona.synth.charts import INK, WARM, PlotPoint, ShareBar, draw_bars, draw_points, draw_ranges
from dodona.synth.model import SyntheticModel
from dodona.synth.run import describe_block
from dodona.synth.table import SyntheticRows
from dodona.synth.workload import marginal_block

# --- The public report of a release: one HTML file with embedded charts, computed only from public facts. ---


_SHOWN_VALUES, _SHOWN_RUNS = 40, 20
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
    """A section of a report."""

    title: str
    body: str


def public_report(model: SyntheticModel, rows: SyntheticRows | None = None) -> str:
    """Return the report of a model, and of the rows written from it, as HTML.

    It shows how far the model is from the measurements, never how far from the table.
    """
    sections = [_summary(model, rows), _marginals_section(model), _errors_section(model, rows)]
    sections += [_fit_section(model), _worst_section(model)]
    if rows is not None:
        sections.append(_rows_section(model, rows))
    sections.append(_steps_section(model))
    return html_page(f"Release of {model.schema.table}", sections)


def html_page(title: str, sections: Iterable[Section], *, banner: str = "") -> str:
    """Return a whole page that loads no external resources."""
    body = "".join(f"<h2>{escape(section.title)}</h2>{section.body}" for section in sections)
    return (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style></head><body>{banner}<h1>{escape(title)}</h1>{body}</body></html>\n"
    )


def html_table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table; numbers are right-aligned."""
    head = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
    body = "".join("<tr>" + "".join(map(_cell, row)) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def row_counts(rows: SyntheticRows, block: Block) -> NDArray[np.float64]:
    """Return the answers of a block on synthetic rows."""
    number = len(rows)
    weights = np.broadcast_to(block_weights(block, rows.codes), (number,)).astype(np.float64)
    weights = weights if rows.weights is None else weights * rows.weights
    groups = np.broadcast_to(group_numbers(block.keys, rows.codes), (number,))
    return np.bincount(groups, weights=weights, minlength=block.values).astype(np.float64)


def answer_names(block: Block, domain: Domain) -> list[str]:
    """Return the name of each answer of a block."""
    keys = [key for key in block.keys if isinstance(key, Partition)]
    if not keys or len(keys) != len(block.keys):
        name = describe_block(block)
        return [f"{name} {number + 1}" if block.values > 1 else name for number in range(block.values)]
    labels = [[str(group_label(key, domain[key.attribute], group)) for group in range(key.groups)] for key in keys]
    return [", ".join(combination) for combination in product(*labels)]


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f'<td class="n">{value:.4g}</td>'
    return f"<td>{escape(str(value))}</td>"


def _summary(model: SyntheticModel, rows: SyntheticRows | None) -> Section:
    support = model.workload.support
    facts = [
        ("Columns", ", ".join(model.workload.names)),
        ("Cells", f"{support.size:,}" if support.size < 10**15 else f"{float(support.size):.3g}"),
        ("Method", model.method),
        ("Share of the budget", format_percent(model.share)),
        ("Charges", str(len(model.steps))),
        ("Version of the data", model.version),
        ("Ledger after it", model.head),
    ]
    for name, partition in model.bins.items():
        about = f"{len(partition.cuts):,} bins of its {partition.size:,} values, as their measured counts suggest"
        facts.append((f"{name}, together with other columns", about))
    listed = [str(constraint) for constraint in model.schema.constraints]
    if listed:
        anew = "" if rows is None or not rows.redrawn else f" ({rows.redrawn:,} rows were drawn anew for them)"
        facts.append(("Constraints that every row meets", "; ".join(listed) + anew))
    if model.gap is not None:
        how = "converged" if model.converged else "ended early"
        facts.append(
            ("Fit", f"{how}: answers are {model.gap:.2g} deviations of their noise from the best fit, on average")
        )
    if model.promise is not None:
        within, sure, theorem = model.promise.within, model.promise.confidence, model.promise.theorem
        facts.append(("Promise", f"all answers within {within:.4g} of all rows, at {sure:.0%} ({theorem})"))
    note = "<p class='note'>Everything here is computed from what was released. It says nothing more about anybody.</p>"
    return Section("What was released", note + html_table(("", ""), facts))


def _marginals_section(model: SyntheticModel) -> Section:
    """Draw each single column: the model's shares, and their measurements."""
    measured = {observation.block: observation for observation in model.seen}
    pictures = []
    for name in model.workload.names:
        attribute = model.schema.domain[name]
        if attribute.size > _SHOWN_VALUES and not isinstance(attribute, Category):
            pictures.append(draw_bars(_runs_of_values(model, attribute), title=f"{name}, in runs of values"))
            continue
        block = marginal_block(model.schema.domain, [name])
        shares = model.expect([block]) / model.size
        names = [label_text(attribute, code) for code in range(len(shares))]
        seen = measured.get(block)
        largest = np.argsort(-shares, kind="stable")[:_SHOWN_VALUES]
        order = largest if len(shares) > _SHOWN_VALUES else range(len(shares))
        drawn = [_bar(names[place], float(shares[place]), seen, place) for place in map(int, order)]
        pictures.append(draw_bars(drawn, title=name))
    note = "<p class='note'>Bars are the model; lines are 95% intervals of what was measured.</p>"
    return Section("Columns one by one", note + "".join(pictures))


def _runs_of_values(model: SyntheticModel, attribute: Attribute) -> list[ShareBar]:
    """Return bars for runs of the values of an ordered column, in their order."""
    firsts = tuple(sorted({place * attribute.size // _SHOWN_RUNS for place in range(_SHOWN_RUNS)}))
    partition = Partition.cut(attribute, firsts)
    block = Block(EVERYTHING, (partition,))
    counts = released_counts(model.schema.domain, model.seen, block, size=model.size, confidence=0.95)
    shares, names = (
        model.expect([block]) / model.size,
        [group_label(partition, attribute, group) for group in range(partition.groups)],
    )
    if counts is None or counts.low is None or counts.high is None:
        return [ShareBar(str(name), share) for name, share in zip(names, shares.tolist(), strict=True)]
    ends = zip((counts.low / model.size).tolist(), (counts.high / model.size).tolist(), strict=True)
    return [ShareBar(str(name), share, *end) for name, share, end in zip(names, shares.tolist(), ends, strict=True)]


def _errors_section(model: SyntheticModel, rows: SyntheticRows | None) -> Section:
    """Show an interval for how far each marginal of the workload is from the table."""
    errors = marginal_errors(model, rows)
    if not errors:
        return Section("How far each marginal may be off", "<p>The workload has no marginals, only counts.</p>")
    what = "rows" if rows is not None else "model"
    known = sorted((error for error in errors if error.distance is not None), key=lambda error: -error.high)
    note = (
        f"<p class='note'>Total variation between the {what} and the table, on each marginal of the workload: a bar is "
        "a 95% interval for it, a tick the distance from what was measured. They are computed from measured tables and "
        "their noise, never from the table itself. Where columns were not measured together, nothing that was released "
        "bounds it. Of columns in bins only these are compared, not the values of a bin.</p>"
    )
    bars = [ShareBar(_name(error), error.distance or 0.0, error.low, error.high) for error in known[:_SHOWN_VALUES]]
    title = f"How far each marginal of the {what} may be off"
    picture = draw_ranges(bars, title=title, across="total variation from the table") if bars else ""
    listed = [
        (
            _name(error),
            "not measured together" if error.distance is None else error.distance,
            error.low,
            error.high,
        )
        for error in (*known, *(error for error in errors if error.distance is None))
    ]
    table = html_table(("marginal", f"{what} against measurement", "at least", "at most"), listed)
    counted = f"<p>{len(known):,} of {len(errors):,} marginals were measured, alone or within a larger one.</p>"
    folded = f"<details><summary>All {len(errors):,} marginals</summary>{table}</details>"
    return Section("How far each marginal may be off", note + counted + picture + folded)


def marginal_errors(model: SyntheticModel, rows: SyntheticRows | None = None) -> list[MarginalError]:
    """Return for each marginal of the workload an interval for how far the model, or its rows, are from the table.

    Columns in bins are compared bin by bin with others, in coarse bins if they were measured in no others.
    """
    total = 1.0 if rows is None else float(len(rows)) if rows.weights is None else float(rows.weights.sum())

    def error(names: tuple[str, ...], bins: Bins) -> MarginalError:
        block = marginal_block(model.schema.domain, names, bins)
        shares = model.expect([block]) / model.size if rows is None else row_counts(rows, block) / total
        return marginal_error(model.schema.domain, model.seen, names, shares, bins=bins)

    errors, coarse = [], _coarse_bins(model)
    for names in model.workload.parts:
        if isinstance(names, tuple):
            fine_error = error(
                names, {name: model.bins[name] for name in names if name in model.bins and len(names) > 1}
            )
            errors.append(
                error(names, coarse[names]) if fine_error.distance is None and names in coarse else fine_error
            )
    return errors


def _coarse_bins(model: SyntheticModel) -> dict[tuple[str, ...], Bins]:
    """Return for columns that were measured together in bins the most of these."""
    measured: dict[tuple[str, ...], tuple[int, Bins]] = {}
    for observation in model.seen:
        keys = [key for key in observation.block.keys if isinstance(key, Partition)]
        names = tuple(key.attribute for key in keys)
        if observation.block.where == EVERYTHING and len(keys) == len(observation.block.keys) > 1:
            bins = {key.attribute: key for key in keys if not key.single}
            measured[names] = max(
                measured.get(names, (0, {})), (observation.block.values, bins), key=lambda some: some[0]
            )
    return {names: bins for names, (_, bins) in measured.items()}


def _name(error: MarginalError) -> str:
    return " × ".join(error.columns) + (" in bins" if error.bins else "")


def _bar(name: str, share: float, seen: ObservedBlock | None, place: int) -> ShareBar:
    if seen is None:
        return ShareBar(name, share)
    reach = _NINETY_FIVE * math.sqrt(seen.variance)
    return ShareBar(name, share, float(seen.values[place]) - reach, float(seen.values[place]) + reach)


def _fit_section(model: SyntheticModel) -> Section:
    """Draw the distance of the model from each measured block against the distance from noise alone."""
    if not model.seen:
        return Section("Error against noise floor", "<p>This method measures nothing: it only chooses.</p>")
    note = (
        "<p class='note'>On the line a model is as far from a measurement as noise is from the truth, which is as near "
        "as can be known. Far above it the model does not fit; far below, it follows the noise.</p>"
    )
    return Section("Error against noise floor", note + noise_floor_picture(model))


def noise_floor_picture(model: SyntheticModel) -> str:
    """Return an SVG chart of the model's distance from each measured block, against that from noise alone."""
    spots = []
    for observation in model.seen:
        away = 0.5 * float(np.abs(model.expect([observation.block]) / model.size - observation.values).sum())
        spots.append(PlotPoint(describe_block(observation.block), noise_floor(observation), away))
    return draw_points(
        [("measured blocks", INK, spots)],
        across="noise floor: total variation that noise alone makes",
        up="model against measurement",
        title="Error against noise floor",
    )


def noise_floor(seen: ObservedBlock) -> float:
    """Return the mean total variation distance that noise alone causes."""
    return 0.5 * math.sqrt(2 / math.pi * seen.variance) * seen.values.size


def _worst_section(model: SyntheticModel) -> Section:
    """List the answers that the model is farthest from, in standard deviations of their noise."""
    answers: list[tuple[float, str, str, float, float]] = []
    for observation in model.seen:
        expected = model.expect([observation.block])
        away = (expected / model.size - observation.values) / math.sqrt(observation.variance)
        names = answer_names(observation.block, model.schema.domain)
        for place in np.argsort(-np.abs(away))[:_WORST].tolist():
            measured = float(observation.values[place]) * model.size
            answers.append(
                (float(away[place]), describe_block(observation.block), names[place], measured, float(expected[place]))
            )
    answers.sort(key=lambda row: -abs(row[0]))
    headings = ("deviations", "block", "answer", "measured rows", "model's rows")
    return Section(
        "Worst answers", html_table(headings, answers[:_WORST]) if answers else "<p>Nothing was measured.</p>"
    )


def _rows_section(model: SyntheticModel, rows: SyntheticRows) -> Section:
    """Report how far the written rows are from the model, for each block of the workload."""
    total = float(len(rows)) if rows.weights is None else float(rows.weights.sum())
    away = []
    for block in model.workload.query.blocks:
        shares = model.expect([block]) / model.size
        away.append((0.5 * float(np.abs(row_counts(rows, block) / total - shares).sum()), describe_block(block)))
    away.sort(reverse=True)
    mean = sum(distance for distance, _ in away) / len(away)
    note = f"<p>{len(rows):,} rows. Their mean total variation from the model is {mean:.4g}.</p>"
    return Section("Rows against model", note + html_table(("total variation", "block"), away[:_WORST]))


def _steps_section(model: SyntheticModel) -> Section:
    rows = [(step.name, step.about[:200], step.mechanism, step.price, step.how) for step in model.steps]
    return Section("Charges", html_table(("step", "what", "mechanism", f"price in {model.unit}", "how"), rows))


# --- The owner's report: the model against the exact table. It is not private, says so, and is never made by default.

_BANNER = (
    '<p class="owner">OWNER ONLY. This page compares with the exact table. It is not private: do not publish it, and '
    "do not choose what to publish by it.</p>"
)


def owner_report(
    model: SyntheticModel, columns: Mapping[str, Sequence[object] | NDArray[Any]], rows: SyntheticRows | None = None
) -> str:
    """Return as HTML how far a model and its rows are from the exact table, whose columns the owner provides."""
    codes, number = encode_columns(model.schema, model.workload.names, columns)
    measured = {observation.block: observation for observation in model.seen}
    spots: dict[str, list[PlotPoint]] = {"model": [], "rows": []}
    blocks: list[tuple[float, float | str, float | str, str]] = []
    cells: list[tuple[float, str, str, float, float]] = []
    total = 0.0 if rows is None else float(len(rows) if rows.weights is None else rows.weights.sum())
    for block in model.workload.query.blocks:
        truth = np.asarray(answer_block(block, codes, counts=None, rows=number), dtype=np.float64) / max(1, number)
        shares = model.expect([block]) / model.size
        away = 0.5 * float(np.abs(truth - shares).sum())
        row_distance = None if rows is None else 0.5 * float(np.abs(truth - row_counts(rows, block) / total).sum())
        floor = noise_floor(measured[block]) if block in measured else None
        blocks.append(
            (
                away,
                "-" if row_distance is None else row_distance,
                "-" if floor is None else floor,
                describe_block(block),
            )
        )
        if floor is not None:
            spots["model"].append(PlotPoint(describe_block(block), floor, away))
            spots["rows"] += [] if row_distance is None else [PlotPoint(describe_block(block), floor, row_distance)]
        names = answer_names(block, model.schema.domain)
        off = shares - truth
        cells += [
            (float(off[place]), describe_block(block), names[place], float(truth[place]), float(shares[place]))
            for place in np.argsort(-np.abs(off))[:_WORST].tolist()
        ]
    blocks.sort(key=lambda row: -row[0])
    cells.sort(key=lambda row: -abs(row[0]))
    mean = sum(row[0] for row in blocks) / len(blocks)
    picture = draw_points(
        [("model", INK, spots["model"]), ("rows", WARM, spots["rows"])],
        across="noise floor of the measurement",
        up="total variation from the table",
        title="Error against noise floor",
    )
    headings = ("model's total variation", "rows'", "noise floor", "block")
    sections = [
        Section("Blocks", f"<p>Mean total variation: {mean:.4g}.</p>{html_table(headings, blocks[:_WORST])}"),
        Section("Measured blocks", picture),
        Section(
            "Worst answers", html_table(("error", "block", "answer", "exact share", "model's share"), cells[:_WORST])
        ),
    ]
    return html_page(f"Release of {model.schema.table}, beside the exact table", sections, banner=_BANNER)


def encode_columns(
    schema: Schema, names: Sequence[str], columns: Mapping[str, Sequence[object] | NDArray[Any]]
) -> tuple[dict[str, NDArray[np.int64]], int]:
    """Return the codes of the owner's columns, and the number of rows."""
    for name in names:
        if name not in columns:
            raise InvalidRequest(f"The table to compare with has no column {name}.")
    codes = {name: encode(schema.domain[name], columns[name]) for name in names}
    lengths = {len(column) for column in codes.values()}
    if len(lengths) != 1:
        raise InvalidRequest("The columns to compare with differ in length.")
    return codes, lengths.pop()
