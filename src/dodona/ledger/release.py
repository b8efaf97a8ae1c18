"""A release: noisy values, their mechanism and the receipt that bought them. It is public."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dodona.errors import InvalidArgument

Value = int | Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Values in the order in which the question lists them, exact: integers, or fractions of a declared grid."""

    receipt: str
    """The id of the receipt."""
    values: tuple[Value, ...]
    mechanism: str
    question: str | None = None
    """The question in its permanent spelling, so that what was learned can be read back from the ledger alone."""
    text: str | None = None
    """The question as it was written."""

    def __post_init__(self) -> None:
        """Refuse what is not exact."""
        if type(self.values) is not tuple or any(type(value) not in {int, Fraction} for value in self.values):
            raise InvalidArgument("values", self.values, "write a tuple of int and Fraction")


def values_to_json(values: tuple[Value, ...]) -> list[int | str]:
    """Return the values as JSON: integers as numbers, fractions as text.

    >>> values_to_json((3, Fraction(1, 2)))
    [3, '1/2']
    """
    return [value if type(value) is int else _ratio(Fraction(value)) for value in values]


def values_from_json(values: list[int | str]) -> tuple[Value, ...]:
    """Return the values that a JSON list means.

    >>> values_from_json([3, '1/2', '2/1'])
    (3, Fraction(1, 2), Fraction(2, 1))
    """
    return tuple(value if type(value) is int else _fraction(value) for value in values)


def _ratio(value: Fraction) -> str:
    return f"{value.numerator}/{value.denominator}"


def _fraction(text: object) -> Fraction:
    if type(text) is not str:
        raise ValueError(text)
    value = Fraction(text)
    if _ratio(value) != text:
        raise ValueError(text)
    return value
