"""`dodona check`: the rows of a dataset file against its declarations, and what to do about what is found.

It is the owner's own look at the data. It opens no ledger, writes nothing, and works on a draft too. Only `publish`
buys a noisy figure, which is charged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import assert_never

from dodona.backends.check import Check, ColumnCheck, LeftOutSource, checked, left_out_query
from dodona.domain.attribute import Attribute, Boolean, Category, Date, Integer, Number
from dodona.domain.neighbours import Neighbours
from dodona.domain.plain import plain
from dodona.domain.unit import Unit
from dodona.errors import InvalidRequest
from dodona.exact import Exact
from dodona.mechanisms.laplace import Laplace
from dodona.mechanisms.measurement import Measurement
from dodona.mechanisms.scale import epsilon_of
from dodona.online.chance import paid
from dodona.online.dataset import Dataset
from dodona.online.desk import Desk, fitting_epsilon
from dodona.online.request import Request, agreed
from dodona.opening.file import DatasetFile
from dodona.opening.opening import ledger_of, left_out_words, source_of
from dodona.opening.place import inspected_file
from dodona.query.people import effect_of
from dodona.trusted.release import release

_WORTH_SAYING = 0.01
_FAR = 2
_TEXT = "rows that the cap leaves out"


def check(path: str | Path) -> tuple[DatasetFile, Check]:
    """Return the dataset file, which may be a draft, and exact counts of its rows."""
    file = DatasetFile.draft(path)
    table = inspected_file(file)
    try:
        return file, checked(file.schema, table.table(file.schema), table.fetched)
    finally:
        table.close()


@dataclass(frozen=True, slots=True)
class Published:
    """A noisy figure of the rows that the cap leaves out, which answers about people mention."""

    words: str
    price: Fraction
    """Which part of the budget it took; 0 where it was published before."""


def publish(
    path: str | Path,
    *,
    epsilon: Exact,
    analyst: str | None = None,
    max_price: Exact | None = None,
    key: str | None = None,
) -> Published:
    """Measure how many rows the cap leaves out, charged like any question, so that answers can say it.

    A version has one such figure: asked again, it is told for nothing. What would take more of the budget than
    `max_price`, or than the dataset file lets one call take, is refused.

    Theorem: people
    """
    file = DatasetFile.read(path)
    unit = file.schema.unit
    if unit.id is None:
        raise InvalidRequest("A cap leaves rows out where people are protected; here each row is by itself.")
    query, one = left_out_query(file.schema), Unit.each_row(unit.neighbours)
    default = Request(within=file.within, epsilon=None, confidence=file.confidence, max_price=file.max_price)
    most = agreed(max_price, default)

    def measuring(price: Exact) -> Measurement:
        return Measurement(query, (Laplace.for_privacy(price, effect_of(query, one)),))

    measurement = measuring(epsilon)
    with ledger_of(path) as ledger:
        ledger.permit(analyst)
        earlier = left_out_words(ledger, file.schema, file.version)
        if earlier:
            return Published(earlier, Fraction(0))
        source_of(file, ledger.cap_key, owner=True).close()  # the rows are still those of the version
        event, source = measurement.event(one), LeftOutSource(file.schema, inspected_file(file), version=file.version)
        dataset = Dataset(name=file.dataset, schema=file.schema, source=source, ledger=ledger, default=default)
        try:
            receipt = Desk(dataset, analyst).charge(
                event,
                purpose=measurement.purpose,
                most=most,
                key=key,
                best=lambda fits: fitting_epsilon(
                    lambda price: ledger.share(measuring(price).event(one)), epsilon_of(epsilon), fits
                ),
            )
            with paid():
                release(measurement, receipt, ledger=ledger, source=source, unit=one, text=_TEXT)
        finally:
            source.close()
        return Published(left_out_words(ledger, file.schema, file.version), ledger.share(event))


def hints(file: DatasetFile, found: Check) -> Iterator[str]:
    """Yield what an owner might change, and until when it can be changed."""
    yield from _unit_hints(file, found)
    for column in found.columns:
        yield from _column_hints(file.schema.domain[column.name], column, found.rows)


def share(part: int, whole: int) -> str:
    """Return a part in percent.

    >>> share(3, 100), share(1, 10_000_000), share(0, 0)
    ('3%', '<0.01%', '0%')
    """
    percent = 100 * part / whole if whole else 0.0
    return "<0.01%" if 0 < percent < _WORTH_SAYING else f"{percent:.3g}%"


def _unit_hints(file: DatasetFile, found: Check) -> Iterator[str]:
    unit = file.schema.unit
    if found.nobody:
        yield (
            f"{share(found.nobody, found.rows)} of the rows have no {unit.id}: they are of nobody, and do not count. "
            "Give them an id, or protect rows."
        )
    if found.cut:
        yield (
            f"{share(found.cut, found.rows)} of the rows are cut, as their people have more than {unit.rows}: raise "
            "unit.rows before the first charge, which makes every answer noisier, or live with it."
        )
    if unit.neighbours is Neighbours.REPLACE and unit.size != found.rows:
        yield f"With replace the size is exact and public: write size = {found.rows:_}."
    elif not unit.size / _FAR <= found.rows <= unit.size * _FAR:
        yield f"unit.size = {unit.size:_} is far from the number of rows: a tolerance in percent is a part of it."


def _column_hints(attribute: Attribute, column: ColumnCheck, rows: int) -> Iterator[str]:
    name = attribute.name
    if isinstance(attribute, Integer | Number):
        lower, upper = (str(b) if isinstance(b, int) else plain(b) for b in (attribute.lower, attribute.upper))
        for number, word, edge, change in (
            (column.below, "below", lower, "lower `lower`"),
            (column.above, "above", upper, "raise `upper`"),
        ):
            if number:
                yield (
                    f"{share(number, rows)} of {name} are {word} {edge}: {change} before the first charge, or live "
                    "with clamping."
                )
    landing = "land in <outside>" if attribute.otherwise is None else f"count as {attribute.otherwise}"
    if column.outside:
        yield f"{share(column.outside, rows)} of {name} are {_unfit(attribute)}: they {landing}."
    if column.missing and attribute.otherwise is not None:
        yield f"{share(column.missing, rows)} of {name} are missing: they {landing}."


def _unfit(attribute: Attribute) -> str:
    match attribute:
        case Integer() | Number():
            return "no numbers"
        case Date():
            return f"no days from {attribute.lower} to {attribute.upper}"
        case Category():
            return "none of the labels"
        case Boolean():
            return "neither true nor false"
        case _:
            assert_never(attribute)
