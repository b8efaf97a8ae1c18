"""Boxes: many blocks of one number each over a conjunction of sets, looked at together and not one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from dodona.query.predicate import Among, And, bits
from dodona.query.query import Block
from dodona.query.weight import Constant

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dodona.query.atoms import Representatives

_EXACT_FLOAT = 1 << 53
_LARGEST_CHUNK = 1 << 20


@dataclass(slots=True)
class Boxes:
    """Boxes over the same attributes."""

    names: tuple[str, ...]
    places: list[int] = field(default_factory=list)
    """Which blocks they are."""
    masks: list[tuple[int, ...]] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    cells: tuple[int, ...] = ()

    def factors(self, codes: Representatives) -> list[NDArray[np.float64]]:
        """Return for each attribute which box has which of the codes, as 0 and 1."""
        found = []
        for name, cells, masks in zip(self.names, self.cells, zip(*self.masks, strict=True), strict=True):
            rows: dict[int, int] = {}
            places = [rows.setdefault(mask, len(rows)) for mask in masks]
            table = np.array([bits(mask, cells) for mask in rows])[:, codes[name]]
            found.append(table.astype(np.float64)[places])
        return found

    def members(self, codes: Representatives) -> NDArray[np.float64]:
        """Return which box has which cell of the product of all codes, as 0 and 1, one row a box."""
        found = np.ones((len(self.places), *[1] * len(codes)))
        for name, factor in zip(self.names, self.factors(codes), strict=True):
            found = found * factor.reshape([len(self.places), *(-1 if other == name else 1 for other in codes)])
        shape = [len(own) for own in codes.values()]
        return np.broadcast_to(found, (len(self.places), *shape)).reshape(len(self.places), -1)

    def total(self, codes: Representatives, worth: Sequence[int]) -> NDArray[Any]:
        """Return for each cell what its boxes are worth together, in a shape that broadcasts to the product."""
        shape = [len(own) if name in self.names else 1 for name, own in codes.items()]
        if sum(worth) >= _EXACT_FLOAT:  # matrices of integers are slow, and floats end here
            exact = self.members({name: codes[name] for name in self.names}).astype(np.int64).astype(np.object_)
            found: NDArray[Any] = np.array(worth, dtype=np.object_) @ exact
            return found.reshape(shape)
        sizes = np.array(worth, dtype=np.float64)
        *outer, last = self.factors(codes) or [np.ones((len(self.places), 1))]
        width = int(np.prod([factor.shape[1] for factor in outer]))
        step = max(1, _LARGEST_CHUNK // width)
        summed = np.zeros((width, last.shape[1]))
        for start in range(0, len(sizes), step):
            part = slice(start, start + step)
            product = sizes[part, None]
            for factor in outer:
                product = (product[:, :, None] * factor[part, None, :]).reshape(len(product), -1)
            summed += product.T @ last[part]
        return summed.astype(np.int64).reshape(shape)


def boxes_of(blocks: Sequence[Block]) -> tuple[list[Boxes], list[int]]:
    """Return the blocks without keys that are boxes, by their attributes, and the places of all other blocks."""
    found: dict[tuple[str, ...], Boxes | None] = {}
    rest = []
    for place, block in enumerate(blocks):
        where, weight = block.where, block.weight
        if type(weight) is not Constant or block.keys:
            rest.append(place)
            continue
        parts = where.parts if type(where) is And else (where,)
        names, masks = [], []
        for part in parts:
            if type(part) is not Among:
                break
            names.append(part.attribute)
            masks.append(part.codes)
        if len(names) != len(parts):
            rest.append(place)
            continue
        key = tuple(names)
        if key not in found:
            rising = all(before < after for before, after in pairwise(key))
            found[key] = Boxes(key, cells=tuple(part.cells for part in parts)) if rising else None  # type: ignore[union-attr]
        boxes = found[key]
        if boxes is None:
            rest.append(place)
            continue
        boxes.places.append(place)
        boxes.masks.append(tuple(masks))
        boxes.numbers.append(weight.number)
    return [boxes for boxes in found.values() if boxes is not None], rest
