"""Answers in words and in other formats: text, JSON, pandas, polars and Arrow."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from datetime import date
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, assert_never

from dodona.answer import laws as error_laws
from dodona.answer.bands import linear_form
from dodona.answer.derived import DerivedValues, Evidence
from dodona.answer.measured import Noise
from dodona.answer.rows import Estimate, EstimateValue, decimal_places, displayed_columns, format_number, key_order
from dodona.errors import InvalidRequest, printable, printable_json
from dodona.numbers import format_decimal
from dodona.privacy.accuracy import Against
from dodona.privacy.additive_noise import Gaussian, Laplace
from dodona.query import question as asked
from dodona.query.query import Query
from dodona.schema.attributes import Label

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from dodona.answer.answer import Answer
    from dodona.answer.rows import Cell


# --- The mechanism of an answer in words, and the theory pages behind it. ---


_MOST_LAWS = 3  # more laws than this are summarised


def describe_mechanism(measured: Evidence) -> str:
    """Return the noises of a measurement in words, with the number of values each applies to."""
    if isinstance(measured, DerivedValues):
        return _describe_derived(measured)
    found: dict[Noise, int] = {}
    for noise, block in zip(measured.noises, measured.question.query.blocks, strict=True):
        found[noise] = found.get(noise, 0) + block.values  # noqa: PD011  a number, and no frame
    parts = [f"{error_laws.describe_noise(noise)} on {_times(values)}" for noise, values in found.items()]
    return "; ".join(parts)


def _describe_derived(derived: DerivedValues) -> str:
    """Return the sources of derived values in words, with the number of values of each law."""
    found: dict[error_laws.ErrorLaw, int] = {}
    for laws, part in zip(derived.laws, derived.parts, strict=True):
        for law in laws:
            found[law] = found.get(law, 0) + len(part) // len(laws)
    values = sum(found.values())
    if values == 1:
        return _describe_law(next(iter(found)))
    if len(found) <= _MOST_LAWS:
        return "; ".join(f"{_describe_law(law)}, for {_times(number)}" for law, number in found.items())
    kinds = [kind for law in found for kind in _law_noises(law)]
    return (
        f"combinations of numbers that were told before, with {error_laws.describe_noises(kinds)}, for {_times(values)}"
    )


def _describe_law(law: error_laws.ErrorLaw) -> str:
    match law:
        case error_laws.NoiseSum() if law.draws == 0:
            return "none: it is the same whatever the rows are"
        case error_laws.NoiseSum():
            number = "one number that was" if law.draws == 1 else f"{law.draws:,} numbers that were"
            return f"a combination of {number} told before, with {error_laws.describe_noises(_law_noises(law))}"
        case error_laws.GaussianSumBound():
            noise = f"discrete Gaussian noise, of deviation {law.variance**0.5:.6g} in all"
            return f"a combination of numbers that were told before, with {noise}"
        case Laplace() | Gaussian():
            return f"a number that was told before, with {error_laws.describe_noise(law)}"
        case error_laws.ConfirmedLaw():
            noises = f"{law.threshold_scale:.6g} and {law.question_scale:.6g}"
            return f"a model's prediction, compared with the table under discrete Laplace noise of scales {noises}"
        case error_laws.ModelLaw():
            return "a model's prediction, compared with nothing"
        case _:
            assert_never(law)


def _law_noises(law: error_laws.ErrorLaw) -> list[tuple[str, float | None]]:
    """Return the names of a law's noises, and their scales if they are stored."""
    match law:
        case error_laws.NoiseSum():
            return [(term.law, term.scale) for term in law.terms]
        case error_laws.GaussianSumBound():
            return [("Gaussian", None)]
        case Laplace() | Gaussian():
            return [(type(law).__name__, float(law.scale))]
        case error_laws.ConfirmedLaw():
            return [("Laplace", law.threshold_scale), ("Laplace", law.question_scale)]
        case error_laws.ModelLaw():
            return []
        case _:
            assert_never(law)


def theorem_ids(measured: Evidence) -> str:
    """Return the ids of theory pages: on the privacy of the noise, then on the displayed intervals."""
    if isinstance(measured, DerivedValues):
        return ", ".join(dict.fromkeys(page for laws in measured.laws for law in laws for page in _law_theorems(law)))
    found = [noise.theorem for noise in measured.noises]
    for column in measured.question.columns:
        found += _expression_theorems(column.expression, measured.question.query, measured.noises)
    return ", ".join(dict.fromkeys(found))


