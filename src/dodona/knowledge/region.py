"""Regions: the cells of a product that a predicate selects, laid out so that an update runs along memory."""

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dodona.knowledge.cells import Support
from dodona.query.predicate import EVERYTHING, Predicate, as_box, evaluate_predicate, unpack_bits

USUAL_CACHE_SIZE = 1 << 27
"""Bytes: an eighth of the largest vector of weights."""
_NOT_KEPT = "not kept"  # a marker, because None is a region without cells
_SHORTEST = 64  # cells per row
_JUMP = 2400  # cells passed along slow memory in the time of one jump ahead (measured)
_SHORT_JUMP = 100  # the same if all weights are in cache
_FAST = 1 << 18  # cells that fit in cache
_ROW = 16  # cells passed in the time it takes to start a row
_LONGEST_MASK = 1 << 12  # cells: a mask should stay in the fastest cache


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """The cells `first + j` with `mask[j]`, `j < width`, of the rows with one of the codes in each leading axis."""

    lengths: tuple[int, ...]
    """Of the leading axes; one row has `pitch` cells."""
    pitch: int
    leading: tuple[NDArray[np.int64], ...]
    """The places of the leading axes that are meant."""
    first: int
    width: int
    mask: NDArray[np.bool_] | None
    """Which cells of a row from `first` on are meant; None where all `width` of them are."""
    index: tuple[slice, ...] | None
    """The leading places as slices; None where they are none."""
    _starts: list[NDArray[np.int64]] = field(default_factory=list, repr=False)

    @property
    def held(self) -> int:
        """The size in bytes."""
        return 256 + (0 if self.mask is None else self.mask.nbytes) + 8 * math.prod(map(len, self.leading))

    @property
    def cells(self) -> int:
        """The number of selected cells."""
        within = self.width if self.mask is None else int(np.count_nonzero(self.mask))
        return within * math.prod(map(len, self.leading))

    def starts(self) -> NDArray[np.int64]:
        """Return the first cell of each selected row, in ascending order."""
        if not self._starts:  # computed on first use: only one of the two kernels needs them
            starts = np.zeros(1, dtype=np.int64)
            for length, places in zip(self.lengths, self.leading, strict=True):
                starts = np.add.outer(starts * length, places).reshape(-1)
            self._starts.append(starts * self.pitch + self.first)
        return self._starts[0]


def find_region(predicate: Predicate, support: Support) -> Region | None:
    """Return the cells that a predicate selects; None if there are none."""
    sets = as_box(predicate)
    if sets is None:
        mask = np.broadcast_to(evaluate_predicate(predicate, support.axes), support.shape).reshape(-1)
        return _trim((), (), mask, 0)
    shape, chosen = support.shape, [np.ones(length, dtype=np.bool_) for length in support.shape]
    for code_set in sets:
        place = support.domain.names.index(code_set.attribute)
        chosen[place] &= unpack_bits(code_set.codes, code_set.cells)[support.codes[code_set.attribute]]
    if not all(axis_mask.any() for axis_mask in chosen):
        return None
    jump = _JUMP if support.size > _FAST else _SHORT_JUMP
    cut = _cut(shape, chosen, jump)
    mask = np.ones(1, dtype=np.bool_)
    for axis_mask in chosen[cut:]:
        mask = np.logical_and.outer(mask, axis_mask).reshape(-1)
    return _trim(shape[:cut], tuple(map(np.flatnonzero, chosen[:cut])), mask, jump)


def _cut(shape: tuple[int, ...], chosen: list[NDArray[np.bool_]], jump: int) -> int:
    """Return the number of leading attributes that makes a pass over the rows fastest."""
    best, fewest = 0, math.inf
    counts = [int(np.count_nonzero(axis_mask)) for axis_mask in chosen]
    rows, pitch, width = math.prod(counts), 1, 1
    for cut in range(len(shape) - 1, -1, -1):
        rows //= counts[cut]
        # From the first selected cell to the last: whole stretches of the trailing attributes, and their ends.
        width += (shape[cut] - 1 - int(chosen[cut][::-1].argmax()) - int(chosen[cut].argmax())) * pitch
        pitch *= shape[cut]
        runs = rows  # runs of adjacent rows
        for place in range(cut - 1, -1, -1):
            if counts[place] < shape[place]:
                break
            runs //= shape[place]
        cost = rows * (_ROW + min(pitch, width + jump)) + runs * jump
        if cost < fewest and (pitch >= _SHORTEST or cut == 0) and (pitch <= _LONGEST_MASK or math.isinf(fewest)):
            best, fewest = cut, cost
    return best


def _trim(
    lengths: tuple[int, ...], leading: tuple[NDArray[np.int64], ...], mask: NDArray[np.bool_], jump: int
) -> Region | None:
    """Return the region without the unselected ends of its rows, if that saves more than a jump costs."""
    if not mask.any():
        return None
    first, last = int(mask.argmax()), len(mask) - int(mask[::-1].argmax())
    if leading and last - first + jump > len(mask):
        first, last = 0, len(mask)
    kept = None if mask[first:last].all() else np.ascontiguousarray(mask[first:last])
    slices = tuple(map(_slice, leading))
    index = tuple(part for part in slices if part is not None)
    whole = index if len(index) == len(slices) else None
    return Region(lengths, len(mask), leading, first, last - first, kept, whole)


def _slice(places: NDArray[np.int64]) -> slice | None:
    """Return evenly spaced positions as a slice."""
    step = int(places[1] - places[0]) if len(places) > 1 else 1
    if len(places) > 1 and (np.diff(places) != step).any():
        return None
    return slice(int(places[0]), int(places[-1]) + 1, step)


class RegionCache:
    """A cache of the most recently used regions of one support, by predicate."""

    __slots__ = ("_held", "_kept", "_room", "_support")

    def __init__(self, support: Support, *, room: int = USUAL_CACHE_SIZE) -> None:
        """Take the support and the capacity in bytes."""
        self._support = support
        self._room = room
        self._kept: dict[Predicate, Region | None] = {}
        self._held = 0

    def of(self, predicate: Predicate = EVERYTHING) -> Region | None:
        """Return the region of a predicate, cached or computed."""
        kept = self._kept.get(predicate, _NOT_KEPT)
        if not isinstance(kept, str):
            return kept
        region = find_region(predicate, self._support)
        self._held += _region_size(region)
        self._kept[predicate] = region
        while self._held > self._room and len(self._kept) > 1:  # evict the oldest first
            self._held -= _region_size(self._kept.pop(next(iter(self._kept))))
        return region


def _region_size(region: Region | None) -> int:
    return 256 if region is None else region.held
