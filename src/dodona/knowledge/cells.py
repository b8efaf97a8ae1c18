"""Beliefs over the cells of a domain: support, hypothesis protocol, marginals and blocks on a support.

A belief is a public probability distribution, learned from releases alone.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple, Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dodona.errors import InvalidArgument, InvalidRequest
from dodona.query.predicate import Axes, unpack_bits
from dodona.query.query import Block, ConstantWeight, Query, block_weights, group_numbers
from dodona.schema.schema import Domain

# --- Errors of beliefs that cannot be stored, updated or used. ---


class TooManyCells(InvalidRequest):
    """A vector of weights would be larger than its limit."""

    code = "too-many-cells"

    def __init__(self, what: str, *, cells: int, limit: int, instead: str) -> None:
        """State the size, the limit, and what to use instead."""
        self.cells = cells
        self.limit = limit
        held = f"at most {format_cells(limit)} are held"
        super().__init__(f"{what} has {format_cells(cells)} cells, and {held}. {instead}")


class Contradiction(InvalidRequest):
    """No distribution that the belief can be updated to has the requested value."""

    code = "contradiction"


class SpentBelief(InvalidRequest):
    """A belief was used after it had been updated."""

    code = "spent-belief"

    def __init__(self) -> None:
        """State which belief to use instead."""
        super().__init__(
            "This belief was moved: its weights are in the belief that `tilted` returned. "
            "Use that one, or take a `copied()` before the step."
        )


def format_cells(cells: int) -> str:
    """Return a number of cells in readable form.

    >>> format_cells(1 << 27), format_cells(1_000_000), format_cells(10**20 + 7)
    ('2^27', '1,000,000', 'about 10^20.0')
    """
    if cells > 1 << 10 and cells & (cells - 1) == 0:
        return f"2^{cells.bit_length() - 1}"
    if cells < 10**9:
        return f"{cells:,}"
    digits = str(cells)[:15]
    return f"about 10^{len(str(cells)) - len(digits) + math.log10(int(digits)):.1f}"


# --- The support of a belief: the codes of each attribute that may have weight, and their product. ---


@dataclass(frozen=True, slots=True)
class Support:
    """A product of code sets, in the domain's order of attributes; the last attribute varies fastest.

    `Support.of(domain)` has every cell. `Support.values(domain)` leaves out `<missing>` and `<outside>`, so that `d`
    booleans make 2^d cells; a belief on it assumes that no row is missing or outside.
    """

    domain: Domain
    masks: tuple[int, ...]
    """For each attribute, bit i says whether code i may have weight."""
    codes: Mapping[str, NDArray[np.int64]] = field(init=False, repr=False, compare=False, hash=False)
    """The codes of each attribute, rising."""
    shape: tuple[int, ...] = field(init=False, repr=False, compare=False, hash=False)

    def __post_init__(self) -> None:
        """Raise if an attribute has no code, or a code that does not exist."""
        codes = {}
        if len(self.masks) != len(self.domain.attributes):
            raise InvalidArgument("masks", len(self.masks), f"write one for each of {len(self.domain.names)} columns")
        for place, (attribute, mask) in enumerate(zip(self.domain, self.masks, strict=True)):
            if not 0 < mask < 1 << attribute.cells:
                accepted = f"write bits of the {attribute.cells} cells, one at least"
                raise InvalidArgument(f"masks[{place}]", attribute.name, accepted)
            attribute_codes = np.flatnonzero(unpack_bits(mask, attribute.cells)).astype(np.int64, copy=False)
            codes[attribute.name] = attribute_codes
        object.__setattr__(self, "codes", codes)
        object.__setattr__(self, "shape", tuple(len(axis_codes) for axis_codes in codes.values()))

    @classmethod
    def of(cls, domain: Domain) -> Self:
        """Return the support with every cell of a domain."""
        return cls(domain, tuple((1 << attribute.cells) - 1 for attribute in domain))

    @classmethod
    def values(cls, domain: Domain) -> Self:
        """Return the support with all values, without `<missing>` and `<outside>`."""
        return cls(domain, tuple((1 << attribute.size) - 1 for attribute in domain))

    @property
    def size(self) -> int:
        """The number of cells."""
        return math.prod(self.shape)

    @property
    def axes(self) -> Axes:
        """The codes in shapes that broadcast to the product, which NumPy has for up to 64 attributes."""
        every = range(len(self.shape))
        return {
            name: codes.reshape([-1 if other == place else 1 for other in every])
            for place, (name, codes) in enumerate(self.codes.items())
        }

    def project(self, names: Iterable[str]) -> Self:
        """Return the support restricted to some attributes, in the same order."""
        domain = self.domain.project(names)
        masks = dict(zip(self.domain.names, self.masks, strict=True))
        return type(self)(domain, tuple(masks[name] for name in domain.names))

    def places(self, names: Iterable[str]) -> tuple[int, ...]:
        """Return the positions of attributes, in ascending order."""
        wanted = set(names)
        return tuple(place for place, name in enumerate(self.domain.names) if name in wanted)


# --- Inputs of a belief, and the source of randomness for samples. ---


Numbers: TypeAlias = float | Sequence[float] | NDArray[np.float64]
"""One number, or one for each answer."""


class RandomSource(Protocol):
    """The source of randomness for synthetic rows; NumPy's generators satisfy it."""

    def random(self, size: int, /) -> NDArray[np.float64]:
        """Return uniform numbers in [0, 1)."""