def _expression_theorems(expression: asked.Expression, query: Query, noises: tuple[Noise, ...]) -> Iterator[str]:
    match expression:
        case asked.Total(block):
            yield _accuracy_theorem(noises[block])
        case asked.Mean():
            yield "honest-ratio"
        case asked.Variation():
            yield "honest-spread"
        case asked.Quantile():
            yield "quantile-interval"
        case asked.Arithmetic(_, left, right):
            if linear_form(expression, query) is not None:
                yield "sum-of-noises"
            else:
                yield "honest-ratio"
                yield from _expression_theorems(left, query, noises)
                yield from _expression_theorems(right, query, noises)
        case asked.KeyLabel() | asked.LiteralExpression() | asked.PublicValue() | asked.Comparison() | asked.Logic():
            return
        case _:
            assert_never(expression)


def _law_theorems(law: error_laws.ErrorLaw) -> tuple[str, ...]:
    """Return the theory pages behind a value that was not measured for its question."""
    match law:
        case error_laws.ConfirmedLaw():
            return "sparse-vector-privacy", "confirmed-answer"
        case error_laws.ModelLaw():
            return ("post-processing", "public-bounds") if math.isfinite(law.possible) else ("post-processing",)
        case error_laws.NoiseSum() | error_laws.GaussianSumBound():
            return "derivation", "smoothed-sum"
        case Laplace() | Gaussian():
            return "derivation", _accuracy_theorem(law)
        case _:
            assert_never(law)


def _accuracy_theorem(noise: Noise) -> str:
    match noise:
        case Laplace():
            return "laplace-accuracy"
        case Gaussian():
            return "gaussian-accuracy"
        case _:
            assert_never(noise)


def _times(values: int) -> str:
    return "one value" if values == 1 else f"each of {values:,} values"


# --- Answers as text: a plain table, and JSON in a stable format. ---


_ROWS_OF_TEXT = 60
JSON_FORMAT = 1


def to_text(answer: Answer) -> str:
    """Return a plain table, followed by notes on the numbers."""
    cells = [[cell_text(cell) for cell in row.cells] for row in answer.rows[:_ROWS_OF_TEXT]]
    heads = [printable(name) for name in answer.columns]
    widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
    aligned = [_line(heads, widths, answer.estimated), "  ".join("-" * width for width in widths)]
    aligned += [_line(row, widths, answer.estimated) for row in cells]
    if len(answer.rows) > _ROWS_OF_TEXT:
        aligned.append(f"... and {len(answer.rows) - _ROWS_OF_TEXT:,} more rows")
    return "\n".join([*aligned, "", *answer_notes(answer)])


def answer_notes(answer: Answer) -> list[str]:
    """Return notes on an answer: the meaning of its numbers, their source and their price."""
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
    """Return a cell in readable form."""
    return str(cell) if isinstance(cell, Estimate) else label_text(cell)


def label_text(label: Label) -> str:
    """Return a label in readable form.

    >>> label_text(Fraction(1, 4)), label_text(True), label_text("female")
    ('0.25', 'true', 'female')
    """
    match label:
        case bool():
            return "true" if label else "false"
        case Fraction():
            return format_decimal(label)
        case date():
            return label.isoformat()
        case _:
            return printable(str(label)).replace("\n", "\\n")


def interval_text(estimate: Estimate) -> str:
    """Return the interval of an estimate in readable form."""
    digits = decimal_places(estimate.within) if math.isfinite(estimate.within) else 3
    return f"{format_number(estimate.low, digits)} to {format_number(estimate.high, digits)}"


