"""Answers as text: a plain table, and JSON in a form that stays."""

from __future__ import annotations

import json
import math
from datetime import date
from fractions import Fraction
from typing import TYPE_CHECKING

from dodona.accuracy import Against
from dodona.answer.digits import digits_for, shown
from dodona.answer.estimate import Estimate, Measure
from dodona.domain.attribute import Label
from dodona.domain.plain import plain
from dodona.errors import printable, printable_json

if TYPE_CHECKING:
    from dodona.answer.answer import Answer
    from dodona.answer.rows import Cell

_ROWS_OF_TEXT = 60
FORMAT = 1


def text(answer: Answer) -> str:
    """Return a plain table, and under it what the numbers mean."""
    cells = [[cell_text(cell) for cell in row.cells] for row in answer.rows[:_ROWS_OF_TEXT]]
    heads = [printable(name) for name in answer.columns]
    widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
    aligned = [_line(heads, widths, answer.estimated), "  ".join("-" * width for width in widths)]
    aligned += [_line(row, widths, answer.estimated) for row in cells]
    if len(answer.rows) > _ROWS_OF_TEXT:
        aligned.append(f"... and {len(answer.rows) - _ROWS_OF_TEXT:,} more rows")
    return "\n".join([*aligned, "", *notes(answer)])


def notes(answer: Answer) -> list[str]:
    """Return what the numbers of an answer mean, where they came from and what they cost."""
    of = "the population's value" if answer.view.against is Against.POPULATION else "the exact value"
    each = "All intervals together hold" if answer.view.together else "Each interval holds"
    if answer.view.draws is not None:
        each = "Whatever the question was chosen by, all intervals together hold"
    counted = f" over the rows that count with probability {answer.confidence:g} or more. {answer.about}"
    told = f"{each} {of}{counted if answer.about else f' with probability {answer.confidence:g} or more.'}"
    found = [told] if any(answer.estimated) else []
    found.append(f"Source: {answer.source}. Price: {answer.price}. Mechanism: {answer.mechanism}.")
    return [printable(line) for line in found + [f"Note: {warning}" for warning in answer.warnings]]


def cell_text(cell: Cell) -> str:
    """Return a cell as people read it."""
    return str(cell) if isinstance(cell, Estimate) else label_text(cell)


def label_text(label: Label) -> str:
    """Return a label as people read it.

    >>> label_text(Fraction(1, 4)), label_text(True), label_text("female")
    ('0.25', 'true', 'female')
    """
    match label:
        case bool():
            return "true" if label else "false"
        case Fraction():
            return plain(label)
        case date():
            return label.isoformat()
        case _:
            return printable(str(label)).replace("\n", "\\n")


def end_text(estimate: Estimate) -> str:
    """Return the interval of an estimate as people read it."""
    digits = digits_for(estimate.within) if math.isfinite(estimate.within) else 3
    return f"{shown(estimate.low, digits)} to {shown(estimate.high, digits)}"


def to_json(answer: Answer) -> str:
    """Return the answer as JSON text. A bound that is not known, and a value that nothing is known of, are null."""
    columns = [
        {"name": name, "kind": "estimate" if estimated else "label"}
        for name, estimated in zip(answer.columns, answer.estimated, strict=True)
    ]
    document = {
        "format": FORMAT,
        "question": answer.question.text,
        "columns": columns,
        "rows": [[_json_cell(cell) for cell in row.cells] for row in answer.rows],
        "confidence": answer.confidence,
        "against": answer.view.against.value,
        "simultaneous": answer.view.together,
        "accuracy": [
            {"column": column.column, "worst": _finite(column.worst), "typical": _finite(column.typical)}
            for column in answer.accuracy
        ],
        "source": answer.source,
        "price": {"share": str(answer.price.share), "epsilon": answer.price.epsilon},
        "mechanism": answer.mechanism,
        "theorem": answer.theorem,
        "receipt": answer.receipt,
        "head": answer.head,
        "version": answer.version,
        "stale": answer.stale,
        "about": answer.about,
        "warnings": list(answer.warnings),
        "any_choice": answer.view.draws is not None,
        "reused": answer.reused,
    }
    return printable_json(json.dumps(document, ensure_ascii=False, allow_nan=False))


def _line(cells: tuple[str, ...] | list[str], widths: list[int], estimated: tuple[bool, ...]) -> str:
    pairs = zip(cells, widths, estimated, strict=True)
    return "  ".join(cell.rjust(width) if right else cell.ljust(width) for cell, width, right in pairs).rstrip()


def _json_cell(cell: Cell) -> object:
    if isinstance(cell, Estimate):
        return {"value": _json(cell.value), "low": _json(cell.low), "high": _json(cell.high)}
    return _json(cell)


def _json(value: Measure | Label | None) -> object:
    """Return a value that JSON knows; fractions are rounded to doubles, dates are texts."""
    match value:
        case date():
            return value.isoformat()
        case Fraction():
            return float(value)
        case float():
            return _finite(value)
        case _:
            return value


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