# --- Many marginals of one array at once; partial sums that they share are computed once. ---


Places = tuple[int, ...]
"""Numbers of attributes, rising."""
_FEW = 8


class _Node(NamedTuple):
    """A step of the plan on an array of (codes kept so far) × (cells of the remaining attributes)."""

    ends: Places | None
    """The set that is complete when all that is left is summed away; None where more is to be kept."""
    skipped: int = 1
    """How many cells are summed away first, of attributes that no set keeps."""
    length: int = 1
    """How many codes the next attribute has."""
    rest: int = 1
    """How many cells are left after it."""
    branches: tuple[_Node, ...] = ()
    """What is done with the next attribute kept and, where some sets leave it out, with it summed away."""


def compute_marginals(
    weights: NDArray[np.float64], shape: tuple[int, ...], wanted: Collection[Places]
) -> dict[Places, NDArray[np.float64]]:
    """Return, for each set of axes, the sums of an array over all other axes.

    For a set of all axes, the array itself is returned.
    """
    marginals: dict[Places, NDArray[np.float64]] = {}
    if not wanted:
        return marginals
    waiting = [(_plan(shape, tuple(sorted(set(wanted)))), np.ascontiguousarray(weights).reshape(1, -1))]
    while waiting:
        node, array = waiting.pop()
        if node.ends is not None:
            total = array.sum(axis=1) if array.shape[1] > 1 else array
            marginals[node.ends] = total.reshape([shape[place] for place in node.ends])
            continue
        if node.skipped > 1:
            array = _sum_middle(array, node.skipped, node.length * node.rest)
        keeping, *summing = node.branches
        waiting.append((keeping, array.reshape(-1, node.rest)))
        waiting.extend((branch, _sum_middle(array, node.length, node.rest)) for branch in summing)
    return marginals


@lru_cache(maxsize=32)
def _plan(shape: tuple[int, ...], wanted: tuple[Places, ...]) -> _Node:
    """Return the order of keeping and summing axes that serves all sets."""
    after = [math.prod(shape[place:]) for place in range(len(shape) + 1)]

    def planned(axis: int, kept: int, sets: list[Places]) -> _Node:
        if all(len(places) == kept for places in sets):  # all sets agree up to here and end here: they are one set
            return _Node(sets[0])
        first = min(places[kept] for places in sets if len(places) > kept)
        keeping = [places for places in sets if len(places) > kept and places[kept] == first]
        summing = [places for places in sets if len(places) == kept or places[kept] != first]
        return _Node(
            None,
            after[axis] // after[first],
            shape[first],
            after[first + 1],
            tuple(planned(first + 1, kept + way, branch) for way, branch in ((1, keeping), (0, summing)) if branch),
        )

    return planned(0, 0, list(wanted))


