"""Fitness: whether the parts of a block are about the domain that they are asked over."""

from __future__ import annotations

from typing import assert_never

from dodona.domain.attribute import cells
from dodona.domain.domain import Domain
from dodona.domain.partition import Partition
from dodona.errors import InvalidArgument
from dodona.query.predicate import Among, And, Or, Predicate
from dodona.query.weight import Cases, Constant, Value, Weight


class Fitness:
    """Looks through blocks, and remembers how many cells each attribute has."""

    __slots__ = ("_cells", "_domain", "place")

    def __init__(self, domain: Domain) -> None:
        """Take the domain."""
        self._domain = domain
        self._cells: dict[str, int] = {}
        self.place = 0
        """The number of the block that is looked at."""

    def predicate(self, predicate: Predicate) -> None:
        """Refuse sets of cells that the attribute does not have."""
        match predicate:
            case Among():
                name, number, codes = predicate.attribute, predicate.cells, predicate.codes
                if number != (self._cells.get(name) or self._counted(name)):
                    raise self._other(name, f"{number} cells", self._cells[name])
                if not 0 <= codes < 1 << number:
                    raise InvalidArgument(f"blocks[{self.place}]", f"{name}:{codes:x}", f"write bits below 2^{number}")
            case And(parts) | Or(parts):
                for part in parts:
                    self.predicate(part)
            case _:
                assert_never(predicate)

    def partition(self, partition: Partition) -> None:
        """Refuse groups of another attribute of that name."""
        if partition.size + 2 != self._counted(partition.attribute):
            raise self._other(
                partition.attribute, f"groups of {partition.size} values", self._cells[partition.attribute]
            )

    def weight(self, weight: Weight) -> None:
        """Refuse values of another attribute of that name."""
        match weight:
            case Constant(number):
                self._whole(number)
            case Value(name, size, offset, factor, power):
                if size + 2 != self._counted(name):
                    raise self._other(name, f"{size} values", self._cells[name])
                self._whole(offset, factor, power)
            case Cases(branches, otherwise):
                for predicate, branch in branches:
                    self.predicate(predicate)
                    self.weight(branch)
                self.weight(otherwise)
            case _:
                assert_never(weight)

    def _whole(self, *numbers: object) -> None:
        """Refuse numbers that are not Python's own: those of numpy wrap when squared, and engines round fractions."""
        for number in numbers:
            if type(number) is not int:
                accepted = "write Python's own whole numbers in weights, such as int(number)"
                raise InvalidArgument(f"blocks[{self.place}].weight", number, accepted)

    def _counted(self, name: str) -> int:
        found = self._cells[name] = cells(self._domain[name])
        return found

    def _other(self, name: str, value: str, number: int) -> InvalidArgument:
        accepted = (
            f"{name} has {number - 2} values and {number} cells here; write predicates with this domain's columns"
        )
        return InvalidArgument(f"blocks[{self.place}]", f"{name}: {value}", accepted)
