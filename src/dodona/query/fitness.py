"""Fitness: whether the parts of a block are about the domain that they are asked over."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import assert_never

from dodona.domain.attribute import cells, further
from dodona.domain.domain import Domain
from dodona.domain.partition import Partition
from dodona.errors import InvalidArgument
from dodona.query.predicate import MOST_COMBINATIONS, MOST_TOGETHER, Among, And, Jointly, Or, Predicate
from dodona.query.weight import Cases, Constant, People, Value, Weight


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
                    raise self._other(name, f"{number} cells")
                if not 0 <= codes < 1 << number:
                    raise InvalidArgument(f"blocks[{self.place}]", f"{name}:{codes:x}", f"write bits below 2^{number}")
            case Jointly():
                self._jointly(predicate)
            case And(parts) | Or(parts):
                for part in parts:
                    self.predicate(part)
            case _:
                assert_never(predicate)

    def _jointly(self, predicate: Jointly) -> None:
        """Refuse combinations of cells that the attributes do not have."""
        names, shape = predicate.names, predicate.shape
        if not names or any(before >= after for before, after in pairwise(names)) or len(shape) != len(names):
            raise InvalidArgument(
                f"blocks[{self.place}]", names, "write attributes in the order of their names, each once"
            )
        for name, number in zip(names, shape, strict=True):
            if number != (self._cells.get(name) or self._counted(name)):
                raise self._other(name, f"{number} cells")
        combinations = math.prod(shape)
        if combinations > MOST_COMBINATIONS or len(names) > MOST_TOGETHER:
            accepted = f"look at no more than {MOST_COMBINATIONS} combinations of cells together"
            raise InvalidArgument(f"blocks[{self.place}]", f"{combinations} combinations", accepted)
        if predicate.codes < 0 or predicate.codes.bit_length() > combinations:
            raise InvalidArgument(f"blocks[{self.place}]", ", ".join(names), f"write bits below 2^{combinations}")

    def partition(self, partition: Partition) -> None:
        """Refuse groups of another attribute of that name."""
        name, attribute = partition.attribute, self._domain[partition.attribute]
        if (partition.size, partition.further) != (attribute.size, further(attribute)):
            raise self._other(name, f"groups of {partition.size} values and {partition.further} further cells")

    def weight(self, weight: Weight) -> None:
        """Refuse values of another attribute of that name."""
        match weight:
            case Constant(number):
                self._whole(number)
            case Value(name, size, offset, factor, power):
                if size != self._domain[name].size:
                    raise self._other(name, f"{size} values")
                self._whole(offset, factor, power)
            case People():
                pass
            case Cases(branches, otherwise):
                for predicate, branch in branches:
                    self.predicate(predicate)
                    self._branch(branch)
                self._branch(otherwise)
            case _:
                assert_never(weight)

    def _branch(self, weight: Weight) -> None:
        """Refuse to count people in some rows and rows in others."""
        if isinstance(weight, People):
            accepted = "count people under a condition of their own"
            raise InvalidArgument(f"blocks[{self.place}].weight", "People in cases", accepted)
        self.weight(weight)

    def _whole(self, *numbers: object) -> None:
        """Refuse numbers that are not Python's own: those of numpy wrap when squared, and engines round fractions."""
        for number in numbers:
            if type(number) is not int:
                accepted = "write Python's own whole numbers in weights, such as int(number)"
                raise InvalidArgument(f"blocks[{self.place}].weight", number, accepted)

    def _counted(self, name: str) -> int:
        found = self._cells[name] = cells(self._domain[name])
        return found

    def _other(self, name: str, value: str) -> InvalidArgument:
        values, number = self._domain[name].size, cells(self._domain[name])
        accepted = f"{name} has {values} values and {number} cells here; write predicates with this domain's columns"
        return InvalidArgument(f"blocks[{self.place}]", f"{name}: {value}", accepted)
