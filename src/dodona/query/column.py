"""Columns in Python: comparisons that make predicates, the same ones that SQL makes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import final, overload

import numpy as np

from dodona.domain.attribute import MISSING, OUTSIDE, Attribute, cells
from dodona.domain.domain import Domain
from dodona.errors import InvalidArgument
from dodona.query.bits import bits
from dodona.query.jointly import bounded, jointly
from dodona.query.literal import EQUAL, UNEQUAL, Literal, compare, further_mask
from dodona.query.predicate import Predicate, masked


@final
class Column:
    """A column to compare with values. A comparison is not true of rows that have no value.

    >>> from dodona.domain.attribute import Integer
    >>> age = Column(Integer("age", 0, 5))
    >>> (age >= 2) & (age != 4)
    Among(attribute='age', cells=8, codes=44)
    """

    __slots__ = ("attribute",)

    def __init__(self, attribute: Attribute) -> None:
        """Take an attribute of a domain."""
        self.attribute = attribute

    def __eq__(self, value: Literal) -> Predicate:  # type: ignore[override]
        """Return the rows with this value."""
        return self._compared(EQUAL, value)

    def __ne__(self, value: Literal) -> Predicate:  # type: ignore[override]
        """Return the rows with another value; of a category, `<outside>` is one."""
        return self._compared(UNEQUAL, value)

    def __lt__(self, value: Literal) -> Predicate:
        return self._compared("<", value)

    def __le__(self, value: Literal) -> Predicate:
        return self._compared("<=", value)

    def __gt__(self, value: Literal) -> Predicate:
        return self._compared(">", value)

    def __ge__(self, value: Literal) -> Predicate:
        return self._compared(">=", value)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Column({self.attribute.name})"

    def isin(self, values: Iterable[Literal]) -> Predicate:
        """Return the rows with one of these values."""
        if isinstance(values, str):
            raise InvalidArgument("values", values, f"write a list, such as ['{values}']")
        codes = 0
        for value in values:
            codes |= self._codes(EQUAL, value)
        return masked(self.attribute, codes)

    def between(self, first: Literal, last: Literal) -> Predicate:
        """Return the rows with a value from the first to the last, both taken in."""
        return masked(self.attribute, self._codes(">=", first) & self._codes("<=", last))

    def is_missing(self) -> Predicate:
        """Return the rows without a value: NULL and NaN; none where `otherwise` names what they count as."""
        return masked(self.attribute, further_mask(self.attribute, MISSING))

    def is_outside(self) -> Predicate:
        """Return the rows whose value is none that was declared; none where `otherwise` names what they count as."""
        return masked(self.attribute, further_mask(self.attribute, OUTSIDE))

    def _compared(self, operator: str, value: Literal) -> Predicate:
        return masked(self.attribute, self._codes(operator, value))

    def _codes(self, operator: str, value: Literal) -> int:
        return _codes(self.attribute, operator, value)


@final
class Together:
    """Some columns whose values are looked at together."""

    __slots__ = ("attributes",)

    def __init__(self, attributes: Sequence[Attribute]) -> None:
        """Take attributes of a domain."""
        self.attributes = tuple(attributes)

    def __repr__(self) -> str:
        return f"Together({', '.join(attribute.name for attribute in self.attributes)})"

    def isin(self, rows: Iterable[Sequence[Literal]]) -> Predicate:
        """Return the rows whose values are one of these combinations, a value of each column.

        >>> from dodona.domain.attribute import Boolean
        >>> c = columns(Domain((Boolean("planned", otherwise=False), Boolean("urgent", otherwise=False))))
        >>> c["urgent", "planned"].isin([(True, False), (False, True)])
        Jointly(names=('planned', 'urgent'), shape=(2, 2), codes=0x6)
        """
        bounded(self.attributes)
        chosen = np.zeros([cells(attribute) for attribute in self.attributes], dtype=np.bool_)
        for row in rows:
            if isinstance(row, str) or len(row) != len(self.attributes):
                raise InvalidArgument("rows", row, f"write {len(self.attributes)} values, one of each column")
            own = zip(self.attributes, row, strict=True)
            chosen[np.ix_(*(bits(_codes(one, EQUAL, value), cells(one)) for one, value in own))] = True
        return jointly(self.attributes, chosen)


@final
class Columns:
    """The columns of a domain, by name: as attributes, or in brackets. Several names mean columns together."""

    __slots__ = ("_domain",)

    def __init__(self, domain: Domain) -> None:
        """Take a domain."""
        self._domain = domain

    @overload
    def __getitem__(self, name: str) -> Column: ...

    @overload
    def __getitem__(self, name: tuple[str, ...]) -> Together: ...

    def __getitem__(self, name: str | tuple[str, ...]) -> Column | Together:
        if isinstance(name, tuple):
            return Together([self._domain[one] for one in name])
        return Column(self._domain[name])

    def __getattr__(self, name: str) -> Column:
        if name.startswith("__") or name not in self._domain:
            # Python asks for attributes that nobody wrote; they must fail in the way that it expects
            raise AttributeError(f"there is no column {name}; the columns are {', '.join(self._domain.names)}")
        return Column(self._domain[name])

    def __dir__(self) -> list[str]:
        return list(self._domain.names)

    def __repr__(self) -> str:
        return f"Columns({', '.join(self._domain.names)})"


def columns(domain: Domain) -> Columns:
    """Return the columns of a domain, to write predicates with.

    >>> from dodona.domain.attribute import Boolean, Integer
    >>> c = columns(Domain((Integer("age", 0, 110), Boolean("emergency"))))
    >>> c.emergency == True
    Among(attribute='emergency', cells=4, codes=2)
    """
    return Columns(domain)


def _codes(attribute: Attribute, operator: str, value: Literal) -> int:
    if value is None:
        raise InvalidArgument(attribute.name, value, "write .is_missing() for rows without a value")
    return compare(attribute, operator, value)
