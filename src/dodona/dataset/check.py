"""`dodona check`: the rows of a dataset file compared with its declarations, for the owner alone.

It opens no ledger and writes nothing. Only `publish` releases a noisy figure, which is charged.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import assert_never

from dodona.curator.desk import Desk, Purchase, affordable_epsilon
from dodona.curator.request import Dataset, Request, effective_max_price
from dodona.dataset.file import DatasetFile
from dodona.dataset.opening import describe_left_out, open_dataset_ledger, open_source
from dodona.dataset.place import inspect_dataset_file
from dodona.engines.inspection import ColumnCheck, LeftOutSource, TableCheck, check_table, left_out_query
from dodona.errors import InvalidRequest
from dodona.numbers import Exact, format_decimal
from dodona.privacy.additive_noise import Laplace, validate_noise_epsilon
from dodona.privacy.measurement import Measurement
from dodona.query.sensitivity import unit_sensitivity
from dodona.schema.attributes import Attribute, Boolean, Category, Date, Integer, Number, Timestamp
from dodona.schema.schema import Neighbours, Unit
from dodona.trusted.gate import release_measurement

_WORTH_SAYING = 0.01
_FAR = 2
_TEXT = "rows that the cap leaves out"


def check(path: str | Path) -> tuple[DatasetFile, TableCheck]:
    """Return the dataset file, which may be a draft, and exact counts of its rows."""
    file = DatasetFile.draft(path)
    table = inspect_dataset_file(file)
    try:
        return file, check_table(file.schema, table.table(file.schema), table.fetched)
    finally:
        table.close()


@dataclass(frozen=True, slots=True)
class PublishedLeftOut:
    """A noisy count of the rows that the cap leaves out, mentioned in answers about people."""

    words: str
    price: Fraction
    """The share of the budget charged; 0 if it was already published."""


def publish(
    path: str | Path,
    *,
    epsilon: Exact,
    analyst: str | None = None,
    max_price: Exact | None = None,
    key: str | None = None,
) -> PublishedLeftOut:
    """Release a noisy count of the rows that the cap leaves out, charged like any question.

    Each version has one such figure, which answers can mention; replays are free. A price above `max_price`, or above
    the dataset file's limit per call, is refused.

    Theorem: people
    """
    file = DatasetFile.read(path)
    unit = file.schema.unit
    if unit.id is None:
        raise InvalidRequest("A cap leaves rows out where people are protected; here each row is by itself.")
    query, row_unit = left_out_query(file.schema), Unit.each_row(unit.neighbours)
    default = Request(within=file.within, epsilon=None, confidence=file.confidence, max_price=file.max_price)
    most = effective_max_price(max_price, default)

    def measuring(price: Exact) -> Measurement:
        return Measurement(query, (Laplace.for_privacy(price, unit_sensitivity(query, row_unit)),))

    measurement = measuring(epsilon)
    with open_dataset_ledger(path) as ledger:
        ledger.permit(analyst)
        earlier = describe_left_out(ledger, file.schema, file.version)
        if earlier:
            return PublishedLeftOut(earlier, Fraction(0))
        open_source(file, ledger.cap_key, owner=True).close()  # checks that the rows are still those of the version
        event = measurement.event(row_unit)
        source = LeftOutSource(file.schema, inspect_dataset_file(file), version=file.version)
        schema = replace(file.schema, unit=row_unit)  # each person is one row of that table
        dataset = Dataset(name=file.dataset, schema=schema, source=source, ledger=ledger, default=default)
        purchase = Purchase(
            event=event,
            purpose=measurement.purpose,
            deliver=partial(release_measurement, measurement, text=_TEXT),
            max_price=most,
            affordable=lambda fits: affordable_epsilon(
                lambda price: ledger.share(measuring(price).event(row_unit)), validate_noise_epsilon(epsilon), fits
            ),
        )
        try:
            Desk(dataset, analyst).buy(purchase, key=key)
        finally:
            source.close()
        return PublishedLeftOut(describe_left_out(ledger, file.schema, file.version), ledger.share(event))


def hints(file: DatasetFile, stats: TableCheck) -> Iterator[str]:
    """Yield what an owner might change, and until when."""
    yield from _unit_hints(file, stats)
    for column in stats.columns:
        yield from _column_hints(file.schema.domain[column.name], column, stats.rows)


def percentage(part: int, whole: int) -> str:
    """Return a share as a percentage.

    >>> percentage(3, 100), percentage(1, 10_000_000), percentage(0, 0)
    ('3%', '<0.01%', '0%')
    """
    percent = 100 * part / whole if whole else 0.0
    return "<0.01%" if 0 < percent < _WORTH_SAYING else f"{percent:.3g}%"


def _unit_hints(file: DatasetFile, stats: TableCheck) -> Iterator[str]:
    unit = file.schema.unit
    if stats.nobody:
        yield (
            f"{percentage(stats.nobody, stats.rows)} of the rows have no {unit.id} and do not count. Give them an id, "
            "or protect rows."
        )
    if stats.cut:
        yield (
            f"{percentage(stats.cut, stats.rows)} of the rows are cut, as their people have more than {unit.rows}. "
            "Accept that, or raise unit.rows before the first charge, which makes every answer noisier."
        )
    if unit.neighbours is Neighbours.REPLACE and unit.size != stats.rows:
        yield f"With replace the size is exact and public: write size = {stats.rows:_}."
    elif not unit.size / _FAR <= stats.rows <= unit.size * _FAR:
        yield f"unit.size = {unit.size:_} is far from the number of rows: a tolerance in percent is a part of it."


def _column_hints(attribute: Attribute, column: ColumnCheck, rows: int) -> Iterator[str]:
    name = attribute.name
    if isinstance(attribute, Integer | Number):
        lower, upper = (str(b) if isinstance(b, int) else format_decimal(b) for b in (attribute.lower, attribute.upper))
        beyond = (column.below, "below", lower, "lower `lower`"), (column.above, "above", upper, "raise `upper`")
        for number, word, edge, change in beyond:
            if number:
                part = percentage(number, rows)
                yield f"{part} of {name} are {word} {edge}: {change} before the first charge, or accept clamping."
    if isinstance(attribute, Number) and column.between:
        part, step = percentage(column.between, rows), format_decimal(attribute.step)
        yield (
            f"{part} of {name} are between steps of {step} and count as the step below, so averages may come out up to "
            f"{step} too low. A finer step costs nothing in sums, but makes more groups: declare `bins` for those."
        )
    landing = "land in <outside>" if attribute.otherwise is None else f"count as {attribute.otherwise}"
    if column.outside:
        yield f"{percentage(column.outside, rows)} of {name} are {_undeclared_text(attribute)}: they {landing}."
    if column.missing and attribute.otherwise is not None:
        yield f"{percentage(column.missing, rows)} of {name} are missing: they {landing}."


def _undeclared_text(attribute: Attribute) -> str:
    match attribute:
        case Integer() | Number():
            return "no numbers"
        case Date():
            return f"no days from {attribute.lower} to {attribute.upper}"
        case Timestamp():
            return f"no times from {attribute.lower} to {attribute.upper}"
        case Category():
            return "none of the labels"
        case Boolean():
            return "neither true nor false"
        case _:
            assert_never(attribute)
