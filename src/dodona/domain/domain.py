"""The domain: all attributes of a table, in the order of their declaration, and their algebra."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Self

from dodona.domain.attribute import Attribute, cells
from dodona.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class Domain:
    """Attributes with names that differ, and not only in capitals. Its cells are the product of theirs."""

    attributes: tuple[Attribute, ...]
    _by_name: dict[str, Attribute] = field(init=False, repr=False, compare=False, hash=False)

    def __post_init__(self) -> None:
        """Refuse two attributes of one name."""
        object.__setattr__(self, "attributes", tuple(self.attributes))
        object.__setattr__(self, "_by_name", {attribute.name: attribute for attribute in self.attributes})
        if len({name.casefold() for name in self._by_name}) != len(self.attributes):
            raise InvalidArgument("attributes", self.names, "write each name once; capitals make no difference")

    def __hash__(self) -> int:
        """Return that of the names: every query has a domain, and it is looked up all the time."""
        return hash(tuple(self._by_name))

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in order."""
        return tuple(attribute.name for attribute in self.attributes)

    @property
    def shape(self) -> tuple[int, ...]:
        """How many cells each attribute has."""
        return tuple(map(cells, self.attributes))

    @property
    def size(self) -> int:
        """How many cells there are in all."""
        return math.prod(self.shape)

    def project(self, names: Iterable[str]) -> Self:
        """Return the domain of some attributes, in this domain's order."""
        kept = set(names)
        for name in kept:
            self[name]  # an unknown name is an error
        return type(self)(tuple(attribute for attribute in self.attributes if attribute.name in kept))

    def merge(self, other: Self) -> Self:
        """Return the domain with the attributes of both; one that is in both must be the same."""
        for attribute in other.attributes:
            if attribute.name in self._by_name and self._by_name[attribute.name] != attribute:
                raise InvalidArgument("other", attribute.name, "the two domains declare it differently")
        new = (attribute for attribute in other.attributes if attribute.name not in self._by_name)
        return type(self)((*self.attributes, *new))

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __iter__(self) -> Iterator[Attribute]:
        return iter(self.attributes)

    def __getitem__(self, name: str) -> Attribute:
        """Return the attribute of a name."""
        found = self._by_name.get(name)
        if found is None:
            raise InvalidArgument("attribute", name, f"write one of {', '.join(self.names)}")
        return found