def to_json(answer: Answer) -> str:
    """Return the answer as JSON text. Unknown bounds and unknown values are null."""
    named = zip(answer.columns, answer.estimated, strict=True)
    columns = [{"name": name, "kind": "estimate" if estimated else "label"} for name, estimated in named]
    document = {
        "format": JSON_FORMAT,
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
        return {"value": _json_value(cell.value), "low": _json_value(cell.low), "high": _json_value(cell.high)}
    return _json_value(cell)


def _json_value(value: EstimateValue | Label | None) -> object:
    """Return a value as JSON represents it; fractions are rounded to doubles, dates are texts."""
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


# --- Answers as tables of other libraries. ---


PlainValue = float | int | str | bool | date | None


def to_pandas(answer: Answer, *, typed: bool = False) -> pd.DataFrame:
    """Return a pandas frame; labels keep their types, so a column may mix numbers and `<missing>`.

    With `typed`, each key column has one type, and missing values are missing.
    """
    try:
        import pandas as pd
    except ModuleNotFoundError as error:
        raise InvalidRequest("A pandas frame needs pandas: install dodona[frames].") from error
    found: dict[str, pd.Series] = {}
    for name, kind, values in _columns(answer, typed=typed, spell=_plain_value):
        if kind == "key":
            found[name] = _series(pd, values)
        else:
            found[name] = pd.Series(values, dtype=object) if kind == "label" else pd.Series(values)
    return pd.DataFrame(found)


def _series(pd: Any, values: list[PlainValue]) -> pd.Series:  # noqa: ANN401  the module, which need not be installed
    """Return keys in the pandas type that supports missing values."""
    known = [value for value in values if value is not None]
    if known and all(isinstance(value, bool) for value in known):
        return pd.Series(values, dtype="boolean")
    if known and all(isinstance(value, int) for value in known):
        return pd.Series(values, dtype="Int64")
    if known and all(isinstance(value, date) for value in known):
        return pd.Series(values, dtype="datetime64[s]")
    return pd.Series(values, dtype="float64" if known and isinstance(known[0], float) else object)


def to_polars(answer: Answer, *, typed: bool = False) -> pl.DataFrame:
    """Return a polars frame; labels are texts, or typed values with `typed`."""
    try:
        import polars as pl
    except ModuleNotFoundError as error:
        raise InvalidRequest("A polars frame needs polars: install dodona[frames].") from error
    return pl.DataFrame(plain_columns(answer, typed=typed))


def to_arrow(answer: Answer, *, typed: bool = False) -> pa.Table:
    """Return an Arrow table; labels are texts, or typed values with `typed`."""
    import pyarrow as pa

    return pa.table(plain_columns(answer, typed=typed))


def plain_columns(answer: Answer, *, typed: bool = False) -> dict[str, list[PlainValue]]:
    """Return the columns with one type each: labels become texts, as a number may appear next to `<missing>`.

    With `typed`, keys are typed values, and None if missing.
    """
    return {name: values for name, _, values in _columns(answer, typed=typed, spell=label_text)}


def _columns(
    answer: Answer, *, typed: bool, spell: Callable[[Label], PlainValue]
) -> Iterator[tuple[str, Literal["key", "label", "estimate"], list[PlainValue]]]:
    """Yield each column's name, kind and values; an estimate is three columns: the value and both ends."""
    order, shown = key_order(answer.question), displayed_columns(answer.question)
    for number, name, estimated in _names(answer):
        cells, expression = [row.cells[number] for row in answer.rows], shown[number].expression
        if estimated:
            known = [cell for cell in cells if isinstance(cell, Estimate)]
            yield name, "estimate", _unify_types([cell.value for cell in known])
            yield f"{name}_low", "estimate", _unify_types([cell.low for cell in known])
            yield f"{name}_high", "estimate", _unify_types([cell.high for cell in known])
        elif typed and isinstance(expression, asked.KeyLabel):
            place = order.index(expression.key)
            yield name, "key", [row.values[place] for row in answer.rows]  # noqa: PD011  a row of ours
        else:
            yield name, "label", [spell(cell) for cell in cells if not isinstance(cell, Estimate)]


def _names(answer: Answer) -> list[tuple[int, str, bool]]:
    """Return the index, name and kind of each column, with distinct names."""
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


def _unify_types(values: list[EstimateValue | None]) -> list[PlainValue]:
    """Return integers if all values are integers, dates if they are dates, floats otherwise."""
    if all(isinstance(value, int | date) for value in values):
        return [_plain_value(value) for value in values if value is not None]
    return [None if value is None else float(value) for value in values if not isinstance(value, date)]


def _plain_value(value: EstimateValue | Label) -> PlainValue:
    return float(value) if isinstance(value, Fraction) else value