def _sum_middle(array: NDArray[np.float64], length: int, rest: int) -> NDArray[np.float64]:
    """Return the sum over the middle axis of (kept, length, rest)."""
    parts = array.reshape(-1, length, rest)
    if length > _FEW:
        total: NDArray[np.float64] = parts.sum(axis=1)
        return total
    total = parts[:, 0] + parts[:, 1] if length > 1 else parts[:, 0]
    for place in range(2, length):
        total += parts[:, place]
    return total


# --- Blocks on a support: simple counts are recognised, all other blocks are evaluated on small tables. ---


@dataclass(frozen=True, slots=True)
class BlockOnSupport:
    """A block evaluated on the support of a belief."""

    block: Block
    support: Support

    @property
    def count(self) -> int | None:
        """The weight of each selected row, if the block is one plain count; else None."""
        weight = self.block.weight
        return weight.number if type(weight) is ConstantWeight and weight.number and not self.block.keys else None

    @property
    def places(self) -> Places:
        """The positions of the attributes that the block depends on."""
        return self.support.places(self.block.attributes)

    @property
    def axes(self) -> Axes:
        """The codes of those attributes, in shapes that broadcast to their product."""
        places, names, codes = self.places, self.support.domain.names, self.support.codes
        return {
            names[place]: codes[names[place]].reshape([-1 if other == place else 1 for other in places])
            for place in places
        }

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of codes of each of those attributes."""
        return tuple(self.support.shape[place] for place in self.places)

    def weights(self) -> NDArray[np.float64]:
        """Return the weight of each cell of the product; 0 where it is not selected."""
        return np.broadcast_to(block_weights(self.block, self.axes), self.shape).astype(np.float64)

    def groups(self) -> NDArray[np.int64]:
        """Return the index of the answer that each cell of the product contributes to."""
        return np.broadcast_to(group_numbers(self.block.keys, self.axes), self.shape)

    def values(self, law: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the answers, from the marginal of the attributes that the block depends on."""
        weights = (self.weights() * law).reshape(-1)
        if not self.block.keys:
            return np.array([weights.sum()])
        answers: NDArray[np.float64] = np.bincount(
            self.groups().reshape(-1), weights=weights, minlength=self.block.values
        ).astype(np.float64)
        return answers


def blocks_on_support(query: Query, support: Support) -> tuple[BlockOnSupport, ...]:
    """Return the blocks of a query over the support's domain."""
    if query.domain is not support.domain and query.domain != support.domain:
        raise InvalidArgument("query", query.domain.names, f"ask about {', '.join(support.domain.names)}")
    return tuple([BlockOnSupport(block, support) for block in query.blocks])


def single_block(query: Query, support: Support) -> BlockOnSupport:
    """Return the single block of a query that updates a belief."""
    blocks = blocks_on_support(query, support)
    if len(blocks) != 1:
        raise InvalidArgument("query", f"{len(blocks)} blocks", "move a belief by one block at a time")
    return blocks[0]


def validate_numbers(given: Numbers, count: int, *, argument: str) -> NDArray[np.float64]:
    """Return finite numbers, one per answer."""
    numbers = np.asarray(given, dtype=np.float64).reshape(-1)
    if numbers.size != count:
        raise InvalidArgument(argument, f"{numbers.size} numbers", f"write {count}, one for each answer")
    if not np.isfinite(numbers).all():
        raise InvalidArgument(argument, given, "write finite numbers")
    return numbers
