"""Answers as tables of other libraries."""

from __future__ import annotations

from datetime import date
from fractions import Fraction
from typing import TYPE_CHECKING

from dodona.answer.estimate import Estimate, Measure
from dodona.answer.written import label_text
from dodona.domain.attribute import Label
from dodona.errors import InvalidRequest

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from dodona.answer.answer import Answer

Plain = float | int | str | bool | date | None


def to_pandas(answer: Answer) -> pd.DataFrame:
    """Return a pandas frame; labels keep their own types, so a column may hold numbers and `<missing>`."""
    try:
        import pandas as pd
    except ModuleNotFoundError as error:
        raise InvalidRequest("A pandas frame needs pandas: install dodona[frames].") from error
    labels, estimates = _labels(answer), _estimates(answer)
    found: dict[str, pd.Series] = {}
    for name in _order(answer):
        if name in labels:
            found[name] = pd.Series([_plain(label) for label in labels[name]], dtype=object)
        else:
            found[name] = pd.Series(estimates[name])
    return pd.DataFrame(found)


def to_polars(answer: Answer) -> pl.DataFrame:
    """Return a polars frame; labels are texts."""
    try:
        import polars as pl
    except ModuleNotFoundError as error:
        raise InvalidRequest("A polars frame needs polars: install dodona[frames].") from error
    return pl.DataFrame(plain_columns(answer))


def to_arrow(answer: Answer) -> pa.Table:
    """Return an Arrow table; labels are texts."""
    import pyarrow as pa

    return pa.table(plain_columns(answer))


def plain_columns(answer: Answer) -> dict[str, list[Plain]]:
    """Return the columns with one type each: labels become texts, as a number may stand beside `<missing>`."""
    labels, estimates = _labels(answer), _estimates(answer)
    texts: dict[str, list[Plain]] = {name: [label_text(label) for label in column] for name, column in labels.items()}
    return {name: (texts | estimates)[name] for name in _order(answer)}


def _names(answer: Answer) -> list[tuple[int, str, bool]]:
    """Return the number, name and kind of each column, with names that differ from each other."""
    taken = set[str]()
    found = []
    for number, (name, estimated) in enumerate(zip(answer.columns, answer.estimated, strict=True)):
        free, times = name, 1
        while not taken.isdisjoint({free, f"{free}_low", f"{free}_high"} if estimated else {free}):
            times += 1
            free = f"{name}_{times}"
        taken |= {free, f"{free}_low", f"{free}_high"} if estimated else {free}
        found.append((number, free, estimated))
    return found


def _order(answer: Answer) -> list[str]:
    return [
        full
        for _, name, estimated in _names(answer)
        for full in ((name, f"{name}_low", f"{name}_high") if estimated else (name,))
    ]


def _labels(answer: Answer) -> dict[str, list[Label]]:
    found: dict[str, list[Label]] = {}
    for number, name, estimated in _names(answer):
        if not estimated:
            cells = (row.cells[number] for row in answer.rows)
            found[name] = [cell for cell in cells if not isinstance(cell, Estimate)]
    return found


def _estimates(answer: Answer) -> dict[str, list[Plain]]:
    """Return three columns for each estimate: the value, and the ends of its interval."""
    found: dict[str, list[Plain]] = {}
    for number, name, estimated in _names(answer):
        if estimated:
            cells = [cell for row in answer.rows if isinstance(cell := row.cells[number], Estimate)]
            found[name] = _typed([cell.value for cell in cells])
            found[f"{name}_low"] = _typed([cell.low for cell in cells])
            found[f"{name}_high"] = _typed([cell.high for cell in cells])
    return found


def _typed(values: list[Measure | None]) -> list[Plain]:
    """Return whole numbers where all are whole, dates where they are dates, floats otherwise."""
    if all(isinstance(value, int | date) for value in values):
        return [_plain(value) for value in values if value is not None]
    return [None if value is None else float(value) for value in values if not isinstance(value, date)]


def _plain(value: Measure | Label) -> Plain:
    return float(value) if isinstance(value, Fraction) else value
