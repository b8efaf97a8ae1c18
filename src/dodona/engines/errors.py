"""Errors for sources that cannot be opened or do not match the schema."""

from __future__ import annotations

from collections.abc import Iterable

from dodona.errors import InvalidRequest
from dodona.schema.attributes import Attribute


class SourceUnfit(InvalidRequest):
    """The table is not what the schema declares, as far as its names and types tell. The owner can fix it."""

    code = "source-unfit"


def missing_column_error(name: str, declared: str, columns: Iterable[str]) -> SourceUnfit:
    """Return the error for a declared column that is not among the columns of a table."""
    alike = [other for other in columns if other.casefold() == name.casefold()]
    hint = f" It has {alike[0]}: write the name as it is there." if alike else " Add it to the table, or take it out."
    return SourceUnfit(f"The column {name} is declared as {declared}, and the table does not have it.{hint}")


def unfit_type_error(attribute: Attribute, kind: str) -> SourceUnfit:
    """Return the error for a column whose type cannot be read as what is declared."""
    return SourceUnfit(
        f"The column {attribute.name} is declared as {describe_attribute(attribute)}, and the table holds {kind} in it. "
        "Declare it as what it is, or ask a view that casts it."
    )


def describe_attribute(attribute: Attribute) -> str:
    """Return the kind of an attribute, as it stands in a sentence."""
    return f"{'an' if attribute.kind == 'integer' else 'a'} {attribute.kind}"
