"""BigQuery's clause `SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(...)`: every question is private here, so it is checked.

What it states about the data must be what the dataset declares. How much a question costs is stated where it is asked.
"""

from __future__ import annotations

import re

from dodona.schema.schema import Schema
from dodona.sql.scalar import parse_number
from dodona.sql.scope import InvalidSql

PRIVACY_CLAUSE = re.compile(
    r"\s*SELECT(?P<clause>\s+WITH\s+DIFFERENTIAL_PRIVACY(\s+OPTIONS\s*\((?P<options>[^()]*)\))?)", re.IGNORECASE
)
_OPTION = re.compile(r"\s*(?P<name>[a-z_]+)\s*=\s*(?P<value>[^,]*?)\s*", re.IGNORECASE)
_KNOWN = ("epsilon", "delta", "max_groups_contributed", "privacy_unit_column", "group_selection_strategy")


def check_privacy_clause(clause: re.Match[str], schema: Schema) -> tuple[str, tuple[str, ...]]:
    """Return the text with spaces in place of the clause, and what to tell the analyst about it."""
    text = clause.string
    start, end = clause.span("clause")
    notes: list[str] = []
    place = clause.start("options") if clause["options"] is not None else start
    for part in (clause["options"] or "").split(","):
        option = _OPTION.fullmatch(part)
        if part.strip() and option is None:
            raise InvalidSql(text, place, "This is no option.", "Write name = value.")
        if option is not None:
            notes += _check_option(text, place, option["name"].lower(), option["value"], schema)
        place += len(part) + 1
    return text[:start] + " " * (end - start) + text[end:], tuple(notes)


def _check_option(text: str, place: int, name: str, value: str, schema: Schema) -> list[str]:
    """Return a note about an option; refuses one that the dataset contradicts."""
    unit, written = schema.unit, value.strip("`\"'")
    if name not in _KNOWN:
        raise InvalidSql(text, place, f"There is no option `{name[:40]}`.", f"Write one of {', '.join(_KNOWN)}.")
    if name == "privacy_unit_column" and (unit.id is None or written.casefold() != unit.id.casefold()):
        protects = "rows are protected, not people" if unit.id is None else f"people are told apart by {unit.id}"
        raise InvalidSql(text, place, f"In this dataset {protects}.", "Leave privacy_unit_column out.")
    number = parse_number(written)
    if name in {"epsilon", "delta", "max_groups_contributed"} and number is None:
        raise InvalidSql(text, place, f"`{written[:40]}` is no number.", f"Write a number for {name}.")
    most = max((cap for _, cap in unit.caps), default=unit.rows)
    if name == "max_groups_contributed" and number is not None and unit.id is not None and number < most:
        what = f"Up to {most} rows of each person count in a table here, so a person is in up to {most} groups."
        raise InvalidSql(text, place, what, f"Write {most} or more, or leave it out.")
    if name == "epsilon":
        return [f"OPTIONS does not set the price: ask with epsilon = {written} to pay that much."]
    if name == "delta":
        return ["Delta is that of the dataset's budget, whatever OPTIONS says."]
    return []
